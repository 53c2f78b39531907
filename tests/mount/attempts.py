"""Every way to change something in a mount, each tried once. `attempts.py MOUNT` prints {what: errno name or "ok"};
it needs nothing but Python, so that another user can run a copy of it."""
import ctypes
import errno
import json
import os
import stat
import sys


def fallocate(handle):
    c = ctypes.CDLL(None, use_errno=True)
    if c.fallocate(handle, 0, ctypes.c_long(0), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), "fallocate")


def with_handle(path, flags, action):
    handle = os.open(path, flags)
    try:
        return action(handle)
    finally:
        os.close(handle)


def file_attempts(path, other):
    """What can be done to a file; `other` is another file of the same folder."""
    folder = os.path.dirname(path)
    new = os.path.join(folder, "new")

    def copy_range(handle):
        with_handle(other, os.O_RDONLY, lambda source: os.copy_file_range(source, handle, 64, 0, 0))
    return {
        "open with O_TRUNC": lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        "open with O_RDWR and O_TRUNC": lambda: os.close(os.open(path, os.O_RDWR | os.O_TRUNC)),
        "write, O_WRONLY": lambda: with_handle(path, os.O_WRONLY, lambda h: os.write(h, b"X" * 100)),
        "write, O_RDWR": lambda: with_handle(path, os.O_RDWR, lambda h: os.write(h, b"X" * 5000)),
        "write, O_APPEND": lambda: with_handle(path, os.O_WRONLY | os.O_APPEND, lambda h: os.write(h, b"X")),
        "pwrite": lambda: with_handle(path, os.O_RDWR, lambda h: os.pwrite(h, b"XX", 7)),
        "pwrite past the end": lambda: with_handle(path, os.O_RDWR, lambda h: os.pwrite(h, b"XX", 1 << 20)),
        "truncate": lambda: os.truncate(path, 0),
        "truncate longer": lambda: os.truncate(path, 1 << 20),
        "ftruncate": lambda: with_handle(path, os.O_RDWR, lambda h: os.ftruncate(h, 1)),
        "fallocate": lambda: with_handle(path, os.O_RDWR, fallocate),
        "copy_file_range": lambda: with_handle(path, os.O_RDWR, copy_range),
        "unlink": lambda: os.unlink(path),
        "rename": lambda: os.rename(path, new),
        "rename over another": lambda: os.rename(path, other),
        "link": lambda: os.link(path, new),
        "chmod": lambda: os.chmod(path, 0o666),
        "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
        "utime": lambda: os.utime(path, (1, 1)),
        "utime now": lambda: os.utime(path),
        "setxattr": lambda: os.setxattr(path, "user.new", b"x"),
        "setxattr over ours": lambda: os.setxattr(path, "user.shufflefs.key", b"x"),
        "removexattr": lambda: os.removexattr(path, "user.shufflefs.key"),
    }


def folder_attempts(folder, child):
    """What can be done in a folder and to its `child`, a folder or file."""
    new = os.path.join(folder, "new")
    return {
        "create": lambda: os.close(os.open(new, os.O_WRONLY | os.O_CREAT, 0o644)),
        "create exclusively": lambda: os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)),
        "mkdir": lambda: os.mkdir(new),
        "mknod, a file": lambda: os.mknod(new, stat.S_IFREG | 0o644),
        "mknod, a fifo": lambda: os.mknod(new, stat.S_IFIFO | 0o644),
        "symlink": lambda: os.symlink("x", new),
        "rename a child": lambda: os.rename(child, new),
        "remove a child": lambda: os.rmdir(child) if os.path.isdir(child) else os.unlink(child),
        "chmod": lambda: os.chmod(folder, 0o777),
        "chown": lambda: os.chown(folder, os.getuid(), os.getgid()),
        "utime": lambda: os.utime(folder, (1, 1)),
        "setxattr": lambda: os.setxattr(folder, "user.new", b"x"),
        "open a temporary file": lambda: os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)),
    }


def all_attempts(mount):
    path = lambda *names: os.path.join(mount, *names)  # noqa: E731
    rank = path("current", "rank-0")
    tries = {}
    for name, made in (
            ("sample", file_attempts(os.path.join(rank, "00000000.jpg"), os.path.join(rank, "00000001.jpg"))),
            ("keys", file_attempts(os.path.join(path("epoch-3", "rank-0.keys"),
                                                sorted(os.listdir(path("epoch-3", "rank-0.keys")))[0]),
                                   os.path.join(rank, "00000001.jpg"))),
            ("list", file_attempts(path("current", "rank-0.list"), path("current", "rank-0.keys"))),
            ("rank", folder_attempts(rank, os.path.join(rank, "00000000.jpg"))),
            ("keys folder", folder_attempts(rank + ".keys", os.path.join(rank + ".keys", "00000000.jpg"))),
            ("current", folder_attempts(path("current"), rank)),
            ("epoch", folder_attempts(path("epoch-3"), path("epoch-3", "rank-0"))),
            ("root", folder_attempts(mount, path("current"))),
            ("control", folder_attempts(path(".control"), path(".control", "epoch")))):
        tries.update({"%s: %s" % (name, what): call for what, call in made.items()})
    for skip in ("list: copy_file_range", "list: rename over another", "keys: rename over another",
                 "keys folder: remove a child", "keys folder: rename a child"):
        tries.pop(skip)
    return tries


def outcomes(mount):
    found = {}
    for what, call in all_attempts(mount).items():
        try:
            call()
            found[what] = "ok"
        except OSError as error:
            found[what] = errno.errorcode.get(error.errno, str(error.errno))
    return found


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
