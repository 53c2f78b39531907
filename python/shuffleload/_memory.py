"""Who keeps a batch's memory: leases, and DLPack capsules.

A lease is a tensor that the library made of the batch (sl_export()), and its end is the tensor's deleter, a plain C
function. So a batch lives as long as any lease or tensor of it, whatever happens to the loader, and nothing of Python
runs when a consumer frees what it got: that may be in any thread, while an exception is under way, or after the
interpreter has ended.

A capsule whose tensor nobody takes would need a destructor, which could only be Python here and so would run while an
exception is under way. Capsules have none; those that were dropped untaken are looked for when the next one is made,
and when a batch is asked for.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _library
from ._errors import error_of

_deleters: Dict[int, Callable[[int], None]] = {}


def _delete(tensor: int, function: int) -> None:
    """Calls a tensor's deleter."""
    deleter = _deleters.get(function)
    if deleter is None:
        deleter = _deleters[function] = _library.Deleter(function)
    deleter(tensor)


class Lease:
    """Keeps one batch as it is until this object is gone. The library fills in the addresses."""

    __slots__ = ("_delete", "batch", "loader", "tensor")

    def __init__(self, loader: int) -> None:
        self.loader = loader
        self.batch = ctypes.c_void_p()
        self.tensor = ctypes.c_void_p()
        self._delete = _delete  # at the interpreter's end, modules may be empty already

    def keep(self) -> None:
        """Between sl_next() and sl_release(): from here on the batch is this lease's."""
        if not self.tensor.value:
            status = _library.sl_export(self.loader, self.batch, 0, 0, ctypes.byref(self.tensor))
            if status:
                raise error_of(status, _library.error_text(self.loader))
        _library.sl_release(self.loader, self.batch)

    def __del__(self) -> None:
        tensor = self.tensor.value
        if tensor:
            self.tensor.value = None
            self._delete(tensor, _deleter_of(tensor))


def _deleter_of(tensor: int, struct: Any = _library.ManagedTensor) -> int:
    return int(struct.from_address(tensor).deleter)


_python = ctypes.PyDLL(None)
_capsule_new = _python["PyCapsule_New"]
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is_valid = _python["PyCapsule_IsValid"]
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)

# The capsules point at these.
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"

_Entry = Tuple[object, bytes, int]
_waiting: List[_Entry] = []
_lock = threading.Lock()


def _references(entry: _Entry) -> int:
    return sys.getrefcount(entry[0])


_ALONE = _references((object(), b"", 0))


def _after_fork() -> None:
    """A child has the lock as some other thread of its parent left it; and its parent's capsules are its parent's."""
    global _lock
    _lock = threading.Lock()
    _waiting.clear()


os.register_at_fork(after_in_child=_after_fork)


def reap() -> None:
    """Frees the tensors of capsules that were dropped untaken. Never waits: who is at it already will do."""
    if not _waiting or not _lock.acquire(blocking=False):
        return
    try:
        # Others may append meanwhile.
        for entry in _waiting[:]:
            capsule_, name, tensor = entry
            taken = not _capsule_is_valid(capsule_, name)  # the consumer has renamed it, and calls the deleter
            del capsule_
            if not taken and _references(entry) != _ALONE:
                continue
            _waiting.remove(entry)
            if not taken:
                struct = _library.ManagedTensorVersioned if name is _VERSIONED else _library.ManagedTensor
                _delete(tensor, _deleter_of(tensor, struct))
    finally:
        _lock.release()


def capsule(lease: Lease, array: int, how: int, stream: Optional[int]) -> object:
    """A DLPack capsule of one array (ARRAY_...) of a lease's batch; how: bits EXPORT_... stream: where a GPU's memory is
    used, CUDA's handle; None: the host's memory."""
    reap()
    tensor = ctypes.c_void_p()
    if stream is not None:
        status = _library.sl_batch_export(lease.batch, array, how, stream, ctypes.byref(tensor))
    else:
        function = _library.sl_export_copy if how & _library.EXPORT_COPY else _library.sl_export
        status = function(lease.loader, lease.batch, array, how, ctypes.byref(tensor))
    if status:
        raise error_of(status, _library.error_text(lease.loader))
    name = _VERSIONED if how & _library.EXPORT_VERSIONED else _PLAIN
    made: object = _capsule_new(tensor, name, None)
    _waiting.append((made, name, tensor.value or 0))
    return made
