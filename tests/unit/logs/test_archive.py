"""The logs of an application that is over, while the cluster collects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.logs.archive import collected
from submit_tf_job.logs.collected import NoLogs
from tests.builders import recorded_logs
from tests.world.cluster import FakeCluster
from tests.world.logged_job import Job


def test_logs_wait_for_the_collection(tmp_path: Path) -> None:
    place = f"<name>yarn.nodemanager.remote-app-log-dir</name><value>{tmp_path.as_uri()}</value>"
    text = f"<configuration><property>{place}</property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(text)
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    job = Job(FakeCluster(), tmp_path)
    job.start()
    job.ends(0.1)
    job.clock.sleep(2)
    job.cluster.yarn.aggregation = "NOT_START"
    start = job.clock()
    with pytest.raises(NoLogs, match="not collected yet"):
        job.logs()
    assert 60 <= job.clock() - start < 70
    assert job.said == ["mnist is over, and the cluster is collecting its logs; waiting for them"]


def test_logs_beside_a_damaged_report(tmp_path: Path) -> None:
    name = "indexed-gz"
    app_id = recorded_logs.recording(name)[0]
    [file] = (recorded_logs.DATA / name).rglob("localhost_*")
    data = bytearray(file.read_bytes())
    for report in recorded_logs.recorded(name).find("job-report.json"):
        start, stored = report.region.start, report.region.stored
        data[start : start + stored] = b"\xff" * stored
    files = {f"alice/logs/{app_id}/{file.name}": bytes(data)}
    assert len(collected(recorded_logs.reader(tmp_path, files, app_id), None).containers) == 3
