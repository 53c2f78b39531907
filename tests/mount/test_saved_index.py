"""The saved index: shards are read once, by one of all mounts, and nothing that happens to its file is ever believed."""
import fcntl
import hashlib
import os
import random
import signal
import struct
import subprocess
import time

import harness
import slow
import tars
from harness import binary, needs_nobody, needs_root, run

TOUCH = 1_600_000_000


class Saved(slow.SlowCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 60, shards=4, cls=lambda i: b"%d" % (i % 7))
        self.place = str(self.tmp / "kept" / "set.index")
        os.mkdir(self.tmp / "kept")

    def open(self, options="", shards=None, **more):
        mount = self.mount(shards or self.data_set.shards, ",".join(filter(None, ["index=" + self.place, options])), **more)
        return mount, mount.status()

    def walked(self, **more):
        mount, status = self.open(**more)
        mount.unmount()
        return status["shards_walked"]

    def test_a_second_mount_reads_no_shard_and_shows_the_same(self):
        first, before = self.open("seed=3")
        listing = first.list("epoch-1", "rank-0.keys")
        first.unmount()
        second, after = self.open("seed=3")
        self.assertEqual((before["shards_walked"], after["shards_walked"]), (4, 0))
        self.assertEqual(after["index"], self.place)
        for key in ("fingerprint", "samples", "members", "member_bytes", "left_out", "bad_shards", "label", "classes"):
            self.assertEqual(before[key], after[key], key)
        self.assertEqual(second.list("epoch-1", "rank-0.keys"), listing)
        for name in second.list("epoch-1", "rank-0"):
            path = second.path("epoch-1", "rank-0", name)
            sample = int(os.getxattr(path, "user.shufflefs.sample"))
            self.assertEqual(second.read("epoch-1", "rank-0", name), self.data_set.data(sample, name.split(".")[1]))

    def test_fields_and_labels_are_chosen_after_it(self):
        self.walked()
        mount, status = self.open("fields=jpg")
        self.assertEqual((status["shards_walked"], status["members"]), (0, 60))
        self.assertEqual({name.split(".")[1] for name in mount.list("current", "rank-0")}, {"jpg"})
        mount.unmount()
        mount, status = self.open("label=none")
        self.assertEqual((status["shards_walked"], status["members"], status["classes"]), (0, 120, 0))

    def test_the_default_place_is_the_users_cache_folder(self):
        for environment, place in (({"XDG_CACHE_HOME": str(self.tmp / "x")}, self.tmp / "x"),
                                   ({"XDG_CACHE_HOME": "relative", "HOME": str(self.tmp / "h")}, self.tmp / "h" / ".cache"),
                                   ({"XDG_CACHE_HOME": "", "HOME": str(self.tmp / "g")}, self.tmp / "g" / ".cache")):
            command = [binary("shufflefs-order"), *self.data_set.shards]
            result = run(command, env=dict(os.environ, **environment))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            kept = os.listdir(place / "shufflefs" / "index")
            self.assertEqual(len(kept), 1)
            self.assertRegex(kept[0], r"^[0-9a-f]{16}-[0-9a-f]{16}-train-\.v\d+\.index$")

    def test_none_saves_nothing(self):
        mount = self.mount(self.data_set.shards, "index=none")
        self.assertIsNone(mount.status()["index"])
        self.assertEqual(os.listdir(os.environ["XDG_CACHE_HOME"]), [])

    def test_paths_do_not_matter_so_that_nodes_may_share_it(self):
        self.walked()
        os.rename(self.tmp / "shards", self.tmp / "elsewhere")
        moved = [shard.replace("/shards/", "/elsewhere/") for shard in self.data_set.shards]
        self.assertEqual(self.walked(shards=moved), 0)

    def test_an_odd_shards_problems_stay_known(self):
        tars.write_file(self.tmp / "shards" / "train-000004.tar", tars.member(b"._x.jpg", b"l") + tars.member(b"noext", b"n")
                        + tars.member(b"k.jpg", b"data"))
        shards = self.data_set.shards + [str(self.tmp / "shards" / "train-000004.tar")]
        first, before = self.open(shards=shards)
        first.unmount()
        second, after = self.open(shards=shards)
        self.assertEqual(after["shards_walked"], 0)
        self.assertEqual(before["left_out"], after["left_out"])
        self.assertIn("no-extension (member 'noext')", second.stderr())
        second.unmount()
        self.refused(self.command(shards, self.mountpoint(), "strict,index=" + self.place), 1, "strict", "litter",
                     lines=None)

    def test_of_mounts_that_start_together_one_reads_the_shards(self):
        storage = self.storage(self.tmp / "shards", "delay_ms=20,direct_io")
        points = [self.mountpoint() for _ in range(4)]
        mounts = []
        for point in points:
            stderr = open(point + ".stderr", "ab")
            self.addCleanup(stderr.close)
            process = subprocess.Popen(self.command(storage.shards(self.data_set), point, "index=" + self.place, ["-f"]),
                                       stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
            made = harness.Mount(point, process, stderr.name, False)
            self.addCleanup(made.destroy)
            mounts.append(made)
        for made in mounts:
            self.wait_answer(made)
            self.addCleanup(made.finish)
        statuses = [made.status() for made in mounts]
        self.assertEqual(sorted(status["shards_walked"] for status in statuses), [0, 0, 0, 4])
        self.assertEqual(len({status["fingerprint"] for status in statuses}), 1)
        for made in mounts:
            made.unmount()

    def lock(self):
        """Does what a mount does that writes, and no more. The lock is the open file's: it goes with the last
        descriptor."""
        handle = os.open(self.place + ".new", os.O_RDWR | os.O_CREAT, 0o644)
        ofd_setlk = 37
        fcntl.fcntl(handle, ofd_setlk, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        return handle

    def test_a_writer_that_ends_is_waited_for(self):
        handle = self.lock()
        with subprocess.Popen(["sleep", "1"], pass_fds=[handle]):
            os.close(handle)
            start = time.monotonic()
            mount, status = self.open()
        self.assertGreater(time.monotonic() - start, 0.5)
        self.assertEqual((status["shards_walked"], status["index"]), (4, self.place))
        mount.unmount()

    @harness.slow
    @harness.limit(120)
    def test_a_writer_that_hangs_is_not_waited_for_long(self):
        self.addCleanup(os.close, self.lock())
        mount, status = self.open()
        self.assertEqual((status["shards_walked"], status["index"]), (4, None))
        self.assertIn("did not get on for 30 s", mount.stderr())
        mount.unmount()

    def order_digest(self, *options):
        result = run([binary("shufflefs-order"), "-o", "index=" + self.place, "--keys", *options, *self.data_set.shards])
        self.assertEqual(result.returncode, 0, result.stderr)
        return hashlib.sha256(result.stdout.encode()).hexdigest(), result.stderr

    def kill_while_writing(self, rounds):
        self.data_set = tars.make_dataset(self.tmp / "many", 40000, shards=4, size=lambda i: 60)
        command = [binary("shufflefs-order"), "-o", "index=" + self.place, "--samples", "1", *self.data_set.shards]
        self.assertEqual(run(command).returncode, 0)
        os.utime(self.data_set.shards[0], (TOUCH - 1, TOUCH - 1))
        start = time.monotonic()
        self.assertEqual(run(command).returncode, 0)
        whole = time.monotonic() - start
        right, said = self.order_digest()
        self.assertEqual(said, "")
        chance = random.Random(5)
        killed = 0
        for turn in range(rounds):
            # One shard is another one each time, so that the index is written anew.
            os.utime(self.data_set.shards[turn % 4], (TOUCH + turn, TOUCH + turn))
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                try:
                    process.wait(chance.random() * whole * 0.8)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
            digest, said = self.order_digest()
            self.assertEqual((digest, said), (right, ""), "turn %d" % turn)
        self.assertGreater(killed, rounds // 4)
        self.assertEqual(os.listdir(os.path.dirname(self.place)), ["set.index"])

    def test_killed_writers_leave_the_old_one_or_the_new_one(self):
        self.kill_while_writing(20)

    @harness.slow
    @harness.limit(300)
    def test_two_hundred_killed_writers_leave_the_old_one_or_the_new_one(self):
        self.kill_while_writing(200)

    @needs_root
    def test_a_full_disk_is_said_and_harms_nothing(self):
        if not harness.private_mounts():
            self.skipTest("no mount namespaces")
        os.mkdir(self.tmp / "full")
        self.assertEqual(run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", self.tmp / "full"]).returncode, 0)
        self.addCleanup(run, ["umount", self.tmp / "full"])
        self.place = str(self.tmp / "full" / "set.index")
        mount, status = self.open()
        self.assertEqual((status["shards_walked"], status["index"]), (4, None))
        self.assertEqual(mount.stderr().count("No space left on device"), 1)
        self.assertEqual(os.listdir(self.tmp / "full"), [])
        mount.unmount()

    @needs_nobody
    def test_a_place_that_may_not_be_written_is_read_from(self):
        self.walked()
        os.chmod(self.tmp / "kept", 0o555)
        result = run(harness.AS_NOBODY + [binary("shufflefs-order"), "-o", "index=" + self.place, *self.data_set.shards])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        os.utime(self.data_set.shards[0], (TOUCH + 1, TOUCH + 1))
        result = run(harness.AS_NOBODY + [binary("shufflefs-order"), "-o", "index=" + self.place, *self.data_set.shards])
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("set.index: Permission denied; the index is not saved", result.stderr)

    def test_on_storage_that_is_not_local_it_is_read(self):
        self.walked()
        storage = self.storage(self.tmp / "kept")
        right = self.order_digest()
        self.place = storage.path("set.index")
        self.assertEqual(self.order_digest(), right)
        with storage.failing("set.index"):
            storage.forget()
            digest, said = self.order_digest()
            self.assertEqual(digest, right[0])
            self.assertIn("set.index: Input/output error", said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_a_terminal_sees_how_far_the_reading_is_and_nothing_else_does(self):
        storage = self.storage(self.tmp / "shards", "delay_ms=100,direct_io")
        command = [binary("shufflefs-order"), "-o", "index=none", *storage.shards(self.data_set)]
        code, said = harness.on_terminal(command)
        self.assertEqual(code, 0)
        self.assertIn(b"reading shards", said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)
        self.assertEqual(run(command).stderr, "")

    def test_it_is_made_read_only(self):
        self.walked()
        self.assertEqual(os.stat(self.place).st_mode & 0o777, 0o444)

    def test_what_is_written_to_its_file_is_nothing_to_a_mount(self):
        self.walked()
        mount, status = self.open()
        self.assertEqual(status["shards_walked"], 0)
        names = mount.list("epoch-0", "rank-0.keys")
        os.chmod(self.place, 0o644)
        size = os.path.getsize(self.place)
        with open(self.place, "r+b") as file:
            file.write(os.urandom(size))
        self.assertEqual(mount.list("epoch-0", "rank-0.keys"), names)
        os.truncate(self.place, 0)
        for name in mount.list("epoch-7", "rank-0"):
            sample = int(os.getxattr(mount.path("epoch-7", "rank-0", name), "user.shufflefs.sample"))
            self.assertEqual(mount.read("epoch-7", "rank-0", name), self.data_set.data(sample, name.split(".")[1]))
        mount.unmount()

    def test_readers_of_a_replaced_index_go_on(self):
        mount, _ = self.open()
        os.utime(self.data_set.shards[0], (TOUCH + 1, TOUCH + 1))
        other, status = self.open()
        self.assertEqual(status["shards_walked"], 1)
        names = mount.list("epoch-0", "rank-0.keys")
        self.assertEqual(names, other.list("epoch-0", "rank-0.keys"))
        for made in (mount, other):
            made.unmount()
