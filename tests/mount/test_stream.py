"""rank-R.tar: the epoch as one tar stream that any tar reader takes."""

import hashlib
import os
import random
import shutil
import subprocess
import tarfile
import unittest

import harness
import tars
import torch_order
from harness import MountCase

LONG = b"folder-" + b"x" * 60 + b"/" + b"y" * 60 + b"/" + b"k" * 90
LATIN1 = b"caf\xe9/" + b"\xff" * 120
UTF8 = "\u72ac/".encode() * 30 + b"z" * 110


class Stream(MountCase):
    def expected(self, data_set, order, fields):
        """(name, bytes) of the members that the stream must have."""
        for position, sample in enumerate(order):
            for field in fields:
                name = b"%08d/%s.%s" % (position, data_set.samples[sample].key, field.encode())
                yield name, data_set.data(sample, field)

    def by_tarfile(self, path):
        with tarfile.open(path, errors="surrogateescape", encoding="utf-8") as archive:
            for member in archive:
                yield member.name.encode("utf-8", "surrogateescape"), archive.extractfile(member).read()

    def check(self, mount, data_set, n, world=1, epoch=0, fields=("jpg", "cls")):
        for rank in range(world):
            path = mount.path("epoch-%d" % epoch, "rank-%d.tar" % rank)
            order = torch_order.rank_order(n, world, rank, epoch=epoch)
            self.assertEqual(list(self.by_tarfile(path)), list(self.expected(data_set, order, fields)))

    def test_tarfile_reads_every_rank_in_order(self):
        data_set = tars.make_dataset(self.tmp / "shards", 211, size=lambda i: i * 37 % 3000, cls=lambda i: b"%d" % i)
        mount = self.mount(data_set.shards, "world=3")
        self.check(mount, data_set, 211, world=3, epoch=4)
        self.assertEqual(int(os.getxattr(mount.path("epoch-4", "rank-1.tar"), "user.shufflefs.samples")), 71)

    def test_names_that_ustar_cannot_hold_have_a_pax_header_and_only_these(self):
        keys = [LONG, LATIN1, UTF8, b"short", b"d/" + b"n" * 84, b"d/" + b"n" * 90]
        data_set = tars.make_dataset(self.tmp / "shards", len(keys), cls=lambda i: b"%d" % i, key=lambda i: keys[i])
        mount = self.mount(data_set.shards)
        self.check(mount, data_set, len(keys))
        raw = mount.read("epoch-0", "rank-0.tar")
        types = []
        at = 0
        while raw[at]:
            types.append(raw[at + 156:at + 157])
            at += 512 + (int(raw[at + 124:at + 135], 8) + 511) // 512 * 512
        self.assertEqual(raw[at:], bytes(1024))
        # UTF8 has slashes where ustar may split it; LONG and LATIN1 have none that leaves 100 bytes of name or fewer.
        self.assertEqual(types.count(b"0"), 2 * len(keys))
        self.assertEqual(types.count(b"x"), 2 * sum(not self.fits_ustar(b"00000000/%s.jpg" % key) for key in keys))

    @staticmethod
    def fits_ustar(name):
        slashes = [i for i, c in enumerate(name) if c == ord("/")]
        return len(name) <= 100 or any(i <= 155 and 0 < len(name) - i - 1 <= 100 for i in slashes)

    def test_tar_programs_list_and_unpack_it(self):
        data_set = tars.make_dataset(self.tmp / "shards", 60, cls=lambda i: b"%d" % i)
        mount = self.mount(data_set.shards)
        order = torch_order.rank_order(60, 1, 0)
        wanted = dict(self.expected(data_set, order, ("jpg", "cls")))
        for program in ("tar", "bsdtar"):
            if not shutil.which(program):
                continue
            out = self.tmp / program
            out.mkdir()
            result = subprocess.run([program, "-xf", mount.path("current", "rank-0.tar"), "-C", out], capture_output=True)
            self.assertEqual((result.returncode, result.stderr), (0, b""), program)
            for name, data in wanted.items():
                self.assertEqual((out / os.fsdecode(name)).read_bytes(), data)

    def test_made_labels_stand_in_the_stream(self):
        data_set = tars.make_dataset(self.tmp / "shards", 20, cls=lambda i: b"class-%d" % (i % 3))
        mount = self.mount(data_set.shards)
        found = dict(self.by_tarfile(mount.path("epoch-0", "rank-0.tar")))
        for position, sample in enumerate(torch_order.rank_order(20, 1, 0)):
            name = b"%08d/%s.cls" % (position, data_set.samples[sample].key)
            self.assertEqual(found[name], b"%d" % (sample % 3))

    def test_any_part_reads_the_same(self):
        data_set = tars.make_dataset(self.tmp / "shards", 600, size=lambda i: i * 31 % 2000, cls=lambda i: b"%d" % i)
        mount = self.mount(data_set.shards, "world=2")
        path = mount.path("epoch-2", "rank-1.tar")
        with open(path, "rb") as stream:
            whole = stream.read()
        self.assertEqual(len(whole), os.path.getsize(path))
        draw = random.Random(5)
        fresh = self.mount(data_set.shards, "world=2")
        handle = os.open(fresh.path("epoch-2", "rank-1.tar"), os.O_RDONLY)
        try:
            for _ in range(400):
                at, size = draw.randrange(len(whole) + 10), draw.choice((1, 100, 512, 5000, 70000))
                self.assertEqual(os.pread(handle, size, at), whole[at:at + size])
        finally:
            os.close(handle)

    def test_two_mounts_give_the_same_bytes_whatever_the_shards_times(self):
        data_set = tars.make_dataset(self.tmp / "shards", 50)
        copy = self.tmp / "copy"
        shutil.copytree(self.tmp / "shards", copy)
        for path in copy.iterdir():
            os.utime(path, (1, 1000000))
        digests = {hashlib.sha256(self.mount(shards).read("epoch-1", "rank-0.tar")).hexdigest()
                   for shards in (data_set.shards, [copy])}
        self.assertEqual(len(digests), 1)

    def test_current_follows_the_control_file(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40)
        mount = self.mount(data_set.shards)
        for epoch in (0, 3, 1):
            mount.set_epoch(epoch)
            self.assertEqual(mount.read("current", "rank-0.tar"), mount.read("epoch-%d" % epoch, "rank-0.tar"))

    def test_a_shard_that_cannot_be_trusted_is_an_error_not_other_bytes(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40, shards=2, size=lambda i: 3000)
        mount = self.mount(data_set.shards)
        os.truncate(data_set.shards[1], 2000)
        with self.assertRaises(OSError) as caught:
            mount.read("epoch-0", "rank-0.tar")
        self.assertEqual(caught.exception.errno, 5)

    @harness.needs_root
    def test_it_is_read_only(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        mount = self.mount(data_set.shards)
        path = mount.path("current", "rank-0.tar")
        for flags in (os.O_WRONLY | os.O_TRUNC, os.O_WRONLY):
            with self.assertRaises(OSError) as caught:
                handle = os.open(path, flags)
                try:
                    os.write(handle, b"x")
                finally:
                    os.close(handle)
            self.assertEqual(caught.exception.errno, 30)


if __name__ == "__main__":
    unittest.main()
