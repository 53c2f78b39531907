"""Every recipe in Python of docs/loaders.md, as it is written: order and labels are DistributedSampler's, three epochs long.

Recipes read rank 1 of 4, so that dealing and padding are seen too, but where the page says `rank-0-of-1`.
"""
import json
import os
import re
import subprocess
import unittest

import case
import harness
from case import LoaderCase, expected, recipe

RANK, WORLD = 1, 4
NAME = "rank-%d-of-%d" % (RANK, WORLD)


class Page(unittest.TestCase):
    def blocks(self):
        text = (harness.ROOT / case.PAGE).read_text(encoding="utf-8")
        return re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M)

    def test_no_recipe_is_longer_than_fifteen_lines(self):
        blocks = self.blocks()
        self.assertGreater(len(blocks), 15)
        for block in blocks:
            lines = [line for line in block.splitlines() if line.strip()]
            self.assertLessEqual(len(lines), 15, block)

    def test_every_recipe_in_python_has_a_test_that_runs_it(self):
        text = (harness.ROOT / case.PAGE).read_text(encoding="utf-8")
        sections = re.findall(r"^### (.*)$", text, re.M)
        tests = "".join(path.read_text(encoding="utf-8") for path in case.HERE.glob("test_*.py"))
        self.assertEqual([section for section in sections if '"%s"' % section not in tests], [])

    def test_the_table_leads_to_every_section(self):
        text = (harness.ROOT / case.PAGE).read_text(encoding="utf-8")
        linked = set(re.findall(r"\(#([a-z-]+)\)", text))
        made = {re.sub(r"[^a-z -]", "", section.lower()).replace(" ", "-") for section in re.findall(r"^### (.*)$", text, re.M)}
        self.assertEqual(linked - made, set())
        self.assertEqual(made - linked, {"webdataset-without-workers"})


class Reference(LoaderCase):
    SCRIPT = """
import json, sys
from torch.utils.data import DistributedSampler
n, seed, epochs, world = map(int, sys.argv[1:])
found = []
for rank in range(world):
    sampler = DistributedSampler(range(n), world, rank, shuffle=True, seed=seed)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
json.dump(found, sys.stdout)
"""

    @harness.limit(300)
    def test_what_the_recipes_are_compared_with_is_torchs_own(self):
        self.need("torch")
        for world in (1, WORLD):
            torch = json.loads(self.python("-c", self.SCRIPT, case.COUNT, case.SEED, case.EPOCHS, world))
            ours = [sample for rank in range(world) for sample, _ in expected(rank, world)]
            self.assertEqual(sum(torch, []), ours)


class Recipes(LoaderCase):
    def check(self, section, *modules, word="", name=NAME, options="", **more):
        self.need(*modules)
        mount = self.photographs(options)
        seen = self.record(recipe(section, word), mount, name, **more)
        self.assert_order(seen, expected(RANK, WORLD) if name == NAME else expected(0, 1, 1))
        return mount

    @harness.limit(300)
    def test_a_dataset_with_workers_that_persist(self):
        mount = self.check("A Dataset of your own", "torch", "PIL")
        self.assertEqual(mount.status()["repeated_epochs"], 0)

    @harness.limit(300)
    def test_a_sampler_that_a_framework_adds_gets_the_ranks_order_out_of_the_whole_epoch(self):
        self.need("torch", "PIL")
        mount = self.photographs()
        own = recipe("A Dataset of your own")
        before, after = own[:own.index("loader = ")], own[own.index("for epoch"):]
        added = "\nfrom torch.utils.data import DistributedSampler\ndata = Rank()\n"
        added += recipe("Frameworks that put in a sampler", "world, rank")
        self.run_recipe(before + added + "\n" + after, mount, "rank-0-of-1", RANK=str(RANK), WORLD_SIZE=str(WORLD))
        self.assert_order(self.seen(RANK), expected(RANK, WORLD))

    @harness.limit(300)
    def test_imagefolder(self):
        self.check("torchvision's ImageFolder", "torchvision")

    @harness.limit(300)
    def test_imagefolder_without_the_line_that_sorts_gives_no_shuffle(self):
        # The page says so; should torchvision change, the page has to.
        self.need("torchvision")
        mount = self.photographs()
        text = recipe("torchvision's ImageFolder")
        line = next(line for line in text.splitlines() if ".sort(" in line)
        seen = self.record(text.replace(line + "\n", ""), mount, NAME)
        labels = [label for _, label in seen[:len(seen) // case.EPOCHS]]
        self.assertEqual(labels, sorted(labels))

    @harness.limit(300)
    def test_imagefolder_with_workers_that_persist(self):
        mount = self.check("torchvision's ImageFolder with workers that persist", "torchvision")
        self.assertEqual(mount.status()["repeated_epochs"], 0)

    @harness.limit(300)
    def test_webdataset_with_workers_that_persist(self):
        self.check("WebDataset", "torch", "webdataset")

    @harness.limit(300)
    def test_webdataset_without_workers(self):
        self.check("WebDataset without workers", "webdataset")

    @harness.limit(300)
    def test_hugging_face_webdataset(self):
        self.check("Hugging Face datasets, webdataset", "datasets")

    @harness.limit(300)
    def test_hugging_face_imagefolder(self):
        self.check("Hugging Face datasets, imagefolder", "datasets")

    @harness.limit(300)
    def test_dalis_file_reader(self):
        self.check("DALI's file reader", "nvidia.dali")

    @harness.limit(300)
    def test_dalis_webdataset_reader(self):
        self.check("DALI's webdataset reader", "nvidia.dali")

    @harness.limit(300)
    def test_ffcvs_writer(self):
        self.check("FFCV's writer", "ffcv", "torchvision", name="rank-0-of-1")

    @harness.limit(300)
    def test_mosaicmls_writer(self):
        after = """
from io import BytesIO
from PIL import Image
from streaming import StreamingDataset
for sample in StreamingDataset(local=out, shuffle=False, batch_size=1):
    train([Image.open(BytesIO(sample["jpg"]))], [sample["cls"]])
"""
        # It wants older packages than the others, so it has an environment of its own.
        self.runs = case.python_of("mosaicml")
        self.need("streaming", "PIL")
        mount = self.photographs()
        seen = self.record(recipe("MosaicML's writer") + after, mount, "rank-0-of-1")
        self.assert_order(seen, expected(0, 1, 1))

    @harness.limit(300)
    def test_keras(self):
        self.check("Keras", "keras", "torch", RECIPE_MODEL="keras")

    @harness.limit(300)
    def test_libshuffleload(self):
        self.check("libshuffleload", "numpy", PYTHONPATH=str(harness.ROOT / "python"),
                   SHUFFLELOAD_LIBRARY=harness.binary("libshuffleload.so"))

    C = r"""
#include <shuffleload.h>
#include <stdio.h>
#include <stdlib.h>
static void train(const void *images, const int64_t *labels, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        printf("%lld\n", (long long)labels[i]);
        fwrite((const unsigned char *)images + i * 48 * 64 * 3, 1, 48 * 64 * 3, stderr);
    }
}
int main(int words, char **arguments)
{
    const char *rank = words > 2 ? arguments[1] : "";
    uint64_t epochs = strtoull(arguments[2], NULL, 10);
RECIPE
    return status < 0;
}
"""

    @harness.needs_program("cc")
    @harness.limit(300)
    def test_libshuffleload_in_c(self):
        mount = self.photographs()
        (self.tmp / "recipe.c").write_text(self.C.replace("RECIPE", recipe("libshuffleload in C")), encoding="utf-8")
        library = harness.binary("libshuffleload.so")
        built = harness.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-o", self.tmp / "recipe", self.tmp / "recipe.c",
                             "-I", harness.ROOT / "loader", library, "-Wl,-rpath," + os.path.dirname(library)])
        self.assertEqual(built.returncode, 0, built.stderr)
        with open(self.tmp / "pixels", "wb") as pixels:
            done = subprocess.run([self.tmp / "recipe", mount.path("current", NAME), str(case.EPOCHS)], check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=pixels, timeout=100)
        self.assertEqual(done.returncode, 0, (self.tmp / "pixels").read_bytes()[-200:])
        labels = [int(line) for line in done.stdout.split()]
        numbers = self.python("-c", case.READ_PIXELS, self.tmp / "pixels", env=self.environment(PYTHONPATH=str(case.HERE)))
        seen = list(zip((int(number) for number in numbers.split()), labels))
        self.assert_order(seen, expected(RANK, WORLD))
        self.assertEqual(len(labels), len(seen))

    @harness.limit(300)
    def test_tf_data(self):
        # TensorFlow imports Keras, which would bring torch: each has an LLVM, and the two end the process.
        self.check("tf.data", "tensorflow", KERAS_BACKEND="tensorflow")

    @harness.limit(300)
    def test_opencv(self):
        self.check("OpenCV", "cv2")
