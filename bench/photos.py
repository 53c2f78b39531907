"""Photographs, one reader: the mount beside the same files on disk, and beside other FUSE mounts.

Warm figures: a file's pages lie where chance put them, and that alone moves a figure by a fifth. So in
each round both sides are filled from storage again, in turn, and then read in turn. The pass after the filling is shown
apart: on FUSE it has one GETATTR for each file that was read.

Another epoch is another order than the one in which the page cache was filled, which costs plain files about as much: their
inodes and pages no longer follow each other in memory. So what is read by fixed paths after a switch stands beside plain
files in an order of their own.

Round trips: what one costs hangs on whether waking the daemon means waking another, idle CPU. On a
virtual machine that can make a peer four times slower or faster from one mount to the next. So the peers are also
measured with reader and daemon on one CPU, where a round trip is cheapest.
"""

import contextlib
import os
import statistics

from measure import BenchError, back_memory, cache, can_drop_caches, drop_caches, filesystem_of, one_pass
from sides import PEERS, tars

WARM_PASSES = 5
READER = "current/rank-0"
WARM_GOALS = {"squashfuse_ll": 8, "ratarmount": 20}
TOUCH_GOALS = {"squashfuse_ll": 8, "ratarmount": 14}


@contextlib.contextmanager
def one_cpu():
    """All that is started inside shares one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Photographs:
    """The sides' rates of every round: rates["shufflefs", "warm"] and so on, files a second."""

    def __init__(self, bench, report):
        self.bench = bench
        self.report = report
        self.shards = tars(os.path.join(bench.photos, "shards"))
        self.tree = os.path.join(bench.photos, "tree")
        self.disk = f"plain files ({filesystem_of(self.tree)})"
        self.rates = {}

    def add(self, side, which, rate):
        self.rates.setdefault((side, which), []).append(rate)

    def pass_over(self, folder, *options):
        return one_pass(self.bench.yardstick, folder, *options)["samples_per_s"]

    def warm_round(self, turn, shufflefs):
        """`shufflefs` may be None: then the plain files stand alone."""
        with contextlib.ExitStack() as stack:
            sides = [(self.disk, self.tree)]
            if shufflefs:
                mount = stack.enter_context(shufflefs.mount(self.shards))
                sides.append(("shufflefs", os.path.join(mount.path, READER)))
            if turn % 2:
                sides.reverse()
            drop_caches()
            for which in ("from storage", "second pass"):
                for side, folder in sides:
                    self.add(side, which, self.pass_over(folder))
            passes = [[self.pass_over(folder) for _, folder in sides] for _ in range(WARM_PASSES)]
            if shufflefs:
                fixed = mount.fixed_paths(READER, self.bench.scratch)
                self.add("shufflefs", "fixed paths, pass after a switch", self.pass_over(fixed))
                shuffled = ("--order", "random", "--seed", str(turn))
                beside = [(self.pass_over(fixed), self.pass_over(self.tree, *shuffled)) for _ in range(WARM_PASSES)]
                self.add("shufflefs", "fixed paths", statistics.median(rate for rate, _ in beside))
                self.add(self.disk, "warm, in another order", statistics.median(rate for _, rate in beside))
        for (side, _), values in zip(sides, zip(*passes, strict=True), strict=True):
            self.add(side, "warm", statistics.median(values))

    def touch(self, side, folder):
        """A fresh mount: no page of its own is left, while its source is in the page cache."""
        for which in ("first touch", "pass after it"):
            self.add(side, which, self.pass_over(folder))
        self.add(side, "later passes", statistics.median(self.pass_over(folder) for _ in range(WARM_PASSES)))

    def touch_round(self, peers, shufflefs):
        back_memory()
        if shufflefs:
            cache(self.shards)
            with shufflefs.mount(self.shards) as mount:
                self.touch("shufflefs", os.path.join(mount.path, READER))
            with shufflefs.mount(self.shards) as mount:
                fixed = mount.fixed_paths(READER, self.bench.scratch)
                self.add("shufflefs", "fixed paths, first touch", self.pass_over(fixed))
        for peer in peers:
            with peer.mount() as mount:
                self.touch(peer.name, mount.path)

    def show_rates(self):
        for (side, which), values in sorted(self.rates.items(), key=lambda item: item[0][0]):
            self.report.add(f"{side}, {which}", "files/s", values)

    def show_ratio(self, name, which, other, **goal):
        above, below = self.rates.get(("shufflefs", which)), self.rates.get(other)
        if above and below:
            self.report.add_ratio(name, above, below, **goal)

    def show_beside_disk(self):
        self.show_ratio("warm / plain files, warm", "warm", (self.disk, "warm"), at_least=0.85)
        shuffled = (self.disk, "warm, in another order")
        self.show_ratio("fixed paths / plain files, warm, in another order", "fixed paths", shuffled, at_least=0.85)
        self.show_ratio("fixed paths / plain files, warm, in the order of filling", "fixed paths", (self.disk, "warm"))
        for which in ("second pass", "from storage"):
            self.show_ratio(f"{which} / plain files, {which}", which, (self.disk, which))

    def show_beside_peers(self, goals):
        """A peer's later passes, its best, are what warm reads are held against."""
        warm = "warm" if ("shufflefs", "warm") in self.rates else "later passes"
        for peer, least in WARM_GOALS.items():
            goal = {"at_least": least} if goals else {}
            self.show_ratio(f"warm / {peer}, later passes", warm, (peer, "later passes"), **goal)
        for peer, least in TOUCH_GOALS.items():
            goal = {"at_least": least} if goals else {}
            for which in ("first touch", "fixed paths, first touch"):
                self.show_ratio(f"{which} / {peer}, first touch", which, (peer, "first touch"), **goal)


def find_peers(bench, report):
    peers = []
    for name, make in PEERS.items():
        if name not in bench.wanted:
            continue
        try:
            peers.append(make(bench.photos, bench.tools, bench.scratch))
        except BenchError as error:
            report.leave_out(name, error)
    return peers


def photographs(bench, report):
    report.section("Photographs, one reader")
    work = Photographs(bench, report)
    shufflefs = bench.shufflefs_or_none(report)
    peers = find_peers(bench, report)
    beside_disk = "disk" in bench.wanted
    if beside_disk and not can_drop_caches():
        report.leave_out("warm read beside plain files", "refilling from storage needs root")
        beside_disk = False
    for turn in range(bench.rounds):
        if beside_disk:
            work.warm_round(turn, shufflefs)
        work.touch_round(peers, shufflefs)
    work.show_rates()
    work.show_beside_disk()
    work.show_beside_peers(goals=True)


def photographs_one_cpu(bench, report):
    report.section("Photographs, reader and daemon on one CPU (no goals: how much the wake-ups were worth)")
    work = Photographs(bench, report)
    shufflefs = bench.shufflefs_or_none(report)
    peers = find_peers(bench, report)
    with one_cpu():
        for _ in range(bench.rounds):
            work.touch_round(peers, shufflefs)
    work.show_rates()
    work.show_beside_peers(goals=False)


def photograph_switch(bench, report):
    """A switch of epochs with every picture's pages in the page cache: they have to outlive it."""
    report.section("Photographs: switching `current` to another epoch, pages alive")
    shards = tars(os.path.join(bench.photos, "shards"))
    shufflefs = bench.shufflefs()
    switches, rates, reads = [], [], []
    cache(shards)
    with shufflefs.mount(shards) as mount:
        reader = os.path.join(mount.path, READER)
        names = one_pass(bench.yardstick, reader)["samples"]
        one_pass(bench.yardstick, reader)
        for epoch in range(1, bench.rounds + 1):
            before = mount.status()["reads"]
            switches.append(mount.switch(epoch))
            rates.append(one_pass(bench.yardstick, reader)["samples_per_s"])
            reads.append(mount.status()["reads"] - before)
    report.add(f"switch, {names:,} names held", "ms", [1e3 * value for value in switches])
    report.add(f"switch, {names:,} names held, a name", "us", [1e6 * value / names for value in switches], at_most=1)
    report.add("reads of storage in the pass after a switch", "reads", reads, at_most=0)
    report.add("pass after a switch", "files/s", rates)
