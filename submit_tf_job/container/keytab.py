"""Read keytabs in MIT's format, version 0x502 (krb5-doc, "Keytab file format").

Standard library only, Python 3.6 and later: this file travels with jobs that log in themselves.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Iterable, Iterator

MAGIC = b"\x05\x02"
LONGEST = 1 << 20  # a keytab of a thousand hosts has 100 kB
# Hadoop's placeholder for the host of the service (SecurityUtil.HOSTNAME_PATTERN)
HOST = "_HOST"
ENCRYPTION_TYPES = {
    1: "des-cbc-crc",
    2: "des-cbc-md4",
    3: "des-cbc-md5",
    16: "des3-cbc-sha1",
    17: "aes128-cts-hmac-sha1-96",
    18: "aes256-cts-hmac-sha1-96",
    19: "aes128-cts-hmac-sha256-128",
    20: "aes256-cts-hmac-sha384-192",
    23: "arcfour-hmac",
    25: "camellia128-cts-cmac",
    26: "camellia256-cts-cmac",
}
# removed from MIT Kerberos 1.18 (DES) and from Java 17's defaults
DEAD_TYPES = frozenset([1, 2, 3, 16])
# disabled in Java 17 and later, unless krb5.conf sets allow_weak_crypto
WEAK_TYPES = frozenset([23, 24])


class KeytabEntry(collections.namedtuple("KeytabEntry", "principal version made kind raw")):
    """One entry of a keytab.

    Attributes:
        principal: `svc/node1.example.com@EXAMPLE.COM`.
        version: The key version number (kvno).
        made: When the entry was written, in seconds since the epoch.
        kind: The number of the encryption type.
        raw: The entry's bytes including the key: used by `extract`, and never printed.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Entry({self.principal!r}, kvno {self.version}, {encryption(self.kind)})"


def encryption(kind: int) -> str:
    """Return MIT's name of an encryption type."""
    return ENCRYPTION_TYPES.get(kind, f"encryption type {kind}")


def read(content: bytes) -> list[KeytabEntry]:
    """Return all entries of a keytab.

    Raises:
        ValueError: The content is not a keytab, or truncated.
    """
    if content[:2] != MAGIC:
        raise ValueError("it is not a keytab of MIT's format (it does not begin with 05 02)")
    try:
        return [_parse_entry(raw) for raw in _raw_entries(content)]
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ValueError("it is a keytab that is cut off or damaged") from None


def _raw_entries(content: bytes) -> Iterator[bytes]:
    at = 2
    while at < len(content):
        (size,) = struct.unpack_from(">i", content, at)
        at += 4
        if size > 0:
            raw = content[at : at + size]
            if len(raw) < size:
                raise IndexError
            yield raw
        elif size == 0:
            return
        at += abs(size)  # a negative size is a hole left by a deleted entry


def _parse_entry(raw: bytes) -> KeytabEntry:
    (count,) = struct.unpack_from(">H", raw)
    at, words = 2, []
    for _ in range(count + 1):  # the realm comes first
        (size,) = struct.unpack_from(">H", raw, at)
        words.append(raw[at + 2 : at + 2 + size].decode("utf-8"))
        at += 2 + size
    _name_type, made, version, kind, size = struct.unpack_from(">IIBHH", raw, at)
    at += 13 + size
    if at > len(raw):
        raise IndexError
    if len(raw) - at >= 4:  # versions above 255 follow the key
        version = struct.unpack_from(">I", raw, at)[0] or version
    return KeytabEntry(f"{'/'.join(words[1:])}@{words[0]}", version, made, kind, raw)


def matches(principal: str, wanted: str) -> bool:
    """Return whether a principal matches the wanted one.

    `svc/_HOST@REALM` matches svc on any host; a name without a realm matches any realm.
    """
    name, _, realm = principal.rpartition("@")
    wanted_name, _, wanted_realm = wanted.partition("@")
    if wanted_realm and wanted_realm != realm:
        return False
    first, slash, host = wanted_name.partition("/")
    return name == wanted_name or (bool(slash) and host == HOST and name.startswith(first + "/"))


def extract(entries: Iterable[KeytabEntry], principal: str) -> bytes:
    """Return a keytab with the keys of one principal only."""
    return MAGIC + b"".join(
        struct.pack(">i", len(entry.raw)) + entry.raw
        for entry in entries
        if entry.principal == principal
    )


def find_problem(content: bytes, wanted: str) -> str:
    """Return why a keytab cannot be used for a principal; "" if it can be used."""
    try:
        entries = read(content)
    except ValueError as error:
        return str(error)
    mine = [entry for entry in entries if matches(entry.principal, wanted)]
    if not mine:
        held = ", ".join(sorted({entry.principal for entry in entries})[:5])
        if not held:
            return f"it holds no key of {wanted}: it is empty"
        return f"it holds no key of {wanted}, only of {held}"
    if all(entry.kind in DEAD_TYPES for entry in mine):
        text = "its keys of %s are of types that Kerberos no longer supports: %s"
        return text % (wanted, _encryption_names(mine))
    return ""


def weakness(content: bytes, wanted: str) -> str:
    """Return why some clients may refuse a keytab that others can use; "" if no client will.

    Raises:
        ValueError: The content is not a keytab.
    """
    mine = [entry for entry in read(content) if matches(entry.principal, wanted)]
    if mine and all(entry.kind in DEAD_TYPES | WEAK_TYPES for entry in mine):
        text = "its keys of %s are of weak types (%s), which Java 17 and later refuse"
        return text % (wanted, _encryption_names(mine))
    return ""


def _encryption_names(entries: Iterable[KeytabEntry]) -> str:
    return ", ".join(sorted({encryption(entry.kind) for entry in entries}))
