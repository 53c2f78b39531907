"""Jobs of four processes: torchrun, gloo, a rank that is slower than the rest; and a network that learns the same from
the mount as from plain files, bit for bit."""
import json

import case
import harness
import recipes
import torch_order
from case import COUNT, EPOCHS, LoaderCase, expected, recipe

WORLD = 4


class Jobs(LoaderCase):
    @harness.limit(400)
    def test_four_processes_read_their_ranks_however_slow_one_is(self):
        # Nothing holds the processes together: the slow one is still in an epoch that the others have left.
        self.need("torch", "PIL")
        mount = self.photographs()
        ranks = self.record_all(recipe("A Dataset of your own"), mount, "rank-{rank}-of-4", WORLD, 2, 0.4)
        for rank, seen in enumerate(ranks):
            self.assert_order(seen, expected(rank, WORLD))
        share = len(ranks[0]) // EPOCHS
        for epoch in range(EPOCHS):
            read = sorted(sample for seen in ranks for sample, _ in seen[epoch * share:(epoch + 1) * share])
            order = torch_order.epoch_order(COUNT, case.SEED, epoch)
            self.assertEqual(read, sorted(order + order[:-COUNT % WORLD]))

    @harness.limit(400)
    def test_four_processes_with_libshuffleload(self):
        self.need("torch", "numpy")
        mount = self.photographs()
        ranks = self.record_all(recipe("libshuffleload"), mount, "rank-{rank}-of-4", WORLD, 2, 0.1,
                                PYTHONPATH=str(harness.ROOT / "python"),
                                SHUFFLELOAD_LIBRARY=harness.binary("libshuffleload.so"))
        for rank, seen in enumerate(ranks):
            self.assert_order(seen, expected(rank, WORLD))

    def with_accelerate(self, change=lambda text: text):
        """What each process saw, an epoch at a time, of the recipe after a change to it."""
        self.need("accelerate", "torch", "PIL")
        mount = self.photographs()
        own = recipe("A Dataset of your own")
        own = own[:own.index("loader = ")]
        text = change(recipe("Frameworks that put in a sampler", "prepare("))
        ranks = self.record_all(own + text, mount, "rank-0-of-1", WORLD, 1, 0.2, ACCELERATE_USE_CPU="1")
        shares = [len(seen) // EPOCHS for seen in ranks]
        return [[seen[epoch * share:(epoch + 1) * share] for seen, share in zip(ranks, shares)] for epoch in range(EPOCHS)]

    def check_dealt_by_batches(self, epoch, ranks, batch=16):
        """What all processes read, in order; the epoch's start first."""
        whole = expected(0, 1, EPOCHS)[epoch * COUNT:(epoch + 1) * COUNT]
        read = sum((seen[at:at + batch] for at in range(0, len(ranks[0]), batch) for seen in ranks), [])
        self.assert_order(read[:COUNT], whole)
        return read, whole

    @harness.limit(400)
    def test_accelerate_deals_the_whole_epoch_by_batches(self):
        for epoch, ranks in enumerate(self.with_accelerate()):
            read, whole = self.check_dealt_by_batches(epoch, ranks)
            # It fills up with samples from the epoch's start, so that all have as many batches, and these are whole.
            self.assertEqual([len(seen) for seen in ranks], [-(-COUNT // (16 * WORLD)) * 16] * WORLD)
            self.assert_order(read[COUNT:], whole[:len(read) - COUNT])

    @harness.limit(400)
    def test_accelerate_without_even_batches_deals_each_sample_once(self):
        uneven = recipe("Frameworks that put in a sampler", "even_batches=False")
        for epoch, ranks in enumerate(self.with_accelerate(lambda text: text.replace("accelerator = Accelerator()", uneven))):
            read, _ = self.check_dealt_by_batches(epoch, ranks)
            self.assertEqual(len(read), COUNT)

    @harness.limit(400)
    def test_accelerate_with_drop_last_deals_whole_steps_alone(self):
        dropping = self.with_accelerate(lambda text: text.replace("Rank(), batch,", "Rank(), batch, drop_last=True,"))
        for epoch, ranks in enumerate(dropping):
            read = sum((seen[at:at + 16] for at in range(0, len(ranks[0]), 16) for seen in ranks), [])
            self.assertEqual(len(read), COUNT // (16 * WORLD) * 16 * WORLD)
            self.assert_order(read, expected(0, 1, EPOCHS)[epoch * COUNT:(epoch + 1) * COUNT][:len(read)])

    def train(self, setup, mount, out):
        script = self.tmp / ("%s.py" % out)
        script.write_text(setup, encoding="utf-8")
        environment = self.environment(PYTHONPATH=str(harness.ROOT / "python"),
                                       SHUFFLELOAD_LIBRARY=harness.binary("libshuffleload.so"))
        self.torchrun(WORLD, case.HERE / "train.py", script, self.tmp / "tree", mount.where, self.tmp / out, env=environment)
        return [json.loads((self.tmp / ("%s-%d.json" % (out, rank))).read_text(encoding="utf-8")) for rank in range(WORLD)]

    @harness.limit(600)
    def test_training_on_the_mount_is_training_on_files_with_a_sampler_bit_for_bit(self):
        """And through libshuffleload it is training on the same samples in the same order, with a decoder of its own."""
        self.need("torch", "torchvision")
        mount = self.photographs(scale=8)
        whole_class = recipes.recipe("PyTorch", "class Rank").split("\ndata = ")[0]
        section = "What changes in a torch script"
        jobs = {"files": self.train(recipe(section, "DistributedSampler"), mount, "files"),
                "mount": self.train(whole_class + "\n" + recipe(section, "Rank("), mount, "view"),
                "libshuffleload": self.train(recipe(section, "shuffleload"), mount, "own")}
        for job in jobs.values():
            for rank in range(WORLD):
                self.assert_order(job[rank]["seen"], expected(rank, WORLD))
            losses = [float.fromhex(loss) for loss in job[0]["losses"]]
            self.assertLess(losses[-1], losses[0])
        for rank in range(WORLD):
            self.assertEqual(jobs["files"][rank]["losses"], jobs["mount"][rank]["losses"])
            self.assertEqual(len(jobs["files"][rank]["losses"]), len(jobs["libshuffleload"][rank]["losses"]))
        self.assertNotEqual(jobs["files"][0]["losses"], jobs["files"][1]["losses"])
        harness.note("samples/s of the job, without its first epoch, the first two with ColorJitter: " + ", ".join(
            "%s %.0f" % (name, self.rate(job)) for name, job in jobs.items()))

    @staticmethod
    def rate(job):
        """Of all processes, which wait for each other, in the epochs in which the workers are there already."""
        return sum(len(rank["seen"]) for rank in job) * (EPOCHS - 1) / EPOCHS / max(sum(rank["seconds"][1:]) for rank in job)
