"""shufflefs mounts from Python: mounting, epochs, and which rank's path is this process's.

    import shufflefs

    with shufflefs.mount("/data/train-{000000..000146}.tar", world=8, seed=42) as mount:
        for epoch in range(90):
            shufflefs.set_epoch(mount, epoch)
            for name in os.listdir(f"{mount}/current/rank-0"):
                ...

A mount is a folder like any other: nothing here is needed to read one. `shuffleload` is the loader that makes batches of it.
"""

from __future__ import annotations

from ._mount import Mount, MountError, mount
from ._ranks import rank_and_world, rank_path, set_epoch

__all__ = ["Mount", "MountError", "mount", "rank_and_world", "rank_path", "set_epoch"]
