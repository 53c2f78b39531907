"""Storage that is slow, fails or hangs: readers get what is due to them, and nobody else pays for it."""
import ctypes
import mmap
import os
import signal
import threading
import time

import harness
import processes
import slow
import tars
import torch_order
from harness import wait_until

FOLDER = ("current", "rank-0")
EIO = 5
# Most pushes that can be under way at once, with room.
IN_FLIGHT = 128
MIB = 1 << 20


def name(position):
    return "%08d.jpg" % position


class OnStorage(slow.SlowCase):
    """A data set behind slowfs, mounted: prepare() makes all three."""

    def prepare(self, n, size=20000, shards=2, delay=2, options="", listed=True):
        self.n = n
        self.data_set = tars.make_dataset(self.tmp / "shards", n, shards=shards, size=lambda i: size + i % 7)
        self.slow = self.storage(self.tmp / "shards", "delay_ms=%d" % delay)
        made = self.mount(self.slow.shards(self.data_set), options)
        # Indexing left much of the shards in the page cache.
        self.slow.forget()
        if listed:
            made.list(*FOLDER)
        return made

    def order(self, epoch=0):
        return torch_order.rank_order(self.n, 1, 0, epoch=epoch)

    def read_right(self, mount, positions, epoch=0, folder=FOLDER, work=0.0):
        """Reads the files at `positions` and compares them."""
        order = self.order(epoch)
        for position in positions:
            if mount.read(*folder, name(position)) != self.data_set.data(order[position], "jpg"):
                self.fail("position %d of epoch %d is not sample %d" % (position, epoch, order[position]))
            if work:
                time.sleep(work)
        return len(order)

    def rest(self, mount):
        """Waits until nothing is read ahead any more; the status then."""
        last, same = None, 0

        def rests():
            nonlocal last, same
            status = mount.status()
            now = [status[key] for key in ("pushed", "reads", "failed_ahead")] + [self.slow.state()]
            last, same = now, same + 1 if now == last else 0
            time.sleep(0.01)
            return same >= 20 and status
        return wait_until(rests, "nothing is read ahead any more")

    def in_shard(self, positions, shard):
        """Those of `positions` whose samples are in this shard."""
        order, path = self.order(), self.data_set.shards[shard]
        return [p for p in positions if self.data_set.samples[order[p]].shard == path]


class Itself(slow.SlowCase):
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
        result = harness.run(["dd", "if=" + path, "of=%s" % (self.tmp / "copy"), "bs=4096", "iflag=direct"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(harness.read(self.tmp / "copy"), harness.read(data_set.shards[0]))
        self.assertGreater(storage.state()["bytes"], cold["bytes"])


class Indexing(slow.SlowCase):
    def test_storage_that_answers_late_is_read_ahead(self):
        """All of one shard in many reads at once, while headers one after the other take a delay each."""
        n = 80
        data_set = tars.make_dataset(self.tmp / "shards", n, shards=1, size=lambda i: 90000 + i)
        storage = self.storage(self.tmp / "shards", "delay_ms=20")
        mount = self.mount(storage.shards(data_set), "index=none")
        self.assertEqual(mount.status()["samples"], n)
        self.assertGreaterEqual(storage.state()["most"], 4)
        self.assertLess(storage.state()["reads"], n)


class Fails(OnStorage):
    def test_an_error_ahead_is_nobodys_until_a_reader_asks(self):
        mount = self.prepare(600)
        bad_shard = self.slow.shards(self.data_set)[1]
        good, bad = self.in_shard(range(self.n), 0), self.in_shard(range(self.n), 1)
        with self.slow.failing(os.path.basename(bad_shard)):
            # One who needs the good shard alone, in order.
            self.read_right(mount, good[:30])
            wait_until(lambda: mount.status()["failed_ahead"], "a read ahead fails")
            self.rest(mount)
            self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))

            asked = [p for p in bad if p > good[30]][:20]
            for count, position in enumerate(asked, 1):
                self.assert_errno(EIO, mount.read, *FOLDER, name(position))
                errors = mount.status()["errors"]
                self.assertEqual(list(errors), [bad_shard])
                # The kernel asks twice for a file that it could not read.
                self.assertTrue(count <= errors[bad_shard] <= 2 * count, errors)
            said = mount.stderr().splitlines()
            self.assertEqual(len(said), 1, said)
            self.assertIn(bad_shard, said[0])
            processes.parallel(self.read_right, [(mount, good), (mount, good[::-1])])
        self.read_right(mount, asked)
        self.read_right(mount, range(self.n))
        self.assertEqual(mount.status()["errors"], errors)
        self.assertEqual(len(mount.stderr().splitlines()), 1)

    def test_what_could_not_be_read_is_not_taken_for_dropped_and_is_read_ahead_once_storage_is_back(self):
        mount = self.prepare(300)
        bad_shard = self.slow.shards(self.data_set)[1]
        bad = set(self.in_shard(range(self.n), 1))
        with self.slow.failing(os.path.basename(bad_shard)):
            for position in range(self.n):
                if position in bad:
                    self.assert_errno(EIO, mount.read, *FOLDER, name(position))
                else:
                    self.read_right(mount, [position])
            status = self.rest(mount)
            self.assertGreaterEqual(status["errors"][bad_shard], len(bad))
            # Nothing of them was ever in the page cache. (Now and then a READ meets its file's push.)
            self.assertLess(status["pushed_lost"], len(bad) / 10)
            self.assertEqual(status["warnings"], [])
        mount.set_epoch(1)
        self.slow.forget()
        mount.list(*FOLDER)
        self.read_right(mount, range(self.n), epoch=1)
        # These, and not the good shard's once more, which are in the page cache.
        pushed = mount.status()["pushed_files"] - status["pushed_files"]
        self.assertTrue(len(bad) * 0.5 < pushed < len(bad) * 1.5, pushed)

    def test_storage_that_fails_now_and_then_costs_its_readers_an_error_and_no_more(self):
        mount = self.prepare(500, delay=1)
        order = self.order()
        wrong = []
        for start in range(0, self.n, 100):
            with self.slow.failing("*"):
                for position in range(start, start + 10):
                    try:  # it may have been pushed before
                        data = mount.read(*FOLDER, name(position))
                        wrong += [position] if data != self.data_set.data(order[position], "jpg") else []
                    except OSError as error:
                        self.assertEqual(error.errno, EIO)
            self.read_right(mount, range(start, start + 100))
        self.assertEqual(wrong, [])


class Hangs(OnStorage):
    def test_while_it_hangs_status_listing_and_switch_answer(self):
        mount = self.prepare(1500)
        self.read_right(mount, range(20))
        with processes.Children() as waiting, self.slow.hanging():
            # Each takes one of the daemon's threads.
            for k in range(16):
                waiting.start(self.read_right, mount, [1000 + 10 * k], 0, ("epoch-0", "rank-0"))
            wait_until(lambda: mount.status()["version"], "the status answers")
            with processes.Children() as children:
                for _ in range(3):
                    children.start(lambda: len(mount.status()["readers"]))
                    children.start(lambda: len(mount.list("current", "rank-0")))
                    children.start(lambda: len(mount.list("epoch-7", "rank-0.keys")))
                    children.start(lambda: len(mount.read("epoch-3", "rank-0.list")) > 0)
                    children.start(lambda: mount.set_epoch(5))
                children.results(30)
            self.assertEqual(mount.read(".control", "epoch"), b"5\n")
            self.slow.come_back()
            waiting.results(30)
        self.read_right(mount, range(100), epoch=5)
        self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))

    def test_who_has_its_files_in_the_page_cache_does_not_notice(self):
        mount = self.prepare(300)
        # Twice: on a machine that takes away pages which were not touched for seconds, all are fresh then.
        self.read_right(mount, range(self.n))
        self.read_right(mount, range(self.n))
        with self.slow.hanging(), processes.Children() as children:
            children.start(self.read_right, mount, range(self.n))
            children.start(self.read_right, mount, range(self.n), 0, ("epoch-0", "rank-0"))
            children.results(30)

    def test_a_reader_waits_no_longer_than_the_storage(self):
        mount = self.prepare(1500)
        for turn in range(5):
            start = 200 * turn
            self.read_right(mount, range(start, start + 20))
            with processes.Children() as children, self.slow.hanging():
                children.start(self.read_right, mount, range(start + 20, start + 200))
                self.slow.come_back()
                children.results(30)
        self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))

    def end_in_a_hang(self, end):
        """Readers wait, pushes are under way, the storage hangs: `end` then ends the mount."""
        mount = self.prepare(1000)
        self.read_right(mount, range(20))
        with processes.Children() as waiting, self.slow.hanging():
            for k in range(8):
                waiting.start(self.ends, mount, 500 + 50 * k)
            wait_until(lambda: mount.status()["version"], "the status answers")
            end(mount)
            self.slow.come_back()
            waiting.results(30)
        mount.expect_end()

    def ends(self, mount, position):
        """A reader whose mount may go meanwhile: its bytes, or an error."""
        try:
            self.read_right(mount, [position])
        except OSError:
            pass

    def test_sigterm_in_a_hang(self):
        self.end_in_a_hang(lambda mount: os.kill(mount.pid(), signal.SIGTERM))

    @harness.needs_root
    def test_a_lazy_umount_in_a_hang(self):
        self.end_in_a_hang(lambda mount: self.assertEqual(harness.run(["umount", "-l", mount.where]).returncode, 0))


class ReadersThatGo(OnStorage):
    def test_readers_killed_in_mid_epoch_leave_nothing_wrong(self):
        mount = self.prepare(1000, size=8000, options="readahead=1M")
        threads = "/proc/%d/task" % mount.pid()
        handles = "/proc/%d/fd" % mount.pid()
        counts = []
        for turn in range(30):
            done = processes.FORK.Value("i", 0)
            with processes.Children() as children:
                children.start(self.count_reads, mount, done, turn * 31)
                wait_until(lambda: done.value >= 5 + turn, "the reader is on its way")
            counts.append((len(os.listdir(threads)), len(os.listdir(handles))))
            self.assertLessEqual(mount.status()["pushed_unread"], 30 * MIB)
        self.read_right(mount, range(self.n))
        self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))
        # Something left behind at each kill would be 25 by now.
        for early, late in zip(zip(*counts[:5]), zip(*counts[-5:])):
            self.assertLess(max(late), max(early) + 10)

    def count_reads(self, mount, done, start):
        for position in range(start, self.n):
            self.read_right(mount, [position])
            done.value += 1

    def test_a_reader_that_stops_gets_no_more_pushed_and_goes_on_much_later(self):
        size, stop = 4000, 300
        mount = self.prepare(1500, size=size, options="readahead=1M")
        self.read_right(mount, range(stop))
        status = self.rest(mount)
        self.assertLessEqual(status["pushed_unread"], MIB)
        self.assertLessEqual(status["pushed"], stop * (size + 7) + MIB)
        at_rest = self.slow.state()
        # Others read meanwhile.
        for epoch in (1, 2):
            self.read_right(mount, range(self.n), epoch, ("epoch-%d" % epoch, "rank-0"))
        self.rest(mount)
        self.assertGreater(self.slow.state()["reads"], at_rest["reads"])
        before = mount.status()
        self.read_right(mount, range(stop, self.n))
        self.assertEqual(mount.status()["errors"], {})
        self.assertLessEqual(mount.status()["pushed"], before["pushed"] + self.n * size // 4)


class Pushing(OnStorage):
    def test_umount_while_much_is_pushed(self):
        mount = self.prepare(1500)
        for turn in range(4):
            for position in range(8 + turn):
                mount.read(*FOLDER, name(position))
            mount.unmount()
            self.slow.forget()
            mount = self.mount(self.slow.shards(self.data_set))

    def test_sigterm_while_much_is_pushed_and_read(self):
        mount = self.prepare(1500)
        for _ in range(4):
            done = processes.FORK.Value("i", 0)
            with processes.Children() as children:
                children.start(self.read_on, mount, done)
                wait_until(lambda: done.value >= 10, "the reader is on its way")
                os.kill(mount.pid(), signal.SIGTERM)
                mount.expect_end()
                children.results(30)
            self.slow.forget()
            mount = self.mount(self.slow.shards(self.data_set))

    def read_on(self, mount, done):
        """Reads on until the mount is gone."""
        for position in range(self.n):
            try:
                self.read_right(mount, [position])
            except OSError:
                return
            done.value = position

    def test_a_switch_ends_the_pushes_for_the_old_epoch(self):
        bound = 256 << 10
        mount = self.prepare(1000, size=4000, delay=20, options="readahead=%d" % bound)
        self.read_right(mount, range(5))
        with self.slow.hanging():
            # Nothing can end now but what is under way already.
            before = mount.status()["pushed_files"]
            mount.set_epoch(1)
        # The start of the new one is pushed, up to the bound.
        status = self.rest(mount)
        self.assertLessEqual(status["pushed_unread"], bound)
        self.assertLessEqual(status["pushed_files"], before + IN_FLIGHT + bound // 4000)
        self.read_right(mount, range(40), epoch=1)

    def test_switches_while_much_is_pushed_give_the_right_bytes(self):
        mount = self.prepare(400, size=9000, delay=1)
        for epoch in range(1, 9):
            self.read_right(mount, range(20 + 10 * epoch), epoch - 1)
            mount.set_epoch(epoch)
        self.read_right(mount, range(self.n), 8)


class Bound(OnStorage):
    def test_what_is_pushed_and_unread_stays_below_the_bound(self):
        bound = MIB
        mount = self.prepare(1500, size=4000, options="readahead=1M", delay=1)
        ended = threading.Event()
        most = 0

        def sample():
            nonlocal most
            while not ended.is_set():
                most = max(most, mount.status()["pushed_unread"])
        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            self.read_right(mount, range(700), work=0.001)
        finally:
            ended.set()
            sampler.join()
        self.assertLessEqual(most, bound)
        self.assertGreater(mount.status()["pushed_files"], 0)

    @harness.needs_root
    def test_no_more_than_the_bound_is_in_the_page_cache_ahead_of_a_reader(self):
        bound, stop = MIB, 300
        mount = self.prepare(1500, size=4000, options="readahead=1M", delay=1)
        self.read_right(mount, range(stop), work=0.001)
        self.rest(mount)
        # Opening the name of a mark looks as if the reader were there.
        ahead = [p for p in range(stop, self.n - 1) if p % 256]
        cached = [p for p in ahead if is_cached(mount.path(*FOLDER, name(p)))]
        sizes = sum(os.stat(mount.path(*FOLDER, name(p))).st_size for p in cached)
        self.assertLessEqual(sizes, bound)
        self.assertGreater(mount.status()["pushed_files"], 0)


def is_cached(path):
    """Is any page of the file in the page cache?"""
    c = ctypes.CDLL(None, use_errno=True)
    c.mmap.restype = ctypes.c_void_p
    c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size
        at = c.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
        pages = ctypes.create_string_buffer((size + 4095) // 4096)
        if c.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages):
            raise OSError(ctypes.get_errno(), "mincore")
        c.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
        return any(byte & 1 for byte in pages.raw)
    finally:
        os.close(handle)


class Patterns(OnStorage):
    def loader(self, batch, workers=4, prefetch=2):
        """As torch's DataLoader: each worker reads every workers-th batch, `prefetch` batches ahead of a job that
        takes the batches in order, a millisecond a sample. Returns the share of files that needed no READ, of those
        after the start, when nothing can have been read ahead."""
        mount = self.prepare(2000)
        start, at_start = 2 * workers * prefetch, None
        taken = processes.FORK.Value("i", 0)
        ready = processes.FORK.Array("i", self.n // batch + 1)

        def work(worker):
            for at in range(worker, (self.n + batch - 1) // batch, workers):
                while at >= taken.value + workers * prefetch:
                    time.sleep(0.0005)
                self.read_right(mount, range(at * batch, min((at + 1) * batch, self.n)))
                ready[at] = 1
        with processes.Children() as children:
            for worker in range(workers):
                children.start(work, worker)
            for at in range((self.n + batch - 1) // batch):
                wait_until(lambda: ready[at], "batch %d" % at)
                time.sleep(0.001 * batch)
                taken.value += 1
                if at == start:
                    at_start = mount.status()["reads"]
            children.results(60)
        return 1 - (mount.status()["reads"] - at_start) / (self.n - (start + 1) * batch)

    def test_four_workers_with_batches_of_16_find_nine_of_ten_files(self):
        self.assertGreaterEqual(self.loader(16), 0.9)

    def test_four_workers_with_batches_of_32_find_nine_of_ten_files(self):
        self.assertGreaterEqual(self.loader(32), 0.9)
