"""The loader: one sl_loader, its epochs as iterators, and how it ends.

The library's loader belongs to the process that opened it. One lock has one thread at a time in it; who waits for a batch
waits in slices, so that a KeyboardInterrupt, close() or set_epoch() gets through.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import gc
import os
import threading
import warnings
import weakref
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Type, Union

from . import _library, _memory, _place
from ._batch import Batch
from ._errors import RepeatedEpochWarning, ShuffleloadError, error_of
from ._settings import Bad, Crop, Decode, Output, Source, configure, natural

#: How long a wait in the library lasts at most, before signals are looked at.
SLICE_MS = 50

#: Of the library itself it is 1, too few here: a loop's name has its batch while the next one is fetched.
HOLD = 3

_FORKED = "the loader belongs to the process that forked this one: open it after the fork"


class Position(NamedTuple):
    """Where a loader is. samples and batches are this rank's in this epoch (since a seek); None: not known yet (a tar)."""

    epoch: int
    after: int
    taken: int
    samples: Optional[int]
    batches: Optional[int]
    batches_taken: int


class Stats(NamedTuple):
    """Counts since the loader was opened, and where time went, in nanoseconds: see shuffleload(3), "Counts and times"."""

    wall_ns: int
    workers: int
    batches: int
    samples: int
    decoded: int
    bytes: int
    bad: int
    replaced: int
    skipped: int
    damaged: int
    cut: int
    unlabelled: int
    workers_ns: int
    wait_storage_ns: int
    read_ns: int
    decode_ns: int
    resize_ns: int
    normalise_ns: int
    wait_consumer_ns: int
    idle_ns: int
    other_ns: int
    stream_read_ns: int
    stream_wait_ns: int
    consumer_wait_ns: int
    last_bad: str
    device_decoded: int
    fallbacks: int
    fallbacks_kind: int
    fallbacks_large: int
    fallbacks_refused: int
    last_fallback: str


def _absolute(path: str) -> str:
    """The library opens a mount's path anew for each epoch, and a chdir() may come in between."""
    if path and not os.path.isabs(path):
        with contextlib.suppress(FileNotFoundError):  # of a folder that is gone
            return os.path.join(os.getcwd(), path)
    return path


class Loader:
    """Files in order to batches.

        loader = shuffleload.Loader("/mnt/imagenet", rank=3, world=8, batch_size=256, output="float32_nchw")
        for epoch in range(90):
            loader.set_epoch(epoch)
            for batch in loader:
                train(torch.from_dlpack(batch.images), torch.from_dlpack(batch.labels))

    `path` is a shufflefs mount, a mount's rank folder, list or stream, any folder, tar or list. Batches are made from the
    first moment on, by threads of the library's own. A `for` goes through the current epoch from its start, or from where
    seek(), load_state_dict() or `after` has put it. Batches are a function of the samples, these arguments, and (seed,
    epoch, position in the global order) alone: not of the workers, nor of how many ranks there are.

    Args (None, and 0 of a number: the default):
        path: where the samples are.
        source: "auto", "mount", "mount_tar", "folder", "tar" or "list".
        output: "uint8_nhwc", "float32_nchw", "float16_nchw", "bfloat16_nchw" or "bytes".
        field: the sample's content: its extension, several as "jpg/jpeg/png".
        rank, world: of a mount, the share to read (world None: the mount's own). Elsewhere the path is this rank's share
            already, and they place it in the global order, on which random numbers hang.
        epoch: the first one. after: samples of its global order that are done. start: not for mounts: the first sample's
            place in the global order.
        seed: of the random numbers; the order has its own in the mount.
        batch_size: samples, 1 to 65536 (1). drop_last: an epoch's last batch is left out where it is partial.
        bad: "replace" (the next good sample of its batch takes its place), "skip" or "fail". damaged_is_bad: so is one
            that decodes with parts missing. A mount that dies is no bad sample: it raises ShuffleloadError whatever this is.
        width, height: pixels (224). crop: "random_resized", "centre" or "stretch". shorter: pixels of the shorter side,
            for "centre" (8/7 of the larger of width and height).
        area_least, area_most: of a random crop, shares of the image (0.08, 1). ratio_least, ratio_most: width / height
            (3/4, 4/3). flip: probability of a left-right flip (0).
        mean, deviation: three numbers each, of x / 255 (0 and 1).
        orient: EXIF orientation is applied. exact: no DCT scaling: slower, as PIL within 1 level.
        pixels_most, scans_most: larger images, and JPEGs of more scans, are bad samples (178,956,970 and 500).
        length_most: with "bytes", bytes that are kept of a sample (65536). padding: the byte behind them (0). mask: batches
            have a mask.
        workers: threads (the cores this process may use, divided by LOCAL_WORLD_SIZE). prefetch: batches made ahead (2).
        hold: batches that may be in use at once (3: the one in the loop, the next one being fetched, and one that some name
            has from before). A batch is in use while it, one of its arrays or a tensor of these exists.
        file_most: bytes; larger files are bad samples (64 MiB). stream_bytes: read ahead of the workers in a tar.
        device: where batches are made: "cpu", "auto" (the current GPU, or where none can be used the host), "cuda:N" or
            "cuda" (torch's current device, where torch is used, else the first); a torch.device does, too. On a GPU, `data` and
            `mask` are in its memory, and so are `device_labels`; what takes them by DLPack names its stream, which waits for the
            batch. Of a library without CUDA: "cpu" and "auto" alone.
        decode: "host", or "device": JPEGs are decoded on the batches' GPU by nvJPEG, for few cores; what it does not decode
            the host does, counted in stats(). decode_bytes: of the GPU's memory for that (4 MiB a sample of a batch).

    Raises ShuffleloadError (an OSError) with the library's text, or what of it fits a built-in exception:
    ShuffleloadValueError, ShuffleloadNotFoundError, ShuffleloadPermissionError. ValueError and TypeError for arguments that
    the library has no place for.

    Threads: one at a time takes batches; everything else may be called from any, and waits for it at most a moment. A child
    of fork() cannot use its parent's loader, which says so (EOWNERDEAD), nor can one be pickled: make it in the process that
    reads. close(), or the end of a `with`, ends the threads and closes all files; batches in use stay. A loader that nobody
    has any more is closed, too. At the interpreter's end threads are only told to stop, and go with the process.
    """

    def __init__(
        self,
        path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"],
        *,
        source: Union[str, int, Source, None] = None,
        output: Union[str, int, Output, None] = None,
        field: Optional[str] = None,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        epoch: Optional[int] = None,
        after: Optional[int] = None,
        start: Optional[int] = None,
        seed: Optional[int] = None,
        batch_size: Optional[int] = None,
        drop_last: Optional[bool] = None,
        bad: Union[str, int, Bad, None] = None,
        damaged_is_bad: Optional[bool] = None,
        width: Optional[int] = None,
        height: Optional[int] = None,
        crop: Union[str, int, Crop, None] = None,
        shorter: Optional[int] = None,
        area_least: Optional[float] = None,
        area_most: Optional[float] = None,
        ratio_least: Optional[float] = None,
        ratio_most: Optional[float] = None,
        flip: Optional[float] = None,
        mean: Optional[Sequence[float]] = None,
        deviation: Optional[Sequence[float]] = None,
        orient: Optional[bool] = None,
        exact: Optional[bool] = None,
        pixels_most: Optional[int] = None,
        scans_most: Optional[int] = None,
        length_most: Optional[int] = None,
        padding: Optional[int] = None,
        mask: Optional[bool] = None,
        workers: Optional[int] = None,
        prefetch: Optional[int] = None,
        hold: Optional[int] = None,
        file_most: Optional[int] = None,
        stream_bytes: Optional[int] = None,
        device: Any = None,
        decode_bytes: Optional[int] = None,
        decode: Union[str, int, Decode, None] = None,
    ) -> None:
        self._pointer: Optional[int] = None
        self._owner = os.getpid()
        arguments = dict(locals())
        del arguments["self"]
        if not hold:
            arguments["hold"] = HOLD
        config = configure(arguments)
        config.path = os.fsencode(_absolute(os.fsdecode(config.path)))
        self._path: str = os.fsdecode(config.path)
        self._world: int = config.world
        self._seed: int = config.seed
        self._hold: int = config.hold
        self._lock = threading.RLock()
        self._depth = 0  # calls that are in the library: one, unless a signal handler comes in between
        self._closing = False
        self._generation = 0  # of iterators; the latest one alone is good
        self._at_start = True  # nothing was taken since the epoch began, or was begun anew
        self._ended = False  # the epoch was read to its end, and nobody has asked for another one
        self._pending: Optional[_memory.Lease] = None  # being fetched, when something came in between
        self._after = 0  # of the last batch that was handed out, or where the epoch began
        pointer = ctypes.c_void_p()
        try:
            status = _library.sl_open(ctypes.byref(pointer), config)
            if status:
                raise error_of(status, _library.error_text(None))
            self._pointer = pointer.value
            self._after = self._ask_position().after
            self._place = _place.find(self._path, self._world)
            _alive.add(self)
        except BaseException:  # an interrupt, say, with the loader open already
            self._pointer = None
            _library.sl_close(pointer)
            raise

    # Ends.

    def close(self) -> None:
        """Ends the threads and closes all files, after the reads under way. Batches in use stay. Twice is once.

        Where storage hangs, a KeyboardInterrupt ends the waiting here; the threads end when they can."""
        self._closing = True
        if self._pointer is None or self._owner != os.getpid():
            return
        with self._lock:
            if not self._depth:  # else in a signal handler, in the middle of a call: that one closes
                self._close()

    def _close(self) -> None:
        """Under the lock."""
        pointer, self._pointer = self._pointer, None
        self._pending = None
        if pointer is None:
            return
        closer = threading.Thread(target=_library.sl_close, args=(pointer,), name="shuffleload-close", daemon=True)
        try:
            closer.start()
        except RuntimeError:  # no more threads, as at the interpreter's end
            _library.sl_close(pointer)
            return
        closer.join()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody has it, so nobody is in it.
        if getattr(self, "_pointer", None) is not None and _exiting is False and self._owner == os.getpid():
            _library.sl_close(self._pointer)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader cannot be pickled: its threads and memory are this process's; make it in the process that reads"
        )

    def __repr__(self) -> str:
        return f"<shuffleload.Loader {self._path!r}{' (closed)' if self._closing else ''}>"

    # Calls into the library.

    def _enter(self) -> int:
        """Takes the lock, and gives the loader's pointer; to be followed by _leave()."""
        if self._owner != os.getpid():
            raise ShuffleloadError(errno.EOWNERDEAD, _FORKED)
        self._lock.acquire()
        if self._depth:
            self._lock.release()
            raise RuntimeError("the loader is in the middle of a call, which a signal handler has interrupted")
        self._depth = 1
        if self._closing or self._pointer is None:
            self._leave()
            raise ValueError("the loader is closed")
        return self._pointer

    def _leave(self) -> None:
        try:
            if self._closing:
                self._close()
        finally:
            self._depth = 0
            self._lock.release()

    def _fail(self, status: int) -> NoReturn:
        with self._lock:  # which keeps the pointer
            raise error_of(status, "the loader was closed" if self._pointer is None else _library.error_text(self._pointer))

    def _waits(self) -> bool:
        """Under the lock: did an interrupted call get a batch from the library that nobody has seen?"""
        return self._pending is not None and bool(self._pending.batch.value)

    def _fetch(self, generation: int) -> Optional[_memory.Lease]:
        """The next batch; None at the end of the epoch. Whatever interrupts it, no batch is lost."""
        _memory.reap()
        wait, collected = 0, False
        while True:
            pointer = self._enter()
            try:
                if self._generation != generation:
                    raise RuntimeError(
                        "the epoch of this iterator is over: set_epoch(), seek() or another iter() came after it"
                    )
                lease = self._pending
                if lease is None:
                    lease = self._pending = _memory.Lease(pointer)
                status = 0
                if not lease.batch.value:
                    if wait:
                        status = _library.sl_next(pointer, ctypes.byref(lease.batch), wait)
                    else:
                        status = _library.sl_next_now(pointer, ctypes.byref(lease.batch), 0)
                if lease.batch.value:
                    lease.keep()
                    self._after = _library.BatchStruct.from_address(lease.batch.value).after
                    self._at_start = False
                    self._pending = None
                    return lease
                if status == _library.END:
                    self._at_start = False
                    self._ended = True
                    return None
            finally:
                self._leave()
            if status == _library.TIMEOUT:
                wait = SLICE_MS
            elif status == -errno.EBUSY and not collected:
                gc.collect()  # some may only be in reference cycles
                _memory.reap()
                collected = True
            elif status == -errno.EBUSY:
                raise ShuffleloadError(
                    errno.EBUSY,
                    f"all {self._hold} batches that hold={self._hold} allows are in use: drop one, with its arrays and "
                    "tensors, copy what is kept, or raise hold",
                )
            else:
                self._fail(status)

    def _begin(self, epoch: int, after: int) -> None:
        """Under the lock: another epoch, or place. Iterators of before are over."""
        self._generation += 1
        if self._pending is not None and self._waits():
            self._pending.keep()
        self._pending = None
        # Also where it fails: what is asked for then gives that error, and not another epoch.
        self._at_start = True
        self._ended = False
        place = self._look()
        status = _library.sl_seek(self._pointer, epoch, after)
        if status:
            self._fail(status)
        self._place = place
        self._after = self._ask_position().after

    def _look(self) -> _place.Place:
        """What the path is now: another mount may be there. Where none answers, what it was."""
        try:
            place = _place.find(self._path, self._world)
        except OSError:  # which the library meets as well, and tells
            return self._place
        return place if place.fingerprint is not None else self._place

    # Epochs.

    def set_epoch(self, epoch: int) -> None:
        """Starts `epoch` from its beginning; what was made ahead of another one is dropped. On a mount that is the folder of
        that epoch: no control file is written, and what others read does not move. ShuffleloadError as of opening."""
        self.seek(epoch, 0)

    def seek(self, epoch: int, after: int) -> None:
        """The same, from the `after`th sample of the epoch's global order on: how a job goes on from a checkpoint, on as
        many ranks or others. Elsewhere than on a mount, `after` less `start` has to be a multiple of the world. Past the end
        of the epoch: ShuffleloadValueError, which names the epoch's samples; of a tar the next batch raises it, as its end is
        not known before."""
        epoch, after = natural("epoch", epoch), natural("after", after)
        self._enter()
        try:
            self._begin(epoch, after)
        finally:
            self._leave()

    def __iter__(self) -> Iterator[Batch]:
        """The current epoch from its start, or from where seek(), load_state_dict() or `after` has put it."""
        self._enter()
        try:
            if not self._at_start:
                if self._ended:
                    warnings.warn(
                        f"epoch {self._position().epoch} of {self._path} is read a second time: call set_epoch() before each "
                        "epoch",
                        RepeatedEpochWarning,
                        stacklevel=2,
                    )
                self._begin(self._position().epoch, 0)
            else:
                self._generation += 1
            return _Epoch(self, self._generation)
        finally:
            self._leave()

    def __len__(self) -> int:
        """Batches of this epoch (since a seek). TypeError: not known, as a tar has not been read to its end."""
        batches = self.position().batches
        if batches is None:
            raise TypeError(f"the number of batches is not known before the end of {self._path}")
        return batches

    def __bool__(self) -> bool:
        return True

    # Where it is.

    def _ask_position(self) -> Position:
        """Under the lock: the library's."""
        struct = _library.PositionStruct(ctypes.sizeof(_library.PositionStruct))
        status = _library.sl_position(self._pointer, ctypes.byref(struct))
        if status:
            self._fail(status)
        numbers: List[Any] = [getattr(struct, field) for field in Position._fields]
        return Position._make(None if number == _library.UNKNOWN else number for number in numbers)

    def _position(self) -> Position:
        """Under the lock. A batch that an interrupted call has got, and nobody has seen, was not taken."""
        at = self._ask_position()
        if self._pending is None or not self._waits():
            return at
        asked = _library.BatchStruct.from_address(self._pending.batch.value or 0).asked
        return at._replace(after=self._after, taken=at.taken - asked, batches_taken=at.batches_taken - 1)

    def position(self) -> Position:
        """Epoch and place of what was taken so far; in step on all ranks that took as many batches."""
        self._enter()
        try:
            return self._position()
        finally:
            self._leave()

    @property
    def epoch(self) -> int:
        """The epoch that batches are taken from."""
        return self.position().epoch

    def stats(self) -> Stats:
        """Counts, and where time went."""
        pointer = self._enter()
        try:
            struct = _library.StatsStruct(ctypes.sizeof(_library.StatsStruct))
            status = _library.sl_stats(pointer, ctypes.byref(struct))
            if status:
                self._fail(status)
        finally:
            self._leave()
        values = {field: getattr(struct, field) for field in Stats._fields}
        for text in ("last_bad", "last_fallback"):
            values[text] = values[text].decode("utf-8", "surrogateescape")
        return Stats(**values)

    def fingerprint(self) -> Optional[str]:
        """The mount's, from its .control/fingerprint, as it was when the epoch began; None where the path is no mount's."""
        return self._place.fingerprint

    def state_dict(self) -> Dict[str, Any]:
        """A checkpoint: epoch, after (samples of the global order in batches taken so far, by all ranks), seed, the mount's
        fingerprint or None, and the world. With the last batch of an epoch it is the next one's start. The same on all ranks that
        took as many batches (and on all parts of a rank); numbers and text, so any format takes it."""
        at = self.position()
        ended = at.batches is not None and at.batches_taken >= at.batches
        return {
            "version": 1,
            "epoch": at.epoch + 1 if ended else at.epoch,
            "after": 0 if ended else at.after,
            "seed": self._seed,
            "fingerprint": self.fingerprint(),
            "world": self._place.world,
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on behind the batches of a checkpoint, on as many ranks or others. The number of samples in a batch may
        differ, too. Within an epoch of order=contiguous the world has to be the same, as each rank is in a run of its own.

        ValueError: another seed, other data, another order or (contiguous) world than the checkpoint's, or no state_dict(): the
        loader is where it was then. ShuffleloadError as of seek(), for `after` past the end of the epoch, say: the loader then
        gives that error until a set_epoch() or seek() that succeeds."""
        if not isinstance(state, Mapping):
            raise TypeError(f"state is {state!r}: what state_dict() of a Loader gave is wanted")
        if state.get("version") != 1 or not {"epoch", "after", "seed", "fingerprint"} <= set(state):
            raise ValueError(f"no state_dict() of a Loader, or a later version's: {state!r}")
        place = self._look()
        for name, own in (("seed", self._seed), ("fingerprint", place.fingerprint)):
            if state[name] != own:
                raise ValueError(f"the checkpoint's {name} is {state[name]}, this loader's {own}: it would not go on as it was")
        epoch, after = natural("epoch", state["epoch"]), natural("after", state["after"])
        refusal = place.refusal(state.get("world")) if after else None
        if refusal:
            raise ValueError(f"cannot go on after sample {after}: {refusal}")
        self.seek(epoch, after)


class _Epoch:
    """An iterator over one epoch's batches."""

    __slots__ = ("_generation", "_loader")

    def __init__(self, loader: Loader, generation: int) -> None:
        self._loader = loader
        self._generation = generation

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Batch:
        lease = self._loader._fetch(self._generation)
        if lease is None:
            raise StopIteration
        return Batch(lease)


_alive: "weakref.WeakSet[Loader]" = weakref.WeakSet()
_exiting = False


def _exit() -> None:
    """No loader is closed here: arrays of its batches may be looked at until the very end, and a read that hangs would keep
    the process from ending. Threads take no more work, and end with the process."""
    global _exiting
    _exiting = True
    for loader in list(_alive):
        pointer = loader._pointer
        if pointer is not None:
            _library.sl_cancel(pointer)


atexit.register(_exit)
