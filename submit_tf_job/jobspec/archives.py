"""Read an archive before it is sent, to check whether a container can unpack it; the work is
limited by `ReadingBudget`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.reading_budget import ReadingBudget, TooMuch

ZIPS = (".zip", ".whl")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_PIECE = 256 * 1024
# Bounds of what other people's archives make these libraries hold in memory at once.
_LONGEST_HEADER = 1024**2  # of a tar member: its long name, its extended attributes
_LONGEST_LIST = 16 * 1024**2  # of a zip's members
_MOST_MISSING = 9  # reads at the end of a tar; tarfile itself goes on for its terabytes
_XZ_MEMORY = 256 * 1024**2  # xz -9 takes 65 MiB
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    # what these two modules raise for numbers and lists that are none
    ValueError,
    ArithmeticError,
    LookupError,
    RecursionError,
    struct.error,
)


def archive_kind(name: str) -> str:
    """Return "zip" or "tar", judged by a file's name; "" for other files."""
    lower = name.lower()
    if lower.endswith(ZIPS):
        return "zip"
    return "tar" if lower.endswith(TARS) else ""


def archive_problem(name: str, source: BinaryIO, *, links: bool, budget: ReadingBudget) -> str:
    """Return the first reason why an archive cannot be unpacked safely in a container; "" if there
    is none.

    Members and links outside of the target directory are refused. Only an archive without a problem
    is read as a whole.

    Args:
        name: The name of the archive's file.
        source: The archive's bytes.
        links: Whether symbolic links that lead out of a tar are refused, too. Hard links that do
            so, and all symbolic links of a zip, are refused in any case.
        budget: The limits for the work.

    Raises:
        UsageError: As `ReadingBudget.check`.
    """
    kind = archive_kind(name)
    if not kind:
        return (
            f"is not an archive that can be unpacked; its name must end in one of "
            f"{', '.join(ZIPS[:1] + TARS)}"
        )
    packed = _Packed(source, budget)
    try:
        return next(filter(None, _in_zip(packed) if kind == "zip" else _in_tar(packed, links)), "")
    except TooMuch as error:
        return str(error)
    except _DAMAGED as error:
        return f"is not a complete archive: {error}"
    except MemoryError:
        return "cannot be read as an archive: it takes too much memory"
    except OSError as error:  # gzip and bz2 raise OSErrors for damaged files, too
        return f"cannot be read as an archive: {error.strerror or error}"


class _Packed(io.RawIOBase):
    """The bytes of an archive; each read checks the limits of `budget`."""

    def __init__(self, source: BinaryIO, budget: ReadingBudget) -> None:
        self._source, self.budget = source, budget
        self.size, self._unpacked = source.seek(0, io.SEEK_END), 0
        source.seek(0)

    def read(self, size: int = -1) -> bytes:
        self.budget.check()
        if size > _LONGEST_LIST and self.budget.is_bounded:
            raise TooMuch(f"has lists of more than {_LONGEST_LIST // 1024**2} MiB")
        return self._source.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def unpacked(self, piece: bytes) -> bytes:
        """Count unpacked bytes, and return them.

        Raises:
            TooMuch: The archive, or all archives together, unpack to too many bytes.
        """
        self._unpacked += len(piece)
        self.budget.add_unpacked(len(piece), self._unpacked, self.size)
        return piece


# --- zip ---


def _in_zip(packed: _Packed) -> Iterator[str]:
    with zipfile.ZipFile(packed) as found:
        for info in found.infolist():
            packed.budget.add_member()
            if info.flag_bits & 0x1:
                yield f"is encrypted ({clip(info.filename)}), and a job knows no password"
            if stat.S_ISLNK(info.external_attr >> 16):
                yield (
                    f"holds the symbolic link {clip(info.filename)}, which zip files cannot be "
                    f"trusted with; use a tar"
                )
            # zipfile unpacks 4 KiB of another method at once, to any number of bytes
            plain = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if packed.budget.is_bounded and not plain:
                yield f"holds {clip(info.filename)}, which is not packed by deflate; pack it anew"
            yield from _problems_outside(info.filename)
        yield from (_damage_sentence(found, info, packed) for info in found.infolist())


def _damage_sentence(found: zipfile.ZipFile, info: zipfile.ZipInfo, packed: _Packed) -> str:
    try:
        with found.open(info) as member:
            while packed.unpacked(member.read(_PIECE)):
                pass
    except zipfile.BadZipFile:
        return f"is not a complete archive: {clip(info.filename)} is damaged"
    return ""


# --- tar ---


class _Member(tarfile.TarInfo):
    """A member of a tar whose extended headers must be short, because they are read into memory."""

    @classmethod
    def frombuf(cls, *arguments: Any, **options: Any) -> _Member:
        made: _Member = super().frombuf(*arguments, **options)
        if made.type in _EXTENDED and made.size > _LONGEST_HEADER:
            raise tarfile.ReadError("the header of a member is too long")
        return made


_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def _in_tar(packed: _Packed, links: bool) -> Iterator[str]:
    content: Any = _Content(packed)
    with tarfile.open(fileobj=content, mode="r|", bufsize=_PIECE, tarinfo=_Member) as found:
        for member in found:
            packed.budget.add_member()
            yield from _problems_outside(member.name)
            if member.issym():
                if not links:
                    continue
                yield from _problems_outside(
                    posixpath.join(posixpath.dirname(member.name), member.linkname),
                    f"the link {clip(member.name)} to ",
                )
            elif member.islnk():
                yield from _problems_outside(member.linkname, f"the link {clip(member.name)} to ")
            elif not (member.isfile() or member.isdir()):
                yield (
                    f"holds {clip(member.name)}, which is neither a file nor a directory nor a link"
                )


class _Content:
    """The unpacked bytes of a tar, counted while they are read, because tarfile itself unpacks
    without limits.
    """

    def __init__(self, packed: _Packed) -> None:
        self._packed, self._missing = packed, 0
        magic = packed.read(6)
        packed.seek(0)
        self._stream: Any = packed
        if magic.startswith(b"\x1f\x8b"):
            self._stream = gzip.GzipFile(fileobj=packed)
        elif magic.startswith(b"BZh"):
            self._stream = bz2.BZ2File(packed)
        elif magic.startswith((b"\xfd7zXZ\0", b"]\0\0")):
            self._stream = io.BufferedReader(_Xz(packed), _PIECE)

    def read(self, size: int) -> bytes:
        piece = self._packed.unpacked(self._stream.read(size))
        self._missing = 0 if piece else self._missing + 1
        if self._missing > _MOST_MISSING:
            raise EOFError("a member is longer than what is there")
        return piece


class _Xz(io.RawIOBase):
    """The content of an .xz or .lzma file, unpacked while it is read. `lzma.LZMAFile` is not used,
    because it does not limit the memory that unpacking takes; the file itself states how much.
    """

    def __init__(self, packed: _Packed) -> None:
        self._packed = packed
        self._unpacker = self._next_decompressor()

    def _next_decompressor(self) -> lzma.LZMADecompressor:
        bound = _XZ_MEMORY if self._packed.budget.is_bounded else None
        return lzma.LZMADecompressor(memlimit=bound)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            data = b""
            if self._unpacker.eof:  # several may follow one another, filled up with zeros
                data = self._unpacker.unused_data.lstrip(b"\0") or self._packed.read(_PIECE)
                self._unpacker = self._next_decompressor()
                if not data.strip(b"\0"):
                    return 0
            elif self._unpacker.needs_input:
                data = self._packed.read(_PIECE)
                if not data:
                    raise EOFError("it ends before its end")
            piece = self._unpacker.decompress(data, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)


def _problems_outside(name: str, what: str = "") -> Iterator[str]:
    """Yield a problem if a path leads out of the directory into which the archive is unpacked.

    Args:
        name: The path of a member, or of the target of a link.
        what: For a link, the words before its target in the message.
    """
    if name.startswith("/") or posixpath.normpath(name).split("/")[0] == "..":
        yield (
            f"holds {what}{clip(name)}, which leads out of the directory it is unpacked into; "
            f"pack it anew without"
        )
