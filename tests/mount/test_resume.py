"""Epochs that are resumed, and a rank's parts: what control files take, and what `current` shows then."""
import errno
import os
import stat

import harness
import shares
import tars
import torch_order
from harness import MountCase, wait_until
from storm import StormCase

N = 60
# Files of one pass that are dropped from the page cache to see whether somebody reads them.
PROBES = 3
GARBAGE = (b"7 after", b"7 after ", b"7 after\n", b"after 7", b" after 7", b"7 after 5 ", b" 7 after 5", b"7  after 5",
           b"7 after  5", b"7\tafter\t5", b"7 After 5", b"7 after 5\n\n", b"7\nafter 5", b"7 after 05", b"07 after 5",
           b"7 after -5", b"7 after +5", b"7 after 5.0", b"7 after five", b"7 after 5 after 5", b"7after5", b"7 after 61",
           b"7 after 18446744073709551616", b"7 after 18446744073709551621", b"9223372036854775808 after 5",
           b"7 after 5\0", b"7 after 5x", b"7 after " + b"1" * 5000)


def samples_of(rank, world, part=None, parts=None, run=1):
    """samples(epoch, after) of a share."""
    def samples(epoch, after):
        found = shares.deal(shares.epoch_order(N, 0, epoch)[after:], rank, world, "pad")
        return shares.part_of(found, part, parts, run) if parts else found
    return samples


class Resume(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, cls=lambda i: b"%d" % i)

    def assert_share(self, mount, name, samples):
        self.assert_rank(mount, self.data_set, list(samples), "current", name)

    def assert_at(self, mount, epoch, after, rank=0, world=2):
        """The rank, its parts, and what its control file says."""
        name = "rank-%d" % rank if world == 2 else "rank-%d-of-%d" % (rank, world)
        self.assert_share(mount, name, samples_of(rank, world)(epoch, after))
        for part in range(3):
            self.assert_share(mount, name + ".part-%d-of-3.by-4" % part, samples_of(rank, world, part, 3, 4)(epoch, after))
        text = b"%d after %d\n" % (epoch, after) if after else b"%d\n" % epoch
        self.assertEqual(mount.read(".control", name + ".epoch"), text)

    def test_current_shows_the_tail_until_the_next_write(self):
        mount = self.mount(self.data_set.shards, "world=2,epoch=3")
        self.assert_at(mount, 3, 0)
        for text, epoch, after in ((b"3 after 20\n", 3, 20), (b"3 after 21", 3, 21), (b"3\n", 3, 0), (b"4 after 59\n", 4, 59),
                                   (b"5 after 60\n", 5, 60), (b"5 after 0\n", 5, 0), (b"6 after 1", 6, 1), (b"6", 6, 0)):
            mount.set_epoch(text)
            for rank in (0, 1):
                self.assert_at(mount, epoch, after, rank)
            self.assertEqual(mount.read(".control", "epoch"), mount.read(".control", "rank-0.epoch"))
            status = mount.status()
            self.assertEqual((status["epoch"], status["after"]), (epoch, after))

    def test_one_rank_of_one_world_moves_with_its_parts_and_no_other(self):
        mount = self.mount(self.data_set.shards, "world=2")
        for rank, world in ((0, 2), (1, 2), (1, 4)):
            self.assert_at(mount, 0, 0, rank, world)
        mount.set_epoch(b"2 after 30\n", "rank-1-of-4.epoch")
        self.assert_at(mount, 2, 30, 1, 4)
        self.assert_at(mount, 0, 0, 1, 2)
        self.assert_at(mount, 0, 0, 0, 4)
        mount.set_epoch(b"0 after 7\n", "rank-0-of-2.epoch")
        self.assert_at(mount, 0, 7, 0, 2)
        self.assert_at(mount, 0, 0, 1, 2)
        self.assert_at(mount, 2, 30, 1, 4)
        mount.set_epoch(b"1\n")
        for rank, world in ((0, 2), (1, 2), (1, 4)):
            self.assert_at(mount, 1, 0, rank, world)

    def test_bad_text_is_einval_and_nothing_moves(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(b"5 after 12\n")
        inode = os.stat(mount.path("current", "rank-0")).st_ino
        for name in ("epoch", "rank-0.epoch", "rank-1-of-4.epoch"):
            for text in GARBAGE:
                with self.subTest(name=name, text=text[:30]):
                    self.assert_errno(errno.EINVAL, mount.set_epoch, text, name)
        self.assertEqual(mount.read(".control", "epoch"), b"5 after 12\n")
        self.assertEqual(os.stat(mount.path("current", "rank-0")).st_ino, inode)
        for rank, world in ((0, 2), (1, 2), (1, 4)):
            self.assert_at(mount, 5, 12, rank, world)
        self.assertIn("rank-0.epoch: 7 after 61: an epoch has 60 samples", mount.stderr())

    def test_writing_what_it_has_changes_nothing(self):
        mount = self.mount(self.data_set.shards, "world=2")
        for first, same in ((b"2 after 10\n", b"2 after 10"), (b"2\n", b"2 after 0\n"), (b"3 after 0", b"3")):
            mount.set_epoch(first)
            before = os.stat(mount.path("current", "rank-0")).st_ino
            mount.set_epoch(same)
            mount.set_epoch(same, "rank-0.epoch")
            self.assertEqual(os.stat(mount.path("current", "rank-0")).st_ino, before)

    def test_the_shells_ways_of_writing_work(self):
        mount = self.mount(self.data_set.shards, "world=2")
        path = mount.path(".control", "epoch")
        for after, script in enumerate(('echo 4 after 1 > "$1"', 'echo 4 after 2 >> "$1"', 'printf "4 after 3" > "$1"',
                                        'echo 4 after 4 | tee "$1" > /dev/null'), 1):
            self.assertEqual(harness.run(["sh", "-c", script, "sh", path]).returncode, 0)
            self.assert_at(mount, 4, after)

    def test_names_in_current_are_those_without_after(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(b"2 after 10\n")
        for name in ("rank-0.after-10", "rank-0.after-0", "rank-0.after-10.list"):
            self.assertFalse(os.path.exists(mount.path("current", name)), name)
        for view in ("", ".keys", ".part-1-of-4.by-2", ".part-1-of-4.by-2.keys"):
            there = view.replace(".keys", "")
            self.assertEqual(mount.list("current", "rank-0" + view),
                             mount.list("epoch-2", "rank-0.after-10" + there + (".keys" if "keys" in view else "")))
        self.assertEqual(mount.read("current", "rank-0.tar"), mount.read("epoch-2", "rank-0.after-10.tar"))
        self.assertEqual(mount.read("current", "rank-1.part-0-of-2.tar"),
                         mount.read("epoch-2", "rank-1.after-10.part-0-of-2.tar"))
        self.assertNotIn("rank-0.after-10", mount.list("epoch-2"))

    def test_a_list_names_the_resumed_epochs_own_folder(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(b"2 after 10\n")
        lines = mount.read("current", "rank-1.part-1-of-2.by-3.list").decode().splitlines()
        expected = samples_of(1, 2, 1, 2, 3)(2, 10)
        self.assertEqual(lines, ["../epoch-2/rank-1.after-10.part-1-of-2.by-3/%08d.jpg %d" % (p, sample)
                                 for p, sample in enumerate(expected)])
        mount.set_epoch(b"9\n")  # what was listed before still leads there
        for line, sample in zip(lines, expected):
            self.assertEqual(mount.read("current", line.split(" ")[0]), self.data_set.data(sample, "jpg"))

    def test_attributes_tell_how_far_and_after_what(self):
        mount = self.mount(self.data_set.shards, "world=2")
        mount.set_epoch(b"2 after 11\n")
        for names, samples in ((("current", "rank-1"), 25), (("current", "rank-1.part-0-of-2.by-4.tar"), 13),
                               (("epoch-2", "rank-0.after-11.keys"), 25), (("epoch-7", "rank-0.after-60.list"), 0)):
            path = mount.path(*names)
            after = b"60" if samples == 0 else b"11"
            self.assertEqual(os.getxattr(path, "user.shufflefs.samples"), b"%d" % samples)
            self.assertEqual(os.getxattr(path, "user.shufflefs.after"), after)
            self.assertIn("user.shufflefs.after", os.listxattr(path))
        whole = mount.path("epoch-2", "rank-0")
        self.assertNotIn("user.shufflefs.after", os.listxattr(whole))
        self.assert_errno(errno.ENODATA, os.getxattr, whole, "user.shufflefs.after")

    def test_after_all_samples_there_is_an_empty_folder_and_further_none(self):
        mount = self.mount(self.data_set.shards, "world=2")
        for view, kind in (("", stat.S_ISDIR), (".keys", stat.S_ISDIR), (".list", stat.S_ISREG), (".tar", stat.S_ISREG)):
            path = mount.path("epoch-1", "rank-1.after-60" + view)
            self.assertTrue(kind(os.stat(path).st_mode))
            if kind is stat.S_ISDIR:
                self.assertEqual(os.listdir(path), [])
            self.assertFalse(os.path.exists(mount.path("epoch-1", "rank-1.after-61" + view)))
        self.assertEqual(mount.read("epoch-1", "rank-1.after-60.list"), b"")
        self.assertEqual(mount.read("epoch-1", "rank-1.after-60.tar"), bytes(1024))

    def test_an_order_without_a_common_start_is_not_resumed_and_says_so(self):
        mount = self.mount(self.data_set.shards, "world=2,order=contiguous,epoch=4")
        for name in ("epoch", "rank-1.epoch"):
            self.assert_errno(errno.EINVAL, mount.set_epoch, b"4 after 10\n", name)
            self.assertIn(name + ": 4 after 10: order=contiguous cannot be resumed", mount.stderr())
        self.assertFalse(os.path.exists(mount.path("epoch-4", "rank-0.after-10")))
        self.assertEqual(mount.read(".control", "epoch"), b"4\n")
        self.assert_share(mount, "rank-1", range(30, 60))
        mount.set_epoch(b"4 after 0\n")
        self.assert_share(mount, "rank-1.part-1-of-2.by-7", shares.part_of(range(30, 60), 1, 2, 7))

    def test_an_open_folder_stays_with_what_it_was(self):
        mount = self.mount(self.data_set.shards)
        folder = os.open(mount.path("current", "rank-0"), os.O_RDONLY | os.O_DIRECTORY)
        try:
            mount.set_epoch(b"0 after 30\n")
            self.assertEqual(len(mount.list("current", "rank-0")), 2 * 30)
            self.assertEqual(len(os.listdir(folder)), 2 * N)
            for position, sample in enumerate(torch_order.rank_order(N, 1, 0)):
                with open(os.open("%08d.jpg" % position, os.O_RDONLY, dir_fd=folder), "rb") as file:
                    self.assertEqual(file.read(), self.data_set.data(sample, "jpg"))
        finally:
            os.close(folder)


class Reading(MountCase):
    """What the mount knows of who reads a resumed epoch."""

    def setUp(self):
        super().setUp()
        self.n = 1200
        self.data_set = tars.make_dataset(self.tmp / "shards", self.n, size=lambda i: 3000)
        self.made = self.mount(self.data_set.shards)

    def read_all(self, epoch, after):
        for position, sample in enumerate(torch_order.rank_order(self.n, 1, 0, epoch=epoch)[after:]):
            if self.made.read("current", "rank-0", "%08d.jpg" % position) != self.data_set.data(sample, "jpg"):
                self.fail("position %d is wrong" % position)

    def test_the_whole_epoch_after_a_resumed_one_is_no_second_pass(self):
        for after in (500, 700, 0):
            self.made.set_epoch(b"3 after %d\n" % after)
            self.read_all(3, after)
        self.assertEqual((self.made.status()["repeated_epochs"], self.made.stderr()), (0, ""))
        # But to read what was left of it twice is.
        self.made.set_epoch(b"3 after 500\n")
        wait_until(lambda: self.made.status()["repeated_epochs"] or self.read_all(3, 500), "the second pass is counted")
        self.assertIn("current/rank-0: epoch 3", self.made.stderr())

    def test_the_status_tells_what_is_read(self):
        self.made.set_epoch(b"3 after 500\n")
        self.read_all(3, 500)
        for position in range(100):
            self.made.read("epoch-1", "rank-0-of-2.part-1-of-3.by-8", "%08d.jpg" % position)
        resumed, part = (next(reader for reader in self.made.status()["readers"] if reader["path"].endswith(end))
                         for end in ("current/rank-0", "by-8"))
        self.assertEqual((resumed["epoch"], resumed["after"], resumed["length"]), (3, 500, 700))
        self.assertNotIn("part", resumed)
        self.assertEqual([part[key] for key in ("path", "rank", "world", "part", "parts", "by", "length")],
                         ["epoch-1/rank-0-of-2.part-1-of-3.by-8", 0, 2, 1, 3, 8, 200])
        self.assertNotIn("after", part)

    def test_the_tail_is_read_ahead_once_it_was_written(self):
        self.read_all(0, 0)
        ahead = self.made.status()["pushed_files"]
        harness.forget(self.data_set.shards)
        fresh = self.mount(self.data_set.shards)
        fresh.set_epoch(b"5 after 1000\n")
        if ahead:  # where names may be looked up ahead
            wait_until(lambda: fresh.status()["pushed_files"] == 200, "the tail is pushed before anybody reads")
        order = torch_order.rank_order(self.n, 1, 0, epoch=5)[1000:]
        for position, sample in enumerate(order):
            self.assertEqual(fresh.read("current", "rank-0", "%08d.jpg" % position), self.data_set.data(sample, "jpg"))
        if ahead:  # but for those that were dropped again, to see whether somebody reads
            self.assertLessEqual(fresh.status()["reads"], PROBES)


class Storm(StormCase):
    """Epochs are left in their midst, and taken up in the midst of others."""
    STATES = [(0, 0), (0, 50), (1, 0), (1, 50), (1, 51), (2, 120), (3, 199), (4, 200)]

    def share(self, name, rank, world, part=None, parts=None, run=1, follows=True):
        def samples(epoch, after):
            found = shares.deal(shares.epoch_order(self.N, 0, epoch)[after:], rank, world, "pad")
            return shares.part_of(found, part, parts, run) if parts else found
        return name, samples, follows

    @harness.limit(300)
    def test_100_switches_into_epochs_under_four_readers_show_no_stale_byte(self):
        self.storm("world=2", "epoch", self.STATES, 100,
                   [self.share("rank-0", 0, 2), self.share("rank-1.part-1-of-2.by-3", 1, 2, 1, 2, 3),
                    self.share("rank-2-of-3", 2, 3), self.share("rank-0.part-0-of-4", 0, 2, 0, 4)])

    @harness.limit(300)
    def test_a_ranks_switches_do_not_touch_other_ranks_and_worlds(self):
        self.storm("world=2", "rank-0.epoch", self.STATES, 60,
                   [self.share("rank-0.part-1-of-2.by-5", 0, 2, 1, 2, 5), self.share("rank-0-of-4", 0, 4, follows=False),
                    self.share("rank-1.part-0-of-2", 1, 2, 0, 2, follows=False)])
