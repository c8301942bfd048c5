"""Two ResourceManagers, and what happens to them while a job is submitted, followed and stopped:
the verdict is right each time.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import clusters
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool, gone, runs_of, until

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

SMALL = {"memory": "256Mi"}
MANAGERS = ("resourcemanager", "resourcemanager2")
IN_FLIGHT_S = 180  # a POST whose answer was lost is at work for no longer (docs/ha.md)


class Pair:
    """The two ResourceManagers, as somebody sees them who does not go through the tool."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def get(self, url: str) -> dict[str, Any]:
        """Ask one of them, following nothing; {} for anything but an answer of 200 in JSON."""
        with suppress(requests.RequestException, ValueError):
            answer = requests.get(url, timeout=60, allow_redirects=False)
            return dict(answer.json()) if answer.status_code == 200 else {}
        return {}

    def active(self) -> int:
        """Which of them leads, as soon as one does."""
        return int(until(self._leading, "a ResourceManager leads", within_s=SUBMIT_S)[0])

    def _leading(self) -> list[int]:
        for number, url in enumerate(self.cluster.info["rm_urls"]):
            info = self.get(f"{url}/ws/v1/cluster/info").get("clusterInfo", {})
            if info.get("haState") == "ACTIVE":
                return [number]
        return []

    def kill_active(self) -> int:
        """End it with SIGKILL, and say which one it was."""
        number = self.active()
        self.cluster.kill(MANAGERS[number])
        return number

    def apps(self, name: str) -> list[dict[str, Any]]:
        """All applications of a job, as the active one tells them."""
        number = self.active()
        found = (
            self.get(f"{self.cluster.info['rm_urls'][number]}/ws/v1/cluster/apps").get("apps") or {}
        )
        return runs_of(name, found.get("app", []))


@pytest.fixture
def pair(ha_cluster: Cluster) -> Pair:
    """Both ResourceManagers, well."""
    return Pair(ha_cluster)


@pytest.fixture
def tool(pair: Pair, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), pair.cluster.profile, tmp_path)
    yield made
    made.tidy()


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Wait for a command, and let no traceback pass.

    A service that a dead ResourceManager left is deleted only when its POST cannot be at work any
    more (`IN_FLIGHT_S`).
    """
    stdout, stderr = process.communicate(timeout=IN_FLIGHT_S + SUBMIT_S)
    assert "Traceback" not in stderr, stderr
    return process.returncode, json.loads(stdout), stderr


@pytest.mark.long
@pytest.mark.parametrize("later_s", [0.0, 0.3])
def test_the_active_one_is_killed_while_it_takes_a_job(
    tool: Tool, pair: Pair, later_s: float
) -> None:
    name = f"submitting-{int(later_s * 10)}"
    ran = tool.cwd / f"{name}.ran"
    spec = tool.spec(
        name, strategy="single", command=f"sleep 3; echo trained >> {ran}", roles={"worker": SMALL}
    )
    info = pair.cluster
    run = tool("render", spec).json["name"]
    stored = f"{info.namenode_url}/webhdfs/v1/user/{info.user}/.yarn/services/{run}/{run}.json?op=GETFILESTATUS&user.name={info.user}"
    submitting = tool.start("submit", spec, "-o", "json")
    while not pair.get(stored):  # the POST is inside the ResourceManager from here on
        assert submitting.poll() is None, submitting.communicate()
        time.sleep(0.02)
    time.sleep(later_s)
    pair.kill_active()
    status, job, stderr = ended(submitting)
    assert (status, job["state"], job["confirmed"]) == (0, "SUCCEEDED", True), stderr

    # One whose answer was lost may stand beside it: killed by the tool, or dead by itself of an id
    # that its AM did not find.
    def others() -> list[dict[str, Any]]:
        return [app for app in pair.apps(name) if app["id"] != job["application_id"]]

    until(
        lambda: "UNDEFINED" not in [app["finalStatus"] for app in others()],
        "what stands beside it has ended",
        within_s=SUBMIT_S,
    )
    assert {app["finalStatus"] for app in others()} <= {"KILLED", "FAILED"}, others()
    assert ran.read_text() == "trained\n", "the job ran once"
    again = tool("submit", spec, "--once", "-o", "json")
    assert (again.status, again.json["application_id"]) == (0, job["application_id"])
    gone(name)
