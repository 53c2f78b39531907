"""Tar shards for the tests, written block by block: quick for a million members, and able to write what tarfile won't.

A member's bytes say which sample and field they belong to, so that a reader can tell what it was given.
"""
import dataclasses
import hashlib
import os
from typing import Callable, Dict, List, Optional, Tuple

BLOCK = 512
END = bytes(2 * BLOCK)
# Well in the past: a shard that a test rewrites after mounting always gets another time.
MTIME = 1_600_000_000


def header(name: bytes, size: int, kind: bytes = b"0", link: bytes = b"") -> bytes:
    """One ustar header; names up to 100 bytes."""
    assert len(name) <= 100, name
    head = bytearray(BLOCK)
    head[0:len(name)] = name
    head[100:108] = b"0000644\0"
    head[108:124] = b"0000000\x000000000\0"
    head[124:136] = b"%011o\0" % size
    head[136:148] = b"%011o\0" % MTIME
    head[148:156] = b" " * 8
    head[156:157] = kind
    head[157:157 + len(link)] = link
    head[257:265] = b"ustar\00000"
    return checked(head)


def checked(head: bytearray) -> bytes:
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def member(name: bytes, data: bytes) -> bytes:
    """Headers and padded data; a GNU long name where ustar has no room."""
    long_name = b""
    if len(name) > 100:
        long_name = header(b"././@LongLink", len(name) + 1, b"L") + padded(name + b"\0")
        name = name[:100]
    return long_name + header(name, len(data)) + padded(data)


def link_member(name: bytes, target: bytes, hard: bool) -> bytes:
    return header(name, 0, b"1" if hard else b"2", target)


def sparse_member(name: bytes, data: bytes, real_size: int) -> bytes:
    """Old GNU sparse: `data` stands at offset 4096 of a file of real_size bytes."""
    head = bytearray(header(name, len(data), b"S"))
    head[257:265] = b"ustar  \0"
    head[345:500] = bytes(155)
    head[386:410] = b"%011o\0%011o\0" % (4096, len(data))
    head[410:434] = b"%011o\0%011o\0" % (real_size, 0)
    head[483:495] = b"%011o\0" % real_size
    return checked(head) + padded(data)


def write_file(path, data: bytes, mtime: float = MTIME) -> str:
    with open(path, "wb") as out:
        out.write(data)
    os.utime(path, (mtime, mtime))
    return str(path)


def write_shard(path, members: List[Tuple[bytes, bytes]]) -> str:
    return write_file(path, b"".join(member(name, data) for name, data in members) + END)


def content(sample: int, field: str, size: int) -> bytes:
    """Bytes that name their sample, then noise of their own."""
    start = b"sample %d %s\n" % (sample, field.encode())
    return (start + hashlib.shake_256(start).digest(max(0, size - len(start))))[:max(size, len(start))]


def sample_of(data: bytes) -> int:
    return int(data[:40].split()[1])


def small_size(sample: int) -> int:
    return 200 + sample * 257 % 1200


def odd_size(sample: int) -> int:
    """Around page, block and request borders."""
    return (60, 511, 512, 513, 4095, 4096, 4097, 65536, 131072, 131073, 300001, 8191)[sample % 12]


@dataclasses.dataclass
class Sample:
    key: bytes
    fields: Dict[str, bytes]
    shard: str
    offsets: Dict[str, int]


@dataclasses.dataclass
class Dataset:
    samples: List[Sample]
    shards: List[str]

    def __len__(self):
        return len(self.samples)

    def data(self, sample: int, field: str) -> bytes:
        return self.samples[sample].fields[field]


def plain_key(sample: int) -> bytes:
    return b"s%07d" % sample


def make_dataset(folder, n: int, *, shards: int = 2, fields=("jpg",), size: Callable[[int], int] = small_size,
                 cls: Optional[Callable[[int], bytes]] = None, key: Callable[[int], bytes] = plain_key,
                 prefix: str = "train") -> Dataset:
    """n samples in `shards` tars PREFIX-000000.tar, ... of the folder; with cls, each has a cls member too."""
    os.makedirs(folder, exist_ok=True)
    data_set = Dataset([], [])
    for s in range(shards):
        path = os.path.join(str(folder), "%s-%06d.tar" % (prefix, s))
        blocks, at = [], 0
        for i in range(n * s // shards, n * (s + 1) // shards):
            sample = Sample(key(i), {}, path, {})
            for field in fields:
                sample.fields[field] = content(i, field, size(i))
            if cls:
                sample.fields["cls"] = cls(i)
            for field, data in sample.fields.items():
                packed = member(sample.key + b"." + field.encode(), data)
                sample.offsets[field] = at + len(packed) - len(padded(data))
                blocks.append(packed)
                at += len(packed)
            data_set.samples.append(sample)
        write_file(path, b"".join(blocks) + END)
        data_set.shards.append(path)
    return data_set


def write_many(path, first: int, count: int) -> str:
    """Members 0000000.bin, ... of 10 bytes each, a million in seconds: one header patched again and again."""
    template = bytearray(header(b"0000000.bin", 10))
    template[148:156] = b" " * 8
    base = sum(template) - sum(b"0000000")
    before, after = bytes(template[11:148]), bytes(template[156:])
    tail = bytes(BLOCK - 10)
    with open(path, "wb", buffering=1 << 20) as out:
        for i in range(first, first + count):
            digits = b"%07d" % i
            out.write(b"%b.bin%b%06o\0 %b%b\n0\n%b" % (digits, before, base + sum(digits), after, digits, tail))
        out.write(END)
    os.utime(path, (MTIME, MTIME))
    return str(path)
