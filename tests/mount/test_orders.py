"""Each order through a mount: what it is exact against, shufflefs-order's own output, and what is refused."""
import collections
import json
import os

import harness
import own_orders
import tars
import torch_order
from harness import MountCase
from test_order import GOLDEN

N = 90
WEIGHTS = [(i * 7 % 11) / 3 for i in range(N)]
LENGTHS = [i * 37 % 1009 for i in range(N)]
CLASSES = [(i * i) % 4 if i % 10 else 9 for i in range(N)]
BALANCED = [1 / CLASSES.count(label) for label in CLASSES]


def size_of(sample):
    return 200 + sample * 257 % 1200


class OrdersCase(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, shards=3, size=size_of,
                                          cls=lambda i: b"%d" % CLASSES[i])
        self.weights = self.numbers("weights", WEIGHTS)
        self.lengths = self.numbers("lengths", LENGTHS)

    def numbers(self, name, values, form="%r"):
        path = self.tmp / name
        path.write_text("".join(form % value + "\n" for value in values), encoding="ascii")
        return path

    def printed(self, options, *words):
        """shufflefs-order's output, a list of samples a rank."""
        result = harness.run([harness.binary("shufflefs-order"), "--rank", "all", "-o", options, *words])
        said = [line for line in result.stderr.splitlines() if "nothing is sorted by length" not in line]
        self.assertEqual((result.returncode, said), (0, []))
        ranks = collections.defaultdict(list)
        for line in result.stdout.splitlines():
            rank, sample = line.split("\t")
            ranks[int(rank)].append(int(sample))
        return [ranks[rank] for rank in sorted(ranks)]

    def check(self, options, order_of, world=2, remainder="pad"):
        """Two epochs and all ranks of a mount, and of shufflefs-order, are what order_of(epoch) dealt is."""
        options = "%s,world=%d,remainder=%s" % (options, world, remainder)
        mount = self.mount(self.data_set.shards, options)
        for epoch in (0, 3):
            expected = [torch_order.deal(order_of(epoch), world, rank, remainder) for rank in range(world)]
            listed = [samples_of(mount, epoch, "rank-%d" % rank) for rank in range(world)]
            self.assertEqual(listed, expected, options)
            words = ["--epoch", epoch, *self.data_set.shards]
            self.assertEqual(self.printed(options, *words), expected, options)
        self.assert_rank(mount, self.data_set, expected[1], "epoch-3", "rank-1")
        # Resumed on another world, after 24 samples.
        self.assertEqual(samples_of(mount, 3, "rank-1-of-5.after-24"),
                         torch_order.deal(order_of(3)[24:], 5, 1, remainder), options)
        return mount


def samples_of(mount, epoch, rank):
    """Of a rank's folder, of samples with two fields."""
    names = mount.list("epoch-%d" % epoch, rank + ".keys")
    samples = [int(name.split(".")[0].split("_s")[1]) for name in names if name.endswith(".jpg")]
    places = [int(name.split("_")[0]) for name in names if name.endswith(".jpg")]
    assert places == list(range(len(places))), places
    return samples


class Exact(OrdersCase):
    def test_reference_equals_torch_vectors(self):
        for entry in GOLDEN["weighted"]:
            weights = entry["weights"]
            if isinstance(weights, str):
                weights = range(1, int(weights.split("..")[1]) + 1)
            order = torch_order.multinomial(weights, entry["num_samples"], entry["seed"])
            self.assertEqual(order[:len(entry["first"])], entry["first"])
            self.assertEqual(torch_order.digest(order), entry["sha256"])

    def test_weighted_is_torchs(self):
        self.check("order=weighted,seed=5,weights=%s" % self.weights,
                   lambda epoch: torch_order.multinomial(WEIGHTS, N, 5 + epoch))
        self.check("order=weighted,seed=5,epoch_samples=201,weights=%s" % self.weights,
                   lambda epoch: torch_order.multinomial(WEIGHTS, 201, 5 + epoch), 3, "drop")

    def test_balanced_weighs_by_the_labels(self):
        self.check("order=weighted,weights=balanced,epoch_samples=50",
                   lambda epoch: torch_order.multinomial(BALANCED, 50, epoch))
        by_folder = tars.make_dataset(self.tmp / "folders", 30, shards=2,
                                      key=lambda i: b"%c/s%07d" % (97 + i * i % 3, i))
        labels = [i * i % 3 for i in range(30)]
        weights = [1 / labels.count(label) for label in labels]
        self.assertEqual(self.printed("order=weighted,weights=balanced,label=dir", *by_folder.shards),
                         [torch_order.multinomial(weights, 30, 0)])

    def test_resampled_is_torchs_with_equal_weights(self):
        self.check("order=resampled,seed=77", lambda epoch: torch_order.multinomial([1.0] * N, N, 77 + epoch))
        self.check("order=resampled,epoch_samples=31,seed=4294967295",
                   lambda epoch: torch_order.multinomial([1.0] * N, 31, 4294967295 + epoch), 4, "keep")

    def test_feistel_and_length_are_as_they_are_defined(self):
        self.check("order=feistel,seed=12", lambda epoch: own_orders.feistel(N, 12, epoch))
        sizes = [size_of(i) for i in range(N)]
        for given, lengths in ((self.lengths, LENGTHS), ("size", sizes)):
            self.check("order=length,seed=9,bucket=8,lengths=%s" % given,
                       lambda epoch, lengths=lengths: own_orders.length(lengths, 8, 9, epoch))
        # One bucket larger than all; and none but whole ones, in more groups than one.
        self.check("order=length,bucket=1000,lengths=size", lambda epoch: own_orders.length(sizes, 1000, 0, epoch))
        self.check("order=length,bucket=1,lengths=size", lambda epoch: own_orders.length(sizes, 1, 0, epoch))

    def test_epoch_samples_cuts_the_concatenation_of_permutations(self):
        permutations = {
            "torch,seed=3": lambda number: torch_order.randperm(N, 3 + number),
            "sequential": lambda number: list(range(N)),
            "feistel,seed=3": lambda number: own_orders.feistel(N, 3, number),
            "length,seed=3,bucket=5,lengths=%s" % self.lengths:
                lambda number: own_orders.length(LENGTHS, 5, 3, number),
        }
        for name, permutation in permutations.items():
            for places in (40, 200):
                self.check("order=%s,epoch_samples=%d" % (name, places),
                           lambda epoch, p=permutation, m=places: own_orders.concatenated(p, N, m, epoch))

    def test_contiguous_gives_each_rank_a_run_and_a_window_stays_whole(self):
        mount = self.mount(self.data_set.shards, "order=contiguous,world=4,remainder=keep,window=3")
        self.assertEqual([samples_of(mount, 0, "rank-%d" % rank) for rank in range(4)],
                         [list(range(88 * r // 4, 88 * (r + 1) // 4 + 2)) for r in range(4)])
        self.assertEqual(self.printed("order=contiguous,world=4", *self.data_set.shards),
                         [list(range(N * r // 4, N * r // 4 + 23)) for r in range(4)])


class Repeats(OrdersCase):
    def test_a_sample_drawn_twice_is_one_inode_at_two_places(self):
        mount = self.mount(self.data_set.shards, "order=resampled")
        order = torch_order.multinomial([1.0] * N, N, 0)
        sample, times = collections.Counter(order).most_common(1)[0]
        self.assertGreater(times, 1)
        places = [place for place, other in enumerate(order) if other == sample]
        for folder in (("current", "rank-0"), ("epoch-0", "rank-0")):
            nodes = {os.stat(mount.path(*folder, "%08d.jpg" % place)).st_ino for place in places}
            self.assertEqual(len(nodes), 1)
            for place in places:
                self.assertEqual(mount.read(*folder, "%08d.jpg" % place), self.data_set.data(sample, "jpg"))
        self.assertEqual(len({os.stat(mount.path("current", "rank-0", "%08d.jpg" % place)).st_ino
                              for place in range(N)}), len(set(order)))

    def test_streams_and_lists_repeat_samples_too(self):
        mount = self.mount(self.data_set.shards, "order=resampled,epoch_samples=250")
        order = torch_order.multinomial([1.0] * N, 250, 0)
        lines = mount.read("current", "rank-0.list").decode().splitlines()
        self.assertEqual(lines, ["../epoch-0/rank-0/%08d.jpg %d" % (place, CLASSES[sample])
                                 for place, sample in enumerate(order)])
        listing = harness.run(["tar", "-tf", mount.path("current", "rank-0.tar")]).stdout.splitlines()
        self.assertEqual(listing[::2], ["%08d/s%07d.jpg" % pair for pair in enumerate(order)])

    def test_names_are_as_wide_as_the_longest_epoch_needs(self):
        mount = self.mount(self.data_set.shards, "order=feistel,epoch_samples=3000000000")
        world, last = 1000000000, 2999999999
        self.assertEqual(mount.list("epoch-0", "rank-0-of-%d" % world)[::2],
                         ["%010d.cls" % place for place in range(3)])
        folder = mount.path("epoch-7", "rank-0")
        self.assertTrue(os.path.exists("%s/%010d.jpg" % (folder, last)))
        for name in ("%010d.jpg" % (last + 1), "00000000.jpg", "%011d.jpg" % 0):
            self.assertFalse(os.path.exists("%s/%s" % (folder, name)), name)
        number, place = divmod(7 * 3000000000 + last, N)
        self.assertEqual(mount.read("epoch-7", "rank-0", "%010d.jpg" % last),
                         self.data_set.data(own_orders.feistel(N, 0, number)[place], "jpg"))
        status = mount.status()
        self.assertEqual((status["samples"], status["epoch_samples"]), (N, 3000000000))

    def test_a_pass_over_repeats_is_right_and_no_second_pass(self):
        mount = self.mount(self.data_set.shards, "order=resampled,epoch_samples=2000,seed=1")
        for epoch in (0, 1):
            mount.set_epoch(epoch)
            order = torch_order.multinomial([1.0] * N, 2000, 1 + epoch)
            self.assert_rank(mount, self.data_set, order, "current", "rank-0")
        self.assertEqual(mount.status()["repeated_epochs"], 0)


class Fingerprints(OrdersCase):
    def fingerprint(self, options, *words):
        command = [harness.binary("shufflefs-order"), "--samples", "0", "--json", "-o", options, *words]
        result = harness.run(command + self.data_set.shards)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)["fingerprint"]

    def test_each_option_of_an_order_counts(self):
        other = self.numbers("other", WEIGHTS[:-1] + [WEIGHTS[-1] + 1])
        longer = self.numbers("longer", LENGTHS[:-1] + [LENGTHS[-1] + 1])
        spelled = self.numbers("spelled", LENGTHS, " %d ")
        prints = [self.fingerprint(options) for options in (
            "order=torch", "order=torch,epoch_samples=89", "order=torch,epoch_samples=88", "order=feistel",
            "order=sequential", "order=contiguous", "order=contiguous,window=2", "order=contiguous,window=3",
            "order=resampled", "order=resampled,seed=1", "order=weighted,weights=balanced",
            "order=weighted,weights=%s" % self.weights, "order=weighted,weights=%s" % other,
            "order=length,bucket=8,lengths=size", "order=length,bucket=9,lengths=size",
            "order=length,bucket=8,lengths=%s" % self.lengths, "order=length,bucket=8,lengths=%s" % longer)]
        self.assertEqual(len(set(prints)), len(prints))
        self.assertEqual(len({text.split("-")[0] for text in prints}), 1)
        # The values count, not where they stand or how they are written; neither epoch nor world.
        self.assertEqual(self.fingerprint("order=length,bucket=8,world=3,epoch=2,lengths=%s" % spelled), prints[-2])
        mount = self.mount(self.data_set.shards, "order=weighted,weights=balanced")
        self.assertEqual(mount.read(".control", "fingerprint").decode().strip(), prints[10])


class Refusals(OrdersCase):
    def test_what_does_not_fit_is_refused_by_name(self):
        short = self.numbers("short", WEIGHTS[:-1])
        for options, code, *names in (
                ("order=weighted", 2, "order=weighted needs weights="),
                ("order=length,bucket=3", 2, "order=length needs lengths="),
                ("order=length,lengths=size", 2, "order=length needs bucket="),
                ("order=torch,weights=balanced", 2, "weights=", "order=torch", "order=weighted"),
                ("order=feistel,bucket=3", 2, "bucket=", "order=feistel", "order=length"),
                ("order=resampled,lengths=size", 2, "lengths=", "order=resampled"),
                ("order=feistel,window=3", 2, "window=", "order=feistel"),
                ("order=weighted,weights=balanced,epoch_samples=1", 1, "order=weighted", "torch.multinomial"),
                ("order=resampled,epoch_samples=1", 1, "order=resampled", "torch.multinomial"),
                ("order=weighted,weights=balanced,label=none", 1, "weights=balanced", "label=none"),
                ("order=contiguous,window=91", 1, "window=91", "90 samples"),
                ("order=weighted,weights=%s" % short, 1, short, "89", "90"),
                ("order=length,bucket=4,lengths=%s" % self.weights, 1, self.weights),
                ("order=weighted,weights=/nonexistent", 1, "/nonexistent")):
            with self.subTest(options=options):
                where = self.mountpoint()
                self.refused(self.command(self.data_set.shards, where, options), code, *names)
                program = harness.binary("shufflefs-order")
                self.refused([program, "-o", options, *self.data_set.shards], code, *names)

    def test_what_needs_shards_says_so(self):
        program = harness.binary("shufflefs-order")
        for options, name in (("order=weighted,weights=balanced", "weights=balanced"),
                              ("order=length,bucket=4,lengths=size", "lengths=size")):
            self.refused([program, "-n", N, "-o", options], 1, name, "without shards")
        self.assertEqual(self.printed("order=weighted,weights=%s" % self.weights, "-n", N),
                         [torch_order.multinomial(WEIGHTS, N, 0)])
        self.assertEqual(self.printed("order=length,bucket=4,lengths=%s" % self.lengths, "-n", N),
                         [own_orders.length(LENGTHS, 4, 0, 0)])

    def test_balanced_tells_of_samples_that_are_never_drawn(self):
        partly = tars.make_dataset(self.tmp / "partly", 20, shards=1)
        labelled = tars.make_dataset(self.tmp / "labelled", 10, shards=1, prefix="more", cls=lambda i: b"%d" % (i % 2),
                                     key=lambda i: b"t%07d" % i)
        mount = self.mount(partly.shards + labelled.shards, "order=weighted,weights=balanced,epoch_samples=500")
        self.assertIn("20 samples without a label: never drawn", mount.stderr())
        names = [name for name in mount.list("current", "rank-0.keys") if name.endswith(".jpg")]
        self.assertEqual(len(names), 500)
        self.assertFalse([name for name in names if "_s" in name])

    def test_batches_that_straddle_buckets_are_warned_of(self):
        program = harness.binary("shufflefs-order")
        for options, warned in (("", False), (",epoch_samples=90", False), (",epoch_samples=80", False),
                                (",epoch_samples=81", True)):
            command = [program, "--samples", 0, "-o", "order=length,lengths=size,bucket=10" + options]
            result = harness.run(command + self.data_set.shards)
            self.assertEqual(result.returncode, 0)
            self.assertEqual("straddle buckets" in result.stderr, warned, result.stderr)
