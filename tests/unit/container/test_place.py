"""The place where tasks find the deciding one; whole jobs are in tests/bootstrap/test_meeting."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container.data import webhdfs_client
from submit_tf_job.container.info import Info
from submit_tf_job.container.meeting import place
from tests.fakes.task_info import task_info
from tests.fakes.web_hdfs import WebNameNode


def info_of(
    tmp_path: Path, *addresses: str, mode: str = "host", dns: bool = False, count: int = 2
) -> Info:
    info = task_info(tmp_path)
    rule = {"protocol": "http", "addresses": list(addresses), "path": "/s", "user": "al"}
    assert isinstance(info.task, dict)
    info.task.update(meeting={**rule, "dns": dns}, ports={"mode": mode})
    info.by_place = not dns
    info.total = count
    return info


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> WebNameNode:
    """What every WebHDFS client of the test asks, without a socket."""
    made = WebNameNode()
    monkeypatch.setattr(webhdfs_client.WebHdfs, "_connect", lambda *_: made.connection())
    return made


def test_the_latest_entry_counts_and_others_are_removed(tmp_path: Path, node: WebNameNode) -> None:
    found = place.Place(info_of(tmp_path, "nn:9870"))
    assert found.find() == ""
    for address in ("10.0.0.9", "10.0.0.10"):
        found.announce(address)
        assert found.find() == address
    for name in ("9_10.0.0.3", "10_10.0.0.4", "notes", "x_1.2.3.4", "11_"):
        node.answer("PUT", f"/webhdfs/v1/s/abc/{name}?op=MKDIRS")
    assert found.find() == "10.0.0.4"
    found.announce("10.0.0.5")
    left = {path.rpartition("/")[2] for path in node.directories if path.count("/") == 3}
    assert left == {"11_10.0.0.5", "notes", "x_1.2.3.4", "11_"}


@pytest.mark.parametrize(
    ("addresses", "mode", "node", "found"),
    [
        (("127.0.0.1:9",), "own-address", "10.1.2.3", "127.0.0.1"),
        (("127.0.0.1:9",), "host", "10.1.2.3", "10.1.2.3"),
        (("127.0.0.1:9",), "host", "no.such.host.invalid", "127.0.0.1"),
        (("no.such.host.invalid:9", "127.0.0.1:9"), "own-address", "", "127.0.0.1"),
        (("no.such.host.invalid:9",), "own-address", "", ""),
    ],
)
def test_own_address_is_the_one_from_which_hdfs_is_reached(
    tmp_path: Path,
    addresses: tuple[str, ...],
    mode: str,
    node: str,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(name: str) -> str:
        if name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return name

    class Socket(contextlib.nullcontext[Any]):
        def __enter__(self) -> Any:
            return self

        def connect(self, address: tuple[str, int]) -> None:
            self.name = look_up(address[0])

        def getsockname(self) -> tuple[str, int]:
            return self.name, 1

    monkeypatch.setattr(socket, "gethostbyname", look_up)
    monkeypatch.setattr(socket, "socket", lambda *_: Socket())
    info = info_of(tmp_path, *addresses, mode=mode)
    info.node = node
    assert place.own_address(info) == found


def announced(tmp_path: Path, address: str) -> tuple[list[Any], list[float]]:
    told: list[Any] = []
    slept: list[float] = []
    announcer = place.Announcer(
        info_of(tmp_path, "nn:9870"), address, lambda *words: told.append(words)
    )
    announcer.run(slept.append)
    return told, slept


def test_a_refused_entry_is_given_up_after_some_tries(tmp_path: Path, node: WebNameNode) -> None:
    node.fault = (403, "AccessControlException")
    told, slept = announced(tmp_path, "10.0.0.9")
    assert [given_up for _, given_up in told] == [False] * (place.TRIES - 1) + [True]
    assert slept == [0.5, 1.0, 2.0]


def test_a_task_without_an_address_says_so(tmp_path: Path) -> None:
    told, _ = announced(tmp_path, "")
    assert told == [("this task has no address from which it reaches HDFS (nn:9870)", True)]


def test_the_last_address_counts_while_hdfs_does_not_answer(
    tmp_path: Path, node: WebNameNode
) -> None:
    finder = place.Finder(info_of(tmp_path, "nn:9870"), lambda call: call())
    assert finder.find("worker-0") is None
    assert finder.missing("worker-0") == "worker-0 has not written its address to /s/abc yet"
    finder.place.announce("10.0.0.9")
    assert finder.find("worker-0") == "10.0.0.9"
    node.fault = (403, "AccessControlException")
    assert finder.find("worker-0") == "10.0.0.9"
    assert "AccessControlException" in finder.missing("worker-0")


def test_many_tasks_spare_the_name_node(tmp_path: Path) -> None:
    finder = place.Finder(info_of(tmp_path, "nn:9870"), lambda call: call())
    pauses = [finder.longest_pause_s(total) for total in (2, 1000, 10_000)]
    assert pauses == [pytest.approx(0.505), 5.0, 30.0]
