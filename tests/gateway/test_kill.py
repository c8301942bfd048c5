"""Two gateways with nothing in common but the cluster, killed in turn in the middle of a hundred
submissions: no job is submitted twice, and none is lost.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.gateway.conftest import JOB, Process, until
from tests.world.served import Served

SCHEDULERS, EACH = 5, 20


@pytest.fixture
def pair(cluster: Served, options: list[str], tmp_path: Path) -> Iterator[list[Process]]:
    """Two gateways; nothing is in the directory of either but its log."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Process(tmp_path / name, *options))
    yield made
    for process in made:
        process.end()


class Schedulers:
    """Clients that submit, each job with a key of its own, and repeat themselves, at one gateway and
    then at the other, until they have an answer.
    """

    def __init__(self, gateways: list[Process]) -> None:
        self._gateways = gateways
        self.applications: dict[str, str] = {}
        self.repeated = 0
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(SCHEDULERS)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        for serial in range(EACH):
            name, turn = f"job-{number}-{serial}", number
            while name not in self.applications:
                with contextlib.suppress(requests.RequestException):
                    answer = submit(self._gateways[turn % 2], name)
                    if answer.ok:
                        self.applications[name] = answer.json()["application_id"]
                        break
                    assert answer.status_code in (502, 503, 504), answer.text
                self.repeated += 1
                turn += 1
                time.sleep(0.1)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(300)
            assert not thread.is_alive()


def submit(gateway: Process, name: str, command: str = "true") -> requests.Response:
    body = {**JOB, "name": name, "command": command}
    return gateway.ask("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": f"key-{name}"})


def test_killed_in_turn_under_load_they_submit_each_job_once(
    pair: list[Process], cluster: Served, tmp_path: Path
) -> None:
    load = Schedulers(pair)
    for share, gateway in ((0.2, pair[0]), (0.4, pair[1]), (0.6, pair[0]), (0.8, pair[1])):
        wanted = share * SCHEDULERS * EACH
        until(lambda wanted=wanted: len(load.applications) >= wanted, "they submit", 120)
        gateway.end(signal.SIGKILL)
        gateway.start()
    load.join()
    assert load.repeated, "nobody noticed the kills"
    assert len(load.applications) == SCHEDULERS * EACH
    ran = Counter(
        app.name.rpartition("-")[0]
        for app in cluster.cluster.yarn.apps.values()
        if app.user == "alice"
    )
    assert {name: ran[name] for name in load.applications} == dict.fromkeys(load.applications, 1)
    for name, application in list(load.applications.items())[:4]:
        for gateway in pair:
            again = submit(gateway, name)
            assert (again.status_code, again.json()["application_id"]) == (200, application)
            other = submit(gateway, name, "false")
            assert (other.status_code, other.json()["code"]) == (422, "key-reused")
    assert all(gateway.end(signal.SIGTERM) == 0 for gateway in pair)
    left = {file.name for name in ("one", "two") for file in (tmp_path / name).rglob("*")}
    assert left == {gateway.log.name for gateway in pair}, "a gateway keeps no state"
