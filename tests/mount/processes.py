"""Children of a test: readers and writers in processes of their own, with results, and none that outlives its test."""
import json
import multiprocessing
import os
import select
import signal
import time

# Counters that parent and children share.
FORK = multiprocessing.get_context("fork")


class Children:
    """with Children() as children: children.start(f, ...); ...; children.results()"""

    def __init__(self):
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for pid, out in self.running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(out)
        self.running = []

    def start(self, function, *arguments):
        """Runs function(*arguments), whose value must be JSON, in a new process; returns the pid."""
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(out)
            work(into, function, arguments)
        os.close(into)
        self.running.append((pid, out))
        return pid

    def results(self, patience=100):
        """Every child's value, in the order of starting. A child's exception or death, or one that still runs
        at the end, fails the test."""
        values, end = [], time.monotonic() + patience
        while self.running:
            pid, out = self.running[0]
            text = read_until(out, end)
            assert text is not None, "process %d still runs after %g s: it hangs" % (pid, patience)
            self.running.pop(0)
            os.close(out)
            _, status = os.waitpid(pid, 0)
            assert text, "process %d died: wait status %d" % (pid, status)
            outcome = json.loads(text)
            assert "error" not in outcome, outcome["error"]
            values.append(outcome["value"])
        return values


def work(into, function, arguments):
    """The child's life; never returns."""
    try:
        try:
            outcome = {"value": function(*arguments)}
        except Exception as error:  # for the parent to raise
            outcome = {"error": "%s: %s" % (type(error).__name__, error)}
        with open(into, "w", encoding="utf-8") as pipe:
            json.dump(outcome, pipe)
    finally:
        os._exit(0)


def read_until(handle, end):
    text = b""
    while select.select([handle], [], [], max(0, end - time.monotonic()))[0]:
        piece = os.read(handle, 1 << 16)
        if not piece:
            return text
        text += piece
    return None


def parallel(function, argument_lists, patience=100):
    """function(*arguments) for each list, all at once; the values in order."""
    with Children() as children:
        for arguments in argument_lists:
            children.start(function, *arguments)
        return children.results(patience)


def has_ended(pid):
    """Is the child dead, whether or not somebody has asked for its status?"""
    with open("/proc/%d/stat" % pid, "rb") as text:
        return text.read().rpartition(b")")[2].split()[0] == b"Z"
