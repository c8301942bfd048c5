"""Check on the submitting host that a container can unpack an archive."""

from __future__ import annotations

import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from submit_tf_job.host.located.nodes import clip

ZIPS = (".zip", ".whl")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def kind(name: str) -> str:
    """Return "zip" or "tar" by a file's name; "" for other files."""
    lower = name.lower()
    if lower.endswith(ZIPS):
        return "zip"
    return "tar" if lower.endswith(TARS) else ""


def trouble(path: Path, *, links: bool = True) -> str:
    """Return why an archive cannot be unpacked in a container, "" if it can; read all of it.

    Args:
        path: The archive.
        links: Whether links out of it are refused, too.
    """
    if not kind(path.name):
        return (
            f"is not an archive that can be unpacked; its name must end in one of "
            f"{', '.join(ZIPS[:1] + TARS)}"
        )
    try:
        return next(_in_zip(path) if kind(path.name) == "zip" else _in_tar(path, links=links), "")
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
    ) as error:
        return f"is not a complete archive: {error}"
    except OSError as error:  # gzip and lzma raise OSErrors for damaged files, too
        return f"cannot be read as an archive: {error.strerror or error}"


def _in_zip(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as found:
        for info in found.infolist():
            if info.flag_bits & 0x1:
                yield f"is encrypted ({clip(info.filename)}), and a job knows no password"
            if stat.S_ISLNK(info.external_attr >> 16):
                yield (
                    f"holds the symbolic link {clip(info.filename)}, which zip files cannot be "
                    f"trusted with; use a tar"
                )
            yield from _outside(info.filename)
        bad = found.testzip()
        if bad is not None:
            yield f"is not a complete archive: {clip(bad)} is damaged"


def _in_tar(path: Path, *, links: bool) -> Iterator[str]:
    with tarfile.open(path) as found:
        for member in found:
            yield from _outside(member.name)
            if member.issym():
                if not links:
                    continue
                yield from _outside(
                    posixpath.join(posixpath.dirname(member.name), member.linkname),
                    f"the link {clip(member.name)} to ",
                )
            elif member.islnk():
                yield from _outside(member.linkname, f"the link {clip(member.name)} to ")
            elif not (member.isfile() or member.isdir()):
                yield (
                    f"holds {clip(member.name)}, which is neither a file nor a directory nor a link"
                )


def _outside(name: str, what: str = "") -> Iterator[str]:
    """Yield the problem of a member outside of the directory that the archive is unpacked into."""
    if name.startswith("/") or posixpath.normpath(name).split("/")[0] == "..":
        yield (
            f"holds {what}{clip(name)}, which leads out of the directory it is unpacked into; "
            f"pack it anew without"
        )
