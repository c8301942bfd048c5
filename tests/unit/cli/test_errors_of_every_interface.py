"""Every error in four interfaces: command line, gateway, Python and Airflow."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import (
    TABLE,
    InternalError,
    JobSpecError,
    Problem,
    SettingsError,
    SubmitTFJobError,
)
from submit_tf_job.sdk import client
from tests.fakes.command_line import Cli
from tests.fakes.gateway import World, refused

RM = ("--rm", "http://rm1:8088")


class Retried(Exception):
    """An error that Airflow retries (AirflowException)."""


class NotRetried(Retried):
    """An error that Airflow does not retry (AirflowFailException)."""


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Airflow's mapping, which needs nothing of Airflow but its two exceptions."""
    exceptions: Any = ModuleType("airflow.sdk.exceptions")
    exceptions.AirflowException, exceptions.AirflowFailException = Retried, NotRetried
    monkeypatch.setitem(sys.modules, "airflow.sdk.exceptions", exceptions)
    before = sys.modules.pop("submit_tf_job.airflow.outcome", None)
    yield importlib.import_module("submit_tf_job.airflow.outcome")
    del sys.modules["submit_tf_job.airflow.outcome"]
    if before is not None:
        sys.modules["submit_tf_job.airflow.outcome"] = before


def made(kind: type[SubmitTFJobError]) -> SubmitTFJobError:
    if kind is JobSpecError:
        return JobSpecError([Problem(3, 1, "roles", "what went wrong")], hint="what to do")
    return kind("what went wrong", hint="what to do", details={"fact": 1})


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_error_is_the_same_in_every_interface(
    kind: type[SubmitTFJobError],
    outcome: Any,
    cli: Cli,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, error = TABLE[kind], made(kind)
    world = World(tmp_path)

    def broken(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(operations, "list_jobs", broken)

    # 1. The command line: an exit status, the sentence and the hint; with -o json the object of
    # errors.
    done = cli("list", *RM)
    assert (done.status, done.out) == (row.exit_status, "")
    assert "what went wrong" in done.err
    assert "what to do" in done.err
    told = json.loads(cli("list", "-o", "json", *RM).err)
    assert {name: told[name] for name in ("code", "exit_status", "retryable")} == {
        "code": row.code, "exit_status": row.exit_status, "retryable": row.retryable,
    }  # fmt: skip

    # 2. The gateway: a status and a problem, which says nothing of the gateway's own host.
    answer = world.ask("GET", "/v1/jobs")
    detail = refused(answer, row.http_status, row.code)
    assert answer.json()["retryable"] is row.retryable
    assert ("retry-after" in answer.headers) is row.retryable
    assert ("what went wrong" in detail) is (kind not in (SettingsError, InternalError))

    # 3. Python: the exception itself.
    with pytest.raises(kind) as caught:
        client.Client(settings=world.settings).jobs()
    assert caught.value is error
    assert (caught.value.exit_status, caught.value.hint) == (row.exit_status, "what to do")

    # 4. Airflow: tried again or not, with the same words; also where a trigger has seen it and a
    # worker raises it.
    raised = outcome.as_airflow(error)
    assert isinstance(raised, NotRetried) is not row.retryable
    assert "what went wrong" in str(raised)
    assert "what to do" in str(raised)
    if kind is not JobSpecError:  # found before anything is deferred
        carried = outcome.error_in({"error": outcome.error_object(error)})
        assert (type(carried), carried.message, carried.hint) == (kind, error.message, error.hint)


def test_success_in_every_interface(
    outcome: Any, cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "list_jobs", lambda *_arguments, **_options: ())
    world = World(tmp_path)
    assert cli("list", *RM).status == 0
    assert world.ask("GET", "/v1/jobs").status_code == 200
    assert client.Client(settings=world.settings).jobs() == ()
    assert outcome.error_in({"state": "SUCCEEDED", "error": None}) is None
