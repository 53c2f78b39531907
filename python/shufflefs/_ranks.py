"""Which rank a process is, by what its launcher has put into its environment, and what belongs to a rank in a mount."""

from __future__ import annotations

import operator
import os
from typing import Mapping, NamedTuple, Optional, Tuple, Union

_Path = Union[str, "os.PathLike[str]"]

_VIEWS = ("", "keys", "classes", "tar", "list")


class _Launcher(NamedTuple):
    name: str
    rank: str
    world: str


#: From the inside out: torchrun may have been started by MPI or Slurm, and MPI by Slurm. What is inside inherits the variables
#: of what started it, and those tell of that: SLURM_PROCID is 0 in all that mpirun starts in a batch job.
_LAUNCHERS = (
    _Launcher("torchrun", "RANK", "WORLD_SIZE"),
    _Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Launcher("PMI (MPICH, Intel MPI)", "PMI_RANK", "PMI_SIZE"),
    _Launcher("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {text!r} in the environment: a number is wanted")
    return int(text)


def _in_slurm_step(environment: Mapping[str, str]) -> bool:
    """Has srun started the process? A batch script, and what it starts by itself, has SLURM_PROCID=0 too, which says nothing
    about them; the numbers of steps that are none are the last ones below 2^32."""
    text = environment.get("SLURM_STEP_ID", "")
    return text.isascii() and text.isdigit() and int(text) < 2**32 - 16


def _refuse_another_rank(environment: Mapping[str, str], chosen: _Launcher, rank: int, world: int) -> None:
    """Launchers one inside the other number differently, each its own processes. Where that cannot be, it is a mistake that
    would have several processes read one rank: RANK that was set by hand (no torchrun has left its TORCHELASTIC_RUN_ID), of a
    world as large as the launcher's, with other numbers in it; and PMIx's rank, which comes without a world, of a process
    that has no more than its batch job's variables."""
    if chosen.name == "torchrun" and "TORCHELASTIC_RUN_ID" not in environment:
        for other in _LAUNCHERS[1:]:
            if other.name == "Slurm" and not _in_slurm_step(environment):
                continue
            if other.rank in environment and other.world in environment:
                theirs = _number(environment, other.rank)
                if _number(environment, other.world) == world and theirs != rank:
                    raise ValueError(
                        f"{chosen.rank} is {rank} in the environment, and {other.rank} {theirs}, both of {world}: RANK was set by "
                        f"hand, as in a batch script, to another rank than {other.name}'s"
                    )
                break
    if chosen.name == "Slurm" and "PMIX_RANK" in environment:
        theirs = _number(environment, "PMIX_RANK")
        if theirs != rank:
            raise ValueError(
                f"{chosen.rank} is {rank} in the environment, and PMIX_RANK {theirs}: something in the job has started this "
                "process, and does not tell its world; set RANK and WORLD_SIZE"
            )


def rank_and_world(environment: Optional[Mapping[str, str]] = None) -> Tuple[int, int]:
    """(rank, world) of this process, out of the first of these that is in the environment (None: os.environ):

    RANK and WORLD_SIZE (torchrun and its like); OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI's mpirun); PMI_RANK
    and PMI_SIZE (MPICH, Intel MPI); SLURM_PROCID and SLURM_NTASKS (srun). None of them: (0, 1). The rank's variable decides
    which launcher it is: one without its world is a ValueError, not rank 0 of 1; so is a rank beyond it. So mpirun counts
    before the Slurm job that it is in, whose variables its processes inherit.

    ValueError also for two ranks of which one must be a mistake: RANK set by hand, in a world as large as that of MPI or
    Slurm, to another rank than theirs; PMIX_RANK other than Slurm's.

    That is the global rank: with tensor or pipeline parallelism take the data-parallel group's instead.
    """
    environment = os.environ if environment is None else environment
    for launcher in _LAUNCHERS:
        if launcher.rank not in environment:
            continue
        if launcher.world not in environment:
            raise ValueError(f"{launcher.rank} is in the environment, as of {launcher.name}, and {launcher.world} is not")
        rank, world = _number(environment, launcher.rank), _number(environment, launcher.world)
        if rank >= world:
            raise ValueError(f"{launcher.rank} is {rank} in the environment, and {launcher.world} {world}")
        _refuse_another_rank(environment, launcher, rank, world)
        return rank, world
    return 0, 1


def rank_path(
    mount: _Path, epoch: Optional[int] = None, view: str = "", environment: Optional[Mapping[str, str]] = None
) -> str:
    """The path of this process's rank in a mount: MOUNT/current/rank-R-of-W, R and W as of rank_and_world().

    epoch: MOUNT/epoch-E/... instead, which never moves. view: "" for the folder, "keys", "classes", "tar" or "list".
    """
    if view not in _VIEWS:
        raise ValueError(f"view is {view!r}: one of {', '.join(map(repr, _VIEWS))}")
    rank, world = rank_and_world(environment)
    folder = "current" if epoch is None else f"epoch-{_checked('epoch', epoch)}"
    return os.path.join(os.fspath(mount), folder, f"rank-{rank}-of-{world}" + (f".{view}" if view else ""))


def _checked(name: str, value: object) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"{name} is {value!r}: an integer from 0 up")
    if number >= 2**64:
        raise ValueError(f"{name} is an integer of {number.bit_length()} bits: at most 64 are taken")
    return number


def set_epoch(
    mount: _Path, epoch: int, rank: Optional[int] = None, world: Optional[int] = None, after: Optional[int] = None
) -> None:
    """Moves `current` of a mount to an epoch: of one rank (of its world, None being the mount's own), or of every rank.

    Before the loader's iterator is made. Each process moves its own rank; without `rank`, do it from a single process, or
    after a barrier. after: resumes the epoch behind that many samples of its global order, where the mount can.

    OSError, with the control file's name: it cannot be written. EINVAL: the mount does not take that, and nothing moved.
    """
    if world is not None and rank is None:
        raise ValueError(f"world is {world}, and rank is not given")
    name = "epoch"
    if rank is not None:
        name = f"rank-{_checked('rank', rank)}" + ("" if world is None else f"-of-{_checked('world', world)}") + ".epoch"
    text = str(_checked("epoch", epoch)) + ("" if after is None else f" after {_checked('after', after)}")
    path = os.path.join(os.fspath(mount), ".control", name)
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode() + b"\n")  # one write: all of it, or nothing moves
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({text!r})", path) from None
    finally:
        os.close(handle)
