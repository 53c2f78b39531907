"""Reading ahead: what is pushed is right, bounded, and never in anybody's way."""

import os
import random
import time

import harness
import tars
import torch_order
from harness import MountCase, wait_until


class ReadAhead(MountCase):
    def data(self, n, size=20000, **how):
        return tars.make_dataset(self.tmp / "shards", n, size=lambda i: size + i % 7, **how)

    def names(self, n, field="jpg"):
        return ["%08d.%s" % (i, field) for i in range(n)]

    def check_all(self, mount, data_set, n, epoch, folder, names=None):
        order = torch_order.rank_order(n, 1, 0, epoch=epoch)
        for name, sample in zip(names or self.names(n), order):
            self.assertEqual(mount.read(*folder, name), data_set.data(sample, "jpg"), name)

    def let_pushes_rest(self, mount):
        last = [None, time.monotonic()]

        def at_rest():
            pushed = mount.status()["pushed"]
            if pushed != last[0]:
                last[:] = pushed, time.monotonic()
            return time.monotonic() - last[1] > 0.5

        wait_until(at_rest, "the pushes stop")

    def test_a_reader_in_order_gets_most_files_pushed_and_all_right(self):
        n = 3000
        data_set = self.data(n)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        self.check_all(mount, data_set, n, 0, ("current", "rank-0"), names)
        self.assertGreater(mount.status()["pushed_files"], n // 2)

    @harness.needs_root
    def test_paths_that_were_never_listed_are_read_ahead_too(self):
        n = 3000
        data_set = self.data(n)
        mount = self.mount(data_set.shards)
        # On a busy machine, looking names up ahead may fail once, and is then given up for that folder.
        for epoch in (5, 6, 7):
            self.check_all(mount, data_set, n, epoch, ("epoch-%d" % epoch, "rank-0"))
            pushed = mount.status()["pushed_files"]
            if pushed > n // 4:
                break
        self.assertGreater(pushed, n // 4)

    @harness.needs_root
    def test_after_a_switch_the_new_epoch_is_read_ahead_and_right(self):
        n = 2000
        data_set = self.data(n, size=2000)
        mount = self.mount(data_set.shards)
        for epoch in (3, 9, 4):
            mount.set_epoch(epoch)
            self.check_all(mount, data_set, n, epoch, ("current", "rank-0"))

    def test_a_reader_in_random_order_gets_little_pushed(self):
        n = 6000
        data_set = self.data(n, size=1000)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        random.Random(3).shuffle(names)
        for name in names[: n // 2]:
            mount.read("current", "rank-0", name)
        self.assertLess(mount.status()["pushed_files"], n // 10)

    def test_a_listing_and_stats_read_nothing(self):
        data_set = self.data(1000)
        mount = self.mount(data_set.shards)
        for name in mount.list("current", "rank-0"):
            os.stat(mount.path("current", "rank-0", name))
        status = mount.status()
        self.assertEqual((status["reads"], status["pushed_files"]), (0, 0))

    def test_a_warm_epoch_pushes_nothing(self):
        n = 1500
        data_set = self.data(n, size=3000)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        self.check_all(mount, data_set, n, 0, ("current", "rank-0"), names)
        # The end of an epoch starts the next one's pushes, which a slow daemon may still be at.
        self.let_pushes_rest(mount)
        before = mount.status()
        for _ in range(3):
            self.check_all(mount, data_set, n, 0, ("current", "rank-0"), names)
        after = mount.status()
        for key in ("reads", "pushed_files"):
            self.assertLessEqual(after[key] - before[key], n // 50, key)

    def test_the_bound_holds_while_a_reader_pauses(self):
        n, size, bound = 2000, 20000, 1 << 20
        data_set = self.data(n, size=size)
        mount = self.mount(data_set.shards, "readahead=1M")
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        read = 300
        for name in names[:read]:
            mount.read("current", "rank-0", name)
        self.let_pushes_rest(mount)
        status = mount.status()
        # One file a pusher may be under way when the bound is met; the reader is known to within 256 positions.
        self.assertLess(status["pushed_unread"], bound + 16 * (size + 7))
        self.assertLess(status["pushed"], read * size + bound + (256 + 16) * (size + 7))

    def test_two_readers_of_one_folder_far_apart(self):
        n = 3000
        data_set = self.data(n, size=4000)
        mount = self.mount(data_set.shards)
        order = torch_order.rank_order(n, 1, 0)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        for i in range(n // 2):
            for at in (i, n // 2 + i):
                self.assertEqual(mount.read("current", "rank-0", names[at]), data_set.data(order[at], "jpg"))

    def test_umount_while_pushing_ends_cleanly(self):
        data_set = self.data(1500)
        for _ in range(5):
            mount = self.mount(data_set.shards)
            names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
            for name in names[:40]:
                mount.read("current", "rank-0", name)
            mount.unmount()

    def test_a_shard_that_fails_ahead_is_its_readers_error_alone(self):
        n = 1200
        data_set = self.data(n, shards=3, size=3000)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        os.truncate(data_set.shards[1], 5000)
        order, good, bad = torch_order.rank_order(n, 1, 0), 0, 0
        for name, sample in zip(names, order):
            try:
                self.assertEqual(mount.read("current", "rank-0", name), data_set.data(sample, "jpg"))
                good += 1
            except OSError as error:
                self.assertEqual(error.errno, 5)
                bad += 1
        self.assertEqual((good, bad), (n - n // 3, n // 3))
        # What failed ahead of the reader is no error of its own; the kernel asks twice for what it could not read.
        self.assertTrue(bad <= sum(mount.status()["errors"].values()) <= 2 * bad)

    def test_files_of_many_megabytes_are_whole(self):
        data_set = tars.make_dataset(self.tmp / "shards", 8, size=lambda i: (3 << 20) + 4097 * i)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        self.check_all(mount, data_set, 8, 0, ("current", "rank-0"), names)

    def test_the_status_shows_readers_with_place_and_epoch(self):
        n = 900
        data_set = self.data(n, size=2000)
        mount = self.mount(data_set.shards, "world=2")
        mount.set_epoch(3)
        for rank, read in ((0, 300), (1, 450)):
            names = [x for x in mount.list("current", "rank-%d" % rank) if x.endswith("jpg")]
            for name in names[:read]:
                mount.read("current", "rank-%d" % rank, name)
        readers = {reader["path"]: reader for reader in mount.status()["readers"]}
        self.assertEqual(set(readers), {"current/rank-0", "current/rank-1"})
        for rank, read in ((0, 300), (1, 450)):
            reader = readers["current/rank-%d" % rank]
            self.assertEqual((reader["epoch"], reader["rank"], reader["world"], reader["length"]), (3, rank, 2, 450))
            # Known to within the marks; a reader of files that were all pushed is met at these alone.
            self.assertTrue(read - 256 <= reader["position"] < read, reader)
