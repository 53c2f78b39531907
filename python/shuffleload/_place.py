"""What a loader's path is to a mount: which mount's, and whose samples a place in it counts.

A checkpoint's `after` is a number of samples of the epoch's global order, and so means the same on any number of ranks.
Two kinds of paths have no such number: a mount with order=contiguous, where each rank is in a run of its own, and folders
of a mount that are not a rank's whole share, as a worker's part, where the library counts that folder's samples alone.
"""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple, Optional

from ._settings import Source


class Place(NamedTuple):
    fingerprint: Optional[str]  # the mount's; None: the path is no mount's
    order: Optional[str]  # the mount's
    world: int  # ranks whose samples `after` counts
    share: Optional[
        str
    ]  # the folder whose samples alone it counts, as "rank-R-of-3.part-1-of-2.by-8"; None: those of all ranks

    def refusal(self, world: object, share: object) -> Optional[str]:
        """Why a checkpoint from the middle of an epoch, of such a world and share, cannot be gone on from here; None: it can."""
        if share != self.share:
            counted, own = (
                f"those of {name} alone" if name is not None else "those of all ranks" for name in (share, self.share)
            )
            return f"the checkpoint's samples are {counted}, this loader's {own}"
        if world == self.world:
            return None
        worlds = f"the checkpoint's world is {'not told' if world is None else world}, this loader's {self.world}"
        if self.order == "contiguous":
            return (
                f"{worlds}, and order=contiguous cannot be resumed within an epoch on another: each rank reads a run of its own, so "
                "what all have read is no start of the epoch; resume at an epoch's start"
            )
        if self.share is not None:
            return f"{worlds}, and its samples are those of {self.share} alone"
        return None


def _read(root: str, name: str) -> str:
    with open(os.path.join(root, ".control", name), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


#: A rank's name, and behind it the view's, a part's or both.
_RANK = re.compile(r"rank-[0-9]+(?:-of-([0-9]+))?(.*)", re.DOTALL)


def find(path: str, source: int, world: int) -> Place:
    """`world` 0: the path's, or the mount's own. OSError: a mount that does not answer."""
    real = os.path.realpath(path)
    for root in (real, os.path.dirname(os.path.dirname(real))):
        try:
            fingerprint = _read(root, "fingerprint").strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        status = json.loads(_read(root, "status"))
        order, own = str(status["order"]), int(status["world"])
        name = os.path.basename(real)
        rank = _RANK.fullmatch(name)
        if root == real and source in (Source.AUTO, Source.MOUNT, Source.MOUNT_TAR):
            return Place(fingerprint, order, world or own, None)
        if root == real or not rank:
            return Place(fingerprint, order, world or 1, name)
        of = int(rank[1]) if rank[1] else 0
        if rank[2] in ("", ".tar", ".list"):
            return Place(fingerprint, order, of or world or own, None)
        # Of no rank: those that took as many batches have the same checkpoint.
        return Place(fingerprint, order, world or 1, f"rank-R-of-{of or own}{rank[2]}")
    return Place(None, None, world or 1, None)
