"""Nobody changes a sample: not root, not others, and no reader sees a byte that is not the shard's."""
import errno
import json
import mmap
import os
import shutil
import sys
import time

import attempts
import harness
import processes
import tars
import torch_order
from harness import MountCase, wait_until

N = 40


class ReadOnly(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, size=lambda i: 3000 + i * 700)
        self.order = torch_order.rank_order(N, 1, 0)

    def path(self, mount, position):
        return mount.path("current", "rank-0", "%08d.jpg" % position)

    def assert_unchanged(self, mount):
        self.assert_rank(mount, self.data_set, self.order, "current", "rank-0")
        self.assert_rank(mount, self.data_set, torch_order.rank_order(N, 1, 0, epoch=3), "epoch-3", "rank-0")
        self.assertEqual(sorted(mount.list()), [".control", "current", "epoch-0", "epoch-1"])
        self.assertEqual(sorted(mount.list("current")), ["rank-0", "rank-0.keys", "rank-0.list", "rank-0.tar"])

    @staticmethod
    def also(what):
        """A file system without O_TMPFILE says that it has not got it; nothing was opened either way."""
        return ("EOPNOTSUPP", "ENOTSUP") if "temporary" in what else ()

    @harness.needs_root
    def test_every_change_by_root_is_erofs(self):
        mount = self.mount(self.data_set.shards)
        for cached in (False, True):
            for what, outcome in attempts.outcomes(mount.where).items():
                with self.subTest(what=what, cached=cached):
                    self.assertIn(outcome, ("EROFS",) + self.also(what))
            self.assert_unchanged(mount)

    @harness.needs_nobody
    def test_every_change_by_others_is_refused(self):
        mount = self.mount(self.data_set.shards, "allow_other")
        script = shutil.copy(attempts.__file__, self.tmp / "attempts.py")
        os.chmod(script, 0o644)
        result = harness.run(harness.AS_NOBODY + [sys.executable, script, mount.where])
        self.assertEqual(result.returncode, 0, result.stderr)
        for what, outcome in json.loads(result.stdout).items():
            with self.subTest(what=what):
                self.assertIn(outcome, ("EROFS", "EACCES", "EPERM") + self.also(what))
        self.assert_unchanged(mount)

    def watch(self, mount, over):
        """A reader for processes: every read of every sample must be the shard's bytes. Returns its reads."""
        handles = [os.open(self.path(mount, position), os.O_RDONLY) for position in range(N)]
        count = 0
        while not over.is_set():
            for position, handle in enumerate(handles):
                data = self.data_set.data(self.order[position], "jpg")
                assert os.pread(handle, len(data) + 1, 0) == data, "position %d shows changed bytes" % position
            count += N
        return count

    @harness.needs_root
    def test_readers_see_no_changed_byte_while_root_tries_to_write(self):
        mount = self.mount(self.data_set.shards)
        self.assert_unchanged(mount)  # so every page is cached
        over = processes.FORK.Event()
        with processes.Children() as children:
            children.start(self.watch, mount, over)
            children.start(self.watch, mount, over)
            draw, end = torch_order.generator(1), time.monotonic() + 4
            while time.monotonic() < end and not any(processes.has_ended(pid) for pid, _ in children.running):
                position = draw.randrange(N)
                try:
                    handle = os.open(self.path(mount, position), draw.choice((os.O_WRONLY, os.O_RDWR)))
                except OSError as error:
                    self.assertEqual(error.errno, errno.EROFS)
                    continue
                try:
                    for size in (1, 100, 4096, 8192, 3000 + self.order[position] * 700):
                        self.assert_errno(errno.EROFS, os.pwrite, handle, b"X" * size, draw.choice((0, 1, 4096)))
                finally:
                    os.close(handle)
            over.set()
            self.assertTrue(all(count > N for count in children.results()))
        self.assert_unchanged(mount)

    @harness.needs_root
    def test_roots_store_through_a_shared_mapping_is_undone_logged_and_counted(self):
        mount = self.mount(self.data_set.shards)
        self.assert_unchanged(mount)
        before = mount.status()["refused_writes"]
        for position in (0, 7, N - 1):
            data = self.data_set.data(self.order[position], "jpg")
            said = len(mount.stderr())
            try:
                handle = os.open(self.path(mount, position), os.O_RDWR)
            except OSError as error:  # refusing it at once is better still
                self.assertEqual(error.errno, errno.EROFS)
                continue
            try:
                with mmap.mmap(handle, len(data), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as pages:
                    pages[10:20] = b"X" * 10
                    try:
                        pages.flush()
                    except OSError as error:
                        self.assertIn(error.errno, (errno.EROFS, errno.EIO))
            finally:
                os.close(handle)
            wait_until(lambda: harness.read(self.path(mount, position)) == data, "the store is undone", 20)
            wait_until(lambda: mount.status()["refused_writes"] > before, "the store is counted", 20)
            wait_until(lambda: "writ" in mount.stderr()[said:].lower() or "store" in mount.stderr()[said:].lower(),
                       "the store is logged", 20)
            before = mount.status()["refused_writes"]
        self.assert_unchanged(mount)
