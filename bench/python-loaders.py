#!/usr/bin/env python3
"""Images a second of another loader: python-loaders.py LOADER PHOTOS [WORKERS]

LOADER is torchvision, webdataset, dali or ffcv; PHOTOS a folder that make-photos made. All do the same: batches of 128,
RandomResizedCrop(224), a flip, float32 in channels first, normalised; shuffled; WORKERS (2) processes or threads, on the
CPU. Each loader is set up as its own documents show it. The first epoch is let pass, as processes start in it, and FFCV's
second one, as it compiles. The rate of the next is printed. Exit status 3: the loader is not installed.
"""

import glob
import importlib.util
import os
import sys
import time

BATCH, SIDE = 128, 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NEEDS = {
    "torchvision": ("torch", "torchvision"),
    "webdataset": ("torch", "torchvision", "webdataset"),
    "dali": ("nvidia.dali",),
    "ffcv": ("ffcv", "torchvision"),
}


def torch_transforms():
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)  # the workers are processes
    steps = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    return transforms.Compose([*steps, transforms.Normalize(MEAN, DEVIATION)])


def torchvision(photos, workers):
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    data = ImageFolder(os.path.join(photos, "tree"), torch_transforms())
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=True)
    while True:
        yield sum(len(images) for images, _ in loader)


def webdataset(photos, workers):
    import webdataset as wds
    from torch.utils.data import DataLoader

    shards = sorted(glob.glob(os.path.join(photos, "labelled", "*.tar")))
    samples = wds.WebDataset(shards, shardshuffle=100, empty_check=False).shuffle(1000).decode("pil")
    data = samples.to_tuple("jpg", "cls").map_tuple(torch_transforms(), int).batched(BATCH)
    loader = DataLoader(data, batch_size=None, num_workers=workers, persistent_workers=True)
    while True:
        yield sum(len(images) for images, _ in loader)


def dali(photos, workers):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def crops():
        files, labels = fn.readers.file(file_root=os.path.join(photos, "tree"), random_shuffle=True, name="files")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=(SIDE, SIDE), antialias=True)
        mean, deviation = [255 * m for m in MEAN], [255 * d for d in DEVIATION]
        flip = fn.random.coin_flip()
        floats = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mirror=flip, mean=mean, std=deviation
        )
        return floats, labels

    pipeline = crops()
    pipeline.build()
    batches = -(-pipeline.epoch_size("files") // BATCH)
    while True:
        for _ in range(batches):
            pipeline.run()
        yield batches * BATCH


def ffcv(photos, workers):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter
    from torchvision.datasets import ImageFolder

    packed = os.path.join(photos, "photos.beton")
    if not os.path.exists(packed):
        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=95), "label": IntField()}
        writer = DatasetWriter(packed + ".part", fields, num_workers=workers)
        writer.from_indexed_dataset(ImageFolder(os.path.join(photos, "tree")))
        os.rename(packed + ".part", packed)
    mean, deviation = 255 * numpy.array(MEAN), 255 * numpy.array(DEVIATION)
    image = [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip()]
    image += [NormalizeImage(mean, deviation, numpy.float32), ToTensor(), ToTorchImage()]
    pipelines = {"image": image, "label": [IntDecoder(), ToTensor()]}
    loader = Loader(
        packed, BATCH, num_workers=workers, order=OrderOption.RANDOM, os_cache=True, pipelines=pipelines
    )
    while True:
        yield sum(len(images) for images, _ in loader)


LOADERS = {"torchvision": torchvision, "webdataset": webdataset, "dali": dali, "ffcv": ffcv}


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in LOADERS:
        print(__doc__, file=sys.stderr)
        return 2
    name, photos, workers = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2
    missing = [module for module in NEEDS[name] if not is_there(module)]
    if missing:
        print("not installed: " + ", ".join(missing), file=sys.stderr)
        return 3
    epochs = LOADERS[name](photos, workers)
    for _ in range(3 if name == "ffcv" else 2):
        start = time.perf_counter()
        images = next(epochs)
        rate = images / (time.perf_counter() - start)
    print(f"{rate:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # workers of loaders that were not closed would be waited for
