"""The Python interface in a shell and a notebook: signatures, reprs, tables."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.observation import JobReport, JobState, JobStatus, Verdict
from submit_tf_job.operations.cluster import JobRef
from submit_tf_job.operations.listing import ListedJob
from submit_tf_job.sdk import client as sdk
from submit_tf_job.sdk.notebook import ListedJobs, html_table
from submit_tf_job.settings import load_settings

JOBS = ListedJobs(
    [
        ListedJob(
            "mnist",
            "application_1_2",
            JobState.RUNNING,
            "alice",
            "ml",
            elapsed_s=61,
            containers=3,
            memory_mib=2048,
        ),
        ListedJob("<b>", "application_1_1", JobState.FAILED, "alice", "ml"),
    ]
)


def client() -> sdk.Client:
    arguments = {"resource_managers": ["http://rm:8088"], "user": "alice"}
    return sdk.Client(
        settings=load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
    )


@pytest.mark.parametrize("name", ["load", "submit", "jobs"])
def test_module_functions_have_the_parameters_of_the_client(name: str) -> None:
    of_module = dict(inspect.signature(getattr(sdk, name)).parameters)
    of_client = dict(inspect.signature(getattr(sdk.Client, name)).parameters)
    of_client.pop("self")
    assert of_module == of_client
    kinds = {parameter.kind for parameter in of_module.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_logs_has_named_parameters() -> None:
    names = set(inspect.signature(sdk.JobHandle.logs).parameters)
    assert names == {"self", "task", "follow", "tail", "since_s", "grep", "files", "raw"}


def test_submit_logs_what_a_file_of_another_system_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = {"image": "i", "command": ["x"], "resources": {"limits": {"memory": "1G"}}}
    theirs = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [task]}}}}},
    }

    def posted(planned: Any, _cluster: object, **_options: object) -> Any:
        return SimpleNamespace(ref=JobRef("a", "application_1_1"), warnings=(), plan=planned)

    monkeypatch.setattr("submit_tf_job.operations.submit", posted)
    monkeypatch.setattr(sdk.Client, "cluster", None)
    with caplog.at_level("INFO"):
        client().submit(theirs, dialect="tfjob")
    levels = {record.levelname for record in caplog.records}
    assert levels == {"WARNING", "INFO"}
    assert "<mapping>:1:78: metadata.namespace: YARN has no namespaces" in caplog.text
    with pytest.raises(JobSpecError, match="there is no format 'nothing'"):
        client().submit(theirs, dialect="nothing")
    with pytest.raises(UsageError, match="takes no overrides"):
        client().load(client().load(theirs), dialect="tfjob")


def test_repr_of_client_handle_and_status() -> None:
    made = client()
    assert repr(made) == "<client of no profile, user alice>"
    assert repr(sdk.JobHandle(made, "mnist", "application_1_2")) == "<job mnist application_1_2>"
    progress = {"step": 3, "total": 10, "unit": "epoch"}
    running = Verdict(JobState.RUNNING)
    report = JobReport("s", "running", 1, 1, (), (), {}, None, None, (), progress, {})
    status = sdk.Status(
        JobStatus("mnist", "application_1_2", None, report=report, given_verdict=running)
    )
    assert repr(status) == "<mnist  RUNNING  epoch 3/10>"
    assert repr(JOBS[0]) == "<job mnist RUNNING application_1_2>"


def test_listed_jobs_repr_and_html() -> None:
    heading, first, _second = repr(JOBS).splitlines()
    assert heading.split() == [
        "NAME",
        "STATE",
        "QUEUE",
        "FOR",
        "CONTAINERS",
        "MEMORY",
        "APPLICATION",
    ]
    assert first.split() == ["mnist", "RUNNING", "ml", "1m01s", "3", "2.0Gi", "application_1_2"]
    table = JOBS._repr_html_()
    assert table.startswith("<table><thead><tr><th style=")
    assert ("font-family: monospace" in table, "&lt;b&gt;" in table, "<b>" in table) == (
        True,
        True,
        False,
    )
    assert repr(ListedJobs()) == "no jobs"
    assert html_table([["A"]]).endswith("<tbody></tbody></table>")


def test_load_downloads_files_of_a_mapping_into_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def downloaded(_url: str, directory: Path, **_options: object) -> Path:
        assert directory == tmp_path / "submit_tf_job" / "downloads"
        path = tmp_path / "w.bin"
        path.write_bytes(b"weights")
        return path

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("submit_tf_job.host.download.download", downloaded)
    spec = {"name": "a", "image": "i", "strategy": "single", "command": "x"}
    job = client().load(
        {**spec, "roles": {"chief": {"memory": "1Gi"}}, "files": ["https://example.com/w.bin"]}
    )
    assert [file.name for file in job.roles["chief"].files] == ["w.bin"]
