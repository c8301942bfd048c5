"""Gateways that are killed under load: no job is submitted twice, and no webhook is lost; on
SQLite, and side by side on PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.fakes.served import Served
from tests.gateway.conftest import JOB, Postgres, Process, Receiver, until

pytestmark = pytest.mark.usefixtures("cluster")
SOONER = (
    "import submit_tf_job.gateway.webhook_delivery as d; d.CHECK_S = 0.5; "
    "import submit_tf_job.gateway.database as b; b._IDLE_SESSION_S = 5"
)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def started() -> Iterator[Callable[..., Process]]:
    """Start gateways, and end what is left of them."""
    made: list[Process] = []

    def start(*arguments: Any) -> Process:
        made.append(Process(*arguments, patch=SOONER))
        return made[-1]

    yield start
    for process in made:
        process.end()


class Schedulers:
    """Clients that submit, each job with a key of its own, and repeat themselves until they have an
    answer.

    Each submits so many jobs, or goes on until `join` is called.
    """

    def __init__(
        self,
        gateways: list[Process],
        prefix: str,
        hook: str,
        each: int | None = None,
        count: int = 6,
    ) -> None:
        self._gateways, self._prefix, self._hook = gateways, prefix, hook
        self.applications: dict[str, str] = {}
        self.repeated = 0
        self._enough = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(number, each)) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int, each: int | None) -> None:
        for serial in itertools.count() if each is None else range(each):
            if each is None and self._enough.wait(0.3):
                break
            name = f"{self._prefix}-{number}-{serial}"
            turn = number
            while name not in self.applications:
                gateway = self._gateways[turn % len(self._gateways)]
                headers = {"Idempotency-Key": f"key-{name}", "Webhook-Url": f"{self._hook}/{name}"}
                with contextlib.suppress(requests.RequestException):
                    answer = gateway.ask(
                        "POST", "/v1/jobs", json={**JOB, "name": name}, headers=headers
                    )
                    if answer.ok:
                        self.applications[name] = answer.json()["application_id"]
                        break
                    assert answer.status_code in (502, 503, 504), answer.text
                self.repeated += 1
                turn += 1
                time.sleep(0.1)

    def join(self) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()


def end_all(cluster: Served, names: Iterable[str]) -> None:
    """Let jobs end whose submission was answered: what a finished job was is read from HDFS, which
    the fake has not.
    """
    wanted = set(names)
    for app in list(cluster.cluster.yarn.apps.values()):
        if app.name in wanted and not app.ended:
            cluster.cluster.yarn.end(app, "FINISHED", "SUCCEEDED", "")


def submitted(cluster: Served, prefix: str) -> Counter[str]:
    return Counter(
        app.name for app in list(cluster.cluster.yarn.apps.values()) if app.name.startswith(prefix)
    )


def test_killed_under_load_on_sqlite(
    started: Callable[..., Process],
    cluster: Served,
    options: list[str],
    receiver: tuple[Receiver, str],
    tmp_path: Path,
) -> None:
    heard, hook = receiver
    gateway = started(
        tmp_path, *options, "--webhook-to", hook, "--state", f"sqlite://{tmp_path}/state.db"
    )
    load = Schedulers([gateway], "lite", hook)
    heard.delay_s = 0.2  # so that some are on their way when their gateway dies
    for pause_s in (0.4, 0.6):
        time.sleep(pause_s)
        end_all(cluster, tuple(load.applications))
        time.sleep(0.7)
        gateway.end(signal.SIGKILL)
        gateway.start()
    load.join()
    assert load.repeated, "nobody noticed the kills"
    assert submitted(cluster, "lite") == dict.fromkeys(load.applications, 1)
    end_all(cluster, load.applications)
    until(lambda: set(heard.jobs) == set(load.applications), "every end is told", 60)
    assert heard.had.total() - len(heard.had) <= 2 * 16, (
        "only what was on its way when it was killed is told twice"
    )
    assert {len(ids) for ids in heard.ids_of.values()} == {1}
    source = re.search(
        r"```python\n(import base64.*?)```", (DOCS / "gateway.md").read_text(), re.DOTALL
    )
    assert source
    checker: dict[str, Any] = {}
    exec(source[1], checker)
    key = gateway.ask("GET", "/v1/webhook-key").json()["key"]
    for body, headers in heard.received:
        assert checker["is_genuine"](key, headers, body)
    body, headers = heard.received[0]
    assert not checker["is_genuine"](key, headers, body + b" ")
    assert not checker["is_genuine"](
        key, {**headers, "webhook-timestamp": str(int(time.time()) - 400)}, body
    )
    assert gateway.end(signal.SIGTERM) == 0


@pytest.mark.long
def test_side_by_side_on_postgresql(
    started: Callable[..., Process],
    cluster: Served,
    options: list[str],
    receiver: tuple[Receiver, str],
    postgres: Postgres,
    tmp_path: Path,
) -> None:
    heard, hook = receiver
    told = (tmp_path, *options, "--webhook-to", hook, "--state", postgres.url)
    pair = [started(*told), started(*told)]
    until(
        lambda: sum(gateway.metric("delivers_webhooks") for gateway in pair) == 1,
        "one of two leads",
    )

    calm = Schedulers(pair, "calm", hook, each=2)
    calm.join()
    end_all(cluster, calm.applications)
    until(lambda: set(heard.jobs) == set(calm.applications), "every end is told")
    time.sleep(1)
    assert set(heard.had.values()) == {1}, "each exactly once while nobody dies"

    heard.delay_s = 0.2  # so that some are on their way when their gateway dies
    load = Schedulers(pair, "load", hook)
    for _ in range(2):
        time.sleep(0.8)
        end_all(cluster, tuple(load.applications))
        time.sleep(0.7)
        leader = next(gateway for gateway in pair if gateway.metric("delivers_webhooks"))
        other = next(gateway for gateway in pair if gateway is not leader)
        leader.end(signal.SIGKILL)
        until(
            lambda other=other: other.metric("delivers_webhooks") == 1, "the other takes over", 10
        )
        leader.start()
    load.join()
    assert submitted(cluster, "load") == dict.fromkeys(load.applications, 1)
    end_all(cluster, load.applications)
    until(lambda: set(heard.jobs) == {*calm.applications, *load.applications}, "every end is told")
    assert {len(ids) for ids in heard.ids_of.values()} == {1}

    # A key that was used for another job is known to the gateway that did not serve it.
    again = {"json": {**JOB, "name": "another"}, "headers": {"Idempotency-Key": "key-calm-0-0"}}
    assert {gateway.ask("POST", "/v1/jobs", **again).json()["code"] for gateway in pair} == {
        "key-reused"
    }

    # One that is stopped, and so neither dead nor any good, loses the lead, and does not take it
    # back.
    leader, other = sorted(pair, key=lambda gateway: -gateway.metric("delivers_webhooks"))
    leader.process.send_signal(signal.SIGSTOP)
    until(lambda: other.metric("delivers_webhooks") == 1, "the other takes over", 20)
    leader.process.send_signal(signal.SIGCONT)
    until(lambda: leader.metric("delivers_webhooks") == 0, "it has noticed", 10)

    # Without its database it serves all but webhooks; when that is back, so are they.
    postgres.stop()
    without = pair[0].ask("POST", "/v1/jobs", json={**JOB, "name": "no-hook"})
    assert without.status_code == 201, without.text
    refused = pair[0].ask(
        "POST", "/v1/jobs", json={**JOB, "name": "hooked"}, headers={"Webhook-Url": f"{hook}/x"}
    )
    assert (refused.status_code, refused.json()["code"]) == (503, "state-unavailable")
    assert submitted(cluster, "hooked") == {}
    postgres.start()
    assert (
        pair[0]
        .ask(
            "POST", "/v1/jobs", json={**JOB, "name": "hooked"}, headers={"Webhook-Url": f"{hook}/x"}
        )
        .status_code
        == 201
    )
    end_all(cluster, ["hooked"])
    until(lambda: heard.jobs["hooked"] == 1, "the webhook is told after the database came back")
    assert all(gateway.end(signal.SIGTERM) == 0 for gateway in pair)
