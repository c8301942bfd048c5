"""End a gateway by SIGTERM at random lines of its event loop's thread, under streams, many times.

    python -m tests.gateway.signals --rm URL --jobs a,b --count 1000 --seed 7

Each round serves in this process, lets clients open and leave streams, and raises SIGTERM at some
line of the gateway's code, asyncio's or uvicorn's. A round that does not end prints all stacks.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from submit_tf_job.gateway.callers import CallerClients
from submit_tf_job.gateway.runtime import Gateway
from submit_tf_job.gateway.server import Listening, serve
from submit_tf_job.settings import load_settings

DRAIN_S = 0.2
MOST_S = 300.0  # from the signal to the end: seconds, on a machine with 30 processes for 2 cores
SERVED_S = 10.0  # after so long the signal comes at the next line
# Files at whose lines the signal is raised, and at which one: where locks are held, and anywhere.
PATHS = (
    (("/gateway/watchers.py",), (0.0, 1.8)),
    (("/gateway/", "/asyncio/", "/uvicorn/", "/threading.py"), (1.5, 4.3)),
)


def _trace_until(line: int, paths: tuple[str, ...]) -> Callable[..., Any]:
    """Return a trace function that raises SIGTERM at a line of these files, counted as they run."""
    left, until = [line], time.monotonic() + SERVED_S

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if not any(path in frame.f_code.co_filename for path in paths):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0 or (left[0] > 0 and time.monotonic() > until):
                left[0] = 0
                faulthandler.dump_traceback_later(MOST_S + 20, exit=True)
                sys.settrace(None)  # a traced loop is many times slower
                signal.raise_signal(signal.SIGTERM)
                return None
        return trace

    return trace


def _clients(port: int, jobs: list[str], over: threading.Event, seed: int) -> None:
    """Open streams of events and logs, and leave some, until the gateway has ended."""
    chance, held = random.Random(seed), list[socket.socket]()
    while not over.is_set():
        kind = chance.choice(("events", "logs?follow=true", "events", ""))
        path = f"GET /v1/jobs/{chance.choice(jobs)}/{kind} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=600))
            held[-1].sendall(path.encode())
        if len(held) > 12:
            held.pop(chance.randrange(len(held))).close()
        time.sleep(0.02)  # the traced loop serves about as many
    for one in held:
        one.close()


def round_of(rm: str, jobs: list[str], trace: Callable[..., Any], seed: int) -> float:
    """Serve until the trace function has raised SIGTERM; return the seconds from then to the end."""
    arguments = {"resource_managers": [rm], "user": "alice"}
    settings = load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
    gateway = Gateway(CallerClients(settings), None, lambda _entry: None)
    over, ended_at = threading.Event(), [0.0]
    drain = gateway.drain

    def draining() -> None:
        ended_at[0] = ended_at[0] or time.monotonic()
        drain()

    gateway.drain = draining  # type: ignore[method-assign]

    def ready(url: str) -> None:
        port = int(url.rpartition(":")[2])
        for number in range(2):
            threading.Thread(target=_clients, args=(port, jobs, over, seed + number)).start()
        sys.settrace(trace)

    faulthandler.dump_traceback_later(SERVED_S + 120, exit=True)  # until the signal
    try:
        serve(gateway, Listening(port=0, drain_s=DRAIN_S), ready)
    finally:
        sys.settrace(None)
        faulthandler.cancel_dump_traceback_later()
        over.set()
    return time.monotonic() - ended_at[0]


def main() -> None:
    """Run the rounds, and print how many, and the longest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rm", required=True)
    parser.add_argument("--jobs", required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, longest = random.Random(options.seed), 0.0
    for number in range(options.count):
        paths, powers = PATHS[number % 2]
        line = round(10 ** chance.uniform(*powers))
        trace, seed = _trace_until(line, paths), chance.randrange(10**6)
        took = round_of(options.rm, options.jobs.split(","), trace, seed)
        longest = max(longest, took)
        assert took < MOST_S, f"round {number} at line {line} took {took:.1f} s"
    print(f"{options.count} signals, each ended; the longest took {longest:.1f} s")


if __name__ == "__main__":
    main()
