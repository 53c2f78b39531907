"""torch's orders in plain Python, DistributedSampler's and WeightedRandomSampler's: what every mount test compares with.

Python's own random is the same MT19937, but seeds it another way; its state is set as torch seeds it. Sources:
aten/src/ATen/core/MT19937RNGEngine.h, randperm_cpu in TensorFactories.cpp, torch/utils/data/distributed.py,
cpu/MultinomialKernel.cpp.
"""
import bisect
import functools
import hashlib
import random
import struct


def generator(seed):
    state = [seed & 0xFFFFFFFF]
    for j in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + j) & 0xFFFFFFFF)
    made = random.Random()
    made.setstate((3, tuple(state) + (624,), None))
    return made


@functools.lru_cache(maxsize=256)
def randperm(n, seed):
    """torch.randperm(n) below torch's border of 214,748,364 entries."""
    draw = generator(seed).getrandbits
    r = list(range(n))
    for i in range(n - 1):
        z = i + draw(32) % (n - i)
        r[i], r[z] = r[z], r[i]
    return tuple(r)


def epoch_order(n, seed=0, epoch=0, shuffle=True):
    return randperm(n, (seed + epoch) & 0xFFFFFFFF) if shuffle else tuple(range(n))


def rank_order(n, world, rank, seed=0, epoch=0, shuffle=True, remainder="pad"):
    """The samples that one rank reads, in order."""
    return deal(epoch_order(n, seed, epoch, shuffle), world, rank, remainder)


def multinomial(weights, count, seed):
    """list(WeightedRandomSampler(weights, count, generator=...)) of a generator with this seed; count > 1."""
    sums, total = [], 0.0
    for weight in weights:
        total += weight
        sums.append(total)
    sums = [part / total for part in sums]
    sums[-1] = 1.0
    draw = generator(seed).getrandbits

    def draw64():
        high = draw(32)
        return high << 32 | draw(32)
    return [bisect.bisect_left(sums, (draw64() & (2 ** 53 - 1)) * 2.0 ** -53) for _ in range(count)]


def deal(order, world, rank, remainder="pad"):
    """What one rank reads of any epoch's order."""
    order = list(order)
    if remainder == "pad":
        total = -(-len(order) // world) * world
        order = (order * -(-total // len(order)))[:total]
    elif remainder == "drop":
        order = order[: len(order) // world * world]
    return order[rank::world]


def digest(indices):
    """As in torch-order.json: sha256 of the indices as little-endian int64."""
    return hashlib.sha256(struct.pack("<%dq" % len(indices), *indices)).hexdigest()
