"""Compressed shards: unpacked once, within a bound, and read as if they were plain."""
import bz2
import gzip
import json
import lzma
import os
import pathlib
import random
import shutil
import subprocess
import time

import harness
import tars
import torch_order
from harness import MountCase

GZIP, BZIP2, XZ, ZSTD, LZ4 = ".gz", ".bz2", ".xz", ".zst", ".lz4"


def by_program(program, data):
    return subprocess.run([program, "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


PACK = {GZIP: lambda data: gzip.compress(data, 1), BZIP2: bz2.compress, XZ: lambda data: lzma.compress(data, preset=0),
        ZSTD: lambda data: by_program("zstd", data), LZ4: lambda data: by_program("lz4", data)}


# Those that can be made here.
KINDS = [GZIP, BZIP2, XZ, *([ZSTD] if shutil.which("zstd") else []), *([LZ4] if shutil.which("lz4") else [])]


class Compressed(MountCase):
    def setUp(self):
        super().setUp()
        self.copies = self.tmp / "copies"
        self.cached = pathlib.Path(os.environ["XDG_CACHE_HOME"], "shufflefs", "unpacked")

    def pack(self, data_set, ending=GZIP, folder="packed"):
        """The data set's shards packed, in another folder."""
        os.makedirs(self.tmp / folder, exist_ok=True)
        return [tars.write_file(self.tmp / folder / (os.path.basename(shard) + ending), PACK[ending](harness.read(shard)))
                for shard in data_set.shards]

    def options(self, *more):
        return ",".join(["unpacked=%s" % self.copies, *more])

    def in_folder(self, ending, folder=None):
        folder = folder or self.copies
        return sorted(name for name in os.listdir(folder) if name.endswith(ending)) if os.path.isdir(folder) else []

    def assert_whole(self, mount, data_set, epoch=0):
        order = torch_order.rank_order(len(data_set), 1, 0, epoch=epoch)
        self.assert_rank(mount, data_set, order, "epoch-%d" % epoch, "rank-0")

    def fingerprint(self, *words):
        result = harness.run([harness.binary("shufflefs-order"), "--json", "--samples", "1", *words])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)["fingerprint"]


class Reading(Compressed):
    def read_packed(self, ending):
        data_set = tars.make_dataset(self.tmp / "plain", 60, shards=3, size=tars.odd_size)
        shutil.rmtree(self.cached, ignore_errors=True)
        packed = self.pack(data_set, ending)
        mount = self.mount(packed, "strict")
        self.assert_whole(mount, data_set)
        status = mount.status()
        self.assertEqual((status["unpacked_shards"], status["left_out"], status["errors"]), (3, {}, {}))
        self.assertEqual(status["unpacked_bytes"], sum(os.path.getsize(shard) for shard in data_set.shards))
        self.assertEqual(os.getxattr(mount.path("epoch-0", "rank-0", "00000000.jpg"), "user.shufflefs.shard").decode(),
                         packed[torch_order.rank_order(60, 1, 0)[0] // 20])
        self.assertEqual(self.in_folder(".part", self.cached), [])
        self.assertEqual(len(self.in_folder(".tar", self.cached)), 3)
        self.assertEqual(status["fingerprint"], self.fingerprint(*data_set.shards))
        self.assertEqual(status["fingerprint"], self.fingerprint(*packed))
        mount.unmount()

    def test_each_kind_reads_as_if_it_were_plain(self):
        for ending in KINDS:
            with self.subTest(ending):
                self.read_packed(ending)

    def test_a_folder_of_compressed_tars_is_taken_and_beside_plain_ones_they_are_left_out(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        packed = self.pack(data_set)
        self.assert_whole(self.mount([self.tmp / "packed"], self.options()), data_set)
        shutil.copy(packed[0], self.tmp / "plain" / "other.tar.gz")
        mount = self.mount([self.tmp / "plain"], self.options())
        self.assertEqual(mount.status()["samples"], 20)
        self.assertIn("left out, as compressed: 1 of 3", mount.stderr())

    def test_the_first_bytes_decide_and_not_the_name(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        os.mkdir(self.tmp / "odd")
        shards = [tars.write_file(self.tmp / "odd" / "train-000000.tar", gzip.compress(harness.read(data_set.shards[0]))),
                  tars.write_file(self.tmp / "odd" / "train-000001.tar.gz", harness.read(data_set.shards[1]))]
        mount = self.mount(shards, self.options("strict"))
        self.assert_whole(mount, data_set)
        self.assertEqual(mount.status()["unpacked_shards"], 1)
        self.assertEqual(mount.status()["fingerprint"], self.fingerprint(*data_set.shards))

    def test_none_leaves_them_out_and_counts_them(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        shards = [data_set.shards[0], *self.pack(data_set)[1:]]
        mount = self.mount(shards, "unpacked=none")
        status = mount.status()
        self.assertEqual((status["samples"], status["left_out"], status["unpacked_shards"]), (10, {"compressed": 1}, 0))
        self.assertEqual(list(status["bad_shards"]), shards[1:])
        self.assertFalse(self.cached.exists())
        self.refused(self.command(shards, self.mountpoint(), "unpacked=none,strict"), 1, "1 compressed", lines=None)

    def test_an_ordinary_user_keeps_them_in_the_own_cache_folder(self):
        self.unprivileged = True
        if not harness.can_be_nobody() or not harness.offer_dev_fuse(self.tmp):
            self.skipTest("needs root, setpriv and /dev/fuse, to mount as uid 65534")
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        mount = self.mount(self.pack(data_set), "strict", user=True)
        names = harness.run(harness.AS_NOBODY + ["ls", mount.path("epoch-0", "rank-0")]).stdout.split()
        self.assertEqual(len(names), 20)
        self.assertEqual(os.stat(self.cached).st_uid, harness.NOBODY)
        self.assertEqual(os.stat(self.cached).st_mode & 0o777, 0o700)


class Once(Compressed):
    def test_a_second_mount_does_not_unpack_again(self):
        data_set = tars.make_dataset(self.tmp / "plain", 40, size=lambda i: 20000)
        packed = self.pack(data_set)
        self.assert_whole(self.mount(packed, self.options("strict")), data_set)
        before = {name: os.stat(self.copies / name).st_ino for name in self.in_folder(".tar")}
        harness.forget(packed)
        mount = self.mount(packed, self.options("strict"))
        self.assert_whole(mount, data_set)
        self.assertEqual({name: os.stat(self.copies / name).st_ino for name in self.in_folder(".tar")}, before)
        # All it reads of an original is its start, which tells what it is.
        mount.unmount()
        for path in packed:
            size = os.path.getsize(path)
            self.assertGreater(size, 1 << 17)
            with open(path, "r+b") as out:
                out.seek(size // 2)
                out.write(b"!" * 100)
            os.utime(path, (tars.MTIME, tars.MTIME))
        self.assert_whole(self.mount(packed, self.options("strict")), data_set)

    def test_mounts_that_start_together_unpack_each_shard_once(self):
        data_set = tars.make_dataset(self.tmp / "plain", 80, shards=8, size=lambda i: 200000)
        packed = self.pack(data_set)
        places = [self.mountpoint() for _ in range(3)]
        started = [subprocess.Popen(self.command(packed, where, self.options("strict"), ["-v"]), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for where in places]
        inodes = set()
        while any(process.poll() is None for process in started):
            inodes |= {(name, os.stat(self.copies / name).st_ino) for name in self.in_folder(".tar")}
            time.sleep(0.005)
        for process in started:
            said = process.stderr.read()
            process.stderr.close()
            self.assertEqual(process.returncode, 0, said)
            self.assertNotIn("warning", said)
        inodes |= {(name, os.stat(self.copies / name).st_ino) for name in self.in_folder(".tar")}
        self.assertEqual(len(inodes), 8, "a copy was replaced by another")
        self.assertEqual(self.in_folder(".part"), [])
        for where in places:
            mount = harness.Mount(where, None, None, False)
            self.addCleanup(mount.destroy)
            self.assert_whole(mount, data_set)
            mount.unmount()

    def test_a_changed_original_changes_nothing_until_the_next_mount(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 5000)
        packed = self.pack(data_set)
        mount = self.mount(packed, self.options("readahead=0"))
        other = tars.make_dataset(self.tmp / "other", 20, size=lambda i: 6000)
        for path, shard in zip(packed, other.shards):
            with open(path, "wb") as out:
                out.write(gzip.compress(harness.read(shard)))
        self.assert_whole(mount, data_set)
        os.unlink(packed[0])
        self.assert_whole(mount, data_set, epoch=1)
        self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))
        mount.unmount()
        tars.write_file(packed[0], gzip.compress(harness.read(other.shards[0])), time.time())
        self.assert_whole(self.mount(packed, self.options()), other)


class Kills(Compressed):
    def kill_while_unpacking(self, times):
        data_set = tars.make_dataset(self.tmp / "plain", 64, shards=4, size=lambda i: 200000)
        packed = self.pack(data_set)
        where = self.mountpoint()
        state = random.Random(7)
        seen = {"part": 0, "tar": 0}
        for _ in range(times):
            command = self.command(packed, where, self.options(), ["-f"])
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(state.uniform(0, 0.15))
            process.kill()
            process.wait(harness.PATIENCE)
            harness.clear_away(os.path.basename(where), harness.FOLDER)
            for ending in seen:
                seen[ending] += bool(self.in_folder("." + ending))
            # What has its final name is whole, always.
            for name in self.in_folder(".tar"):
                number = int(name.split("-")[-1][:6])
                self.assertEqual(harness.read(self.copies / name), harness.read(data_set.shards[number]))
            if state.random() < 0.4:
                shutil.rmtree(self.copies, ignore_errors=True)
        self.assertGreater(seen["part"], 0, "no kill met an unpacking")
        mount = self.mount(packed, self.options("strict"), where=where)
        self.assert_whole(mount, data_set)
        self.assertEqual(self.in_folder(".part") + self.in_folder(".new"), [])
        self.assertEqual((len(self.in_folder(".tar")), len(self.in_folder(".info"))), (4, 4))
        self.assertEqual(len([name for name in os.listdir(self.copies) if name.startswith("pin-")]), 1)

    def test_a_kill_leaves_nothing_half(self):
        self.kill_while_unpacking(24)

    @harness.slow
    @harness.limit(900)
    def test_many_kills_leave_nothing_half(self):
        self.kill_while_unpacking(400)


class Room(Compressed):
    def test_copies_of_no_living_mount_make_room_and_those_of_one_do_not(self):
        data_set = tars.make_dataset(self.tmp / "plain", 40, shards=4, size=lambda i: 20000)
        packed = self.pack(data_set)
        size = sum(os.path.getsize(shard) for shard in data_set.shards[:2]) + 100000
        options = self.options("unpacked_size=%d" % size)
        first = self.mount(packed[:2], options)
        self.assertEqual(first.status()["samples"], 20)
        # Its copies are pinned: there is no room for two more.
        second = self.mount(packed, options)
        self.assertEqual((second.status()["samples"], second.status()["left_out"]), (20, {"compressed": 2}))
        said = second.stderr()
        self.assertIn("no room for their copies: 2 compressed shards are left out", said)
        self.assertIn("unpacked_size=", said)
        self.refused(self.command(packed, self.mountpoint(), options + ",strict"), 1, "2 compressed", lines=None)
        second.unmount()
        for name in first.list("epoch-0", "rank-0"):
            first.read("epoch-0", "rank-0", name)
        # A mount that was killed pins nothing.
        first.process.kill()
        first.process.wait(harness.PATIENCE)
        first.judged = True
        harness.clear_away(os.path.basename(first.where), harness.FOLDER)
        third = self.mount(packed[2:], options + ",strict")
        self.assertEqual(third.status()["samples"], 20)
        self.assertEqual(len(self.in_folder(".tar")), 2)
        self.assertLessEqual(sum(os.path.getsize(self.copies / name) for name in self.in_folder(".tar")), size)

    def test_a_bomb_is_left_out_and_the_others_are_not(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 20000)
        bomb = tars.member(b"b.jpg", bytes(100_000_000)) + tars.END
        bomb = tars.write_file(self.tmp / "bomb.tar.gz", gzip.compress(bomb, 1))
        mount = self.mount([bomb, *self.pack(data_set)], self.options("unpacked_size=4M,order=sequential"))
        self.assertEqual((mount.status()["samples"], mount.status()["left_out"]), (20, {"compressed": 1}))
        self.assertIn("bomb.tar.gz: no room for its copy", mount.stderr())
        self.assertEqual(self.in_folder(".part"), [])

    @harness.needs_root
    def test_a_full_file_system_leaves_shards_out_by_one_line(self):
        small = self.tmp / "small"
        small.mkdir()
        mounted = harness.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", small])
        if mounted.returncode:
            self.skipTest("cannot mount a tmpfs: " + mounted.stderr)
        self.addCleanup(harness.run, ["umount", str(small)])
        data_set = tars.make_dataset(self.tmp / "plain", 60, shards=6, size=lambda i: 40000)
        packed = self.pack(data_set)
        mount = self.mount(packed, "unpacked=%s/copies,unpacked_size=1G,order=sequential" % small)
        status = mount.status()
        kept = status["samples"]
        self.assertIn(kept, (10, 20))
        self.assertEqual(status["left_out"], {"compressed": 6 - kept // 10})
        self.assertIn("its file system is full", mount.stderr())
        self.assertEqual(mount.stderr().count("no room for"), 1)
        shards = [self.copies, *status["bad_shards"]]
        whole = [sample for sample in data_set.samples if not any(os.path.basename(sample.shard) in str(bad) for bad in shards)]
        for position, sample in enumerate(whole):
            self.assertEqual(mount.read("epoch-0", "rank-0", "%08d.jpg" % position), sample.fields["jpg"])
        mount.unmount()
        self.assertEqual(self.in_folder(".part", small / "copies"), [])

    @harness.needs_root
    def test_a_read_only_folder_is_one_line_and_what_is_in_it_is_used(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        packed = self.pack(data_set)
        self.mount(packed[:1], self.options()).unmount()
        if not harness.private_mounts() or harness.run(["mount", "--bind", self.copies, self.copies]).returncode \
                or harness.run(["mount", "-o", "remount,bind,ro", self.copies]).returncode:
            self.skipTest("cannot make a read-only mount here")
        mount = self.mount(packed, self.options())
        self.assertEqual((mount.status()["samples"], mount.status()["left_out"]), (10, {"compressed": 1}))
        said = [line for line in mount.stderr().splitlines() if str(self.copies) in line]
        self.assertEqual(len(said), 1, mount.stderr())
        self.refused(self.command(packed, self.mountpoint(), self.options("strict")), 1, "1 compressed", lines=None)

    @harness.needs_root
    def test_a_read_only_cache_folder_that_never_was_used_is_one_line(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        packed = self.pack(data_set)
        cache = self.tmp / "cache"
        cache.mkdir()
        if not harness.private_mounts() or harness.run(["mount", "-t", "tmpfs", "-o", "ro", "none", cache]).returncode:
            self.skipTest("cannot make a read-only mount here")
        self.addCleanup(harness.run, ["umount", str(cache)])
        os.environ["XDG_CACHE_HOME"] = str(cache)
        mount = self.mount([data_set.shards[0], packed[1]], "index=none")
        self.assertEqual((mount.status()["samples"], mount.status()["left_out"]), (10, {"compressed": 1}))
        self.assertEqual(mount.stderr().count(str(cache)), 1)
        mount.unmount()
        self.refused(self.command(packed, self.mountpoint(), "index=none"), 1, "no sample in 2 shards", lines=None)

    def test_a_folder_that_cannot_be_is_one_line(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20)
        packed = self.pack(data_set)
        tars.write_file(self.tmp / "file", b"")
        mount = self.mount([data_set.shards[0], packed[1]], "unpacked=%s" % (self.tmp / "file" / "below"))
        self.assertEqual((mount.status()["samples"], mount.status()["left_out"]), (10, {"compressed": 1}))
        self.assertEqual(mount.stderr().count(str(self.tmp / "file" / "below")), 1)


class Faulty(Compressed):
    def test_a_cut_copy_is_made_again(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 20000)
        packed = self.pack(data_set)
        self.mount(packed, self.options()).unmount()
        copy = self.copies / self.in_folder(".tar")[0]
        times = os.stat(copy)
        os.truncate(copy, 100000)
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
        mount = self.mount(packed, self.options("strict"))
        self.assert_whole(mount, data_set)
        self.assertEqual(mount.stderr().count("it is cut; unpacked again"), 1)

    def test_a_copy_that_goes_under_the_mount_gives_eio_and_its_original_s_name(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 20000)
        packed = self.pack(data_set)
        mount = self.mount(packed, self.options("order=sequential,readahead=0"))
        for name in self.in_folder(".tar"):
            os.truncate(self.copies / name, 5000)
        self.assert_errno(5, mount.read, "epoch-0", "rank-0", "00000005.jpg")
        self.assertEqual(list(mount.status()["errors"]), [packed[0]])
        self.assertIn(packed[0], mount.stderr())
        self.assertIn(str(self.copies), mount.stderr())

    def test_a_cut_original_gives_what_comes_before_and_is_counted(self):
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 20000)
        packed = self.pack(data_set)
        tars.write_file(packed[1], harness.read(packed[1])[:-50000])
        for _ in range(2): # the second time, of the copy that is there
            mount = self.mount(packed, self.options("order=sequential"))
            status = mount.status()
            self.assertLess(status["samples"], 20)
            self.assertGreater(status["samples"], 13)
            self.assertEqual(status["left_out"].pop("corrupt-stream"), 1)
            self.assertEqual(sum(status["left_out"].values()), 1, "the cut tar is seen as such")
            self.assertRegex(mount.stderr(), r"train-000001.tar.gz: compressed byte \d+: the gzip stream ends early")
            for position in range(status["samples"]):
                self.assertEqual(mount.read("epoch-0", "rank-0", "%08d.jpg" % position), data_set.data(position, "jpg"))
            mount.unmount()
        self.refused(self.command(packed, self.mountpoint(), self.options("strict")), 1, "1 corrupt-stream", lines=None)

    def flipped(self, ending):
        """A bit that is another one in the middle: no byte of that shard can be trusted."""
        data_set = tars.make_dataset(self.tmp / "plain", 20, size=lambda i: 20000)
        packed = self.pack(data_set, ending)
        data = bytearray(harness.read(packed[1]))
        data[len(data) // 2] ^= 4
        tars.write_file(packed[1], bytes(data))
        mount = self.mount(packed, self.options("order=sequential"))
        status = mount.status()
        self.assertEqual((status["samples"], status["left_out"]), (10, {"compressed": 1, "corrupt-stream": 1}))
        self.assertRegex(mount.stderr(), r"train-000001.tar\%s: compressed byte \d+: " % ending)
        for position in range(10):
            self.assertEqual(mount.read("epoch-0", "rank-0", "%08d.jpg" % position), data_set.data(position, "jpg"))
        self.refused(self.command(packed, self.mountpoint(), self.options("strict")), 1, "1 corrupt-stream", lines=None)
        mount.unmount()

    def test_a_flipped_bit_is_never_read(self):
        for ending in KINDS:
            with self.subTest(ending):
                self.flipped(ending)
