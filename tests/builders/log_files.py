"""Aggregated log files, as NodeManagers write them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")


def vint(number: int) -> bytes:
    """Write as org.apache.hadoop.io.file.tfile.Utils.writeVLong does."""
    if -32 <= number < 128:
        return struct.pack("b", number)
    for lowest, highest, base, more in ((-20, 19, -52, 1), (-16, 15, -88, 2), (-8, 7, -112, 3)):
        if lowest <= number >> (8 * more) <= highest:
            low = number & ((1 << (8 * more)) - 1)
            return struct.pack("b", (number >> (8 * more)) + base) + low.to_bytes(more, "big")
    size = next(n for n in range(4, 9) if -(1 << (8 * n - 1)) <= number < 1 << (8 * n - 1))
    return struct.pack("b", size - 129) + number.to_bytes(size, "big", signed=True)


def string(text: str) -> bytes:
    data = text.encode()
    return vint(len(data)) + data


def utf(text: str) -> bytes:
    data = b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
        for unit in struct.unpack(
            f"<{len(text.encode('utf-16-le', 'surrogatepass')) // 2}H",
            text.encode("utf-16-le", "surrogatepass"),
        )
    )
    return struct.pack(">H", len(data)) + data


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    *chunks, last = parts
    return b"".join(vint(-len(part)) + part for part in chunks) + vint(len(last)) + last


def record(key: str, value: bytes, *, chunk: int = 1_048_579) -> bytes:
    coded = utf(key)
    return vint(len(coded)) + coded + chunked(value, chunk)


def log(name: str, content: bytes, *, declared: int | None = None) -> bytes:
    return utf(name) + utf(str(len(content) if declared is None else declared)) + content


def reserved() -> list[bytes]:
    return [
        record("VERSION", b"\0\0\0\1"),
        record("APPLICATION_ACL", utf("VIEW_APP") + utf("*")),
        record("APPLICATION_OWNER", utf("alice")),
    ]


def write_tfile(
    blocks: Sequence[Sequence[bytes]], *, compression: str = "none", with_end: bool = True
) -> bytes:
    """Write a TFile of blocks of records, as TFile.Writer lays it out."""
    pack = zlib.compress if compression == "gz" else bytes
    out = bytearray(MAGIC)
    places = []
    for block in blocks:
        stored = pack(b"".join(block))
        places.append((len(out), len(stored), sum(map(len, block)), len(block)))
        out += stored
    if not with_end:
        return bytes(out)
    meta = []

    def part(name: str, data: bytes, how: str) -> None:
        stored = zlib.compress(data) if how == "gz" else data
        meta.append(
            string("data:" + name)
            + string(how)
            + vint(len(out))
            + vint(len(stored))
            + vint(len(data))
        )
        out.extend(stored)

    part(
        "TFile.meta",
        struct.pack(">hh", 1, 0) + vint(sum(place[3] for place in places)) + string(""),
        "none",
    )
    entries = [vint(2) + b"\0\0" + vint(place[3]) for place in places]
    part(
        "TFile.index",
        vint(2) + b"\0\0" + b"".join(vint(len(entry)) + entry for entry in entries),
        compression,
    )
    rows = b"".join(vint(start) + vint(stored) + vint(raw) for start, stored, raw, _ in places)
    part("BCFile.index", string(compression) + vint(len(places)) + rows, compression)
    at = len(out)
    out += vint(len(meta)) + b"".join(meta)
    return bytes(out) + struct.pack(">qhh", at, 1, 0) + MAGIC
