"""Decoding of compressed response bodies, in pieces of a limited size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

__all__ = ["Unpacker"]


class Unpacker:
    """Decodes gzip, also of several members, and deflate, also without zlib's header, which some
    servers leave out.

    Args:
        encoding: `gzip` or `deflate`.
    """

    def __init__(self, encoding: str) -> None:
        self._gzip = encoding == "gzip"
        self._inflating: zlib._Decompress | None = None
        self._members = 0

    def pieces(self, data: bytes, size: int) -> Iterator[bytes]:
        """Decode the next bytes.

        Raises:
            zlib.error: They are not of this encoding.
        """
        while data:
            if self._inflating is None:
                self._inflating = zlib.decompressobj(self._window_bits(data[0]))
            try:
                piece = self._inflating.decompress(data, size)
            except zlib.error:
                if not self._members:
                    raise
                return  # padding after a member of gzip
            if piece:
                yield piece
            if not self._inflating.eof:
                data = self._inflating.unconsumed_tail
            elif self._gzip:
                data, self._inflating = self._inflating.unused_data, None
                self._members += 1
            else:
                return  # padding after deflate

    def end(self) -> bytes:
        """Return what is left, when all bytes have been decoded."""
        return b"" if self._inflating is None else self._inflating.flush()

    def _window_bits(self, first: int) -> int:
        if self._gzip:
            return zlib.MAX_WBITS | 16
        with_header = first & 0x0F == zlib.DEFLATED  # RFC 1950, CMF
        return zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS
