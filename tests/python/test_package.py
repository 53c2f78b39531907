"""The package as pip makes and installs it: with its library, for any Python, on this machine's kind."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import case
from case import ROOT, Case


class Package(Case):
    def sources(self):
        """What a build takes, and nothing that was built here."""
        copy = self.tmp / "sources"
        copy.mkdir()
        for name in ("Makefile", "README.md", "LICENSE", "MANIFEST.in", "pyproject.toml", "setup.py"):
            shutil.copy(ROOT / name, copy)
        for name in ("loader", "python", "scripts"):
            shutil.copytree(ROOT / name, copy / name)
        return copy

    def archive(self):
        """The source distribution, as tools that publish ask setuptools for it."""
        self.pip("install", "--target", self.tmp / "tools", "setuptools>=77.0.3")
        made = self.tmp / "archive"
        made.mkdir()
        script = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", script, str(made)],
            capture_output=True,
            text=True,
            cwd=self.sources(),
            env={**self.clean_environment(), "PYTHONPATH": str(self.tmp / "tools")},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (path,) = made.iterdir()
        return path

    def clean_environment(self):
        return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SHUFFLELOAD_LIBRARY")}

    def pip(self, *words, **environment):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.tmp, env={**self.clean_environment(), **environment}
        )
        said = done.stdout + done.stderr
        if done.returncode and re.search(r"Could not find a version|No module named pip|connection", said, re.IGNORECASE):
            self.skipTest("needs pip, and a registry for the build's setuptools: " + said.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, said)

    @case.slow
    def test_a_source_archive_is_all_that_a_build_needs_and_two_builds_are_the_same_bytes(self):
        # Not with CUDA: nvcc names what it makes after its own process.
        archive, found = self.archive(), []
        for number in range(2):
            # Each in a folder of another name, that pip makes.
            wheels = self.tmp / f"wheels-{number}"
            environment = {"CUDA": "0", "SOURCE_DATE_EPOCH": "1700000000"}
            self.pip("wheel", "--no-deps", "--wheel-dir", wheels, archive, **environment)
            (wheel,) = wheels.iterdir()
            found.append(wheel.read_bytes())
        self.assertIn("shuffleload/libshuffleload.so.0", zipfile.ZipFile(wheel).namelist())
        self.assertTrue(found[0] == found[1], "two builds differ")

    @case.slow
    def test_pip_makes_a_wheel_that_is_installed_and_finds_its_own_library(self):
        self.pip("wheel", "--no-deps", "--wheel-dir", self.tmp / "wheels", self.sources())
        (wheel,) = (self.tmp / "wheels").iterdir()
        self.assertRegex(wheel.name, r"^shuffleload-[0-9.]+-py3-none-linux_\w+\.whl$")
        names = set(zipfile.ZipFile(wheel).namelist())
        for name in ("shuffleload/libshuffleload.so.0", "shuffleload/py.typed", "shufflefs/py.typed", "shufflefs/__init__.py"):
            self.assertIn(name, names)
        site = self.tmp / "site"
        self.pip("install", "--no-deps", "--no-index", "--target", site, wheel)
        script = (
            "import sys, shufflefs, shuffleload as s\n"
            "print(s._library.PATH)\n"
            "print(sum(len(b) for b in s.Loader(sys.argv[1], batch_size=8, width=8, height=8)))\n"
        )
        environment = {**self.clean_environment(), "PYTHONPATH": str(site), "SHUFFLELOAD_LIBRARY": "/nonexistent"}
        path, count = self.runs(script, self.folder, cwd=self.tmp, env=environment).splitlines()
        self.assertTrue(path.startswith(str(site)), path)
        self.assertEqual(int(count), self.pictures)
