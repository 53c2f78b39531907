"""A batch, as the library hands it out: what of it is looked at is made then, so that a batch costs little."""

from __future__ import annotations

import os
from typing import Dict, List, NoReturn, Optional, Tuple

from . import _array, _library, _memory
from ._array import Array
from ._settings import Output

_ELEMENTS: Dict[int, _array.ElementType] = {
    Output.UINT8_NHWC: _array.UINT8,
    Output.FLOAT32_NCHW: _array.FLOAT32,
    Output.FLOAT16_NCHW: _array.FLOAT16,
    Output.BYTES: _array.UINT8,
    Output.BFLOAT16_NCHW: _array.BFLOAT16,
}

_HOST = (_array.CPU, 0)


class Batch:
    """A batch of N = `count` samples. Row i is sample i in every array.

    It stays as it is until this object and all its arrays, and what numpy, torch and others made of these, are gone; in
    any order, also after the loader was closed. Nothing has to be released.

    Attributes:
        count: good samples; len(batch) is the same. asked: these, and the ones that bad="skip" left out.
        epoch, number: the epoch, and the batch's number in it (after a resumption: since that).
        after: samples of the global order that the job has done once this batch and all before it are; what
            Loader.seek() takes.
        output: an Output.
    """

    __slots__ = ("_lease", "_struct", "asked", "count")

    def __init__(self, lease: _memory.Lease) -> None:
        self._lease = lease
        self._struct = _library.BatchStruct.from_address(lease.batch.value or 0)
        self.count = self._struct.count
        self.asked = self._struct.asked

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<shuffleload.Batch {self.number} of epoch {self.epoch}: {self.count} samples, {self.output.name.lower()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Batch cannot be pickled: it is a loader's memory; pickle copies, as batch.images.numpy().copy()")

    @property
    def epoch(self) -> int:
        return self._struct.epoch

    @property
    def number(self) -> int:
        return self._struct.number

    @property
    def after(self) -> int:
        return self._struct.after

    @property
    def output(self) -> Output:
        return Output(self._struct.output)

    def _devices(self) -> Tuple[Tuple[int, int], Tuple[int, int]]:
        """DLPack's names of where `data` is, and where the rest."""
        number = self._struct.device
        return (_HOST, _HOST) if number == _library.DEVICE_HOST else ((_array.CUDA, number - 1), (_array.CUDA_HOST, 0))

    @property
    def device(self) -> str:
        """Where `data` and `mask` are: "cpu", or "cuda:0" and on, as torch names them."""
        kind, number = self._devices()[0]
        return "cpu" if kind == _array.CPU else f"cuda:{number}"

    @property
    def data(self) -> Array:
        """The content: uint8 N x H x W x 3; float32, float16 or bfloat16 N x 3 x H x W; or uint8 N x L, L being the longest
        sample's length in this batch (its rows are `length_most` rounded up to 64 apart)."""
        struct = self._struct
        return _array.content_of(
            self._lease, struct, _library.ARRAY_DATA, struct.data, _ELEMENTS[struct.output], self._devices()[0]
        )

    @property
    def images(self) -> Array:
        """`data`, of images. AttributeError with output="bytes"."""
        if self.output == Output.BYTES:
            raise AttributeError("the batch holds bytes, no images: they are in batch.data")
        return self.data

    @property
    def labels(self) -> Array:
        """int64, N, as they were given, also negative ones; NO_LABEL: the sample has none."""
        return self._row_of(_library.ARRAY_LABELS, self._struct.labels, _array.INT64, self.count)

    def _row_of(self, which: int, address: int, element: _array.ElementType, count: int) -> Array:
        return _array.row_of(self._lease, which, address, element, count, self._devices()[1])

    def _device_row(self, which: int, address: int) -> Array:
        return _array.row_of(self._lease, which, address, _array.INT64, self.count, self._devices()[0])

    @property
    def device_labels(self) -> Array:
        """The labels where `data` is: a copy of them on a GPU, else `labels`."""
        if self._devices()[0] == _HOST:
            return self.labels
        return self._device_row(_library.ARRAY_DEVICE_LABELS, self._struct.device_labels)

    @property
    def device_lengths(self) -> Optional[Array]:
        """The lengths where `data` is, likewise."""
        if self._devices()[0] == _HOST or not self._struct.device_lengths:
            return self.lengths
        return self._device_row(_library.ARRAY_DEVICE_LENGTHS, self._struct.device_lengths)

    @property
    def lengths(self) -> Optional[Array]:
        """int64, N: bytes of each sample, as far as it was kept. None: images."""
        struct = self._struct
        if not struct.lengths:
            return None
        return self._row_of(_library.ARRAY_LENGTHS, struct.lengths, _array.INT64, self.count)

    @property
    def mask(self) -> Optional[Array]:
        """uint8, as `data`: 1 in content, 0 in padding. None unless mask=True."""
        struct = self._struct
        if not struct.mask:
            return None
        return _array.content_of(self._lease, struct, _library.ARRAY_MASK, struct.mask, _array.UINT8, self._devices()[0])

    @property
    def statuses(self) -> Array:
        """int32, `asked`: a Status, or a negative errno; those that were left out come last, in their order."""
        return self._row_of(_library.ARRAY_STATUSES, self._struct.statuses, _array.INT32, self.asked)

    @property
    def positions(self) -> Array:
        """uint64, `asked`: each sample's place in the global order."""
        return self._row_of(_library.ARRAY_POSITIONS, self._struct.positions, _array.UINT64, self.asked)

    @property
    def names(self) -> List[str]:
        """`asked` names: the path within the folder, tar or list, its end where that is longer than 255 bytes."""
        return [os.fsdecode(name) for name in self._struct.names[: self.asked]]

    @property
    def keys(self) -> List[str]:
        """`asked` keys, as WebDataset has them: names up to the first dot of their base name."""
        return [_key(name) for name in self.names]

    def row(self, number: int) -> memoryview:
        """Sample `number`'s bytes, without padding; the same memory."""
        if not 0 <= number < self.count:
            raise IndexError(f"row {number}: the batch has {self.count}")
        data, lengths = self.data, self.lengths
        return data._row(number, data.strides[0] if lengths is None else lengths[number])


def _key(name: str) -> str:
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]
