"""What the Python tests share: a folder of their own, small pictures without a library to make them, and a look at whether
a loader has left threads or files."""

import contextlib
import gc
import importlib.util
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
import zlib

import shuffleload

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SLOW = os.environ.get("SHUFFLEFS_TEST_SLOW") == "1"


def needs_module(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, "needs the Python module " + ", ".join(missing))


def slow(test):
    return unittest.skipUnless(SLOW, "slow: --slow includes it")(test)


@contextlib.contextmanager
def no_warnings():
    """A warning is an error in here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def png(value, side=8):
    """A picture in one shade of grey."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([value]) * (3 * side)) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def threads():
    """The library's, in this process."""
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            name = pathlib.Path("/proc/self/task", task, "comm").read_text(encoding="ascii").strip()
        except OSError:
            continue
        found += [name] if name.startswith("sl-") else []
    return sorted(found)


def files():
    """What is open in this process, but for the look itself."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append((int(number), os.readlink("/proc/self/fd/" + number)))
        except OSError:
            continue
    return sorted(name for _, name in found if not name.startswith("/proc/"))


class Case(unittest.TestCase):
    """A folder `self.tmp` with `self.pictures` grey pictures, 000.png and on, the shade being their number; their labels are
    ten times that."""

    maxDiff = 2000
    pictures = 40

    def setUp(self):
        self.tmp = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tmp)
        self.folder = self.tmp / "pictures"
        self.folder.mkdir()
        for number in range(self.pictures):
            (self.folder / f"{number:03}.png").write_bytes(png(number))
            (self.folder / f"{number:03}.cls").write_bytes(b"%d" % (10 * number))
        self.files = files()
        self.addCleanup(self.expect_nothing_open)

    def expect_nothing_open(self):
        gc.collect()
        self.assertEqual(threads(), [])
        self.assertEqual(files(), self.files)

    def fifo(self):
        """A fifo that somebody has open for writing, and nobody writes to."""
        path = self.tmp / "fifo"
        os.mkfifo(path)
        self.addCleanup(os.close, os.open(path, os.O_RDWR))
        return path

    def loader(self, path=None, **settings):
        settings = {"batch_size": 8, "width": 8, "height": 8, "crop": "stretch", "workers": 2, "hold": 2, **settings}
        return shuffleload.Loader(path or self.folder, **settings)

    def python(self, script, *arguments, wait=60, **more):
        """Runs a script in an interpreter of its own. Returns what became of it."""
        # Python 3.12 and later warns of every fork() of a process with threads; some scripts mean to do that.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=wait, stdin=subprocess.DEVNULL, **more)

    def runs(self, script, *arguments, **more):
        """The same, of a script that ends well and complains of nothing. Returns what it has printed."""
        done = self.python(script, *arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout
