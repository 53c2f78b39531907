"""What bench/ says was cold, was; a rate is that of what was timed; what could not be measured is named."""
import json
import mmap
import os
import subprocess
import sys
import time
from unittest import mock

import harness
from harness import MountCase, wait_until

BENCH = harness.ROOT / "bench"
sys.path.append(str(BENCH))

import child  # noqa: E402
import cold  # noqa: E402
import measure  # noqa: E402
import pointed  # noqa: E402

sys.path.remove(str(BENCH))  # it has modules of the same names as some here


class Measuring(MountCase):
    def make_file(self, name, size=1 << 20):
        if measure.filesystem_of(self.tmp) in ("tmpfs", "ramfs"):
            self.skipTest("the temporary folder is in memory: its files are never cold")
        path = self.tmp / name
        with open(path, "wb") as file:
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())
        return str(path)

    def test_a_file_that_was_read_is_in_the_page_cache_and_one_made_cold_is_not(self):
        path = self.make_file("read")
        measure.cache([path])
        self.assertEqual(cold.resident(path), 1)
        cold.make_cold([path])
        self.assertEqual(cold.resident(path), 0)

    def test_files_that_somebody_keeps_in_the_page_cache_are_not_called_cold(self):
        path = self.make_file("mapped")
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            self.assertEqual(len(view[::mmap.PAGESIZE]), len(view) // mmap.PAGESIZE)
            with self.assertRaisesRegex(measure.BenchError, "stay in the page cache"):
                cold.make_cold([path])

    def test_a_rate_leaves_out_each_workers_first_batch_and_ends_with_a_turn_of_them_all(self):
        taken = []

        def batches():
            for count in range(1, 100):
                taken.append(count)
                yield count

        with mock.patch.object(time, "perf_counter", side_effect=[10.0, 11.0, 12.0]):
            rate = pointed.rate(batches(), workers=2, samples=8, seconds=60)
        self.assertEqual((rate, taken[-1]), ((3 + 4 + 5 + 6) / 2, 6))
        with mock.patch.object(time, "perf_counter", side_effect=[10.0, 14.0]):
            self.assertEqual(pointed.rate(batches(), workers=2, samples=1000, seconds=3), 7 / 4)

    def test_an_epoch_that_is_too_short_gives_no_rate(self):
        self.assertIsNone(pointed.rate(iter([1, 1, 1, 1]), workers=2, samples=100, seconds=60))

    def test_a_loader_that_is_not_installed_is_named_and_left_out(self):
        command = [sys.executable, "-I", "-S", str(BENCH / "pointed.py"), "torchvision", "files:/", "1", "1", "1", "1"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertEqual(done.stderr, "not installed: torch, torchvision\n")
        with self.assertRaisesRegex(child.NotInstalled, "torch, torchvision"):
            child.output_of(command, 60)

    def test_what_a_loader_started_ends_with_it(self):
        """As workers of a loader that was not closed: they have its output, too."""
        place = self.tmp / "worker"
        script = ("import os, time\npid = os.fork()\nif not pid: time.sleep(600)\n"
                  "open(os.sys.argv[1], 'w').write(str(pid)); print(7)")
        self.assertEqual(child.output_of([sys.executable, "-c", script, str(place)], 60), "7\n")
        worker = int(place.read_text(encoding="utf-8"))
        wait_until(lambda: not self.is_alive(worker), "the worker's end")

    def is_alive(self, pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(") ")[2][0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_a_loader_that_hangs_is_ended_and_named(self):
        with self.assertRaisesRegex(measure.BenchError, "took over 0.1 s"):
            child.output_of(["sleep", "600"], 0.1)

    def test_what_was_measured_says_when_of_what_and_under_which_load(self):
        with open(os.devnull, "w", encoding="utf-8") as nowhere, mock.patch.object(sys, "stdout", nowhere):
            report = measure.Report("a machine")
            with report.measuring("peers", 3, "9 photographs"):
                report.section("title")
                report.add("one", "images/s", [1, 2, 3])
                report.leave_out("two", "not installed")
        report.write_json(self.tmp / "told.json")
        told = json.loads((self.tmp / "told.json").read_text(encoding="utf-8"))
        part = told["parts"]["peers"]
        self.assertEqual((part["machine"], part["data"], part["rounds"]), ("a machine", "9 photographs", 3))
        self.assertEqual(len(part["load_average"]), 2)
        self.assertEqual([(one["part"], one["median"]) for one in told["figures"]], [("peers", 2)])
        self.assertEqual(told["left_out"], [{"part": "peers", "name": "two", "reason": "not installed"}])
