"""What must hold for days: rounds of a mount's life, memory that stays as it is, and little memory to begin with."""
import os
import random

import harness
import processes
import slow
import tars
import torch_order
from harness import MountCase

FOLDER = ("current", "rank-0")
MIB = 1 << 20


def name(position):
    return "%08d.jpg" % position


def anonymous_bytes(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def own_bytes(pid):
    """Anonymous memory but for what read-ahead lends to its threads: of one size from the start, in huge pages, each of
    which is there when first lent."""
    total = size = 0
    with open("/proc/%d/smaps" % pid, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("Anonymous:"):
                size = int(line.split()[1]) << 10
            elif line.startswith("VmFlags:"):
                total += 0 if "hg" in line.split() else size
    return total


class Rounds(slow.SlowCase):
    def rounds(self, count):
        """Mount, read, switch, read, unmount, at places of chance, storage slow, much under way."""
        n = 300
        data_set = tars.make_dataset(self.tmp / "shards", n, size=lambda i: 3000 + i % 7)
        storage = self.storage(self.tmp / "shards", "delay_ms=1")
        chance = random.Random(7)
        for number in range(count):
            mount = self.mount(storage.shards(data_set), chance.choice(("", "readahead=64k", "world=2", "prime=50")))
            ranks = mount.status()["world"]
            storage.forget()
            epoch = 0
            for _ in range(chance.randrange(1, 4)):
                if chance.random() < 0.5:
                    mount.list(*FOLDER)
                order = torch_order.rank_order(n, ranks, 0, epoch=epoch)
                for position in range(chance.randrange(len(order))):
                    if mount.read(*FOLDER, name(position)) != data_set.data(order[position], "jpg"):
                        self.fail("round %d: position %d of epoch %d is wrong" % (number, position, epoch))
                epoch = chance.randrange(1000)
                mount.set_epoch(epoch)
            self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))
            mount.unmount()
            mount.process = None
            os.rmdir(mount.where)

    def test_rounds_of_mount_read_switch_unmount(self):
        self.rounds(int(os.environ.get("SHUFFLEFS_TEST_ROUNDS", 20)))

    @harness.slow
    @harness.limit(3600)
    def test_1000_rounds_of_mount_read_switch_unmount(self):
        self.rounds(1000)


class Memory(MountCase):
    def epochs(self, count):
        """The daemon's memory after the first ten epochs, and after `count` more."""
        n, world = 300, 2
        data_set = tars.make_dataset(self.tmp / "shards", n)
        mount = self.mount(data_set.shards, "world=2")

        def run(first, end):
            for epoch in range(first, end):
                mount.set_epoch(epoch)
                for rank in range(world):
                    order = torch_order.rank_order(n, world, rank, epoch=epoch)
                    folder = ("current", "rank-%d" % rank)
                    for listed, sample in zip(mount.list(*folder), order):
                        if mount.read(*folder, listed) != data_set.data(sample, "jpg"):
                            self.fail("%s of epoch %d is not sample %d" % (listed, epoch, sample))
                    # Of `current`: folders of epochs that were spelled out are there as long as the kernel keeps their names.
                    mount.read("current", "rank-%d.list" % rank)
            return own_bytes(mount.pid())
        before = run(1, 11)
        after = run(11, 11 + count)
        # Each thread of the daemon has buffers of its own; one may come to its first read late.
        self.assertLess(after, before + 4 * MIB)

    @harness.needs_plain_build
    def test_fifty_epochs_take_no_memory(self):
        self.epochs(50)

    @harness.slow
    @harness.needs_plain_build
    @harness.limit(1200)
    def test_2000_epochs_take_no_memory(self):
        self.epochs(2000)


class LittleMemory(MountCase):
    """Pushed pages are charged to the daemon's memory group: these go, and nothing else does."""

    def read_in_group(self, limit, samples, size):
        group = harness.MemoryGroup(self)
        data_set = tars.make_dataset(self.tmp / "shards", samples, size=lambda i: size + i % 7, shards=4)
        mount = self.mount(data_set.shards, wrapper=group.wrapper())
        # On top of what the daemon has: a sanitizer's own memory is no part of the promise.
        group.limit(anonymous_bytes(mount.pid()) + limit)
        mount.list(*FOLDER)
        for epoch in (0, 1):
            mount.set_epoch(epoch)
            processes.parallel(self.read_epoch, [(mount, data_set, epoch)])
            status = mount.status()
            self.assertEqual((status["errors"], status["failed_ahead"], mount.stderr()), ({}, 0, ""))
            self.assertLessEqual(status["pushed_unread"], 256 * MIB)
        self.assertIsNone(mount.process.poll())
        self.assertGreater(status["pushed_files"], 0)
        self.assertTrue(group.was_full())

    def read_epoch(self, mount, data_set, epoch):
        for position, sample in enumerate(torch_order.rank_order(len(data_set), 1, 0, epoch=epoch)):
            assert mount.read(*FOLDER, name(position)) == data_set.data(sample, "jpg"), (epoch, position, sample)

    @harness.needs_root
    @harness.needs_plain_build
    def test_a_data_set_three_times_the_memory_groups_limit_is_read_right(self):
        self.read_in_group(48 * MIB, 1500, 100_000)

    @harness.slow
    @harness.needs_root
    @harness.limit(600)
    def test_512_mib_of_memory_and_a_larger_data_set(self):
        self.read_in_group(512 * MIB, 7500, 100_000)
