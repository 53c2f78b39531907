"""Shards that change, go and come back under the mount, and storage that fails: every byte that a read gives is one that
was indexed, or the read gives EIO; other shards go on; what is restored works again."""
import contextlib
import errno
import os
import random
import shutil
import threading
import time

import harness
import slow
import tars
import torch_order
from harness import MountCase

FOLDER = ("epoch-0", "rank-0")


def name(position):
    return "%08d.jpg" % position


def big_size(sample):
    """Some of several READs: later parts come without their header."""
    return 400_000 + sample if sample % 7 == 0 else 3000 + sample * 997 % 60_000


def drop(handle):
    """Takes a file of the mount out of the page cache."""
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


class Fire(MountCase):
    """Readers and a writer at the same shards."""
    SHARDS, UNTOUCHED = 5, 2

    def prepare(self, n, options="", sizes=big_size):
        self.n = n
        self.data_set = tars.make_dataset(self.tmp / "shards", n, shards=self.SHARDS, size=sizes)
        # The same layout under other names: every header is another one, and so are all bytes.
        tars.make_dataset(self.tmp / "other", n, shards=self.SHARDS, size=sizes, key=lambda i: b"o%07d" % i)
        self.other = [str(self.tmp / "other" / os.path.basename(path)) for path in self.data_set.shards]
        self.touched = self.data_set.shards[self.UNTOUCHED:]
        os.mkdir(self.tmp / "good")
        self.good = {path: shutil.copy2(path, self.tmp / "good") for path in self.touched}
        made = self.mount(self.data_set.shards, options)
        self.order = torch_order.rank_order(n, 1, 0)
        made.list(*FOLDER)
        return made

    # What a writer does. Each leaves the shard changed; restore() makes it what it was.

    def truncate(self, path, chance):
        os.truncate(path, chance.randrange(os.path.getsize(self.good[path])))

    def overwrite(self, path, chance, keep_time=False):
        with open(path, "r+b") as out, open(self.other[self.data_set.shards.index(path)], "rb") as source:
            while piece := source.read(chance.choice((4096, 65536, 1 << 20))):
                out.write(piece)
                out.flush()
                if keep_time:
                    os.utime(out.fileno(), (tars.MTIME, tars.MTIME))

    def overwrite_and_set_time_back(self, path, chance):
        self.overwrite(path, chance, keep_time=True)

    def replace(self, path, _):
        shutil.copy(self.other[self.data_set.shards.index(path)], path + ".new")
        os.rename(path + ".new", path)

    def replace_with_its_time(self, path, _):
        shutil.copy(self.other[self.data_set.shards.index(path)], path + ".new")
        os.utime(path + ".new", (tars.MTIME, tars.MTIME))
        os.rename(path + ".new", path)

    def remove(self, path, _):
        os.unlink(path)

    def restore(self, path, chance):
        if os.path.exists(path) and chance.random() < 0.5:  # in place
            with open(path, "r+b") as out:
                out.write(harness.read(self.good[path]))
                out.truncate()
            shutil.copystat(self.good[path], path)
        else:
            shutil.copy2(self.good[path], path + ".new")
            os.rename(path + ".new", path)

    # Readers. Each notes (what, sample) of what is wrong, and counts what was right and what gave EIO.

    def note(self, sample, right):
        shard = self.data_set.samples[sample].shard
        with self.lock:
            if right is None:
                self.counts["eio"] += 1
                if shard not in self.touched:
                    self.wrong.append(("EIO of an untouched shard", sample))
            else:
                self.counts["right"] += right
                if not right:
                    self.wrong.append(("wrong bytes", sample))

    def read_whole(self, mount, position):
        sample = self.order[position]
        data = self.data_set.data(sample, "jpg")
        try:
            handle = os.open(mount.path(*FOLDER, name(position)), os.O_RDONLY)
        except OSError as error:
            self.assertEqual(error.errno, errno.EIO)
            self.note(sample, None)
            return
        try:
            got = os.read(handle, len(data) + 1)
            while 0 < len(got) < len(data) and (more := os.read(handle, len(data))):
                got += more
            self.note(sample, got == data)
        except OSError as error:
            self.assertEqual(error.errno, errno.EIO)
            self.note(sample, None)
        finally:
            drop(handle)
            os.close(handle)

    def read_piece(self, mount, position, chance):
        """From somewhere in it, so that the first bytes and the header are not asked for."""
        sample = self.order[position]
        data = self.data_set.data(sample, "jpg")
        at = chance.randrange(len(data))
        handle = os.open(mount.path(*FOLDER, name(position)), os.O_RDONLY)
        try:
            got = os.pread(handle, 65536, at)
            self.note(sample, got == data[at:at + len(got)] and (len(got) > 0))
        except OSError as error:
            self.assertEqual(error.errno, errno.EIO)
            self.note(sample, None)
        finally:
            drop(handle)
            os.close(handle)

    def read_stream(self, mount, reference, chance):
        at = chance.randrange(len(reference))
        handle = os.open(mount.path("epoch-0", "rank-0.tar"), os.O_RDONLY)
        try:
            got = os.pread(handle, 65536, at)
            with self.lock:
                self.counts["stream"] += 1
                if got != reference[at:at + len(got)] or not got:
                    self.wrong.append(("wrong bytes of the stream", at))
        except OSError as error:
            self.assertEqual(error.errno, errno.EIO)
        finally:
            drop(handle)
            os.close(handle)

    def burn(self, seconds, options=""):
        mount = self.prepare(300, options)
        reference = mount.read("epoch-0", "rank-0.tar")
        self.lock, self.wrong, faults = threading.Lock(), [], []
        self.counts = {"right": 0, "eio": 0, "stream": 0}
        ended = threading.Event()

        def reader(number):
            chance = random.Random(number)
            position = chance.randrange(self.n)
            try:
                while not ended.is_set():
                    if number == 0:  # in order: read ahead of
                        position = (position + 1) % self.n
                        self.read_whole(mount, position)
                    elif number == 1:
                        self.read_whole(mount, chance.randrange(self.n))
                    elif number == 2:
                        self.read_piece(mount, chance.randrange(self.n), chance)
                    else:
                        self.read_stream(mount, reference, chance)
            except Exception as error:  # pylint: disable=broad-except
                faults.append(error)

        readers = [threading.Thread(target=reader, args=(number,)) for number in range(4)]
        for thread in readers:
            thread.start()
        chance = random.Random(7)
        deeds = [self.truncate, self.overwrite, self.overwrite_and_set_time_back, self.replace, self.replace_with_its_time,
                 self.remove]
        end, done = time.monotonic() + seconds, 0
        try:
            while time.monotonic() < end and not self.wrong and not faults:
                path = chance.choice(self.touched)
                deed = deeds[done % len(deeds)]
                failed = self.counts["eio"]
                deed(path, chance)
                seen = time.monotonic() + 0.06  # a file that is held open fails nobody
                while self.counts["eio"] == failed and time.monotonic() < seen:
                    time.sleep(chance.uniform(0, 0.02))
                self.restore(path, chance)
                time.sleep(chance.uniform(0, 0.02))
                done += 1
        finally:
            ended.set()
            for thread in readers:
                thread.join(harness.PATIENCE)
        self.assertEqual((self.wrong[:5], faults), ([], []))
        self.assertGreater(done, len(deeds))
        for kind, count in self.counts.items():
            self.assertGreater(count, 0 if kind == "eio" else 20, (kind, self.counts))
        # Everything was restored: everything works again.
        before = dict(self.counts)
        for position in range(self.n):
            self.read_whole(mount, position)
        self.assertEqual((self.wrong, self.counts["eio"]), ([], before["eio"]))
        self.assertEqual(mount.read("epoch-0", "rank-0.tar"), reference)
        errors = mount.status()["errors"]
        self.assertLessEqual(set(errors), set(self.touched))
        self.assertGreater(sum(errors.values()), 0)
        said = mount.stderr()
        self.assertNotIn(self.data_set.shards[0], said)
        for path in errors:
            self.assertIn(path, said)
        # A line a shard now and then, and not one for each read.
        self.assertLess(said.count("answer EIO"), len(self.touched) * (2 + seconds / 5), said)

    def test_changes_under_readers_give_right_bytes_or_eio(self):
        self.burn(2.5)

    def test_changes_under_readers_that_nothing_is_read_ahead_of_give_right_bytes_or_eio(self):
        self.burn(2, "readahead=0")

    @harness.slow
    @harness.limit(400)
    def test_a_minute_of_changes_under_readers(self):
        self.burn(60)

    @harness.slow
    @harness.limit(400)
    def test_a_minute_of_changes_under_readers_around_the_page_cache(self):
        self.burn(60, "direct=always")


class Comes(MountCase):
    """What happens to a shard, one thing at a time."""

    def prepare(self, options="readahead=0"):
        self.data_set = tars.make_dataset(self.tmp / "shards", 40, size=lambda i: 300_000)
        self.path = self.data_set.shards[1]
        made = self.mount(self.data_set.shards, "order=sequential," + options)
        return made

    def right(self, mount, position):
        self.assertEqual(mount.read(*FOLDER, name(position)), self.data_set.data(position, "jpg"))

    def test_a_later_part_is_not_read_of_a_shard_that_was_rewritten_under_its_old_time(self):
        mount = self.prepare()
        members = [(b"z%07d.jpg" % i, tars.content(i + 100, "jpg", 300_000)) for i in range(20)]
        with open(mount.path(*FOLDER, name(25)), "rb", buffering=0) as file:
            self.assertEqual(file.read(4096), self.data_set.data(25, "jpg")[:4096])
            tars.write_shard(self.path, members)
            drop(file.fileno())
            self.assert_errno(errno.EIO, os.pread, file.fileno(), 4096, 290_000)
        self.right(mount, 5)

    def test_what_was_rewritten_under_its_old_time_before_a_mount_is_walked_anew(self):
        self.prepare().unmount()
        data = tars.content(99, "jpg", 300_000)
        at = self.data_set.samples[21].offsets["jpg"] - tars.BLOCK
        with open(self.path, "r+b") as out:
            out.seek(at)
            out.write(tars.member(b"z0000021.jpg", data))
        os.utime(self.path, (tars.MTIME, tars.MTIME))
        mount = self.mount(self.data_set.shards, "order=sequential,readahead=0")
        self.assertEqual(mount.status()["shards_walked"], 1)
        self.assertEqual(mount.read(*FOLDER, name(21)), data)
        self.right(mount, 22)

    def test_a_new_name_or_mode_is_no_change(self):
        mount = self.prepare()
        self.right(mount, 25)
        os.chmod(self.path, 0o600)
        os.link(self.path, self.path + ".linked")
        os.rename(self.path + ".linked", self.path)
        for position in range(20, 40):
            self.right(mount, position)
        self.assertEqual((mount.status()["errors"], mount.stderr()), ({}, ""))

    def test_a_restored_file_of_another_inode_is_the_shard_again(self):
        mount = self.prepare()
        self.right(mount, 25)
        shutil.copy2(self.path, self.tmp / "good")
        os.truncate(self.path, 1000)
        self.assert_errno(errno.EIO, mount.read, *FOLDER, name(30))
        os.rename(self.tmp / "good", self.path)
        for position in range(20, 40):
            self.right(mount, position)

    def test_a_restored_file_is_taken_though_the_old_one_is_held_by_others(self):
        """Readers that take turns with a faulty descriptor do not keep it alive."""
        mount = self.prepare()
        self.right(mount, 25)
        shutil.copy2(self.path, self.tmp / "good")
        os.truncate(self.path, 1000)
        ended = threading.Event()

        def insist(position):
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    mount.read(*FOLDER, name(position))

        threads = [threading.Thread(target=insist, args=(position,)) for position in range(30, 36)]
        for thread in threads:
            thread.start()
        try:
            os.rename(self.tmp / "good", self.path)

            def works():
                with contextlib.suppress(OSError):
                    self.right(mount, 38)
                    return True
            harness.wait_until(works, "the restored shard is read", 10)
        finally:
            ended.set()
            for thread in threads:
                thread.join(harness.PATIENCE)

    def test_samples_never_come_from_two_files(self):
        """The old file answers as long as it is open; another one of another time never does, around the cache either."""
        for options in ("readahead=0", "direct=always", ""):
            with self.subTest(options):
                mount = self.prepare(options)
                self.right(mount, 25)
                members = [(b"s%07d.jpg" % i, tars.content(i + 100, "jpg", 300_000)) for i in range(20, 40)]
                tars.write_shard(self.path + ".new", members)
                os.utime(self.path + ".new")
                os.rename(self.path + ".new", self.path)
                for position in range(20, 40):
                    self.right(mount, position)
                self.assertEqual(mount.status()["errors"], {})
                mount.unmount()


class Storage(slow.SlowCase):
    """Faults of the storage itself, at chosen places."""

    def prepare(self, options="", mount_options="order=sequential", n=40):
        self.data_set = tars.make_dataset(self.tmp / "shards", n, size=lambda i: 20_000, fields=("jpg",),
                                          cls=lambda i: b"%d" % (i % 3))
        self.slow = self.storage(self.tmp / "shards", options)
        self.shards = self.slow.shards(self.data_set)
        self.options = mount_options
        return self.shards

    def last_members(self):
        """Where the data of shard 1's last picture starts."""
        return self.data_set.samples[-1].offsets["jpg"]

    def right(self, mount, position):
        self.assertEqual(mount.read(*FOLDER, name(position)), self.data_set.data(position, "jpg"))

    def test_an_error_while_indexing_refuses_the_mount_by_name_and_offset(self):
        for options in ("", "direct_io"):
            shards = self.prepare(options)
            base = os.path.basename(shards[1])
            header = self.last_members() - 512
            self.slow.forget()
            with self.slow.failing("%s eio %d %d" % (base, header, header + 1)):
                said = self.refused(self.command(shards, self.mountpoint(), self.options), 1, shards[1],
                                    "Input/output error")
                self.assertRegex(said, r"offset \d+")
            self.slow.forget()
            self.mount(shards, self.options).unmount()
            self.slow.finish()

    def test_an_error_in_a_label_refuses_the_mount(self):
        shards = self.prepare()
        at = self.data_set.samples[-1].offsets["cls"]
        self.slow.forget()
        with self.slow.failing("%s eio %d %d" % (os.path.basename(shards[1]), at, at + 1)):
            self.refused(self.command(shards, self.mountpoint(), self.options), 1, shards[1], "Input/output error")

    def test_an_error_in_a_member_is_that_member_s_alone(self):
        for options in ("", "direct_io"):
            shards = self.prepare(options)
            mount = self.mount(shards, self.options)
            self.slow.forget()
            at = self.last_members() + 9000
            with self.slow.failing("%s eio %d %d" % (os.path.basename(shards[1]), at, at + 1)):
                for position in range(39):
                    self.right(mount, position)
                self.assert_errno(errno.EIO, mount.read, *FOLDER, name(39))
                self.assertEqual(list(mount.status()["errors"]), [shards[1]])
                self.assertEqual(len(mount.stderr().splitlines()), 1)
                self.assertIn(shards[1], mount.stderr())
            self.right(mount, 39)
            mount.unmount()
            self.slow.finish()

    def test_a_shard_that_ends_early_while_indexing_refuses_the_mount(self):
        shards = self.prepare("direct_io")
        with self.slow.failing("%s short %d" % (os.path.basename(shards[1]), self.last_members() + 100)):
            self.refused(self.command(shards, self.mountpoint(), self.options), 1, shards[1], "Input/output error")
        # What the kernel believes of the file's size is asked again within a second.
        size = os.stat(os.path.join(self.slow.source, os.path.basename(shards[1]))).st_size
        harness.wait_until(lambda: os.stat(shards[1]).st_size == size, "the shard's size is seen again")
        self.mount(shards, self.options + ",strict")

    def test_short_answers_are_read_on_and_an_early_end_is_eio(self):
        for options in ("", "direct_io"):
            shards = self.prepare(options)
            mount = self.mount(shards, self.options)
            self.slow.forget()
            cut = self.last_members() + 100
            with self.slow.failing("%s short %d" % (os.path.basename(shards[1]), cut)):
                for position in range(20):
                    self.right(mount, position)
                self.assert_errno(errno.EIO, mount.read, *FOLDER, name(39))
                self.assertEqual(list(mount.status()["errors"]), [shards[1]])
            # What the kernel believes of the file's size is asked again within a second.
            def works():
                with contextlib.suppress(OSError):
                    self.right(mount, 39)
                    return True
            harness.wait_until(works, "the shard is read again")
            for position in range(40):
                self.right(mount, position)
            mount.unmount()
            self.slow.finish()

    def change_within_a_read(self, change):
        """Reads a member in several parts; change(path of the shard) happens between two of them."""
        self.data_set = tars.make_dataset(self.tmp / "shards", 4, size=lambda i: 100_000)
        self.slow = self.storage(self.tmp / "shards", "delay_ms=25,direct_io,most_read=16384,attr_timeout=0")
        shards = self.slow.shards(self.data_set)
        mount = self.mount(shards, "order=sequential,readahead=0")
        before, outcome = self.slow.state()["reads"], []

        def read():
            try:
                outcome.append(mount.read(*FOLDER, name(2)))
            except OSError as error:
                outcome.append(error.errno)
        reader = threading.Thread(target=read)
        reader.start()
        harness.wait_until(lambda: self.slow.state()["reads"] >= before + 3, "some parts are read")
        self.assertEqual(outcome, [], "it was all read before")
        change(self.data_set.shards[1])
        reader.join(harness.PATIENCE)
        self.assertEqual(outcome, [errno.EIO])
        self.assertEqual(list(mount.status()["errors"]), [shards[1]])
        self.right(mount, 1)

    def test_a_write_between_two_parts_of_one_read_is_seen(self):
        def write_bytes_alone(path):
            with open(path, "r+b") as out:
                out.seek(512)
                out.write(b"!" * 99_000)
        self.change_within_a_read(write_bytes_alone)

    def test_a_rewrite_between_two_parts_of_one_read_is_seen_though_the_time_is_set_back(self):
        def rewrite(path):
            with open(path, "r+b") as out:
                out.write(tars.member(b"z.jpg", b"!" * 100_000))
            os.utime(path, (tars.MTIME, tars.MTIME))
        self.change_within_a_read(rewrite)

    def test_a_stale_file_is_opened_anew(self):
        shards = self.prepare("attr_timeout=0,entry_timeout=0")
        mount = self.mount(shards, self.options + ",readahead=0")
        self.right(mount, 20)
        self.slow.forget()
        with self.slow.failing(os.path.basename(shards[1]) + " stale"):
            self.assert_errno(errno.EIO, mount.read, *FOLDER, name(30))
            self.right(mount, 5)
            self.assertIn("tale", mount.stderr())
        self.right(mount, 30)
        self.assertEqual(list(mount.status()["errors"]), [shards[1]])
