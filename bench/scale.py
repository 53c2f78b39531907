"""An ImageNet of names: 1,281,167 tiny samples. Listing, switching, memory, indexing, and the order by itself."""

import os
import shutil
import subprocess
import time

from measure import BenchError, back_memory, cache, one_pass
from photos import READER
from sides import tars

SAMPLES = 1281167
SHARDS = 147
SMALL = 1000
PRIME = 65536


def tiny_shards(bench, samples, shards, size=100):
    """Made once, by make-tiny, below the build folder; their pages are in the page cache afterwards."""
    folder = os.path.join(bench.tools, f"tiny-{samples}" if size == 100 else f"tiny-{samples}-{size}")
    if not os.path.isdir(folder):
        part = folder + ".part"
        print(f"  (making {samples:,} tiny samples in {folder})", flush=True)
        run = subprocess.run([bench.make_tiny, part, "-n", str(samples), "-s", str(shards), "-b", str(size)])
        if run.returncode:
            raise BenchError(f"make-tiny ended with status {run.returncode}")
        os.rename(part, folder)
    paths = tars(folder)
    cache(paths)
    return paths


def scale(bench, report):
    report.section(f"{SAMPLES:,} samples in {SHARDS} shards")
    shufflefs = bench.shufflefs()
    shards = tiny_shards(bench, SAMPLES, SHARDS)
    listings, switches, memory = [], [], []
    with shufflefs.mount(shards, f"prime={PRIME}") as mount:
        reader = os.path.join(mount.path, READER)
        report.add("mount, shards in page cache", "s", [mount.mount_s])
        report.add("anonymous memory once mounted", "B/member", [mount.anonymous_bytes() / SAMPLES], at_most=64)
        for epoch in range(1, bench.rounds + 1):
            listing = one_pass(bench.yardstick, reader, "--list-only")
            if listing["samples"] != SAMPLES:
                raise BenchError(f"{listing['names']:,} names listed, {SAMPLES:,} expected")
            listings.append(listing["list_s"])
            memory.append(mount.anonymous_bytes() / SAMPLES)
            switches.append(mount.switch(epoch))
    report.add("listing the whole epoch", "s", listings, at_most=2)
    report.add("anonymous memory, epochs listed", "B/member", memory, at_most=64)
    show_switch(report, switches, PRIME)
    scale_all_names(bench, report, shufflefs, shards)


def scale_all_names(bench, report, shufflefs, shards):
    """The most the kernel can hold: every name of the epoch."""
    with shufflefs.mount(shards, f"prime={SAMPLES}") as mount:
        reader = os.path.join(mount.path, READER)
        listing = one_pass(bench.yardstick, reader, "--list-only")["list_s"]
        switch = mount.switch(1)
        memory = mount.anonymous_bytes() / SAMPLES
    report.add("listing with every name primed", "s", [listing])
    report.add("anonymous memory, every name primed", "B/member", [memory])
    show_switch(report, [switch], SAMPLES)


def show_switch(report, switches, names):
    report.add(f"switch, {names:,} names held", "ms", [1e3 * value for value in switches])
    report.add(f"switch, {names:,} names held, a name", "us", [1e6 * value / names for value in switches], at_most=1)


def indexing(bench, report):
    """The time to mount many members, less the time to mount few: what a start costs by itself."""
    report.section("Indexing small members from page cache")
    shufflefs = bench.shufflefs()
    small = tiny_shards(bench, SMALL, 1)
    large = tiny_shards(bench, SAMPLES, SHARDS)
    starts, mounts = [], []
    for _ in range(bench.rounds):
        for shards, seconds in ((small, starts), (large, mounts)):
            with shufflefs.mount(shards) as mount:
                seconds.append(mount.mount_s)
    rates = [(SAMPLES - SMALL) / (many - few) for many, few in zip(mounts, starts, strict=True)]
    report.add(f"mount of {SMALL:,} members", "ms", [1e3 * value for value in starts])
    report.add(f"mount of {SAMPLES:,} members", "ms", [1e3 * value for value in mounts])
    report.add("indexing", "members/s", rates, at_least=1000000)


MANY = 10_000_000
SHARD_SAMPLES = 1000
TINY_BYTES = 1024  # a tiny member and its header in a shard


def saved_index(bench, report):
    """The second mount of the same shards, whose index was saved by the first."""
    shufflefs = bench.shufflefs()
    for samples, most in ((SAMPLES, 0.1), (MANY, 0.5)):
        report.section(f"A saved index of {samples:,} members")
        if shutil.disk_usage(bench.tools).free < 2 * samples * TINY_BYTES:
            print(f"  left out: no room for {samples * TINY_BYTES >> 30} GiB in {bench.tools}")
            continue
        shards = tiny_shards(bench, samples, -(-samples // SHARD_SAMPLES))
        place = os.path.join(bench.scratch, "set.index")
        option = f"index={place}"
        with shufflefs.mount(shards, option) as mount:
            first = mount.mount_s
        size = os.path.getsize(place)
        seconds, memory = [], []
        for _ in range(bench.rounds):
            back_memory(max(256 << 20, 2 * size))
            with shufflefs.mount(shards, option) as mount:
                seconds.append(mount.mount_s)
                memory.append(mount.anonymous_bytes() / samples)
        os.unlink(place)
        report.add("the first mount, which saves it", "s", [first])
        report.add("mount with the saved index", "s", seconds, at_most=most)
        report.add("anonymous memory", "B/member", memory, at_most=48)
        report.add("the saved index", "B/member", [size / samples])


def index_photographs(bench, report):
    """Members of some size: what counts is how little is read of them."""
    report.section("Indexing photographs in the page cache")
    shards = tars(os.path.join(bench.photos, "shards"))
    cache(shards)
    binary = os.path.join(bench.binary_dir, "shufflefs-order")
    headers = bench.helper("read-headers")
    ours, theirs, ratios = [], [], []
    for _ in range(bench.rounds):
        start = timed([binary, "-n", "1", "--samples", "1"])
        ours.append(timed([binary, "-o", "index=none", "--samples", "1", *shards]) - start)
        members, seconds = subprocess.run([headers, *shards], check=True, capture_output=True, text=True).stdout.split()
        theirs.append(float(seconds))
        ratios.append(ours[-1] / theirs[-1])
    report.add(f"indexing {int(members):,} photographs", "ms", [1e3 * value for value in ours])
    report.add("reading just their headers, one thread", "ms", [1e3 * value for value in theirs])
    report.add("indexing / reading just the headers", "", ratios, at_most=1.3)


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def order(bench, report):
    report.section("The order without a mount")
    binary = os.path.join(bench.binary_dir, "shufflefs-order")
    if not os.access(binary, os.X_OK):
        raise BenchError(f"{binary} is not built")
    times = []
    for _ in range(bench.rounds):
        start = time.perf_counter()
        run = subprocess.run([binary, "-n", str(SAMPLES)], stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
        if run.returncode:
            raise BenchError(f"shufflefs-order ended with status {run.returncode}")
    report.add(f"shufflefs-order -n {SAMPLES}", "ms", [1e3 * value for value in times])
