"""What reading ahead is worth: from a cold disk, past the primed names, for several readers, for readers out of order.

Each for a listed folder, and for fixed paths: names listed in one epoch, opened again after a switch to the next.
"""

import json
import os
import shutil
import subprocess

from measure import BenchError, back_memory, cache, can_drop_caches, drop_caches, one_pass, one_round
from photos import READER
from scale import tiny_shards
from sides import tars

DISK_DEPTH = 16
FIO_S = 3
LONG_SAMPLES, LONG_BYTES, LONG_SHARDS = 300000, 8192, 24
RANKS = 4


def reader_of(bench, mount, fixed):
    return mount.fixed_paths(READER, bench.scratch) if fixed else os.path.join(mount.path, READER)


WAYS = {"listed": False, "fixed paths after a switch": True}


class Rates:
    """What each side gave in each round, by name."""

    def __init__(self, report):
        self.report = report
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def show(self, name, unit, **goal):
        self.report.add(name, unit, self.values[name], **goal)

    def ratio(self, title, above, below, **goal):
        self.report.add_ratio(title, self.values[above], self.values[below], **goal)


def fio(shards, bytes_each):
    """What the disk gives at the depth that is read ahead with, in MB/s, in pieces as large as a sample."""
    command = [
        *("fio", "--name=disk", "--rw=randread", "--direct=1", "--ioengine=libaio", "--readonly", "--time_based"),
        *(f"--iodepth={DISK_DEPTH}", f"--runtime={FIO_S}", f"--bs={bytes_each}", f"--filename={':'.join(shards)}"),
        "--output-format=json",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise BenchError(f"fio: {run.stderr.strip() or run.returncode}")
    return json.loads(run.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e6


def cold(bench, report):
    report.section("Cold disk, one reader, photographs")
    if not can_drop_caches():
        report.leave_out("cold disk", "dropping the page cache needs root")
        return
    shufflefs = bench.shufflefs()
    shards, tree = tars(os.path.join(bench.photos, "shards")), os.path.join(bench.photos, "tree")
    rates = Rates(report)
    size = sum(os.path.getsize(shard) for shard in shards) // one_pass(bench.yardstick, tree)["samples"]
    for _ in range(bench.rounds):
        back_memory()
        if shutil.which("fio"):
            rates.add("fio, depth 16", fio(shards, (size + 4095) // 4096 * 4096))
        drop_caches()
        result = one_pass(bench.yardstick, tree)
        rates.add("ext4 tree, cold", result["samples_per_s"])
        for way, fixed in WAYS.items():
            with shufflefs.mount(shards) as mount:
                reader = reader_of(bench, mount, fixed)
                drop_caches()
                result = one_pass(bench.yardstick, reader)
                rates.add(f"shufflefs, {way}", result["samples_per_s"])
                rates.add(f"shufflefs, {way}, bytes", result["bytes_per_s"] / 1e6)
        with shufflefs.mount(shards) as mount:
            drop_caches()
            result = one_pass(bench.yardstick, os.path.join(mount.path, READER + ".tar"))
            rates.add("shufflefs, stream, bytes", result["bytes_per_s"] / 1e6)
    rates.show("ext4 tree, cold", "files/s")
    for way in WAYS:
        rates.show(f"shufflefs, {way}", "files/s")
        rates.ratio(f"files, {way} / ext4 tree, cold", f"shufflefs, {way}", "ext4 tree, cold", at_least=2.3)
    if "fio, depth 16" not in rates.values:
        report.leave_out("the disk's own throughput", "fio is not installed")
        return
    rates.show("fio, depth 16", "MB/s")
    for way in WAYS:
        rates.ratio(f"files, {way} / fio", f"shufflefs, {way}, bytes", "fio, depth 16", at_least=0.85)
    rates.show("shufflefs, stream, bytes", "MB/s")
    rates.ratio("stream / fio", "shufflefs, stream, bytes", "fio, depth 16", at_least=0.9)


def thirds(bench, target):
    parts = one_pass(bench.yardstick, target, "--parts", "3")["parts_samples_per_s"]
    return parts[2] / parts[0], parts[0]


def long_rank(bench, report):
    report.section(f"Past what is primed: {LONG_SAMPLES:,} files of {LONG_BYTES // 1024} KiB, one rank")
    shufflefs = bench.shufflefs()
    shards = tiny_shards(bench, LONG_SAMPLES, LONG_SHARDS, LONG_BYTES)
    for state in ("warm", "cold"):
        if state == "cold" and not can_drop_caches():
            report.leave_out("cold shards", "dropping the page cache needs root")
            continue
        for way, fixed in WAYS.items():
            values = []
            for _ in range(min(bench.rounds, 3)):
                cache(shards)
                with shufflefs.mount(shards) as mount:
                    reader = reader_of(bench, mount, fixed)
                    back_memory(5 << 30)
                    if state == "cold":
                        drop_caches()
                    values.append(thirds(bench, reader))
            report.add(f"{state}, {way}, first third", "files/s", [first for _, first in values])
            report.add(f"{state}, {way}, last third / first", "x", [ratio for ratio, _ in values], at_least=0.9)


def ranks(bench, report):
    report.section(f"{RANKS} ranks read at once, shards in page cache")
    shufflefs = bench.shufflefs()
    shards = tars(os.path.join(bench.photos, "shards"))
    one, all_ranks, slowest = [], [], []
    for _ in range(bench.rounds):
        back_memory()
        cache(shards)
        with shufflefs.mount(shards, f"world={RANKS}") as mount:
            one.append(one_pass(bench.yardstick, os.path.join(mount.path, "epoch-9/rank-0-of-1"))["samples_per_s"])
        with shufflefs.mount(shards, f"world={RANKS}") as mount:
            folders = [os.path.join(mount.path, f"current/rank-{rank}") for rank in range(RANKS)]
            results = one_round(bench.yardstick, folders, "--at-once")
            rates = [result["samples_per_s"] for result in results if "path" in result][:RANKS]
            all_ranks.append(sum(rates))
            slowest.append(min(rates) / max(rates))
    report.add("one reader", "files/s", one)
    report.add(f"{RANKS} ranks, together", "files/s", all_ranks)
    report.add_ratio(f"{RANKS} ranks / one reader", all_ranks, one, at_least=1)
    report.add("slowest rank / fastest", "x", slowest, at_least=0.8)


def out_of_order(bench, report):
    report.section("Readers out of order, shards in page cache")
    shufflefs = bench.shufflefs()
    shards = tars(os.path.join(bench.photos, "shards"))
    hits, random_on, random_off = [], [], []
    for turn in range(bench.rounds):
        back_memory()
        cache(shards)
        with shufflefs.mount(shards) as mount:
            options = ["--readers", "4", "--processes", "--split", "batch:32", "--work", "1ms"]
            samples = one_pass(bench.yardstick, os.path.join(mount.path, READER), *options)["samples"]
            hits.append(100 * (1 - mount.status()["reads"] / samples))
        sides = [("256M", random_on), ("0", random_off)]
        for readahead, rates in sides if turn % 2 else sides[::-1]:
            with shufflefs.mount(shards, f"readahead={readahead}") as mount:
                result = one_pass(bench.yardstick, os.path.join(mount.path, READER), "--order", "random")
                rates.append(result["samples_per_s"])
    report.add("four workers, batches of 32 in turn, 1 ms a sample: hits", "%", hits, at_least=90)
    report.add("random order, read-ahead off", "files/s", random_off)
    report.add("random order, read-ahead on", "files/s", random_on)
    report.add_ratio("random order: on / off", random_on, random_off, at_least=0.95)
