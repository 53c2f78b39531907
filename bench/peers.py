"""What pointing a loader at the mount costs it, or gains: each loader through the mount beside itself on its usual source, of
the same photographs; from the page cache, from a cold disk, and from storage that is slow. The recipes are docs/loaders.md's,
and pointed.py runs them.

Warm: all has been read before, through the mount too, as in every epoch after the first. (A stream is new in each epoch: its
bytes always come out of the shards.) Cold: the photographs' and shards' own pages are taken out of the cache, nothing else's,
and the mount is a new one. Slow: both sides read through slowfs (tests/mount/slowfs.c), and nothing of it is cached. The mount
has its index saved, and DALI its own of plain shards, so that nobody walks them at the start.

Rounds are the outermost, so that what else the machine did meets all sides; the first of each pair alternates.
"""

import contextlib
import os
import shutil
import tarfile

from child import NotInstalled, output_of
from cold import forget, make_cold
from measure import BenchError, back_memory, cache, one_pass
from photos import READER
from sides import tars
from slow import SlowStorage

LOADERS = ("libshuffleload", "torchvision", "webdataset", "dali-file", "dali-webdataset", "tf.data")
STORAGES = ("warm", "cold", "slow")
WORKERS, DELAY_MS = 2, 20
# A measurement ends with so many photographs or seconds, whichever comes first.
MOST = {"warm": (3000, 3), "cold": (3000, 3), "slow": (1500, 8)}
# From slow storage the data set is smaller: of a thousand photographs a shard.
SLOW_SHARDS = 2
WALKS_STREAM = "it walks the whole stream before its first batch, so that the rest would be from the page cache"
TIMEOUT_S = 180


class Photographs:
    """A data set as the loaders want it, below `place`: tree/, and labelled/ with DALI's indexes."""

    def __init__(self, bench, place):
        self.place = place
        self.index = place + ".index"
        self.shards, self.files = [], []
        os.makedirs(os.path.join(place, "labelled"))
        self.check = os.path.join(bench.binary_dir, "shufflefs-check")

    def own(self, shard):
        self.shards.append(os.path.join(self.place, "labelled", os.path.basename(shard)))
        return self.shards[-1]

    def write_indexes(self):
        output_of([self.check, "--write-idx", *self.shards], TIMEOUT_S)

    @property
    def all(self):
        return self.shards + self.files


class Whole(Photographs):
    """Links to what make-photos made."""

    def __init__(self, bench, place):
        super().__init__(bench, place)
        for shard in tars(os.path.join(bench.photos, "labelled")):
            os.symlink(shard, self.own(shard))
        self.write_indexes()
        tree = os.path.join(place, "tree")
        os.symlink(os.path.join(bench.photos, "tree"), tree)
        self.files = [os.path.join(folder, name) for folder, _, names in os.walk(tree + "/") for name in names]


class Few(Photographs):
    """The first shards, and what they hold as plain files. Copies: links lead out of slowfs, which has this folder."""

    def __init__(self, bench, place):
        super().__init__(bench, place)
        for shard in tars(os.path.join(bench.photos, "labelled"))[:SLOW_SHARDS]:
            shutil.copy(shard, self.own(shard))
            self.unpack(shard)
        self.write_indexes()

    def unpack(self, shard):
        with tarfile.open(shard) as archive:
            content = {member.name: archive.extractfile(member).read() for member in archive}
        for name in content:
            if name.endswith(".jpg"):
                label = int(content[name.removesuffix("jpg") + "cls"])
                folder = os.path.join(self.place, "tree", f"{label:04d}")
                os.makedirs(folder, exist_ok=True)
                self.files.append(os.path.join(folder, f"{len(self.files):06d}.jpg"))
                with open(self.files[-1], "wb") as file:
                    file.write(content[name])


class Pointed:
    def __init__(self, bench, report):
        self.bench = bench
        self.slow = SlowStorage(bench, report)
        self.shufflefs = bench.shufflefs()
        self.whole = Whole(bench, os.path.join(bench.scratch, "whole"))
        self.few = Few(bench, os.path.join(bench.scratch, "few"))
        python = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python")
        library = os.path.join(bench.binary_dir, "libshuffleload.so.0")
        own = {"PYTHONPATH": python, "SHUFFLELOAD_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": bench.scratch}
        self.environment = {**os.environ, **own}

    def rate(self, loader, source, state, epoch):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pointed.py")
        words = [self.bench.python, script, loader, source, *map(str, (*MOST[state], WORKERS, epoch))]
        return float(output_of(words, TIMEOUT_S, self.environment).split()[-1])

    @contextlib.contextmanager
    def storage(self, state):
        """(the folder of the photographs, their shards) in that state."""
        if state == "slow":
            cache(self.few.all)  # beneath, so that its READs take what they are said to
            with self.slow.behind(self.few.place, DELAY_MS) as slow:
                yield slow.path, tars(os.path.join(slow.path, "labelled"))
            return
        if state == "warm":
            cache(self.whole.all)
        else:
            make_cold(self.whole.files)
            make_cold(self.whole.shards)
        yield self.whole.place, self.whole.shards

    def on_files(self, loader, state, epoch):
        with self.storage(state) as (place, _):
            return self.rate(loader, "files:" + place, state, epoch)

    def on_mount(self, loader, state, epoch):
        with self.storage(state) as (_, shards):
            index = "index=" + (self.few if state == "slow" else self.whole).index
            with self.shufflefs.mount(shards, index) as mount:
                if state == "warm":
                    one_pass(self.bench.yardstick, os.path.join(mount.path, READER))
                elif state == "cold":
                    make_cold(shards)
                else:
                    forget(shards)
                return self.rate(loader, "mount:" + mount.path, state, epoch)

    def both(self, loader, state, number):
        """(on files, on the mount): each from a state of its own."""
        back_memory(1 << 30)
        sides = (self.on_files, self.on_mount)
        rates = [side(loader, state, number + 1) for side in (sides if number % 2 == 0 else sides[::-1])]
        return rates if number % 2 == 0 else rates[::-1]


def title(state):
    where = {"warm": "page cache warm", "cold": "from the local disk, cold", "slow": f"{DELAY_MS} ms a read"}[state]
    samples, seconds = MOST[state]
    of = f" of the first {SLOW_SHARDS} shards" if state == "slow" else ""
    return f"Loaders pointed at the mount, {where}: crops of 224, {WORKERS} workers, {samples:,} photographs{of} or {seconds} s"


def peers(bench, report):
    work = Pointed(bench, report)
    installed = list(LOADERS)
    for state in STORAGES:
        report.section(title(state))
        rates = {loader: [] for loader in installed}
        if state != "warm" and rates.pop("dali-webdataset", None) is not None:
            report.leave_out(f"dali-webdataset, {state}", WALKS_STREAM)
        for number in range(bench.rounds):
            for loader in list(rates):
                try:
                    rates[loader].append(work.both(loader, state, number))
                except BenchError as error:
                    del rates[loader]
                    if isinstance(error, NotInstalled):
                        installed.remove(loader)
                        report.leave_out(loader, error)
                    else:
                        bench.failures += 1
                        report.leave_out(f"{loader}, {state}", error)
        for loader, pairs in rates.items():
            files, mounted = zip(*pairs, strict=True)
            report.add(f"{loader} on files", "images/s", files)
            report.add(f"{loader} on the mount", "images/s", mounted)
            report.add_ratio(f"{loader}, on the mount / on files", mounted, files)
