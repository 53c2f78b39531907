"""A job of several processes that stops within an epoch, and goes on with more or fewer: the README's recipes, as written."""
import itertools
import json
import os
import shutil
import subprocess
import sys
import unittest

import harness
import processes
import recipes
import tars
import torch_order
from harness import MountCase

# Where an interpreter with the packages of other loaders is; where none is given, this one.
PEERS = os.path.dirname(os.environ.get("LOADERS_PYTHON") or sys.executable)
N, BATCH, PREFETCH = 320, 4, 2
# What an order cannot do without, or is too large by default for a few small samples.
OPTIONS = {"weighted": "weights=balanced", "block": "block=4K,window=3,streams=8", "length": "lengths=size,bucket=32"}
WITH_REPLACEMENT = ("weighted", "resampled")


def name_of(rank, world):
    return "rank-%d-of-%d" % (rank, world)


def train(mount, checkpoint, rank, world, steps, barrier):
    """One process of the job: the samples that it optimised in `steps` steps (None: to the epoch's end). It reads ahead of
    these, as DataLoader does."""
    recipe = {}
    exec(recipes.recipe("Resume", "def resume"), recipe)  # pylint: disable=exec-used
    epoch, after = recipe["resume"](checkpoint, mount, name_of(rank, world))
    barrier.wait(harness.PATIENCE)
    folder = os.path.join(mount, "current", name_of(rank, world))
    names = [name for name in os.listdir(folder) if name.endswith(".jpg")]
    if steps is not None:
        names = names[:(steps + PREFETCH) * BATCH]
    read = [tars.sample_of(harness.read(os.path.join(folder, name))) for name in names]
    if rank == 0 and steps is not None:
        recipe["save"](checkpoint, mount, epoch, after + world * BATCH * steps)
    elif rank == 0:
        recipe["save"](checkpoint, mount, epoch + 1, 0)
    return read if steps is None else read[:steps * BATCH]


def in_step(ranks):
    """The samples of all ranks in the order in which a job in step optimises them."""
    return [sample for step in itertools.zip_longest(*ranks) for sample in step if sample is not None]


class Job(MountCase):
    EPOCH = 2

    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, cls=lambda i: b"%d" % (i % 7))
        self.checkpoint = str(self.tmp / "checkpoint")

    def begin(self, mount):
        recipe = {}
        exec(recipes.recipe("Resume", "def resume"), recipe)  # pylint: disable=exec-used
        recipe["save"](self.checkpoint, mount.where, self.EPOCH, 0)

    def at(self):
        with open(self.checkpoint, encoding="utf-8") as file:
            state = json.load(file)
        return state["epoch"], state["after"]

    def run_ranks(self, mount, world, steps):
        barrier = processes.FORK.Barrier(world)
        return in_step(processes.parallel(train, [(mount.where, self.checkpoint, rank, world, steps, barrier)
                                                  for rank in range(world)]))

    def global_order(self, mount):
        """What one rank alone reads in the epoch."""
        folder = ("epoch-%d" % self.EPOCH, "rank-0-of-1")
        return [tars.sample_of(mount.read(*folder, name)) for name in mount.list(*folder) if name.endswith(".jpg")]

    def go_through_an_epoch(self, options, draw):
        """On 8 ranks, on 6, and on 8 again. What was read beyond the epoch, for padding; and the epoch's order."""
        mount = self.mount(self.data_set.shards, options)
        whole, done = self.global_order(mount), []
        self.begin(mount)
        for world in (8, 6):
            steps = draw.randrange(1, 5)
            done += self.run_ranks(mount, world, steps)
            self.assertEqual(self.at(), (self.EPOCH, len(done)))
            self.assertEqual(done, whole[:len(done)])
        done += self.run_ranks(mount, 8, None)
        self.assertEqual(self.at(), (self.EPOCH + 1, 0))
        self.assertEqual(done[:len(whole)], whole[:len(done)])
        mount.unmount()
        return done[len(whole):], whole

    def test_every_order_goes_on_with_each_sample_once_on_other_ranks(self):
        draw = torch_order.generator(21)
        made = 0
        for order in ("torch", "sequential", "weighted", "resampled", "block", "feistel", "length"):
            if "not in this version" in harness.run([harness.binary("shufflefs-order"), "-n", "8", "--order", order]).stderr:
                continue
            made += 1
            with self.subTest(order=order):
                options = ",".join(filter(None, ("seed=3,order=" + order, OPTIONS.get(order))))
                beyond, whole = self.go_through_an_epoch(options, draw)
                self.assertLess(len(beyond), 8)
                if order not in WITH_REPLACEMENT:
                    self.assertEqual(sorted(whole), list(range(N)))
        self.assertGreaterEqual(made, 2)

    def test_without_padding_nothing_is_read_twice(self):
        self.assertEqual(self.go_through_an_epoch("remainder=keep", torch_order.generator(22))[0], [])

    def test_another_data_set_is_not_taken_for_the_one_of_the_checkpoint(self):
        mount = self.mount(self.data_set.shards, "seed=1")
        self.begin(mount)
        other = self.mount(self.data_set.shards, "seed=2")
        recipe = {}
        exec(recipes.recipe("Resume", "def resume"), recipe)  # pylint: disable=exec-used
        with self.assertRaisesRegex(AssertionError, "other shards, or another order"):
            recipe["resume"](self.checkpoint, other.where, "rank-0")
        self.assertEqual(other.read(".control", "rank-0.epoch"), b"0\n")

    TORCHRUN = """
import json, os, sys
import torch.distributed as dist
sys.path.insert(0, sys.argv[1])
import test_job

class Barrier:
    def wait(self, patience):
        dist.barrier()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
steps = None if sys.argv[4] == "None" else int(sys.argv[4])
read = test_job.train(sys.argv[2], sys.argv[3], rank, world, steps, Barrier())
ranks = [None] * world
dist.all_gather_object(ranks, read)
if rank == 0:
    with open(sys.argv[5], "w") as out:
        json.dump(test_job.in_step(ranks), out)
dist.destroy_process_group()
"""

    @harness.slow
    @harness.limit(600)
    @unittest.skipUnless(os.path.exists(PEERS + "/torchrun") or shutil.which("torchrun"), "needs torchrun")
    def test_a_job_of_torchruns_goes_on_too(self):
        torchrun = PEERS + "/torchrun" if os.path.exists(PEERS + "/torchrun") else shutil.which("torchrun")
        script, out = self.tmp / "job.py", self.tmp / "out.json"
        script.write_text(self.TORCHRUN, encoding="utf-8")
        mount = self.mount(self.data_set.shards, "seed=4")
        self.begin(mount)
        done = []
        for world, steps in ((8, 3), (6, 5), (8, None)):
            result = harness.run([torchrun, "--standalone", "--nproc-per-node", world, script, harness.HERE, mount.where,
                                  self.checkpoint, steps, out], patience=180, env=dict(os.environ, OMP_NUM_THREADS="1"))
            self.assertEqual(result.returncode, 0, result.stderr)
            done += json.loads(out.read_text(encoding="utf-8"))
        whole = self.global_order(mount)
        self.assertEqual(done[:N], whole)
        self.assertLess(len(done) - N, 8)


class Workers(MountCase):
    # Every loader forks its workers from this process, which has imported torch once.
    SCRIPT = """
import json, sys
mount, name = sys.argv[1:3]
recipe = sys.stdin.read()
found = []
for text in sys.argv[3:]:
    with open(f"{mount}/.control/{name}.epoch", "w") as control:
        control.write(text)
    exec(recipe)
    found.append([[int(picture.split()[1]) for picture in pictures] for pictures, classes in loader])
json.dump(found, sys.stdout)
"""

    def python(self):
        """One that has webdataset and torch."""
        test = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ('torch', 'webdataset'))))"
        for python in (os.environ.get("LOADERS_PYTHON") or sys.executable, sys.executable):
            if os.path.exists(python) and harness.run([python, "-c", test]).returncode == 0:
                return python
        return self.skipTest("needs webdataset and torch")

    @harness.limit(300)
    def test_webdatasets_workers_give_the_ranks_batches_in_order(self):
        python = self.python()
        data_set = tars.make_dataset(self.tmp / "shards", N, cls=lambda i: b"%d" % (i % 7))
        mount = self.mount(data_set.shards, "world=2")
        result = subprocess.run([python, "-c", self.SCRIPT, mount.where, "rank-0", "3", "3 after 64"], text=True,
                                input=recipes.recipe("Workers", "WebDataset"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=240, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for batches, expected in zip(json.loads(result.stdout), (torch_order.rank_order(N, 2, 0, epoch=3),
                                                                 torch_order.rank_order(N, 1, 0, epoch=3)[64::2])):
            self.assertEqual(batches, [expected[at:at + 32] for at in range(0, len(expected), 32)])
