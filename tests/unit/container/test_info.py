"""A task's identity, exit statuses, commands, and the messages between tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import child, contract, wire
from submit_tf_job.container.child import argv_of
from submit_tf_job.container.info import BootstrapProblem, Info, describe, exit_status

ROLES = {
    "chief": {"count": 1, "kind": "trains"},
    "my-worker": {"count": 2, "kind": "trains"},
    "ps": {"count": 1, "kind": "serves"},
}
TASK: dict[str, Any] = {
    "version": 1,
    "job": "mnist",
    "submission": "abc",
    "host_suffix": None,
    "ports": {"mode": "own-address"},
    "deciding": "chief",
    "cluster_roles": ["chief", "ps"],
    "roles": ROLES,
}


def who(
    instance: str | None = "my-worker-1",
    host: str = "my-worker-1.mnist.alice.sandbox.test",
    task: dict[str, Any] = TASK,
    **env: str,
) -> Info:
    found = {contract.ENV_HOSTNAME: host, **env}
    return Info(
        task, {**found, contract.ENV_INSTANCE: instance} if instance is not None else found, "/cwd"
    )


# --- identity -------------------------------------------------------------------------------------
def test_info_identity() -> None:
    info = who(NM_HOST="node7", CONTAINER_ID="container_e17_1700000000000_0042_01_000003")
    assert (info.role, info.index, info.name, info.decides) == (
        "my-worker",
        1,
        "my-worker-1",
        False,
    )
    assert info.host("chief-0") == "chief-0.mnist.alice.sandbox.test"
    assert (info.node, info.application()) == ("node7", "1700000000000_0042")
    assert (
        who(CONTAINER_ID="container_1700000000000_0042_01_000003").application()
        == "1700000000000_0042"
    )
    assert who().application() == ""


def test_info_identity_from_the_host_name() -> None:
    assert who(None).name == "my-worker-1"


def test_info_host_suffix_falls_back_to_the_description() -> None:
    assert who(host="", task={**TASK, "host_suffix": "Other.bob"}).host("ps-0") == "ps-0.other.bob"
    with pytest.raises(BootstrapProblem, match="the names of the other tasks are unknown"):
        who(host="").host("ps-0")


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        ("${COMPONENT_INSTANCE_NAME}", "is not a component instance name"),
        ("my-worker-2", "this container is my-worker-2, but the job has 2 of role 'my-worker'"),
        ("nobody-0", "the job has 0 of role 'nobody'"),
    ],
)
def test_invalid_identity(instance: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        who(instance)
    assert words in str(raised.value)


def test_info_refuses_another_version() -> None:
    with pytest.raises(ValueError, match="task description of version 2, this bootstrap reads 1"):
        who(task={**TASK, "version": 2})


def test_decides_only_task_0_of_the_deciding_role() -> None:
    task = {**TASK, "deciding": "w", "roles": {"w": {"count": 2, "kind": "trains"}}}
    assert (who("w-0", task=task).decides, who("w-1", task=task).decides) == (True, False)


def test_tf_config_of_names_and_of_addresses() -> None:
    info = who("ps-0")
    assert json.loads(info.tf_config()) == {
        "cluster": {
            "chief": ["chief-0.mnist.alice.sandbox.test:2222"],
            "ps": ["ps-0.mnist.alice.sandbox.test:2222"],
        },
        "task": {"type": "ps", "index": 0},
    }
    info.hosts, info.ports = {"chief-0": "10.0.0.1"}, {"ps-0": 2345}
    assert json.loads(info.tf_config())["cluster"] == {
        "chief": ["10.0.0.1:2222"],
        "ps": ["ps-0.mnist.alice.sandbox.test:2345"],
    }
    assert who().tf_config() == ""


def test_log_directory(tmp_path: Path) -> None:
    assert who(LOG_DIRS=f"{tmp_path},/b", LOG_DIR="/c").log_dir == str(tmp_path)
    assert who(LOG_DIR=str(tmp_path)).log_dir == str(tmp_path)
    assert who(LOG_DIRS="/no/such").log_dir == ""


# --- statuses -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "expected"), [(0, 0), (1, 1), (22, 95), (24, 95), (23, 23), (255, 255), (137, 137)]
)
def test_exit_status(status: int, expected: int) -> None:
    assert exit_status(status) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, (0, None, "exited", "my-worker-1 exited with status 0")),
        (3, (3, None, "exited", "my-worker-1 exited with status 3")),
        (-11, (139, 11, "killed", "my-worker-1 was killed by SIGSEGV")),
        (-9, (137, 9, "killed", "my-worker-1 was killed by SIGKILL (often a memory limit)")),
        (-50, (178, 50, "killed", "my-worker-1 was killed by signal 50")),
    ],
)
def test_describe(code: int, expected: tuple[int, int | None, str, str]) -> None:
    record = describe(who(), code)
    assert (record["status"], record["signal"], record["reason"], record["message"]) == expected


def test_argv() -> None:
    assert argv_of(["python", "a b"], "/nowhere") == ["python", "a b"]
    assert argv_of("a && b", None)[0].endswith("/bash")
    assert argv_of("a && b", None)[1:] == ["-o", "pipefail", "-c", "a && b"]


def test_argv_of_a_string_without_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    """In entry-point mode YARN itself needs no bash."""
    monkeypatch.setattr(child, "_works", lambda _shell: True)
    assert argv_of("a | b", "/nowhere") == ["/bin/sh", "-o", "pipefail", "-c", "a | b"]
    monkeypatch.setattr(child, "_works", lambda _shell: False)
    assert argv_of("a && b || c", "/nowhere") == ["/bin/sh", "-c", "a && b || c"]
    with pytest.raises(
        BootstrapProblem, match=r"does not report that a part of a pipeline failed; install bash"
    ) as caught:
        argv_of("a | b", "/nowhere")
    assert caught.value.status == 127


def test_works_with_and_without_pipefail(tmp_path: Path) -> None:
    assert child._works(["bash", "-o", "pipefail"])
    old = tmp_path / "sh"
    old.write_text('#!/bin/sh\n[ "$1" = -c ]\n')
    old.chmod(0o755)
    assert not child._works([str(old), "-o", "pipefail"])
    assert child._works([str(old)])


# --- the wire -------------------------------------------------------------------------------------
class FakeSocket:
    """Hands out the given pieces, takes at most `room` bytes at a time."""

    def __init__(self, pieces: Iterable[bytes] = (), room: int = 10) -> None:
        self.pieces, self.room, self.sent, self.full = list(pieces), room, b"", False

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv(self, _size: int) -> bytes:
        if not self.pieces:
            raise BlockingIOError
        return self.pieces.pop(0)

    def send(self, data: memoryview) -> int:
        if self.full:
            raise BlockingIOError
        self.full = True
        self.sent += bytes(data[: self.room])
        return min(self.room, len(data))


def channel(fake: FakeSocket) -> wire.Channel:
    return wire.Channel(cast(Any, fake), wire.LINE_LIMIT)


def everything(fake: FakeSocket) -> list[dict[str, Any]]:
    one, found = channel(fake), []
    while fake.pieces:
        found += one.receive()
    return found


NAMES = st.text(min_size=2).filter(lambda name: name != "kind")  # pack()'s own
VALUES = st.one_of(st.none(), st.integers(), st.text(), st.lists(st.floats(allow_nan=False)))
MESSAGES = st.lists(st.dictionaries(NAMES, VALUES), max_size=5)


@given(MESSAGES, st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_receive_joins_split_messages(messages: list[dict[str, Any]], cuts: list[int]) -> None:
    stream = b"".join(wire.pack("x", **m) for m in messages)
    pieces: list[bytes] = []
    while stream:
        cut = cuts[len(pieces) % len(cuts)]
        pieces.append(stream[:cut])
        stream = stream[cut:]
    assert everything(FakeSocket(pieces)) == [{**m, "t": "x"} for m in messages]


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"GET / HTTP/1.1\r\n"],
        [b"\xff\xfe\n"],
        [b"[]\n"],
        [b'{"t":1}\n'],
        [b"{}\n"],
        [b"\n"],
        [b"x" * 65536, b"x"],
        [b"{" * 65537 + b"\n"],
        [b"[" * 60000 + b"\n"],
    ],
    ids=range(10),
)
def test_receive_refuses_invalid_messages(pieces: list[bytes]) -> None:
    with pytest.raises(wire.ChannelClosed):
        everything(FakeSocket(pieces))


@given(st.binary(min_size=1, max_size=300))
def test_receive_raises_only_channel_closed_for_any_bytes(noise: bytes) -> None:
    try:
        everything(FakeSocket([noise, b"\n"]))
    except wire.ChannelClosed:
        return


def test_send_in_small_pieces() -> None:
    fake = FakeSocket()
    one = channel(fake)
    assert one.send(b"0123456789abcdef")
    assert one.send(b"!")
    for _ in range(3):
        fake.full = False
        one.send(b"")
    assert fake.sent == b"0123456789abcdef!"
    fake.full = False
    assert not one.send(b"")
