"""The traps of docs/loaders.md: what a loader does where its recipe's line is left out. Should one of them change, the page has to."""
import json

import case
import harness
from case import EPOCHS, LoaderCase, expected, recipe

RANK, WORLD = 1, 4
NAME = "rank-%d-of-%d" % (RANK, WORLD)


class Traps(LoaderCase):
    def script(self, text, *arguments, **more):
        """What a script prints, as JSON."""
        said = self.python("-c", text, *arguments, env=self.environment(PYTHONPATH=str(case.HERE), **more))
        return json.loads(said.splitlines()[-1])

    @harness.limit(300)
    def test_hugging_face_takes_words_in_names_for_splits_and_folders_class_by_class(self):
        self.need("datasets")
        mount = self.photographs()
        splits, labels = self.script("""
import json, os, shutil, sys
from datasets import load_dataset
mount, name, copy = sys.argv[1:]
# As a data set has it whose pictures are named after where they were taken.
pictures = [path for path in sorted(os.listdir(f"{mount}/epoch-0/rank-0-of-1.classes/gnu")) if path.endswith(".jpg")]
for number, path in enumerate(pictures[:9]):
    os.makedirs(f"{copy}/gnu", exist_ok=True)
    word = ("val", "test", "other")[number % 3]
    shutil.copy(f"{mount}/epoch-0/rank-0-of-1.classes/gnu/{path}", f"{copy}/gnu/{word}-{path}")
splits = load_dataset("imagefolder", data_dir=copy, streaming=True)
whole = load_dataset("imagefolder", data_dir=f"{mount}/epoch-0/{name}.classes", split="train", streaming=True)
print(json.dumps([{split: len(list(rows)) for split, rows in splits.items()}, [row["label"] for row in whole]]))
""", mount.where, NAME, self.tmp / "copy")
        # And the others are left out, without a word.
        self.assertEqual(splits, {"validation": 3, "test": 3})
        self.assertEqual(len(labels), len(expected(RANK, WORLD, 1)))
        self.assertEqual(labels, sorted(labels))

    @harness.limit(300)
    def test_webdataset_refuses_a_job_of_several_processes_without_its_nodesplitter(self):
        self.need("webdataset", "torch", "PIL")
        mount = self.photographs()
        text = recipe("WebDataset without workers").replace(", nodesplitter=None", "")
        file = self.tmp / "recipe.py"
        file.write_text(text, encoding="utf-8")
        result = harness.run([self.runs, case.HERE / "record.py", mount.where, NAME, self.tmp / "seen-0.json", "none"], 200,
                             cwd=self.tmp, env=self.environment(RECIPE=str(file), RANK="0", WORLD_SIZE="4"))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("nodesplitter", result.stderr)

    @harness.limit(300)
    def test_webdatasets_workers_leave_a_single_stream_to_one_of_them(self):
        self.need("webdataset", "torch", "PIL")
        mount = self.photographs()
        counts = self.script("""
import collections, json, sys
import webdataset as wds
from torch.utils.data import DataLoader, get_worker_info
data = wds.WebDataset(sys.argv[1], shardshuffle=False, nodesplitter=None, empty_check=False)
rows = DataLoader(data.map(lambda sample: get_worker_info().id), batch_size=None, num_workers=2)
print(json.dumps(collections.Counter(rows)))
""", mount.path("epoch-0", NAME + ".tar"))
        self.assertEqual(counts, {"0": len(expected(RANK, WORLD, 1))})

    DALI = """
import json, sys
import pictures
from nvidia.dali import fn, pipeline_def
mount, name, kind, count = sys.argv[1:]
@pipeline_def(batch_size=1, num_threads=2, device_id=None)
def read():
    if kind == "list":
        files, _ = fn.readers.file(file_list=f"{mount}/current/{name}.list")
    else:
        files = fn.readers.webdataset(paths=[f"{mount}/current/{name}.tar"], ext=["jpg"])
    return fn.decoders.image(files)
pipeline = read()
pipeline.build()
seen = []
for epoch in range(2):
    with open(f"{mount}/.control/{name}.epoch", "w") as control:
        control.write(str(epoch))
    seen.append([pictures.number_of(pipeline.run()[0].as_array()[0]) for _ in range(int(count))])
print(json.dumps(seen))
"""

    @harness.limit(300)
    def test_a_pipeline_of_dalis_stays_in_the_epoch_it_was_built_in(self):
        self.need("nvidia.dali")
        mount = self.photographs()
        first = [sample for sample, _ in expected(RANK, WORLD, 1)]
        for kind in ("list", "tar"):
            with self.subTest(kind):
                mount.set_epoch(0, NAME + ".epoch")
                self.assertEqual(self.script(self.DALI, mount.where, NAME, kind, len(first)), [first, first])

    @harness.limit(300)
    def test_workers_that_persist_and_an_epoch_that_is_set_too_late_read_the_old_one_first(self):
        self.need("torch", "PIL")
        mount = self.photographs()
        text = recipe("A Dataset of your own")
        write = next(line for line in text.splitlines() if ".control" in line)
        late = text.replace(write + "\n", "").replace("in loader: train", "in late(iter(loader), epoch): train")
        late = late.replace("for epoch in range", """def late(batches, epoch):
    first = next(batches)
    open(f"{mount}/.control/{name}.epoch", "w").write(str(epoch))
    yield first
    yield from batches
for epoch in range""")
        seen = self.record(late, mount, NAME)
        share = len(seen) // EPOCHS
        right = expected(RANK, WORLD)
        self.assertEqual(seen[:share], right[:share])
        # The first batch at least, of those that the workers had fetched.
        self.assertEqual(seen[share:share + 16], right[:16])
        self.assertNotEqual(seen[share:2 * share], right[share:2 * share])
