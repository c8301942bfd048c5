"""The logs of an application that is over: collected, or at a log server; and
what is said where there are none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import submit_tf_job.operations.logs  # noqa: F401 - looked up in sys.modules: the package has a function of this name
from submit_tf_job import operations
from submit_tf_job.logs.collected import NoLogs
from submit_tf_job.logs.sources import log_server_of
from tests.builders.recorded_logs import DATA, container, recorded, recording
from tests.world.cluster import FakeCluster
from tests.world.logged_job import Job


def over(
    tmp_path: Path,
    properties: dict[str, str],
    *,
    status: str | None = "SUCCEEDED",
    after_s: float = 600,
) -> Job:
    """Return a job that ended so long ago, on a cluster of such a configuration."""
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    job = Job(FakeCluster(), tmp_path)
    job.start()
    job.ends(0.1)
    job.clock.sleep(after_s)
    job.cluster.yarn.aggregation = status
    return job


# --- collected ------------------------------------------------------------------------------------


def test_logs_of_an_ended_job(tmp_path: Path) -> None:
    app_id, _rows = recording("tfile-gz")
    root = tmp_path / "logs"
    shutil.copytree(DATA / "tfile-gz", root)
    job = over(tmp_path, {"yarn.nodemanager.remote-app-log-dir": root.as_uri()})
    [app] = job.yarn.apps.values()
    job.yarn.apps[app_id] = job.yarn.apps.pop(app.id)
    app.id = app_id
    container_id = container(app_id, 2)
    assert (
        job.logs(container_id)[-1] == f"{container_id} "
        f"{recorded('tfile-gz').read(container_id, 'stderr.txt').decode().splitlines()[-1]}"
    )
    assert job.logs("am", grep="INFO.*ServiceMaster", tail=1)
    inventory = operations.log_files(job.api, app_id)
    assert (inventory.source, len(inventory.containers)) == ("collected", 3)
    assert operations.tail_of(
        job.api, job.api.client.app(app_id) or pytest.fail("it is there"), container_id, lines=1
    )
    forgotten = operations.logs(job.api, app_id, "am", tail=1)
    del job.yarn.apps[app_id]  # the ResourceManager keeps only so many
    assert [line.text for line in operations.logs(job.api, app_id, "am", tail=1)] == [
        line.text for line in forgotten
    ]


def test_logs_wait_for_the_collection(tmp_path: Path) -> None:
    job = over(
        tmp_path,
        {"yarn.nodemanager.remote-app-log-dir": tmp_path.as_uri()},
        status="NOT_START",
        after_s=2,
    )
    start = job.clock()
    with pytest.raises(NoLogs, match="not collected yet"):
        job.logs()
    assert 60 <= job.clock() - start < 70
    assert job.said == ["mnist is over, and the cluster is collecting its logs; waiting for them"]


# --- a log server ---------------------------------------------------------------------------------


SERVER = "http://history:8188/ws/v1/applicationhistory"


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        ({}, None),
        ({"yarn.log.server.web-service.url": SERVER + "/"}, SERVER),
        (
            {"yarn.log.server.url": "http://jhs:19888/jobhistory/logs"},
            "http://jhs:19888/ws/v1/history",
        ),
        (
            {"yarn.log.server.url": "https://jhs:19890/jobhistory/logs/"},
            "https://jhs:19890/ws/v1/history",
        ),
        (
            {"yarn.log.server.url": "http://ahs:8188/applicationhistory/logs/"},
            "http://ahs:8188/ws/v1/applicationhistory",
        ),
        ({"yarn.log.server.url": "ftp://x/jobhistory"}, None),
    ],
)
def test_log_server_of_yarn_site(properties: dict[str, str], address: str | None) -> None:
    assert log_server_of(properties) == address
