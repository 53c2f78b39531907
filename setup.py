"""The wheel's build: what pyproject.toml cannot say. make builds the library, which is C, and it goes into the package."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
SONAME = "libshuffleload.so.0"
LIBRARY = ROOT / "build" / SONAME
# Apart from the Makefile's files in build/.
WORK = pathlib.Path("build", "python")


def version():
    return re.search(r"^LOADER_VERSION := (\S+)$", (ROOT / "loader" / "rules.mk").read_text(), re.MULTILINE).group(1)


def build_library():
    """make knows what is built already. Without a make, what is there has to do."""
    make = shutil.which("make")
    if make:
        command = [make, f"-j{os.cpu_count() or 1}", "BUILD=build", f"build/{SONAME}"]
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode == 0:
            return
        sys.exit(f"{' '.join(command)} failed in {ROOT}; what it needs is installed by: scripts/install-deps build")
    if not LIBRARY.exists():
        sys.exit(f"{LIBRARY} is not built, and there is no make")


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # there SHUFFLELOAD_LIBRARY names it, or the system has it
            build_library()
            shutil.copyfile(LIBRARY, self._target())

    def _target(self):
        return os.path.join(self.build_lib, "shuffleload", SONAME)

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *([] if self.editable_mode else [self._target()])]


class WheelOfThePlatform(bdist_wheel):
    """For any Python, and this machine's architecture."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


(ROOT / WORK).mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfThePlatform},
    options={"build": {"build_base": str(WORK)}, "egg_info": {"egg_base": str(WORK)}},
)
