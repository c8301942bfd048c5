"""The same job on every version of Hadoop that is asked for:
SUBMIT_TF_JOB_TEST_HADOOP=3.4.2,3.3.5,3.2.1,3.1.3.

The version that is the default is that of all other tests.
"""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import pytest

from tests import clusters
from tests.cluster.conftest import (
    HADOOP_VERSIONS,
)

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def _call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        request, timeout=60
    ) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("version", HADOOP_VERSIONS)
def test_a_job_runs_to_its_end(version: str, clusters_of_session: None) -> None:
    with clusters.own("version", "--hadoop", version) as info:
        print(f"Hadoop {version} was up after {info.info['seconds']:.1f} s")
        assert _call("GET", f"{info.rm_url}/app/v1/services/version")["hadoop_version"].startswith(
            version
        )
        find = (
            "until getent hosts chief-0.hello.alice.sandbox.test; do sleep 0.3; done"
            if info.info["resolver"] == "system"
            else "sleep 2"
        )
        chief = {
            "name": "chief",
            "number_of_containers": 1,
            "launch_command": find,
            "restart_policy": "NEVER",
        }
        service = {
            "name": "hello",
            "version": "1",
            "components": [{**chief, "resource": {"cpus": 1, "memory": "256"}}],
        }
        answer = _call("POST", f"{info.rm_url}/app/v1/services?user.name=alice", service)
        app_id = answer["diagnostics"].rpartition(" ")[2]
        deadline = time.monotonic() + 120
        while (app := _call("GET", f"{info.rm_url}/ws/v1/cluster/apps/{app_id}")["app"])[
            "state"
        ] not in ("FINISHED", "FAILED", "KILLED"):
            assert time.monotonic() < deadline, app
            time.sleep(0.5)
        assert (app["state"], app["finalStatus"]) == ("FINISHED", "SUCCEEDED")
