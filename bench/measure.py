"""Figures and how they are shown: values of several rounds, their median, a goal, met or missed.

Knows nothing of mounts. Also what every figure needs from the machine: its description, dropping the page cache,
filling it, and the yardstick's passes.
"""

import contextlib
import dataclasses
import json
import mmap
import os
import platform
import statistics
import subprocess
import time


class BenchError(Exception):
    """A figure cannot be measured; the text says why."""


@dataclasses.dataclass
class Figure:
    part: str
    section: str
    name: str
    unit: str
    values: list
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def goal(self):
        if self.at_least is not None:
            return f">= {self.at_least:,g}"
        return f"<= {self.at_most:,g}" if self.at_most is not None else ""

    @property
    def met(self):
        """None where there is no goal."""
        if self.at_least is not None:
            return self.median >= self.at_least
        return self.median <= self.at_most if self.at_most is not None else None

    @property
    def spread(self):
        return f"({number(min(self.values))} - {number(max(self.values))})" if len(self.values) > 1 else ""

    @property
    def verdict(self):
        return {None: "", True: "met", False: "missed"}[self.met]

    def line(self):
        row = f"  {self.name:<50} {number(self.median):>9} {self.unit:<9} {self.spread:<22} {self.goal:<11} {self.verdict}"
        return row.rstrip()

    def markdown(self):
        goal = f"{self.goal}, {self.verdict}" if self.goal else ""
        cells = (self.name, f"{number(self.median)} {self.unit}", self.spread.strip("()"), goal)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def number(value):
    """Three digits that count, or whole thousands."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


class Report:
    """Prints figures as they come and keeps them for the files that are written at the end."""

    def __init__(self, machine):
        self.machine = machine
        self.notes = []
        self.parts = {}
        self.part = ""
        self.figures = []
        self.left_out = []
        print(machine, flush=True)
        print("Each figure: median of the rounds (least - most).", flush=True)

    def note(self, text):
        self.notes.append(text)
        print(text, flush=True)

    @contextlib.contextmanager
    def measuring(self, part, rounds, data):
        """Notes with a part, as `bench/run --only` names them, what its figures have to be read with. `data` says of what."""
        load, start = os.getloadavg()[0], time.monotonic()
        self.part = part
        try:
            yield
        finally:
            self.parts[part] = {
                "machine": self.machine,
                "date": time.strftime("%Y-%m-%d"),
                "data": data,
                "rounds": rounds,
                "seconds": round(time.monotonic() - start),
                "cores": len(os.sched_getaffinity(0)),
                "load_average": [round(load, 1), round(os.getloadavg()[0], 1)],
            }

    def section(self, title):
        self.title = title
        print(f"\n{title}", flush=True)

    def add(self, name, unit, values, **goal):
        figure = Figure(self.part, self.title, name, unit, list(values), **goal)
        self.figures.append(figure)
        print(figure.line(), flush=True)

    def add_ratio(self, name, above, below, **goal):
        """Round by round, so that what else the machine did in a round meets both sides."""
        self.add(name, "x", [a / b for a, b in zip(above, below, strict=True)], **goal)

    def leave_out(self, name, reason):
        self.left_out.append({"part": self.part, "name": name, "reason": str(reason)})
        print(f"  left out: {name}: {reason}", flush=True)

    def summary(self):
        missed = [figure.name for figure in self.figures if figure.met is False]
        asked = sum(figure.met is not None for figure in self.figures)
        return f"{asked - len(missed)} of {asked} goals met" + "".join(f"; missed: {name}" for name in missed)

    def write_json(self, path):
        figures = [dataclasses.asdict(figure) | {"median": figure.median, "met": figure.met} for figure in self.figures]
        told = {"machine": self.machine, "notes": self.notes, "parts": self.parts, "figures": figures}
        with open(path, "w") as file:
            json.dump(told | {"left_out": self.left_out}, file, indent=1)
            file.write("\n")

    def write_markdown(self, path):
        """One table, ready for a page, and what there is to know about it."""
        lines = [f"Measured on: {self.machine}.", *self.notes, "", "| figure | median | least - most | goal |"]
        lines.append("| --- | --- | --- | --- |")
        section = None
        for figure in self.figures:
            if figure.section != section:
                section = figure.section
                lines.append(f"| **{section}** | | | |")
            lines.append(figure.markdown())
        lines += ["", self.summary() + ".", *(f"Left out: {one['name']}: {one['reason']}" for one in self.left_out)]
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")


def first_line_with(path, word):
    """What follows the colon on the first line of `path` that starts with `word`; None when there is none."""
    with open(path) as file:
        for line in file:
            if line.startswith(word):
                return line.partition(":")[2].strip()
    return None


def kilobytes(path, word):
    text = first_line_with(path, word)
    if text is None:
        raise BenchError(f"no {word} in {path}")
    return int(text.split()[0])


def filesystem_of(path):
    """The type of the file system that `path` (which may not exist yet) stands on."""
    path = os.path.realpath(path)
    best = ("", "unknown")
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, right = line.split(" - ", 1)
            top = left.split()[4]
            if (path == top or path.startswith(top.rstrip("/") + "/")) and len(top) >= len(best[0]):
                best = (top, right.split()[0])
    return best[1]


def machine_line(folder):
    cpu = first_line_with("/proc/cpuinfo", "model name") or platform.machine()
    memory = kilobytes("/proc/meminfo", "MemTotal") / (1 << 20)
    cores = len(os.sched_getaffinity(0))
    return f"{cpu}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, {filesystem_of(folder)}"


def busy_line():
    """None on a quiet machine; else what other work does to the figures."""
    load = os.getloadavg()[0]
    if load < 0.5:
        return None
    return (
        f"Load average {load:.1f} at the start: other work takes time from some rounds, and keeps CPUs awake, which "
        "speeds up every side that answers each file with a round trip. Ratios need a quiet machine."
    )


def can_drop_caches():
    return os.access("/proc/sys/vm/drop_caches", os.W_OK) and os.geteuid() == 0


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3\n")


def back_memory(size=2 << 30):
    """Writes to as much memory as is about to be used, and frees it. A virtual machine's free memory may have been
    given back to its host, and then the first writer of each page pays for it: up to ten times what a copy costs."""
    with mmap.mmap(-1, size) as memory:
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


def cache(paths):
    """Reads files through once: their pages are in the page cache then."""
    buffer = bytearray(1 << 20)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def one_round(tool, folders, *options):
    """One pass over each folder by `shufflefs-bench read`; the results as dictionaries, in their order."""
    command = [tool, "read", "--json", "--rounds", "1", "--warm-up", "0", *options, *folders]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise BenchError(f"shufflefs-bench read {' '.join(folders)}: {run.stderr.strip() or run.returncode}")
    return json.loads(run.stdout)["results"]


def one_pass(tool, folder, *options):
    """One pass over one folder, one reader, listed before it."""
    return one_round(tool, [folder], *options)[0]
