"""A mount of the shufflefs program, from its start to its end. Owns the process, and the folder where it made one."""

from __future__ import annotations

import contextlib
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
from functools import partial
from types import TracebackType
from typing import IO, Any, Callable, Dict, Iterable, List, Optional, Sequence, SupportsFloat, Type, Union

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

    def __init__(self, path: str, ending: _Ending) -> None:
        self.path = path
        self._ending = ending
        self._process = ending.process
        weakref.finalize(self, ending)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<shufflefs.Mount {self.path!r}{' (unmounted)' if self._ending.done else ''}>"

    def messages(self) -> List[str]:
        """The program's messages so far: warnings, and what readers ran into."""
        return self._ending.lines()

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
        """Unmounts, and waits for the program's end. Files that are open in it stop answering. Twice is once. A
        KeyboardInterrupt comes through when it is done; after two of them in a row call this again, and it goes on.

        MountError: it ended otherwise than in order; unmounted it is all the same. Or, with another text: the dead mount
        cannot be taken away; this may be called again then."""
        if self._ending.done:
            return
        self._ending.wait()
        code = self._process.returncode
        if self._ending.done and code:
            raise MountError(f"shufflefs at {self.path} ended with {_code_text(code)}", code, self.messages())

    def __enter__(self) -> Mount:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            self.unmount()
        else:
            self._ending.wait()


class _Ending:
    """The end of the program, of its mount, and of the folder where one was made. It happens once, however often and from
    wherever it is asked for; what an exception has cut short, the next call goes on with. It is the starting process's: in a
    child of fork() nothing happens."""

    def __init__(self, path: str, made_folder: bool, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.done = False
        self.path = path
        self.process = process
        self._made_folder = made_folder
        self._errors = errors
        self._lines: List[str] = []  # once that file is closed
        self._owner = os.getpid()
        self._lock = threading.RLock()  # of what follows, and of who ends it
        self._inside = False

    def lines(self) -> List[str]:
        """What the program has written."""
        return self._lines if self._errors.closed else _lines(self._errors)

    def __call__(self) -> None:
        """Here and now, as the end of the interpreter or of a Mount that nobody has any more wants it: no thread can be started
        then."""
        if os.getpid() != self._owner:
            self._errors.close()
            self.process.returncode = 0  # it is none of this process's children, and nothing to warn of
            return
        try:
            self._end()
        except BaseException:
            self._end()
            raise

    def wait(self) -> None:
        """In a thread of its own, where no exception out of a signal handler arrives; and waits for it, whatever happens
        here."""
        if os.getpid() != self._owner:
            return
        failed: List[BaseException] = []
        ended = threading.Event()

        def end() -> None:
            try:
                self._end()
            except BaseException as error:
                failed.append(error)
            finally:
                ended.set()

        try:
            thread = threading.Thread(target=end, name="shufflefs-end")
            try:
                thread.start()
            except RuntimeError:  # no more threads, as at the interpreter's end
                end()
            ended.wait()
        except BaseException:
            self._end()  # waits for the thread, or does what is left
            raise
        if failed:
            raise failed[0]

    def _end(self) -> None:
        with self._lock:
            if self.done or self._inside:
                return
            self._inside = True
            try:
                if self.process.poll() is None:
                    self.process.terminate()
                    try:
                        self.process.wait(_PATIENCE)
                    except subprocess.TimeoutExpired:
                        self.process.kill()
                        self.process.wait()
                if self.process.returncode:
                    _take_away_dead(self.path)
                if self._made_folder:
                    with contextlib.suppress(FileNotFoundError):
                        os.rmdir(self.path)
                if not self._errors.closed:
                    self._lines = _lines(self._errors)
                    self._errors.close()
                self.done = True
            finally:
                self._inside = False


def _code_text(code: int) -> str:
    return f"a signal, {signal.Signals(-code).name}" if code < 0 else str(code)


def _lines(errors: IO[bytes]) -> List[str]:
    """What the program has written. Its end of the file shares our position, so that is left alone."""
    handle = errors.fileno()
    return os.pread(handle, os.fstat(handle).st_size, 0).decode("utf-8", "replace").splitlines()


def _is_dead(path: str) -> bool:
    """Is a mount there whose program is gone? A stat() alone may be answered from what the kernel remembers."""
    try:
        os.scandir(path).close()
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def _is_shufflefs(path: str) -> bool:
    """Is the mount there, the topmost one, of this kind?"""
    point = os.fsencode(os.path.realpath(path))
    for old, new in ((b"\\", b"\\134"), (b" ", b"\\040"), (b"\t", b"\\011"), (b"\n", b"\\012")):
        point = point.replace(old, new)
    with open("/proc/self/mounts", "rb") as lines:
        types = [fields[2] for fields in map(bytes.split, lines) if fields[1] == point]
    return types[-1:] == [b"fuse.shufflefs"]


def _take_away_dead(path: str) -> None:
    """Takes the mount away that a program which did not end in order has left. What answers there is another one's, as is a
    dead mount of another kind, at which the program could not mount."""
    if not _is_dead(path) or not _is_shufflefs(path):
        return
    command = ["umount", "-l", path] if os.geteuid() == 0 else ["fusermount3", "-uz", path]
    try:
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as error:
        raise MountError(f"a dead mount is at {path}, and {command[0]} cannot be started: {error.strerror}") from None
    if _is_dead(path):
        said = done.stderr.decode("utf-8", "replace").splitlines()
        raise MountError(f"a dead mount is at {path}, and {command[0]} does not take it away:", None, said)


def _option(name: str, value: object) -> str:
    if value is True:
        return name
    text = os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)
    return name + "=" + text.replace("\\", "\\\\").replace(",", "\\,")


def _find_program(program: Optional[_Path]) -> str:
    named = _path_text("program", program) if program is not None else os.environ.get("SHUFFLEFS_PROGRAM")
    found = shutil.which(named or "shufflefs")
    if not found:
        raise MountError(
            f"no program {named!r}" if named else "no program shufflefs in PATH: install it, or name it by program="
        )
    return found


def _fingerprint_device(path: str) -> Optional[int]:
    """The device of the mount that answers there; None: none does."""
    try:
        with open(os.path.join(path, ".control", "fingerprint"), encoding="ascii") as file:
            return os.fstat(file.fileno()).st_dev if file.read() else None
    except OSError:
        return None


class _Answer:
    """Does the mount that is being made answer? What answers there already, of another process, is none of it. The device alone
    would not tell: its number is used again, and that of a dead mount is remembered by the kernel."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._before = _fingerprint_device(path)

    def __bool__(self) -> bool:
        now = _fingerprint_device(self._path)
        if now is None:
            self._before = None  # what was there is gone
        return now is not None and now != self._before


def _path_text(name: str, value: object, more: str = "") -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is {value!r}: a path is wanted, as text or a path object{more}")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise TypeError(f"{name} is {value!r}: its path is {text!r}, and text is wanted")
    if "\0" in text:
        raise ValueError(f"{name} is {text!r}: it has a zero byte in it")
    return text


def _words(shards: object) -> List[str]:
    """SHARDS, one or several."""
    more = ", or several of them"
    if isinstance(shards, (str, bytes, os.PathLike)) or not isinstance(shards, Iterable):
        return [_path_text("shards", shards, more)]
    return [_path_text(f"shards[{number}]", word) for number, word in enumerate(shards)]


def _seconds(timeout: object) -> Optional[float]:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, SupportsFloat):
        raise TypeError(f"timeout is {timeout!r}: seconds are wanted, or None")
    seconds = float(timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout is {timeout!r}: seconds from 0 up are wanted, or None")
    return seconds


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
    words = _words(shards)
    seconds = _seconds(timeout)
    texts = [_option(name, value) for name, value in options.items() if value is not None and value is not False]
    command = [_find_program(program), "-f"]
    if texts:
        command += ["-o", ",".join(texts)]
    paths = [] if mountpoint is None else [os.path.abspath(_path_text("mountpoint", mountpoint))]
    made_folder = not paths
    started: List[subprocess.Popen[bytes]] = []
    errors: Optional[IO[bytes]] = None
    try:
        if made_folder:
            _undisturbed(lambda: paths.append(tempfile.mkdtemp(prefix="shufflefs-")))
        else:
            _look_at(paths[0])
        errors = tempfile.TemporaryFile()
        answer = _Answer(paths[0])
        _undisturbed(partial(_start, [*command, "--", *words, paths[0]], errors, started))
        _wait(started[0], paths[0], answer, seconds, errors)
        return Mount(paths[0], _Ending(paths[0], made_folder, started[0], errors))
    except BaseException:
        if started and errors:
            _Ending(paths[0], made_folder, started[0], errors).wait()
        else:
            if errors:
                errors.close()
            if made_folder and paths:
                os.rmdir(paths[0])
        raise


def _look_at(path: str) -> None:
    """OSError: there is nothing to mount at. A dead mount is no fault: the program takes it away."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            raise


def _undisturbed(work: Callable[[], object]) -> None:
    """Does it in a thread of its own, where no exception out of a signal handler arrives, as a KeyboardInterrupt; that would
    leave a process or a folder which nobody knows. And waits for it, whatever happens here."""
    failed: List[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=run, name="shufflefs-start").start()
        done.wait()
    except BaseException:
        done.wait(_PATIENCE)
        raise
    if failed:
        raise failed[0]


def _start(command: List[str], errors: IO[bytes], started: List[subprocess.Popen[bytes]]) -> None:
    """Appends the process."""
    started.append(
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
    )


def _wait(process: subprocess.Popen[bytes], path: str, answer: _Answer, timeout: Optional[float], errors: IO[bytes]) -> None:
    """Until the mount answers."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.001
    while not answer:
        code = process.poll()
        if code is not None:
            raise MountError(f"shufflefs ended with {_code_text(code)}:", code, _lines(errors))
        if end is not None and time.monotonic() > end:
            raise MountError(f"shufflefs has not mounted {path} within {timeout:g} s", None, _lines(errors))
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
