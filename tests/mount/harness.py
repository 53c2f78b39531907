"""What the mount tests share: a test case with a folder of its own, and mounts that never outlive their test.

Each test runs in a process of its own, a fork of run.py, which says where programs (through the environment) and
folders are (FOLDER, TAG). Every mountpoint is named mnt-RUN-TEST-N (slow-RUN-TEST-N: of the storage beneath one): the tag is how a
daemon is found in /proc, and how run.py sees what a test left behind. Only mounts and processes with this tag are ever
touched.
"""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY_DIR = pathlib.Path(os.environ.get("SHUFFLEFS_TEST_BINARY_DIR", ROOT / "build")).resolve()
FOLDER = pathlib.Path("/nonexistent")
TAG = "none"
SLOW = os.environ.get("SHUFFLEFS_TEST_SLOW") == "1"
# For what must come soon: generous, as a sanitizer build on a busy machine is slow. Nothing waits this long when
# all is well.
PATIENCE = 60.0
NOBODY = 65534
PROGRAMS = {"shufflefs", "slowfs"}
SANITIZER = re.compile(r"ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|ERROR: LeakSanitizer")


def binary(name="shufflefs"):
    return str(BINARY_DIR / name)


def slow(test):
    return unittest.skipUnless(SLOW, "slow: --slow includes it")(test)


def limit(seconds):
    """Marks a test that may take longer than run.py's default."""
    def mark(test):
        test.time_limit = seconds
        return test
    return mark


def needs_root(test):
    return unittest.skipUnless(os.geteuid() == 0, "needs root")(test)


def needs_program(*names):
    missing = [name for name in names if not shutil.which(name)]
    return unittest.skipIf(missing, "needs " + ", ".join(missing))


def needs_plain_build(test):
    """For tests of how much memory the daemon takes."""
    return unittest.skipIf({"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ), "a sanitizer's own memory grows")(test)


@functools.cache
def can_be_nobody():
    """Can this process start another as uid 65534?"""
    if os.geteuid() or not shutil.which("setpriv"):
        return False
    return subprocess.run(AS_NOBODY + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


AS_NOBODY = ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups"]


def needs_nobody(test):
    return unittest.skipUnless(can_be_nobody(), "needs root and setpriv, to become uid 65534")(test)


def wait_until(condition, what, patience=PATIENCE):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (patience, what))
        time.sleep(0.002)


def mounts(tag):
    """(device minor, mountpoint, type) of each mount with `tag` in its path, the latest first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            fields = before.split(" ")
            point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[4])
            if tag in point:
                found.append((int(fields[2].split(":")[1]), point, after.split(" ")[0]))
    return found[::-1]


def is_guard(pid):
    """The guard of a mount (fs/guard.h): a fork of its daemon, with the same arguments."""
    try:
        return pathlib.Path("/proc/%s/comm" % pid).read_text(encoding="ascii") == "shufflefs-guard\n"
    except OSError:
        return False


def daemons(tag, guards=False):
    """Pids of the processes of PROGRAMS (under valgrind too) that have `tag` in an argument; or of their guards."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open("/proc/%s/cmdline" % entry, "rb") as text:
                arguments = text.read().decode(errors="surrogateescape").split("\0")
        except OSError:
            continue
        names = [os.path.basename(argument) for argument in arguments[:12]]
        if PROGRAMS.intersection(names) and not names[0].startswith("python") and any(tag in a for a in arguments) \
                and is_guard(entry) == guards:
            found.append(int(entry))
    return found


def wait_gone(pid, patience=PATIENCE):
    """Waits until a process that may not be our child has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(patience * 1000):
            raise AssertionError("process %d still runs after %g s" % (pid, patience))
    finally:
        os.close(handle)


def abort_connections(tag, folder):
    """Frees everything that hangs in a mount with `tag`; the fusectl file system is mounted in `folder` for it when
    the machine has not got it mounted."""
    minors = [minor for minor, _, kind in mounts(tag) if kind.startswith("fuse")]
    control = pathlib.Path("/sys/fs/fuse/connections")
    own = pathlib.Path(folder, "fusectl")
    if minors and not any((control / str(minor)).exists() for minor in minors) and os.geteuid() == 0:
        own.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "fusectl", "fusectl", str(own)], check=False, stderr=subprocess.DEVNULL)
        control = own
    for minor in minors:
        try:
            (control / str(minor) / "abort").write_text("1", encoding="ascii")
        except OSError:
            pass
    if control == own:
        subprocess.run(["umount", "-l", str(own)], check=False)


def clear_away(tag, folder):
    """Ends and unmounts all that is left with `tag`. Returns lines that say what there was."""
    left = ["mounted: %s" % point for _, point, _ in mounts(tag)]
    pids = daemons(tag) + daemons(tag, guards=True)
    left += ["running: pid %d" % pid for pid in pids]
    if not left:
        remove_memory_groups(tag)
        return left
    abort_connections(tag, folder)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            wait_gone(pid, 10)
        except (OSError, AssertionError):
            left.append("cannot be ended: pid %d" % pid)
    for _, point, _ in mounts(tag):
        subprocess.run(["umount", "-l", point] if os.geteuid() == 0 else ["fusermount3", "-uz", point], check=False)
    remove_memory_groups(tag)
    return left


class MemoryGroup:
    """A memory control group for a daemon, of version 1 or 2; skips the test where there is none."""
    V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")

    def __init__(self, test):
        if (self.V1 / "memory.limit_in_bytes").exists():
            base, self.file = self.V1, "memory.limit_in_bytes"
        else:
            base, self.file = self.V2, "memory.max"
        self.folder = base / ("shufflefs-" + TAG)
        try:
            self.folder.mkdir()
        except OSError as error:
            test.skipTest("cannot make a memory control group: %s" % error)
        test.addCleanup(remove_memory_groups, TAG)
        if not (self.folder / self.file).exists():
            test.skipTest("no memory control groups")

    def wrapper(self):
        """Before a command: runs it in the group."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder)]

    def limit(self, size):
        (self.folder / self.file).write_text(str(size), encoding="ascii")

    def was_full(self):
        """Did memory have to be taken back, for the limit's sake?"""
        if self.folder.parent == self.V1:
            return int((self.folder / "memory.failcnt").read_text(encoding="ascii")) > 0
        return "max 0\n" not in (self.folder / "memory.events").read_text(encoding="ascii")


def remove_memory_groups(tag):
    """Groups with `tag`; they are empty once their daemons have ended."""
    for base in (MemoryGroup.V1, MemoryGroup.V2):
        for group in base.glob("shufflefs-*"):
            if tag in group.name:
                with contextlib.suppress(OSError):
                    group.rmdir()


def private_mounts():
    """Gives this process and its children a mount namespace of their own: what they mount from now on, nobody else
    sees, and it goes with them. Returns success."""
    clone_newns = 0x20000
    if os.geteuid() or ctypes.CDLL(None, use_errno=True).unshare(clone_newns):
        return False
    return run(["mount", "--make-rprivate", "/"]).returncode == 0


def offer_dev_fuse(folder):
    """Lets uid 65534 open /dev/fuse: where the machine's own node does not allow it, by another node in a mount
    namespace of our own. Returns success."""
    if run(AS_NOBODY + ["sh", "-c", ": <> /dev/fuse"]).returncode == 0:
        return True
    device, place = os.stat("/dev/fuse").st_rdev, os.path.join(folder, "dev")
    os.mkdir(place)
    if not private_mounts() or run(["mount", "-t", "tmpfs", "tmpfs", place]).returncode:
        return False
    os.mknod(place + "/fuse", stat.S_IFCHR, device)
    os.chmod(place + "/fuse", 0o666)
    return run(["mount", "--bind", place + "/fuse", "/dev/fuse"]).returncode == 0


def read(path):
    with open(path, "rb") as file:
        return file.read()


def forget(paths):
    """Takes these files out of the page cache, and no others."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


NOTES = []


def note(text):
    """For the log of a run, beneath the test's line: a figure, say."""
    NOTES.append(text)


def run(command, patience=PATIENCE, **more):
    """subprocess.run with text output and a time limit."""
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="surrogateescape", timeout=patience, check=False, **more)


def on_terminal(command):
    """Runs a command whose standard error is a terminal; (exit code, all that was written there)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=theirs, env=dict(os.environ, TERM="xterm")) as process:
        os.close(theirs)
        said = b""
        # Linux answers EIO once nobody has the other end open.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return process.returncode, said


class Mount:
    """One mount: in the foreground (`process` is the daemon, its stderr in a file) or in the background."""

    def __init__(self, where, process, stderr_path, user):
        self.where, self.process, self.stderr_path, self.user = str(where), process, stderr_path, user
        self.ended = False   # ended as it should
        self.judged = False  # its end was looked at, whatever came of it

    def path(self, *names):
        return os.path.join(self.where, *names)

    def read(self, *names):
        return read(self.path(*names))

    def list(self, *names):
        return os.listdir(self.path(*names))

    def status(self):
        return json.loads(self.read(".control", "status"))

    def set_epoch(self, epoch, name="epoch"):
        """Writes a control file in one write(2); text is written as it is."""
        text = epoch if isinstance(epoch, bytes) else b"%d\n" % epoch
        handle = os.open(self.path(".control", name), os.O_WRONLY)
        try:
            return os.write(handle, text)
        finally:
            os.close(handle)

    def stderr(self):
        return read(self.stderr_path).decode(errors="replace") if self.stderr_path else ""

    def pid(self):
        if self.process:
            return self.process.pid
        found = daemons(os.path.basename(self.where))
        assert len(found) == 1, "daemons of %s: %s" % (self.where, found)
        return found[0]

    def mounted(self):
        return any(point == self.where for _, point, _ in mounts(os.path.basename(self.where)))

    def as_user(self, command):
        return AS_NOBODY + command if self.user else command

    def unmount(self, command=None):
        """Unmounts, waits for the daemon's end and checks it: exit 0, and nothing from a sanitizer."""
        pids = daemons(os.path.basename(self.where))
        command = command or (["fusermount3", "-u"] if self.user or os.geteuid() else ["umount"])
        result = run(self.as_user(command + [self.where]))
        # Names are looked up ahead through a clone of the mount, and while that is made the mount is in use.
        for _ in range(20):
            if result.returncode == 0 or "busy" not in result.stderr:
                break
            time.sleep(0.02)
            result = run(self.as_user(command + [self.where]))
        assert result.returncode == 0, "%s: %s%s" % (command, result.stdout, result.stderr)
        for pid in pids:
            if not self.process or pid != self.process.pid:
                wait_gone(pid)
        self.expect_end()

    def expect_end(self, code=0):
        """The daemon ends by itself; it may have been told to already."""
        self.judged = True
        if self.process:
            got = self.process.wait(PATIENCE)
            assert got == code, "the daemon's exit code is %d\n%s" % (got, self.stderr())
        wait_until(lambda: not self.mounted(), self.where + " is no longer mounted")
        assert not SANITIZER.search(self.stderr()), self.stderr()
        self.ended = True

    def finish(self):
        """At a test's end: unmounts what the test has not, with all checks."""
        if not self.ended and (self.mounted() or not self.judged):
            self.unmount()

    def destroy(self):
        if not self.ended:
            clear_away(os.path.basename(self.where), FOLDER)
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)


class MountCase(unittest.TestCase):
    """A test with a temp folder `self.tmp`, mounts by self.mount(), and everything taken away at its end."""
    maxDiff = 2000

    def setUp(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("needs /dev/fuse")
        if not os.access(binary(), os.X_OK):
            self.fail("no program: " + binary())
        self.tmp = pathlib.Path(FOLDER, "t")
        self.tmp.mkdir()
        self.tmp.chmod(0o777)
        self.points = 0
        self.addCleanup(self.remove_folder)

    def remove_folder(self):
        if not mounts(TAG):
            shutil.rmtree(self.tmp, ignore_errors=True)

    def expect_nothing_left(self):
        left = clear_away("-" + TAG, FOLDER)
        self.assertFalse(left, "left behind: %s" % left)

    def mountpoint(self, kind="mnt"):
        self.points += 1
        point = self.tmp / ("%s-%s-%d" % (kind, TAG, self.points))
        point.mkdir()
        if self.points == 1:
            self.addCleanup(self.expect_nothing_left)
        if can_be_nobody():
            os.chown(point, NOBODY if getattr(self, "unprivileged", False) else 0, -1)
        return str(point)

    def command(self, shards, where, options="", words=(), program=None):
        """The command line of a mount; options is one -o text, words are more arguments before the shards."""
        return [program or binary(), *words, *(["-o", options] if options else []), *[str(s) for s in shards], where]

    def mount(self, shards, options="", *, words=(), where=None, foreground=True, user=False, wrapper=(), **more):
        """Mounts and returns once the mount answers; `wrapper` goes before the program (valgrind)."""
        where = where or self.mountpoint()
        words = list(words) + (["-f"] if foreground else [])
        command = list(wrapper) + self.command(shards, where, options, words)
        command = AS_NOBODY + command if user else command
        if user:
            more.setdefault("env", dict(os.environ, HOME=str(self.tmp)))
        stderr_path = None
        process = None
        if foreground:
            stderr_path = "%s.stderr" % where
            with open(stderr_path, "ab") as stderr:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, **more)
            made = Mount(where, process, stderr_path, user)
            self.addCleanup(made.destroy)
            self.wait_answer(made)
        else:
            made = Mount(os.path.normpath(os.path.join(str(more.get("cwd", "")), where)), None, None, user)
            self.addCleanup(made.destroy)
            result = run(command, **more)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotRegex(result.stderr, SANITIZER)
            made.messages = result.stderr
        self.addCleanup(made.finish)
        return made

    def wait_answer(self, made, *names):
        """Until the mount shows the file `names`, .control/status by default."""
        names = names or (".control", "status")

        def answers():
            if made.process.poll() is not None:
                raise AssertionError("exit code %d\n%s" % (made.process.returncode, made.stderr()))
            return made.mounted() and run(made.as_user(["test", "-e", made.path(*names)])).returncode == 0
        wait_until(answers, "the mount answers")

    def refused(self, command, code, *names, lines=1, **more):
        """The command fails with `code` (or one of them), one line on stderr that has each of `names`, and leaves
        neither mount nor process."""
        before = mounts(TAG)
        result = run(command, **more)
        said = result.stderr
        codes = code if isinstance(code, tuple) else (code,)
        self.assertIn(result.returncode, codes, "%s\n%s" % (command, said))
        self.assertNotRegex(said, SANITIZER)
        if lines:
            self.assertEqual(len(said.splitlines()), lines, said)
        for name in names:
            self.assertIn(str(name), said)
        self.assertEqual(mounts(TAG), before)
        return said

    def skip_unless_nobody_mounts(self):
        """For tests of a daemon of uid 65534, which mounts through fusermount3."""
        if not can_be_nobody() or not shutil.which("fusermount3"):
            self.skipTest("needs root, setpriv and fusermount3")
        if run(AS_NOBODY + [binary(), "-V"]).returncode:
            self.skipTest("uid 65534 cannot run " + binary())
        if not offer_dev_fuse(self.tmp):
            self.skipTest("uid 65534 may not open /dev/fuse here")

    def nobodys_shell(self, script, *arguments):
        """What a shell script of uid 65534 prints, which must go well."""
        result = run(AS_NOBODY + ["sh", "-ec", script, "sh", *map(str, arguments)])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def assert_errno(self, number, call, *arguments):
        """call(*arguments) fails with this errno, or one of several."""
        numbers = number if isinstance(number, tuple) else (number,)
        try:
            result = call(*arguments)
        except OSError as error:
            self.assertIn(error.errno, numbers, "%s: %s" % (arguments, error))
        else:
            self.fail("%s succeeded: %r" % (arguments, result))

    def assert_rank(self, mount, data_set, expected, *folder, field="jpg"):
        """The folder shows exactly the `expected` samples, in order, with their bytes."""
        names = ["%08d.%s" % (position, field) for position in range(len(expected))]
        listed = [name for name in mount.list(*folder) if name.endswith("." + field)]
        self.assertEqual(listed, names)
        for name, sample in zip(names, expected):
            if mount.read(*folder, name) != data_set.data(sample, field):
                self.fail("%s/%s is not sample %d" % ("/".join(folder), name, sample))
