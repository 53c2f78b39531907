"""Storage that is slow, fails, or hangs: slowfs (tests/mount/slowfs.c) between a folder of shards and the mount."""
import contextlib
import json
import os
import signal
import subprocess

import harness

PROGRAM = "tests/slowfs"


class Storage:
    """A mounted slowfs. Its own checks at the end are those of any mount: it goes when told, and ends with 0."""

    def __init__(self, source, where, process, stderr_path):
        self.source, self.mount = str(source), harness.Mount(where, process, stderr_path, False)
        self.process = process

    def path(self, *names):
        return self.mount.path(*names)

    def shards(self, data_set):
        """The data set's shards as this storage shows them."""
        return [self.path(os.path.basename(shard)) for shard in data_set.shards]

    def state(self):
        """{"reads": N, "bytes": N, "most": N}; does not answer while the storage hangs."""
        return json.loads(self.mount.read(".reads"))

    def forget(self):
        """Takes all its files out of the page cache, and no others."""
        harness.forget([self.path(name) for name in os.listdir(self.source)])

    @contextlib.contextmanager
    def failing(self, *names):
        """Reading these base names ("*": all) answers EIO meanwhile; or what else a line of .fail says (slowfs.c)."""
        path, new = os.path.join(self.source, ".fail"), os.path.join(self.source, ".fail.new")
        with open(new, "w", encoding="utf-8") as out:
            out.write("".join(name + "\n" for name in names))
        os.rename(new, path)
        try:
            yield
        finally:
            os.unlink(path)

    def hang(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def come_back(self):
        os.kill(self.process.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def hanging(self):
        self.hang()
        try:
            yield
        finally:
            self.come_back()

    def finish(self):
        if self.process.poll() is None:
            self.come_back()
        self.mount.finish()


class SlowCase(harness.MountCase):
    def setUp(self):
        super().setUp()
        if not os.access(harness.binary(PROGRAM), os.X_OK):
            self.fail("no program: " + harness.binary(PROGRAM))

    def storage(self, source, options=""):
        """Mounts slowfs over a folder; options as in slowfs.c, "delay_ms=5"."""
        where = self.mountpoint("slow")
        stderr_path = where + ".stderr"
        command = [harness.binary(PROGRAM), "-f", *(["-o", options] if options else []), str(source), where]
        with open(stderr_path, "ab") as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        made = Storage(source, where, process, stderr_path)
        self.addCleanup(made.mount.destroy)
        self.wait_answer(made.mount, ".reads")
        self.addCleanup(made.finish)
        return made
