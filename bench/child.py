"""Others' programs, run to their end, and what they started ended with them: a loader's workers outlive it by seconds, and
would take time from what is measured next.
"""

import contextlib
import os
import signal
import subprocess
import tempfile

from measure import BenchError

NOT_INSTALLED = 3


class NotInstalled(BenchError):
    """The interpreter lacks the loader's package."""


def output_of(words, timeout, environment=None):
    """What it printed. BenchError: it took longer, or ended with another status than 0, with the last line of its complaint."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complaint:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=complaint, env=environment, start_new_session=True
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{os.path.basename(words[0])} took over {timeout} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        complaint.seek(0)
        if status:
            text = (complaint.read().strip().splitlines() or [f"status {status}"])[-1].strip()
            raise (NotInstalled if status == NOT_INSTALLED else BenchError)(text)
        return said.read()
