"""An array of a batch: a view of the library's memory that numpy, torch and other DLPack consumers take without a copy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Tuple

from . import _library, _memory

if TYPE_CHECKING:
    import numpy

#: DLPack's device types that a batch's memory may be of.
CPU, CUDA, CUDA_HOST = 1, 2, 3


class ElementType(NamedTuple):
    name: str
    typestr: str  # of __array_interface__; "": it has none
    code: str  # of memoryview.cast(); "": it has none
    size: int  # bytes


UINT8 = ElementType("uint8", "|u1", "B", 1)
FLOAT16 = ElementType("float16", "<f2", "", 2)
BFLOAT16 = ElementType("bfloat16", "", "", 2)
FLOAT32 = ElementType("float32", "<f4", "f", 4)
INT32 = ElementType("int32", "<i4", "i", 4)
INT64 = ElementType("int64", "<i8", "q", 8)
UINT64 = ElementType("uint64", "<u8", "Q", 8)


class Array:
    """One array of a batch, in the batch's own memory.

    `numpy()`, `torch()`, `numpy.asarray(array)`, `torch.from_dlpack(array)` and any other consumer of DLPack or of
    `__array_interface__` share that memory, and the batch stays as it is until the last of them is gone. Each counts
    towards the loader's `hold`. What is kept for long is better copied.

    Attributes:
        shape: elements along each dimension. strides: elements from one to the next.
        dtype: the elements' type by its name in numpy and torch, as "float32".
        nbytes: bytes of all elements.
    """

    __slots__ = ("_address", "_device", "_element", "_lease", "_which", "shape", "strides")

    def __init__(
        self,
        lease: _memory.Lease,
        which: int,
        address: int,
        element: ElementType,
        shape: Tuple[int, ...],
        strides: Tuple[int, ...],
        device: Tuple[int, int],
    ) -> None:
        self._lease = lease
        self._device = device
        self._which = which
        self._address = address
        self._element = element
        self.shape = shape
        self.strides = strides

    @property
    def dtype(self) -> str:
        return self._element.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        bytes_ = self._element.size
        for side in self.shape:
            bytes_ *= side
        return bytes_

    def __repr__(self) -> str:
        return f"<shuffleload.Array {self.dtype} {'x'.join(map(str, self.shape))}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Any:
        """Of an array of one dimension: an element, as a number."""
        if len(self.shape) != 1:
            raise TypeError("an element of an array of several dimensions: use numpy() or torch()")
        return self._elements()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a batch's array cannot be pickled: it is a loader's memory; pickle a copy, as array.numpy().copy()")

    def _host(self) -> None:
        if self._device[0] == CUDA:
            raise BufferError(
                f"the array is in the memory of GPU {self._device[1]}: use torch(), or another consumer of DLPack"
            )

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        element = self._element
        if self._device[0] == CUDA or not element.typestr:  # it has no such attribute then
            raise AttributeError(f"numpy knows no {element.name} in the memory of {self._device}")
        return {
            "version": 3,
            "data": (self._address, False),
            "shape": self.shape,
            "typestr": element.typestr,
            "strides": tuple(stride * element.size for stride in self.strides),
        }

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> numpy.ndarray[Any, Any]:
        """numpy asks for it where there is no __array_interface__, and so learns why there is none: see numpy()."""
        array = self.numpy()
        return array.astype(dtype or array.dtype, copy=bool(copy))

    def __dlpack_device__(self) -> Tuple[int, int]:
        """(kDLCPU, 0), or (kDLCUDA, index). Pinned memory is the CPU's here, too, as torch takes no other."""
        return self._device if self._device[0] == CUDA else (CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object:
        """A DLPack capsule: versioned where max_version is at least (1, 0), else the older one without a version.

        stream: in a GPU's memory, the consumer's: it waits for the batch, and what is on it when the tensor goes keeps the
        batch until that is done. None, 1: the default stream; 2: the thread's own; -1 is as None; else CUDA's handle. What
        is in the host's memory is complete when the batch is handed out, so no stream has to wait; on memory that is not
        pinned there are none, and only None and -1 are taken.
        dl_device: the array's own; of pinned memory (kDLCPU, 0) or (kDLCUDAHost, 0). copy=True exports a copy of its own, in
        the host's memory; nothing else is copied or moved.

        BufferError: another device, a copy of what is in a GPU's memory, or a stream where there is none. ShuffleloadError
        with EOWNERDEAD in a child of fork(), or with what CUDA reported.
        """
        if stream is not None and not isinstance(stream, int):
            raise TypeError(f"stream is {stream!r}: an integer, or None")
        how = _library.EXPORT_VERSIONED if max_version is not None and max_version[0] >= 1 else 0
        how |= _library.EXPORT_COPY if copy else 0
        kind = self._device[0]
        wanted = self.__dlpack_device__() if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted != self._device and (kind != CUDA_HOST or wanted != (CPU, 0)):
            raise BufferError(f"dl_device is {wanted}: the array is on {self._device}, and is not moved")
        if kind == CUDA:
            if stream == 0 or copy:
                raise BufferError("stream 0 says nothing" if stream == 0 else "what is in a GPU's memory is not copied")
            return _memory.capsule(self._lease, self._which, how, stream if stream is not None and stream > 0 else 0)
        if stream not in (None, -1) and kind != CUDA_HOST:
            raise BufferError(f"stream is {stream}: the array is in host memory, where nothing is streamed")
        if kind != wanted[0]:
            how |= _library.EXPORT_PINNED_AS_CPU
        return _memory.capsule(self._lease, self._which, how, None)

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """A numpy array of the same memory. ImportError without numpy; BufferError: it is in a GPU's; TypeError: numpy has no
        such type (bfloat16)."""
        import numpy

        self._host()
        if not self._element.typestr:
            raise TypeError(f"numpy has no {self.dtype}: use torch()")
        return numpy.asarray(self)

    def torch(self) -> Any:
        """A torch tensor of the same memory, on its device. ImportError without torch."""
        import torch

        return torch.from_dlpack(self)

    def _is_dense(self) -> bool:
        expected = 1
        for side, stride in zip(reversed(self.shape), reversed(self.strides)):
            if side != 1 and stride != expected:
                return False
            expected *= side
        return True

    def view(self) -> memoryview:
        """The bytes of a dense array, in one dimension; the same memory. ValueError where rows are apart (SL_BYTES)."""
        if not self._is_dense():
            raise ValueError("its rows do not stand side by side: use batch.row(), numpy() or torch()")
        return self._view(self._address, self.nbytes)

    def _view(self, address: int, size: int) -> memoryview:
        self._host()
        if not size:
            return memoryview(b"")  # a view of nothing cannot be cast
        memory: Any = (ctypes.c_uint8 * size).from_address(address)
        memory.lease = self._lease  # the view keeps `memory`, and that the batch
        return memoryview(memory).cast("B")

    def _row(self, number: int, elements: int) -> memoryview:
        size = self._element.size
        return self._view(self._address + number * self.strides[0] * size, elements * size)

    def _elements(self) -> memoryview:
        view: Any = self.view()  # of the types there are, only the element's own gives numbers
        elements: memoryview = view.cast(self._element.code)
        return elements

    def tolist(self) -> List[Any]:
        """Of an array of one dimension: its elements, as numbers."""
        if len(self.shape) != 1:
            raise TypeError("a list of an array of several dimensions: use numpy() or torch()")
        numbers: List[Any] = self._elements().tolist()
        return numbers


def row_of(lease: _memory.Lease, which: int, address: int, element: ElementType, count: int, device: Tuple[int, int]) -> Array:
    """An array of one dimension."""
    return Array(lease, which, address, element, (count,), (1,), device)


def content_of(
    lease: _memory.Lease,
    struct: _library.BatchStruct,
    which: int,
    address: int,
    element: ElementType,
    device: Tuple[int, int],
) -> Array:
    """An array of a batch's own shape: its data, or its mask."""
    dimensions = struct.dimensions
    shape, strides = struct.shape, struct.strides
    return Array(lease, which, address, element, tuple(shape[:dimensions]), tuple(strides[:dimensions]), device)
