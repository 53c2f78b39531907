"""Who reads what, in plain Python: what the mount's shares are compared with.

Written from the README's words and torch's DistributedSampler, not from core/plan.c: whole lists, sliced.
"""
import functools

import torch_order


@functools.lru_cache(maxsize=4096)
def epoch_order(n, seed=0, epoch=0, shuffle=True, epoch_samples=0):
    """The samples of an epoch in its global order: epoch_samples of the endless concatenation of permutations."""
    if not epoch_samples:
        return torch_order.epoch_order(n, seed, epoch, shuffle)
    places = range(epoch * epoch_samples, (epoch + 1) * epoch_samples)
    return tuple(torch_order.epoch_order(n, seed, place // n, shuffle)[place % n] for place in places)


def deal(tail, rank, world, remainder):
    """In turn, as DistributedSampler."""
    if remainder == "pad" and tail:
        total = -(-len(tail) // world) * world
        tail = (tail * -(-total // len(tail)))[:total]
    elif remainder == "drop":
        tail = tail[:len(tail) // world * world]
    return tail[rank::world]


def deal_runs(tail, rank, world, remainder, window=1):
    """In unbroken runs of windows, as order=contiguous."""
    windows = len(tail) - window + 1
    start = rank * windows // world
    count = {"pad": -(-windows // world), "drop": windows // world,
             "keep": (rank + 1) * windows // world - start}[remainder]
    return tail[start:start + count + window - 1] if count else ()


def part_of(sequence, part, parts, run=1):
    """Every parts-th run, from the part-th on."""
    return tuple(sample for i, sample in enumerate(sequence) if i // run % parts == part)


def name_of(rank, world=None, after=None, part=None, parts=None, run=None):
    return ("rank-%d" % rank + ("-of-%d" % world if world else "") + (".after-%d" % after if after is not None else "") +
            (".part-%d-of-%d" % (part, parts) if parts else "") + (".by-%d" % run if run else ""))
