"""Exceptions out of the library's results: one class, and those below it that fit a built-in one as well."""

from __future__ import annotations

import errno
from typing import Dict, Type


class ShuffleloadError(OSError):
    """What libshuffleload could not do.

    `errno` is the C function's error; `strerror` its text, which names the file and the fault.
    """

    def __str__(self) -> str:
        # torch makes a worker's exception anew in its parent, of one text.
        return str(self.strerror if self.strerror is not None else OSError.__str__(self))


class ShuffleloadValueError(ShuffleloadError, ValueError):
    """EINVAL: a setting or an argument out of range; the text names it and its value."""


class ShuffleloadNotFoundError(ShuffleloadError, FileNotFoundError):
    """ENOENT: the path, or something it needs, is not there."""


class ShuffleloadPermissionError(ShuffleloadError, PermissionError):
    """EACCES or EPERM."""


class RepeatedEpochWarning(UserWarning):
    """An epoch is read a second time, and nobody asked for that: set_epoch() was forgotten."""


_CLASSES: Dict[int, Type[ShuffleloadError]] = {
    errno.EINVAL: ShuffleloadValueError,
    errno.ENOENT: ShuffleloadNotFoundError,
    errno.EACCES: ShuffleloadPermissionError,
    errno.EPERM: ShuffleloadPermissionError,
}


def error_of(status: int, text: str) -> ShuffleloadError:
    """The exception for a negative result of the library and its text."""
    return _CLASSES.get(-status, ShuffleloadError)(-status, text)
