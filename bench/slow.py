"""Slow storage: shards behind a delay for each READ, a reader that works on each sample, and how long it waits.

Latency is what network storage has and a local disk has not: slowfs (tests/mount/slowfs.c) answers each READ some
milliseconds after it came, and up to 64 side by side. The reader reads a photograph, works for a millisecond, reads the
next. Beside it the same reader on loose files behind the same delay, in shuffled order: each
file waits for its own READ there.

The wait share is the time in open, read and close, out of all. Copying out of a page cache that has everything takes
time, too: the second pass shows how much of the share that is.

A reader works by computing on the sample's bytes, as a decoder does, or by sleeping, as one that waits for a GPU. After a
sleep the processor wakes slowly and with cold caches, so that copying a photograph takes twice as long, from plain files in
the page cache as well: the ext4 tree's warm pass says how much.
"""

import os

from cold import forget
from measure import BenchError, back_memory, one_pass
from photos import READER
from sides import mounted, tars

DELAYS_MS = (5, 20)
WORK = "1ms"
SAMPLES_MOST = 2000
BARE_SAMPLES = 300
MOST_WAIT, LEAST_BARE_WAIT = 2, 80


WORKS = {"computing": ("--busy",), "sleeping": ()}


def read_with_work(bench, target, samples, *options):
    """One pass of a reader that works on each sample. Its wait share in percent: of all, and after 0.1 s."""
    options = ["--work", WORK, "--samples", str(samples), *options]
    result = one_pass(bench.yardstick, target, *options)
    return 100 * result["wait_share"], 100 * result["wait_share_later"]


class SlowStorage:
    def __init__(self, bench, report):
        self.bench = bench
        self.report = report
        self.slowfs = os.path.join(bench.binary_dir, "tests", "slowfs")
        if not os.access(self.slowfs, os.X_OK):
            raise BenchError(f"{self.slowfs} is not built")
        self.folder = os.path.join(bench.scratch, "slow")

    def behind(self, folder, delay_ms):
        return mounted([self.slowfs, "-f", "-o", f"delay_ms={delay_ms}", folder], self.folder)

    def few_shards(self):
        """As many shards as SAMPLES_MOST samples need, about: a thousand a shard."""
        return tars(os.path.join(self.bench.photos, "shards"))[: SAMPLES_MOST // 1000]

    def shufflefs_round(self, shufflefs, delay_ms, fixed, work):
        """(wait share, of that after 0.1 s) of the first pass, and of the second."""
        shards = self.few_shards()
        back_memory(1 << 30)
        with self.behind(os.path.dirname(shards[0]), delay_ms) as storage:
            slow = [os.path.join(storage.path, os.path.basename(shard)) for shard in shards]
            with shufflefs.mount(slow) as mount:
                reader = mount.fixed_paths(READER, self.bench.scratch) if fixed else os.path.join(mount.path, READER)
                forget(slow)
                first = read_with_work(self.bench, reader, SAMPLES_MOST, *work)
                return first, read_with_work(self.bench, reader, SAMPLES_MOST, *work)

    def bare_round(self, delay_ms, work):
        """The tree's own files, in shuffled order."""
        with self.behind(os.path.join(self.bench.photos, "tree"), delay_ms) as storage:
            return read_with_work(self.bench, storage.path, BARE_SAMPLES, "--order", "random", *work)[0]

    def warm_round(self, work):
        """The tree's own files in the page cache: what no storage can be better than."""
        tree = os.path.join(self.bench.photos, "tree")
        one_pass(self.bench.yardstick, tree, "--samples", str(SAMPLES_MOST))
        return read_with_work(self.bench, tree, SAMPLES_MOST, *work)[1]


def one_way(bench, report, slow, shufflefs, delay_ms, way, working):
    work, goal = WORKS[working], {"at_most": MOST_WAIT} if working == "computing" else {}
    passes = [slow.shufflefs_round(shufflefs, delay_ms, way != "listed", work) for _ in range(min(bench.rounds, 3))]
    waits = [first[1] for first, _ in passes]
    way = f"{working}, {way}"
    report.add(f"{way}, wait share", "%", [first[0] for first, _ in passes])
    report.add(f"{way}, wait share after 100 ms", "%", waits, **goal)
    report.add(f"{way}, GPU utilisation after 100 ms", "%", [100 - wait for wait in waits])
    report.add(f"{way}, second pass, wait share", "%", [second[0] for _, second in passes])
    beyond = [first[1] - second[1] for first, second in passes]
    report.add(f"{way}, after 100 ms, beyond the second pass", "%", beyond, at_most=MOST_WAIT)


def slow_storage(bench, report):
    slow = SlowStorage(bench, report)
    shufflefs = bench.shufflefs_or_none(report)
    for delay_ms in DELAYS_MS:
        report.section(f"Slow storage: {delay_ms} ms a READ, a reader that works 1 ms a photograph")
        for working, work in WORKS.items():
            for way in ("listed", "fixed paths after a switch") if shufflefs else ():
                one_way(bench, report, slow, shufflefs, delay_ms, way, working)
            rounds = range(min(bench.rounds, 3))
            waits = [slow.bare_round(delay_ms, work) for _ in rounds]
            report.add(f"{working}, plain files, wait share", "%", waits, at_least=LEAST_BARE_WAIT)
            report.add(f"{working}, plain files, GPU utilisation", "%", [100 - wait for wait in waits])
            waits = [slow.warm_round(work) for _ in rounds]
            report.add(f"{working}, plain files (ext4) in the page cache, wait share after 100 ms", "%", waits)
            utilisations = [100 - wait for wait in waits]
            report.add(f"{working}, plain files (ext4) in the page cache, GPU utilisation", "%", utilisations)
