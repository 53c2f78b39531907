"""Runs a recipe of docs/loaders.md, from the file RECIPE, as it is written there: record.py MOUNT NAME OUT SCRATCH [SLOW DELAY]

What `train` is given is told apart by its pixels; OUT becomes a JSON list of [sample, label]. Runs in the Python that has the
loaders. Under torchrun, mpirun and srun {rank} in NAME and OUT is the process's; rank SLOW takes DELAY seconds for each batch.
"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models
import pictures

BATCH, EPOCHS, WORKERS = 16, 3, 2


def transform(picture):
    import numpy
    return numpy.asarray(picture).transpose(2, 0, 1).copy()


class Recorder:
    def __init__(self, delay=0.0):
        self.seen, self.delay = [], delay

    def train(self, images, labels):
        if len(images) != len(labels):
            raise ValueError("%d images and %d labels" % (len(images), len(labels)))
        for image, label in zip(images, labels):
            self.seen.append([pictures.number_of(image), int(label)])
        time.sleep(self.delay)


def process():
    """Rank and world, as text, by what a launcher gives: not asked of the package that is tested here."""
    for names in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if names[0] in os.environ:
            return os.environ[names[0]], os.environ[names[1]]
    return "0", "1"


def main():
    rank, world = process()
    mount, name, out, scratch = (word.replace("{rank}", rank) for word in sys.argv[1:5])
    recorder = Recorder(float(sys.argv[6]) if sys.argv[5:6] == [rank] else 0.0)
    recipe = {"mount": mount, "name": name, "batch": BATCH, "epochs": EPOCHS, "workers": WORKERS, "out": scratch,
              "transform": transform, "train": recorder.train,
              "rank": int(rank), "world": int(world), "__name__": "__main__"}
    if os.environ.get("RECIPE_MODEL"):
        recipe.update(models.MAKERS[os.environ["RECIPE_MODEL"]](recorder))
    # torchrun gives its processes no standard input.
    text = pathlib.Path(os.environ["RECIPE"]).read_text(encoding="utf-8")
    exec(compile(text, "recipe", "exec"), recipe)  # pylint: disable=exec-used
    with open(out, "w", encoding="utf-8") as file:
        json.dump(recorder.seen, file)


if __name__ == "__main__":
    main()
