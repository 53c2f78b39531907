"""libshuffleload in Python: files in order to batches, for training loops.

    import shuffleload, torch

    loader = shuffleload.Loader("/mnt/imagenet", rank=rank, world=world, batch_size=256, output="float32_nchw")
    for epoch in range(90):
        loader.set_epoch(epoch)
        for batch in loader:
            train(torch.from_dlpack(batch.images).to("cuda"), torch.from_dlpack(batch.labels).to("cuda"))

Reading, decoding and augmenting are done by threads of the library, without the interpreter. Batches are shared with numpy
and torch without a copy. See Loader and Batch, and shuffleload(3) for all of the settings. The module `shufflefs` mounts
shards and finds a process's own rank.
"""

from __future__ import annotations

from ._array import Array
from ._batch import Batch
from ._errors import (
    RepeatedEpochWarning,
    ShuffleloadError,
    ShuffleloadNotFoundError,
    ShuffleloadPermissionError,
    ShuffleloadValueError,
)
from ._library import NO_LABEL, version
from ._loader import Loader, Position, Stats
from ._settings import Bad, Crop, Decode, Output, Source, Status

__version__ = version()

__all__ = [
    "Array",
    "Bad",
    "Batch",
    "Crop",
    "Decode",
    "Loader",
    "NO_LABEL",
    "Output",
    "Position",
    "RepeatedEpochWarning",
    "ShuffleloadError",
    "ShuffleloadNotFoundError",
    "ShuffleloadPermissionError",
    "ShuffleloadValueError",
    "Source",
    "Stats",
    "Status",
    "version",
]
