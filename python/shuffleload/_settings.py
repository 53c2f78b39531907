"""Keyword arguments to the library's configuration: words to numbers, and numbers that fit their C types.

What is out of range for the library itself, it says; here nothing may be cut to fit on its way to it.
"""

from __future__ import annotations

import ctypes
import enum
import os
from typing import Any, Dict, Sequence, Type, Union

from . import _library


class Source(enum.IntEnum):
    """Where samples come from. AUTO: what the path is decides."""

    AUTO = 0
    MOUNT = 1  # a mount's root: its folders
    MOUNT_TAR = 2  # a mount's root: its streams
    FOLDER = 3  # a folder, or a mount's rank folder
    TAR = 4
    LIST = 5


class Output(enum.IntEnum):
    """What a batch holds."""

    UINT8_NHWC = 0
    FLOAT32_NCHW = 1
    FLOAT16_NCHW = 2
    BYTES = 3
    BFLOAT16_NCHW = 4


class Crop(enum.IntEnum):
    """How an image becomes height x width."""

    RANDOM_RESIZED = 0
    CENTRE = 1
    STRETCH = 2


class Bad(enum.IntEnum):
    """What is done about a sample that cannot be read or decoded."""

    REPLACE = 0
    SKIP = 1
    FAIL = 2


class Decode(enum.IntEnum):
    """Where JPEGs are decoded: by the host, or on the batches' GPU by nvJPEG."""

    HOST = 0
    DEVICE = 1


class Status(enum.IntEnum):
    """A sample's, in Batch.statuses; below 0 it is a negative errno."""

    GOOD = 0
    DAMAGED = 1
    REPLACED = 2
    CUT = 3


_WORDS: Dict[str, Type[enum.IntEnum]] = {"source": Source, "output": Output, "crop": Crop, "bad": Bad, "decode": Decode}

_TYPES: Dict[str, Any] = {field[0]: field[1] for field in _library.Config._fields_}


def _word(name: str, value: Union[str, int]) -> int:
    words = _WORDS[name]
    if isinstance(value, str):
        for word in words:
            if word.name == value.upper():
                return int(word)
        raise ValueError(f"{name} is {value!r}: one of {', '.join(repr(word.name.lower()) for word in words)}")
    return _integer(name, value, ctypes.c_int)


def _integer(name: str, value: Any, kind: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    try:
        number = int(value.__index__())
    except AttributeError:
        raise TypeError(f"{name} is {value!r}: an integer is wanted") from None
    if kind(number).value != number:
        raise ValueError(f"{name} is {number}: out of range")
    return number


def _three(name: str, values: Any) -> Sequence[float]:
    try:
        numbers = [float(value) for value in values]
    except TypeError:
        raise TypeError(f"{name} is {values!r}: three numbers are wanted, for red, green and blue") from None
    if len(numbers) != 3:
        raise ValueError(f"{name} has {len(numbers)} numbers: three are wanted, for red, green and blue")
    return numbers


def _device(value: Any) -> int:
    """ "cpu", "auto" or "cuda:N", or what has one of these as its text, such as a torch.device."""
    text = str(value)
    if text == "cpu":
        return _library.DEVICE_HOST
    if text == "auto":
        return _library.DEVICE_AUTO
    kind, _, number = text.partition(":")
    if kind != "cuda" or not (number.isascii() and number.isdigit()):
        raise ValueError(f"device is {text!r}: 'cpu', 'auto' (the current GPU, or where none can be used the host) or 'cuda:N'")
    return int(number) + 1


def _text(name: str, value: Any) -> bytes:
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"{name} is {value!r}: it has a zero byte in it")
    return text


def configure(arguments: Dict[str, Any]) -> _library.Config:
    """A struct sl_config of the arguments that are not None. TypeError, ValueError: one that has no place in it."""
    config = _library.Config()
    config.size = ctypes.sizeof(config)
    for name, value in arguments.items():
        kind = _TYPES[name]
        if value is None:
            continue
        if name in _WORDS:
            value = _word(name, value)
        elif name == "device":
            value = _integer(name, _device(value), kind)
        elif kind is ctypes.c_char_p:
            value = _text(name, value)
        elif kind is ctypes.c_double:
            value = float(value)
        elif name in ("mean", "deviation"):
            value = kind(*_three(name, value))
        else:
            value = _integer(name, value, kind)
        setattr(config, name, value)
    return config
