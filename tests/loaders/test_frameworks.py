"""Frameworks that divide the data among processes by themselves: Lightning and Hugging Face's Trainer, in jobs of four processes
with a rank that is slower than the rest; with the page's recipes, and what they do without."""
import harness
import recipes
from case import COUNT, EPOCHS, LoaderCase, expected, recipe

WORLD = 4


class Frameworks(LoaderCase):
    def job(self, text, model):
        """What each process was given, by a recipe behind the README's class Rank."""
        own = recipes.recipe("PyTorch", "class Rank").split("\ndata = ")[0]
        mount = self.photographs()
        ranks = self.record_all(own + "\n" + text, mount, "none", WORLD, 2, 0.1, RECIPE_MODEL=model, ACCELERATE_USE_CPU="1")
        return mount, ranks

    def check(self, section, model):
        mount, ranks = self.job(recipe(section), model)
        for rank, seen in enumerate(ranks):
            self.assert_order(seen, expected(rank, WORLD))
        self.assertEqual(mount.status()["repeated_epochs"], 0)

    def replaced(self, section, *pairs):
        text = recipe(section)
        for old, new in pairs:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return text

    def check_divided(self, ranks):
        """Each read a W-th of its rank at most, and a batch; not the first ones, nor in order. The page says so; no error did."""
        for rank, seen in enumerate(ranks):
            own = expected(rank, WORLD, 1)
            first = seen[:len(seen) // EPOCHS]
            self.assertLess(len(first), -(-COUNT // WORLD) / WORLD + 16)
            self.assertLessEqual({sample for sample, _ in first}, {sample for sample, _ in own})
            self.assertNotEqual(first, own[:len(first)])
            self.assertNotEqual(first, (own + own[:-len(own) % WORLD])[rank::WORLD])

    @harness.limit(400)
    def test_lightning_reads_its_ranks(self):
        self.need("lightning", "torch", "PIL")
        self.check("Lightning", "lightning")

    @harness.limit(400)
    def test_lightnings_sampler_shuffles_a_rank_and_divides_it_once_more(self):
        self.need("lightning", "torch", "PIL")
        _, ranks = self.job(self.replaced("Lightning", ("use_distributed_sampler=False, ", "")), "lightning")
        self.check_divided(ranks)

    @harness.limit(400)
    def test_lightning_leaves_a_sampler_that_does_not_shuffle_as_it_is(self):
        self.need("lightning", "torch", "PIL")
        _, ranks = self.job("from torch.utils.data import DistributedSampler\n" + self.replaced(
            "Lightning", ("use_distributed_sampler=False, ", ""),
            ('f"rank-{self.trainer.global_rank}-of-{self.trainer.world_size}"', '"rank-0-of-1"'),
            ("num_workers=workers", "num_workers=workers, sampler=DistributedSampler(data, shuffle=False)")), "lightning")
        for rank, seen in enumerate(ranks):
            self.assert_order(seen, expected(rank, WORLD))

    @harness.limit(400)
    def test_the_trainer_reads_its_ranks(self):
        self.need("transformers", "accelerate", "torch", "PIL")
        self.check("Hugging Face's Trainer", "trainer")

    @harness.limit(400)
    def test_the_trainers_own_loader_shuffles_a_rank_and_divides_it_once_more(self):
        self.need("transformers", "accelerate", "torch", "PIL")
        _, ranks = self.job(self.replaced("Hugging Face's Trainer", ("RankTrainer(model", "Trainer(model")), "trainer")
        self.check_divided(ranks)
