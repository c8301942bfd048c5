"""Decode Java's numbers and texts: DataOutput, TFile's integers, modified UTF-8."""

from __future__ import annotations

from collections.abc import Callable

from submit_tf_job.hadoop_logs.interfaces import Damaged

__all__ = ["MAX_KEY", "Fields", "modified_utf8"]

MAX_KEY = 64 * 1024
Read = Callable[[int], bytes]


def modified_utf8(data: bytes) -> str:
    """Decode `DataOutput.writeUTF`: NUL as two bytes, characters beyond 0xFFFF as two surrogates of
    three bytes each.
    """
    text = data.replace(b"\xc0\x80", b"\0").decode(
        "utf-8", "surrogatepass" if b"\xed" in data else "replace"
    )
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Fields:
    """Reader of consecutive fields.

    Args:
        read: Returns up to N bytes.
        damaged: Returns the error with a message.
    """

    def __init__(self, read: Read, damaged: Callable[[str], Damaged]) -> None:
        self._read = read
        self.damaged = damaged

    def exactly(self, length: int, *, limit: int = MAX_KEY) -> bytes:
        """Read `length` bytes, at most `limit`."""
        if not 0 <= length <= limit:
            raise self.damaged(f"a length of {length} where at most {limit} can be")
        data = self._read(length)
        if len(data) != length:
            raise self.damaged(f"it ends after {len(data)} of {length} bytes")
        return data

    def integer(self, size: int) -> int:
        """Read a signed big-endian number."""
        return int.from_bytes(self.exactly(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        """Read an unsigned big-endian number."""
        return int.from_bytes(self.exactly(size), "big")

    def vint(self) -> int:
        """Read a TFile integer (org.apache.hadoop.io.file.tfile.Utils.readVLong), which is not
        WritableUtils'.
        """
        first = self.integer(1)
        if first >= -32:
            return first
        for bottom, base, more in ((-72, 52, 1), (-104, 88, 2), (-120, 112, 3)):
            if first >= bottom:
                return (first + base) << (8 * more) | self.unsigned(more)
        return self.integer(first + 129)

    def count(self, limit: int) -> int:
        """Read a TFile integer from 0 to `limit`."""
        number = self.vint()
        if not 0 <= number <= limit:
            raise self.damaged(f"a count of {number} where at most {limit} can be")
        return number

    def string(self) -> str:
        """Read a TFile text (Utils.readString): length and UTF-8; -1 is null."""
        length = self.vint()
        return "" if length == -1 else self.exactly(length).decode("utf-8", "replace")

    def utf(self) -> str:
        """Read a text of `DataOutput.writeUTF`."""
        return self.decode(self.exactly(self.unsigned(2)))

    def decode(self, data: bytes) -> str:
        """Decode modified UTF-8."""
        try:
            return modified_utf8(data)
        except UnicodeError:
            raise self.damaged("a text is not modified UTF-8") from None
