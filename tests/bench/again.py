"""`retries`: from the loss of a task to the first line of the next generation.

Every task of a job of two writes the time and its process at its first line, and waits. The
program of one is killed, or its whole container. The same job is submitted anew, which is what one
does without `retries`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.cluster import Bench, bench_sandbox
from tests.bench.measure import Row, Times

__all__ = ["measure_again"]

SUBMISSION_GOAL = 0.35
WAIT_S = 180
TASKS = 2
PROGRAM = (
    "import os, sys, time\n"
    "with open(sys.argv[1], 'a') as out:\n"
    "    out.write(f'{time.time()} {os.getpid()}\\n')\n"
    "time.sleep(600)\n"
)


def measure_again(rounds: int) -> list[Row]:
    """Lose a task in each way, turn by turn; one more round before them does not count."""
    taken: dict[str, list[float]] = {"program": [], "container": [], "anew": []}
    with bench_sandbox() as bench:
        (bench.home / "again.py").write_text(PROGRAM)
        for number in range(-1, rounds):
            times = {
                "program": _retry(bench, f"program-{number + 1}", of_container=False),
                "container": _retry(bench, f"container-{number + 1}", of_container=True),
                "anew": _anew(bench, f"anew-{number + 1}"),
            }
            if number >= 0:
                for way, seconds in times.items():
                    taken[way].append(seconds)
    medians = {way: Times.of(seconds).median for way, seconds in taken.items()}
    rows = []
    for way, what in (("program", "killed program"), ("container", "lost container")):
        about = f"{what} → first line of all tasks, `retries`"
        details = f"medians: {medians[way]:.1f} s and {medians['anew']:.1f} s"
        ratio = medians[way] / medians["anew"]
        rows.append(Row(about, "stop, delete and submit again", ratio, SUBMISSION_GOAL, details))
    return rows


def _submit(bench: Bench, name: str) -> tuple[Path, Path]:
    """Submit a job; return its spec, and the file with the first lines."""
    lines, small = bench.home / f"{name}.lines", {"memory": "256Mi"}
    command = ["python3", str(bench.home / "again.py"), str(lines)]
    roles = {"chief": small, "worker": small}
    spec = bench.job(name, strategy="multi-worker", command=command, retries=3, roles=roles)
    bench.tool("submit", spec, "--detach")
    return spec, lines


def _lines(path: Path, count: int) -> list[tuple[float, int]]:
    """Wait until so many processes have begun; return the time and the process of each."""
    deadline = time.monotonic() + WAIT_S
    while True:
        words = path.read_text().split() if path.exists() else []
        if len(words) >= 2 * count:
            return [(float(words[i]), int(words[i + 1])) for i in range(0, 2 * count, 2)]
        assert time.monotonic() < deadline, f"{path.name}: {len(words) // 2} of {count}"
        time.sleep(0.05)


def _retry(bench: Bench, name: str, *, of_container: bool) -> float:
    _spec, lines = _submit(bench, name)
    victim = _lines(lines, TASKS)[-1][1]
    if of_container:  # its parent is the bootstrap
        victim = int(Path(f"/proc/{victim}/stat").read_text().rsplit(")", 1)[1].split()[1])
    seconds = _after(lambda: os.kill(victim, signal.SIGKILL), lines)
    bench.tool("delete", name, "--force")
    return seconds


def _anew(bench: Bench, name: str) -> float:
    spec, lines = _submit(bench, name)
    _lines(lines, TASKS)

    def again() -> None:
        bench.tool("delete", name, "--force")
        bench.tool("submit", spec, "--detach", "--submission-id", f"{name}-again")

    seconds = _after(again, lines)
    bench.tool("delete", name, "--force")
    return seconds


def _after(lose: Callable[[], None], lines: Path) -> float:
    """Return the seconds from a loss until the last process of the next generation begins."""
    start = time.time()
    lose()
    return max(moment for moment, _pid in _lines(lines, 2 * TASKS)) - start
