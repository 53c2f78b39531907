"""What the tests of docs/loaders.md share: a tree of pictures packed and mounted, a recipe's run in the Python that has the
loaders, and the order that must come out."""
import functools
import json
import os
import pathlib
import subprocess

import harness
import pictures
import recipes
import torch_order
from harness import MountCase

HERE = pathlib.Path(__file__).resolve().parent
PAGE = "docs/loaders.md"
# No number of processes, nor a batch of record.py, divides it.
COUNT, SEED = 402, 7
EPOCHS = 3
PYTHON = os.environ.get("LOADERS_PYTHON") and os.path.abspath(os.environ["LOADERS_PYTHON"])
# The numbers of pictures in a file of their bare pixels.
READ_PIXELS = "import sys, numpy, pictures\n" \
              "for p in numpy.fromfile(sys.argv[1], numpy.uint8).reshape(-1, 48, 64, 3): print(pictures.number_of(p))"


def python_of(name):
    """The interpreter of an environment of its own inside of LOADERS_PYTHON's, for packages that cannot stand beside the rest."""
    return str(pathlib.Path(PYTHON).parent.parent / name / "bin" / "python") if PYTHON else None


@functools.cache
def missing(modules, python=PYTHON):
    test = "import importlib.util as u, sys\nfor m in sys.argv[1:]:\n try: there = u.find_spec(m)\n" \
           " except ImportError: there = None\n if not there: print(m)"
    result = subprocess.run([python, "-c", test, *modules], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.split()


def recipe(section, word=""):
    return recipes.recipe(section, word, PAGE)


def expected(rank=0, world=1, epochs=EPOCHS):
    """[sample, label] of one rank, one epoch after the other."""
    return [[sample, pictures.class_of(sample, COUNT)] for epoch in range(epochs)
            for sample in torch_order.rank_order(COUNT, world, rank, SEED, epoch)]


class LoaderCase(MountCase):
    runs = PYTHON  # the recipes

    def need(self, *modules):
        if not PYTHON:
            self.skipTest("needs LOADERS_PYTHON: make test-loaders")
        if not os.path.exists(self.runs):
            self.skipTest("no " + self.runs)
        gone = missing(modules, self.runs)
        if gone:
            self.skipTest("%s has no %s" % (self.runs, ", ".join(gone)))

    def environment(self, **more):
        """Nothing is fetched, and nothing is kept outside of the test's folder."""
        own = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1",
               "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(self.tmp / "hf"), "KERAS_BACKEND": "torch",
               "KERAS_HOME": str(self.tmp / "keras"), "NUMBA_CACHE_DIR": str(self.tmp / "numba")}
        return {**os.environ, **own, **more}

    def python(self, *arguments, patience=240, env=None):
        result = harness.run([self.runs, *arguments], patience, cwd=self.tmp, env=env or self.environment())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def torchrun(self, processes, *arguments, **more):
        return self.python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes, *arguments, **more)

    def photographs(self, options="", scale=1):
        """A tree of pictures, packed as a user would, and mounted."""
        self.need("numpy", "PIL")
        tree = self.tmp / "tree"
        self.python(HERE / "pictures.py", tree, COUNT, scale)
        result = harness.run([harness.binary("shufflefs-pack"), tree, "-o", self.tmp / "train-%06d.tar",
                              "--shard-count", "3"])
        self.assertEqual(result.returncode, 0, result.stderr)
        shards = sorted(self.tmp.glob("train-*.tar"))
        self.assertEqual(len(shards), 3)
        return self.mount(shards, ",".join(filter(None, ("seed=%d" % SEED, options))))

    def record(self, text, mount, name, **more):
        """What `train` was given by a recipe: a list of [sample, label]."""
        self.run_recipe(text, mount, name, **more)
        return self.seen(0)

    def record_all(self, text, mount, name, processes, *slow, **more):
        """The same of each of `processes` under torchrun."""
        self.run_recipe(text, mount, name, processes, *slow, **more)
        return [self.seen(rank) for rank in range(processes)]

    def run_recipe(self, text, mount, name, processes=0, *slow, **more):
        file = self.tmp / "recipe.py"
        file.write_text(text, encoding="utf-8")
        words = [HERE / "record.py", mount.where, name, self.tmp / "seen-{rank}.json", self.tmp / "scratch", *slow]
        env = self.environment(RECIPE=str(file), **more)
        if processes:
            self.torchrun(processes, *words, env=env)
        else:
            self.python(*words, env=env)

    def seen(self, rank):
        return json.loads((self.tmp / ("seen-%d.json" % rank)).read_text(encoding="utf-8"))

    def assert_order(self, seen, wanted):
        """Sample by sample, and label by label; says where it goes wrong, not all of it."""
        for place, (got, right) in enumerate(zip(seen, wanted)):
            if list(got) != list(right):
                self.fail("at %d of %d: sample and label %s, not %s" % (place, len(wanted), got, right))
        self.assertEqual(len(seen), len(wanted))
