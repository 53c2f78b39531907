#!/usr/bin/env python3
"""Runs the tests of the Python package: run.py [--binary-dir DIR] [--slow] [--list] [FILTER...]

The package is taken from python/, the library and the programs from DIR (build). A FILTER is a part of a test's name. Each
test has a folder of its own, and leaves no mount, process or file. Exit code 0: none failed.
"""

import argparse
import faulthandler
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="*", metavar="FILTER")
    parser.add_argument("--binary-dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--slow", action="store_true", help="the long tests too")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test (default 120)")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(arguments)


def prepare(options, folder):
    """What the tests, and the interpreters that they start, need."""
    binaries = options.binary_dir.resolve()
    os.environ.update(
        SHUFFLELOAD_LIBRARY=str(binaries / "libshuffleload.so.0"),
        SHUFFLEFS_PROGRAM=str(binaries / "shufflefs"),
        SHUFFLEFS_TEST_BINARY_DIR=str(binaries),
        SHUFFLEFS_TEST_SLOW="1" if options.slow else "0",
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUTF8="1",
        TMPDIR=folder,
        XDG_CACHE_HOME=os.path.join(folder, "cache"),
    )
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"):
        os.environ.pop(name, None)
    tempfile.tempdir = folder
    # Who was started in the background of a shell ignores it, and so would the tests' interpreters.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(ROOT / "python"), str(HERE), str(ROOT / "tests" / "mount")]


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def run_one(test, limit):
    """(word, seconds, skip reason, faults)"""
    faulthandler.dump_traceback_later(limit, exit=True)
    start = time.monotonic()
    result = unittest.TestResult()
    try:
        test.run(result)
    except BaseException:
        result.errors.append((test, traceback.format_exc()))
    faulthandler.cancel_dump_traceback_later()
    faults = [text for _, text in result.failures + result.errors]
    skip = result.skipped[0][1] if result.skipped else None
    return "FAIL" if faults else "skip" if skip else "ok  ", time.monotonic() - start, skip, faults


def run_all(options, folder):
    import harness

    tests = list(flatten(unittest.TestLoader().discover(str(HERE), "test_*.py")))
    tests = [test for test in tests if not options.filters or any(part in test.id() for part in options.filters)]
    if options.list:
        print("\n".join(test.id() for test in tests))
        return 0
    count = {"ok  ": 0, "FAIL": 0, "skip": 0}
    if not tests:
        print("FAIL  no test of that name")
        count["FAIL"] = 1
    for test in tests:
        word, seconds, skip, faults = run_one(test, options.limit)
        print(f"{word}  {test.id()}  {seconds:.2f} s" + (f"  ({skip})" if word == "skip" else ""), flush=True)
        for fault in faults:
            print("      " + fault.strip().replace("\n", "\n      "), flush=True)
        count[word] += 1
    left = harness.clear_away(os.path.basename(folder), folder)
    left += [f"file: {name}" for name in os.listdir(folder) if name != "cache"]
    if left:
        count["FAIL"] += 1
        print("FAIL  nothing is left behind\n      " + "\n      ".join(left))
    print(f"{count['ok  ']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return 1 if count["FAIL"] else 0


def main():
    options = parse(sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="shuffleload-tests.")
    try:
        prepare(options, folder)
        return run_all(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
