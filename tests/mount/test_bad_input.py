"""Whatever is wrong with what was asked: one clear line that names it, exit 1 or 2, and nothing left mounted."""
import os
import shutil

import harness
import tars
from harness import MountCase


def others_allowed():
    """May users without privilege mount with allow_other here?"""
    try:
        with open("/etc/fuse.conf", encoding="utf-8") as lines:
            return any(line.strip() == "user_allow_other" for line in lines)
    except OSError:
        return False


class Words(MountCase):
    """Nothing is mounted: what the command line alone decides."""

    def test_help_and_version(self):
        for word in ("-h", "--help"):
            result = harness.run([harness.binary(), word])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("usage", result.stdout.lower())
            for option in ("world", "seed", "epoch", "order", "remainder", "fields", "label", "MOUNTPOINT"):
                self.assertIn(option, result.stdout)
        for word in ("-V", "--version"):
            result = harness.run([harness.binary(), word])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertRegex(result.stdout, r"\Ashufflefs \S+\n")

    def test_no_arguments_is_a_usage_error(self):
        self.refused([harness.binary()], 2)

    def test_unknown_words_are_usage_errors(self):
        self.refused([harness.binary(), "--nothing"], 2, "nothing")
        for program in ("shufflefs", "shufflefs-check", "shufflefs-order", "shufflefs-pack", "shufflefs-top"):
            self.refused([harness.binary(program), "--nothing"], 2, program + ": --nothing: there is no such option")
        self.refused([harness.binary(), "-Z"], 2, "Z")
        self.refused([harness.binary(), "-o"], 2)


class Refused(MountCase):
    def setUp(self):
        super().setUp()
        self.good = tars.make_dataset(self.tmp / "good", 10, shards=1)
        self.shard = self.good.shards[0]

    def refuse(self, shards, code, *names, options="", where=None, **more):
        """Refused in the background and in the foreground alike."""
        where = where or self.mountpoint()
        self.refused(self.command(shards, where, options), code, *names, **more)
        return self.refused(self.command(shards, where, options, ["-f"]), code, *names, **more)

    def test_no_shards(self):
        self.refuse([], 2)

    def test_a_configuration_file_that_cannot_be_read_is_a_usage_error(self):
        for file in (self.tmp / "none.conf", self.tmp):
            for before in ([harness.binary()], [harness.binary("shufflefs-check")]):
                self.refused([*before, "-c", str(file), self.shard, self.mountpoint()], 2, file)

    def test_what_the_mount_would_hide(self):
        where = self.mountpoint()
        (self.tmp / "link").symlink_to(where)
        for option, path in (("index", where + "/set.index"), ("index", where), ("unpacked", where + "/a/b"),
                             ("log", str(self.tmp / "link" / "log"))):
            self.refuse([self.shard], 2, option + "=" + path, "hides", options=option + "=" + path, where=where)
        self.assertEqual(os.listdir(where), [])

    def test_a_missing_shard(self):
        self.refuse([self.shard, self.tmp / "absent.tar"], 1, self.tmp / "absent.tar")

    def test_a_missing_member_of_a_pattern(self):
        self.refuse([self.tmp / "good" / "train-{000000..000002}.tar"], 1, "train-000001.tar")

    def test_a_missing_line_of_a_list(self):
        (self.tmp / "list.txt").write_text("good/train-000000.tar\n\nabsent.tar\n", encoding="ascii")
        self.refuse(["@%s/list.txt" % self.tmp], 1, "absent.tar", "list.txt")
        self.refuse(["@%s/none.txt" % self.tmp], 1, "none.txt")

    def test_an_empty_pattern_or_folder(self):
        self.refuse([self.tmp / "none-*.tar"], 1, "none-*.tar")
        os.mkdir(self.tmp / "empty")
        self.refuse([self.tmp / "empty"], 1, self.tmp / "empty")
        (self.tmp / "empty.txt").write_text("# nothing\n", encoding="ascii")
        self.refuse(["@%s/empty.txt" % self.tmp], 1, "empty.txt")

    def test_unbalanced_braces(self):
        for pattern in ("train-{000..", "train-{000..001", "train-{a,{b,c}.tar"):
            self.refuse([self.tmp / pattern], (1, 2), pattern)

    def test_a_shard_that_is_no_file(self):
        os.mkfifo(self.tmp / "pipe.tar")
        self.refuse([self.tmp / "pipe.tar"], 1, "pipe.tar")
        self.refuse(["/dev/null"], 1, "/dev/null")

    def test_one_shard_given_twice(self):
        self.refuse([self.shard, self.shard], (1, 2), "train-000000.tar")
        os.link(self.shard, self.tmp / "linked.tar")
        self.refuse([self.shard, self.tmp / "linked.tar"], (1, 2), "linked.tar")
        os.symlink(self.shard, self.tmp / "symlinked.tar")
        self.refuse([self.shard, self.tmp / "symlinked.tar"], (1, 2), "symlinked.tar")

    def test_a_copy_of_a_shard(self):
        shutil.copy(self.shard, self.tmp / "copy.tar")
        self.refuse([self.shard, self.tmp / "copy.tar"], 1, "copy.tar")

    def test_equal_layout_with_other_bytes_is_no_copy(self):
        members = [(b"s%07d.jpg" % i, tars.content(i + 50, "jpg", tars.small_size(i))) for i in range(10)]
        other = tars.write_shard(self.tmp / "other.tar", members)
        self.assertEqual(os.path.getsize(other), os.path.getsize(self.shard))
        mount = self.mount([self.shard, other])
        self.assertEqual(len(mount.list("current", "rank-0")), 20)

    def test_a_data_set_without_a_sample(self):
        empty = tars.write_shard(self.tmp / "none.tar", [])
        self.refuse([empty], 1, lines=None)
        self.refuse([self.shard], 1, "flac", options="fields=flac", lines=None)
        noise = tars.write_file(self.tmp / "noise.tar", b"\x37noise" * 5000)
        self.refuse([noise], 1, "noise.tar", lines=None)

    @harness.needs_nobody
    def test_an_unreadable_shard(self):
        os.chmod(self.shard, 0o600)
        where = self.mountpoint()
        os.chown(where, harness.NOBODY, harness.NOBODY)
        self.refused(harness.AS_NOBODY + self.command([self.shard], where), 1, self.shard)

    def test_bad_options_are_named(self):
        for text, name in (("world=0", "world"), ("world=x", "x"), ("world=-1", "-1"), ("world=4294967297", "4294967297"),
                           ("world=", "world"), ("world", "world"), ("epoch=x", "epoch"), ("epoch=-1", "-1"),
                           ("epoch=1.5", "1.5"), ("epoch=9223372036854775808", "9223372036854775808"),
                           ("epoch=18446744073709551616", "18446744073709551616"), ("seed=x", "seed"), ("seed=-1", "-1"),
                           ("order=random", "random"), ("remainder=some", "some"), ("label=dog", "dog"),
                           ("fields=", "fields"), ("fields=jpg:jpg", "jpg"), ("fields=a//b", "fields"), ("prime=0", "prime"),
                           ("uid=no-such-user", "no-such-user"), ("gid=no-such-group", "no-such-group"),
                           ("wrold=2", "wrold"), ("nothing", "nothing"), ("strict=maybe", "maybe"),
                           ("world=2,seed=3,epoch=", "epoch"), ("ro", "ro")):
            with self.subTest(option=text):
                self.refused(self.command([self.shard], self.mountpoint(), text), 2, name)

    def test_a_bad_mountpoint(self):
        self.refuse([self.shard], 1, self.tmp / "absent", where=str(self.tmp / "absent"))
        tars.write_file(self.tmp / "file", b"")
        self.refuse([self.shard], 1, self.tmp / "file", where=str(self.tmp / "file"))
        where = self.mountpoint()
        tars.write_file(where + "/something", b"x")
        self.refuse([self.shard], 1, where, where=where)

    @harness.needs_root
    def test_a_mountpoint_where_something_else_is_mounted(self):
        where = self.mountpoint()
        self.assertEqual(harness.run(["mount", "-t", "tmpfs", "tmpfs", where]).returncode, 0)
        self.addCleanup(harness.run, ["umount", where])
        tars.write_file(where + "/theirs", b"x")
        self.refuse([self.shard], 1, where, where=where)
        self.assertEqual(os.listdir(where), ["theirs"])

    @harness.needs_root
    @harness.needs_program("unshare", "mount")
    def test_no_dev_fuse(self):
        if harness.run(["unshare", "-m", "true"]).returncode:
            self.skipTest("no private mount namespace here (a chroot, or no privilege for it)")
        for words in ([], ["-f"]):
            command = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /dev && exec "$@"', "sh"]
            self.refused(command + self.command([self.shard], self.mountpoint(), words=words), 1, "/dev/fuse")

    @harness.needs_nobody
    @harness.needs_program("fusermount3")
    def test_no_right_to_mount(self):
        where = self.mountpoint()
        command = harness.AS_NOBODY + self.command([self.shard], where)
        if os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
            self.refused(command, 1, "/dev/fuse")
        if not harness.offer_dev_fuse(self.tmp):
            self.skipTest("uid 65534 may not open /dev/fuse here")
        # fusermount3 may have its own say before ours.
        self.refused(command, 1, where, lines=None)
        os.chown(where, harness.NOBODY, harness.NOBODY)
        if not others_allowed():
            command = harness.AS_NOBODY + self.command([self.shard], where, "allow_other")
            self.refused(command, 1, "allow_other", lines=None)

    def test_shard_and_mountpoint_mixed_up(self):
        self.refused([harness.binary(), self.mountpoint(), self.shard], 1)
        self.refused([harness.binary(), self.shard], 2)
