#!/usr/bin/env python3
"""python-resize.py SOURCE OUT SHORT QUALITY PROCESSES: every JPEG below SOURCE made smaller by Pillow, into OUT.

As a data set is usually made smaller: a pool of processes, a file at a time, the filter that libshuffleload's equals.
"""

import functools
import multiprocessing
import os
import sys

from PIL import Image, ImageOps


def shrink(source, out, short, quality, name):
    with Image.open(os.path.join(source, name)) as picture:
        picture = ImageOps.exif_transpose(picture)
        shorter = min(picture.size)
        if shorter > short:
            size = (picture.width * short // shorter, picture.height * short // shorter)
            picture = picture.resize(size, Image.BILINEAR)
        picture.save(os.path.join(out, name), "JPEG", quality=quality)


def main():
    source, out, short, quality, processes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    names = []
    for folder, _, files in os.walk(source, followlinks=True):
        below = os.path.relpath(folder, source)
        os.makedirs(os.path.join(out, below), exist_ok=True)
        names += [os.path.join(below, name) for name in files]
    with multiprocessing.Pool(processes) as pool:
        pool.map(functools.partial(shrink, source, out, short, quality), names, chunksize=20)


if __name__ == "__main__":
    main()
