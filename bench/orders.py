"""The orders by themselves: how long one takes to open, what it holds, and what a lookup costs; and the figures of
shufflefs-order --quality."""

import glob
import os
import subprocess

from measure import BenchError
from scale import SAMPLES, timed

ORDERS = ("torch", "sequential", "contiguous", "weighted", "resampled", "block", "feistel", "length")
COMPUTED = ("sequential", "contiguous", "feistel")
MILLION, MANY = 10**6, 10**9
CORE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "core")
FIGURES = (("open", "ms", 1e3), ("memory", "B", 1), ("the next place", "ns", 1), ("any place", "ns", 1))
FIGURES += (("the place of a sample", "ns", 1),)


def lookups(bench):
    """Compiled each time, as it is made of the sources of the orders."""
    name = "order-lookups"
    if os.path.exists(os.path.join(bench.tools, name)):
        os.unlink(os.path.join(bench.tools, name))
    return bench.helper(name, *glob.glob(f"{CORE}/order*.c"), f"{CORE}/draw.c", f"{CORE}/mt19937.c", "-pthread")


def orders(bench, report):
    program = lookups(bench)
    for samples, names in ((MILLION, ORDERS), (MANY, COMPUTED)):
        report.section(f"Orders of {samples:,} samples")
        for name in names:
            rounds = []
            for _ in range(bench.rounds):
                run = subprocess.run([program, name, str(samples)], capture_output=True, text=True)
                if run.returncode:
                    raise BenchError(run.stderr.strip())
                rounds.append([float(word) for word in run.stdout.split()])
            for at, (figure, unit, factor) in enumerate(FIGURES):
                report.add(f"{name}: {figure}", unit, [each[at] * factor for each in rounds])
    quality(bench, report)


def quality(bench, report):
    report.section("Figures of orders")
    command = [os.path.join(bench.binary_dir, "shufflefs-order"), "-n", str(SAMPLES), "--quality"]
    seconds = [timed([*command, "--against", "sequential"]) for _ in range(bench.rounds)]
    report.add(f"shufflefs-order -n {SAMPLES} --quality, two orders", "s", seconds)
