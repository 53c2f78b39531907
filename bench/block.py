"""order=block beside order=torch: from storage that takes 20 ms a READ, and from the local disk.

Both orders are mounted with the same options otherwise, cold, in turn. READs are counted where they arrive, at slowfs
(tests/mount/slowfs.c), which answers up to 64 side by side: with read-ahead torch's order has that many under way, so
what is left there is mostly the work of both sides. A bare reader (readahead=0) waits for each READ.
"""

import json
import os

from cold import forget
from measure import back_memory, one_pass
from photos import READER
from sides import tars
from slow import SlowStorage

DELAY_MS = 20
BLOCK = "block=1M,window=64,streams=64"
ORDERS = {"torch": "order=torch", "block": f"order=block,{BLOCK}"}
# A bare reader of torch's order takes 20 ms a sample.
BARE_SAMPLES = 400
LEAST_RATIO = 10


class Blocks:
    def __init__(self, bench, report):
        self.bench = bench
        self.shards = tars(os.path.join(bench.photos, "shards"))
        self.slow = SlowStorage(bench, report)

    def one_pass(self, mount, samples):
        options = ["--samples", str(samples)] if samples else []
        return one_pass(self.bench.yardstick, os.path.join(mount.path, READER), *options)["samples_per_s"]

    def slow_round(self, shufflefs, order, options, samples=0):
        """(samples/s, READs that storage saw, blocks there are) of a first pass."""
        back_memory(1 << 30)
        with self.slow.behind(os.path.dirname(self.shards[0]), DELAY_MS) as storage:
            shards = [os.path.join(storage.path, os.path.basename(shard)) for shard in self.shards]
            with shufflefs.mount(shards, ORDERS[order], *options) as mount:
                forget(shards)
                before = reads(storage)
                rate = self.one_pass(mount, samples)
                blocks = mount.status()["blocks"]
                return rate, reads(storage) - before, blocks["count"] if blocks else 0

    def disk_round(self, shufflefs, order):
        back_memory(1 << 30)
        with shufflefs.mount(self.shards, ORDERS[order]) as mount:
            forget(self.shards)
            return self.one_pass(mount, 0)


def reads(storage):
    with open(os.path.join(storage.path, ".reads")) as file:
        return json.load(file)["reads"]


def blocks(bench, report):
    made = Blocks(bench, report)
    shufflefs = bench.shufflefs_or_none(report)
    if not shufflefs:
        return
    rounds = range(min(bench.rounds, 3))
    report.section(f"Blocks of 1 MiB: photographs, {DELAY_MS} ms a READ, as they come")
    passes = [[made.slow_round(shufflefs, order, ()) for order in ORDERS] for _ in rounds]
    add_sides(report, passes)
    report.add("READs a block", "", [block[1] / block[2] for _, block in passes], at_most=1.2)
    report.section(f"Blocks of 1 MiB: photographs, {DELAY_MS} ms a READ, a bare reader (readahead=0)")
    passes = [
        [made.slow_round(shufflefs, order, ("readahead=0",), samples) for order, samples in (("torch", BARE_SAMPLES), ("block", 0))]
        for _ in rounds
    ]
    add_sides(report, passes)
    report.section("Blocks of 1 MiB: photographs, the local disk, as they come")
    passes = [[made.disk_round(shufflefs, order) for order in ORDERS] for _ in rounds]
    for at, order in enumerate(ORDERS):
        report.add(f"order={order}", "files/s", [sides[at] for sides in passes])
    report.add_ratio("block / torch", [sides[1] for sides in passes], [sides[0] for sides in passes])


def add_sides(report, passes):
    for at, order in enumerate(ORDERS):
        report.add(f"order={order}", "files/s", [sides[at][0] for sides in passes])
        report.add(f"order={order}, READs of storage", "", [sides[at][1] for sides in passes])
    report.add_ratio("block / torch", [sides[1][0] for sides in passes], [sides[0][0] for sides in passes], at_least=LEAST_RATIO)
