"""Kerberos and two ResourceManagers: how long a failover takes longer than it must."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from submit_tf_job import Client
from submit_tf_job.settings import Settings, load_settings
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.bench.cluster import bench_sandbox
from tests.bench.measure import Row
from tests.clusters import Cluster

__all__ = ["measure_secure"]

FAILOVER_GOAL = 2.0
LOOK_S = 0.05


def measure_secure(rounds: int) -> list[Row]:
    """Measure on a sandbox of its own with Kerberos and two ResourceManagers."""
    with bench_sandbox("--profile", "kerberos+ha") as bench:
        profile = bench.cluster.profile
        settings = load_settings(profile=profile, environ=bench.environ, cwd=Path("/"))
        return [_failovers(bench.cluster, settings, max(2, rounds // 2))]


def _failovers(cluster: Cluster, settings: Settings, rounds: int) -> Row:
    """Kill the active ResourceManager while a client asks; count from the moment that another one
    would have answered.
    """
    late, whole = [], []
    for _ in range(rounds):
        of_settings = Client(settings=settings)  # closes its connection when it is collected
        client = of_settings.cluster.client
        client.apps()
        active = client.rms.urls[0]
        probe = _Probe(settings, next(url for url in cluster.info["rm_urls"] if url != active))
        daemon = "resourcemanager" if active == cluster.rm_url else "resourcemanager2"
        killed = time.monotonic()
        os.kill(cluster.pid_of(daemon), signal.SIGKILL)
        probe.start()
        client.apps(deadline=client.deadline(120))
        answered = time.monotonic()
        probe.join(120)
        late.append(max(0.0, answered - probe.answered))
        whole.append(answered - killed)
        client.close()
        cluster.heal()
    seconds = ", ".join(f"{taken:.1f}" for taken in whole)
    details = f"worst of {rounds}; from the kill to the answer {seconds} s, YARN's election in it"
    what = "seconds from an active ResourceManager to our next answer"
    return Row(what, "1 s", max(late), FAILOVER_GOAL, details)


class _Probe(threading.Thread):
    """Asks one ResourceManager all the time until it is the active one."""

    def __init__(self, settings: Settings, url: str) -> None:
        super().__init__(daemon=True)
        auth = Client(settings=settings).cluster.client.auth
        self._client = ResourceManager([url], auth, ca_file=settings.ca_file)
        self.answered = 0.0

    def run(self) -> None:
        """Ask until it answers."""
        while not self.answered:
            try:
                self._client.apps(deadline=self._client.deadline(3))
                self.answered = time.monotonic()
            except Exception:  # noqa: BLE001 - a standby, or nobody yet
                time.sleep(LOOK_S)
