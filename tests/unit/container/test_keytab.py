"""Keytabs as bytes; why one cannot be used: tests/unit/jobspec/test_kerberos_keys.py."""

from __future__ import annotations

import contextlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import keytab
from tests.builders.keytabs import RECORDED
from tests.builders.keytabs import keytab as made

SVC, ALICE = "svc/node1.example.com@EXAMPLE.COM", "alice@EXAMPLE.COM"


def test_read_a_keytab_of_ktutil() -> None:
    entries = keytab.read(RECORDED)
    assert [(one.principal, one.version, keytab.encryption(one.kind)) for one in entries] == [
        (SVC, 3, "aes256-cts-hmac-sha1-96"),
        (SVC, 3, "aes128-cts-hmac-sha1-96"),
        # kvno 300 does not fit into the one byte before the key
        (ALICE, 300, "aes256-cts-hmac-sha384-192"),
    ]
    assert entries[0].made == 1795280509
    assert "\\x" not in repr(entries)


def test_extract_one_principal() -> None:
    entries = keytab.read(RECORDED)
    assert [entry.principal for entry in keytab.read(keytab.extract(entries, ALICE))] == [ALICE]
    assert b"".join(keytab.extract(entries, name)[2:] for name in (SVC, ALICE)) == RECORDED[2:]


def test_read_with_holes_and_an_early_end() -> None:
    """`ktutil delent` leaves a hole of a negative size; a size of zero ends the file."""
    hole = struct.pack(">i", -7) + b"\xaa" * 7
    entry = made(ALICE)[2:]
    content = keytab.MAGIC + hole + entry + hole + entry + b"\0\0\0\0" + b"rest"
    assert [found.principal for found in keytab.read(content)] == [ALICE, ALICE]


def test_weakness_of_usable_keytabs() -> None:
    rc4 = made(SVC, kind=23)
    assert keytab.find_problem(rc4, SVC) == ""
    assert keytab.matches(SVC, "svc/_HOST")
    assert keytab.matches(SVC, "svc/node1.example.com")
    assert (
        keytab.weakness(rc4, SVC)
        == f"its keys of {SVC} are of weak types (arcfour-hmac), which Java 17 and later refuse"
    )
    assert keytab.weakness(rc4 + made(SVC, kind=18)[2:], SVC) == ""


@given(st.binary(max_size=200))
def test_read_refuses_any_other_bytes(content: bytes) -> None:
    for text in (content, keytab.MAGIC + content, RECORDED[: len(content)] + content):
        with contextlib.suppress(ValueError):  # and nothing else
            keytab.read(text)
