"""The control files: what they take, what they refuse, status and fingerprint."""
import errno
import json
import os
import re
import shutil
import stat
import time

import harness
import processes
import tars
import torch_order
from harness import MountCase

GARBAGE = (b"x", b"-1", b"1.5", b"\n", b" \n", b"9223372036854775808", b"18446744073709551616", b" 7 7", b"7 7\n", b"7x",
           b"x7", b"0x7", b"\0", b"7\0", b"7\0\n", b"\0" * 100, b"7\n8\n", b"7 after", b"seven", b"1e3", b"9" * 5000,
           b"7" + b" " * 5000 + b"x", b"\xff\xfe", b"\xd9\xa7")


class Writing(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 40)
        self.m = self.mount(self.data_set.shards, "world=2,epoch=5")

    def assert_epoch(self, epoch, rank=0):
        self.assert_rank(self.m, self.data_set, torch_order.rank_order(40, 2, rank, epoch=epoch), "current",
                         "rank-%d" % rank)

    def test_garbage_is_einval_and_nothing_moves(self):
        inode = os.stat(self.m.path("current", "rank-0")).st_ino
        for name in ("epoch", "rank-0.epoch", "rank-1-of-4.epoch"):
            for text in GARBAGE:
                with self.subTest(name=name, text=text[:30]):
                    self.assert_errno(errno.EINVAL, self.m.set_epoch, text, name)
                    self.assertEqual(self.m.read(".control", name), b"5\n")
        self.assertEqual(os.stat(self.m.path("current", "rank-0")).st_ino, inode)
        for rank in (0, 1):
            self.assert_epoch(5, rank)

    def test_an_empty_write_and_a_bare_truncation_move_nothing(self):
        self.m.set_epoch(b"")
        with open(self.m.path(".control", "epoch"), "wb"):
            pass
        os.truncate(self.m.path(".control", "epoch"), 0)
        self.assertEqual(self.m.read(".control", "epoch"), b"5\n")
        self.assert_epoch(5)

    def test_every_usual_way_of_writing_works(self):
        path = self.m.path(".control", "epoch")

        def python(mode, text):
            with open(path, mode, encoding="ascii") as file:
                file.write(text)

        def shell(script):
            self.assertEqual(harness.run(["sh", "-c", script, "sh", path]).returncode, 0)
        ways = [lambda: self.m.set_epoch(b"7"), lambda: self.m.set_epoch(b"8\n"), lambda: python("w", "9"),
                lambda: python("w", "10\n"), lambda: python("a", "11\n"), lambda: python("r+", "12\n"),
                lambda: python("a+", "13"), lambda: shell('echo 14 > "$1"'), lambda: shell('echo 15 >> "$1"'),
                lambda: shell('printf 16 > "$1"'), lambda: shell('echo 17 | tee "$1" > /dev/null'),
                lambda: shell('echo 18 | dd of="$1" 2> /dev/null'), lambda: self.m.set_epoch(2 ** 63 - 1),
                lambda: self.m.set_epoch(b"0")]
        for way, epoch in zip(ways, list(range(7, 19)) + [2 ** 63 - 1, 0]):
            way()
            self.assertEqual(self.m.read(".control", "epoch"), b"%d\n" % epoch)
            self.assert_epoch(epoch)

    def test_a_handle_kept_open_writes_again_and_again(self):
        handle = os.open(self.m.path(".control", "rank-0.epoch"), os.O_RDWR)
        try:
            for epoch in range(10, 20):
                os.pwrite(handle, b"%d\n" % epoch, 0)
                self.assert_epoch(epoch)
        finally:
            os.close(handle)
        self.assertEqual(self.m.read(".control", "rank-0.epoch"), b"19\n")

    def test_a_rank_that_the_world_does_not_have_has_no_control_file(self):
        for name in ("rank-2.epoch", "rank-4-of-4.epoch", "rank-x.epoch", "rank-01.epoch"):
            self.assert_errno(errno.ENOENT, self.m.set_epoch, 1, name)

    def test_status_and_fingerprint_cannot_be_written(self):
        for name in ("status", "fingerprint"):
            before = self.m.read(".control", "fingerprint")
            self.assert_errno((errno.EROFS, errno.EACCES, errno.EINVAL, errno.EPERM), self.m.set_epoch, 7, name)
            self.assertEqual(self.m.read(".control", "fingerprint"), before)
        self.assert_epoch(5)


class Owners(MountCase):
    def test_control_files_are_0644_and_belong_to_uid_and_gid(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        mount = self.mount(data_set.shards, "world=2,uid=1234,gid=2345")
        for name in ("epoch", "rank-0.epoch", "rank-1.epoch", "rank-3-of-4.epoch"):
            found = os.stat(mount.path(".control", name))
            self.assertTrue(stat.S_ISREG(found.st_mode))
            self.assertEqual((stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid), (0o644, 1234, 2345))

    def test_control_files_belong_to_the_mounting_user_by_default(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        mount = self.mount(data_set.shards)
        found = os.stat(mount.path(".control", "epoch"))
        self.assertEqual((found.st_uid, found.st_gid), (os.getuid(), os.getgid()))

    @harness.needs_nobody
    def test_only_the_owner_writes_when_others_are_allowed_in(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        for options, code in (("allow_other", 1), ("allow_other,uid=%d" % harness.NOBODY, 0)):
            mount = self.mount(data_set.shards, options)
            result = harness.run(harness.AS_NOBODY + ["sh", "-c", 'cat "$1" && echo 3 > "$1"', "sh",
                                                      mount.path(".control", "epoch")])
            self.assertEqual(result.stdout, "0\n")
            self.assertEqual(bool(result.returncode), bool(code), result.stderr)
            self.assertEqual(mount.read(".control", "epoch"), b"0\n" if code else b"3\n")
            mount.unmount()


class Copying(MountCase):
    def test_cp_takes_control_files(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        mount = self.mount(data_set.shards)
        for name in ("status", "fingerprint", "epoch", "rank-0.epoch"):
            result = harness.run(["cp", mount.path(".control", name), self.tmp / name])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        json.loads((self.tmp / "status").read_text())


class Status(MountCase):
    KEYS = {"version", "fingerprint", "samples", "members", "shards", "epoch", "world", "seed", "order", "remainder",
            "padding", "left_out", "reads", "bytes", "errors", "refused_writes"}

    def test_status_tells_the_facts(self):
        data_set = tars.make_dataset(self.tmp / "shards", 41, shards=3, cls=lambda i: b"1")
        mount = self.mount(data_set.shards, "world=4,seed=9,epoch=2")
        status = mount.status()
        self.assertLessEqual(self.KEYS, set(status))
        facts = {"samples": 41, "members": 82, "shards": 3, "epoch": 2, "world": 4, "seed": 9, "order": "torch",
                 "remainder": "pad", "padding": 3, "errors": {}, "refused_writes": 0}
        self.assertEqual({key: status[key] for key in facts}, facts)
        self.assertFalse(any(status["left_out"].values()))
        self.assertEqual(status["fingerprint"], mount.read(".control", "fingerprint").decode().strip())
        version = harness.run([harness.binary(), "-V"])
        self.assertIn(status["version"], version.stdout)
        mount.set_epoch(6)
        self.assertEqual(mount.status()["epoch"], 6)

    def test_reads_are_counted(self):
        data_set = tars.make_dataset(self.tmp / "shards", 50, size=lambda i: 5000)
        mount = self.mount(data_set.shards, "readahead=0")
        for name in mount.list("current", "rank-0"):
            mount.read("current", "rank-0", name)
        status = mount.status()
        self.assertGreaterEqual(status["bytes"], 50 * 5000)
        self.assertGreater(status["reads"], 0)
        self.assertEqual(status["pushed"], 0)

    def test_every_byte_from_storage_is_counted_once_read_or_pushed(self):
        data_set = tars.make_dataset(self.tmp / "shards", 400, size=lambda i: 5000)
        mount = self.mount(data_set.shards)
        names = [name for name in mount.list("current", "rank-0") if name.endswith("jpg")]
        for name in names:
            mount.read("current", "rank-0", name)
        status = mount.status()
        self.assertGreaterEqual(status["bytes"] + status["pushed"], 400 * 5000)
        # A file may be read by the reader and the read-ahead at once, where they meet; not all of them.
        self.assertLess(status["bytes"] + status["pushed"], 2 * 400 * 5000)
        self.assertEqual(status["failed_ahead"], 0)

    def check_eight_readers(self, seconds):
        data_set = tars.make_dataset(self.tmp / "shards", 300)
        mount = self.mount(data_set.shards, "world=4")
        over = processes.FORK.Event()

        def poll():
            count = 0
            while not over.is_set():
                with open(mount.path(".control", "status"), "rb", buffering=0) as file:
                    # In pieces: one open must give one text, whatever happens between the reads.
                    text = file.read(1 + count % 200)
                    size = os.fstat(file.fileno()).st_size
                    while True:
                        piece = file.read(64 + count % 5000)
                        if not piece:
                            break
                        text += piece
                status = json.loads(text)
                assert Status.KEYS <= set(status), text
                assert size in (0, len(text)), "st_size %d of %d bytes" % (size, len(text))
                count += 1
            return count

        with processes.Children() as children:
            for _ in range(8):
                children.start(poll)
            end, epoch = time.monotonic() + seconds, 0
            while time.monotonic() < end and not any(processes.has_ended(pid) for pid, _ in children.running):
                # What the status tells changes length all the while.
                epoch = epoch * 10 + 1 if epoch < 10 ** 15 else 1
                mount.set_epoch(epoch)
                for name in mount.list("current", "rank-%d" % (epoch % 4))[:20]:
                    mount.read("current", "rank-%d" % (epoch % 4), name)
            over.set()
            self.assertTrue(all(count > 5 for count in children.results()))

    def test_status_read_by_eight_processes_always_parses(self):
        self.check_eight_readers(4)

    @harness.slow
    @harness.limit(240)
    def test_status_read_by_eight_processes_for_a_minute_always_parses(self):
        self.check_eight_readers(60)


class Fingerprint(MountCase):
    def print_of(self, shards, options=""):
        mount = self.mount(shards, options)
        text = mount.read(".control", "fingerprint").decode()
        self.assertRegex(text, r"\A[0-9a-f]{16}-[0-9a-f]{16}\n\Z")
        mount.unmount()
        return text.strip().split("-")

    def test_a_copy_elsewhere_with_other_times_agrees(self):
        data_set = tars.make_dataset(self.tmp / "a", 30)
        os.mkdir(self.tmp / "b")
        copies = [shutil.copyfile(shard, self.tmp / "b" / os.path.basename(shard)) for shard in data_set.shards]
        for copy in copies:
            os.utime(copy, (1, 1_500_000_000))
        first = self.mount(data_set.shards)
        second = self.mount([self.tmp / "b"], "uid=77,gid=88")
        self.assertEqual(first.read(".control", "fingerprint"), second.read(".control", "fingerprint"))

    def test_world_and_epoch_do_not_count(self):
        data_set = tars.make_dataset(self.tmp / "a", 30)
        first = self.print_of(data_set.shards, "seed=4")
        self.assertEqual(self.print_of(data_set.shards, "seed=4,world=8,epoch=11"), first)
        mount = self.mount(data_set.shards, "seed=4")
        mount.set_epoch(3)
        self.assertEqual(mount.read(".control", "fingerprint").decode().strip().split("-"), first)

    def test_every_choice_that_changes_the_order_changes_order_only(self):
        data_set = tars.make_dataset(self.tmp / "a", 30, fields=("jpg", "json"))
        options = ("", "seed=1", "order=sequential", "remainder=drop", "remainder=keep", "fields=jpg")
        prints = [self.print_of(data_set.shards, option) for option in options]
        self.assertEqual(len({data for data, _ in prints}), 1)
        self.assertEqual(len({order for _, order in prints}), len(options), prints)

    def test_every_change_of_the_shards_changes_data_only(self):
        members = [(b"s%d.jpg" % i, b"d" * (i + 1)) for i in range(9)]

        def variant(name, first, second, shard_names=("x.tar", "y.tar"), turned=False):
            folder = self.tmp / name
            folder.mkdir()
            shards = [tars.write_shard(folder / shard_names[0], first), tars.write_shard(folder / shard_names[1], second)]
            return self.print_of(shards[::-1] if turned else shards)
        half, rest = members[:4], members[4:]
        prints = [variant("same", half, rest), variant("renamed", [(b"t0.jpg", b"d")] + half[1:], rest),
                  variant("longer", half, rest[:-1] + [(b"s8.jpg", b"d" * 10)]), variant("missing", half, rest[:-1]),
                  variant("moved", half[::-1], rest), variant("shard", half, rest, ("x.tar", "z.tar")),
                  variant("turned", half, rest, turned=True)]
        self.assertEqual(len({data for data, _ in prints}), len(prints), prints)
        self.assertEqual(len({order for _, order in prints}), 1)
        self.assertTrue(re.fullmatch("[0-9a-f]{16}", prints[0][0]))
