"""shufflefs-top on real mounts: what it tells, how it ends, and that a terminal is always given back."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import harness
import tars
from harness import MountCase, run, wait_until

TOP = harness.binary("shufflefs-top")
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Screen:
    """shufflefs-top on a terminal of its own, of which everything that was shown is kept in `shown`."""

    def __init__(self, arguments, width=100, height=30, program=(TOP,), **environment):
        self.main, self.side = pty.openpty()
        self.resize(width, height)
        self.modes = termios.tcgetattr(self.side)
        self.shown = b""
        variables = {**os.environ, "TERM": "xterm", **environment}
        variables = {name: value for name, value in variables.items() if value is not None}
        self.process = subprocess.Popen(
            [*program, *arguments], stdin=self.side, stdout=self.side, stderr=self.side, env=variables,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, width, height):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self):
        while select.select([self.main], [], [], 0.002)[0]:
            self.shown += os.read(self.main, 65536)

    def press(self, keys):
        os.write(self.main, keys)

    def wait(self, pattern, start=0):
        """Waits for the pattern after the first `start` bytes of all that was shown."""
        def found():
            self.read()
            return re.search(pattern, self.shown[start:], re.S)
        return wait_until(found, "%r is shown" % pattern)

    def mark(self):
        """To be taken before what is waited for is brought about."""
        self.read()
        return len(self.shown)

    def end(self):
        """Waits for its end; returns its exit code."""
        def ended():
            self.read()
            return self.process.poll() is not None
        wait_until(ended, "shufflefs-top ends")
        self.read()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.main)
        os.close(self.side)


class Top(MountCase):
    def begin(self, options="", n=600):
        data_set = tars.make_dataset(self.tmp / "shards", n)
        mount = self.mount(data_set.shards, options)
        for name in mount.list("current", "rank-0"):
            mount.read("current", "rank-0", name)
        return mount

    def screen(self, *arguments, **more):
        screen = Screen(arguments, **more)
        self.addCleanup(screen.close)
        return screen

    def expect_restored(self, screen):
        self.assertEqual(termios.tcgetattr(screen.side), screen.modes)
        self.assertEqual(screen.shown.count(ENTER), screen.shown.count(LEAVE))
        self.assertGreater(screen.shown.rfind(LEAVE), screen.shown.rfind(ENTER))
        self.assertIn(b"\x1b[?25h", screen.shown)
        self.assertNotRegex(screen.shown.decode(errors="replace"), harness.SANITIZER)

    def top(self, *arguments, code=0, **more):
        result = run([TOP, *arguments], **more)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        return result

    def stop(self, mount):
        """The mount hangs from here on."""
        pid = mount.pid()
        self.addCleanup(lambda: mount.process.poll() is None and os.kill(pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def unmount(self, mount):
        """A reading under way may keep a mount busy for a moment."""
        command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
        wait_until(lambda: run(command + [mount.where]).returncode == 0, "unmounted")

    def test_once_tells_of_the_mount_and_who_reads(self):
        mount = self.begin("world=2")
        for interval in ("0.05", "0"):
            text = self.top(mount.where, "--once", "--interval", interval).stdout
            self.assertIn(mount.where + "  shufflefs ", text)
            self.assertIn("600 samples", text)
            self.assertRegex(text, r"(?m)^current/rank-0 .* done$")
            self.assertNotIn("\x1b", text)
            self.assertNotIn("nan", text)

    def test_json_holds_the_status_and_the_rates(self):
        mount = self.begin()
        told = json.loads(self.top(mount.where, "--once", "--json", "--interval", "0.05").stdout)
        self.assertEqual(told["mount"], mount.where)
        self.assertGreaterEqual(told["interval_s"], 0.05)
        self.assertEqual(told["status"]["fingerprint"], mount.status()["fingerprint"])
        self.assertEqual(told["rates"]["reads_per_s"], 0)
        self.assertEqual(told["rates"]["readers"][0]["path"], "current/rank-0")
        totals = json.loads(self.top(mount.where, "--once", "--json", "--interval", "0").stdout)
        self.assertIsNone(totals["interval_s"])
        self.assertIsNone(totals["rates"]["reads_per_s"])

    def test_without_a_terminal_reports_come_one_after_the_other(self):
        mount = self.begin()
        text = self.top(mount.where, "-n", "3", "--interval", "0.05").stdout
        self.assertEqual(text.count("shufflefs "), 3)
        lines = self.top(mount.where, "-n", "2", "--interval", "0.05", "--json").stdout.splitlines()
        self.assertEqual(len([json.loads(line) for line in lines]), 2)

    def test_any_path_in_the_mount_leads_to_it(self):
        mount = self.begin()
        link = self.tmp / "link"
        link.symlink_to(mount.path("current"))
        for path in (mount.path("current"), mount.path("current", "rank-0", "00000000.jpg"),
                     mount.path(".control", "status"), mount.where + "//", link):
            self.assertIn(mount.where + "  ", self.top(path, "--once", "--interval", "0").stdout)
        self.assertIn(mount.where + "  ",
                      self.top(".", "--once", "--interval", "0", cwd=mount.path("current")).stdout)

    def test_a_path_that_is_in_no_mount_is_named(self):
        fake = self.tmp / "fake"
        (fake / ".control").mkdir(parents=True)
        (fake / ".control" / "status").write_text("{}")
        for path in (self.tmp, self.tmp / "missing", "/", fake):
            result = self.top(path, "--once", code=1)
            self.assertIn("shufflefs-top: %s: " % path, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_usage(self):
        for words in ([], ["a", "b"], ["a", "--interval", "x"], ["a", "--interval", "nan"], ["a", "--interval", "0"],
                      ["a", "--interval", "-1"], ["a", "--once", "-n", "2"], ["a", "-n", "0"], ["a", "-n", "1x"],
                      ["a", "--what"]):
            self.assertTrue(self.top(*words, code=2).stderr, words)
        self.assertIn("usage: ", self.top("--help").stdout)
        self.assertIn("shufflefs-top ", self.top("--version").stdout)

    def test_a_mount_that_goes_away_ends_it(self):
        for how in ("unmounted", "killed"):
            with self.subTest(how):
                mount = self.mount(tars.make_dataset(self.tmp / "shards", 20).shards)
                with subprocess.Popen([TOP, mount.where, "--json", "--interval", "0.05"], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) as process:
                    self.assertTrue(process.stdout.readline())
                    if how == "killed":
                        mount.process.kill()
                    else:
                        self.unmount(mount)
                    said = process.communicate(timeout=harness.PATIENCE)[1]
                self.assertEqual(process.returncode, 1)
                self.assertIn("shufflefs-top: %s: the mount is gone\n" % mount.where, said)
                if how == "killed":
                    self.unmount(mount)
                mount.expect_end(-signal.SIGKILL if how == "killed" else 0)

    def test_a_mount_made_again_is_watched_on(self):
        data_set = tars.make_dataset(self.tmp / "shards", 600)
        mount = self.mount(data_set.shards)
        for name in mount.list("current", "rank-0"):
            mount.read("current", "rank-0", name)
        with subprocess.Popen([TOP, mount.where, "--json", "--interval", "2"], stdout=subprocess.PIPE, text=True) as top:
            first = json.loads(top.stdout.readline())
            self.assertFalse(first["restarted"])
            self.unmount(mount)
            mount.expect_end()
            again = self.mount(data_set.shards, where=mount.where)
            line = top.stdout.readline()
            # A machine that mounts slower than an interval sees it gone; what follows is no fault then.
            if line:
                self.assertTrue(json.loads(line)["restarted"])
                self.assertIsNone(json.loads(line)["rates"]["reads_per_s"])
            top.terminate()
        again.unmount()

    def test_q_gives_the_terminal_back(self):
        mount = self.begin()
        screen = self.screen(mount.where, "--interval", "0.05")
        screen.wait(rb"current/rank-0")
        self.assertNotEqual(termios.tcgetattr(screen.side), screen.modes)
        screen.press(b"q")
        self.assertEqual(screen.end(), 0)
        self.expect_restored(screen)

    def test_signals_give_the_terminal_back(self):
        mount = self.begin()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            screen = self.screen(mount.where)
            screen.wait(rb"current/rank-0")
            if number == signal.SIGINT:
                screen.press(b"\x03")
            else:
                screen.process.send_signal(number)
            self.assertEqual(screen.end(), -number)
            self.expect_restored(screen)

    def test_a_stop_gives_the_terminal_back_until_it_goes_on(self):
        mount = self.begin()
        screen = self.screen(mount.where)
        screen.wait(rb"current/rank-0")
        screen.process.send_signal(signal.SIGTSTP)
        wait_until(lambda: os.waitid(os.P_PID, screen.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT), "it stops")
        screen.read()
        self.expect_restored(screen)
        mark = screen.mark()
        screen.process.send_signal(signal.SIGCONT)
        screen.wait(rb"current/rank-0", mark)
        screen.press(b"q")
        self.assertEqual(screen.end(), 0)
        self.expect_restored(screen)

    def test_the_screen_follows_the_terminals_size(self):
        mount = self.begin()
        screen = self.screen(mount.where, "--interval", "3600")
        screen.wait(rb"WAIT")
        mark = screen.mark()
        screen.resize(40, 30)
        frame = screen.wait(rb"\x1b\[H(\x1b\[2K(?:(?!WAIT).)*?)\x1b\[J", mark).group(1)
        lines = re.sub(rb"\x1b\[2K|\r", b"", frame).split(b"\n")
        self.assertLessEqual(max(map(len, lines)), 40, lines)
        mark = screen.mark()
        screen.resize(1, 1)
        screen.wait(rb"\x1b\[H\x1b\[2K>\x1b\[J", mark)
        screen.press(b"q")
        self.assertEqual(screen.end(), 0)
        self.expect_restored(screen)

    def test_the_last_of_several_reports_stays_on_the_terminal(self):
        mount = self.begin()
        screen = self.screen(mount.where, "-n", "2", "--interval", "0.05")
        self.assertEqual(screen.end(), 0)
        self.expect_restored(screen)
        self.assertIn(b"current/rank-0", screen.shown[screen.shown.rfind(LEAVE):])

    def test_a_terminal_that_knows_no_codes_gets_plain_text(self):
        mount = self.begin()
        for kind in (None, "", "dumb"):
            screen = self.screen(mount.where, "-n", "2", "--interval", "0.05", width=50, TERM=kind)
            self.assertEqual(screen.end(), 0)
            self.assertNotIn(b"\x1b", screen.shown)
            self.assertEqual(screen.shown.count(b"shufflefs "), 2)
            self.assertLessEqual(max(len(line) for line in screen.shown.split(b"\r\n")), 50)

    def test_q_ends_reports_on_any_terminal(self):
        mount = self.begin()
        for kind, *words in ((None,), ("dumb",), ("dumb", "-n", "1000"), ("xterm", "--json")):
            screen = self.screen(mount.where, "--interval", "0.05", *words, TERM=kind)
            screen.wait(rb"current/rank-0")
            mark = screen.mark()
            screen.press(b"x")
            screen.wait(rb"current/rank-0", mark)
            screen.press(b"q")
            self.assertEqual(screen.end(), 0)
            self.assertNotIn(b"\x1b", screen.shown)
            self.assertEqual(termios.tcgetattr(screen.side), screen.modes)

    def test_signals_and_stops_give_the_keys_of_a_dumb_terminal_back(self):
        mount = self.begin()
        screen = self.screen(mount.where, "--interval", "0.05", TERM="dumb")
        screen.wait(rb"current/rank-0")
        self.assertNotEqual(termios.tcgetattr(screen.side), screen.modes)
        screen.process.send_signal(signal.SIGTSTP)
        wait_until(lambda: os.waitid(os.P_PID, screen.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT), "it stops")
        self.assertEqual(termios.tcgetattr(screen.side), screen.modes)
        mark = screen.mark()
        screen.process.send_signal(signal.SIGCONT)
        screen.wait(rb"current/rank-0", mark)
        self.assertNotEqual(termios.tcgetattr(screen.side), screen.modes)
        screen.press(b"\x03")
        self.assertEqual(screen.end(), -signal.SIGINT)
        self.assertEqual(termios.tcgetattr(screen.side), screen.modes)

    def test_in_the_background_the_terminal_is_left_alone(self):
        """A shell that has the terminal starts it, looks at the modes and ends it."""
        mount = self.begin()
        script = ('before=$(stty -g); set -m; "$@" & job=$!; read -r line; '
                  '[ "$(stty -g)" = "$before" ] && echo the same; kill $job; wait $job; echo code $?')
        screen = Screen((), program=["bash", "-c", script, "bash", TOP, mount.where, "--interval", "0.05"], TERM="dumb")
        self.addCleanup(screen.close)
        screen.wait(rb"current/rank-0.*current/rank-0")
        screen.press(b"q\n")
        screen.wait(rb"the same.*code 143")
        screen.end()

    def test_a_mount_that_hangs_holds_nobody_up(self):
        mount = self.begin()
        screen = self.screen(mount.where, "--interval", "0.05")
        screen.wait(rb"current/rank-0")
        go_on = self.stop(mount)
        screen.wait(rb"no answer for \d+ s")
        mark = screen.mark()
        screen.resize(60, 20)
        screen.wait(rb"no answer for \d+ s", mark)
        mark = screen.mark()
        go_on()
        screen.wait(rb"\x1b\[H(?:(?!no answer).)*current/rank-0(?:(?!no answer).)*\x1b\[J", mark)
        self.stop(mount)
        mark = screen.mark()
        screen.wait(rb"no answer for \d+ s", mark)
        screen.press(b"q")
        self.assertEqual(screen.end(), 0)
        self.expect_restored(screen)

    def test_a_mount_that_hangs_from_the_start_can_be_left(self):
        mount = self.begin()
        self.stop(mount)
        screen = self.screen(mount.where)
        screen.wait(rb"no answer for \d+ s")
        screen.press(b"\x03")
        self.assertEqual(screen.end(), -signal.SIGINT)
        self.expect_restored(screen)

    def test_a_report_for_a_script_is_given_up_when_the_mount_hangs(self):
        mount = self.begin()
        go_on = self.stop(mount)
        result = self.top(mount.where, "--once", code=1)
        self.assertIn("shufflefs-top: %s: no answer for 5 s\n" % mount.where, result.stderr)
        self.assertEqual(result.stdout, "")
        go_on()

    def test_a_reader_that_has_enough_is_no_fault(self):
        mount = self.begin()
        with subprocess.Popen([TOP, mount.where, "--interval", "0.05"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), "")
            self.assertEqual(process.wait(harness.PATIENCE), 0)

    def test_nothing_is_left_running(self):
        mount = self.begin()
        self.stop(mount)
        screen = self.screen(mount.where)
        screen.wait(rb"no answer for \d+ s")
        children = harness.read("/proc/%d/task/%d/children" % (screen.process.pid, screen.process.pid)).split()
        self.assertEqual(len(children), 1)
        screen.press(b"q")
        self.assertEqual(screen.end(), 0)
        wait_until(lambda: not os.path.exists("/proc/%d" % int(children[0])), "its child ends")
