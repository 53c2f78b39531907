"""order=block: the order that shufflefs-order tells, one read of storage a block, and the warning of poor batches."""
import os
import random
import re
import threading

import harness
import slow
import tars

FOLDER = ("epoch-0", "rank-0")
BLOCK = 256 << 10
SIZE = 20000
# Of BLOCK: samples of SIZE take 20,992 bytes with header and padding.
A_BLOCK = 12
SAMPLES = 600
SHARDS = 3
BLOCKS = SHARDS * -(-SAMPLES // SHARDS // A_BLOCK)
OPTIONS = "order=block,block=256K,streams=8,window=4,index=none"


def told(shards, options, *words):
    """What shufflefs-order prints: rank and sample a line with --rank all, else the sample."""
    result = harness.run([harness.binary("shufflefs-order"), "-o", options, *words, *shards])
    if result.returncode:
        raise AssertionError(result.stderr)
    return [[int(number) for number in line.split()] for line in result.stdout.splitlines()]


def block_of(sample):
    """A block is A_BLOCK samples of one shard, or the rest of it."""
    in_shard = SAMPLES // SHARDS
    return sample // in_shard, sample % in_shard // A_BLOCK


class Order(harness.MountCase):
    def test_the_mount_shows_the_order_that_is_told(self):
        data_set = tars.make_dataset(self.tmp / "shards", SAMPLES, shards=SHARDS, size=lambda i: 100 + i % 50)
        options = "order=block,block=16K,streams=8,window=4,seed=7,index=none"
        mount = self.mount(data_set.shards, options + ",world=4")
        for epoch in (0, 3):
            lines = told(data_set.shards, options, "--world", "4", "--rank", "all", "--epoch", str(epoch))
            for rank in range(4):
                expected = [sample for at, sample in lines if at == rank]
                self.assertEqual(len(expected), SAMPLES // 4)
                self.assert_rank(mount, data_set, expected, "epoch-%d" % epoch, "rank-%d" % rank)
        self.assertEqual(sorted(sample for _, sample in lines), list(range(SAMPLES)))
        self.assertNotEqual([line[1] for line in lines], [line[1] for line in
                                                          told(data_set.shards, options, "--world", "4", "--rank", "all")])

    def test_ranks_of_a_world_that_divides_the_streams_have_blocks_of_their_own(self):
        data_set = tars.make_dataset(self.tmp / "shards", SAMPLES, shards=SHARDS, size=lambda i: SIZE)
        ranks = {}
        for rank, sample in told(data_set.shards, OPTIONS, "--world", "8", "--rank", "all"):
            ranks.setdefault(block_of(sample), set()).add(rank)
        self.assertEqual(len(ranks), BLOCKS)
        self.assertLessEqual(sum(len(of) - 1 for of in ranks.values()), 7)

    def test_a_count_alone_is_refused_as_blocks_need_bytes(self):
        result = harness.run([harness.binary("shufflefs-order"), "-n", "100", "--order", "block"])
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("order=block needs shards", result.stderr)


class Change(harness.MountCase):
    def test_a_shard_that_changed_is_refused_whether_its_block_was_read_or_not(self):
        data_set = tars.make_dataset(self.tmp / "shards", SAMPLES, shards=SHARDS, size=lambda i: SIZE)
        order = [line[0] for line in told(data_set.shards, OPTIONS)]
        mount = self.mount(data_set.shards, OPTIONS + ",readahead=0")
        inside = [p for p, sample in enumerate(order) if data_set.samples[sample].shard == data_set.shards[1]]
        others = [p for p in range(SAMPLES) if p not in set(inside)][:50]
        harness.forget(data_set.shards)
        os.utime(data_set.shards[1], (1, 1))
        for position in inside[:3]:
            self.assert_errno(5, lambda at=position: len(mount.read(*FOLDER, "%08d.jpg" % at)))
        for position in others:
            self.assertEqual(mount.read(*FOLDER, "%08d.jpg" % position), data_set.data(order[position], "jpg"))


class Storage(slow.SlowCase):
    def prepare(self, options="", delay=2):
        self.data_set = tars.make_dataset(self.tmp / "shards", SAMPLES, shards=SHARDS, size=lambda i: SIZE)
        self.slow = self.storage(self.tmp / "shards", "delay_ms=%d" % delay)
        shards = self.slow.shards(self.data_set)
        self.order = [line[0] for line in told(shards, OPTIONS)]
        made = self.mount(shards, OPTIONS + options)
        # Indexing left much of the shards in the page cache.
        self.slow.forget()
        self.before = self.slow.state()["reads"]
        return made

    def read_right(self, mount, positions, folder=FOLDER):
        for position in positions:
            if mount.read(*folder, "%08d.jpg" % position) != self.data_set.data(self.order[position], "jpg"):
                self.fail("position %d is not sample %d" % (position, self.order[position]))

    def reads(self):
        return self.slow.state()["reads"] - self.before

    def expect_a_read_a_block(self, mount):
        """One for each; some more that indexing started, or where a push and a READ of the same sample met."""
        self.assertGreaterEqual(self.reads(), BLOCKS)
        self.assertLessEqual(self.reads(), BLOCKS * 5 // 4)
        blocks = mount.status()["blocks"]
        self.assertEqual((blocks["count"], blocks["through_page_cache"]), (BLOCKS, 0))
        self.assertGreaterEqual(blocks["read"], BLOCKS)
        self.assertLessEqual(blocks["read"], BLOCKS * 9 // 8)

    def test_storage_sees_one_read_a_block(self):
        mount = self.prepare()
        mount.list(*FOLDER)
        self.read_right(mount, range(SAMPLES))
        self.expect_a_read_a_block(mount)
        # What was taken is let go, but for the last few.
        self.assertLess(mount.status()["blocks"]["held_bytes"], 12 * BLOCK)

    def test_storage_sees_one_read_a_block_from_a_bare_reader(self):
        mount = self.prepare(",readahead=0")
        self.read_right(mount, range(SAMPLES))
        self.expect_a_read_a_block(mount)

    def test_storage_sees_one_read_a_block_from_a_stream(self):
        mount = self.prepare()
        data = mount.read("epoch-0", "rank-0.tar")
        at = 0
        for sample in self.order:
            at = data.find(self.data_set.data(sample, "jpg"), at, at + 4 * SIZE)
            self.assertGreater(at, 0, sample)
        self.expect_a_read_a_block(mount)

    def test_ranks_side_by_side_and_a_reader_without_order_share_the_blocks(self):
        mount = self.prepare(",world=2")
        faults = []

        def read(folder, stride, start, positions):
            for position in positions:
                sample = self.order[start + stride * position]
                if mount.read("epoch-0", folder, "%08d.jpg" % position) != self.data_set.data(sample, "jpg"):
                    faults.append((folder, position))

        shuffled = random.Random(1).sample(range(SAMPLES), SAMPLES)
        readers = [threading.Thread(target=read, args=arguments) for arguments in (
            ("rank-0", 2, 0, range(SAMPLES // 2)), ("rank-1", 2, 1, range(SAMPLES // 2)),
            ("rank-0-of-1", 1, 0, shuffled))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertFalse(faults)
        # Who reads here and there may come to a block again that the others are through with.
        self.assertLessEqual(self.reads(), 2 * BLOCKS)

    def test_a_reader_that_starts_in_the_middle_reads_what_it_needs(self):
        mount = self.prepare(",readahead=0")
        some = range(SAMPLES // 2, SAMPLES // 2 + 20)
        self.read_right(mount, some)
        needed = len({block_of(self.order[position]) for position in some})
        self.assertEqual(mount.status()["blocks"]["read"], needed)

    def test_where_memory_is_short_the_page_cache_has_the_blocks(self):
        """readahead_total= halves are four blocks; 32 are open at once."""
        mount = self.prepare(",readahead=1M,readahead_total=2M")
        self.read_right(mount, range(SAMPLES))
        blocks = mount.status()["blocks"]
        self.assertLessEqual(blocks["held_bytes"], blocks["held_limit"])
        self.assertEqual(blocks["held_limit"], 1 << 20)
        self.assertGreater(blocks["through_page_cache"], 0)
        # The kernel's read-ahead takes 128 KiB at once: two or three READs a block, where a sample each would be 600.
        self.assertLess(self.reads(), 4 * BLOCKS)

    def test_a_block_that_cannot_be_read_costs_only_the_samples_that_cannot(self):
        mount = self.prepare(",readahead=0")
        victim = self.data_set.samples[30]
        start = victim.offsets["jpg"]
        name = os.path.basename(victim.shard)
        with self.slow.failing("%s eio %d %d" % (name, start, start + SIZE)):
            for position, sample in enumerate(self.order):
                if block_of(sample) != block_of(30):
                    continue
                # Reads are of whole pages, so the neighbours' ends may be refused with it.
                if abs(sample - 30) > 1:
                    self.read_right(mount, [position])
                elif sample == 30:
                    self.assert_errno(5, mount.read, *FOLDER, "%08d.jpg" % position)
        self.read_right(mount, range(SAMPLES))


class Warnings(harness.MountCase):
    def test_poor_batches_are_warned_of_and_not_with_the_window_that_is_named(self):
        """Forty classes, each in one run of 50 samples: shards of one class, as far as blocks see it."""
        data_set = tars.make_dataset(self.tmp / "shards", 2000, shards=4, size=lambda i: 1500,
                                     cls=lambda i: b"%d" % (i // 50))
        options = "order=block,block=32K,streams=2,index=none,window="
        poor = self.mount(data_set.shards, options + "2")
        warning, = poor.status()["warnings"]
        self.assertIn("window=2 and streams=2", warning)
        self.assertIn(warning, poor.stderr())
        named = re.search(r"window=(\d+) would", warning).group(1)
        self.assertGreater(int(named), 2)
        good = self.mount(data_set.shards, options + named)
        self.assertEqual((good.status()["warnings"], good.stderr()), ([], ""))

    def test_mixed_shards_are_not_warned_of(self):
        data_set = tars.make_dataset(self.tmp / "shards", 2000, shards=4, size=lambda i: 1500,
                                     cls=lambda i: b"%d" % (i * 7919 % 40))
        mount = self.mount(data_set.shards, "order=block,block=32K,streams=2,window=2,index=none")
        self.assertEqual((mount.status()["warnings"], mount.stderr()), ([], ""))
