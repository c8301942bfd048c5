"""A Python function as a job: what it returns or raises comes back, from the cluster and from this
machine alike.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from submit_tf_job import Client, JobFailed, NoSuchJob, UsageError
from submit_tf_job.sdk import functions
from submit_tf_job.sdk.functions import RemoteTraceback, remote, run, start
from submit_tf_job.settings import Settings

ONE = {"image": "library/python:3.11", "roles": {"worker": {"memory": "256Mi"}}}
TWO = {
    "image": "library/python:3.11",
    "strategy": "multi-worker",
    "roles": {"worker": {"instances": 2, "memory": "256Mi"}},
}


class Unlucky(Exception):
    """An exception of this very file, which no container has."""


def where(word: str, *, times: int = 1) -> dict[str, Any]:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return {
        "said": word * times,
        "task": f"{os.environ['TFJOB_ROLE']}-{os.environ['TFJOB_INDEX']}",
        "peers": len(cluster.get("cluster", {}).get("worker", [])),
    }


def unlucky(limit: int) -> int:
    if int(os.environ["TFJOB_INDEX"]) == limit:
        raise Unlucky(f"{limit} is too much")
    import time

    time.sleep(60)
    return limit


def leaves(status: int) -> None:
    sys.exit(status)


@pytest.fixture
def client(cluster_settings: Settings) -> Iterator[Client]:
    with Client(settings=cluster_settings) as made:
        yield made


@pytest.mark.cluster
def test_what_a_function_returns_comes_back_and_nothing_is_left(client: Client) -> None:
    call = start(where, ("ha",), {"times": 3}, job=TWO, client=client)
    assert call.handle.name.startswith("where-")
    assert call.result(240) == {"said": "hahaha", "task": "worker-0", "peers": 2}
    with pytest.raises(NoSuchJob):
        client.attach(call.handle.name)


@pytest.mark.cluster
def test_the_first_exception_comes_back_with_its_traceback(client: Client) -> None:
    with pytest.raises(Unlucky, match="1 is too much") as caught:
        run(unlucky, 1, job=TWO, client=client, timeout_s=240)
    cause = caught.value.__cause__
    assert isinstance(cause, RemoteTraceback)
    words = "".join(traceback.format_exception(caught.value))
    assert "in task worker-1" in words
    assert "raise Unlucky" in words


@pytest.mark.cluster
def test_a_function_that_leaves(client: Client) -> None:
    with pytest.raises(JobFailed, match="status 5"):
        run(leaves, 5, job=ONE, client=client, timeout_s=240)


# --- the same call on this machine ----------------------------------------------------------------


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, session_environ: dict[str, str]) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [
        name
        for name in os.environ
        if name.startswith(("SUBMIT_TF_JOB_", "HADOOP_")) and "_TEST_" not in name
    ]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("nobody")
def test_the_same_call_here() -> None:
    assert run(where, "ho", times=2, job=TWO, local=True) == {
        "said": "hoho",
        "task": "worker-0",
        "peers": 2,
    }
    with pytest.raises(Unlucky, match="1 is too much") as caught:
        run(unlucky, 1, job=TWO, local=True)
    assert "in task worker-1" in str(caught.value.__cause__)
    with pytest.raises(JobFailed, match="status 5"):
        run(leaves, 5, job=ONE, local=True)


@pytest.mark.usefixtures("nobody")
def test_a_decorated_function() -> None:
    factor = 3

    @remote(**ONE)
    def triple(number: int) -> int:
        """Multiply."""
        return number * factor

    assert triple.local(14) == 42
    assert triple.__doc__ == "Multiply."


@pytest.mark.usefixtures("nobody")
def test_what_cannot_be_sent_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobFailed, match="cannot be sent back"):
        run(lambda: (item for item in "abc"), job=ONE, local=True)
    with pytest.raises(JobFailed, match="at most 16777216 are sent back"):
        run(lambda: bytes(17 * 1024 * 1024), job=ONE, local=True)
    with pytest.raises(UsageError, match="no command of its own"):
        run(where, "x", job={**ONE, "command": "true"}, local=True)
    monkeypatch.setattr("submit_tf_job.sdk.functions.sys.version_info", (3, 7))
    with pytest.raises(JobFailed, match=r"made by Python 3\.7"):
        run(where, "x", job=ONE, local=True)


@pytest.mark.parametrize(
    ("function", "name"),
    [(where, "where"), (lambda: None, "lambda"), (Unlucky, "unlucky"), (print, "print")],
    ids=["def", "lambda", "class", "builtin"],
)
def test_names_of_jobs(function: Any, name: str) -> None:
    assert functions._slug(function) == name
