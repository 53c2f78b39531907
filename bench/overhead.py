"""What a batch of libshuffleload costs more in Python than in C: python-overhead.py's figures, in the report."""

import json
import os
import subprocess

from measure import BenchError

# Its rounds are short.
ROUNDS_EACH = 2
TIMEOUT_S = 600


def measured(bench):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python-overhead.py")
    words = [bench.python, script, "--json", "--binary-dir", bench.binary_dir, "--rounds", str(ROUNDS_EACH * bench.rounds)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
        return json.loads(done.stdout), done.stderr
    except subprocess.TimeoutExpired:
        raise BenchError(f"python-overhead.py took over {TIMEOUT_S} s") from None
    except json.JSONDecodeError:  # a missed goal is status 1, too, with its figures
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise BenchError(f"python-overhead.py: {said[-1]}") from None


def python_overhead(bench, report):
    report.section("A batch in Python and in C")
    told, complaints = measured(bench)
    for line in complaints.splitlines():
        if line.startswith("left out: "):
            _, name, reason = line.split(": ", 2)
            report.leave_out(name, reason)
    for state, sides in told["sections"].items():
        report.section(f"A batch in Python and in C, {state}: processor time of who takes it")
        in_c = sides["C"]["processor_us"]["values"]
        for side, kinds in sides.items():
            values = kinds["processor_us"]["values"]
            report.add(side, "us", values)
            if side != "C":
                more = [a - b for a, b in zip(values, in_c, strict=True)]
                report.add(f"{side}, more than C", "us", more, at_most=told["goal_us"])
