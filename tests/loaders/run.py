#!/usr/bin/env python3
"""Runs the recipes of docs/loaders.md against real mounts, with the harness of the mount tests and its options.

The Python that has the loaders is LOADERS_PYTHON; without it, what needs a package is skipped.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "mount")]

import importlib.util  # noqa: E402

SPEC = importlib.util.spec_from_file_location("mount_run", HERE.parent / "mount" / "run.py")
runner = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner)
# The tests are ours, and so is the program that each of them is started by; the rest is the mount tests'.
runner.HERE = HERE
sys.path.remove(str(HERE))
sys.path.insert(0, str(HERE))

if __name__ == "__main__":
    sys.exit(runner.main())
