"""The order a mount shows is torch's, bit for bit, for every rank, world, seed and epoch."""
import collections
import itertools
import json
import os
import unittest

import harness
import tars
import torch_order
from harness import MountCase

with open(harness.HERE.parent / "data" / "torch-order.json", encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)


def options_of(entry):
    return "world=%d,seed=%d,order=%s,remainder=%s" % (
        entry["world"], entry["seed"], "torch" if entry["shuffle"] else "sequential",
        "drop" if entry["drop_last"] else "pad")


def keyed_indices(mount, *folder):
    """Sample numbers from a rank-R.keys listing; the names' positions must count up."""
    indices = []
    for position, name in enumerate(mount.list(*folder)):
        place, key = name.split(".")[0].split("_", 1)
        assert place == "%08d" % position, "%s at %d" % (name, position)
        indices.append(int(key.lstrip("s")))
    return indices


class Reference(unittest.TestCase):
    def test_reference_equals_torch_vectors(self):
        for entry in GOLDEN["randperm"]:
            order = torch_order.randperm(entry["n"], entry["seed"])
            self.assertEqual(list(order[:len(entry["first"])]), entry["first"])
            self.assertEqual(torch_order.digest(order), entry["sha256"])
        for entry in GOLDEN["distributed"]:
            for rank in entry["ranks"]:
                order = torch_order.rank_order(entry["n"], entry["world"], rank["rank"], entry["seed"], entry["epoch"],
                                               entry["shuffle"], "drop" if entry["drop_last"] else "pad")
                self.assertEqual(len(order), rank["len"])
                self.assertEqual(torch_order.digest(order), rank["sha256"])


class GoldenVectors(MountCase):
    def check(self, entries, shards_of):
        for options, group in itertools.groupby(entries, key=lambda e: (e["n"], options_of(e))):
            mount = self.mount(shards_of(options[0]), options[1])
            for entry in group:
                for rank in entry["ranks"]:
                    with self.subTest(n=options[0], options=options[1], epoch=entry["epoch"], rank=rank["rank"]):
                        indices = keyed_indices(mount, "epoch-%d" % entry["epoch"], "rank-%d.keys" % rank["rank"])
                        self.assertEqual(indices[:len(rank["first"])], rank["first"])
                        self.assertEqual(len(indices), rank["len"])
                        self.assertEqual(torch_order.digest(indices), rank["sha256"])
            mount.unmount()

    def test_listings_equal_torch_vectors(self):
        made = {}

        def shards_of(n):
            if n not in made:
                made[n] = tars.make_dataset(self.tmp / str(n), n, shards=3, fields=("bin",), size=lambda i: 1).shards
            return made[n]
        self.check([e for e in GOLDEN["distributed"] if e["n"] <= 10000], shards_of)

    @harness.slow
    @harness.limit(600)
    def test_listings_of_1281167_samples_equal_torch_vectors(self):
        shards = []

        def shards_of(n):
            if not shards:
                for s in range(8):
                    first, end = n * s // 8, n * (s + 1) // 8
                    shards.append(tars.write_many(self.tmp / ("many-%d.tar" % s), first, end - first))
            return shards
        self.check([e for e in GOLDEN["distributed"] if e["n"] > 10000], shards_of)

    @harness.slow
    @harness.limit(600)
    def test_a_whole_epoch_of_1281167_samples_is_listed_and_read_right(self):
        n = 1281167
        shards = [tars.write_many(self.tmp / "many.tar", 0, n)]
        mount = self.mount(shards)
        indices = keyed_indices(mount, "epoch-0", "rank-0.keys")
        self.assertEqual(indices, torch_order.rank_order(n, 1, 0))
        names = mount.list("current", "rank-0")
        self.assertEqual(names, ["%08d.bin" % position for position in range(n)])
        for position in range(0, n, 997):
            self.assertEqual(mount.read("current", "rank-0", names[position]), b"%07d\n0\n" % indices[position])


class Ranks(MountCase):
    """What torch promises of all ranks together."""

    def counts(self, mount, world, epoch=0):
        """How often each sample is read by all ranks, and the ranks' lengths."""
        seen, lengths = collections.Counter(), []
        for rank in range(world):
            indices = keyed_indices(mount, "epoch-%d" % epoch, "rank-%d.keys" % rank)
            seen.update(indices)
            lengths.append(len(indices))
        return seen, lengths

    def test_pad_repeats_exactly_the_padding_and_loses_none(self):
        for n, world in ((10, 4), (100, 7), (5, 8), (3, 8), (1, 3), (12, 4)):
            with self.subTest(n=n, world=world):
                data_set = tars.make_dataset(self.tmp / str(n), n, shards=1)
                mount = self.mount(data_set.shards, "world=%d" % world)
                seen, lengths = self.counts(mount, world)
                self.assertEqual(set(seen), set(range(n)))
                self.assertEqual(set(lengths), {-(-n // world)})
                extra = sum(seen.values()) - n
                self.assertEqual(extra, -(-n // world) * world - n)
                self.assertEqual(mount.status()["padding"], extra)
                mount.unmount()

    def test_drop_gives_equal_ranks_without_repeats(self):
        for n, world, option in ((10, 4, "remainder=drop"), (100, 7, "drop_last"), (5, 8, "remainder=drop")):
            with self.subTest(n=n, world=world):
                data_set = tars.make_dataset(self.tmp / str(n), n, shards=1)
                mount = self.mount(data_set.shards, "world=%d,%s" % (world, option))
                seen, lengths = self.counts(mount, world)
                self.assertEqual(set(lengths), {n // world})
                self.assertEqual(sum(seen.values()), len(seen))
                for rank in range(world):
                    expected = torch_order.rank_order(n, world, rank, remainder="drop")
                    self.assert_rank(mount, data_set, expected, "current", "rank-%d" % rank)
                mount.unmount()

    def test_keep_gives_each_sample_once(self):
        for n, world in ((10, 4), (100, 7), (5, 8)):
            with self.subTest(n=n, world=world):
                data_set = tars.make_dataset(self.tmp / str(n), n, shards=1)
                mount = self.mount(data_set.shards, "world=%d,remainder=keep" % world)
                seen, lengths = self.counts(mount, world)
                self.assertEqual(seen, collections.Counter(range(n)))
                self.assertEqual(lengths, [len(range(rank, n, world)) for rank in range(world)])
                for rank in range(world):
                    expected = torch_order.rank_order(n, world, rank, remainder="keep")
                    self.assert_rank(mount, data_set, expected, "current", "rank-%d" % rank)
                mount.unmount()

    def test_any_other_world_opens_at_any_time(self):
        n = 50
        data_set = tars.make_dataset(self.tmp / "shards", n)
        mount = self.mount(data_set.shards, "world=2,seed=9")
        for world in (1, 3, 4, 64):
            for rank in {0, world // 2, world - 1}:
                name = "rank-%d-of-%d" % (rank, world)
                for epoch in (0, 4):
                    expected = torch_order.rank_order(n, world, rank, 9, epoch)
                    self.assert_rank(mount, data_set, expected, "epoch-%d" % epoch, name)
                expected = torch_order.rank_order(n, world, rank, 9, 0)
                self.assert_rank(mount, data_set, expected, "current", name)
                self.assertEqual(keyed_indices(mount, "current", name + ".keys"), expected)

    def test_only_the_low_32_bits_of_seed_plus_epoch_count(self):
        n = 40
        data_set = tars.make_dataset(self.tmp / "shards", n)
        mount = self.mount(data_set.shards, "seed=4294967294")
        for epoch in (0, 1, 2, 3, 4294967298, 2 ** 63 - 1):
            expected = torch_order.rank_order(n, 1, 0, 4294967294, epoch)
            self.assert_rank(mount, data_set, expected, "epoch-%d" % epoch, "rank-0")

    def test_epoch_option_chooses_what_current_shows_first(self):
        data_set = tars.make_dataset(self.tmp / "shards", 30)
        mount = self.mount(data_set.shards, "epoch=12,seed=3,world=2")
        self.assertEqual(mount.read(".control", "epoch").split(), [b"12"])
        for rank in (0, 1):
            expected = torch_order.rank_order(30, 2, rank, 3, 12)
            self.assert_rank(mount, data_set, expected, "current", "rank-%d" % rank)


class OrderProgram(MountCase):
    """shufflefs-order prints what the mount shows."""

    def setUp(self):
        super().setUp()
        self.program = harness.binary("shufflefs-order")
        if not os.access(self.program, os.X_OK):
            self.skipTest("needs shufflefs-order")

    def lines(self, *arguments):
        result = harness.run([self.program, *arguments])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.splitlines()

    def test_order_of_n_equals_torch_vectors(self):
        for entry in GOLDEN["distributed"]:
            for rank in entry["ranks"]:
                words = ["-n", entry["n"], "--world", entry["world"], "--rank", rank["rank"],
                         "--epoch", entry["epoch"], "--seed", entry["seed"]]
                words += ["--drop-last"] * entry["drop_last"] + ["--order", "sequential"] * (not entry["shuffle"])
                with self.subTest(words=words):
                    indices = [int(line) for line in self.lines(*words)]
                    self.assertEqual(torch_order.digest(indices), rank["sha256"])

    def test_order_of_shards_equals_the_mount(self):
        data_set = tars.make_dataset(self.tmp / "shards", 60, shards=3)
        mount = self.mount(data_set.shards, "world=4,seed=5")
        words = ["--world", 4, "--rank", 2, "--epoch", 3, "--seed", 5]
        indices = [int(line) for line in self.lines(*data_set.shards, *words)]
        self.assertEqual(indices, keyed_indices(mount, "epoch-3", "rank-2.keys"))
        keys = [line.split("\t")[-1] for line in self.lines("--keys", *data_set.shards, *words)]
        self.assertEqual(keys, [data_set.samples[i].key.decode() for i in indices])

    def test_resumed_epochs_and_parts_are_dealt_as_plain_python_deals_them(self):
        for n, world, after, parts, run in ((50, 4, 0, 3, 4), (50, 4, 13, 2, 1), (7, 3, 7, 2, 2), (40, 5, 38, 4, 3)):
            for remainder in ("pad", "drop", "keep"):
                tail = list(torch_order.epoch_order(n, 8, 1))[after:]
                left = len(tail) % world
                if remainder == "drop":
                    tail = tail[:len(tail) - left]
                elif remainder == "pad" and left:
                    tail += itertools.islice(itertools.cycle(list(tail)), world - left)
                words = ["-n", n, "--seed", 8, "--epoch", 1, "--world", world, "--after", after,
                         "--remainder", remainder]
                for part in (None, *range(parts)):
                    more = [] if part is None else ["--part", "%d-of-%d" % (part, parts), "--by", run]
                    expected = ["%d\t%d" % (rank, sample) for rank in range(world)
                                for place, sample in enumerate(tail[rank::world])
                                if part is None or place // run % parts == part]
                    with self.subTest(words=words, more=more):
                        self.assertEqual(self.lines(*words, "--rank", "all", *more), expected)

    def test_resumed_epochs_and_parts_equal_the_mount(self):
        data_set = tars.make_dataset(self.tmp / "shards", 60, shards=3)
        mount = self.mount(data_set.shards, "world=4,seed=5")
        words = [*data_set.shards, "--world", 4, "--rank", 2, "--epoch", 3, "--seed", 5]
        for name, more in (("rank-2-of-4.after-7", ["--after", 7]),
                           ("rank-2-of-4.part-1-of-3.by-2", ["--part", "1-of-3", "--by", 2]),
                           ("rank-2-of-4.after-7.part-1-of-3", ["--after", 7, "--part", "1-of-3"])):
            with self.subTest(name=name):
                indices = [int(line) for line in self.lines(*words, *more)]
                self.assertEqual(indices, keyed_indices(mount, "epoch-3", name + ".keys"))

    def test_json_tells_what_the_lines_tell(self):
        shards = tars.make_dataset(self.tmp / "shards", 30, shards=2, key=lambda i: b"\"%d\\\xc3\xa9" % i).shards
        shards += tars.make_dataset(self.tmp / "odd", 1, shards=1, key=lambda i: b"\xff").shards
        words = ["--world", 3, "--part", "0-of-2", "--by", 3, "--after", 4, "--epoch-samples", 40, "--samples", 5,
                 *shards]
        lines = self.lines("--rank", "all", "--keys", *words)
        told = json.loads("\n".join(self.lines("--json", "--rank", "all", "--keys", *words)))
        head = {"samples": 31, "world": 3, "after": 4, "part": 0, "parts": 2, "by": 3, "epoch_samples": 40}
        self.assertEqual({name: told[name] for name in head}, head)
        shown = ["%d\t%d\t%s" % (rank["rank"], sample["sample"], sample["key"] or "\udcff")
                 for rank in told["ranks"] for sample in rank["samples"]]
        self.assertEqual(shown, lines)
        self.assertEqual([rank["length"] for rank in told["ranks"]], [6, 6, 6])
        self.assertTrue(any("\udcff" in line for line in self.lines("--keys", *shards)))

    def test_bad_arguments_are_named(self):
        for words, name in ((["-n", "10", "--world", "2", "--rank", "2"], "2"),
                            (["-n", "10", "--rank", "1"], "rank 0 alone"), (["-n", "x"], "x"),
                            (["-n", "10", "--world", "0"], "0"), (["-n", "10", "--epoch", "-1"], "-1"),
                            (["-n", "10", "--order", "nothing"], "nothing")):
            with self.subTest(words=words):
                self.refused([self.program, *words], 2, name)
