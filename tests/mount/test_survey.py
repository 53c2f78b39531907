"""What shufflefs-order says of an order, against plain Python that looks at the samples themselves.

The samples come from the program's own list, which test_order.py holds against torch and against mounts.
"""
import collections
import json
import math
import os
import resource
import statistics
import subprocess
import time
import xml.etree.ElementTree

import harness
import tars
from harness import MountCase

BINS = 1024
SVG = "{http://www.w3.org/2000/svg}"


def entropy(things):
    counts = collections.Counter(things)
    total = sum(counts.values())
    return -sum(count / total * math.log2(count / total) for count in counts.values())


def differences(values, modulus):
    bins = min(modulus, BINS)
    return [(after - before) % modulus * bins // modulus for before, after in values]


def neighbours(ranks):
    return [pair for rank in ranks for pair in zip(rank, rank[1:])]


def runs(rank, shard_of):
    lengths = []
    for before, sample in zip([None] + rank, rank):
        if before is not None and shard_of[before] == shard_of[sample]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def figures(ranks, shard_of, label_of, batch):
    """The figures that need no blocks, of all ranks' lists of samples."""
    shards = max(shard_of) + 1
    pairs = neighbours(ranks)
    lengths = [length for rank in ranks for length in runs(rank, shard_of)]
    job = [rank[position] for position in range(max(map(len, ranks))) for rank in ranks if position < len(rank)]
    batches = [[label_of[sample] for sample in job[start:start + batch]] for start in range(0, len(job), batch)]
    full = [classes for classes in batches if len(classes) == batch] or batches
    return {
        "sample_entropy": entropy(differences(pairs, len(shard_of))),
        "shard_entropy": entropy(differences([(shard_of[a], shard_of[b]) for a, b in pairs], shards)),
        "shard_run_mean": sum(map(len, ranks)) / len(lengths),
        "shard_run_longest": max(lengths),
        "batch_classes": statistics.mean(len(set(classes)) for classes in full),
        "batch_class_entropy": statistics.mean(entropy(classes) for classes in full),
        "seeks": sum(1 for rank in ranks for a, b in zip([None] + rank, rank)
                     if a is None or b != a + 1 or shard_of[a] != shard_of[b]),
    }


class Survey(MountCase):
    N, SHARDS, CLASSES = 600, 5, 12

    def setUp(self):
        super().setUp()
        self.program = harness.binary("shufflefs-order")
        if not os.access(self.program, os.X_OK):
            self.skipTest("needs shufflefs-order")

    def make(self):
        """Classes in rising order, as shards that nobody shuffled have them."""
        self.data = tars.make_dataset(self.tmp / "shards", self.N, shards=self.SHARDS,
                                      cls=lambda i: b"%d" % (7 * (i * self.CLASSES // self.N)))
        self.shard_of = [self.data.shards.index(sample.shard) for sample in self.data.samples]
        self.label_of = [i * self.CLASSES // self.N for i in range(self.N)]
        return self.data.shards

    def run_program(self, *words):
        result = harness.run([self.program, *words])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def json(self, *words):
        return json.loads(self.run_program("--json", *words))

    def ranks(self, *words):
        return [rank["samples"] for rank in self.json("--rank", "all", *words)["ranks"]]

    def assert_figures(self, told, expected):
        for name, value in expected.items():
            self.assertAlmostEqual(told[name]["value"], value, 6, name)

    # -- quality

    def test_figures_are_those_of_the_samples_listed(self):
        shards = self.make()
        contiguous = ("--order", "contiguous")
        for words, batch in ((("--world", 3, "--seed", 4), 32), ((*contiguous, "--world", 4), 24),
                             ((*contiguous, "--world", 7, "--remainder", "keep"), 30),
                             (("--after", 123, "--world", 2, "--order", "sequential"), 256),
                             (("--order", "feistel", "--epoch", 2, "--drop-last", "--world", 7), 16),
                             (("--order", "resampled", "--epoch-samples", 900), 64),
                             (("--epoch-samples", 1500, "--epoch", 1), 64)):
            with self.subTest(words=words):
                told = self.json("--quality", "--batch", batch, *words, *shards)
                expected = figures(self.ranks(*words, *shards), self.shard_of, self.label_of, batch)
                self.assert_figures(told["orders"][0]["figures"], expected)
                for name, figure in told["orders"][0]["figures"].items():
                    full = told["full_shuffle"][name]
                    self.assertEqual(figure["value"] is None, full is None)
                    if full:
                        self.assertAlmostEqual(figure["ratio"], figure["value"] / full, 6)

    def test_a_sequential_epoch_has_the_figures_that_hands_work_out(self):
        shards = self.make()
        told = self.json("--quality", "--order", "sequential", "--batch", 50, *shards)["orders"][0]["figures"]
        self.assert_figures(told, {"sample_entropy": 0, "shard_run_mean": 120, "shard_run_longest": 120, "seeks": 5,
                                   "batch_classes": 1, "batch_class_entropy": 0,
                                   "shard_entropy": entropy([0] * 595 + [1] * 4)})

    def test_a_true_permutation_is_a_full_shuffle_to_within_chance(self):
        for order in ("torch", "feistel"):
            with self.subTest(order=order):
                told = self.json("--quality", "-n", 100000, "--order", order)["orders"][0]["figures"]
                self.assertAlmostEqual(told["sample_entropy"]["ratio"], 1, 2)
                self.assertAlmostEqual(told["seeks"]["ratio"], 1, 3)
        shards = self.make()
        told = self.json("--quality", *shards)
        self.assertEqual(told["shuffles"], 400)
        # The reference is means of many, this is one epoch.
        for name in ("shard_entropy", "batch_classes", "batch_class_entropy"):
            self.assertAlmostEqual(told["orders"][0]["figures"][name]["ratio"], 1, 1)
        self.assertAlmostEqual(told["full_shuffle"]["shard_run_mean"], 599 / (599 * (1 - 119 / 599)), 2)

    def test_orders_side_by_side_are_each_as_by_itself(self):
        shards = self.make()
        common = ("--quality", "--world", 2, "--seed", 3, "--batch", 40, *shards)
        block = ("--order", "block", "--block", "16K", "--window", 2, "--streams", 4)
        told = self.json(*common, *block, "--against", "torch:epoch=5", "--against", "sequential", "--against",
                         "block:block=16K,window=3,streams=4")
        self.assertEqual([order["order"] for order in told["orders"]],
                         ["block:block=16K,window=2,streams=4", "torch:epoch=5", "sequential",
                          "block:block=16K,window=3,streams=4"])
        for order, words in zip(told["orders"][:3], (block, ("--epoch", 5), ("--order", "sequential"))):
            ranks = self.ranks("--world", 2, "--seed", 3, *words, *shards)
            self.assert_figures(order["figures"], figures(ranks, self.shard_of, self.label_of, 40))
        self.assertEqual(told["orders"][1]["epoch"], 5)
        # Two ranks with two streams each, of at most 3 blocks, twice.
        self.assertEqual(told["kept_blocks"], 12)
        # Every block once, and again where it is parted between two streams.
        reads = told["orders"][0]["figures"]["block_reads"]["value"]
        self.assertTrue(told["blocks"] <= reads <= told["blocks"] + 3, (reads, told["blocks"]))
        self.assertGreater(told["full_shuffle"]["block_reads"], 5 * told["blocks"])
        text = self.run_program(*common, *block, "--against", "sequential")
        self.assertEqual([name for name in ("block:block=16K,window=2,streams=4", "sequential", "full shuffle")
                          if name not in text], [])

    def test_an_order_side_by_side_has_the_lengths_of_the_same_fields(self):
        """Sorted by their texts, the samples stand in another order than by their pictures."""
        shard = tars.write_shard(self.tmp / "a.tar", [
            (b"%03d.%s" % (i, field), b"x" * size) for i in range(256)
            for field, size in ((b"jpg", 1 + i), (b"txt", 1 + i * 37 % 256))])
        first, other = self.json("--quality", "--batch", 16, "-o", "fields=txt:jpg", "--order", "length", "--lengths",
                                 "size", "--bucket", 16, "--against", "length:lengths=size,bucket=16", shard)["orders"]
        self.assertEqual(first["figures"], other["figures"])

    def test_a_window_that_is_too_small_is_told_with_one_that_would_do(self):
        shards = self.make()
        words = ["--quality", "--order", "block", "--block", "64K", "--streams", 2, *shards]
        small = self.json(*words, "--window", 1)["orders"][0]["window"]
        self.assertEqual(small["asked"], 1)
        self.assertLess(small["ratio"], 0.95)
        self.assertGreater(small["enough"], 1)
        text = self.run_program(*words, "--window", 1)
        self.assertIn("window=%d would do" % small["enough"], text)
        enough = self.json(*words, "--window", small["enough"])["orders"][0]["window"]
        self.assertGreaterEqual(enough["ratio"], 0.95)
        self.assertIn("window=%d is enough" % small["enough"], self.run_program(*words, "--window", small["enough"]))

    def test_how_far_it_is_shows_on_a_terminal_alone(self):
        # It shows after a tenth of a second, which quick machines need more samples for.
        slow = {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ)
        samples, said, took = 300000 if slow else 3000000, b"", 0
        while b"measuring" not in said:
            self.assertLess(took, 5, "nothing shows after so long: " + repr(said))
            words = (self.program, "-n", samples, "--quality", "--order", "sequential")
            start = time.monotonic()
            code, said = harness.on_terminal(words)
            took = time.monotonic() - start
            self.assertEqual(code, 0)
            samples *= 4
        self.assertEqual(harness.run(words).stderr, "")

    # -- table

    def test_the_table_is_what_the_ranks_have(self):
        runs_of = ("--order", "contiguous")
        for order, deal in (((), ()), ((), ("--drop-last",)), ((), ("--remainder", "keep")), (runs_of, ()),
                            (runs_of, ("--window", 3)), ((), ("--after", 20)), (("--order", "sequential"), ()),
                            (runs_of, ("--remainder", "keep")), (("--epoch-samples", 70, "--epoch", 3), ())):
            words = ("-n", 50, *order, *deal)
            with self.subTest(words=words):
                told = self.json("--table", "--world", 11, "--samples", 1000, *words)
                self.assertEqual([row["world"] for row in told["worlds"]], [1, 2, 4, 8, 11])
                epoch = self.ranks("-n", 50, *order)[0][20 if "--after" in deal else 0:]
                for row in told["worlds"]:
                    ranks = self.ranks("--world", row["world"], *words)
                    reads = sum(map(len, ranks))
                    again = collections.Counter(sample for rank in ranks for sample in rank)
                    again.subtract(epoch)
                    self.assertEqual((row["shortest_rank"], row["longest_rank"], row["reads"]),
                                     (min(map(len, ranks)), max(map(len, ranks)), reads))
                    self.assertEqual(row["padding"], sum(count for count in again.values() if count > 0))
                    self.assertEqual(row["dropped"], -sum(count for count in again.values() if count < 0))
                    self.assertAlmostEqual(row["padding_share"], row["padding"] / reads, 8)
                self.assertEqual(sorted(set(told["repeated"])), sorted(s for s, count in again.items() if count > 0))

    def test_an_order_that_draws_is_counted(self):
        words = ("-n", 200, "--order", "resampled", "--seed", 6, "--world", 3)
        times = collections.Counter(self.ranks("-n", 200, "--order", "resampled", "--seed", 6)[0])
        told = self.json("--table", *words)["drawn"]
        self.assertEqual(told["distinct"], len(times))
        self.assertEqual(told["times"], max(times.values()))
        self.assertEqual(told["most_frequent"], min(s for s, count in times.items() if count == told["times"]))
        self.assertNotIn("drawn", self.json("--table", "-n", 200))

    def test_a_table_without_samples_works_out_no_order(self):
        # Its table would not fit anywhere.
        text = self.run_program("-n", 10 ** 18, "--world", 7, "--table", "--samples", 0)
        self.assertIn("142,857,142,857,142,858", text)

    @harness.needs_plain_build
    def test_an_order_that_does_not_fit_memory_is_refused(self):
        for words in (["--table", "--world", 7], ["--samples", 1], ["--quality"]):
            self.refused([self.program, "-n", 10 ** 18, *words], 1, "memory")

    # -- shards

    def test_shards_are_those_that_the_ranks_samples_stand_in(self):
        shards = self.make()
        sizes = [os.path.getsize(shard) for shard in shards]
        size_of = [sum(map(len, sample.fields.values())) for sample in self.data.samples]

        def counts(samples):
            touched = {self.shard_of[sample] for sample in samples}
            return [len(touched), len(samples), sum(size_of[sample] for sample in samples),
                    sum(sizes[shard] for shard in touched)]
        for words in (("--world", 4), ("--world", 3, "--order", "contiguous"), ("--world", 700, "--remainder", "keep")):
            with self.subTest(words=words):
                expected = [counts(rank) for rank in self.ranks(*words, *shards)]
                lines = self.run_program("--shards", "--rank", "all", *words, *shards).splitlines()
                self.assertEqual([list(map(int, line.split("\t"))) for line in lines],
                                 [[rank, *each] for rank, each in enumerate(expected)])
                told = self.json("--shards", *words, *shards)
                self.assertNotIn("ranks", told)
                for at, name in enumerate(("shards", "samples", "bytes", "shard_bytes")):
                    values = [each[at] for each in expected]
                    self.assertEqual(told["touched"][name], {"smallest": min(values), "largest": max(values),
                                                             "median": statistics.median(values)})
                one = self.json("--shards", "--rank", 1, *words, *shards)["ranks"]
                self.assertEqual([list(each.values()) for each in one], [[1, *expected[1]]])

    def test_every_part_is_told_by_itself(self):
        shards = self.make()
        words = ("--world", 2, "--order", "contiguous", "--by", 10, *shards)
        told = self.json("--shards", "--rank", "all", "--part", "all-of-3", *words)
        self.assertEqual(told["parts"], 3)
        for share in told["ranks"]:
            part = self.json("--rank", share["rank"], "--part", "%d-of-3" % share["part"], *words)
            samples = part["ranks"][0]["samples"]
            self.assertEqual(share["samples"], len(samples))
            self.assertEqual(share["shards"], len({self.shard_of[sample] for sample in samples}))
        self.assertEqual(len(told["ranks"]), 6)
        line = self.run_program("--shards", "--rank", 1, "--part", "2-of-3", *words)
        expected = [told["ranks"][5][name] for name in ("shards", "samples", "bytes", "shard_bytes")]
        self.assertEqual(list(map(int, line.split())), [1, *expected])

    # -- picture

    def dots(self, panel):
        """Each dot as (place, sample), 0 to 1, of a panel 480 by 360 at 110, 34."""
        path = next(path for path in panel.iter(SVG + "path") if path.get("stroke-linecap") == "round")
        for dot in path.get("d").split("M")[1:]:
            x, y = dot.replace("h0", "").split()
            yield (float(x) - 110) / 480, (float(y) - 34) / 360

    def test_a_picture_shows_each_sample_at_its_place(self):
        shards = self.make()
        text = self.run_program("--svg", "-", "--world", 2, "--against", "sequential", *shards)
        panels = xml.etree.ElementTree.fromstring(text).findall(SVG + "g")
        self.assertEqual([panel.find(SVG + "text").text for panel in panels],
                         ["torch, 2 ranks in turn", "sequential, 2 ranks in turn"])
        for panel, words in zip(panels, ((), ("--order", "sequential"))):
            ranks = self.ranks("--world", 2, *words, *shards)
            expected = [ranks[place % 2][place // 2] for place in range(600)]
            shown = [(round(x * 600 - 0.5), round(y * 600 - 0.5)) for x, y in self.dots(panel)]
            self.assertEqual(shown, list(enumerate(expected)))

    def test_a_picture_of_any_size_is_small_valid_and_the_same_again(self):
        for words in (("-n", 0), ("-n", 1), ("-n", 10 ** 18, "--order", "feistel", "--world", 7),
                      ("-n", 30000, "--world", 4, *["--against", "torch:seed=5"] * 15)):
            with self.subTest(words=words):
                file = self.tmp / "picture.svg"
                self.assertEqual(self.run_program("--svg", file, *words), "")
                data = harness.read(file)
                self.assertLess(len(data), 1000000)
                panels = xml.etree.ElementTree.fromstring(data.decode()).findall(SVG + "g")
                self.assertEqual(len(panels), 16 if "--against" in words else 1)
                self.assertEqual(self.run_program("--svg", "-", *words).encode(), data)

    def test_dots_of_a_long_epoch_do_not_fall_in_step_with_streams(self):
        # Dots at an even distance would show a single one of the eight runs that the ranks read.
        text = self.run_program("--svg", "-", "-n", 8 * 5000, "--order", "contiguous", "--world", 8)
        panel = xml.etree.ElementTree.fromstring(text).find(SVG + "g")
        dots = list(self.dots(panel))
        self.assertEqual(len(dots), 5000)
        seen = collections.Counter(int(y * 8) for _, y in dots)
        self.assertEqual(len(seen), 8)
        self.assertGreater(min(seen.values()), 400)

    # -- errors

    def test_options_that_contradict_each_other_are_named(self):
        for words, *names in ((["--table", "--quality"], "--table", "--quality"),
                              (["--table", "--keys"], "--keys", "--table"), (["--batch", "3"], "--batch", "--quality"),
                              (["--against", "torch"], "--against", "--quality", "--svg"),
                              (["--quality", "--rank", "0"], "--rank"), (["--by", "3"], "--by", "--part"),
                              (["--part", "all-of-2"], "all-of-2", "--shards"),
                              (["--shards"], "--shards", "needs shards"),
                              (["--svg", "-", "--quality"], "--svg -"), (["--svg", "-", "--json"], "--json"),
                              (["--svg", "x", "--table"], "--svg", "--table"),
                              (["--part", "2-of-2"], "2-of-2"), (["--part", "0-of-0"], "0-of-0"),
                              (["--part", "01-of-2"], "01-of-2"), (["--part", "1"], "--part 1"),
                              (["--window", "3"], "window", "torch"), (["--order", "weighted"], "weights"),
                              (["--after", "3", "--order", "contiguous"], "--after", "contiguous"),
                              (["--after", "3", "--quality", "--against", "contiguous"], "--after", "contiguous"),
                              (["--quality", "--against", "nothing"], "nothing"),
                              (["--quality", "--against", "torch:world=3"], "world", "seed"),
                              (["--quality", "--against", "torch:window=3"], "window", "torch"),
                              (["--quality", *["--against", "torch"] * 16], "16")):
            with self.subTest(words=words):
                self.refused([self.program, "-n", 10, *words], 2, *names)
        for words, *names in ((["--after", "11"], "--after 11", "10"), (["--quality", "--world", "11"], "--quality"),
                              (["--order", "block"], "block", "shards"), (["--svg", "/dev/full"], "/dev/full")):
            with self.subTest(words=words):
                self.refused([self.program, "-n", 10, *words], 1, *names)

    # -- scale

    def used(self, *words):
        """Seconds of processor and KiB of memory that a run takes."""
        with subprocess.Popen([self.program, *map(str, words)], stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    def test_orders_that_are_computed_take_the_same_time_and_memory_for_any_n(self):
        for order in ("sequential", "contiguous", "feistel"):
            for share in (("--world", 16, "--rank", 5), ("--world", 8, "--rank", 7, "--part", "3-of-4", "--by", 2)):
                words = ("--order", order, "--samples", 1000, *share, "-n")
                with self.subTest(words=words):
                    least = min(self.used(*words, 10 ** 3) for _ in range(3))
                    for n in (10 ** 9, 10 ** 18):
                        used = min(self.used(*words, n) for _ in range(3))
                        # A table of 10^9 samples is 4,000,000 KiB, and seconds to fill.
                        self.assertLess(used[0], least[0] + 0.1)
                        self.assertLess(used[1], least[1] + 1024)
                    self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 20)
