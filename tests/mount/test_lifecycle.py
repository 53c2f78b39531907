"""A mount's life: it answers when the shell says so, ends as asked, and leaves nothing behind."""
import contextlib
import ctypes
import errno
import os
import random
import signal
import subprocess
import time

import harness
import processes
import slow
import tars
import torch_order
from harness import MountCase, wait_gone, wait_until

N = 30
PIDFD_GETFD = 438


class LifeCase(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N)

    def assert_serves(self, mount, world=1):
        self.assert_rank(mount, self.data_set, torch_order.rank_order(N, world, 0), "epoch-0", "rank-0-of-%d" % world)


class Background(LifeCase):
    def test_the_command_returns_once_the_mount_answers(self):
        for _ in range(5):
            mount = self.mount(self.data_set.shards, foreground=False)
            self.assertTrue(mount.mounted())
            self.assertEqual(len(mount.list("current", "rank-0")), N)
            self.assertEqual(mount.messages, "")
            self.assert_serves(mount)
            mount.unmount()

    def test_the_daemon_lets_go_of_terminal_and_folder(self):
        os.mkdir(self.tmp / "cwd")
        # harness.run itself would hang if the daemon kept its ends of the pipes.
        mount = self.mount(self.data_set.shards, foreground=False, cwd=str(self.tmp / "cwd"))
        pid = mount.pid()
        self.assertEqual(os.readlink("/proc/%d/cwd" % pid), "/")
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        os.rmdir(self.tmp / "cwd")

    def test_failure_is_told_to_the_shell(self):
        self.refused(self.command([self.tmp / "absent.tar"], self.mountpoint()), 1, "absent.tar")
        self.refused(self.command(self.data_set.shards, self.tmp / "absent"), 1, self.tmp / "absent")

    def test_relative_paths_work_from_any_folder(self):
        where = self.mountpoint()
        for cwd, shards, point in ((self.tmp, ["shards/train-{000000..000001}.tar"], os.path.basename(where)),
                                   (self.tmp / "shards", ["."], "../" + os.path.basename(where))):
            with self.subTest(cwd=cwd):
                mount = self.mount(shards, where=point, foreground=False, cwd=str(cwd))
                self.assert_serves(mount)
                mount.unmount()

    def test_long_forms_and_options_after_the_names_are_taken(self):
        where = self.mountpoint()
        result = harness.run([harness.binary(), *self.data_set.shards, where, "-o", "world=3"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        mount = harness.Mount(where, None, None, False)
        self.addCleanup(mount.finish)
        self.assertEqual(mount.status()["world"], 3)


class Ends(LifeCase):
    def ends(self, end):
        """Each way to end, in the foreground and in the background."""
        for foreground in (True, False):
            with self.subTest(foreground=foreground):
                mount = self.mount(self.data_set.shards, foreground=foreground)
                self.assert_serves(mount)
                pid = mount.pid()
                end(mount, pid)
                if not foreground:
                    wait_gone(pid)
                mount.expect_end()
                self.assertEqual(os.listdir(mount.where), [])
                for guards in (False, True):
                    self.assertEqual(harness.daemons(os.path.basename(mount.where), guards), [])

    def test_sigterm(self):
        self.ends(lambda mount, pid: os.kill(pid, signal.SIGTERM))

    def test_sigint(self):
        self.ends(lambda mount, pid: os.kill(pid, signal.SIGINT))

    def test_sighup_in_the_foreground_ends_too(self):
        mount = self.mount(self.data_set.shards)
        os.kill(mount.pid(), signal.SIGHUP)
        mount.expect_end()

    @harness.needs_root
    def test_umount(self):
        self.ends(lambda mount, pid: self.assertEqual(harness.run(["umount", mount.where]).returncode, 0))

    @harness.needs_program("fusermount3")
    def test_fusermount3(self):
        self.ends(lambda mount, pid: self.assertEqual(harness.run(["fusermount3", "-u", mount.where]).returncode, 0))

    @harness.needs_root
    def test_umount_with_an_open_file_is_busy_and_the_mount_goes_on(self):
        mount = self.mount(self.data_set.shards)
        with open(mount.path("current", "rank-0", "00000000.jpg"), "rb"):
            self.assertNotEqual(harness.run(["umount", mount.where]).returncode, 0)
            self.assert_serves(mount)
        mount.unmount()

    @harness.needs_root
    def test_a_lazy_umount_ends_the_daemon_when_the_last_file_closes(self):
        mount = self.mount(self.data_set.shards)
        with open(mount.path("current", "rank-0", "00000000.jpg"), "rb") as file:
            self.assertEqual(harness.run(["umount", "-l", mount.where]).returncode, 0)
            self.assertEqual(file.read(), self.data_set.data(torch_order.rank_order(N, 1, 0)[0], "jpg"))
        mount.expect_end()

    def test_sigterm_with_an_open_file_detaches_and_ends(self):
        for foreground in (True, False):
            mount = self.mount(self.data_set.shards, foreground=foreground)
            pid = mount.pid()
            handles = [os.open(mount.path(*names), os.O_RDONLY) for names in
                       (("current", "rank-0", "00000000.jpg"), ("current", "rank-0"), (".control", "status"))]
            os.kill(pid, signal.SIGTERM)
            if not foreground:
                wait_gone(pid)
            mount.expect_end()
            self.assertEqual(os.listdir(mount.where), [])
            for handle in handles:
                with contextlib.suppress(OSError):  # close(2) may tell of the lost mount too
                    os.close(handle)

    def test_sigterm_right_after_the_start_leaves_nothing(self):
        for _ in range(10):
            where = self.mountpoint()
            process = subprocess.Popen(self.command(self.data_set.shards, where, words=["-f"]), stderr=subprocess.PIPE)
            try:
                # At an arbitrary moment: the process exists, nothing more is known.
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=harness.PATIENCE)
                self.assertIn(process.returncode, (0, 1, -signal.SIGTERM))
            finally:
                process.kill()
                process.wait()
            self.assertEqual(harness.mounts(os.path.basename(where)), [])


class StartingSlowly(slow.SlowCase):
    def test_who_kills_the_starting_process_gets_no_mount_later(self):
        # Slow storage, so that the walk takes long enough to be met in it.
        data_set = tars.make_dataset(self.tmp / "shards", 20000, shards=1, size=lambda i: 0)
        shards = self.storage(self.tmp / "shards", "delay_ms=400,direct_io").shards(data_set)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            where = self.mountpoint()
            process = subprocess.Popen([str(word) for word in self.command(shards, where)])
            wait_until(lambda: len(Starting.daemons(where)) >= 2 or process.poll() is not None, "the daemon is forked")
            process.send_signal(number)
            process.wait()
            wait_until(lambda: not Starting.daemons(where), "the daemon ends too")
            self.assertFalse(os.path.ismount(where))


class Starting(MountCase):
    def test_it_starts_with_the_standard_streams_closed(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10)
        for closed in ("<&-", ">&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"):
            where = self.mountpoint()
            command = [str(word) for word in self.command(data_set.shards, where)]
            script = '"$@" ' + closed
            result = subprocess.run(["sh", "-c", script, "sh", *command], timeout=60)
            self.assertEqual(result.returncode, 0, closed)
            self.assertEqual(len(os.listdir(os.path.join(where, "current", "rank-0"))), 10)
            self.assertEqual(harness.run(["fusermount3", "-u", where]).returncode, 0)
            wait_until(lambda: not self.daemons(where), "the daemon ends")

    @staticmethod
    def daemons(where):
        """Living processes with this mount point in their command line."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                with open("/proc/%s/cmdline" % entry, "rb") as file:
                    words = file.read().split(b"\0")
                with open("/proc/%s/stat" % entry) as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                continue
            if entry.isdigit() and os.fsencode(where) in words and state != "Z":
                found.append(int(entry))
        return found


class Killed(LifeCase):
    """A daemon that is killed leaves a mount that answers ENOTCONN, whatever its threads were at."""

    @contextlib.contextmanager
    def descriptors(self, pid):
        """All that the daemon has open stays open, as with a thread of it that cannot end."""
        pidfd = os.pidfd_open(pid)
        take = ctypes.CDLL(None, use_errno=True).syscall
        got = []
        try:
            for number in os.listdir("/proc/%d/fd" % pid):
                taken = take(PIDFD_GETFD, pidfd, int(number), 0)
                if taken >= 0:
                    got.append(taken)
                else:  # the daemon opens a thing for an instant now and then
                    self.assertEqual(ctypes.get_errno(), errno.EBADF)
            yield
        finally:
            for number in [pidfd, *got]:
                os.close(number)

    def dies(self, mount):
        """Nobody waits for an answer that does not come. Who uses nothing of the mount may find it unmounted."""
        with processes.Children() as children:
            children.start(list_dead, mount.where)
            # EIO: the kernel was looking at an inode while the connection went.
            self.assertIn(children.results(30)[0], (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, "unmounted"))

    def expect_guarded_death(self, mount):
        """The daemon is killed while its descriptors stay open: the guard ends the mount, and itself."""
        with self.descriptors(mount.pid()):
            os.kill(mount.pid(), signal.SIGKILL)
            mount.ended = True
            self.dies(mount)
        wait_until(lambda: not harness.daemons(os.path.basename(mount.where), guards=True), "the guard has ended")
        harness.run(["umount", mount.where])

    @harness.needs_root
    def test_a_connection_that_stays_open_does_not_keep_the_mount_alive(self):
        for foreground in (True, False):
            mount = self.mount(self.data_set.shards, foreground=foreground)
            self.expect_guarded_death(mount)

    def test_signals_to_the_guard_mean_nothing(self):
        mount = self.mount(self.data_set.shards)
        (guard,) = harness.daemons(os.path.basename(mount.where), guards=True)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guard, number)
        time.sleep(1.5)  # an abort would come a second later
        self.assert_serves(mount)
        mount.unmount()

    def guard_of(self, mount, other_than=None):
        """The pid of the living guard, once it is another one."""
        def found():
            pids = [pid for pid in harness.daemons(os.path.basename(mount.where), guards=True) if pid != other_than]
            return pids[0] if len(pids) == 1 else None
        return wait_until(found, "there is a guard")

    @staticmethod
    def children(pid):
        """Zombies too."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open("/proc/%s/stat" % entry, encoding="ascii") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry))
        return found

    def kill_guard(self, mount):
        guard = self.guard_of(mount)
        os.kill(guard, signal.SIGKILL)
        return self.guard_of(mount, guard)

    @harness.needs_root
    def test_a_killed_guard_is_told_of_and_another_one_takes_its_place(self):
        for foreground in (True, False):
            log = self.tmp / ("log-%s" % foreground)
            mount = self.mount(self.data_set.shards, "log=%s" % log, foreground=foreground)
            guard = self.kill_guard(mount)
            wait_until(lambda: "shufflefs-guard) was ended by signal 9; another one was started" in log.read_text(),
                       "a line in the log")
            self.assert_serves(mount)
            self.assertEqual(self.children(mount.pid()), [guard], "the old one is a zombie")
            # It guards as the first one did.
            self.expect_guarded_death(mount)

    def test_after_a_killed_guard_the_mount_ends_in_order(self):
        mount = self.mount(self.data_set.shards)
        self.kill_guard(mount)
        mount.unmount()
        mount = self.mount(self.data_set.shards)
        self.kill_guard(mount)
        mount.process.send_signal(signal.SIGTERM)
        mount.expect_end()
        self.assertEqual(harness.daemons(os.path.basename(mount.where), guards=True), [])

    def test_guards_that_do_not_live_are_not_started_for_ever(self):
        mount = self.mount(self.data_set.shards)
        for _ in range(16):
            self.kill_guard(mount)
        os.kill(self.guard_of(mount), signal.SIGKILL)
        wait_until(lambda: "once too often" in mount.stderr(), "it is given up")
        self.assertEqual(harness.daemons(os.path.basename(mount.where), guards=True), [])
        self.assert_serves(mount)
        mount.unmount()

    def kill_under_load(self, rounds):
        data_set = tars.make_dataset(self.tmp / "many", 4000, shards=4, size=lambda i: 20000 + i % 99)
        chance = random.Random(3)
        for _ in range(rounds):
            mount = self.mount(data_set.shards)
            pid = mount.pid()
            with processes.Children() as children:
                for epoch in range(1, 6):
                    children.start(read_until_dead, mount.where, epoch)
                time.sleep(0.1 + chance.random() / 5)
                os.kill(pid, signal.SIGKILL)
                mount.ended = True
                children.results(30)
            mount.process.wait(harness.PATIENCE)
            mount.process = None
            self.dies(mount)
            harness.run(["umount", mount.where])

    @harness.needs_root
    def test_no_reader_hangs_when_the_daemon_is_killed(self):
        self.kill_under_load(10)

    @harness.slow
    @harness.needs_root
    @harness.limit(1800)
    def test_no_reader_hangs_in_200_times(self):
        self.kill_under_load(200)


def list_dead(where):
    try:
        os.listdir(where)
    except OSError as error:
        return error.errno
    return "mounted" if os.path.ismount(where) else "unmounted"


def read_until_dead(where, epoch):
    """Reads files, or a stream in odd epochs, over and over, until the mount is gone. What is in the page cache may be
    read even then."""
    folder = os.path.join(where, "epoch-%d" % epoch, "rank-0")
    try:
        while os.stat(os.path.join(where, ".control", "status")):
            paths = [folder + ".tar"] if epoch % 2 else [os.path.join(folder, name) for name in os.listdir(folder)]
            for path in paths:
                with open(path, "rb", buffering=0) as file:
                    while file.read(1 << 20):
                        pass
    except OSError as error:
        return error.errno


class SamePlace(LifeCase):
    def kill(self, mount):
        """kill -9: what a crash leaves behind is a mount that answers ENOTCONN."""
        pid = mount.pid()
        os.kill(pid, signal.SIGKILL)
        if mount.process:
            mount.process.wait(harness.PATIENCE)
        else:
            wait_gone(pid)
        mount.ended = True
        self.assertTrue(mount.mounted())
        self.assert_errno((errno.ENOTCONN, errno.ECONNABORTED), os.listdir, mount.where)

    def test_a_dead_mount_is_replaced(self):
        for foreground in (True, False):
            dead = self.mount(self.data_set.shards, foreground=foreground)
            self.kill(dead)
            mount = self.mount(self.data_set.shards, where=dead.where, foreground=foreground)
            self.assert_serves(mount)
            points = [point for _, point, _ in harness.mounts(os.path.basename(dead.where))]
            self.assertEqual(points, [dead.where])
            mount.unmount()
            self.assertEqual(os.listdir(dead.where), [])

    def test_a_live_mount_is_left_alone(self):
        mount = self.mount(self.data_set.shards, "world=3")
        self.refused(self.command(self.data_set.shards, mount.where), 1, mount.where)
        self.assertEqual(mount.status()["world"], 3)
        self.assert_serves(mount)

    def test_a_mount_inside_another_is_refused(self):
        mount = self.mount(self.data_set.shards)
        point = mount.path("current", "rank-0")
        self.refused(self.command(self.data_set.shards, point), 1, point)
        self.assert_serves(mount)


class MountProgram(LifeCase):
    """mount(8) and fstab."""

    def setUp(self):
        super().setUp()
        if os.geteuid() or not any(os.path.exists(folder + "/mount.fuse") for folder in ("/sbin", "/usr/sbin")):
            self.skipTest("needs root and mount.fuse")
        # mount(8) hands its helper no PATH: the program must be where a shell looks without one. It is put there in
        # a mount namespace of our own.
        place = "/usr/local/sbin"
        if not os.path.isdir(place) or not harness.private_mounts():
            self.skipTest("needs a mount namespace and " + place)
        self.assertEqual(harness.run(["mount", "-t", "tmpfs", "tmpfs", place]).returncode, 0)
        os.symlink(harness.binary(), place + "/shufflefs")

    def mounted_by(self, command, where):
        result = harness.run(command)
        mount = harness.Mount(where, None, None, False)
        self.addCleanup(mount.destroy)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(mount.status()["world"], 2)
        self.assert_serves(mount, 2)
        mount.unmount()

    def test_mount_program(self):
        where = self.mountpoint()
        self.mounted_by(["mount", "-t", "fuse.shufflefs", "-o", "world=2", self.tmp / "shards", where], where)

    def test_fstab_line(self):
        where = self.mountpoint()
        (self.tmp / "fstab").write_text(
            "%s/shards %s fuse.shufflefs world=2,noauto,nofail,_netdev,nosuid,nodev,allow_other,x-systemd.automount 0 0\n"
            % (self.tmp, where), encoding="utf-8")
        self.mounted_by(["mount", "-T", self.tmp / "fstab", where], where)

    def test_failure_is_told_to_mount(self):
        where = self.mountpoint()
        result = harness.run(["mount", "-t", "fuse.shufflefs", "-o", "world=0", self.tmp / "shards", where])
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("world", result.stderr)
        self.assertEqual(harness.mounts(os.path.basename(where)), [])


class Unprivileged(LifeCase):
    """The daemon as uid 65534, mounting through fusermount3."""
    unprivileged = True

    def setUp(self):
        super().setUp()
        self.skip_unless_nobody_mounts()

    def rank_text(self, epoch):
        return b"".join(self.data_set.data(i, "jpg") for i in torch_order.rank_order(N, 1, 0, epoch=epoch))

    def test_mount_list_read_switch_and_unmount(self):
        for foreground in (True, False):
            mount = self.mount(self.data_set.shards, user=True, foreground=foreground)
            self.assertEqual(self.nobodys_shell('ls "$1"', mount.path("current", "rank-0")).split(),
                             ["%08d.jpg" % position for position in range(N)])
            for epoch in range(4):
                self.nobodys_shell('echo $2 > "$1/.control/epoch"', mount.where, epoch)
                self.nobodys_shell('cat "$1"/current/rank-0/*.jpg > "$2"', mount.where, self.tmp / ("out%d" % foreground))
                self.assertEqual(harness.read(self.tmp / ("out%d" % foreground)), self.rank_text(epoch))
            mount.unmount()

    def test_changes_are_refused(self):
        mount = self.mount(self.data_set.shards, user=True)
        result = harness.run(harness.AS_NOBODY + ["sh", "-c", 'echo x > "$1"', "sh",
                                                  mount.path("current", "rank-0", "00000000.jpg")])
        self.assertNotEqual(result.returncode, 0)
        self.nobodys_shell('test "$(cat "$1" | wc -c)" = $2', mount.path("epoch-0", "rank-0", "00000000.jpg"),
                   len(self.data_set.data(torch_order.rank_order(N, 1, 0)[0], "jpg")))

    def test_sigterm_unmounts(self):
        mount = self.mount(self.data_set.shards, user=True)
        os.kill(mount.pid(), signal.SIGTERM)
        mount.expect_end()

    def test_a_dead_mount_is_replaced(self):
        mount = self.mount(self.data_set.shards, user=True)
        mount.process.kill()
        mount.process.wait(harness.PATIENCE)
        mount.ended = True
        again = self.mount(self.data_set.shards, where=mount.where, user=True)
        self.assertEqual(len(harness.mounts(os.path.basename(mount.where))), 1)
        again.unmount()


class Cycles(LifeCase):
    def cycles(self, count, wrapper=(), code=0):
        for number in range(count):
            mount = self.mount(self.data_set.shards, "world=2", wrapper=wrapper)
            mount.set_epoch(number)
            for rank in (0, 1):
                self.assert_rank(mount, self.data_set, torch_order.rank_order(N, 2, rank, epoch=number), "current",
                                 "rank-%d" % rank)
            mount.list("current", "rank-0.keys")
            mount.read("current", "rank-0.list")
            mount.unmount()
            self.assertEqual(mount.process.returncode, code, mount.stderr())
            mount.process = None

    def test_mount_list_read_unmount_again_and_again(self):
        self.cycles(10)

    @harness.slow
    @harness.limit(600)
    def test_mount_list_read_unmount_100_times(self):
        self.cycles(100)

    # fuse-compatible: threads of the daemon look at its own mount while others answer them.
    VALGRIND = ("valgrind", "--quiet", "--sim-hints=fuse-compatible", "--leak-check=full", "--error-exitcode=99",
                "--errors-for-leak-kinds=definite,indirect,possible", "--show-leak-kinds=definite,indirect,possible")

    @harness.slow
    @harness.needs_program("valgrind")
    @harness.limit(1800)
    def test_valgrind_finds_no_leak_over_100_cycles(self):
        self.cycles(100, self.VALGRIND)

    @harness.slow
    @harness.needs_program("valgrind")
    @harness.limit(600)
    def test_valgrind_finds_no_leak_when_mounting_fails(self):
        for shards, where in (([self.tmp / "absent.tar"], self.mountpoint()), (self.data_set.shards, self.tmp / "absent")):
            self.refused([*self.VALGRIND, *self.command(shards, where, words=["-f"])], 1)
