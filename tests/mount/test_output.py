"""Output that cannot be written is a fault of every program's: it says so and does not exit with 0."""
import unittest

import harness
import tars
from harness import MountCase, binary, run

PROGRAMS = ("shufflefs", "shufflefs-order", "shufflefs-pack", "shufflefs-top", "shufflefs-bench", "shufflefs-check")


def shell(redirection, *command):
    return run(["sh", "-c", '"$@" ' + redirection, "sh", *command])


class Output(unittest.TestCase):
    def expect(self, said, redirection, *command):
        result = shell(redirection, *command)
        self.assertEqual((result.returncode, result.stderr),
                         (1, "%s: standard output: %s\n" % (command[0].rsplit("/", 1)[-1], said)), command)

    def commands(self):
        for name in PROGRAMS:
            for word in ("--help", "-h", "--version", "-V"):
                yield binary(name), word
        yield binary("shufflefs-order"), "-n", "3"
        yield binary("shufflefs-order"), "-n", "100000", "--json"
        for command in ("read", "load"):
            yield binary("shufflefs-bench"), command, "--help"

    def test_a_full_device_is_told(self):
        for command in self.commands():
            self.expect("No space left on device", ">/dev/full", *command)

    def test_a_closed_output_is_told(self):
        for command in self.commands():
            self.expect("it is closed", ">&-", *command)

    def test_what_can_be_written_is_no_fault(self):
        for command in self.commands():
            result = run(command)
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertTrue(result.stdout)


class Reports(MountCase):
    def test_reports_that_cannot_be_written_are_told(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10, shards=1)
        mount = self.mount(data_set.shards)
        top = [binary("shufflefs-top"), mount.where, "--interval", "0.05"]
        bench = [binary("shufflefs-bench"), "read", "--rounds", "1", data_set.shards[0]]
        check = [binary("shufflefs-check"), data_set.shards[0]]
        for command in (top, top + ["--once"], top + ["--json"], bench, bench + ["--json"], check, check + ["--json"],
                        check + ["--json", "--samples"]):
            for redirection, said in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
                result = shell(redirection, *command)
                program = command[0].rsplit("/", 1)[-1]
                self.assertEqual((result.returncode, result.stderr),
                                 (1, "%s: standard output: %s\n" % (program, said)), command)
                self.assertNotRegex(result.stderr, harness.SANITIZER)
