"""Reading ahead where it is hard: folders that nobody listed, tight bounds, random order, many who wait."""
import random
import time

import harness
import processes
import tars
import torch_order
from harness import MountCase
from test_slow_storage import FOLDER, MIB, OnStorage, name


class NeverListed(OnStorage):
    @harness.needs_root
    def test_a_small_folder_that_was_never_listed_is_read_ahead(self):
        mount = self.prepare(1000, size=4000, listed=False)
        self.read_right(mount, range(self.n), work=0.001)
        self.assertGreaterEqual(mount.status()["pushed_files"], self.n // 2)

    @harness.needs_root
    def test_the_end_of_a_folder_that_was_never_listed_is_read_ahead_too(self):
        mount = self.prepare(3000, size=2000, listed=False)
        self.read_right(mount, range(2200))
        before = mount.status()["reads"]
        self.read_right(mount, range(2200, self.n), work=0.001)
        self.assertLess(mount.status()["reads"] - before, (self.n - 2200) // 2)


class TightBounds(OnStorage):
    def test_a_reader_that_was_too_fast_for_a_small_bound_gets_files_pushed_again(self):
        mount = self.prepare(1500, options="readahead=1M", delay=1)
        self.read_right(mount, range(500))
        before = mount.status()["pushed_files"]
        self.read_right(mount, range(500, 1000), work=0.002)
        self.assertGreater(mount.status()["pushed_files"] - before, 250)

    def test_what_is_left_to_a_fast_reader_does_not_count_as_pushed(self):
        mount = self.prepare(1500, options="readahead=1M", delay=1)
        most = 0
        for position in range(300):
            self.read_right(mount, [position])
            most = max(most, mount.status()["pushed_unread"])
        self.assertLessEqual(most, MIB)

    def test_the_bound_of_all_readers_holds(self):
        bound = 2 * MIB
        mount = self.prepare(2000, options="readahead=1M,readahead_total=2M,world=4", delay=1)
        with processes.Children() as children:
            for rank in range(4):
                children.start(self.read_rank, mount, rank)
            most = 0
            for _ in range(200):
                most = max(most, mount.status()["pushed_unread"])
            children.results(60)
        # One file a reader always fits.
        self.assertLessEqual(most, bound + 4 * 20007)

    def read_rank(self, mount, rank):
        order = torch_order.rank_order(self.n, 4, rank)
        for position, sample in enumerate(order):
            assert mount.read("current", "rank-%d" % rank, name(position)) == self.data_set.data(sample, "jpg"), position


class RandomOrder(MountCase):
    def read_in_random_order(self, n, listed):
        """The share of the data set that was pushed."""
        data_set = tars.make_dataset(self.tmp / "shards", n, size=lambda i: 1000 + i % 7)
        mount = self.mount(data_set.shards)
        if listed:
            mount.list(*FOLDER)
        positions = list(range(n))
        random.Random(5).shuffle(positions)
        order = torch_order.rank_order(n, 1, 0)
        for position in positions:
            if mount.read(*FOLDER, name(position)) != data_set.data(order[position], "jpg"):
                self.fail("position %d is wrong" % position)
        status = mount.status()
        return status["pushed"] / status["member_bytes"]

    def test_in_a_listed_folder_hardly_a_byte_is_pushed(self):
        self.assertLess(self.read_in_random_order(16000, True), 0.05)

    def test_in_a_folder_that_was_never_listed_hardly_a_byte_is_pushed(self):
        self.assertLess(self.read_in_random_order(16000, False), 0.05)

    def test_in_a_small_folder_little_is_pushed(self):
        # In a small one, every place is near some mark that was just met.
        self.assertLess(self.read_in_random_order(4000, True), 0.2)


class ManyWait(OnStorage):
    def test_the_status_answers_while_a_hundred_readers_wait_for_the_storage(self):
        mount = self.prepare(1500)
        with processes.Children() as waiting, self.slow.hanging():
            for k in range(100):
                waiting.start(self.read_right, mount, [100 + 10 * k], 0, ("epoch-0", "rank-0"))
            time.sleep(0.5)  # most of them are asking by now; what follows holds whenever they come
            with processes.Children() as children:
                children.start(lambda: len(mount.status()["readers"]))
                children.start(lambda: len(mount.list("current", "rank-0")))
                children.results(20)
            self.slow.come_back()
            waiting.results(30)


class Slow(OnStorage):
    def test_a_reader_of_a_millisecond_a_sample_does_not_wait_at_20_ms_a_read(self):
        mount = self.prepare(1000, size=4000, delay=20)
        self.read_right(mount, range(200), work=0.001)
        before = mount.status()["reads"]
        self.read_right(mount, range(200, self.n), work=0.001)
        self.assertLess(mount.status()["reads"] - before, (self.n - 200) // 10)
