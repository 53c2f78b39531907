"""What the status tells of readers, and epochs that are read twice or not yet."""
import os
import random

import harness
import tars
import torch_order
from harness import MountCase, wait_until

FOLDER = ("current", "rank-0")
# Files of one pass that are dropped from the page cache to see whether somebody reads them.
PROBES = 3
REPORTED = {
    "version", "uptime_s", "fingerprint", "samples", "members", "member_bytes", "shards", "index",
    "shards_walked", "left_out", "bad_shards", "unpacked_shards", "unpacked_bytes",
    "label", "classes", "epoch", "after", "world", "seed", "epoch_samples", "order", "remainder", "padding",
    "dropped", "readers", "switches",
    "reads", "bytes", "pushed_files", "pushed", "pushed_unread", "pushed_limit", "pushed_lost", "failed_ahead", "hits",
    "read_latency", "storage", "blocks", "repeated_epochs", "refused_writes", "undone_stores", "errors", "warnings",
}


class Instruments(MountCase):
    def prepare(self, n, options="", size=3000, cls=None):
        self.n = n
        self.data_set = tars.make_dataset(self.tmp / "shards", n, size=lambda i: size + i % 7, cls=cls)
        self.made = self.mount(self.data_set.shards, options)
        return self.made

    def read_all(self, epoch, folder=FOLDER, listed=True):
        if listed:
            self.made.list(*folder)
        for position, sample in enumerate(torch_order.rank_order(self.n, 1, 0, epoch=epoch)):
            if self.made.read(*folder, "%08d.jpg" % position) != self.data_set.data(sample, "jpg"):
                self.fail("position %d is wrong" % position)

    def test_the_status_has_every_key_from_the_start(self):
        status = self.prepare(10).status()
        self.assertEqual(set(status), REPORTED)
        self.assertEqual(status["warnings"], [])
        self.assertEqual((status["hits"], status["repeated_epochs"]), (0, 0))

    def test_hits_misses_and_latencies_add_up(self):
        mount = self.prepare(3000)
        self.read_all(0)
        status = mount.status()
        misses = status["reads"]
        # What stands behind the last mark was not seen to be passed yet.
        self.assertLessEqual(abs(status["hits"] + misses - self.n), 300 + misses // 10)
        self.assertEqual(sum(bucket["reads"] for bucket in status["read_latency"]["buckets"]), misses)
        latency = status["read_latency"]
        self.assertLessEqual(latency["p50_us"], latency["p90_us"])
        self.assertLessEqual(latency["p90_us"], latency["p99_us"])
        self.assertGreater(latency["max_us"], 0)
        storage = status["storage"]
        # Nothing is read twice for nothing: but a push and a READ of the same file may meet now and then.
        self.assertLessEqual(storage["reads"], self.n + self.n // 20)
        self.assertGreaterEqual(storage["bytes"], status["member_bytes"])

    def test_one_reader_is_shown_with_its_place_and_shares(self):
        mount = self.prepare(2000)
        self.read_all(0)
        reader, = mount.status()["readers"]
        self.assertEqual((reader["path"], reader["epoch"], reader["rank"], reader["world"], reader["length"]),
                         ("current/rank-0", 0, 0, 1, 2000))
        self.assertGreaterEqual(reader["position"], 2000 - 256)
        self.assertTrue(reader["in_order"])
        self.assertGreaterEqual(reader["wait_share"], 0)

    def test_a_reader_in_no_order_is_shown_once_and_hits_nothing(self):
        mount = self.prepare(20000, size=100)
        places = list(range(self.n))
        random.Random(1).shuffle(places)
        for position in places[:1500]:
            mount.read(*FOLDER, "%08d.jpg" % position)
        status = mount.status()
        self.assertEqual([reader["in_order"] for reader in status["readers"]], [False])
        self.assertLess(status["hits"], 100)

    def test_without_read_ahead_nothing_is_ahead(self):
        mount = self.prepare(600, "readahead=0")
        self.read_all(0)
        status = mount.status()
        self.assertEqual((status["pushed"], status["pushed_unread"], status["pushed_limit"]), (0, 0, 0))
        self.assertEqual(len(status["readers"]), 1)

    def test_a_second_pass_is_counted_and_logged_once_for_its_folder(self):
        self.second_passes(1500)

    def test_a_second_pass_over_few_samples_is_counted_too(self):
        self.second_passes(100)

    def second_passes(self, n):
        mount = self.prepare(n)
        self.read_all(0)
        self.assertEqual(mount.status()["repeated_epochs"], 0)
        for passes in (1, 2):
            self.read_all(0, listed=False)
            # A file of the pass before is dropped by another thread to see whether it is read.
            wait_until(lambda: mount.status()["repeated_epochs"] >= passes or self.read_all(0, listed=False),
                       "pass %d is counted" % passes)
        lines = [line for line in mount.stderr().splitlines() if "second time" in line]
        self.assertEqual(len(lines), 1, mount.stderr())
        self.assertIn("current/rank-0: epoch 0", lines[0])
        self.assertTrue(any("read again" in warning for warning in mount.status()["warnings"]))

    def test_reading_in_no_order_is_no_second_pass(self):
        """As a loader does that shuffles by itself: each file once an epoch, the epoch's order its own."""
        for n in (20, 60, 200):
            mount = self.prepare(n)
            for epoch in range(4):
                for position in random.Random(epoch).sample(range(n), n):
                    mount.read(*FOLDER, "%08d.jpg" % position)
            self.assertEqual((mount.status()["repeated_epochs"], mount.stderr()), (0, ""), n)
            mount.unmount()

    def test_epochs_in_turn_and_looking_at_files_are_no_second_pass(self):
        mount = self.prepare(1500)
        for epoch in (0, 1, 2):
            mount.set_epoch(epoch)
            self.look_at_all(mount)
            self.read_all(epoch)
            self.look_at_all(mount)
        self.assertEqual((mount.status()["repeated_epochs"], mount.stderr()), (0, ""))

    def test_all_labels_and_then_all_pictures_is_one_pass(self):
        mount = self.prepare(700, cls=lambda i: b"%d" % (i % 10))
        for field in ("cls", "jpg"):
            for position in range(self.n):
                mount.read(*FOLDER, "%08d.%s" % (position, field))
        self.assertEqual((mount.status()["repeated_epochs"], mount.stderr()), (0, ""))

    @staticmethod
    def look_at_all(mount):
        for name in mount.list(*FOLDER):
            os.stat(mount.path(*FOLDER, name))

    def test_a_second_pass_in_sequential_order_is_as_it_should_be(self):
        mount = self.prepare(600, "order=sequential")
        for _ in range(3):
            for position in range(self.n):
                mount.read(*FOLDER, "%08d.jpg" % position)
        self.assertEqual(mount.status()["repeated_epochs"], 0)
        self.assertNotIn("second time", mount.stderr())

    @harness.needs_root
    def test_the_next_epochs_start_is_read_before_anybody_asks(self):
        mount = self.prepare(1200)
        self.read_all(0)
        wait_until(lambda: mount.status()["pushed_files"] + mount.status()["reads"] >= self.n, "all is read")
        # In epoch 1 every file is one of epoch 0's: so what is shown is that names and files are there.
        mount.set_epoch(1)
        before = mount.status()["reads"]
        self.read_all(1, listed=False)
        # But for files that were on their way just then.
        self.assertLessEqual(mount.status()["reads"], before + PROBES + self.n // 100)

    @harness.needs_root
    def test_an_epoch_that_is_written_is_read_ahead_before_the_first_reader_comes(self):
        mount = self.prepare(400)
        mount.set_epoch(5)
        wait_until(lambda: mount.status()["pushed_files"] == self.n, "epoch 5 is read ahead")
        self.assertEqual(mount.status()["reads"], 0)
        self.read_all(5, listed=False)
        self.assertLessEqual(mount.status()["reads"], PROBES)

    @harness.needs_root
    def test_a_rank_whose_file_is_written_is_read_ahead_and_no_other(self):
        self.prepare(400, "world=4")
        self.made.set_epoch(3, "rank-2.epoch")
        wait_until(lambda: self.made.status()["pushed_files"] == self.n // 4, "rank 2 is read ahead")
        for position, sample in enumerate(torch_order.rank_order(self.n, 4, 2, epoch=3)):
            self.assertEqual(self.made.read("current", "rank-2", "%08d.jpg" % position),
                             self.data_set.data(sample, "jpg"))
        self.assertLessEqual(self.made.status()["reads"], PROBES)

    def test_every_way_of_reading_shards_gives_the_same_bytes(self):
        self.prepare(500)
        for way in ("auto", "always", "never"):
            self.made.unmount()
            self.made = self.mount(self.data_set.shards, "direct=" + way)
            harness.forget(self.data_set.shards)
            self.read_all(0)
            storage = self.made.status()["storage"]
            if way == "never":
                self.assertEqual(storage["direct_reads"], 0)

    def test_a_stream_of_cold_shards_is_read_once_and_right(self):
        mount = self.prepare(3000, size=12000)
        whole = mount.read("current", "rank-0.tar")
        mount.unmount()
        again = self.mount(self.data_set.shards)
        harness.forget(self.data_set.shards)
        self.assertEqual(again.read("current", "rank-0.tar"), whole)
        status = again.status()
        self.assertLess(status["storage"]["bytes"], 1.2 * len(whole))
        self.assertGreater(status["pushed"], len(whole) // 2)
