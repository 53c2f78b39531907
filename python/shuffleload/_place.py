"""What a loader's path is to a mount: which mount's, and in which world a place in it counts.

A checkpoint's `after` is a number of samples of the epoch's global order, and so means the same on any number of ranks, in
a rank's folder as in a worker's part. Only with order=contiguous it does not: there each rank is in a run of its own.
"""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple, Optional


class Place(NamedTuple):
    fingerprint: Optional[str]  # the mount's; None: the path is no mount's
    order: Optional[str]  # the mount's
    world: int  # ranks whose samples `after` counts

    def refusal(self, world: object) -> Optional[str]:
        """Why a checkpoint from the middle of an epoch, of such a world, cannot be gone on from here; None: it can."""
        if self.order != "contiguous" or world == self.world:
            return None
        return (
            f"the checkpoint's world is {'not told' if world is None else world}, this loader's {self.world}, and "
            "order=contiguous cannot be resumed within an epoch on another: each rank reads a run of its own, so what all have "
            "read is no start of the epoch; resume at an epoch's start"
        )


def _read(root: str, name: str) -> str:
    with open(os.path.join(root, ".control", name), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


#: A rank's name, with a part or a view behind it.
_RANK = re.compile(r"rank-[0-9]+(?:-of-([0-9]+))?(?:\.[^/]*)?")


def find(path: str, world: int) -> Place:
    """`world` 0: the path's, or the mount's own. OSError: a mount that does not answer."""
    real = os.path.realpath(path)
    for root in (real, os.path.dirname(os.path.dirname(real))):
        try:
            fingerprint = _read(root, "fingerprint").strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        status = json.loads(_read(root, "status"))
        rank = None if root == real else _RANK.fullmatch(os.path.basename(real))
        of = int(rank[1]) if rank and rank[1] else 0
        return Place(fingerprint, str(status["order"]), of or world or int(status["world"]))
    return Place(None, None, world or 1)
