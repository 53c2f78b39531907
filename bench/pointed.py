#!/usr/bin/env python3
"""Images a second of a loader on its usual source, or pointed at a mount:

    pointed.py LOADER SOURCE SAMPLES SECONDS WORKERS EPOCH

LOADER is torchvision, webdataset, dali-file, dali-webdataset, tf.data or libshuffleload (in Python). SOURCE is files:PHOTOS, a
folder with tree/ and labelled/ as make-photos makes them, or mount:MOUNTPOINT, read as docs/loaders.md says. Both sides do the
same: a random crop to 224, float32, in batches of 32, shuffled, by as many processes or threads. The rate is that of SAMPLES
images, or of what comes in SECONDS, after the first batch of each worker: starting is not in it. Exit status 3: not installed.
"""

import glob
import importlib.util
import os
import random
import sys
import tempfile
import time

BATCH, SIDE = 32, 224
NEEDS = {
    "torchvision": ("torch", "torchvision"),
    "webdataset": ("torch", "torchvision", "webdataset"),
    "dali-file": ("nvidia.dali",),
    "dali-webdataset": ("nvidia.dali",),
    "tf.data": ("tensorflow",),
    "libshuffleload": ("shuffleload", "numpy"),
}


class Source:
    """Plain files or a mount, and how the loader is to read them."""

    def __init__(self, text, workers, epoch, scratch):
        kind, _, self.place = text.partition(":")
        self.mounted = kind == "mount"
        self.workers, self.epoch, self.scratch = workers, epoch, scratch

    def set_epoch(self):
        with open(f"{self.place}/.control/rank-0.epoch", "w", encoding="ascii") as control:
            control.write(str(self.epoch))

    def shards(self):
        return sorted(glob.glob(os.path.join(self.place, "labelled", "*.tar")))

    def rows(self):
        """(path, label) in the order in which to read them."""
        if self.mounted:
            with open(f"{self.place}/epoch-{self.epoch}/rank-0.list", encoding="utf-8") as lines:
                return [(f"{self.place}/current/{path}", int(label)) for path, label in map(str.split, lines)]
        tree = os.path.join(self.place, "tree")
        rows = [
            (os.path.join(tree, folder, name), label)
            for label, folder in enumerate(sorted(os.listdir(tree)))
            for name in sorted(os.listdir(os.path.join(tree, folder)))
        ]
        random.Random(self.epoch).shuffle(rows)
        return rows


def crops():
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)  # the workers are processes
    return transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.ToTensor()])


def torchvision(source):
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision.datasets import ImageFolder

    transform = crops()

    class Rank(Dataset):
        def __init__(self):
            folder = f"{source.place}/current/rank-0"
            self.paths = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".jpg")]

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            path = self.paths[index]
            with open(path.removesuffix(".jpg") + ".cls", encoding="ascii") as label:
                return transform(Image.open(path).convert("RGB")), int(label.read())

    if source.mounted:
        data = Rank()
        source.set_epoch()
    else:
        data = ImageFolder(os.path.join(source.place, "tree"), transform)
    for images, _ in DataLoader(data, BATCH, shuffle=not source.mounted, num_workers=source.workers):
        yield len(images)


def webdataset(source):
    import webdataset as wds
    from torch.utils.data import DataLoader

    if source.mounted:
        source.set_epoch()
        parts = range(source.workers)
        urls = [f"{source.place}/current/rank-0.part-{k}-of-{source.workers}.by-{BATCH}.tar" for k in parts]
        samples = wds.WebDataset(urls, shardshuffle=False, nodesplitter=None)
    else:
        samples = wds.WebDataset(source.shards(), shardshuffle=100, empty_check=False).shuffle(1000)
    samples = samples.decode("pil").to_tuple("jpg", "cls").map_tuple(crops(), int).batched(BATCH)
    for images, _ in DataLoader(samples, batch_size=None, num_workers=source.workers):
        yield len(images)


def dali(source, read):
    """`read` gives the encoded pictures and their labels."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=source.workers, device_id=None)
    def pictures():
        files, labels = read(fn.readers)
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        return fn.cast(fn.resize(images, size=(SIDE, SIDE)), dtype=types.FLOAT), labels

    pipeline = pictures()
    pipeline.build()
    while True:
        outputs = pipeline.run()
        yield len(outputs[0])


def dali_file(source):
    if source.mounted:
        options = {"file_list": f"{source.place}/epoch-{source.epoch}/rank-0.list"}
    else:
        options = {"file_root": os.path.join(source.place, "tree"), "random_shuffle": True, "seed": source.epoch}
    return dali(source, lambda readers: readers.file(**options))


def dali_webdataset(source):
    if source.mounted:
        options = {"paths": [f"{source.place}/epoch-{source.epoch}/rank-0.tar"]}
    else:
        options = {"paths": source.shards(), "random_shuffle": True, "seed": source.epoch}
        indexes = [shard.removesuffix("tar") + "idx" for shard in options["paths"]]
        if all(map(os.path.exists, indexes)):
            options["index_paths"] = indexes
    return dali(source, lambda readers: readers.webdataset(ext=["jpg", "cls"], **options))


def tf_data(source):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    rows = source.rows()
    if source.mounted:
        source.set_epoch()
    whole = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])

    def read(path, label):
        content = tf.io.read_file(path)
        window = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(content), whole, area_range=(0.08, 1), aspect_ratio_range=(3 / 4, 4 / 3)
        )
        begin, size = window[0], window[1]
        image = tf.image.decode_and_crop_jpeg(content, tf.stack([begin[0], begin[1], size[0], size[1]]), channels=3)
        return tf.image.resize(image, (SIDE, SIDE)), label

    data = tf.data.Dataset.from_tensor_slices(([path for path, _ in rows], [label for _, label in rows]))
    data = data.map(read, num_parallel_calls=source.workers, deterministic=True).batch(BATCH).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = source.workers
    for images, _ in data.with_options(options):
        yield len(images)


def libshuffleload(source):
    import shuffleload

    if source.mounted:
        path = f"{source.place}/current/rank-0"
    else:
        path = os.path.join(source.scratch, "list")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {label}\n" for name, label in source.rows())
    settings = {"output": "float32_nchw", "width": SIDE, "height": SIDE, "crop": "random_resized", "workers": source.workers}
    with shuffleload.Loader(path, batch_size=BATCH, **settings) as loader:
        if source.mounted:
            loader.set_epoch(source.epoch)
        for batch in loader:
            yield len(batch.images.numpy())


LOADERS = {
    "torchvision": torchvision,
    "webdataset": webdataset,
    "dali-file": dali_file,
    "dali-webdataset": dali_webdataset,
    "tf.data": tf_data,
    "libshuffleload": libshuffleload,
}


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def rate(batches, workers, samples, seconds):
    """Workers take turns, so a turn of them all is the smallest that is timed. None: the epoch ended before."""
    start = done = 0
    for number, count in enumerate(batches, 1):
        if number > workers:
            done += count
        if number % workers:
            continue
        if number == workers:
            start = time.perf_counter()
            continue
        passed = time.perf_counter() - start
        if done >= samples or passed >= seconds:
            return done / passed
    return None


def main():
    if len(sys.argv) != 7 or sys.argv[1] not in LOADERS or sys.argv[2].partition(":")[0] not in ("files", "mount"):
        print(__doc__, file=sys.stderr)
        return 2
    name, text = sys.argv[1:3]
    samples, seconds, workers, epoch = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
    missing = [module for module in NEEDS[name] if not is_there(module)]
    if missing:
        print("not installed: " + ", ".join(missing), file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="shufflefs-pointed-") as scratch:
        measured = rate(LOADERS[name](Source(text, workers, epoch, scratch)), workers, samples, seconds)
    if measured is None:
        print(f"the epoch ended before {samples} images", file=sys.stderr)
        return 1
    print(f"{measured:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # workers that still prefetch would be waited for
