"""A mount of the shufflefs program, from its start to its end. Owns the process, and the folder where it made one."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from types import TracebackType
from typing import IO, Any, Dict, List, Optional, Sequence, Type, Union

_Path = Union[str, "os.PathLike[str]"]

#: Seconds that the program gets to end by itself.
_PATIENCE = 30.0


class MountError(OSError):
    """The shufflefs program could not mount, or did not end well. `lines` are its own messages, `code` its exit code (None: it
    was not started, or did not end)."""

    def __init__(self, text: str, code: Optional[int] = None, lines: Sequence[str] = ()) -> None:
        super().__init__(errno.EIO, "\n".join([text, *lines]))
        self.code = code
        self.lines = list(lines)

    def __str__(self) -> str:
        return str(self.strerror)


class Mount(os.PathLike):  # type: ignore[type-arg]
    """A mount, as mount() makes it; os.fspath() and str() of it are its folder.

    The end of a `with` unmounts, exceptions or not, and so do unmount() and the end of the interpreter. A signal that ends the
    process without a handler does not: see mount().
    """

    def __init__(self, path: str, made_folder: bool, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.path = path
        self._errors = errors
        self._process = process
        self._finalizer = weakref.finalize(self, _end, process, path, made_folder, os.getpid())

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<shufflefs.Mount {self.path!r}{'' if self._finalizer.alive else ' (unmounted)'}>"

    def messages(self) -> List[str]:
        """The program's messages so far: warnings, and what readers ran into."""
        return _lines(self._errors)

    def status(self) -> Dict[str, Any]:
        """.control/status: see the README, "The status"."""
        with open(os.path.join(self.path, ".control", "status"), encoding="utf-8", errors="surrogateescape") as file:
            status: Dict[str, Any] = json.load(file)
        return status

    def fingerprint(self) -> str:
        """.control/fingerprint: equal on two nodes, same data in the same order."""
        with open(os.path.join(self.path, ".control", "fingerprint"), encoding="ascii") as file:
            return file.read().strip()

    def unmount(self) -> None:
        """Unmounts, and waits for the program's end. Files that are open in it stop answering. Twice is once. MountError:
        it ended otherwise than in order; unmounted it is all the same."""
        code = self._finalizer()
        if code:
            raise MountError(f"shufflefs at {self.path} ended with {code}", code, self.messages())

    def __enter__(self) -> Mount:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            self.unmount()
        else:
            self._finalizer()


def _lines(errors: IO[bytes]) -> List[str]:
    """What the program has written. Its end of the file shares our position, so that is left alone."""
    handle = errors.fileno()
    return os.pread(handle, os.fstat(handle).st_size, 0).decode("utf-8", "replace").splitlines()


def _end(process: subprocess.Popen[bytes], path: str, made_folder: bool, owner: int) -> Optional[int]:
    """Ends the program, and with it the mount. Returns its exit code."""
    if os.getpid() != owner:
        return None  # a child of fork(): the mount is its parent's
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            _detach(path)
    if made_folder:
        try:
            os.rmdir(path)
        except OSError:
            _detach(path)  # a dead mount
            os.rmdir(path)
    return process.returncode


def _detach(path: str) -> None:
    """Takes a dead mount away."""
    command = ["umount", "-l", path] if os.geteuid() == 0 else ["fusermount3", "-uz", path]
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _option(name: str, value: object) -> str:
    if value is True:
        return name
    text = os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)
    return name + "=" + text.replace("\\", "\\\\").replace(",", "\\,")


def _find_program(program: Optional[_Path]) -> str:
    named = program or os.environ.get("SHUFFLEFS_PROGRAM")
    found = shutil.which(os.fspath(named) if named else "shufflefs")
    if not found:
        raise MountError(
            f"no program {os.fspath(named)!r}" if named else "no program shufflefs in PATH: install it, or name it by program="
        )
    return found


def _answers(path: str, before: int) -> bool:
    """Is there another file system than before, and does it answer?"""
    try:
        if os.stat(path).st_dev == before:
            return False
        with open(os.path.join(path, ".control", "fingerprint"), encoding="ascii") as file:
            return bool(file.read())
    except OSError:
        return False


def mount(
    shards: Union[_Path, Sequence[_Path]],
    mountpoint: Optional[_Path] = None,
    *,
    program: Optional[_Path] = None,
    timeout: Optional[float] = None,
    **options: object,
) -> Mount:
    """Mounts shards, and returns once the mount answers.

        with shufflefs.mount(["a.tar", "b.tar"], world=8, seed=42, fields="jpg/png:cls") as mount:
            ...

    Args:
        shards: one of shufflefs's SHARDS words (a tar, a folder, a pattern like "train-{000000..000146}.tar", "@list.txt"),
            or several.
        mountpoint: an empty folder; None: one is made, and removed at the end.
        program: the shufflefs program; None: $SHUFFLEFS_PROGRAM, or the one in PATH.
        timeout: seconds to wait for the mount at most; None: as long as reading all headers takes.
        options: the program's -o options. True: the bare word, as strict=True; False and None: not given.

    MountError: it could not be mounted. It has the program's own lines. Nothing is left mounted then, nor after any other
    exception, a KeyboardInterrupt say.

    The program runs as a child of this process, in the foreground and in a session of its own, so that a terminal's Ctrl-C
    does not end it. A signal that ends this process without a handler leaves the mount (`umount` ends it), and the folder where
    one was made: SIGKILL, and also SIGTERM and SIGHUP (scancel, Kubernetes, a terminal that closes), at whose default action
    Python runs nothing more, no `finally` and no end of a `with`. For those two a line before mount() mends it:

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the same for signal.SIGHUP
    """
    words = [shards] if isinstance(shards, (str, os.PathLike)) else list(shards)
    texts = [_option(name, value) for name, value in options.items() if value is not None and value is not False]
    command = [_find_program(program), "-f"]
    if texts:
        command += ["-o", ",".join(texts)]
    path = os.path.abspath(os.fspath(mountpoint)) if mountpoint is not None else tempfile.mkdtemp(prefix="shufflefs-")
    command += ["--", *[os.fspath(word) for word in words], path]
    errors = tempfile.TemporaryFile()
    started: List[subprocess.Popen[bytes]] = []
    try:
        before = os.stat(path).st_dev
        _start(command, errors, started)
        _wait(started[0], path, before, timeout, errors)
        return Mount(path, mountpoint is None, started[0], errors)
    except BaseException:
        if started:
            _end(started[0], path, mountpoint is None, os.getpid())
        elif mountpoint is None:
            os.rmdir(path)
        errors.close()
        raise


def _start(command: List[str], errors: IO[bytes], started: List[subprocess.Popen[bytes]]) -> None:
    """Appends the process. An exception out of a signal handler, as a KeyboardInterrupt, within Popen would leave one that
    nobody knows: so it is made in a thread, where none arrives, and waited for whatever happens here."""
    failed: List[BaseException] = []
    done = threading.Event()

    def start() -> None:
        try:
            started.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
                )
            )
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=start, name="shufflefs-start").start()
        done.wait()
    except BaseException:
        done.wait(_PATIENCE)
        raise
    if failed:
        raise failed[0]


def _wait(process: subprocess.Popen[bytes], path: str, before: int, timeout: Optional[float], errors: IO[bytes]) -> None:
    """Until the mount answers."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.001
    while not _answers(path, before):
        code = process.poll()
        if code is not None:
            what = f"a signal, {signal.Signals(-code).name}" if code < 0 else str(code)
            raise MountError(f"shufflefs ended with {what}:", code, _lines(errors))
        if end is not None and time.monotonic() > end:
            raise MountError(f"shufflefs has not mounted {path} within {timeout} s", None, _lines(errors))
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
