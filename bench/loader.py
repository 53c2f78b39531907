"""libshuffleload beside other loaders, and beside what libjpeg-turbo itself can do: the same photographs, the same
transforms, as many threads or processes, in one run and in turn.

The other loaders are Python packages, of the interpreter that --python names; those it has not got are left out. Each is
started anew for every round and has an epoch or two to get going (python-loaders.py). The images from memory are decoded by as
many bare threads as the loader has, by the loader's own code (tests/loader/load-overhead.c): what reading them from a
mount, batches and order cost is what is missing to 1.
"""

import json
import os
import re

from child import output_of
from measure import BenchError, back_memory, cache
from sides import tars

WORKERS = 2
TIMEOUT_S = 900
GOALS = {"ffcv": 2.2, "dali": 2.7, "torchvision": 4, "webdataset": 4.8}
LIMIT_GOAL, MEMORY_GOAL = 0.8, 0.95
OVERHEAD = re.compile(r"^(\w+=\S+).*by CPU, ([0-9.]+) \(([0-9.]+) - ([0-9.]+)\) by wall", re.MULTILINE)


class Loaders:
    def __init__(self, bench):
        self.bench = bench
        self.tree = os.path.join(bench.photos, "tree")
        self.limit = bench.helper("decode-limit", "-ljpeg", "-lm", "-lpthread")

    def decode_limit(self):
        return float(output_of([self.limit, str(WORKERS), self.tree], TIMEOUT_S))

    def ours(self, path, *options):
        words = ["load", "--json", "--workers", str(WORKERS), "--rounds", "1", "--warm-up", "1", *options, path]
        return json.loads(output_of([self.bench.yardstick, *words], TIMEOUT_S))["paths"][0]["steps"][0]["samples_per_s"]

    def other(self, name):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python-loaders.py")
        return float(output_of([self.bench.python, script, name, self.bench.photos, str(WORKERS)], TIMEOUT_S).split()[-1])

    def beside_memory(self, root):
        """The rates from a rank's folder and from its stream, each to that from memory, by the median of the rounds."""
        tool = os.path.join(self.bench.binary_dir, "load-overhead")
        folder = os.path.join(root, "current", "rank-0")
        text = output_of([tool, self.tree, str(max(3, self.bench.rounds)), f"folder={folder}", f"stream={root}"], TIMEOUT_S)
        return {match[0].partition("=")[0]: [float(part) for part in match[1:]] for match in OVERHEAD.findall(text)}


def find_others(work, report):
    """Those that work, by their first rates."""
    rates = {}
    for name in GOALS:
        try:
            rates[name] = [work.other(name)]
        except BenchError as error:
            report.leave_out(name, error)
    return rates


def loader(bench, report):
    report.section(f"Photographs to batches: RandomResizedCrop 224, flip, float32 NCHW; {WORKERS} threads or processes")
    shards = tars(os.path.join(bench.photos, "labelled"))
    work = Loaders(bench)
    back_memory()
    cache(shards)
    others = find_others(work, report)
    rates = {"limit": [], "folder": [], "stream": []}
    with bench.shufflefs().mount(shards) as mount:
        for number in range(bench.rounds):
            rates["limit"].append(work.decode_limit())
            rates["folder"].append(work.ours(os.path.join(mount.path, "current", "rank-0")))
            rates["stream"].append(work.ours(mount.path, "--stream"))
            for name, values in others.items():
                if number:
                    values.append(work.other(name))
        memory = work.beside_memory(mount.path)
    show(report, rates, others, memory)


def show(report, rates, others, memory):
    report.add("libjpeg-turbo alone, region and DCT scaling", "images/s", rates["limit"])
    for name, way in (("folder", "libshuffleload, a rank's folder"), ("stream", "libshuffleload, rank-0.tar")):
        report.add(way, "images/s", rates[name])
        report.add_ratio("the same / libjpeg-turbo alone", rates[name], rates["limit"], at_least=LIMIT_GOAL)
        if name in memory:
            median, least, most = memory[name]
            report.add("the same / decoded from memory, quartiles", "x", [least, median, most], at_least=MEMORY_GOAL)
    for name, values in others.items():
        report.add(name, "images/s", values)
        report.add_ratio(f"libshuffleload, folder / {name}", rates["folder"], values, at_least=GOALS[name])
