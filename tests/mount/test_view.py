"""What a mount shows: folders, names, listings, attributes, bytes."""
import ctypes
import errno
import os
import stat
import tarfile

import harness
import processes
import tars
import torch_order
from harness import MountCase


class Directory(ctypes.Structure):
    """struct dirent of 64-bit Linux."""
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_ushort),
                ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]


class DirectoryStream:
    """opendir(3) and its family, which Python hides."""

    def __init__(self, path):
        self.c = ctypes.CDLL(None, use_errno=True)
        self.c.opendir.restype = ctypes.c_void_p
        self.c.readdir.restype = ctypes.POINTER(Directory)
        self.c.telldir.restype = ctypes.c_long
        self.stream = ctypes.c_void_p(self.c.opendir(os.fsencode(path)))
        assert self.stream, path

    def next(self):
        """The next name but . and .., None at the end."""
        while True:
            entry = self.c.readdir(self.stream)
            if not entry:
                return None
            if entry.contents.name not in (b".", b".."):
                return entry.contents.name.decode()

    def rest(self):
        return list(iter(self.next, None))

    def tell(self):
        return self.c.telldir(self.stream)

    def seek(self, place):
        self.c.seekdir(self.stream, ctypes.c_long(place))

    def rewind(self):
        self.c.rewinddir(self.stream)

    def close(self):
        self.c.closedir(self.stream)


class Layout(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 30, cls=lambda i: b"%d" % (i % 7))
        self.m = self.mount(self.data_set.shards, "world=2,epoch=5")

    def test_root_lists_control_current_and_two_epochs(self):
        self.assertEqual(sorted(self.m.list()), [".control", "current", "epoch-5", "epoch-6"])

    def test_control_lists_its_files(self):
        self.assertEqual(sorted(self.m.list(".control")),
                         ["epoch", "fingerprint", "rank-0.epoch", "rank-1.epoch", "status"])

    def test_epochs_list_every_rank_in_all_views(self):
        views = sorted("rank-%d%s" % (rank, view) for rank in (0, 1) for view in ("", ".classes", ".keys", ".list", ".tar"))
        for folder in ("current", "epoch-5", "epoch-6", "epoch-77"):
            self.assertEqual(sorted(self.m.list(folder)), views, folder)

    def test_any_epoch_opens_unlisted(self):
        for epoch in (0, 7, 123456, 2 ** 63 - 1):
            expected = torch_order.rank_order(30, 2, 1, epoch=epoch)
            self.assert_rank(self.m, self.data_set, expected, "epoch-%d" % epoch, "rank-1")

    def test_names_that_are_not_in_the_view_do_not_exist(self):
        key = self.data_set.samples[torch_order.rank_order(30, 2, 0, epoch=5)[0]].key.decode()
        self.assertTrue(os.path.exists(self.m.path("current", "rank-0.keys", "00000000_%s.jpg" % key)))
        missing = [("nothing",), ("epoch-007",), ("epoch--1",), ("epoch-",), ("epoch-x",), ("epoch-1x",), ("epoch-+1",),
                   ("epoch-9223372036854775808",), ("epoch-18446744073709551616",), ("Epoch-5",), ("rank-0",)]
        for folder in ("current", "epoch-5"):
            missing += [(folder, name) for name in (
                "rank-2", "rank-01", "rank-00", "rank-", "rank--1", "rank-0 ", "rank-x", "rank-0x", "rank-0-of-0",
                "rank-4-of-4", "rank-0-of-02", "rank-0-of-", "rank-0-of-4294967297", "rank-0.keys.keys",
                "rank-0.classes.classes", "rank-2.classes", "rank-0.part-2-of-2", "rank-0.part-0-of-0",
                "rank-0.part-0-of-2.by-0", "rank-0.by-2", "rank-0.part-00-of-2", "rank-0.after-31", "rank-0.after-01",
                "rank-0.part-0-of-2.after-1", "rank-2.list", "rank-2.keys", "rank-0.lists", "rank-0-of-2-of-2",
                "rank-18446744073709551616")]
        missing += [("current", "rank-0.after-%d" % after) for after in (0, 10)]
        missing += [("current", "rank-0", name) for name in (
            "00000015.jpg", "99999999.jpg", "00000000", "00000000.", "0000000.jpg", "000000000.jpg", "00000000.png",
            "00000000.JPG", "0000000x.jpg", "00000000_%s.jpg" % key, "00000000.jpg.jpg", "-0000001.jpg")]
        missing += [("current", "rank-0.keys", name) for name in (
            "00000000.jpg", "00000000_.jpg", "00000000_wrong.jpg", "00000001_%s.jpg" % key, "00000000_%s" % key)]
        missing += [(".control", name) for name in ("rank-2.epoch", "rank-00.epoch", "rank-4-of-4.epoch", "x", "Epoch")]
        for names in missing:
            for _ in range(2):  # a negative answer must not turn into another one
                with self.subTest(names=names):
                    self.assert_errno(errno.ENOENT, os.stat, self.m.path(*names))
                    self.assert_errno(errno.ENOENT, os.open, self.m.path(*names), os.O_RDONLY)

    def test_a_file_is_no_folder_and_a_folder_no_file(self):
        self.assert_errno(errno.ENOTDIR, os.stat, self.m.path("current", "rank-0", "00000000.jpg", "x"))
        self.assert_errno(errno.ENOTDIR, os.listdir, self.m.path("current", "rank-0.list"))
        self.assert_errno(errno.EISDIR, harness.read, self.m.path("current", "rank-0"))

    def test_samples_are_read_only_files_with_their_sizes(self):
        for position, sample in enumerate(torch_order.rank_order(30, 2, 0, epoch=5)):
            for field, data in self.data_set.samples[sample].fields.items():
                found = os.stat(self.m.path("current", "rank-0", "%08d.%s" % (position, field)))
                self.assertTrue(stat.S_ISREG(found.st_mode))
                self.assertEqual((found.st_mode & 0o222, found.st_size, found.st_nlink), (0, len(data), 1))
        for names in ((), ("current",), ("epoch-9",), ("current", "rank-1"), ("current", "rank-1.keys")):
            found = os.lstat(self.m.path(*names))
            self.assertTrue(stat.S_ISDIR(found.st_mode), names)
            self.assertEqual(found.st_mode & 0o222, 0, names)

    def test_one_inode_a_member_whatever_the_path(self):
        by_sample = {}
        for epoch in (5, 0, 9):
            for name in self.m.list("epoch-%d" % epoch, "rank-0-of-1.keys"):
                if name.endswith(".jpg"):
                    sample = int(name[10:17])
                    inode = os.stat(self.m.path("epoch-%d" % epoch, "rank-0-of-1.keys", name)).st_ino
                    self.assertEqual(by_sample.setdefault(sample, inode), inode)
            for position, sample in enumerate(torch_order.rank_order(30, 1, 0, epoch=epoch)):
                path = self.m.path("epoch-%d" % epoch, "rank-0-of-1", "%08d.jpg" % position)
                self.assertEqual(os.stat(path).st_ino, by_sample[sample])
        self.assertEqual(len(set(by_sample.values())), 30)

    def test_xattrs_tell_where_a_sample_comes_from(self):
        for position, index in enumerate(torch_order.rank_order(30, 2, 1, epoch=5)):
            sample = self.data_set.samples[index]
            for folder, stem in (("rank-1", "%08d" % position), ("rank-1.keys", "%08d_%s" % (position, sample.key.decode()))):
                path = self.m.path("current", folder, stem + ".jpg")
                got = {name: os.getxattr(path, "user.shufflefs." + name)
                       for name in ("key", "shard", "offset", "label", "sample")}
                self.assertEqual(got, {"key": sample.key, "shard": os.fsencode(sample.shard), "label": b"%d" % (index % 7),
                                       "offset": b"%d" % sample.offsets["jpg"], "sample": b"%d" % index})
                with open(os.fsdecode(got["shard"]), "rb") as shard:
                    shard.seek(int(got["offset"]))
                    self.assertEqual(shard.read(len(sample.fields["jpg"])), harness.read(path))
                self.assertLessEqual({"user.shufflefs." + name for name in got}, set(os.listxattr(path)))
                self.assert_errno(errno.ENODATA, os.getxattr, path, "user.other")

    def test_xattrs_tell_a_ranks_length_and_epoch(self):
        for folder, epoch in (("current", 5), ("epoch-8", 8)):
            for name, samples in (("rank-0", 15), ("rank-1.keys", 15), ("rank-1.list", 15), ("rank-0.tar", 15), ("rank-2-of-4", 8)):
                path = self.m.path(folder, name)
                self.assertEqual(os.getxattr(path, "user.shufflefs.samples"), b"%d" % samples, path)
                self.assertEqual(os.getxattr(path, "user.shufflefs.epoch"), b"%d" % epoch, path)

    def test_df_and_mount_table_know_the_mount(self):
        os.statvfs(self.m.where)
        self.assertEqual([kind for _, point, kind in harness.mounts(harness.TAG) if point == self.m.where],
                         ["fuse.shufflefs"])


class Listings(MountCase):
    def test_name_order_is_listing_order_is_shuffle_order(self):
        data_set = tars.make_dataset(self.tmp / "shards", 3000, shards=3, fields=("json", "jpg"))
        mount = self.mount(data_set.shards, "world=2")
        for folder in (("current", "rank-0"), ("epoch-3", "rank-1"), ("epoch-0", "rank-1.keys")):
            names = mount.list(*folder)
            self.assertEqual(len(names), 3000)
            self.assertEqual(names, sorted(names))
            with os.scandir(mount.path(*folder)) as entries:
                listed = [(entry.name, entry.is_file(follow_symlinks=False), entry.inode()) for entry in entries]
            self.assertEqual([name for name, _, _ in listed], names)
            self.assertTrue(all(is_file for _, is_file, _ in listed))
            for name, _, inode in listed[::300]:
                self.assertEqual(os.stat(mount.path(*folder, name)).st_ino, inode)
            walked = next(os.walk(mount.path(*folder)))[2]
            self.assertEqual(walked, names)
        expected = torch_order.rank_order(3000, 2, 0)
        keys = [name[9:].split(".")[0].encode() for name in mount.list("epoch-0", "rank-0.keys") if name.endswith("jpg")]
        self.assertEqual(keys, [data_set.samples[i].key for i in expected])

    def test_a_small_prime_still_lists_and_opens_everything(self):
        data_set = tars.make_dataset(self.tmp / "shards", 500)
        mount = self.mount(data_set.shards, "prime=16")
        for epoch in (0, 1):
            self.assert_rank(mount, data_set, torch_order.rank_order(500, 1, 0, epoch=epoch), "epoch-%d" % epoch, "rank-0")

    def test_rewinddir_and_seekdir(self):
        data_set = tars.make_dataset(self.tmp / "shards", 4000, size=lambda i: 1)
        mount = self.mount(data_set.shards, "prime=1000")
        for view in ("rank-0", "rank-0.keys"):
            stream = DirectoryStream(mount.path("current", view))
            names = stream.rest()
            self.assertEqual(names, mount.list("current", view))
            self.assertEqual(len(names), 4000)
            stream.rewind()
            places = {}
            for number, name in enumerate(names):
                if number % 97 == 0:
                    places[number] = stream.tell()
                self.assertEqual(stream.next(), name)
            for number in sorted(places, key=lambda n: n * 7919 % 4001):
                stream.seek(places[number])
                self.assertEqual(stream.next(), names[number])
            stream.seek(places[97])
            self.assertEqual(stream.rest(), names[97:])
            stream.rewind()
            self.assertEqual(stream.rest(), names)
            stream.close()

    def test_six_processes_seek_and_rewind_one_folder(self):
        data_set = tars.make_dataset(self.tmp / "shards", 3000, size=lambda i: 1)
        mount = self.mount(data_set.shards, "prime=500")
        path = mount.path("current", "rank-0")
        names = ["%08d.jpg" % i for i in range(3000)]

        def walk(seed):
            stream, draw = DirectoryStream(path), torch_order.generator(seed)
            for _ in range(15):
                stream.rewind()
                skip = draw.randrange(3000)
                seen = [stream.next() for _ in range(skip)]
                place = stream.tell()
                rest = stream.rest()
                assert seen + rest == names, "rewound listing differs"
                stream.seek(place)
                assert stream.rest() == rest, "listing after seekdir differs"
                for name in rest[:20]:
                    os.stat(os.path.join(path, name))
            stream.close()
            return True
        self.assertEqual(processes.parallel(walk, [(seed,) for seed in range(6)]), [True] * 6)


class Bytes(MountCase):
    def test_bytes_equal_what_tarfile_reads(self):
        data_set = tars.make_dataset(self.tmp / "shards", 120, shards=3, fields=("jpg", "json"), size=tars.odd_size)
        theirs = {}
        for shard in data_set.shards:
            with tarfile.open(shard) as archive:
                for member in archive:
                    theirs[member.name] = archive.extractfile(member).read()
        mount = self.mount(data_set.shards)
        for folder in (("current", "rank-0.keys"), ("epoch-3", "rank-0.keys")):
            names = mount.list(*folder)
            self.assertEqual(sorted(name.split("_", 1)[1] for name in names), sorted(theirs))
            for name in names:
                if mount.read(*folder, name) != theirs[name.split("_", 1)[1]]:
                    self.fail(name)

    def test_any_part_of_a_file_reads_right(self):
        data_set = tars.make_dataset(self.tmp / "shards", 2, shards=1, size=lambda i: 700_001)
        mount = self.mount(data_set.shards, "order=sequential")
        data = data_set.data(1, "jpg")
        handle = os.open(mount.path("current", "rank-0", "00000001.jpg"), os.O_RDONLY)
        try:
            draw = torch_order.generator(1)
            for _ in range(300):
                at, size = draw.randrange(720_000), draw.randrange(1, 200_000)
                self.assertEqual(os.pread(handle, size, at), data[at:at + size])
        finally:
            os.close(handle)

    def test_processes_read_different_ranks_at_once(self):
        data_set = tars.make_dataset(self.tmp / "shards", 400, shards=4, size=tars.odd_size)
        mount = self.mount(data_set.shards, "world=4")

        def read_rank(rank, epoch):
            self.assert_rank(mount, data_set, torch_order.rank_order(400, 4, rank, epoch=epoch), "epoch-%d" % epoch,
                             "rank-%d" % rank)
            return rank
        for epoch in (0, 1):
            self.assertEqual(processes.parallel(read_rank, [(rank, epoch) for rank in range(4)]), [0, 1, 2, 3])

    @harness.needs_program("find", "cp", "tar")
    def test_find_cp_tar_and_rsync_take_a_rank(self):
        data_set = tars.make_dataset(self.tmp / "shards", 100, size=tars.odd_size)
        mount = self.mount(data_set.shards, "world=2")
        names = mount.list("current", "rank-0")
        expected = [data_set.data(i, "jpg") for i in torch_order.rank_order(100, 2, 0)]
        found = harness.run(["find", mount.path("current", "rank-0"), "-type", "f", "-printf", "%f\\n"])
        self.assertEqual((found.stdout.split(), found.stderr), (names, ""))
        copies = {"cp": ["cp", "-r", mount.path("current", "rank-0"), str(self.tmp / "cp")],
                  "rsync": ["rsync", "-a", mount.path("current", "rank-0") + "/", str(self.tmp / "rsync")]}
        for program, command in copies.items():
            if harness.shutil.which(program):
                result = harness.run(command)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual([harness.read(self.tmp / program / name) for name in names], expected)
                harness.run(["chmod", "-R", "u+w", self.tmp / program])
        result = harness.run(["tar", "-cf", self.tmp / "out.tar", "-C", mount.path("current"), "rank-0"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with tarfile.open(self.tmp / "out.tar") as archive:
            members = [m for m in archive if m.isfile()]
            self.assertEqual([m.name for m in members], ["rank-0/" + name for name in names])
            self.assertEqual([archive.extractfile(m).read() for m in members], expected)
