"""Storage that is slow, fails or hangs: readers get what is due to them, and nobody else pays for it."""
import json
import os
import signal
import threading

import harness
import processes
import slow
import tars
import torch_order
from harness import wait_until


def names(n):
    return ["%08d.jpg" % i for i in range(n)]


class OnStorage(slow.SlowCase):
    """A data set behind slowfs, mounted."""

    def prepare(self, n, size=20000, shards=2, delay=2, options="", storage_options=""):
        self.n = n
        self.data_set = tars.make_dataset(self.tmp / "shards", n, shards=shards, size=lambda i: size + i % 7)
        self.slow = self.storage(self.tmp / "shards", "delay_ms=%d%s" % (delay, storage_options))
        made = self.mount(self.slow.shards(self.data_set), options)
        self.slow.forget()
        return made

    def read_right(self, mount, position, epoch=0, folder=("current", "rank-0")):
        """Reads one file and compares it."""
        sample = torch_order.rank_order(self.n, 1, 0, epoch=epoch)[position]
        if mount.read(*folder, "%08d.jpg" % position) != self.data_set.data(sample, "jpg"):
            self.fail("position %d of epoch %d is not sample %d" % (position, epoch, sample))

    def in_order(self, mount, start, end, epoch=0, folder=("current", "rank-0")):
        order = torch_order.rank_order(self.n, 1, 0, epoch=epoch)
        for position in range(start, end):
            if mount.read(*folder, "%08d.jpg" % position) != self.data_set.data(order[position], "jpg"):
                self.fail("position %d of epoch %d is not sample %d" % (position, epoch, order[position]))

    def at_rest(self, mount):
        """The status once nothing was pushed for a while."""
        last = [None, 0]

        def rests():
            status = mount.status()
            same = last[0] and all(last[0][key] == status[key] for key in ("pushed", "reads", "failed_ahead"))
            last[:] = status, last[1] + 1 if same else 0
            threading.Event().wait(0.01)
            return last[1] >= 25
        wait_until(rests, "the pushes stop")
        return last[0]


class Itself(OnStorage):
    def test_slow_storage_shows_the_files_as_they_are(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40, size=tars.odd_size)
        for options in ("", "delay_ms=1", "drop_cache", "direct_io", "bandwidth=1000000000"):
            storage = self.storage(self.tmp / "shards", options)
            for shard, path in zip(data_set.shards, storage.shards(data_set)):
                self.assertEqual(harness.read(path), harness.read(shard))
            self.assertEqual(os.listdir(storage.path()), os.listdir(self.tmp / "shards"))
            self.assertGreater(storage.state()["reads"], 0)

    def test_o_direct_and_the_page_cache_both_work_and_reads_are_counted(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40, shards=1)
        storage = self.storage(self.tmp / "shards")
        path, = storage.shards(data_set)
        harness.read(path)
        before = storage.state()
        harness.read(path)
        self.assertEqual(storage.state(), before)
        storage.forget()
        harness.read(path)
        cold = storage.state()
        self.assertEqual(cold["bytes"] - before["bytes"], before["bytes"])
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
        result = harness.run(["dd", "if=" + path, "of=" + str(self.tmp / "copy"), "bs=4096", "iflag=direct"])
        os.close(handle)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(harness.read(self.tmp / "copy"), harness.read(data_set.shards[0]))
        self.assertGreater(storage.state()["bytes"], cold["bytes"])
