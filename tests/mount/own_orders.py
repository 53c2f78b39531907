"""The orders feistel and length once more, from their definitions in core/order.h: small data sets, slowly."""
import math

MASK = 2 ** 64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(bits):
    """splitmix64's."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def mixed(*parts):
    state = 0
    for part in parts:
        state = mix((state ^ part) + GOLDEN & MASK)
    return state


class Draw:
    """xoshiro256**, filled by splitmix64."""

    def __init__(self, seed, epoch, use):
        at = mixed(seed, epoch, use)
        self.state = [mix(at + i * GOLDEN & MASK) for i in range(1, 5)]

    def next(self):
        s = self.state
        rotated = s[1] * 5 & MASK
        result = ((rotated << 7 | rotated >> 57) & MASK) * 9 & MASK
        shifted = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = (s[3] << 45 | s[3] >> 19) & MASK
        return result

    def below(self, bound):
        while True:
            product = self.next() * bound
            if product & MASK >= (1 << 64) % bound:
                return product >> 64

    def shuffle(self, items):
        for i in range(len(items) - 1):
            other = i + self.below(len(items) - i)
            items[i], items[other] = items[other], items[i]


def feistel(n, seed, number):
    """Permutation `number` of [0, n), n < 65536."""
    left = math.isqrt(n - 1) + 1
    right = -(-n // left)
    key = mixed(seed, number)

    def goes_to(place):
        while True:
            halves, sizes = list(divmod(place, right)), (left, right)
            for turn in range(24):
                side = turn % 2
                more = mix((key + (turn + 1) * GOLDEN & MASK) ^ halves[1 - side]) * sizes[side] >> 64
                halves[side] = (halves[side] + more) % sizes[side]
            place = halves[0] * right + halves[1]
            if place < n:
                return place
    return [goes_to(place) for place in range(n)]


def length(lengths, bucket, seed, number):
    """Permutation `number` of samples with these lengths."""
    draw = Draw(seed, number, int.from_bytes(b"length", "big"))
    order = list(range(len(lengths)))
    draw.shuffle(order)
    whole = len(order) // bucket * bucket
    buckets = []
    for first in range(0, whole, 64 * bucket):
        group = sorted(order[first:min(whole, first + 64 * bucket)], key=lambda sample: lengths[sample])
        buckets += [group[i:i + bucket] for i in range(0, len(group), bucket)]
    draw.shuffle(buckets)
    for one in buckets:
        draw.shuffle(one)
    return [sample for one in buckets for sample in one] + order[whole:]


def concatenated(permutation, n, epoch_samples, epoch):
    """Epoch `epoch` of the endless concatenation of permutation(0), permutation(1), ..."""
    made = {}
    places = range(epoch * epoch_samples, (epoch + 1) * epoch_samples)
    for number in {place // n for place in places}:
        made[number] = permutation(number)
    return [made[place // n][place % n] for place in places]
