"""Python's interface in a shell and a notebook: signatures, reprs, tables, what is logged."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from tests.world import RM, World


def client() -> submit_tf_job.Client:
    return submit_tf_job.Client(resource_managers=[RM])


@pytest.mark.parametrize("name", ["load", "submit", "jobs"])
def test_module_functions_have_the_parameters_of_the_client(name: str) -> None:
    of_module = dict(inspect.signature(getattr(submit_tf_job, name)).parameters)
    of_client = dict(inspect.signature(getattr(submit_tf_job.Client, name)).parameters)
    of_client.pop("self")
    assert of_module == of_client
    kinds = {parameter.kind for parameter in of_module.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_submit_logs_what_a_file_of_another_system_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task = {"image": "i", "command": ["x"], "resources": {"limits": {"memory": "1G"}}}
    theirs: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [task]}}}}},
    }
    with caplog.at_level("INFO"):
        client().submit(theirs, dialect="tfjob")
    assert {"WARNING", "INFO"} <= {record.levelname for record in caplog.records}
    assert "<mapping>:1:78: metadata.namespace: YARN has no namespaces" in caplog.text
    with pytest.raises(submit_tf_job.JobSpecError, match="there is no format 'nothing'"):
        client().submit(theirs, dialect="nothing")
    with pytest.raises(submit_tf_job.UsageError, match="takes no overrides"):
        client().load(client().load(theirs), dialect="tfjob")


def test_submit_gives_a_job_that_need_not_be_followed_a_lifetime(world: World) -> None:
    spec = world.spec()
    planned = client().plan(spec)
    client().submit(spec)
    posted = world.service
    assert (posted["lifetime"], posted) == (30 * 86400, json.loads(planned.body))


def test_client_refuses_a_setting_that_does_not_exist(world: World) -> None:
    wanted = "there is no setting 'resource_manager'; did you mean resource_managers?"
    with pytest.raises(submit_tf_job.SettingsError) as error:
        submit_tf_job.Client(resource_manager="http://rm:8088")
    assert error.value.message == wanted


def test_jobs_takes_states_by_name(world: World) -> None:
    world.submitted()
    assert [job.name for job in client().jobs(states=["RUNNING"])] == ["mnist"]
    assert list(client().jobs(states=["FAILED"])) == []
    with pytest.raises(submit_tf_job.UsageError, match="'x' is not a valid JobState; states are P"):
        client().jobs(states=["x"])


NO_LIMIT = "limit: expected a whole number of at least 1, found"
NO_JOB = "job: expected a mapping with keys of a job spec, found NoneType"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: client().submit(3), "spec: expected the path of a job spec, a mapping or a"),  # type: ignore[arg-type]
        (lambda: client().load({}, overrides="x"), "overrides: expected a list, found 'x'"),
        (lambda: client().load({}, overrides=[3]), "overrides: expected a text, found 3"),  # type: ignore[list-item]
        (lambda: client().load({("a",): 1}), "spec: the mapping is not one of JSON: keys must be"),  # type: ignore[dict-item]
        (lambda: submit_tf_job.run(len, job={"files": "a"}, local=True), "files: expected a list"),
        (lambda: client().jobs(names="x"), "names: expected a list, found 'x'"),
        (lambda: client().load({}, overrides=3), "overrides: expected a list, found 3"),  # type: ignore[arg-type]
        (lambda: client().load({}, name=3), "name: expected a text, found 3"),  # type: ignore[arg-type]
        (lambda: client().submit({}, submission_id=3), "submission_id: expected a text, found 3"),  # type: ignore[arg-type]
        (
            lambda: client().plan({}, again="often"),  # type: ignore[arg-type]
            "again: expected always, after-failure, never or None, found 'often'",
        ),
        (lambda: client().attach(3), "name: expected a text, found 3"),  # type: ignore[arg-type]
        (lambda: client().jobs(user=3), "user: expected a text, found 3"),  # type: ignore[arg-type]
        (lambda: client().jobs(limit=-1), f"{NO_LIMIT} -1"),
        (lambda: client().jobs(limit="3"), f"{NO_LIMIT} '3'"),  # type: ignore[arg-type]
        (lambda: client().history(limit=None), f"{NO_LIMIT} None"),  # type: ignore[arg-type]
        (lambda: client().check("nope"), "there is no check 'nope'"),
        (lambda: submit_tf_job.Client(3), "profile: expected a text, found 3"),  # type: ignore[arg-type]
        (lambda: submit_tf_job.run(len, "a", job=None, local=True), NO_JOB),  # type: ignore[call-overload]
        (lambda: submit_tf_job.start(len, ("a",), job=None, client=client()), NO_JOB),  # type: ignore[arg-type]
        (lambda: submit_tf_job.Client(user=3), "user: expected a text, found 3"),
        (lambda: submit_tf_job.Client(poll__min="20s"), "poll.min (20 s) is longer than poll.max"),
    ],
)
def test_argument_of_a_wrong_kind(world: World, call: Callable[[], object], message: str) -> None:
    with pytest.raises((submit_tf_job.UsageError, submit_tf_job.SettingsError)) as error:
        call()
    assert error.value.message.startswith(message)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """An exception that refuses what is assigned to it."""

    code: int


def test_function_here_prints_any_letter_and_raises_any_exception(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", said)

    def train() -> None:
        print("\N{SNOWMAN}", flush=True)
        raise Frozen(3)

    with pytest.raises(Frozen) as error:
        submit_tf_job.run(train, job={"roles": {"worker": {"memory": "1Gi"}}}, local=True)
    assert "in task worker-0" in str(error.value.__cause__)
    said.seek(0)
    assert said.read().startswith("worker-0 | \\u2603\n")


def test_reprs_and_tables(world: World) -> None:
    assert repr(client()) == "<client of no profile, user alice>"
    assert repr(client().jobs()) == "no jobs"
    chief = world.running()["chief-0"]
    world.reports(chief, "running", progress={"step": 3, "total": 10, "unit": "epoch"})
    handle = client().attach(world.application)
    assert repr(handle) == f"<job mnist {world.name} {world.application}>"
    assert repr(handle.status()) == "<mnist  RUNNING  epoch 3/10>"
    world.yarn.submit_app("alice", {"name": "<b>"})
    jobs = client().jobs()
    assert repr(jobs[1]) == f"<job mnist RUNNING {world.application}>"
    heading, _other, row = repr(jobs).splitlines()
    assert heading.split()[:4] == ["NAME", "STATE", "QUEUE", "FOR"]
    assert row.split()[:3] == ["mnist", "RUNNING", "default"]
    table = jobs._repr_html_()
    assert table.startswith("<table><thead><tr><th style=")
    assert ("font-family: monospace" in table, "&lt;b&gt;" in table) == (True, True)
    assert "<b>" not in table


def test_handle_changes_the_job_as_the_commands_do(world: World) -> None:
    worker = {"memory": "1Gi", "instances": 1}
    board = {"memory": "1Gi", "command": "b"}
    world.submitted(roles={"chief": {"memory": "1Gi"}, "worker": worker, "board": board})
    handle = client().attach("mnist")
    assert handle.scale("board", 3, wait=False).value == 3
    with pytest.raises(submit_tf_job.UsageError, match="a time to save is 0 seconds or more"):
        handle.stop(grace_s=-1)


def test_load_downloads_files_of_a_mapping_into_the_cache(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
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


# --- for programs that submit for others ---

SENT = b"""name: mnist
image: library/python:3.11
strategy: single
command: echo
roles: {worker: {memory: 256Mi}}
"""


def test_job_of_somebody_else_may_use_the_files_that_came_with_it_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    for content, files, message in (
        (SENT + b"files: [a.py]", tmp_path, ""),
        (SENT + b"files: [/etc/passwd]", tmp_path, "body.yaml:6:9: files[0]"),
        (SENT + b"files: [a.py]", None, "body.yaml:6:9: files[0]"),
    ):
        if message:
            with pytest.raises(submit_tf_job.JobSpecError, match=re.escape(message)):
                client().load_sent(content, "body.yaml", files=files)
        else:
            job = client().load_sent(content, "body.yaml", files=files)
            assert [file.name for file in job.roles["worker"].files] == ["a.py"]


def test_submission_id_that_was_used_before_is_told(world: World) -> None:
    def planned(content: bytes) -> Any:
        return client().plan(client().load_sent(content, "a.yaml"), submission_id="7")

    first = planned(SENT)
    assert (client().has_run(first), client().other_job(first)) == (False, None)
    handle = client().submit(first)
    assert (handle.adopted, client().has_run(first)) == (False, True)
    assert client().other_job(planned(SENT.replace(b"mnist", b"digits"))) == "mnist"
    world.passes(10)
    with pytest.raises(submit_tf_job.KeyReused, match=f"{handle.run} .* with other settings"):
        client().submit(planned(SENT.replace(b"echo", b"date")))
    assert client().submit(first).run == handle.run


def test_own_jobs_only_does_not_know_the_ids_of_others(world: World) -> None:
    world.submitted()
    theirs = world.yarn.submit_app("bob", {"name": "theirs"}).id
    narrow = submit_tf_job.Client(resource_managers=[RM], own_jobs_only=True)
    assert client().attach(theirs).name == "theirs"
    with pytest.raises(submit_tf_job.NoSuchJob, match="does not know application_"):
        narrow.attach(theirs)
    assert narrow.attach(world.application).status().name == "mnist"


def test_waits_of_a_client_end_with_an_event(world: World) -> None:
    world.submitted()
    over = threading.Event()
    handle = client().ended_by(over).attach("mnist")
    for seen in handle.events():
        if isinstance(seen, submit_tf_job.Status):
            over.set()
            break
    with pytest.raises(CancelledError):
        handle.wait()


def test_lines_of_logs_as_the_command_prints_them(world: World) -> None:
    chief = world.running()["chief-0"]
    world.writes(chief, "stdout.txt", "one\ntwo\x1b[2J\n")
    handle = client().attach("mnist")
    assert [line.text for line in handle.logs("chief-0")] == ["one", "two\x1b[2J"]
    printed = world("logs", "mnist", "chief-0").out
    assert "".join(handle.logs("chief-0").text()) == printed
    as_json = world("logs", "mnist", "chief-0", "-o", "json").out
    assert "".join(handle.logs("chief-0").json()) == as_json


def test_gpus_of_a_waiting_job_are_in_its_record(kept: World) -> None:
    """The ResourceManager knows only the request of the ApplicationMaster."""
    kept.yarn.full, kept.yarn.site.max_gpus = True, 8
    roles = {"chief": {"memory": "1Gi"}, "worker": {"memory": "1Gi", "gpus": 2, "instances": 2}}
    kept.submitted(roles=roles)
    assert client().attach("mnist").status().state == "PENDING"
    assert client().gpus(kept.name) == 4
    for record in kept.home.rglob(f"{kept.name}.json"):
        record.unlink()
    assert client().gpus(kept.name) is None


def test_gpus_and_runs_of_a_job(world: World) -> None:
    world.yarn.site.max_gpus = 8
    world.submitted(strategy="single", roles={"worker": {"memory": "1Gi", "gpus": 2}})
    assert client().gpus(client().attach("mnist").run) == 2
    assert client().gpus("none-4k3f7qa2") == 0
    with pytest.raises(submit_tf_job.NameTaken):
        client().delete("mnist")
    assert client().delete("mnist", force=True) == (world.name,)
    assert client().delete("mnist") == ()
