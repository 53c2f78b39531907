"""Real mounts: made, answered, ended; and a loader's batches in the mount's own order."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

import case
import harness
import shufflefs
import tars
import torch_order
from case import ROOT, Case


def needs_fuse(test):
    return unittest.skipUnless(os.path.exists("/dev/fuse"), "needs /dev/fuse")(test)


class OnMounts(Case):
    """`self.set`, 61 samples in two shards, labelled with three times their number."""

    pictures = 0
    N = 61

    def setUp(self):
        super().setUp()
        self.set = tars.make_dataset(self.tmp / "shards", self.N, cls=lambda i: b"%d" % (i * 3))
        self.addCleanup(self.expect_nothing_mounted)

    def expect_nothing_mounted(self):
        self.assertEqual(harness.clear_away(os.path.basename(os.environ["TMPDIR"]), os.environ["TMPDIR"]), [])

    def mounts(self):
        return harness.mounts(os.path.basename(os.environ["TMPDIR"]))


@needs_fuse
class Mounts(OnMounts):
    def test_a_mount_answers_in_its_with_and_is_gone_after_it(self):
        before = set(os.listdir(os.environ["TMPDIR"]))
        with shufflefs.mount(self.set.shards, world=2, seed=5) as mount:
            self.assertEqual(len(os.listdir(f"{mount}/current/rank-1")), 2 * 31)
            self.assertEqual(os.fspath(mount), str(mount))
            self.assertEqual((mount.status()["world"], mount.status()["seed"]), (2, 5))
            self.assertRegex(mount.fingerprint(), "^[0-9a-f]{16}-[0-9a-f]{16}$")
            self.assertEqual(len(self.mounts()), 1)
        self.assertEqual(self.mounts(), [])
        self.assertEqual(set(os.listdir(os.environ["TMPDIR"])) - {"cache"}, before - {"cache"})
        mount.unmount()  # twice is once
        self.assertIn("unmounted", repr(mount))

    def test_an_exception_unmounts_and_stays_itself(self):
        point = self.tmp / "point"
        point.mkdir()
        with self.assertRaises(ArithmeticError), shufflefs.mount(str(self.tmp / "shards"), point) as mount:
            self.assertEqual(mount.path, str(point))
            raise ArithmeticError
        self.assertEqual(self.mounts(), [])
        self.assertTrue(point.exists())

    def test_the_programs_own_lines_tell_what_is_wrong_and_nothing_stays(self):
        before = set(os.listdir(os.environ["TMPDIR"])) - {"cache"}
        for shards, options, code, words in (
            ([self.tmp / "none.tar"], {}, 1, ["none.tar", "does not exist"]),
            (self.set.shards, {"wrold": 2}, 2, ["wrold", "did you mean world"]),
            (self.set.shards, {"world": "x"}, 2, ["world"]),
            ([], {}, 2, []),
        ):
            with self.assertRaises(shufflefs.MountError) as told:
                shufflefs.mount(shards, **options)
            self.assertEqual(told.exception.code, code)
            self.assertTrue(told.exception.lines)
            for word in words:
                self.assertIn(word, str(told.exception))
        with self.assertRaisesRegex(shufflefs.MountError, "no program"):
            shufflefs.mount(self.set.shards, program=self.tmp / "none")
        with self.assertRaises(FileNotFoundError):
            shufflefs.mount(self.set.shards, self.tmp / "no" / "point")
        self.assertEqual(self.mounts(), [])
        self.assertEqual(set(os.listdir(os.environ["TMPDIR"])) - {"cache"}, before)

    def test_options_are_words_numbers_and_text_with_commas(self):
        log = self.tmp / "a, b\\c.log"
        with shufflefs.mount(self.set.shards, log=log, strict=True, drop_last=False, label=None, order="sequential") as mount:
            harness.wait_until(log.exists, "the log is there")
            self.assertEqual(mount.status()["order"], "sequential")

    def test_what_does_not_answer_in_time_is_ended(self):
        program = self.tmp / "program"
        program.write_text("#!/bin/sh\necho still at it >&2\nexec sleep 600\n", encoding="ascii")
        program.chmod(0o755)
        with self.assertRaises(shufflefs.MountError) as told:
            shufflefs.mount(self.set.shards, program=program, timeout=0.2)
        self.assertIn("0.2 s", str(told.exception))
        self.assertIsNone(told.exception.code)

    def test_an_interrupt_while_it_mounts_leaves_nothing(self):
        program = self.tmp / "program"
        program.write_text(f"#!/bin/sh\necho $$ >{self.tmp}/pid\nexec sleep 600\n", encoding="ascii")
        program.chmod(0o755)
        main = threading.get_ident()

        def interrupt():
            while not (self.tmp / "pid").exists() or not (self.tmp / "pid").read_text(encoding="ascii"):
                time.sleep(0.001)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            shufflefs.mount(self.set.shards, program=program)
        thread.join()
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.tmp / "pid").read_text(encoding="ascii")), 0)

    def test_an_interrupt_while_the_folder_is_made_leaves_none(self):
        before = set(os.listdir(os.environ["TMPDIR"]))
        main, make = threading.get_ident(), tempfile.mkdtemp

        def made(**how):
            path = make(**how)
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.01)
            return path

        with unittest.mock.patch.object(tempfile, "mkdtemp", made):
            with self.assertRaises(KeyboardInterrupt):
                shufflefs.mount(self.set.shards)
        self.assertEqual(set(os.listdir(os.environ["TMPDIR"])) - {"cache"}, before - {"cache"})

    def test_the_interpreters_end_unmounts_and_a_forked_childs_does_not(self):
        script = """
        import os, sys, shufflefs
        mount = shufflefs.mount(sys.argv[1:])
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(len(os.listdir(f"{mount}/current/rank-0")))
        """
        self.assertEqual(self.runs(script, *self.set.shards), f"{2 * self.N}\n")
        self.assertEqual(self.mounts(), [])

    def test_the_line_that_help_gives_for_sigterm_unmounts_and_removes_the_folder(self):
        line = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))"
        self.assertIn(line, shufflefs.mount.__doc__)
        self.assertIn(line, (ROOT / "README.md").read_text(encoding="utf-8"))
        before = set(os.listdir(os.environ["TMPDIR"])) - {"cache"}
        for number in (signal.SIGTERM, signal.SIGHUP):
            script = f"""
            import signal, sys, shufflefs
            {line.replace("SIGTERM", number.name)}
            mount = shufflefs.mount(sys.argv[1:])
            print(mount, flush=True)
            signal.pause()
            """
            command = [sys.executable, "-c", textwrap.dedent(script), *self.set.shards]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                path = process.stdout.readline().strip()
                self.assertEqual([point for _, point, _ in self.mounts()], [path])
                process.send_signal(number)
                self.assertEqual(process.communicate(timeout=60), ("", ""))
            self.assertEqual(process.returncode, 1)
            self.assertEqual(self.mounts(), [])
            self.assertFalse(os.path.exists(path))
        self.assertEqual(set(os.listdir(os.environ["TMPDIR"])) - {"cache"}, before)

    def test_a_mount_that_somebody_else_has_unmounted_ends_in_order(self):
        with shufflefs.mount(self.set.shards) as mount:
            command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
            # It may be in use for an instant, while the program makes a clone of it.
            harness.wait_until(
                lambda: subprocess.run([*command, mount.path], check=False, stderr=subprocess.DEVNULL).returncode == 0,
                "unmounted",
            )

    def test_a_program_that_was_killed_is_told_and_its_dead_mount_goes(self):
        mount = shufflefs.mount(self.set.shards)
        mount._process.kill()
        with self.assertRaises(shufflefs.MountError) as told:
            mount.unmount()
        self.assertEqual(told.exception.code, -signal.SIGKILL)
        self.assertEqual(self.mounts(), [])
        self.assertFalse(os.path.exists(mount.path))

    def test_a_dead_mount_at_a_place_of_ones_own_goes_and_the_place_is_good_again(self):
        point = self.tmp / "a point, with\\odd name"
        point.mkdir()
        for _ in range(2):
            mount = shufflefs.mount(self.set.shards, point, timeout=60)
            mount._process.kill()
            with self.assertRaises(shufflefs.MountError) as told:
                mount.unmount()
            self.assertEqual(told.exception.code, -signal.SIGKILL)
            self.assertEqual(self.mounts(), [])
            self.assertEqual(os.listdir(point), [])
            self.assertIn("unmounted", repr(mount))

    def test_a_mount_over_a_dead_one_answers_and_the_dead_ones_end_leaves_it(self):
        point = self.tmp / "point"
        point.mkdir()
        dead = shufflefs.mount(self.set.shards, point)
        dead._process.kill()
        dead._process.wait()
        with shufflefs.mount(self.set.shards, point, timeout=60, seed=3) as mount:
            self.assertEqual(mount.status()["seed"], 3)
            with self.assertRaises(shufflefs.MountError):
                dead.unmount()
            self.assertEqual(mount.status()["seed"], 3)
        self.assertEqual(self.mounts(), [])

    def test_a_mount_that_answers_is_not_mounted_over_nor_taken_for_a_new_one(self):
        with shufflefs.mount(self.set.shards, seed=3) as mount:
            with self.assertRaises(shufflefs.MountError) as told:
                shufflefs.mount(self.set.shards, mount, timeout=60)
            self.assertEqual(told.exception.code, 1)
            self.assertEqual(mount.status()["seed"], 3)

    def interrupting(self, function):
        """The function, with a Ctrl-C for the main thread when it begins."""
        main = threading.get_ident()

        def interrupt(*arguments):
            signal.pthread_kill(main, signal.SIGINT)
            return function(*arguments)

        return interrupt

    def test_an_interrupt_while_it_unmounts_comes_when_all_is_gone(self):
        mount = shufflefs.mount(self.set.shards)
        mount._process.terminate = self.interrupting(mount._process.terminate)
        with self.assertRaises(KeyboardInterrupt):
            mount.unmount()
        self.assertFalse(os.path.exists(mount.path))
        mount.unmount()
        with self.assertRaises(KeyboardInterrupt), shufflefs.mount(self.set.shards) as mount:
            mount._process.terminate = self.interrupting(mount._process.terminate)
        self.assertFalse(os.path.exists(mount.path))
        self.assertEqual(self.mounts(), [])

    def test_unmounting_goes_on_where_interrupts_have_ended_it(self):
        mount = shufflefs.mount(self.set.shards)
        mount._process.terminate = self.interrupting(mount._process.terminate)
        mount._process.wait = self.interrupting(mount._process.wait)
        with self.assertRaises(KeyboardInterrupt):
            mount.unmount()
        mount.unmount()
        self.assertFalse(os.path.exists(mount.path))
        self.assertEqual(self.mounts(), [])

    def test_what_is_no_argument_is_named_and_leaves_no_folder(self):
        before = set(os.listdir(os.environ["TMPDIR"]))
        for arguments, more, kind, words in (
            ([None], {}, TypeError, "^shards is None"),
            ([5], {}, TypeError, "^shards is 5"),
            ([b"/x"], {}, TypeError, "^shards is b'/x'"),
            ([[None]], {}, TypeError, r"^shards\[0\] is None"),
            ([[self.tmp, 5]], {}, TypeError, r"^shards\[1\] is 5"),
            (["a\0b"], {}, ValueError, "^shards is 'a"),
            ([self.tmp, 5], {}, TypeError, "^mountpoint is 5"),
            ([self.tmp], {"program": 5}, TypeError, "^program is 5"),
            ([self.tmp], {"timeout": "x"}, TypeError, "^timeout is 'x'"),
            ([self.tmp], {"timeout": float("nan")}, ValueError, "^timeout is nan"),
        ):
            with self.subTest(arguments, **more), self.assertRaisesRegex(kind, words):
                shufflefs.mount(*arguments, **more)
        self.assertEqual(set(os.listdir(os.environ["TMPDIR"])), before)

    def test_a_mount_gives_no_resource_warning(self):
        script = """
        import gc, os, sys, warnings, shufflefs
        warnings.simplefilter("always")
        mount = shufflefs.mount(sys.argv[1:])
        mount.unmount()
        del mount
        gc.collect()
        dropped = shufflefs.mount(sys.argv[1:])
        del dropped
        mount = shufflefs.mount(sys.argv[1:])
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of a fork() beside threads
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        """
        self.runs(script, *self.set.shards)
        self.assertEqual(self.mounts(), [])

    def test_epochs_move_for_all_or_for_one_rank(self):
        with shufflefs.mount(self.set.shards, world=2) as mount:
            shufflefs.set_epoch(mount, 3)
            shufflefs.set_epoch(mount, 5, rank=1)
            shufflefs.set_epoch(mount, 6, rank=2, world=4)
            for name, epoch in (("rank-0", 3), ("rank-1", 5), ("rank-2-of-4", 6)):
                told = os.getxattr(f"{mount}/current/{name}", "user.shufflefs.epoch")
                self.assertEqual(told, b"%d" % epoch)
            path = shufflefs.rank_path(mount, environment={"RANK": "2", "WORLD_SIZE": "4"})
            self.assertEqual(os.getxattr(path, "user.shufflefs.epoch"), b"6")
            with self.assertRaises(OSError) as told:
                shufflefs.set_epoch(mount, 2**63)
            self.assertIn(".control/epoch", str(told.exception))

    def test_an_epoch_is_resumed_behind_so_many_samples(self):
        with shufflefs.mount(self.set.shards, world=2, remainder="keep") as mount:
            shufflefs.set_epoch(mount, 3, rank=1, after=21)
            self.assertEqual(os.getxattr(f"{mount}/current/rank-1", "user.shufflefs.after"), b"21")
            self.assertEqual(len(os.listdir(f"{mount}/current/rank-1")), 2 * 20)
            with self.assertRaises(OSError) as told:
                shufflefs.set_epoch(mount, 3, rank=1, after=self.N + 1)
            self.assertIn("'3 after 62'", str(told.exception))


@needs_fuse
class Orders(OnMounts):
    """A loader's batches are the mount's files."""

    def contents(self, loader):
        found = []
        for batch in loader:
            labels = batch.labels.tolist()
            found += [(bytes(batch.row(i)), labels[i]) for i in range(len(batch))]
        return found

    def expected(self, *rank, **order):
        return [(self.set.data(i, "jpg"), 3 * i) for i in torch_order.rank_order(self.N, *rank, **order)]

    def bytes_of(self, path, **settings):
        return self.loader(path, **{"output": "bytes", "field": "jpg", **settings})

    def test_every_view_gives_the_ranks_files_and_labels_in_order(self):
        with shufflefs.mount(self.set.shards, world=2, seed=5) as mount:
            for rank, world, epoch in ((0, 2, 0), (1, 2, 3)):
                expected = self.expected(world, rank, seed=5, epoch=epoch)
                folder = f"{mount}/epoch-{epoch}/rank-{rank}"
                names = sorted(name for name in os.listdir(folder) if name.endswith(".jpg"))
                read = [pathlib.Path(folder, name) for name in names]
                self.assertEqual(
                    [(path.read_bytes(), int(path.with_suffix(".cls").read_text(encoding="ascii"))) for path in read], expected
                )
                for path, settings in (
                    (mount, {"rank": rank, "world": world, "epoch": epoch}),
                    (mount, {"rank": rank, "epoch": epoch, "source": "mount_tar"}),
                    (folder, {}),
                    (folder + ".tar", {}),
                    (folder + ".list", {}),
                ):
                    with self.bytes_of(path, **settings) as loader:
                        self.assertEqual(self.contents(loader), expected)
                        self.assertEqual(loader.fingerprint(), mount.fingerprint())

    def test_set_epoch_is_the_mounts_order_of_that_epoch(self):
        with shufflefs.mount(self.set.shards) as mount, self.bytes_of(mount) as loader:
            for epoch in (0, 7, 2):
                loader.set_epoch(epoch)
                self.assertEqual(self.contents(loader), self.expected(1, 0, epoch=epoch))

    def test_a_checkpoint_of_two_ranks_goes_on_with_every_sample_once_on_any_number(self):
        for world in (1, 2, 3):
            with self.subTest(world):
                self.go_on(world)

    def test_a_checkpoint_of_contiguous_goes_on_on_the_same_world_alone(self):
        with shufflefs.mount(self.set.shards, world=2, order="contiguous", remainder="keep") as mount:
            seen, states = [], []
            for rank in range(2):
                with self.bytes_of(mount, rank=rank, batch_size=5) as loader:
                    seen += [bytes(batch.row(i)) for _, batch in zip(range(2), loader) for i in range(len(batch))]
                    states.append(loader.state_dict())
            self.assertEqual(states[0], states[1])
            for rank in range(2):
                # The mount's own world, told or not, is the same one.
                with self.bytes_of(f"{mount}/current/rank-{rank}", batch_size=4) as loader:
                    loader.load_state_dict(states[0])
                    seen += [content for content, _ in self.contents(loader)]
            self.assertTrue(sorted(seen) == sorted(self.set.data(i, "jpg") for i in range(self.N)), len(seen))
            with self.bytes_of(mount, rank=3, world=4) as loader:
                untold = {name: value for name, value in states[0].items() if name != "world"}
                for state, told in ((states[0], "2"), (untold, "not told")):
                    with self.assertRaisesRegex(
                        ValueError, f"world is {told}, this loader's 4, .*order=contiguous .* a run of its own"
                    ):
                        loader.load_state_dict(state)
                self.assertEqual(loader.state_dict()["after"], 0)
                loader.load_state_dict({**states[0], "epoch": 3, "after": 0})
                self.assertEqual(loader.epoch, 3)

    def test_a_checkpoint_of_a_ranks_parts_goes_on_on_whole_ranks_with_every_sample_once(self):
        with shufflefs.mount(self.set.shards, world=2, remainder="keep") as mount:
            seen, states = [], []
            for rank in range(2):
                for part in range(2):
                    name = f"{mount}/current/rank-{rank}.part-{part}-of-2.by-4"
                    with self.bytes_of(name, batch_size=4) as loader:
                        seen += [bytes(batch.row(i)) for _, batch in zip(range(2), loader) for i in range(len(batch))]
                        states.append(loader.state_dict())
            self.assertEqual(states, [states[0]] * 4)
            self.assertEqual((states[0]["after"], states[0]["world"]), (32, 2))
            for rank in range(3):
                with self.bytes_of(mount, rank=rank, world=3) as loader:
                    loader.load_state_dict(states[0])
                    seen += [content for content, _ in self.contents(loader)]
            self.assertTrue(sorted(seen) == sorted(self.set.data(i, "jpg") for i in range(self.N)), len(seen))

    def test_a_checkpoint_after_the_mounts_end_has_its_fingerprint(self):
        point = self.tmp / "point"
        point.mkdir()
        with shufflefs.mount(self.set.shards, point) as mount:
            loader = self.bytes_of(mount)
            self.addCleanup(loader.close)
            next(iter(loader))
            state = loader.state_dict()
            self.assertEqual(state["fingerprint"], mount.fingerprint())
        self.assertEqual(loader.state_dict(), state)
        with shufflefs.mount(self.set.shards, point), self.bytes_of(point) as other:
            other.load_state_dict(state)
            self.assertEqual(other.position().after, 8)
        # Another mount in its place is another one.
        with shufflefs.mount(self.set.shards, point, seed=9) as mount:
            with self.assertRaisesRegex(ValueError, "fingerprint"):
                loader.load_state_dict(state)
            loader.set_epoch(1)
            self.assertEqual(loader.state_dict()["fingerprint"], mount.fingerprint())

    def test_a_relative_path_is_that_of_the_folder_in_which_the_loader_was_opened(self):
        self.addCleanup(os.chdir, os.getcwd())
        with shufflefs.mount(self.set.shards) as mount:
            os.chdir(os.path.dirname(mount.path))
            with self.bytes_of(os.path.basename(mount.path)) as loader:
                os.chdir("/")
                self.assertEqual(loader.state_dict()["fingerprint"], mount.fingerprint())
                loader.set_epoch(1)
                self.assertEqual(self.contents(loader), self.expected(1, 0, epoch=1))

    def test_a_checkpoint_past_the_end_of_a_mounts_epoch_names_its_samples(self):
        with shufflefs.mount(self.set.shards, world=2) as mount, self.bytes_of(mount, rank=1) as loader:
            state = loader.state_dict()
            for after in (self.N + 2, 100, 1000):
                with self.assertRaisesRegex(ValueError, f"after sample {after}: epoch 0 of .* has {self.N} samples"):
                    loader.load_state_dict({**state, "after": after})
            loader.load_state_dict(state)
            self.assertEqual(self.contents(loader), self.expected(2, 1))

    def go_on(self, world):
        with shufflefs.mount(self.set.shards, world=2, remainder="keep") as mount:
            done, states = [], []
            for rank in range(2):
                with self.bytes_of(mount, rank=rank, epoch=1, batch_size=5) as loader:
                    for batch in loader:
                        done += [bytes(batch.row(i)) for i in range(len(batch))]
                        if batch.number == 2:
                            break
                    states.append(loader.state_dict())
            self.assertEqual(states[0], states[1])
            self.assertEqual((states[0]["epoch"], states[0]["after"]), (1, 30))
            rest = []
            for rank in range(world):
                with self.bytes_of(mount, rank=rank, world=world, batch_size=4) as loader:
                    loader.load_state_dict(states[0])
                    rest += [content for content, _ in self.contents(loader)]
            self.assertEqual(sorted(done + rest), sorted(self.set.data(i, "jpg") for i in range(self.N)))
        with shufflefs.mount(self.set.shards, seed=1) as mount, self.bytes_of(mount) as loader:
            with self.assertRaisesRegex(ValueError, "fingerprint"):
                loader.load_state_dict(states[0])


@needs_fuse
class Readme(Case):
    pictures = 0

    @case.needs_module("numpy")
    def test_the_example_is_short_and_runs_as_it_is_written(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Python\n")[1].split("\n## ")[0]
        block = re.search(r"(?:^    .*\n|^\n)+(?=^\S)", text[text.index("    import") :], re.MULTILINE).group()
        lines = [line[4:] for line in block.strip("\n").splitlines()]
        self.assertLessEqual(len(lines), 15)
        shards = [tars.write_shard(self.tmp / "s.tar", [(b"%03d.png" % i, case.png(i)) for i in range(30)])]
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(lines), *shards], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[:2] for line in done.stdout.splitlines()], [["0", "0"], ["1", "0"], ["2", "0"]])
