"""A training job of torchrun's on pictures that tell who they are: train.py SETUP TREE MOUNT OUT

SETUP is a file that makes `loader` and `set_epoch`: the lines of docs/loaders.md, of which the rest knows nothing. A tiny
network learns for three epochs, with random augmentation, gradients averaged over all processes. OUT-RANK.json: samples and
labels in order, each step's loss to the last bit, and the seconds of each epoch.
"""
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from PIL import Image
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pictures

EPOCHS = 3


def main():
    setup, tree, mount, out = sys.argv[1:5]
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(100 + rank)
    size = transforms.Resize((pictures.HEIGHT, pictures.WIDTH))
    augment = transforms.Compose([size, transforms.ColorJitter(0.2, 0.2), transforms.ToTensor()])
    names = {"tree": tree, "mount": mount, "rank": rank, "world": world, "batch": 16, "workers": 2, "transform": augment,
             "width": pictures.WIDTH, "height": pictures.HEIGHT, "torch": torch,
             "os": os, "Image": Image, "Dataset": Dataset, "DataLoader": DataLoader, "ImageFolder": ImageFolder,
             "DistributedSampler": DistributedSampler, "__name__": "__main__"}
    exec(compile(pathlib.Path(setup).read_text(encoding="utf-8"), "setup", "exec"), names)  # pylint: disable=exec-used
    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(),
                                  torch.nn.Linear(8 * 11 * 15, len(pictures.CLASSES)))
    network = torch.nn.parallel.DistributedDataParallel(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    seen, losses, seconds = [], [], []
    for epoch in range(EPOCHS):
        kept = []
        dist.barrier()
        start = time.monotonic()
        names["set_epoch"](epoch)
        for images, labels in names["loader"]:
            loss = torch.nn.functional.cross_entropy(network(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item().hex())
            kept.append((images.clone(), labels.clone()))
        seconds.append(time.monotonic() - start)
        for images, labels in kept:
            seen += [[pictures.number_of(image), int(label)] for image, label in zip(images, labels)]
    with open("%s-%d.json" % (out, rank), "w", encoding="utf-8") as file:
        json.dump({"seen": seen, "losses": losses, "seconds": seconds}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
