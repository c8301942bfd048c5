"""DNS queries and responses byte for byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import dns_client

QUESTION = b"\x08worker-0\x01j\x01u\x03lan\x00\x00\x01\x00\x01"
POINTER = b"\xc0\x0c"


def answer(*records: bytes, number: int = 7, flags: int = 0x8580) -> bytes:
    head = struct.pack(">HHHHHH", number, flags, 1, len(records), 0, 0)
    return head + QUESTION + b"".join(records)


def record(kind: int, data: bytes, name: bytes = POINTER) -> bytes:
    return name + struct.pack(">HHIH", kind, 1, 1, len(data)) + data


HERE = b"\x0a\x00\x00\x07"
A = record(1, HERE)


def test_encode_query() -> None:
    head = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    assert dns_client.encode_query(0x1234, "worker-0.j.u.lan") == head + QUESTION
    assert dns_client.encode_query(0x1234, "worker-0.j.u.lan.")[12:] == QUESTION


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(answer(A), ["10.0.0.7"], id="one address"),
        pytest.param(answer(A, record(1, b"\x7f\x00\x00\x01")), ["10.0.0.7", "127.0.0.1"], id="2"),
        pytest.param(answer(record(5, b"\x01x" + POINTER), A), ["10.0.0.7"], id="behind a CNAME"),
        pytest.param(answer(record(1, HERE, QUESTION[:-4])), ["10.0.0.7"], id="name spelt out"),
        pytest.param(answer(record(28, b"\x00" * 16)), [], id="only IPv6"),
        pytest.param(answer(), [], id="no record"),
        pytest.param(answer(flags=0x8583), [], id="no such name"),
        pytest.param(answer(A, flags=0x8582), [], id="server failure"),
    ],
)
def test_decode_answer(data: bytes, expected: list[str]) -> None:
    assert dns_client.decode_answer(7, data) == expected


WRONG = [answer(A, number=8), answer(A, flags=0x0100), answer(A)[:-1], answer(A)[:20], b""]


@pytest.mark.parametrize("data", [*WRONG, b"\x00\x07", answer(b"\xc0")], ids=repr)
def test_decode_answer_refuses_other_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"DNS answer|answer to question"):
        dns_client.decode_answer(7, data)


@given(st.binary(max_size=200))
def test_decode_answer_of_any_bytes(data: bytes) -> None:
    for noise in (data, struct.pack(">HH", 7, 0x8580) + data):
        try:
            found = dns_client.decode_answer(7, noise)
        except ValueError:
            continue
        assert all(len(address.split(".")) == 4 for address in found)
