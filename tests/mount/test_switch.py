"""Fixed paths follow the control files: each epoch's order at the same names, and never a stale byte."""
import contextlib
import errno
import os
import signal
import time

import harness
import processes
import tars
import torch_order
from harness import MountCase
from storm import StormCase

N = 60


def label(sample):
    return b"%d" % (sample % 10)


class FixedPaths(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, cls=label)

    def assert_epoch(self, mount, epoch, rank, world, name=None):
        """The files at current's names, listed long ago, are this epoch's."""
        name = name or "rank-%d" % rank
        for position, sample in enumerate(torch_order.rank_order(N, world, rank, epoch=epoch)):
            for field in ("jpg", "cls"):
                got = mount.read("current", name, "%08d.%s" % (position, field))
                if got != self.data_set.data(sample, field):
                    self.fail("%s %08d.%s is not sample %d of epoch %d" % (name, position, field, sample, epoch))

    def test_paths_listed_once_show_each_of_ten_epochs(self):
        mount = self.mount(self.data_set.shards, "world=2")
        paths = [[mount.path("current", "rank-%d" % rank, name) for name in mount.list("current", "rank-%d" % rank)]
                 for rank in (0, 1)]
        for epoch in (0, 1, 2, 3, 4, 5, 6, 1000003, 2, 9):
            mount.set_epoch(epoch)
            self.assertEqual(mount.read(".control", "epoch"), b"%d\n" % epoch)
            for rank in (0, 1):
                expected = [self.data_set.data(sample, field) for sample in
                            torch_order.rank_order(N, 2, rank, epoch=epoch) for field in ("cls", "jpg")]
                self.assertEqual([harness.read(path) for path in paths[rank]], expected)

    def test_made_labels_follow_too(self):
        data_set = tars.make_dataset(self.tmp / "dirs", N, key=lambda i: b"c%d/s%d" % (i % 3, i))
        mount = self.mount(data_set.shards)
        for epoch in range(5):
            mount.set_epoch(epoch)
            got = [mount.read("current", "rank-0", "%08d.cls" % position) for position in range(N)]
            self.assertEqual(got, [b"%d" % (i % 3) for i in torch_order.rank_order(N, 1, 0, epoch=epoch)])

    def test_sizes_and_listings_follow_too(self):
        mount = self.mount(self.data_set.shards)
        for epoch in range(4):
            mount.set_epoch(epoch)
            order = torch_order.rank_order(N, 1, 0, epoch=epoch)
            sizes = [os.stat(mount.path("current", "rank-0", "%08d.jpg" % p)).st_size for p in range(N)]
            self.assertEqual(sizes, [len(self.data_set.data(i, "jpg")) for i in order])
            keys = [name[9:-4].encode() for name in mount.list("current", "rank-0.keys") if name.endswith(".jpg")]
            self.assertEqual(keys, [self.data_set.samples[i].key for i in order])
            self.assertEqual(os.getxattr(mount.path("current", "rank-0"), "user.shufflefs.epoch"), b"%d" % epoch)

    def test_one_ranks_control_file_moves_only_that_rank(self):
        mount = self.mount(self.data_set.shards, "world=2")
        for rank in (0, 1):
            self.assert_epoch(mount, 0, rank, 2)
        mount.set_epoch(3, "rank-0.epoch")
        self.assert_epoch(mount, 3, 0, 2)
        self.assert_epoch(mount, 0, 1, 2)
        self.assertEqual(mount.read(".control", "rank-0.epoch"), b"3\n")
        self.assertEqual(mount.read(".control", "rank-1.epoch"), b"0\n")
        mount.set_epoch(4, "rank-1.epoch")
        self.assert_epoch(mount, 3, 0, 2)
        self.assert_epoch(mount, 4, 1, 2)
        self.assertLessEqual({"epoch-3", "epoch-4"}, set(mount.list()))

    def test_writing_epoch_brings_all_ranks_together_again(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(3, "rank-0.epoch")
        mount.set_epoch(8, "rank-1-of-4.epoch")
        mount.set_epoch(5)
        self.assert_epoch(mount, 5, 0, 2)
        self.assert_epoch(mount, 5, 1, 2)
        self.assert_epoch(mount, 5, 1, 4, "rank-1-of-4")
        for name in ("epoch", "rank-0.epoch", "rank-1.epoch", "rank-1-of-4.epoch"):
            self.assertEqual(mount.read(".control", name), b"5\n", name)

    def test_a_rank_of_another_world_has_a_control_file_of_its_own(self):
        mount = self.mount(self.data_set.shards, "world=2,epoch=1")
        self.assertEqual(mount.read(".control", "rank-1-of-4.epoch"), b"1\n")
        mount.set_epoch(7, "rank-1-of-4.epoch")
        self.assertEqual(mount.read(".control", "rank-1-of-4.epoch"), b"7\n")
        self.assert_epoch(mount, 7, 1, 4, "rank-1-of-4")
        self.assert_epoch(mount, 1, 2, 4, "rank-2-of-4")
        self.assert_epoch(mount, 1, 1, 2)

    def test_a_rank_spelled_with_the_mounts_world_is_the_same_rank(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(4, "rank-1.epoch")
        self.assert_epoch(mount, 4, 1, 2, "rank-1-of-2")
        mount.set_epoch(6, "rank-1-of-2.epoch")
        self.assert_epoch(mount, 6, 1, 2)
        self.assertEqual(mount.read(".control", "rank-1.epoch"), b"6\n")

    def test_writing_the_same_epoch_changes_nothing(self):
        mount = self.mount(self.data_set.shards, "world=2,epoch=2")
        before = os.stat(mount.path("current", "rank-0")).st_ino
        mount.set_epoch(2)
        mount.set_epoch(2, "rank-0.epoch")
        self.assertEqual(os.stat(mount.path("current", "rank-0")).st_ino, before)
        self.assert_epoch(mount, 2, 0, 2)

    def test_epoch_folders_do_not_move(self):
        mount = self.mount(self.data_set.shards)
        before = [mount.read("epoch-0", "rank-0", name) for name in mount.list("epoch-0", "rank-0")]
        mount.set_epoch(9)
        self.assertEqual([mount.read("epoch-0", "rank-0", name) for name in mount.list("epoch-0", "rank-0")], before)

    def test_current_is_real_folders_with_a_new_inode_each_epoch(self):
        mount = self.mount(self.data_set.shards, "world=2")
        seen = []
        for epoch in range(6):
            mount.set_epoch(epoch)
            for name in ("rank-0", "rank-0.keys", "rank-1"):
                path = mount.path("current", name)
                self.assertEqual(os.path.realpath(path), os.path.realpath(mount.where) + "/current/" + name)
                self.assertFalse(os.path.islink(path))
                seen.append(os.stat(path).st_ino)
        self.assertEqual(len(set(seen)), len(seen))

    def test_an_open_folder_stays_with_its_epoch(self):
        mount = self.mount(self.data_set.shards)
        folder = os.open(mount.path("current", "rank-0"), os.O_RDONLY | os.O_DIRECTORY)
        try:
            for epoch in range(1, 4):
                mount.set_epoch(epoch)
                self.assert_epoch(mount, epoch, 0, 1)
                for position, sample in enumerate(torch_order.rank_order(N, 1, 0)):
                    handle = os.open("%08d.jpg" % position, os.O_RDONLY, dir_fd=folder)
                    with open(handle, "rb") as file:
                        self.assertEqual(file.read(), self.data_set.data(sample, "jpg"))
            self.assertEqual(os.listdir(folder), ["%08d.%s" % (p, f) for p in range(N) for f in ("cls", "jpg")])
        finally:
            os.close(folder)

    def test_a_working_directory_stays_with_its_epoch(self):
        mount = self.mount(self.data_set.shards)
        ready, go = processes.FORK.Event(), processes.FORK.Event()

        def inside():
            os.chdir(mount.path("current", "rank-0"))
            ready.set()
            assert go.wait(harness.PATIENCE)
            return [tars.sample_of(harness.read("%08d.jpg" % position)) for position in range(N)]
        with processes.Children() as children:
            children.start(inside)
            self.assertTrue(ready.wait(harness.PATIENCE))
            mount.set_epoch(1)
            go.set()
            self.assertEqual(children.results(), [torch_order.rank_order(N, 1, 0)])
        self.assert_epoch(mount, 1, 0, 1)


class Storm(StormCase):
    EPOCHS = [(epoch, 0) for epoch in range(12)]

    def rank(self, folder, world, rank, follows):
        return folder, lambda epoch, _: torch_order.rank_order(self.N, world, rank, epoch=epoch), follows

    @harness.limit(300)
    def test_1000_switches_under_four_readers_show_no_stale_byte(self):
        readers = [self.rank("rank-0", 1, 0, True)] * 3 + [self.rank("rank-1-of-2", 2, 1, True)]
        self.storm("", "epoch", self.EPOCHS, 1000, readers)

    @harness.limit(300)
    def test_rank_switches_do_not_touch_another_ranks_readers(self):
        readers = [self.rank("rank-0", 2, 0, True)] * 2 + [self.rank("rank-1", 2, 1, False)] * 2
        self.storm("world=2", "rank-0.epoch", self.EPOCHS, 300, readers)

    @harness.limit(300)
    def test_switches_past_what_is_primed_show_no_stale_byte(self):
        self.storm("prime=16", "epoch", self.EPOCHS, 300, [self.rank("rank-0", 1, 0, True)] * 2)

    def test_listers_and_switches_do_not_hang(self):
        data_set = tars.make_dataset(self.tmp / "shards", 500, size=lambda i: 1)
        mount = self.mount(data_set.shards, "world=2")
        names = ["%08d.jpg" % position for position in range(250)]
        over = processes.FORK.Event()
        listing = processes.FORK.Barrier(5)

        def lister(view):
            rounds = 0
            while not over.is_set():
                if rounds == 1:  # no switch before all list
                    listing.wait(harness.PATIENCE)
                listed = mount.list("current", view)
                assert len(listed) == 250 and (view.endswith("keys") or listed == names), "a listing differs"
                for name in listed[:5]:
                    if view == "rank-0":
                        harness.read(mount.path("current", view, name))
                rounds += 1
            return rounds
        with processes.Children() as children:
            for view in ("rank-0", "rank-0.keys", "rank-1", "rank-0"):
                children.start(lister, view)
            listing.wait(harness.PATIENCE)
            for epoch in range(1, 301):
                mount.set_epoch(epoch)
            over.set()
            self.assertTrue(all(children.results()))

    def test_killed_readers_leave_the_mount_well(self):
        data_set = tars.make_dataset(self.tmp / "shards", 200, size=tars.odd_size)
        mount = self.mount(data_set.shards)
        for round_ in range(20):
            with processes.Children() as children:
                def forever():
                    while True:
                        for name in mount.list("current", "rank-0"):
                            harness.read(mount.path("current", "rank-0", name))
                pids = [children.start(forever) for _ in range(3)]
                mount.set_epoch(round_)
                mount.list("epoch-%d" % round_, "rank-0")
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
        mount.set_epoch(77)
        self.assert_rank(mount, data_set, torch_order.rank_order(200, 1, 0, epoch=77), "current", "rank-0")


class PagesStay(MountCase):
    @harness.needs_root
    def test_after_a_switch_storage_is_not_read_again(self):
        n = 600
        data_set = tars.make_dataset(self.tmp / "shards", n, shards=3, size=lambda i: 8000 + i)
        mount = self.mount(data_set.shards)
        paths = [mount.path("current", "rank-0", name) for name in mount.list("current", "rank-0")]
        for path in paths:
            harness.read(path)
        before = self.settled(mount)
        self.assertGreater(before["bytes"] + before["pushed"], 0)
        for epoch in range(1, 6):
            mount.set_epoch(epoch)
            for path, sample in zip(paths, torch_order.rank_order(n, 1, 0, epoch=epoch)):
                self.assertEqual(harness.read(path), data_set.data(sample, "jpg"))
        after = self.settled(mount)
        allowed = 1.03
        for asked, ahead in (("reads", "pushed_files"), ("bytes", "pushed")):
            self.assertLessEqual(after[asked] + after[ahead], (before[asked] + before[ahead]) * allowed)

    def settled(self, mount):
        """The status once reads in the background have come to rest: unchanged for 0.3 s."""
        end = time.monotonic() + 20
        last, since = mount.status(), time.monotonic()
        while time.monotonic() - since < 0.3:
            self.assertLess(time.monotonic(), end, "storage is read without an end")
            now = mount.status()
            if [now[key] for key in ("reads", "bytes", "pushed")] != [last[key] for key in ("reads", "bytes", "pushed")]:
                last, since = now, time.monotonic()
        return last


class Detached(MountCase):
    def test_switching_a_mount_that_is_gone_fails(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        mount = self.mount(data_set.shards)
        handle = os.open(mount.path(".control", "epoch"), os.O_WRONLY)
        try:
            os.kill(mount.pid(), signal.SIGTERM)
            mount.expect_end()
            self.assert_errno((errno.ENOTCONN, errno.ECONNABORTED, errno.EIO), os.write, handle, b"3\n")
        finally:
            with contextlib.suppress(OSError):  # close(2) may tell of the lost mount too; the handle is closed
                os.close(handle)
