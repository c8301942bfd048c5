"""A keytab in MIT's format, version 0x502 (krb5-doc, "Keytab file format"): whose keys it holds, never the keys themselves.

Standard library only, Python 3.7 and later: this very file travels with jobs that log in themselves.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAGIC = b"\x05\x02"
LONGEST = 1 << 20  # a keytab of a thousand hosts has 100 kB
HOST = "_HOST"  # Hadoop's word for the name of the host that the service runs on (SecurityUtil.HOSTNAME_PATTERN)
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
DEAD_TYPES = frozenset([1, 2, 3, 16])  # gone from MIT Kerberos 1.18 (DES) and from Java 17's defaults
WEAK_TYPES = frozenset([23, 24])  # off in Java 17 and later, unless krb5.conf says allow_weak_crypto


class Entry:
    """One key, without the key.

    Attributes:
        principal: `svc/node1.example.com@EXAMPLE.COM`.
        version: Its version number (kvno).
        made: When it was written, in seconds since the epoch.
        kind: Number of its encryption type.
        raw: The entry's bytes, the key included: for `only`, never for people.
    """

    __slots__ = ("kind", "made", "principal", "raw", "version")

    def __init__(self, principal: str, version: int, made: int, kind: int, raw: bytes) -> None:
        """Keep what was read."""
        self.principal, self.version, self.made, self.kind, self.raw = principal, version, made, kind, raw

    def __repr__(self) -> str:
        return f"Entry({self.principal!r}, kvno {self.version}, {encryption(self.kind)})"


def encryption(kind: int) -> str:
    """Name an encryption type as MIT does."""
    return ENCRYPTION_TYPES.get(kind, f"encryption type {kind}")


def read(content: bytes) -> list[Entry]:
    """Read all entries.

    Raises:
        ValueError: It is no keytab, or cut off.
    """
    if content[:2] != MAGIC:
        raise ValueError("it is no keytab of MIT's format (it does not begin with 05 02)")
    try:
        return [_entry(raw) for raw in _entries(content)]
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ValueError("it is a keytab that is cut off or damaged") from None


def _entries(content: bytes) -> Iterator[bytes]:
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
        at += abs(size)  # a negative size is a hole, where an entry was deleted


def _entry(raw: bytes) -> Entry:
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
    if len(raw) - at >= 4:  # versions above 255 stand behind the key
        version = struct.unpack_from(">I", raw, at)[0] or version
    return Entry("{}@{}".format("/".join(words[1:]), words[0]), version, made, kind, raw)


def matches(principal: str, wanted: str) -> bool:
    """Say whether a principal is the wanted one: `svc/_HOST@REALM` is svc on any host, without a realm any realm will do."""
    name, _, realm = principal.rpartition("@")
    wanted_name, _, wanted_realm = wanted.partition("@")
    if wanted_realm and wanted_realm != realm:
        return False
    first, slash, host = wanted_name.partition("/")
    return name == wanted_name or (bool(slash) and host == HOST and name.startswith(first + "/"))


def only(entries: Iterable[Entry], principal: str) -> bytes:
    """Write a keytab with the keys of one principal alone."""
    return MAGIC + b"".join(struct.pack(">i", len(entry.raw)) + entry.raw for entry in entries if entry.principal == principal)


def trouble(content: bytes, wanted: str) -> str:
    """Say what keeps a keytab from being used for a principal, "" where nothing does."""
    try:
        entries = read(content)
    except ValueError as error:
        return str(error)
    mine = [entry for entry in entries if matches(entry.principal, wanted)]
    if not mine:
        held = ", ".join(sorted({entry.principal for entry in entries})[:5])
        return "it holds no key of {}{}".format(wanted, f", only of {held}" if held else ": it is empty")
    if all(entry.kind in DEAD_TYPES for entry in mine):
        return f"its keys of {wanted} are of types that Kerberos has given up: {_kinds(mine)}"
    return ""


def weakness(content: bytes, wanted: str) -> str:
    """Say why a keytab that can be used may be refused by some, "" where it will not be."""
    mine = [entry for entry in read(content) if matches(entry.principal, wanted)]
    if mine and all(entry.kind in DEAD_TYPES | WEAK_TYPES for entry in mine):
        return f"its keys of {wanted} are of weak types ({_kinds(mine)}), which Java 17 and later refuse"
    return ""


def _kinds(entries: Iterable[Entry]) -> str:
    return ", ".join(sorted({encryption(entry.kind) for entry in entries}))
