"""How a loader ends: closed, left alone, interrupted, forked, with its interpreter. Nothing is left, hangs, or is lost."""

import gc
import multiprocessing
import os
import signal
import threading
import time
import unittest.mock

import case
import shuffleload
from case import Case, threads
from shuffleload import _library

# What scripts begin with. Their first argument is a folder of pictures, or another path.
BEGIN = """
import os, signal, sys, threading, time
import shuffleload
def open_loader(**settings):
    return shuffleload.Loader(sys.argv[1], **{**dict(batch_size=4, width=8, height=8, crop="stretch", workers=2), **settings})
"""


class Closed(Case):
    def test_the_end_of_a_with_ends_threads_and_files_and_leaves_batches(self):
        with self.loader() as loader:
            batch = next(iter(loader))
            self.assertEqual(threads().count("sl-worker"), 2)
        self.assertEqual(threads(), [])
        self.assertEqual(case.files(), self.files)
        self.assertEqual([batch.row(i)[0] for i in range(8)], list(range(8)))
        self.assertIsNotNone(batch.labels.__dlpack__())
        self.assertIn("closed", repr(loader))

    def test_every_use_after_the_end_says_closed(self):
        loader = self.loader()
        batches = iter(loader)
        loader.close()
        loader.close()
        for use in (
            lambda: next(batches),
            lambda: iter(loader),
            lambda: len(loader),
            lambda: loader.set_epoch(1),
            lambda: loader.seek(0, 8),
            loader.position,
            loader.state_dict,
            loader.stats,
            lambda: loader.epoch,
        ):
            with self.assertRaisesRegex(ValueError, "closed"):
                use()

    def test_a_loader_that_nobody_has_any_more_is_closed_and_its_batches_stay(self):
        loader = self.loader()
        batch = next(iter(loader))
        self.assertNotEqual(threads(), [])
        del loader
        gc.collect()
        self.assertEqual(threads(), [])
        self.assertEqual(batch.row(3)[0], 3)

    def test_the_last_batch_of_a_loader_that_is_gone_gives_its_memory_back(self):
        def mapped():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[0]) * 4096

        def use():
            with self.loader(width=128, height=128, prefetch=4) as loader:
                batch = next(iter(loader))
            return batch.images.view()

        arena = 6 * 8 * 128 * 128 * 3  # prefetch and hold, samples, a sample
        use()
        before = mapped()
        kept = [use() for _ in range(10)]
        self.assertGreater(mapped(), before + 10 * arena)
        del kept
        self.assertLess(mapped(), before + arena)

    def test_a_cell_that_runs_again_leaves_nothing_of_the_loader_before(self):
        cell = "loader = make()\nfor batch in loader:\n  images = batch.images.view()\n  if batch.number == 1:\n    break\n"
        names = {"make": self.loader}
        for _ in range(4):
            exec(cell, names)
            gc.collect()
            self.assertEqual(threads().count("sl-worker"), 2)
            self.assertEqual(names["batch"].number, 1)
        names.clear()

    def test_a_cell_that_failed_and_runs_again_leaves_at_most_the_loader_of_the_last_failure(self):
        # As in a notebook, which keeps the last exception, and with its traceback all that the cell had.
        cell = "loader = make()\nfor batch in loader:\n  images = batch.images.view()\n  raise ArithmeticError\n"
        names = {"make": self.loader}
        kept = None
        for _ in range(5):
            try:
                exec(cell, names)
            except ArithmeticError as error:
                kept = error
            gc.collect()
            self.assertLessEqual(threads().count("sl-worker"), 4)
            self.assertIsNotNone(kept)
        kept = None
        names.clear()
        gc.collect()
        self.assertEqual(threads(), [])

    def test_an_exception_in_the_loop_leaves_nothing(self):
        def train():
            for batch in self.loader():
                raise ArithmeticError(batch.number)

        with self.assertRaises(ArithmeticError):
            train()
        gc.collect()
        self.assertEqual(threads(), [])

    def test_another_thread_closes_a_loader_that_is_waited_for(self):
        loader = self.loader(self.fifo())
        told = []

        def wait():
            try:
                next(iter(loader))
            except ValueError as error:
                told.append(str(error))

        waiter = threading.Thread(target=wait)
        waiter.start()
        while not loader.stats().consumer_wait_ns:  # until a slice of waiting is over
            time.sleep(0.001)
        loader.close()
        waiter.join(30)
        self.assertEqual(told, ["the loader is closed"])

    def test_a_signal_handler_closes_the_loader_that_it_interrupts(self):
        script = (
            BEGIN
            + """
        loader = open_loader()
        def close(number, frame):
            loader.close()
        signal.signal(signal.SIGALRM, close)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            next(iter(loader))
        except ValueError as error:
            print(error)
        """
        )
        self.assertEqual(self.runs(dedented(script), self.fifo()), "the loader is closed\n")


def dedented(script):
    return "\n".join(line[8:] if line.startswith("        ") else line for line in script.splitlines())


class Interrupted(Case):
    def test_ctrl_c_ends_the_wait_for_a_batch_within_a_fifth_of_a_second(self):
        script = (
            BEGIN
            + """
        sent = []
        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        loader = open_loader()
        batches = iter(loader)
        best = 100
        for attempt in range(3):
            threading.Timer(0.1, send).start()
            try:
                next(batches)
            except KeyboardInterrupt:
                best = min(best, time.monotonic() - sent[-1])
        print(best)
        """
        )
        self.assertLess(float(self.runs(dedented(script), self.fifo())), 0.2)

    def test_a_batch_that_came_with_the_interrupt_is_not_lost_and_not_counted(self):
        """The interrupt is seen when the library has handed the batch out, and before anybody has it."""
        real = {name: getattr(_library, name) for name in ("sl_next", "sl_next_now", "sl_export", "sl_release")}
        for interrupted in real:
            left = []

            def interrupt(*arguments, name=interrupted, left=left):
                if name == "sl_next_now":  # the batch is there
                    status = real["sl_next"](*arguments[:2], 60000)
                else:
                    status = real[name](*arguments)
                if status != _library.TIMEOUT and left:
                    left.pop()
                    raise KeyboardInterrupt
                return status

            def wait(pointer, place, milliseconds):
                return _library.TIMEOUT

            with (
                self.subTest(interrupted),
                self.loader() as loader,
                unittest.mock.patch.object(_library, interrupted, interrupt),
            ):
                if interrupted == "sl_next":
                    patch = unittest.mock.patch.object(_library, "sl_next_now", wait)
                    patch.start()
                    self.addCleanup(patch.stop)
                batches = iter(loader)
                first = next(batches)
                left.append(True)
                before = loader.position()
                with self.assertRaises(KeyboardInterrupt):
                    next(batches)
                self.assertEqual(loader.position(), before)
                self.assertEqual(loader.state_dict()["after"], 8)
                second = next(batches)
                self.assertEqual((first.number, second.number), (0, 1))
                self.assertEqual(loader.state_dict()["after"], 16)
                # And one that is dropped by a new epoch is not held for ever.
                left.append(True)
                first = second = None
                with self.assertRaises(KeyboardInterrupt):
                    next(batches)
                loader.set_epoch(1)
                self.assertEqual([batch.number for batch in loader], list(range(5)))
                unittest.mock.patch.stopall()

    def test_an_interrupt_that_comes_with_the_open_loader_leaves_no_thread(self):
        real = _library.sl_open

        def interrupt(*arguments):
            self.assertEqual(real(*arguments), 0)
            raise KeyboardInterrupt

        with unittest.mock.patch.object(_library, "sl_open", interrupt), self.assertRaises(KeyboardInterrupt):
            self.loader()
        self.assertEqual(threads(), [])

    def test_an_interrupt_ends_the_wait_for_a_close_that_hangs(self):
        release = threading.Event()
        self.addCleanup(release.set)
        real = _library.sl_close

        def hang(pointer):
            release.wait(60)
            real(pointer)

        main = threading.get_ident()
        loader = self.loader()
        timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
        with unittest.mock.patch.object(_library, "sl_close", hang):
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                loader.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            next(iter(loader))
        release.set()
        timer.join()
        while threads():
            time.sleep(0.001)


class Exit(Case):
    """The interpreter ends in the middle of an epoch: at once, with its own code, and without a word."""

    def test_with_batches_arrays_and_capsules_alive(self):
        script = (
            BEGIN
            + """
        loader = open_loader(width=256, height=256)
        batches = iter(loader)
        batch = next(batches)
        other = next(batches).images.view()
        capsule = batch.images.__dlpack__()
        try:
            import numpy
            array = batch.images.numpy()
        except ImportError:
            pass
        print("done")
        """
        )
        self.assertEqual(self.runs(dedented(script), self.folder), "done\n")

    def test_in_the_loop_by_sys_exit_or_an_exception(self):
        for word, code, said in (("sys.exit(7)", 7, ""), ("raise ArithmeticError", 1, "ArithmeticError")):
            done = self.python(BEGIN + f"for batch in open_loader():\n    {word}\n", self.folder)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Exception ignored", done.stderr)

    def test_while_another_thread_waits_for_a_batch(self):
        script = (
            BEGIN
            + """
        loader = open_loader()
        threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
        while not loader.stats().consumer_wait_ns:
            time.sleep(0.001)
        """
        )
        self.runs(dedented(script), self.fifo())

    def test_with_the_end_of_python_itself_while_torch_has_a_tensor(self):
        if not case.importlib.util.find_spec("torch"):
            self.skipTest("needs the Python module torch")
        script = (
            BEGIN
            + """
        import torch
        kept = torch.from_dlpack(next(iter(open_loader())).images)
        parameter = torch.nn.Parameter(torch.ones(1))
        total = (kept.float() * parameter).sum()
        total.backward()
        torch.kept_until_the_end = kept
        """
        )
        self.runs(dedented(script), self.folder)


class Forked(Case):
    SAYS = "belongs to the process that forked"

    def in_child(self, work):
        """work() in a forked child that ends as a process of multiprocessing does; its result must be true."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if work() else 2
            finally:
                os._exit(code)
        end = time.monotonic() + 60
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.fail("the child hangs")
            time.sleep(0.001)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_a_child_gets_an_error_and_its_parent_goes_on(self):
        with self.loader(hold=3) as loader:
            batches = iter(loader)
            batch = next(batches)

            def refused():
                for use in (
                    lambda: next(batches),
                    lambda: loader.set_epoch(3),
                    lambda: len(loader),
                    loader.stats,
                    loader.state_dict,
                ):
                    try:
                        use()
                    except shuffleload.ShuffleloadError as error:
                        if self.SAYS not in str(error):
                            return False
                    else:
                        return False
                loader.close()
                return batch.row(5)[0] == 5

            self.in_child(refused)
            self.assertEqual([batch.number for batch in batches], [1, 2, 3, 4])

    def test_a_child_that_drops_what_it_inherited_does_not_hang_whatever_the_parent_was_doing(self):
        with self.loader(batch_size=1, hold=30) as loader:
            stop = threading.Event()

            def churn():
                while not stop.is_set():
                    for batch in loader:
                        batch.images.__dlpack__()
                        del batch
                    loader.set_epoch(0)

            worker = threading.Thread(target=churn)
            worker.start()
            kept = [loader]

            def drop():
                kept.clear()
                gc.collect()
                with self.loader() as own:  # and opens one of its own
                    return [batch.number for batch in own] == list(range(5)) and bool(own)

            for _ in range(5):
                self.in_child(drop)
            stop.set()
            worker.join()

    def test_a_forked_child_ends_in_order_too(self):
        script = (
            BEGIN
            + """
        loader = open_loader()
        batch = next(iter(loader))
        view = batch.images.view()
        child = os.fork()
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        )
        self.runs(dedented(script), self.folder)

    @case.needs_module("torch")
    def test_a_worker_of_torchs_dataloader_reads_with_a_loader_of_its_own_and_is_told_of_its_parents(self):
        script = (
            BEGIN
            + """
        import torch
        from torch.utils.data import DataLoader, IterableDataset
        class Batches(IterableDataset):
            def __init__(self, loader=None):
                self.loader = loader
            def __iter__(self):
                for batch in self.loader or open_loader():
                    yield torch.from_dlpack(batch.images).clone()[:, 0, 0, 0].tolist()
        for persistent in (False, True):
            rows = DataLoader(Batches(), batch_size=None, num_workers=1, persistent_workers=persistent)
            for epoch in range(2):
                assert sum(rows, []) == list(range(40)), epoch
        parents = open_loader()
        first = next(iter(parents))
        try:
            list(DataLoader(Batches(parents), batch_size=None, num_workers=1))
        except OSError as error:
            print("ShuffleloadError: the loader belongs to the process that forked" in str(error))
        print(sum(len(batch) for batch in parents), first.row(3)[0])
        """
        )
        self.assertEqual(self.runs(dedented(script), self.folder), "True\n40 3\n")

    def test_multiprocessing_tells_what_is_wrong(self):
        with self.loader() as loader:
            for method in ("spawn", "forkserver"):
                process = multiprocessing.get_context(method).Process(target=len, args=(loader,))
                with self.assertRaisesRegex(TypeError, "make it in the process that reads"):
                    process.start()
        for resource in ("resource_tracker", "forkserver"):  # multiprocessing's own helpers are no loader's
            module = getattr(multiprocessing, resource, None)
            stop = getattr(getattr(module, "_" + resource, None), "_stop", None)
            if stop:
                stop()
