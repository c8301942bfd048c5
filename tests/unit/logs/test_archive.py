"""The logs of an application that is over, while the cluster collects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job import BadAnswer
from submit_tf_job.logs.archive import collected
from submit_tf_job.logs.collected import NoLogs
from tests.builders import recorded_logs
from tests.builders.log_files import log, record, write_tfile
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


def test_report_that_a_program_has_filled_is_not_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("archive", "collected"):
        monkeypatch.setattr(f"submit_tf_job.logs.{module}.LARGEST", 2 * 1024**2)
    app_id = recorded_logs.recording("tfile-gz")[0]
    task = recorded_logs.container(app_id, 2)
    content = log("app.log", b"x\n") + log("job-report.json", b" " * 3_000_000)
    node = write_tfile([[record(task, content)]], compression="gz")
    place = f"alice/bucket-logs-tfile/0009/{app_id}/h1_8041_1795259223013"
    logs = recorded_logs.reader(tmp_path, {place: node}, app_id)
    assert [one.id for one in collected(logs, None).containers] == [task]
    with pytest.raises(BadAnswer, match=r"job-report\.json has more than 2 MiB"):
        logs.read_file(task, "job-report.json")
    assert logs.read_file(task, "app.log") == b"x\n"
