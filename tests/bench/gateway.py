"""The gateway against the calls that it makes itself: submissions per second on one
ResourceManager, and what it adds to one of them.
"""

from __future__ import annotations

import json
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from submit_tf_job import operations
from submit_tf_job.gateway.callers import line_of
from submit_tf_job.settings import Settings, load_settings
from tests.bench.cluster import bench_sandbox
from tests.bench.measure import Row
from tests.gateway.conftest import JOB, TOKEN, Process
from tests.world.served import served_cluster

__all__ = ["measure_gateway"]

AT_ONCE = 4
RATE_GOAL = 2.0
ADDED_S = 0.015
Submit = Callable[[str], None]


def measure_gateway(rounds: int) -> list[Row]:
    """Measure on a sandbox how many, and on a ResourceManager that always takes the same time how
    much later.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        with served_cluster() as cluster:
            settings = load_settings(
                arguments={"resource_managers": [cluster.url], "user": "alice"},
                environ={"HOME": directory},
                cwd=home,
                system_file=home / "no",
            )
            added = _added(home, settings, ("--rm", cluster.url, "--user", "alice"), rounds * 40)
        with bench_sandbox() as bench:
            settings = load_settings(profile=bench.cluster.profile, environ=bench.environ, cwd=home)
            return [
                _rate(
                    home,
                    settings,
                    ("--profile", bench.cluster.profile),
                    dict(bench.environ),
                    rounds,
                ),
                added,
            ]


def _gateway(
    home: Path, settings: Settings, options: tuple[str, ...], environ: dict[str, str] | None = None
) -> Process:
    callers = home / "callers"
    callers.write_text(line_of(settings.user, TOKEN))
    callers.chmod(0o600)
    return Process(home, *options, "--callers", str(callers), environ=environ)


def _direct(settings: Settings) -> Submit:
    """Return what the gateway does for a request, without the gateway; each thread has its
    connection, as each caller has.
    """
    cluster = operations.connect(settings)

    def submit(name: str) -> None:
        job = operations.load_job(Path("body.json"), settings, text=_body(name), host_files=False)
        operations.submit(operations.make_plan(job, settings, key=f"bench-{name}"), cluster)

    return submit


def _by(gateway: Process) -> Submit:
    """Return a way through the gateway; each thread has its connection here, too."""
    kept = threading.local()

    def submit(name: str) -> None:
        if not hasattr(kept, "http"):
            kept.http = requests.Session()
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Idempotency-Key": name,
        }
        answer = kept.http.post(
            f"{gateway.url}/v1/jobs", data=_body(name), headers=headers, timeout=60
        )
        assert answer.status_code == 201, answer.text

    return submit


def _body(name: str) -> bytes:
    return json.dumps({**JOB, "name": name, "command": "sleep 300"}).encode()


def _timed(submit: Submit, name: str) -> float:
    start = time.perf_counter()
    submit(name)
    return time.perf_counter() - start


def _added(home: Path, settings: Settings, options: tuple[str, ...], count: int) -> Row:
    """Submit one after the other, turn by turn, and compare the slowest of a hundred."""
    gateway = _gateway(home, settings, options)
    try:
        ways = {"gateway": _by(gateway), "direct": _direct(settings)}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(-5, count):
            for way, submit in ways.items():
                taken = _timed(submit, f"{way}-{number + 5}")
                if number >= 0:
                    times[way].append(taken)
    finally:
        gateway.end(signal.SIGKILL)
    p99 = {way: statistics.quantiles(series, n=100)[98] for way, series in times.items()}
    half = {way: statistics.median(series) for way, series in times.items()}
    details = (
        f"{count} each: medians {half['gateway'] * 1000:.1f} ms and {half['direct'] * 1000:.1f} ms"
    )
    details += f", p99 {p99['gateway'] * 1000:.1f} ms and {p99['direct'] * 1000:.1f} ms"
    what = "p99 of a submission through the gateway, less that of the direct call"
    return Row(
        what, f"{ADDED_S * 1000:g} ms", (p99["gateway"] - p99["direct"]) / ADDED_S, 1.0, details
    )


def _rate(
    home: Path, settings: Settings, options: tuple[str, ...], environ: dict[str, str], rounds: int
) -> Row:
    """Submit several at once, turn by turn; what was submitted is deleted before the next turn."""
    gateway = _gateway(home, settings, options, environ)
    try:
        by_gateway = _by(gateway)
        ways = {
            "gateway": [by_gateway] * AT_ONCE,
            "direct": [_direct(settings) for _ in range(AT_ONCE)],
        }
        seconds = {
            way: [_round(submits, f"{way}-{number}", settings) for number in range(rounds + 1)][1:]
            for way, submits in ways.items()
        }
    finally:
        gateway.end(signal.SIGTERM)
    rates = {way: AT_ONCE * 2 / statistics.median(series) for way, series in seconds.items()}
    details = (
        f"medians of {rounds}: {rates['gateway']:.1f} and {rates['direct']:.1f} submissions "
        f"per second, {AT_ONCE} at once"
    )
    return Row(
        "a submission through the gateway",
        "the direct call, on the same ResourceManager",
        rates["direct"] / rates["gateway"],
        RATE_GOAL,
        details,
    )


def _round(submits: list[Submit], prefix: str, settings: Settings) -> float:
    names = [[f"{prefix}-{turn}-{number}" for number in range(2)] for turn in range(AT_ONCE)]

    def work(turn: int) -> None:
        for name in names[turn]:
            submits[turn](name)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(AT_ONCE)))
        taken = time.perf_counter() - start
    cluster = operations.connect(settings)
    for name in (name for mine in names for name in mine):
        operations.delete(cluster, name, force=True)
    cluster.client.close()
    return taken
