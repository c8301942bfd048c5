"""Read HTTP/1.1 responses from a socket.

`http.client` can do that, but imports email and ssl, which takes a quarter of the time of a
hello-world typer application. This accepts and refuses the same (tests/hostile/test_transports.py).
"""

from __future__ import annotations

import socket

from submit_tf_job.yarn.deadlines import reader

__all__ = ["CutOffError", "NotHttpError", "Response"]

_LINE_MAX = 65536
_FIELDS_MAX = 100
_CHUNK_DIGITS_MAX = 16
# before the colon of a header field: anything but control characters and blanks (RFC 822)
_NAME_CHARS = frozenset(map(chr, range(0x21, 0x7F)))


class NotHttpError(Exception):
    """The server sent bytes that are not HTTP."""


class CutOffError(Exception):
    """The connection was closed before the end of the response."""

    def __init__(self) -> None:
        super().__init__("the response ended prematurely")


class Response:
    """A response whose header fields are read.

    Args:
        sock: The connection; the response's reads keep the limits set by `bound`.

    Attributes:
        headers: Header fields by lower-case name, several of one name joined by commas.
        at_end: Whether the body was read to its end.
        keeps_open: Whether the server expects further requests on the connection.

    Raises:
        ConnectionResetError: The server closed the connection without a response.
        NotHttpError: It responded with something else.
        OSError: The connection broke, or a time limit passed.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._file = reader(sock)
        self.at_end = False
        # bytes left of the body, or of the chunk; None if not known
        self._left: int | None = None
        try:
            self._read_head()
        except BaseException:
            self._file.close()
            raise

    def read(self, size: int) -> bytes:
        """Return the next bytes of the body, at most `size`; b"" at its end.

        Raises:
            CutOffError: The connection was closed before.
            NotHttpError: The length of a chunk is not a number.
            OSError: The connection broke, or a time limit passed.
        """
        if self._chunked and not self._left and not self.at_end:
            self._left = self._next_chunk()
        if self._left == 0:
            self.at_end = True
        if self.at_end:
            return b""
        data = self._file.read1(size if self._left is None else min(size, self._left))
        if self._left is not None:
            if not data:
                raise CutOffError
            self._left -= len(data)
        self.at_end = not data
        return data

    def close(self) -> None:
        """Close the response, not its connection."""
        self._file.close()

    def _read_head(self) -> None:
        version = self._read_status()
        while self.status == 100:
            self._read_fields()
            version = self._read_status()
        self.headers = self._read_fields()
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked:
            self._left = _length(self.headers.get("content-length", ""))
        if self.status in (204, 304) or self.status < 200:
            self._chunked, self._left = False, 0
        closes = "close" in self.headers.get("connection", "").lower()
        has_end = self._chunked or self._left is not None
        self.keeps_open = version != "HTTP/1.0" and has_end and not closes

    def _read_status(self) -> str:
        """Read the first line, and return its version."""
        line = self._line()
        if not line:
            raise ConnectionResetError("closed without a response")
        version, _, rest = line.strip().partition(" ")
        status, _, reason = rest.strip().partition(" ")
        if not version.startswith("HTTP/1.") or not (status.isdecimal() and len(status) == 3):
            raise NotHttpError(line)
        self.status, self.reason = int(status), reason.strip()
        if self.status < 100:
            raise NotHttpError(line)
        return version

    def _read_fields(self) -> dict[str, str]:
        """Read lines up to an empty one, and return the header fields in them.

        A line that is not a field ends them, as for Python's email package.
        """
        fields: list[list[str]] = []
        valid = True
        for _ in range(_FIELDS_MAX + 1):
            line = self._line()
            if line in ("\r\n", "\n", ""):
                return _joined(fields)
            name, colon, value = line.partition(":")
            if line[0] in " \t":
                if fields and valid:
                    fields[-1][1] += f" {line.strip()}"
                continue
            valid = valid and bool(colon) and set(name) <= _NAME_CHARS
            if valid and name:
                fields.append([name.lower(), value.strip()])
        raise NotHttpError("too many header fields")

    def _next_chunk(self) -> int:
        """Return the length of the next chunk; 0 at the end of the body."""
        if self._left is not None:
            self._end_chunk()
        line = self._line()
        if not line:
            raise CutOffError
        digits = line.partition(";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise NotHttpError(line) from None
        if not digits.isalnum() or len(digits) > _CHUNK_DIGITS_MAX:
            raise NotHttpError(line)
        if not size:
            self._read_fields()
        return size

    def _end_chunk(self) -> None:
        end = self._file.read(2)
        if len(end) < 2:
            raise CutOffError
        if end != b"\r\n":
            raise NotHttpError(repr(end))

    def _line(self) -> str:
        line = self._file.readline(_LINE_MAX + 1)
        if len(line) > _LINE_MAX:
            raise NotHttpError("a line is too long")
        return line.decode("latin-1")


def _length(text: str) -> int | None:
    """Return the announced length, None if there is no valid one."""
    lengths = {item.strip() for item in text.split(",")}
    if len(lengths) > 1:
        raise NotHttpError("two lengths")
    [only] = lengths
    if not only.isdecimal():
        return None
    return int(only)


def _joined(fields: list[list[str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in fields:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
