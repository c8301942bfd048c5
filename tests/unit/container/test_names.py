"""DNS queries and responses byte for byte, and the watch over names."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import names

QUESTION = b"\x08worker-0\x01j\x01u\x03lan\x00\x00\x01\x00\x01"
POINTER = b"\xc0\x0c"


def answer(*records: bytes, number: int = 7, flags: int = 0x8580) -> bytes:
    return (
        struct.pack(">HHHHHH", number, flags, 1, len(records), 0, 0) + QUESTION + b"".join(records)
    )


def record(kind: int, data: bytes, name: bytes = POINTER) -> bytes:
    return name + struct.pack(">HHIH", kind, 1, 1, len(data)) + data


A = record(1, b"\x0a\x00\x00\x07")


def test_encode_query() -> None:
    assert (
        names.encode_query(0x1234, "worker-0.j.u.lan")
        == b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + QUESTION
    )
    assert names.encode_query(0x1234, "worker-0.j.u.lan.")[12:] == QUESTION


def test_encode_query_refuses_an_empty_label() -> None:
    with pytest.raises(UnicodeError):
        names.encode_query(1, "a..b" + "x" * 70)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(answer(A), ["10.0.0.7"], id="one address"),
        pytest.param(
            answer(A, record(1, b"\x7f\x00\x00\x01")), ["10.0.0.7", "127.0.0.1"], id="two"
        ),
        pytest.param(answer(record(5, b"\x01x" + POINTER), A), ["10.0.0.7"], id="behind a CNAME"),
        pytest.param(
            answer(record(1, b"\x0a\x00\x00\x07", QUESTION[:-4])), ["10.0.0.7"], id="name spelt out"
        ),
        pytest.param(answer(record(28, b"\x00" * 16)), [], id="only IPv6"),
        pytest.param(answer(), [], id="no record"),
        pytest.param(answer(flags=0x8583), [], id="no such name"),
        pytest.param(answer(A, flags=0x8582), [], id="server failure"),
    ],
)
def test_decode_answer(data: bytes, expected: list[str]) -> None:
    assert names.decode_answer(7, data) == expected


@pytest.mark.parametrize(
    "data",
    [
        answer(A, number=8),
        answer(A, flags=0x0100),
        answer(A)[:-1],
        answer(A)[:20],
        b"",
        b"\x00\x07",
        answer(b"\xc0"),
    ],
    ids=repr,
)
def test_decode_answer_refuses_other_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"DNS answer|answer to question"):
        names.decode_answer(7, data)


@given(st.binary(max_size=200))
def test_decode_answer_of_any_bytes(data: bytes) -> None:
    for noise in (data, struct.pack(">HH", 7, 0x8580) + data):
        try:
            found = names.decode_answer(7, noise)
        except ValueError:
            continue
        assert all(len(address.split(".")) == 4 for address in found)


def test_system_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, *_args: object) -> list[tuple[object, ...]]:
        if name != "known":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert names.look_up(None, "known") == "10.0.0.7"
    assert names.look_up(None, "unknown") == ""


def test_look_up_distinguishes_absent_name_and_silent_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_args: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert names.look_up(None, "known") is None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(A), "10.0.0.7"),
        (answer(flags=0x8583), ""),
        (answer(), ""),
        (answer(flags=0x8582), None),
        (answer(flags=0x8585), None),
    ],
    ids=["address", "no such name", "no record", "server failure", "refused"],
)
def test_query_distinguishes_absent_name_and_failing_server(
    monkeypatch: pytest.MonkeyPatch, reply: bytes, expected: str | None
) -> None:
    class Server:
        def __init__(self, *_args: object) -> None: ...
        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_args: object) -> None: ...
        def connect(self, _address: object) -> None: ...
        def settimeout(self, _seconds: float) -> None: ...
        def send(self, question: bytes) -> None:
            self.number = question[:2]

        def recv(self, _most: int) -> bytes:
            return self.number + reply[2:]

    monkeypatch.setattr(socket, "socket", Server)
    assert names.query(("10.1.1.1", 53), "worker-0.j.u.lan") == expected


class Watched:
    """A watch of chief-0's names, and a DNS that knows all but `absent`."""

    def __init__(self, others: int = 2) -> None:
        self.watch = names.Watch("chief-0", 60.0)
        self.others = [f"worker-{i}" for i in range(others)]
        self.absent: set[str] = set()
        self.silent = False
        self.asked: list[str] = []
        self.now = 1000.0

    def after(self, seconds: float) -> list[str]:
        """Let time pass, a second at a time, and return what is gone."""
        for _ in range(int(seconds)):
            self.now += 1
            if self.watch.due(self.now):
                for name in self.watch.begin(self.now, self.others):
                    self.asked.append(name)
                    self.watch.add_result(
                        name, None if self.silent else "" if name in self.absent else "10.0.0.7"
                    )
        return self.watch.gone(self.now)


def test_watch_reports_names_that_stay_absent_for_a_minute() -> None:
    seen = Watched()
    assert seen.after(120) == []
    seen.absent = {"chief-0", "worker-0", "worker-1"}
    assert seen.after(55) == []
    assert set(seen.after(25)) == seen.absent


def test_watch_resets_when_names_return() -> None:
    seen = Watched()
    seen.absent = {"chief-0", "worker-0", "worker-1"}
    seen.after(50)
    seen.absent = set()
    seen.after(15)
    seen.absent = {"chief-0", "worker-0", "worker-1"}
    assert seen.after(50) == []


def test_watch_ignores_a_silent_server() -> None:
    seen = Watched()
    seen.silent = True
    assert seen.after(600) == []


@pytest.mark.parametrize("absent", [{"worker-0", "worker-1"}, {"chief-0"}], ids=["others", "own"])
def test_watch_ignores_that_some_names_are_absent(absent: set[str]) -> None:
    """A task that is being started again has no name for a while."""
    seen = Watched()
    seen.absent = absent
    assert seen.after(600) == []


def test_watch_queries_few_names_of_ten_thousand_tasks() -> None:
    seen = Watched(others=10_000)
    seen.after(600)
    assert len(seen.asked) <= 4 * (600 // 15)
    assert len(set(seen.asked)) > 100  # and not for the same ones each time


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("10.1.1.1", ("10.1.1.1", 53)),
        ("10.1.1.1:5353", ("10.1.1.1", 5353)),
        ("dns.example.com:53", ("dns.example.com", 53)),
    ],
)
def test_server(server: str, expected: tuple[str, int]) -> None:
    assert names.server_address(server) == expected
