"""Keyword arguments to the library's configuration: words to numbers, and numbers that fit their C types.

What is out of range for the library itself, it says; here nothing may be cut to fit on its way to it.
"""

from __future__ import annotations

import ctypes
import enum
import operator
import os
import sys
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

_LARGEST_INT = 2**31 - 1

_TYPES: Dict[str, Any] = {field[0]: field[1] for field in _library.Config._fields_}


def _word(name: str, value: Union[str, int]) -> int:
    words = _WORDS[name]
    if isinstance(value, str):
        for word in words:
            if word.name == value.upper():
                return int(word)
        raise ValueError(f"{name} is {brief(value)}: one of {', '.join(repr(word.name.lower()) for word in words)}")
    return _integer(name, value, ctypes.c_int)


#: Settings that are on or off.
_FLAGS = frozenset({"drop_last", "damaged_is_bad", "orient", "exact", "mask"})

#: Of two that are limits of one range, one alone leaves the other at its default.
_RANGES = (("area_least", 0.08), ("area_most", 1.0)), (("ratio_least", 3 / 4), ("ratio_most", 4 / 3))


def brief(value: object) -> str:
    """A value for a message: not a thousand digits of it."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def natural(name: str, value: Any) -> int:
    """What fits into 64 bits without a sign: an int, or one of numpy or torch."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {brief(value)}: an integer from 0 to 2^64 - 1")
    return number


def _integer(name: str, value: Any, kind: Any) -> int:
    if isinstance(value, bool) and name in _FLAGS:
        return int(value)
    try:
        number = operator.index(value)
    except TypeError:
        wanted = "True or False is" if name in _FLAGS else "an integer is"
        raise TypeError(f"{name} is {brief(value)}: {wanted} wanted") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value}: an integer is wanted")
    if kind(number).value != number:
        raise ValueError(f"{name} is {brief(number)}: out of range")
    return number


def _real(name: str, value: Any) -> float:
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"{name} is {brief(value)}: a number is wanted") from None
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is {brief(value)}: a number is wanted") from None


def _three(name: str, values: Any) -> Sequence[float]:
    try:
        members = list(values)
    except TypeError:
        raise TypeError(f"{name} is {brief(values)}: three numbers are wanted, for red, green and blue") from None
    if len(members) != 3:
        raise ValueError(f"{name} has {len(members)} numbers: three are wanted, for red, green and blue")
    return [_real(f"{name}[{at}]", member) for at, member in enumerate(members)]


def _current_gpu() -> int:
    """torch's, where it is used and has one."""
    torch: Any = sys.modules.get("torch")
    return int(torch.cuda.current_device()) if torch is not None and torch.cuda.is_available() else 0


def _device(value: Any) -> int:
    """ "cpu", "auto", "cuda" or "cuda:N", or what has one of these as its text, such as a torch.device."""
    text = str(value)
    if text in ("cpu", "cpu:0"):
        return _library.DEVICE_HOST
    if text == "auto":
        return _library.DEVICE_AUTO
    if text == "cuda":
        return _current_gpu() + 1
    kind, _, number = text.partition(":")
    if kind != "cuda" or not (number.isascii() and number.isdigit()):
        raise ValueError(
            f"device is {brief(text)}: 'cpu', 'auto' (the current GPU, or where none can be used the host), 'cuda' (torch's "
            "current device, else the first) or 'cuda:N'"
        )
    if len(number) > 10 or int(number) + 1 > _LARGEST_INT:
        raise ValueError(f"device is {brief(text)}: out of range")
    return int(number) + 1


def _text(name: str, value: Any) -> bytes:
    try:
        text = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} is {brief(value)}: text is wanted{' or a path object' if name == 'path' else ''}") from None
    if b"\0" in text:
        raise ValueError(f"{name} is {brief(value)}: it has a zero byte in it")
    return text


def _complete(arguments: Dict[str, Any]) -> Dict[str, Any]:
    """With the other limit of a range of which one was given: the library takes both, or neither."""
    more = {}
    for limits in _RANGES:
        if any(arguments.get(name) for name, _ in limits):
            more.update({name: default for name, default in limits if not arguments.get(name)})
    return {**arguments, **more}


def configure(arguments: Dict[str, Any]) -> _library.Config:
    """A struct sl_config of the arguments that are not None. TypeError, ValueError: one that has no place in it."""
    config = _library.Config()
    config.size = ctypes.sizeof(config)
    if "path" in arguments and arguments["path"] is None:
        raise TypeError("path is None: text or a path object is wanted")
    for name, value in _complete(arguments).items():
        kind = _TYPES[name]
        if value is None:
            continue
        if name in _WORDS:
            value = _word(name, value)
        elif name == "device":
            value = _device(value)
        elif kind is ctypes.c_char_p:
            value = _text(name, value)
        elif kind is ctypes.c_double:
            value = _real(name, value)
        elif name in ("mean", "deviation"):
            value = kind(*_three(name, value))
        else:
            value = _integer(name, value, kind)
        setattr(config, name, value)
    return config
