"""What pointing a loader at the mount costs it, or gains: each loader through the mount beside itself on its usual source, of
the same photographs; from the page cache, from storage, and from storage that is slow. The recipes are docs/loaders.md's.

From storage: the photographs' or shards' own pages are taken out of the cache, nothing else's, and the mount is a new one.
"""

import contextlib
import os
import subprocess

from loader import run
from measure import BenchError, cache
from sides import tars
from slow import SlowStorage, forget

LOADERS = ("torchvision", "webdataset", "dali")
SAMPLES, WORKERS, DELAY_MS = 1000, 2, 20


class Pointed:
    def __init__(self, bench, report):
        self.bench = bench
        self.slow = SlowStorage(bench, report)
        self.shufflefs = bench.shufflefs()
        self.shards = tars(os.path.join(bench.photos, "labelled"))
        self.files = [
            os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(bench.photos, "tree")) for name in names
        ]

    def rate(self, loader, source, epoch):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pointed.py")
        return float(run([self.bench.python, script, loader, source, str(SAMPLES), str(WORKERS), str(epoch)]).split()[-1])

    @contextlib.contextmanager
    def photographs(self, storage):
        """The folder of the photographs, as `storage` has them."""
        sources = self.shards + self.files
        if storage == "warm":
            cache(sources)
            yield self.bench.photos
        elif storage == "cold":
            forget(sources)
            yield self.bench.photos
        else:
            forget(sources)
            with self.slow.behind(self.bench.photos, DELAY_MS) as slow:
                yield slow.path

    def both(self, loader, storage, epoch):
        """(on files, on the mount): each from a state of its own."""
        with self.photographs(storage) as photos:
            files = self.rate(loader, "files:" + photos, epoch)
        with self.photographs(storage) as photos:
            with self.shufflefs.mount(tars(os.path.join(photos, "labelled"))) as mount:
                if storage == "cold":
                    forget(self.shards)  # the mount has read their headers
                return files, self.rate(loader, "mount:" + mount.path, epoch)


def peers(bench, report):
    report.section(f"Loaders pointed at the mount: {SAMPLES} photographs to crops of 224, {WORKERS} workers")
    work = Pointed(bench, report)
    for loader in LOADERS:
        for storage, words in (("warm", "warm"), ("cold", "from storage"), ("slow", f"{DELAY_MS} ms a read")):
            try:
                files, view = zip(*[work.both(loader, storage, number + 1) for number in range(bench.rounds)])
            except (BenchError, subprocess.TimeoutExpired) as error:
                report.leave_out(f"{loader}, {words}", error)
                continue
            report.add(f"{loader} on files, {words}", "images/s", list(files))
            report.add(f"{loader} on the mount, {words}", "images/s", list(view))
            report.add_ratio("the same / on files", list(view), list(files))
