#!/usr/bin/env python3
"""test_image.py PROGRAM: the picture code against its models: resizing against Pillow, random crops against
torchvision's RandomResizedCrop, written here from its documentation. PROGRAM is build/image-probe."""
import math
import random
import struct
import subprocess
import sys

try:
    from PIL import Image
except ImportError:
    Image = None

SIZES, CROPS = 500, 20000


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, numbers, data, size):
        self.process.stdin.write(struct.pack("<6i", *numbers) + data)
        self.process.stdin.flush()
        answer = self.process.stdout.read(size)
        assert len(answer) == size, "the probe ended"
        return answer

    def resize(self, pixels, size, to, plain):
        return self.ask((1, *size, *to, plain), pixels, to[0] * to[1] * 3)

    def crops(self, size, count):
        return list(struct.iter_unpack("<4i", self.ask((2, *size, count, 0, 0), b"", count * 16)))


def test_resizing_is_pillows_within_one_level(probe):
    if Image is None:
        return "Pillow is not installed"
    dice = random.Random(1)
    worst, equal, total = 0, 0, 0
    for i in range(SIZES):
        size = tuple(int(math.exp(dice.uniform(0, math.log(600)))) for _ in range(2))
        to = tuple(int(math.exp(dice.uniform(0, math.log(400)))) for _ in range(2))
        # Noise of all spatial frequencies: random pixels, on every other run enlarged.
        image = Image.frombytes("RGB", size, dice.randbytes(size[0] * size[1] * 3))
        if i % 2:
            small = image.crop((0, 0, 1 + size[0] // 9, 1 + size[1] // 9))
            image = small.resize(size, Image.Resampling.BICUBIC)
        model = image.resize(to, Image.Resampling.BILINEAR).tobytes()
        ours = probe.resize(image.tobytes(), size, to, i // 2 % 2)
        far = [abs(a - b) for a, b in zip(model, ours)]
        worst = max(worst, max(far))
        equal, total = equal + far.count(0), total + len(far)
        assert worst <= 1, f"{size} to {to}: differs by {worst}"
    print(f"  {SIZES} sizes: largest difference {worst}, {100 * equal / total:.1f} % equal")


def random_resized_crop(dice, width, height):
    """torchvision.transforms.RandomResizedCrop: ten tries, then the middle."""
    for _ in range(10):
        area = width * height * dice.uniform(0.08, 1)
        ratio = math.exp(dice.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return dice.randint(0, width - w), dice.randint(0, height - h), w, h
    w, h = width, height
    if width / height < 3 / 4:
        h = round(w / (3 / 4))
    elif width / height > 4 / 3:
        w = round(h * (4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def distance(a, b):
    """Kolmogorov-Smirnov's, of two samples of one length, times sqrt(n / 2)."""
    n, most, i, j = len(a), 0, 0, 0
    a, b = sorted(a), sorted(b)
    while i < n and j < n:
        value = min(a[i], b[j])
        while i < n and a[i] == value:
            i += 1
        while j < n and b[j] == value:
            j += 1
        most = max(most, abs(i - j) / n)
    return most * math.sqrt(n / 2)


def test_random_crops_are_distributed_as_torchvisions(probe):
    dice = random.Random(2)
    for width, height in ((500, 375), (375, 500), (640, 100), (33, 47)):
        ours = probe.crops((width, height), CROPS)
        model = [random_resized_crop(dice, width, height) for _ in range(CROPS)]
        for name, of in (("area", lambda c: c[2] * c[3]), ("ratio", lambda c: c[2] / c[3]),
                         ("left", lambda c: c[0] / max(1, width - c[2])), ("top", lambda c: c[1] / max(1, height - c[3]))):
            far = distance([of(c) for c in ours], [of(c) for c in model])
            # One draw of the same distribution in 10,000 is beyond 2.22; the draws here never change.
            assert far < 2.22, f"{width}x{height}: {name} {far:.2f}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    passed = failed = skipped = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        probe = Probe(sys.argv[1])
        try:
            reason = test(probe)
            if reason:
                print(f"skipped {name}: {reason}")
            passed, skipped = passed + (not reason), skipped + bool(reason)
        except AssertionError as error:
            print(f"FAIL {name}: {error}")
            failed += 1
        probe.process.stdin.close()
        if probe.process.wait():
            print(f"FAIL {name}: the probe ended with {probe.process.returncode}")
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
