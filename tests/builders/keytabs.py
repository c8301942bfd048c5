"""Keytabs as MIT's ktutil writes them, with keys that are none."""

from __future__ import annotations

import base64
import struct

# ktutil of MIT Kerberos 1.20: two keys of svc/node1.example.com@EXAMPLE.COM (kvno 3), one of
# alice@EXAMPLE.COM (kvno 300).
RECORDED = base64.b64decode(
    "BQIAAABYAAIAC0VYQU1QTEUuQ09NAANzdmMAEW5vZGUxLmV4YW1wbGUuY29tAAAAAWsBzn0DABIAIIiax2o4Ea0i3I2+ShfT9+mWpy0jBwaruRBankqvISa7AAAAAwAAAEgA"
    "AgALRVhBTVBMRS5DT00AA3N2YwARbm9kZTEuZXhhbXBsZS5jb20AAAABawHOfQMAEQAQMrtKU0eKgxLUl4EnVP8/OgAAAAMAAABHAAEAC0VYQU1QTEUuQ09NAAVhbGljZQAA"
    "AAFrAc59LAAUACCL2RArN0DUzU7ouDZ16VB7h4ffUTmcqztpwTcNq/cPiAAAASw="
)


def keytab(*principals: str, kind: int = 18, key: bytes = b"\xaa" * 32, made: int = 10**9) -> bytes:
    """Write a keytab with one key for each principal."""
    return b"\x05\x02" + b"".join(_entry(principal, kind, key, made) for principal in principals)


def _entry(principal: str, kind: int, key: bytes, made: int) -> bytes:
    name, _, realm = principal.rpartition("@")
    words = [realm, *name.split("/")]
    raw = struct.pack(">H", len(words) - 1) + b"".join(
        struct.pack(">H", len(word)) + word.encode() for word in words
    )
    raw += struct.pack(">IIBHH", 1, made, 2, kind, len(key)) + key + struct.pack(">I", 2)
    return struct.pack(">i", len(raw)) + raw
