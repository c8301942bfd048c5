"""An error is the same through every interface: its status, its words, and whether to try again; in
Airflow: tests/airflow/inside.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.errors import (
    TABLE,
    InternalError,
    JobSpecError,
    Problem,
    SettingsError,
    SubmitTFJobError,
)
from tests.builders.command_line import Cli, Done
from tests.builders.host import hadoop_xml
from tests.world import RM, World, gateway
from tests.world.transport import Answer


def break_network(world: World, error: BaseException) -> None:
    """Let every request end so."""

    def send(*_given: object, **_named: object) -> Any:
        raise error

    world.cluster.connection.send = send  # type: ignore[method-assign]


def made(kind: type[SubmitTFJobError]) -> SubmitTFJobError:
    if kind is JobSpecError:
        return JobSpecError([Problem(3, 1, "roles", "it went wrong", "a.yaml")], hint="mend it")
    return kind("it went wrong", hint="mend it", details={"url": "http://rm", "status": 500})


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_error_is_the_same_in_every_interface(
    world: World, tmp_path: Path, kind: type[SubmitTFJobError]
) -> None:
    row, error = TABLE[kind], made(kind)
    break_network(world, error)

    # 1. The command line: an exit status, the sentence and the hint; with -o json an object.
    where = "a.yaml:3:1: roles" if kind is JobSpecError else "error"
    told = f"{where}: it went wrong\n  hint: mend it\n"
    assert world("list") == world("list", "-q") == Done(row.exit_status, "", told)
    more = "" if kind is JobSpecError else "  url: http://rm\n  status: 500\n"
    assert world("list", "-v").err == f"{told}{more}"
    found = json.loads(world("list", "-o", "json").err)
    assert found == {"kind": "Error", "format": 1, **error.to_json()}
    assert (found["code"], found["retryable"]) == (row.code, row.retryable)

    # 2. The gateway: a status and a problem, which says nothing of the gateway's own host.
    answer = gateway.World(tmp_path, fake=world.cluster).ask("GET", "/v1/jobs")
    detail = gateway.refused(answer, row.http_status, row.code)
    assert answer.json()["retryable"] is row.retryable
    assert ("retry-after" in answer.headers) is row.retryable
    assert ("it went wrong" in detail) is (kind not in (SettingsError, InternalError))

    # 3. Python: the exception itself.
    with pytest.raises(kind) as caught:
        submit_tf_job.Client(resource_managers=[RM]).jobs()
    assert caught.value is error


def test_a_defect_is_reported_as_one(world: World) -> None:
    break_network(world, ZeroDivisionError("division by zero"))
    told = (
        "error: a defect of submit_tf_job: ZeroDivisionError: division by zero\n"
        "  hint: please report it with the output of the same command with -v; your job is "
        "probably not affected\n"
    )
    assert world("list") == Done(70, "", told)
    done = world("list", "-v")
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert done.err.endswith(told)
    assert json.loads(world("list", "-o", "json").err)["code"] == "internal"


def test_an_interrupt_is_no_error_and_says_what_may_have_been_sent(world: World) -> None:
    world.submitted()
    world.cluster.clock.after(1, lambda: signal.raise_signal(signal.SIGTERM))
    done = world("stop", "mnist")
    assert (done.status, done.out) == (143, "")
    sent = "The request to stop mnist may have been sent; check with: submit_tf_job status mnist\n"
    assert done.err.endswith(f"\n{sent}")
    break_network(world, KeyboardInterrupt())
    assert world("list") == Done(130, "", "")
    assert world("stop", "mnist").err == f"\n{sent}"


DENIED = 'Permission denied: user=carol, access=WRITE, inode="/user/carol/.yarn/services"'


@pytest.mark.parametrize(
    ("words", "owner", "hint"),
    [
        (f"{DENIED}:hdfs:supergroup:drwxr-xr-x", "which is hdfs's (group supergroup, drwx", True),
        (f"{DENIED}:hdfs:supergroup:drwxrwx---+", "drwxrwx---+).", True),
        (DENIED, "to write /user/carol/.yarn/services.", False),
    ],
)
def test_a_denied_right_on_hdfs_names_the_owner(
    world: World, words: str, owner: str, *, hint: bool
) -> None:
    world.spec()
    told = {"diagnostics": words}
    world.fails(1, "POST", "/app/v1/services$", Answer.json(told, 403))
    done = world("submit", "mnist.yaml", "-d")
    assert (done.status, owner in done.err) == (4, True), done
    assert "HDFS denied carol the right to write /user/carol/.yarn/services" in done.err
    assert ("Let hdfs or an administrator give it to carol" in done.err) is hint


@pytest.mark.parametrize("address", ["http://0.0.0.0:8088", "http://[::]:8088"])
def test_an_address_of_every_machine_is_named_as_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def refuse(*_address: object, **_options: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setenv("SUBMIT_TF_JOB_TIMEOUTS_FAILOVER", "100ms")
    monkeypatch.setattr("urllib3.connection.connection.create_connection", refuse)
    done = cli("list", "--rm", address)
    assert (done.status, "0.0.0.0 is this machine; name the host" in done.err) == (7, True), done


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("a\rb\x07\x00", "a\\x0db\\x07\\x00"),
        ("a\tb", "a\tb"),
        ("ünï … 日本", "ünï … 日本"),
        ("\u202eevil\u200b\ud800", "\\x202eevil\\x200b\\xd800"),
    ],
)
def test_control_characters_are_escaped(world: World, text: str, shown: str) -> None:
    break_network(world, SubmitTFJobError(text, hint=text))
    assert world("list").err == f"error: {shown}\n  hint: {shown}\n"
    break_network(world, JobSpecError([Problem(1, 1, "a", text)]))
    assert world("list").err == f"line 1: a: {shown}\n"


def test_hadoop_conf_dir_without_a_cluster_is_not_replaced_by_the_sandbox(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = home / ".config/submit_tf_job/profiles.d/sandbox.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text(f"resource_managers: {RM}\nsandbox: true\n")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(home / "typo"))
    shown = cli("config", "show")
    assert (shown.status, shown.out.splitlines()[0]) == (0, "profile: (none)")
    done = cli("list")
    where = f"HADOOP_CONF_DIR: {home}/typo/yarn-site.xml"
    assert done.status == 2
    assert done.err.startswith(f"error: no ResourceManager is known: {where} is not there\n")
    (home / "typo").mkdir()
    (home / "typo/yarn-site.xml").write_text(hadoop_xml({"a": "b"}))
    assert f"{where} names none" in cli("list").err
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert cli("config", "show").out.startswith("profile: sandbox\n")
