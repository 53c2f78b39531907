"""libshuffleload.so found, loaded and declared: its structs and functions, as loader/shuffleload.h has them.

An installed package has a copy of its own and takes that; else SHUFFLELOAD_LIBRARY names the file; else the system's is
taken. Functions that may wait are called without the interpreter's lock, those that never do with it, which is cheaper
and lets no other thread in between.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, List

SONAME = "libshuffleload.so.0"

PARTIAL, END, TIMEOUT = 1, 2, 3
ARRAY_DATA, ARRAY_LABELS, ARRAY_LENGTHS, ARRAY_MASK, ARRAY_STATUSES, ARRAY_POSITIONS = range(6)
ARRAY_DEVICE_LABELS, ARRAY_DEVICE_LENGTHS = 6, 7
EXPORT_VERSIONED, EXPORT_COPY, EXPORT_PINNED_AS_CPU = 1, 2, 4
DEVICE_AUTO, DEVICE_HOST = -1, 0
UNKNOWN = 2**64 - 1
NO_LABEL = -(2**63)

_u64 = ctypes.c_uint64
_int = ctypes.c_int


class Config(ctypes.Structure):
    """struct sl_config"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char_p),
        ("source", _int),
        ("output", _int),
        ("field", ctypes.c_char_p),
        ("rank", _u64),
        ("world", _u64),
        ("epoch", _u64),
        ("after", _u64),
        ("start", _u64),
        ("seed", _u64),
        ("batch_size", _u64),
        ("drop_last", _int),
        ("bad", _int),
        ("damaged_is_bad", _int),
        ("width", _int),
        ("height", _int),
        ("crop", _int),
        ("shorter", _int),
        ("area_least", ctypes.c_double),
        ("area_most", ctypes.c_double),
        ("ratio_least", ctypes.c_double),
        ("ratio_most", ctypes.c_double),
        ("flip", ctypes.c_double),
        ("mean", ctypes.c_float * 3),
        ("deviation", ctypes.c_float * 3),
        ("orient", _int),
        ("exact", _int),
        ("pixels_most", _u64),
        ("scans_most", _int),
        ("length_most", _u64),
        ("padding", _int),
        ("mask", _int),
        ("workers", _int),
        ("prefetch", _int),
        ("hold", _int),
        ("file_most", _u64),
        ("stream_bytes", _u64),
        ("device", _int),
        ("decode_bytes", _u64),
        ("decode", _int),
    ]


class BatchStruct(ctypes.Structure):
    """struct sl_batch"""

    count: int
    asked: int
    epoch: int
    number: int
    after: int
    output: int
    data: int
    dimensions: int
    labels: int
    lengths: int
    mask: int
    statuses: int
    positions: int
    device: int
    device_labels: int
    device_lengths: int
    _fields_ = [
        ("count", _u64),
        ("asked", _u64),
        ("epoch", _u64),
        ("number", _u64),
        ("after", _u64),
        ("output", _int),
        ("data", ctypes.c_void_p),
        ("dimensions", _int),
        ("shape", ctypes.c_int64 * 4),
        ("strides", ctypes.c_int64 * 4),
        ("labels", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("statuses", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("device", _int),
        ("device_labels", ctypes.c_void_p),
        ("device_lengths", ctypes.c_void_p),
    ]


class PositionStruct(ctypes.Structure):
    """struct sl_position"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("epoch", _u64),
        ("after", _u64),
        ("taken", _u64),
        ("samples", _u64),
        ("batches", _u64),
        ("batches_taken", _u64),
    ]


class StatsStruct(ctypes.Structure):
    """struct sl_stats"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("wall_ns", _u64),
        ("workers", _u64),
        ("batches", _u64),
        ("samples", _u64),
        ("decoded", _u64),
        ("bytes", _u64),
        ("bad", _u64),
        ("replaced", _u64),
        ("skipped", _u64),
        ("damaged", _u64),
        ("cut", _u64),
        ("unlabelled", _u64),
        ("workers_ns", _u64),
        ("wait_storage_ns", _u64),
        ("read_ns", _u64),
        ("decode_ns", _u64),
        ("resize_ns", _u64),
        ("normalise_ns", _u64),
        ("wait_consumer_ns", _u64),
        ("idle_ns", _u64),
        ("other_ns", _u64),
        ("stream_read_ns", _u64),
        ("stream_wait_ns", _u64),
        ("consumer_wait_ns", _u64),
        ("last_bad", ctypes.c_char * 512),
        ("device_decoded", _u64),
        ("fallbacks", _u64),
        ("fallbacks_kind", _u64),
        ("fallbacks_large", _u64),
        ("fallbacks_refused", _u64),
        ("last_fallback", ctypes.c_char * 512),
    ]


class DLTensor(ctypes.Structure):
    """What a DLManagedTensor begins with."""

    device_type: int
    device_id: int
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class ManagedTensor(ctypes.Structure):
    """DLManagedTensor"""

    tensor: DLTensor
    deleter: int
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedTensorVersioned(ctypes.Structure):
    """DLManagedTensorVersioned"""

    deleter: int
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def _candidates() -> List[str]:
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), SONAME)
    if os.path.exists(own):
        return [own]
    named = os.environ.get("SHUFFLELOAD_LIBRARY")
    return [os.path.abspath(named)] if named else [SONAME]


def _load() -> str:
    tried = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        if hasattr(library, "sl_batch_export"):
            return name
        tried.append(f"{name}: too old, it has no sl_batch_export()")
    raise ImportError(
        f"shuffleload cannot load libshuffleload ({'; '.join(tried)}): install the package with its library (pip install), "
        "install the library (make install), or name its file in SHUFFLELOAD_LIBRARY"
    )


PATH = _load()
_waiting = ctypes.CDLL(PATH)
_quick = ctypes.PyDLL(PATH)

Function = Callable[..., Any]


def _declare(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Function:
    function = library[name]  # a new one each time, with types of its own
    function.restype = result
    function.argtypes = arguments
    return function


_pointer = ctypes.c_void_p
_next = (_pointer, _pointer, _int)
_export = (_pointer, _pointer, _int, ctypes.c_uint, _pointer)

# These may wait.
sl_open = _declare(_waiting, "sl_open", _int, _pointer, ctypes.POINTER(Config))
sl_next = _declare(_waiting, "sl_next", _int, *_next)
sl_seek = _declare(_waiting, "sl_seek", _int, _pointer, _u64, _u64)
sl_close = _declare(_waiting, "sl_close", None, _pointer)
sl_export_copy = _declare(_waiting, "sl_export", _int, *_export)
sl_batch_export = _declare(_waiting, "sl_batch_export", _int, _pointer, _int, ctypes.c_uint, _pointer, _pointer)

# These do not, but for a lock that nobody reads, decodes or copies under.
sl_next_now = _declare(_quick, "sl_next", _int, *_next)
sl_release = _declare(_quick, "sl_release", _int, _pointer, _pointer)
sl_export = _declare(_quick, "sl_export", _int, *_export)
sl_position = _declare(_quick, "sl_position", _int, _pointer, _pointer)
sl_stats = _declare(_quick, "sl_stats", _int, _pointer, _pointer)
sl_cancel = _declare(_quick, "sl_cancel", None, _pointer)
sl_error = _declare(_quick, "sl_error", ctypes.c_char_p, _pointer)
sl_version = _declare(_quick, "sl_version", ctypes.c_char_p)

#: void deleter(self) of a tensor.
Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def error_text(loader: object) -> str:
    """sl_error(): of a loader's pointer, or None for this thread's last sl_open()."""
    return bytes(sl_error(loader)).decode("utf-8", "surrogateescape")


def version() -> str:
    """The library's version, as "0.1.0"."""
    return bytes(sl_version()).decode()
