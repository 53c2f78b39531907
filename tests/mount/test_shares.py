"""Every share of every epoch: a few thousand at random, of any size, against plain Python; a few of them through all views
of a mount; and the listings of a large world."""
import itertools
import os
import re
import subprocess
import tarfile
import time

import harness
import shares
import tars
import torch_order
from harness import MountCase

REMAINDERS = ("pad", "drop", "keep")


class Case:
    """A share drawn at random, of a data set, an order and an epoch that were too."""

    def __init__(self, draw):
        self.order = draw.choice(("torch", "torch", "sequential", "contiguous"))
        self.n = draw.choice((1, 2, 3, 7, 10, 31, 64, 97, 150))
        self.seed, self.epoch = draw.randrange(3), draw.randrange(4)
        self.epoch_samples = draw.choice((0, 0, 1, 5, self.n, 40, 151))
        self.remainder = draw.choice(REMAINDERS)
        self.world = draw.choice((1, 2, 3, 4, 6, 8, 16, draw.randrange(1, 200)))
        self.default_world = draw.choice((self.world, 5))
        self.rank = draw.randrange(self.world)
        self.places = self.epoch_samples or self.n
        self.window = draw.choice((1, 1, 2, 5)) if self.order == "contiguous" else 1
        self.window = min(self.window, self.places)
        # One too many now and then: there is no such share.
        self.after = draw.choice((None, 0, self.places, draw.randrange(self.places + 2), draw.randrange(self.places)))
        self.parts = draw.choice((None, 1, 2, 4, draw.randrange(1, 40)))
        self.part = draw.randrange(self.parts) if self.parts else None
        self.run = draw.choice((None, 1, 2, 3, 32, draw.randrange(1, 100))) if self.parts else None

    def name(self):
        return shares.name_of(self.rank, None if self.world == self.default_world else self.world, self.after, self.part,
                              self.parts, self.run)

    def line(self):
        options = "order=%s,seed=%d,remainder=%s,world=%d" % (self.order, self.seed, self.remainder, self.default_world)
        options += ",epoch_samples=%d" % self.epoch_samples if self.epoch_samples else ""
        options += ",window=%d" % self.window if self.window > 1 else ""
        return "%s %d %d %s\n" % (options, self.n, self.epoch, self.name())

    def samples(self):
        """What it has; None: it does not exist."""
        if (self.after or 0) > self.places or (self.after and self.order == "contiguous"):
            return None
        tail = shares.epoch_order(self.n, self.seed, self.epoch, self.order == "torch", self.epoch_samples)[self.after:]
        if self.order == "contiguous":
            sequence = shares.deal_runs(tail, self.rank, self.world, self.remainder, self.window)
        else:
            sequence = shares.deal(tail, self.rank, self.world, self.remainder)
        return shares.part_of(sequence, self.part, self.parts, self.run or 1) if self.parts else sequence


class Shares(MountCase):
    def test_10000_shares_at_random_are_those_of_plain_python(self):
        program = harness.binary("tests/shares")
        if not os.access(program, os.X_OK):
            self.fail("no program: " + program)
        draw = torch_order.generator(11)
        cases = [Case(draw) for _ in range(10000)]
        result = subprocess.run([program], input="".join(case.line() for case in cases), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.split("\n")
        self.assertEqual(len(lines), len(cases) + 1)
        missing = 0
        for case, line in zip(cases, lines):
            expected = case.samples()
            missing += expected is None
            wanted = "-" if expected is None else " ".join(map(str, expected))
            if line != wanted:
                self.fail("%s: %s, not %s" % (case.line().strip(), line, wanted))
        self.assertTrue(100 < missing < len(cases) // 2, missing)


class Views(MountCase):
    N = 53

    def list_of(self, mount, epoch, name):
        """The samples that rank.list leads to, by its own paths."""
        folder = mount.path("epoch-%d" % epoch)
        found = []
        for line in mount.read("epoch-%d" % epoch, name + ".list").decode().splitlines():
            path, label = line.rsplit(" ", 1)
            sample = tars.sample_of(harness.read(os.path.normpath(os.path.join(folder, path))))
            self.assertEqual(int(label), sample)
            found.append(sample)
        return found

    def check(self, mount, data_set, epoch, name, expected):
        folder = "epoch-%d" % epoch
        names = ["%08d.%s" % (p, field) for p in range(len(expected)) for field in ("cls", "jpg")]
        self.assertEqual(mount.list(folder, name), names)
        for position, sample in enumerate(expected):
            self.assertEqual(mount.read(folder, name, "%08d.jpg" % position), data_set.data(sample, "jpg"))
            self.assertEqual(mount.read(folder, name, "%08d.cls" % position), b"%d" % sample)
        keys = ["%08d_%s.%s" % (p, data_set.samples[sample].key.decode(), field) for p, sample in enumerate(expected)
                for field in ("cls", "jpg")]
        self.assertEqual(mount.list(folder, name + ".keys"), keys)
        self.assertEqual(self.list_of(mount, epoch, name), list(expected))
        with tarfile.open(mount.path(folder, name + ".tar")) as archive:
            members = [(member.name, archive.extractfile(member).read()) for member in archive]
        wanted = [("%08d/%s.%s" % (p, data_set.samples[sample].key.decode(), field), data_set.data(sample, field))
                  for p, sample in enumerate(expected) for field in ("jpg", "cls")]
        self.assertEqual(members, wanted)
        for view in ("", ".keys", ".list", ".tar"):
            self.assertEqual(os.getxattr(mount.path(folder, name + view), "user.shufflefs.samples"),
                             b"%d" % len(expected))

    def test_sixty_shares_at_random_in_folders_keys_lists_and_tars(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, cls=lambda i: b"%d" % i)
        draw = torch_order.generator(12)
        for order, remainder in (("torch", "pad"), ("torch", "drop"), ("torch", "keep"), ("contiguous", "pad")):
            mount = self.mount(data_set.shards, "order=%s,remainder=%s,world=3,seed=5" % (order, remainder))
            done = 0
            while done < 15:
                case = Case(draw)
                case.order, case.remainder, case.seed, case.default_world, case.window = order, remainder, 5, 3, 1
                case.n, case.epoch_samples, case.places = self.N, 0, self.N
                expected = case.samples()
                with self.subTest(case=case.line()):
                    if expected is None:
                        self.assertFalse(os.path.exists(mount.path("epoch-%d" % case.epoch, case.name())))
                        continue
                    self.check(mount, data_set, case.epoch, case.name(), expected)
                done += 1
            mount.unmount()


class LargeWorld(MountCase):
    """65,536 ranks in four views each are listed one after the other, and none is made for it."""
    WORLD = 65536

    def memory(self, mount):
        text = harness.read("/proc/%d/status" % mount.pid()).decode()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) << 10

    def list_in_quarters(self, folder):
        """The number of names, and how long each quarter of them took; names are looked at as they come."""
        took, count, since = [], 0, time.perf_counter()
        views = itertools.cycle(("", ".keys", ".list", ".tar"))
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries, 1):
                expected = "rank-%d%s" % ((count - 1) // 4, next(views))
                if entry.name != expected:
                    self.fail("%s, not %s" % (entry.name, expected))
                if count % self.WORLD == 0:
                    took.append(time.perf_counter() - since)
                    since = time.perf_counter()
        return count, took

    def test_its_folders_are_listed_in_even_time_and_no_memory(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40)
        mount = self.mount(data_set.shards, "world=%d" % self.WORLD)
        mount.list(".control")
        before = self.memory(mount)
        best = None
        for folder in ("current", "epoch-0", "epoch-8"):
            count, took = self.list_in_quarters(mount.path(folder))
            self.assertEqual((count, len(took)), (4 * self.WORLD, 4))
            best = took if best is None else [min(pair) for pair in zip(best, took)]
        # Of three listings the best of each quarter: another process may have had the processor meanwhile.
        self.assertLess(max(best), 4 * min(best), "%s s for each quarter" % best)
        self.assertEqual(len(mount.list(".control")), self.WORLD + 3)
        if not {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ):
            self.assertLess(self.memory(mount) - before, 8 << 20)
        rank = self.WORLD - 1
        self.assert_rank(mount, data_set, torch_order.rank_order(40, self.WORLD, rank, epoch=8), "epoch-8", "rank-%d" % rank)
