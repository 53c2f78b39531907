"""Files taken out of the page cache, these alone, and a look whether they went. Names and places of files stay known."""

import ctypes
import mmap
import os

from measure import BenchError

# Of what was taken out of the page cache, and is in it all the same.
MOST_RESIDENT = 0.02
LOOKED_AT = 50


def forget(paths):
    """Pages that are mapped, or not yet written, stay."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def resident(path):
    """The part of a file that is in the page cache."""
    with open(path, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    pages = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
    first = ctypes.c_char.from_buffer(view)
    size, place = ctypes.c_size_t(len(view)), ctypes.c_void_p(ctypes.addressof(first))
    status = ctypes.CDLL(None, use_errno=True).mincore(place, size, pages)
    fault = ctypes.get_errno()
    del first
    view.close()
    if status:
        raise BenchError(f"mincore of {path}: {os.strerror(fault)}")
    return sum(page & 1 for page in pages) / len(pages)


def make_cold(paths):
    """BenchError: they did not go."""
    forget(paths)
    some = paths[:: max(1, len(paths) // LOOKED_AT)]
    left = sum(map(resident, some)) / len(some)
    if left > MOST_RESIDENT:
        raise BenchError(f"{100 * left:.0f} % of the photographs stay in the page cache: somebody else reads them")
