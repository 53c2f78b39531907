"""A tree of small photographs that tell who they are: pictures.py FOLDER COUNT [SCALE]; and code_of(), which reads the number
back of one that is 64 x 48.

Each picture is SCALE (1) times 64 x 48, smooth colours with some noise, as photographs have; the two topmost rows of 8 x 8 blocks
(times SCALE) are black or white, the bits of its number. JPEG keeps these whatever the quality. The classes are folders of
unequal size.
"""
import os
import sys

WIDTH, HEIGHT = 64, 48
CLASSES = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu")


def class_of(number, count):
    """Its place in CLASSES: the classes follow each other, so numbers are ImageFolder's own."""
    return min(int((number / count) ** 0.7 * len(CLASSES)), len(CLASSES) - 1)


def code_of(pixels):
    """The number of a picture, of an array of height x width x 3 or 3 x height x width, integers or floats."""
    import numpy
    pixels = numpy.asarray(pixels).astype(numpy.float32)
    if pixels.shape[0] == 3:
        pixels = pixels.transpose(1, 2, 0)
    if pixels.shape != (HEIGHT, WIDTH, 3):
        raise ValueError("a picture of shape %s" % (pixels.shape,))
    blocks = pixels[:16].mean(axis=2).reshape(2, 8, 8, 8).mean(axis=(1, 3)).ravel()
    bits = blocks > (blocks.max() + blocks.min()) / 2
    return int(sum(1 << i for i in range(16) if bits[i]))


def make(folder, count, scale=1):
    import numpy
    from PIL import Image
    draw = numpy.random.default_rng(5)
    for number in range(count):
        y, x = numpy.mgrid[0:HEIGHT * scale, 0:WIDTH * scale] / scale
        waves = [128 + 90 * numpy.sin(x / draw.uniform(5, 20) + y / draw.uniform(5, 20) + k) for k in draw.uniform(0, 6, 3)]
        pixels = numpy.clip(numpy.stack(waves, axis=2) + draw.normal(0, 8, (HEIGHT * scale, WIDTH * scale, 3)), 0, 255)
        # Two bits are fixed, so that each picture has a black and a white block.
        for bit in range(16):
            on = bit == 15 or (bit != 14 and number >> bit & 1)
            y, x, side = bit // 8 * 8 * scale, bit % 8 * 8 * scale, 8 * scale
            pixels[y:y + side, x:x + side] = 255 if on else 0
        place = os.path.join(folder, CLASSES[class_of(number, count)])
        os.makedirs(place, exist_ok=True)
        Image.fromarray(pixels.astype(numpy.uint8)).save(os.path.join(place, "%05d.jpg" % number), quality=90)


def number_of(pixels):
    return code_of(pixels) & 0x3FFF


if __name__ == "__main__":
    make(sys.argv[1], *(int(word) for word in sys.argv[2:]))
