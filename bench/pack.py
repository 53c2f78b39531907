"""shufflefs-pack beside `cp -r`, and its resizing beside ImageMagick's and Pillow's: the same photographs, in turn.

Each side is told by the clock and by the processor time it took (user and system, its children's too). The clock is what
users wait for. Processor time says the same on a machine that does other work; there the time in which a thread could have
run, and other work did, counts as use of the processors. What a side left to be written to storage is written before the
next one starts: `cp` leaves all of it, shufflefs-pack nothing.

All resize to a short side of 320 at quality 90 with 4:2:0 sampling, with two processes or threads. ImageMagick's
processes have one thread each, as more would share two processors with each other.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import threading
import time

from measure import BenchError, back_memory, cache

SHORT, QUALITY, WORKERS = 320, 90, 2
RESIZED_CLASSES = 25
COPY_GOAL, RESIZE_GOAL, CORES_GOAL = 0.8, 2, 0.9


@dataclasses.dataclass
class Taken:
    wall: float
    cpu: float
    ready: float = 0  # seconds in which threads could have run and other work did; known of a single process


class Watch(threading.Thread):
    """Adds up how long a process's threads were ready to run and did not, by the kernel's account (schedstat)."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.tasks, self.waited, self.ended = f"/proc/{pid}/task", {}, threading.Event()

    def run(self):
        while not self.ended.wait(0.02):
            try:
                for task in os.listdir(self.tasks):
                    with open(f"{self.tasks}/{task}/schedstat") as file:
                        self.waited[task] = int(file.read().split()[1]) / 1e9
            except (OSError, IndexError):
                pass  # a thread, or the process, ended meanwhile

    def total(self):
        self.ended.set()
        self.join()
        return sum(self.waited.values())


def timed(command, **more):
    """Seconds that a command takes. Everything that was to be written before is on storage first."""
    os.sync()
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **more)
    watch = Watch(process.pid)
    watch.start()
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"{command[0]} ended with {process.returncode}: {said.strip()[-200:]}")
    return Taken(time.monotonic() - start, usage.ru_utime + usage.ru_stime, watch.total())


class Packing:
    def __init__(self, bench):
        self.bench = bench
        self.tree = os.path.join(bench.photos, "tree")
        self.folder = os.path.join(bench.scratch, "pack")
        self.program = os.path.join(bench.binary_dir, "shufflefs-pack")

    def fresh(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        return self.folder

    def ours(self, source, *options):
        return timed([self.program, source, "-o", os.path.join(self.fresh(), "t-%06d.tar"), *options])

    def cp(self):
        return timed(["cp", "-r", self.tree, os.path.join(self.fresh(), "copy")])

    def resized(self, source):
        return self.ours(source, "--resize-short", str(SHORT), "--quality", str(QUALITY), "-j", str(WORKERS))

    def imagemagick(self, source):
        script = (
            f'find -L "$1" -name "*.jpg" -print0 | xargs -0 -P {WORKERS} -n 50 mogrify -path "$2" -auto-orient '
            f'-resize "{SHORT}x{SHORT}^>" -sampling-factor 4:2:0 -quality {QUALITY}'
        )
        environment = dict(os.environ, MAGICK_THREAD_LIMIT="1", OMP_NUM_THREADS="1")
        return timed(["sh", "-c", script, "sh", source, self.fresh()], env=environment)

    def pillow(self, source):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python-resize.py")
        words = [source, self.fresh(), str(SHORT), str(QUALITY), str(WORKERS)]
        return timed([self.bench.python, script, *words])

    def some_classes(self):
        """A folder of links to some of the classes: resizing all photographs five times on each side takes long."""
        some = os.path.join(self.bench.scratch, "some")
        os.makedirs(some)
        for name in sorted(os.listdir(self.tree))[:RESIZED_CLASSES]:
            os.symlink(os.path.join(self.tree, name), os.path.join(some, name))
        return some


def files_below(folder):
    return [os.path.join(place, name) for place, _, names in os.walk(folder, followlinks=True) for name in names]


def rates(taken, count, clock):
    return [count / getattr(one, clock) for one in taken]


def show(report, ours, others, count, unit, **goal):
    for clock, what in (("wall", unit + "/s"), ("cpu", unit + "/cpu-s")):
        mine = rates(ours, count, clock)
        report.add("shufflefs-pack", what, mine)
        for name, taken in others.items():
            theirs = rates(taken, count, clock)
            report.add(name, what, theirs)
            way = "by the clock" if clock == "wall" else "by processor time"
            report.add_ratio(f"shufflefs-pack / {name}, {way}", mine, theirs, **goal)


def copying(bench, report, work):
    paths = files_below(work.tree)
    report.section(f"Packing {len(paths):,} photographs as they are, beside cp -r; page cache warm, same file system")
    ours, theirs = [], []
    back_memory()
    for turn in range(bench.rounds):
        cache(paths)
        for side in ("ours", "cp") if turn % 2 else ("cp", "ours"):
            if side == "ours":
                ours.append(work.ours(work.tree, "-j", str(WORKERS)))
            else:
                theirs.append(work.cp())
    show(report, ours, {"cp -r": theirs}, len(paths), "files", at_least=COPY_GOAL)


def resizing(bench, report, work):
    some = work.some_classes()
    paths = files_below(some)
    report.section(f"Packing {len(paths):,} photographs at a short side of {SHORT}, quality {QUALITY}; {WORKERS} threads or processes")
    cache(paths)
    sides = {"ImageMagick": work.imagemagick, "Pillow": work.pillow}
    others = {}
    for name, side in list(sides.items()):
        try:
            others[name] = [side(some)]
        except (BenchError, OSError) as error:
            report.leave_out(name, error)
            del sides[name]
    ours = [work.resized(some)]
    for _ in range(bench.rounds - 1):
        for name, side in sides.items():
            others[name].append(side(some))
        ours.append(work.resized(some))
    show(report, ours, others, len(paths), "images", at_least=RESIZE_GOAL)
    used = [one.cpu / one.wall / WORKERS for one in ours]
    report.add(f"shufflefs-pack: part of {WORKERS} processors used", "x", used)
    wanted = [min(1, (one.cpu + one.ready) / one.wall / WORKERS) for one in ours]
    report.add("the same, used or taken by other work meanwhile", "x", wanted, at_least=CORES_GOAL)
    told = json.loads(subprocess.run([work.program, some, "-o", os.path.join(work.fresh(), "t-%d.tar"), "--json", "--resize-short",
                                      str(SHORT)], capture_output=True, check=True).stdout)
    report.add("photographs that were made smaller", "%", [100 * told["resized"] / len(paths)])


def pack(bench, report):
    work = Packing(bench)
    copying(bench, report, work)
    resizing(bench, report, work)
    shutil.rmtree(work.folder, ignore_errors=True)
