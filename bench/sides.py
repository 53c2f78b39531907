"""What is measured side by side: the mount, its peers, and plain files. Each side is started in the foreground below
a folder of ours, waited for, and taken down again whatever happens; no process but those is ever ended.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

from measure import BenchError, cache, kilobytes

MOUNT_TIMEOUT_S = 120
END_TIMEOUT_S = 20


def tars(folder):
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))
    if not paths:
        raise BenchError(f"no *.tar in {folder}")
    return paths


def is_mounted(path):
    """A fresh mount has another device than the folder it covers; the stat waits for the daemon's answer."""
    try:
        return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev
    except OSError:
        return False


def wait_mounted(process, path):
    """Until `path` is a mount, woken by the kernel: a change of mounts, or the end of the process."""
    poller = select.poll()
    deadline = time.monotonic() + MOUNT_TIMEOUT_S
    ended = os.pidfd_open(process.pid)
    try:
        with open("/proc/self/mountinfo") as mounts:
            poller.register(mounts, select.POLLPRI)
            poller.register(ended, select.POLLIN)
            while not is_mounted(path):
                if process.poll() is not None:
                    raise BenchError(f"ended with status {process.returncode} before it was mounted")
                if time.monotonic() > deadline:
                    raise BenchError(f"not mounted after {MOUNT_TIMEOUT_S} s")
                poller.poll(1000)
    finally:
        os.close(ended)


def unmount(path):
    """Ends the mount at `path`; lazily when it is busy. True when there was none or it went."""
    if os.geteuid() == 0:
        ways = [["umount", path], ["umount", "-l", path]]
    else:
        ways = [[tool, "-u", path] for tool in ("fusermount3", "fusermount") if shutil.which(tool)]
    return not is_mounted(path) or any(
        subprocess.run(way, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0 for way in ways
    )


def end(process, path):
    unmount(path)
    for stop in (None, process.terminate, process.kill):
        if stop:
            stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
            break
    unmount(path)


class Mount:
    """A mounted side: `path`, `process`, and `mount_s`, the seconds from the start until it answered."""

    def __init__(self, path, process, mount_s):
        self.path = path
        self.process = process
        self.mount_s = mount_s

    def anonymous_bytes(self):
        return kilobytes(f"/proc/{self.process.pid}/status", "RssAnon") << 10

    def control(self, name):
        with open(os.path.join(self.path, ".control", name)) as file:
            return file.read()

    def status(self):
        return json.loads(self.control("status"))

    def switch(self, epoch):
        """Moves `current` to an epoch; the seconds until the write was answered."""
        path = os.path.join(self.path, ".control", "epoch")
        start = time.perf_counter()
        file = os.open(path, os.O_WRONLY)
        try:
            os.write(file, str(epoch).encode())
        finally:
            os.close(file)
        return time.perf_counter() - start


    def fixed_paths(self, reader, scratch):
        """Lists a rank's folder, moves on to the next epoch, and returns `@FILE` of the same paths: what a loader
        opens that listed once, at its start."""
        folder = os.path.join(self.path, reader)
        names = sorted(os.listdir(folder))
        path = os.path.join(scratch, "paths")
        with open(path, "w") as file:
            file.writelines(f"{folder}/{name}\n" for name in names)
        self.switch(int(self.control("epoch")) + 1)
        return f"@{path}"


@contextlib.contextmanager
def mounted(command, scratch):
    """Runs `command` + [mountpoint], which stays in the foreground, and yields its Mount."""
    path = os.path.join(scratch, "mnt")
    log_path = os.path.join(scratch, "log")
    os.makedirs(path, exist_ok=True)
    with open(log_path, "w+") as log:
        start = time.perf_counter()
        process = subprocess.Popen([*command, path], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            try:
                wait_mounted(process, path)
            except BenchError as error:
                log.seek(0)
                said = log.read().strip().splitlines()
                raise BenchError(f"{os.path.basename(command[0])} {error}: {' / '.join(said[-3:])}") from None
            yield Mount(path, process, time.perf_counter() - start)
        finally:
            end(process, path)


class Shufflefs:
    name = "shufflefs"

    def __init__(self, binary_dir, scratch):
        self.binary = os.path.join(binary_dir, "shufflefs")
        self.scratch = scratch
        if not os.access(self.binary, os.X_OK):
            raise BenchError(f"{self.binary} is not built")

    def mount(self, shards, *options):
        """Without a saved index, unless an option names one: what was mounted before makes no difference."""
        if not any(word.startswith("index=") for option in options for word in option.split(",")):
            options = (*options, "index=none")
        return mounted([self.binary, "-f", "-o", ",".join(options), *shards], self.scratch)


class Peer:
    """Another way to read the same photographs: `command` without its mountpoint, over `sources`."""

    def __init__(self, name, command, sources, scratch):
        self.name = name
        self.command = command
        self.sources = sources
        self.scratch = scratch

    def mount(self):
        cache(self.sources)
        return mounted(self.command, self.scratch)


def squashfuse(photos, _tools, scratch):
    image = os.path.join(photos, "photos.sqfs")
    binary = shutil.which("squashfuse_ll")
    if not binary:
        raise BenchError("not installed (Debian's package squashfuse)")
    if not os.path.exists(image):
        raise BenchError(f"no {image} (Debian's package squashfs-tools makes it)")
    return Peer("squashfuse_ll", [binary, "-f", image], [image], scratch)


RATARMOUNT = "ratarmount==1.3.0"


def ratarmount(photos, tools, scratch):
    """From the path, else from pip into a virtual environment below `tools`."""
    shards = tars(os.path.join(photos, "shards"))
    venv = os.path.join(tools, "ratarmount")
    binary = shutil.which("ratarmount") or os.path.join(venv, "bin", "ratarmount")
    if not os.path.exists(binary):
        install_ratarmount(venv)
    return Peer("ratarmount", [binary, "-f", "--index-file", ":memory:", *shards], shards, scratch)


def install_ratarmount(venv):
    print(f"  (installing {RATARMOUNT} in {venv})", flush=True)
    pip = os.path.join(venv, "bin", "pip")
    for command in ([sys.executable, "-m", "venv", venv], [pip, "install", "-q", "--no-input", RATARMOUNT]):
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchError(f"pip cannot install it: {error}") from None
        if run.returncode:
            said = (run.stderr or run.stdout).strip().splitlines() or [f"status {run.returncode}"]
            raise BenchError(f"pip cannot install it: {said[-1]}")


PEERS = {"squashfuse_ll": squashfuse, "ratarmount": ratarmount}
