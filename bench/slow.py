"""Slow storage: shards behind a delay for each READ, a reader that works on each sample, and how long it waits.

Latency is what network storage has and a local disk has not: slowfs (tests/mount/slowfs.c) answers each READ some
milliseconds after it came, and up to 64 side by side. The reader reads a photograph, works for a millisecond (busy, as
a decoder is), reads the next. Beside it the same reader on loose files behind the same delay, in shuffled order: each
file waits for its own READ there.

The wait share is the time in open, read and close, out of all. Copying out of a page cache that has everything takes
time, too: the second pass shows how much of the share that is.
"""

import os
import random
import time

from measure import BenchError
from sides import mounted, tars

DELAYS_MS = (5, 20)
WORK_S = 0.001
SAMPLES_MOST = 2000
BARE_SAMPLES = 300
# What the start may cost: nothing was read ahead then.
START_S = 0.1
# Of the reader; a photograph is smaller, so one read(2) gets it whole.
ROOM = 1 << 22
MOST_WAIT, LEAST_BARE_WAIT = 2, 80


def read_with_work(paths, work_s):
    """Reads each file whole, then works. Returns (waited, worked) of each, in seconds."""
    buffers, steps = [bytearray(ROOM)], []
    clock = time.perf_counter
    for path in paths:
        start = clock()
        handle = os.open(path, os.O_RDONLY)
        if os.readv(handle, buffers) == ROOM:
            raise BenchError(f"{path} is larger than {ROOM} bytes")
        os.close(handle)
        waited = clock()
        until = waited + work_s
        while clock() < until:
            pass
        steps.append((waited - start, clock() - waited))
    return steps


def wait_share(steps, after_s=0.0):
    """Percent of the time, of the samples asked for `after_s` after the start or later."""
    at = waited = total = 0.0
    for wait, work in steps:
        if at >= after_s:
            waited += wait
            total += wait + work
        at += wait + work
    return 100 * waited / total if total else 0.0


def forget(paths):
    """Takes files out of the page cache, these alone: indexing leaves much of a shard there."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


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

    def shufflefs_round(self, shufflefs, delay_ms):
        """(steps of the first pass, of the second)."""
        shards = self.few_shards()
        with self.behind(os.path.dirname(shards[0]), delay_ms) as storage:
            slow = [os.path.join(storage.path, os.path.basename(shard)) for shard in shards]
            with shufflefs.mount(slow) as mount:
                forget(slow)
                folder = os.path.join(mount.path, "current", "rank-0")
                paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg")]
                paths = paths[:SAMPLES_MOST]
                steps = read_with_work(paths, WORK_S)
                return steps, read_with_work(paths, WORK_S)

    def bare_round(self, delay_ms):
        """The tree's own files, in shuffled order."""
        tree = os.path.join(self.bench.photos, "tree")
        with self.behind(tree, delay_ms) as storage:
            paths = [os.path.join(at, name) for at, _, names in os.walk(storage.path) for name in sorted(names)]
            paths = [path for path in paths if path.endswith(".jpg")]
            random.Random(1).shuffle(paths)
            return read_with_work(paths[:BARE_SAMPLES], WORK_S)


def slow_storage(bench, report):
    slow = SlowStorage(bench, report)
    shufflefs = bench.shufflefs_or_none(report)
    for delay_ms in DELAYS_MS:
        report.section(f"Slow storage: {delay_ms} ms a READ, a reader that works 1 ms a photograph (busy)")
        rounds = range(min(bench.rounds, 3))
        if shufflefs:
            passes = [slow.shufflefs_round(shufflefs, delay_ms) for _ in rounds]
            report.add("shufflefs, wait share", "%", [wait_share(first) for first, _ in passes])
            waits = [wait_share(first, START_S) for first, _ in passes]
            report.add("shufflefs, wait share after 100 ms", "%", waits, at_most=MOST_WAIT)
            report.add("shufflefs, GPU utilisation after 100 ms", "%", [100 - wait for wait in waits])
            report.add("shufflefs, second pass, wait share", "%", [wait_share(second) for _, second in passes])
        bare = [slow.bare_round(delay_ms) for _ in rounds]
        waits = [wait_share(steps) for steps in bare]
        report.add("plain files, wait share", "%", waits, at_least=LEAST_BARE_WAIT)
        report.add("plain files, GPU utilisation", "%", [100 - wait for wait in waits])
