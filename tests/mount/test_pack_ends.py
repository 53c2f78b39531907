"""shufflefs-pack is killed, interrupted, out of room, or robbed of its source: no half shard is left, and it goes on."""
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import time

import harness
import tars
from harness import limit, needs_root, read, run, slow
from packing import PackCase, digest, tree


class Ends(PackCase):
    """Kills, signals, faults of storage and of the source."""
    WORDS = ("--shuffle", "5", "--label", "dir", "--shard-size", "300K", "-j", "2")

    def start(self, *words):
        with open(self.tmp / "stderr", "ab") as stderr:
            return subprocess.Popen([str(w) for w in self.packing(*self.WORDS, *words)], stdout=subprocess.DEVNULL,
                                    stderr=stderr)

    def undisturbed(self):
        began = time.monotonic()
        self.pack(*self.WORDS)
        seconds, want = time.monotonic() - began, digest(self.shards())
        self.assertGreater(len(want), 5)
        self.empty()
        return seconds, want

    def expect_whole_shards(self, want):
        """What has a final name is what an undisturbed run gives it."""
        for path in self.shards():
            self.assertIn((path.name, hashlib.sha256(read(path)).hexdigest()), want)

    def kill_and_resume(self, kills):
        tree(self.source, classes=4, each=150)
        seconds, want = self.undisturbed()
        dice = random.Random(os.getpid())
        done = resumed = 0
        while done < kills:
            process = self.start()
            time.sleep(dice.uniform(0, seconds * 1.1))
            process.kill()
            done += process.wait() == -signal.SIGKILL
            self.expect_whole_shards(want)
            if dice.random() < 0.4:  # others are killed again where they go on
                resumed += self.pack(*self.WORDS)["taken_up"] if self.unfinished() else 0
                self.assertEqual(digest(self.shards()), want)
                self.expect_clean()
                self.empty()
            elif not self.unfinished():
                self.empty()
        if self.unfinished():
            resumed += self.pack(*self.WORDS)["taken_up"]
            self.assertEqual(digest(self.shards()), want)
            self.expect_clean()
        self.assertGreater(resumed, 0, "no run had anything to take up")
        self.assertNotRegex((self.tmp / "stderr").read_text(), harness.SANITIZER)

    def unfinished(self):
        return (self.out / ".t-%06d.tar.packing").exists() or not self.shards()

    def test_a_run_that_was_killed_is_taken_up_with_the_same_bytes(self):
        self.kill_and_resume(24)

    @slow
    @limit(900)
    def test_two_hundred_kills_leave_no_trace(self):
        self.kill_and_resume(200)

    def interrupted(self):
        """A run that was stopped by SIGTERM with some shards finished."""
        process = self.begin(*self.WORDS, source=self.slow_source(3))
        harness.wait_until(lambda: len(self.shards()) >= 2, "two shards")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1].decode()
        self.assertEqual((process.returncode, said), (-signal.SIGTERM, ""))

    def test_a_signal_leaves_whole_shards_and_no_temporary_file(self):
        tree(self.source, classes=4, each=200)
        _, want = self.undisturbed()
        self.interrupted()
        left = sorted(path.name for path in self.out.iterdir() if not path.name.startswith("t-"))
        self.assertEqual(left, [".t-%06d.tar.packing"])
        self.expect_whole_shards(want)
        finished = len(self.shards())
        self.assertEqual(self.pack(*self.WORDS)["taken_up"], finished)
        self.assertEqual(digest(self.shards()), want)
        self.expect_clean()

    def test_a_signal_before_the_first_shard_leaves_nothing(self):
        tree(self.source, classes=1, each=200)
        process = self.begin("-j", "1", source=self.slow_source(50))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
        self.assertEqual((process.returncode, said), (-signal.SIGINT, ""))
        self.assertEqual(os.listdir(self.out), [])

    def test_other_options_or_another_source_take_nothing_up(self):
        tree(self.source, classes=4, each=200)
        self.interrupted()
        before = digest(self.shards())
        said = self.pack(*self.WORDS, "--quality", "91", code=1)["said"]
        self.assertIn("--force overwrites", said)
        tars.write_file(self.source / "c0/img0000.jpg", tars.content(0, "jpg", tars.small_size(0)), tars.MTIME + 999)
        self.assertIn("--force overwrites", self.pack(*self.WORDS, code=1)["said"])
        self.assertEqual(digest(self.shards()), before)
        self.assertTrue((self.out / ".t-%06d.tar.packing").exists(), "the first run's state is not this one's to remove")
        self.assertEqual(self.pack(*self.WORDS, "--force")["taken_up"], 0)
        self.expect_clean()

    def test_a_finished_shard_that_was_changed_is_not_taken_up(self):
        tree(self.source, classes=4, each=200)
        self.interrupted()
        first = self.shards()[0]
        tars.write_file(first, read(first)[:-1] + b"x")
        self.assertIn(first.name, self.pack(*self.WORDS, code=1)["said"])

    @needs_root
    def test_a_full_disk_leaves_whole_shards_only_and_room_lets_it_go_on(self):
        tree(self.source, classes=2, each=300)
        _, want = self.undisturbed()
        self.out = pathlib.Path(self.mountpoint("mnt"))
        size = 900
        if not harness.private_mounts() or run(["mount", "-t", "tmpfs", "-o", "size=%dk" % size, "tmpfs",
                                                self.out]).returncode:
            self.skipTest("cannot mount a tmpfs")
        self.addCleanup(run, ["umount", "-l", self.out])
        said = self.pack(*self.WORDS, code=1)["said"]
        self.assertRegex(said, r"\.t-00000\d\.tar\.part: offset \d+: No space left on device")
        self.assertEqual(len(said.splitlines()), 1)
        self.expect_whole_shards(want)
        self.assertEqual(list(self.out.glob(".t-*.part")), [])
        finished = len(self.shards())
        self.assertGreater(finished, 0)
        self.assertEqual(run(["mount", "-o", "remount,size=64m", self.out]).returncode, 0)
        self.assertEqual(self.pack(*self.WORDS)["taken_up"], finished)
        self.assertEqual(digest(self.shards()), want)

    def changed_while_packed(self, change):
        """Calls `change` after the listing, which waits for a label file that is a pipe."""
        os.mkfifo(self.tmp / "labels")
        process = subprocess.Popen([str(w) for w in self.packing("--label", self.tmp / "labels")], stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL)
        with open(self.tmp / "labels", "w") as pipe:
            change()
            pipe.write("".join("c0/img%04d 1\n" % i for i in range(20)))
        said = process.communicate(timeout=60)[1].decode()
        os.unlink(self.tmp / "labels")
        self.assertEqual(process.returncode, 1, said)
        self.assertNotRegex(said, harness.SANITIZER)
        self.assertEqual(os.listdir(self.out), [])
        return said

    def test_a_source_that_changes_or_goes_is_named_with_the_offset(self):
        tree(self.source, classes=1, each=20)
        victim = self.source / "c0/img0007.jpg"
        data = read(victim)
        said = self.changed_while_packed(lambda: tars.write_file(victim, data[:100], tars.MTIME + 7.25))
        self.assertIn("img0007.jpg: offset 100: the file ends here, which had %d bytes" % len(data), said)
        tars.write_file(victim, data)
        said = self.changed_while_packed(lambda: tars.write_file(victim, data + b"more"))
        self.assertIn("img0007.jpg: offset %d: the file was changed" % len(data), said)
        tars.write_file(victim, data)
        said = self.changed_while_packed(lambda: tars.write_file(victim, data, tars.MTIME + 1))
        self.assertIn("img0007.jpg: offset %d: the file was changed" % len(data), said)
        said = self.changed_while_packed(victim.unlink)
        self.assertIn("img0007.jpg: No such file or directory", said)

    def test_progress_is_drawn_on_a_terminal_alone_and_taken_away(self):
        tree(self.source, classes=4, each=200)
        code, drawn = harness.on_terminal(self.packing(*self.WORDS))
        self.assertEqual(code, 0)
        if drawn:
            self.assertRegex(drawn, rb"\rpacking +\d+ %  [\d,]+ of 800  [\d,]+/s")
            self.assertTrue(drawn.endswith(b"\r\x1b[K"), drawn[-80:])
        self.empty()
        self.assertEqual(self.pack(*self.WORDS)["said"], "")


class Storage(PackCase):
    """Sources that fail, by a file system in between."""

    def test_an_error_of_the_source_is_named_with_the_offset(self):
        tars.make_dataset(self.tmp / "old", 20, shards=2)
        storage = self.storage(self.tmp / "old")
        shards = [storage.path("train-%06d.tar" % i) for i in range(2)]
        os.mkfifo(self.tmp / "labels")
        process = subprocess.Popen([str(w) for w in self.packing("--label", self.tmp / "labels", source=shards)],
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        with open(self.tmp / "labels", "w") as pipe, storage.failing("train-000001.tar"):
            storage.forget()
            pipe.write("".join("s%07d 1\n" % i for i in range(20)))
            pipe.close()
            said = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said, r"train-000001\.tar: offset \d+")
        self.assertEqual(os.listdir(self.out), [])
