"""The gateway against the calls that it makes itself: what it adds to a submission."""

from __future__ import annotations

import json
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import requests

from submit_tf_job import Client
from submit_tf_job.gateway.callers import line_of
from submit_tf_job.operations import submit as submission
from submit_tf_job.settings import Settings, load_settings
from tests.bench.measure import Row
from tests.gateway.conftest import JOB, TOKEN, Process
from tests.world.served import served_cluster

__all__ = ["measure_gateway"]

ADDED_S = 0.015
Submit = Callable[[str], None]


def measure_gateway(rounds: int) -> list[Row]:
    """Measure on a ResourceManager that always takes the same time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        with served_cluster() as cluster:
            given = {"resource_managers": [cluster.url], "user": "alice"}
            environ, no = {"HOME": directory}, home / "no"
            settings = load_settings(arguments=given, environ=environ, cwd=home, system_file=no)
            rm = ("--rm", cluster.url, "--user", "alice")
            return [_added(home, settings, rm, rounds * 40)]


def _gateway(home: Path, settings: Settings, options: tuple[str, ...]) -> Process:
    callers = home / "callers"
    callers.write_text(line_of(settings.user, TOKEN))
    callers.chmod(0o600)
    return Process(home, *options, "--callers", str(callers))


def _direct(settings: Settings) -> Submit:
    """Return what the gateway does for a request, without the gateway; each thread has its
    connection, as each caller has.
    """
    client = Client(settings=settings)

    def submit(name: str) -> None:
        job = submission.load_job(Path("body.json"), settings, text=_body(name), host_files=False)
        submission.submit(submission.make_plan(job, settings, key=f"bench-{name}"), client.cluster)

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
    in_ms = {way: (half[way] * 1000, p99[way] * 1000) for way in ways}
    (ours, our_p99), (direct, direct_p99) = in_ms["gateway"], in_ms["direct"]
    details = f"{count} each: medians {ours:.1f} ms and {direct:.1f} ms"
    details += f", p99 {our_p99:.1f} ms and {direct_p99:.1f} ms"
    what = "p99 of a submission through the gateway, less that of the direct call"
    ratio = (p99["gateway"] - p99["direct"]) / ADDED_S
    return Row(what, f"{ADDED_S * 1000:g} ms", ratio, 1.0, details)
