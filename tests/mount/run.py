#!/usr/bin/env python3
"""Runs the mount tests: real mounts, one process and one temp folder a test, nothing left behind.

Usage: run.py [--binary-dir DIR] [--slow] [--limit SECONDS] [--label TEXT] [--list] [FILTER...]
A FILTER is a part of a test's name, as --list shows it. Exit code 0: none failed.
"""
import argparse
import faulthandler
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True


def all_tests():
    def walk(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from walk(test)
            else:
                yield test
    return list(walk(unittest.TestLoader().discover(str(HERE), "test_*.py")))


def run_one(test, own, tag, seconds):
    """In a test's own process: runs it and writes what came of it to the file `outcome.json` of its folder."""
    import harness
    os.setsid()
    with open(os.devnull, "rb") as empty, open(own / "output", "wb") as output:
        for number, file in enumerate((empty, output, output)):
            os.dup2(file.fileno(), number)
    # os.environ's own is what the test's programs get.
    os.environ["XDG_CACHE_HOME"] = str(own / "cache")
    harness.FOLDER, harness.TAG = own, tag
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds - 3)
    result = unittest.TestResult()
    test.run(result)
    faults = [text for _, text in result.failures + result.errors]
    skip = result.skipped[0][1] if result.skipped else None
    (own / "outcome.json").write_text(json.dumps({"faults": faults, "skip": skip, "notes": harness.NOTES}), encoding="utf-8")


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_in_child(test, number, folder, options):
    """Returns (faults, skip reason, notes)."""
    import harness
    tag = "%s.%03d" % (folder.name.split(".")[-1], number)
    own = folder / ("%03d" % number)
    own.mkdir()
    # For anybody, as tests mount as nobody, too.
    (own / "cache").mkdir()
    (own / "cache").chmod(0o777)
    outcome = own / "outcome.json"
    seconds = max(options.limit, getattr(getattr(test, test._testMethodName), "time_limit", 0))
    # A fork: to start an interpreter and import what a test needs takes longer than most tests.
    process = multiprocessing.get_context("fork").Process(target=run_one, args=(test, own, tag, seconds))
    process.start()
    try:
        process.join(seconds)
        late = process.is_alive()
        if late:
            harness.abort_connections(tag, own)
            end_group(process)
            process.join(30)
    except BaseException:  # an interrupted run leaves nothing behind either
        end_group(process)
        harness.clear_away(tag, own)
        raise
    left = harness.clear_away(tag, own)
    end_group(process)
    faults, skip, notes = [], None, []
    if outcome.exists() and not late:
        told = json.loads(outcome.read_text(encoding="utf-8"))
        faults, skip, notes = told["faults"], told["skip"], told["notes"]
    else:
        faults = ["over its limit of %g s" % seconds if late else "the test's process died: %s" % process.exitcode]
        faults.append((own / "output").read_text(errors="replace") if (own / "output").exists() else "")
        faults += [path.read_text(errors="replace") for path in own.glob("t/*.stderr")]
    faults += ["left behind: " + line for line in left]
    if not harness.mounts(tag):
        shutil.rmtree(own, ignore_errors=True)
    return faults, skip, notes


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    parser.add_argument("--binary-dir", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--slow", action="store_true", help="the long tests too")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test (default 120)")
    parser.add_argument("--label", help="what is being tested, for the log")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    options.binary_dir = options.binary_dir.resolve()
    # For the tests' modules, which read these as they are imported.
    os.environ.update(SHUFFLEFS_TEST_BINARY_DIR=str(options.binary_dir), SHUFFLEFS_TEST_SLOW="1" if options.slow else "0")
    # In a shell's background it is ignored, and so it would be in the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tests = [t for t in all_tests() if not options.filters or any(f in t.id() for f in options.filters)]
    if options.list:
        print("\n".join(test.id() for test in tests))
        return 0
    import harness
    if options.label:
        print("mount tests: %s" % options.label, flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shufflefs-tests."))
    folder.chmod(0o755)
    passed = failed = skipped = 0
    if not tests:
        print("FAIL  no test of that name")
        failed = 1
    for number, test in enumerate(tests):
        start = time.monotonic()
        faults, skip, notes = run_in_child(test, number, folder, options)
        word = "FAIL" if faults else "skip" if skip else "ok  "
        line = "%s  %s  %.2f s" % (word, test.id(), time.monotonic() - start)
        print(line + ("  (%s)" % skip if skip and not faults else ""), flush=True)
        for text in notes:
            print("      " + text, flush=True)
        for fault in faults:
            print("      " + fault.strip().replace("\n", "\n      "), flush=True)
        passed, failed, skipped = passed + (word == "ok  "), failed + (word == "FAIL"), skipped + (word == "skip")
    left = harness.clear_away(folder.name.split(".")[-1] + ".", folder)
    if left:
        failed += 1
        print("FAIL  nothing is left behind\n      " + "\n      ".join(left))
    if not harness.mounts(str(folder)):
        shutil.rmtree(folder, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    if not sys.flags.utf8_mode:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
