#!/usr/bin/env python3
"""Images a second of a loader on its usual source, or pointed at a mount: pointed.py LOADER SOURCE SAMPLES WORKERS EPOCH

LOADER is torchvision, webdataset or dali. SOURCE is files:PHOTOS, a folder with tree/ and labelled/ as make-photos makes
them, or mount:MOUNTPOINT, read as docs/loaders.md says. Both sides do the same: a random crop to 224, float32, shuffled. The
rate is that of SAMPLES images after the first batch: starting processes is not in it. Exit status 3: not installed.
"""

import glob
import importlib.util
import os
import sys
import time

BATCH, SIDE = 32, 224
NEEDS = {
    "torchvision": ("torch", "torchvision"),
    "webdataset": ("torch", "torchvision", "webdataset"),
    "dali": ("nvidia.dali",),
}


def crops():
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)  # the workers are processes
    return transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.ToTensor()])


def torchvision(kind, place, workers, epoch):
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision.datasets import ImageFolder

    transform = crops()

    class Rank(Dataset):
        def __init__(self):
            folder = f"{place}/current/rank-0"
            self.paths = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".jpg")]

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            path = self.paths[index]
            with open(path.removesuffix(".jpg") + ".cls", encoding="ascii") as label:
                return transform(Image.open(path).convert("RGB")), int(label.read())

    if kind == "files":
        data = ImageFolder(os.path.join(place, "tree"), transform)
    else:
        data = Rank()
        set_epoch(place, epoch)
    for images, _ in DataLoader(data, BATCH, shuffle=kind == "files", num_workers=workers):
        yield len(images)


def webdataset(kind, place, workers, epoch):
    import webdataset as wds
    from torch.utils.data import DataLoader

    if kind == "files":
        shards = sorted(glob.glob(os.path.join(place, "labelled", "*.tar")))
        samples = wds.WebDataset(shards, shardshuffle=100, empty_check=False).shuffle(1000)
    else:
        set_epoch(place, epoch)
        parts = [f"{place}/current/rank-0.part-{k}-of-{workers}.by-{BATCH}.tar" for k in range(workers)]
        samples = wds.WebDataset(parts, shardshuffle=False, nodesplitter=None)
    samples = samples.decode("pil").to_tuple("jpg", "cls").map_tuple(crops(), int).batched(BATCH)
    for images, _ in DataLoader(samples, batch_size=None, num_workers=workers):
        yield len(images)


def dali(kind, place, workers, epoch):
    from nvidia.dali import fn, pipeline_def, types

    if kind == "files":
        source = {"file_root": os.path.join(place, "tree"), "random_shuffle": True, "seed": epoch}
    else:
        source = {"file_list": f"{place}/epoch-{epoch}/rank-0.list"}

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def pictures():
        files, labels = fn.readers.file(**source)
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        return fn.cast(fn.resize(images, size=(SIDE, SIDE)), dtype=types.FLOAT), labels

    pipeline = pictures()
    pipeline.build()
    while True:
        pipeline.run()
        yield BATCH


def set_epoch(mount, epoch):
    with open(f"{mount}/.control/rank-0.epoch", "w", encoding="ascii") as control:
        control.write(str(epoch))


LOADERS = {"torchvision": torchvision, "webdataset": webdataset, "dali": dali}


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main():
    if len(sys.argv) != 6 or sys.argv[1] not in LOADERS or sys.argv[2].partition(":")[0] not in ("files", "mount"):
        print(__doc__, file=sys.stderr)
        return 2
    name, (kind, _, place) = sys.argv[1], sys.argv[2].partition(":")
    samples, workers, epoch = map(int, sys.argv[3:])
    missing = [module for module in NEEDS[name] if not is_there(module)]
    if missing:
        print("not installed: " + ", ".join(missing), file=sys.stderr)
        return 3
    batches = LOADERS[name](kind, place, workers, epoch)
    next(batches)
    start, done = time.perf_counter(), 0
    while done < samples:
        done += next(batches)
    print(f"{done / (time.perf_counter() - start):.1f}", flush=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # workers that still prefetch would be waited for
