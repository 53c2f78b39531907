"""What the tests of shufflefs-pack share: sources, and a case that packs them."""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib

import harness
import slow as slow_storage
import tars
from harness import binary, read, run

# An interpreter that has the packages of other loaders; where none is given, this one.
PEERS = os.environ.get("LOADERS_PYTHON") or sys.executable
PROGRAM = "shufflefs-pack"


def tree(folder, classes=3, each=20, size=tars.small_size):
    """FOLDER/cN/imgN.jpg and .json; their bytes by name."""
    files = {}
    for c in range(classes):
        os.makedirs(os.path.join(folder, "c%d" % c))
        for i in range(each):
            for field in ("jpg", "json"):
                name = "c%d/img%04d.%s" % (c, i, field)
                files[name] = tars.content(c * each + i, field, size(i))
                tars.write_file(os.path.join(folder, name), files[name], tars.MTIME + i + 0.25)
    return files


def members(paths):
    """(name, bytes) of all members, in order, read by Python's tarfile."""
    found = []
    for path in paths:
        with tarfile.open(path, errors="surrogateescape") as archive:
            found += [(member.name, archive.extractfile(member).read()) for member in archive]
    return found


def digest(paths):
    return [(os.path.basename(path), hashlib.sha256(read(path)).hexdigest()) for path in sorted(paths)]


def png(width, height, colour):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(colour) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class PackCase(slow_storage.SlowCase):
    def setUp(self):
        super().setUp()
        self.source, self.out = self.tmp / "source", self.tmp / "out"
        self.source.mkdir()
        self.out.mkdir()

    def packing(self, *words, source=None, pattern="t-%06d.tar"):
        return [binary(PROGRAM), *(source or [self.source]), "-o", self.out / pattern, *words]

    def pack(self, *words, code=0, patience=harness.PATIENCE, **more):
        """Runs it; the JSON summary, with what it said in `said`."""
        result = run(self.packing("--json", *words, **more), patience)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        self.assertEqual(result.returncode, code, result.stderr)
        summary = json.loads(result.stdout) if result.stdout else {}
        summary["said"] = result.stderr
        return summary

    def slow_source(self, milliseconds):
        """The source, as storage shows it where each read takes so long: time to do something while it is packed."""
        return [self.storage(self.source, "delay_ms=%d" % milliseconds).path()]

    def begin(self, *words, **more):
        """Starts it, and returns the process when a temporary file is there."""
        process = subprocess.Popen([str(w) for w in self.packing(*words, **more)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        harness.wait_until(lambda: list(self.out.glob(".t-*.part")) or process.poll() is not None, "a temporary file")
        self.assertIsNone(process.poll(), "it is over too soon")
        return process

    def shards(self):
        return sorted(self.out.glob("*.tar"))

    def expect_clean(self):
        """Nothing but shards is left beside them."""
        self.assertEqual([name for name in os.listdir(self.out) if not name.endswith(".tar") or name[0] == "."], [])

    def empty(self):
        for path in self.out.iterdir():
            path.unlink()
