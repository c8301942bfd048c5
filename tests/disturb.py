"""Run tests while the clusters answer late, and while the machine stands still at random moments.

    python -m tests.disturb [--delay S] [--still S] [--every S] [--seed N] PYTEST-ARGUMENT…

Each answer of a ResourceManager and a NodeManager comes 0 to `delay` seconds late. About once in `every`
seconds everything but pytest itself is stopped for `still` seconds: the clusters, their containers, and what
tests have started. A test that then fails depends on how long something takes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import clusters

PYTEST_WORKER = b"exec(eval(sys.stdin.readline()))"  # how pytest-xdist starts its processes


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _to_stop(pytest: int) -> set[int]:
    """Find what runs of the clusters and of the tests, but pytest, and what is stopped already."""
    stats = {int(p.name): _read(int(p.name), "stat") for p in Path("/proc").glob("[0-9]*")}
    fields = {pid: stat.rpartition(b")")[2].split() for pid, stat in stats.items() if stat}
    parents = {pid: int(words[1]) for pid, words in fields.items()}
    workers = {pid for pid in parents if parents[pid] == pytest}
    own = {pytest, *(pid for pid in workers if PYTEST_WORKER in _read(pid, "cmdline"))}
    home = str(clusters.directory()).encode()
    chosen = {
        pid
        for pid, parent in parents.items()
        if parent in own or home in _read(pid, "cmdline") + _read(pid, "environ")
    } - own
    while below := {pid for pid, parent in parents.items() if parent in chosen} - chosen:
        chosen |= below
    return {pid for pid in chosen - own if fields[pid][0] not in (b"T", b"Z")}


@contextmanager
def standing_still(pytest: int) -> Iterator[int]:
    """Stop the clusters and what the tests have started; what a test has stopped itself stays so."""
    stopped: set[int] = set()
    try:
        for _ in range(3):  # what is being started meanwhile is found in the next round
            for pid in _to_stop(pytest) - stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.add(pid)
        yield len(stopped)
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def main(words: Sequence[str]) -> int:
    """Run pytest, and disturb it; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.disturb", description=__doc__)
    parser.add_argument("--delay", type=float, default=5.0)
    parser.add_argument("--still", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options, arguments = parser.parse_known_args(words)
    print(f"--seed {options.seed}", file=sys.stderr)
    chance = random.Random(options.seed)
    if options.delay:
        os.environ[clusters.DELAY] = str(options.delay)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pytest = subprocess.Popen([sys.executable, "-m", "pytest", *arguments])
    try:
        while options.still and pytest.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                pytest.wait(chance.uniform(5, 2 * options.every - 5))  # never 20 s in a row
                break
            at = time.strftime("%H:%M:%S")
            with standing_still(pytest.pid) as count:
                print(f"\n{at} {count} processes stand still", file=sys.stderr, flush=True)
                time.sleep(options.still)
        return pytest.wait()
    finally:
        if pytest.poll() is None:
            pytest.send_signal(signal.SIGINT)  # it tells what has failed until then
            pytest.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
