"""Unpack tars: those that the job's files travel in, and those among the files."""

from __future__ import annotations

import base64
import io
import os
import shutil
import tarfile
import zlib
from typing import IO

from submit_tf_job.container import contract
from submit_tf_job.container.info import BootstrapProblem


def unpack(archive: str, cwd: str) -> None:
    """Unpack a tar into `cwd`: plain files and directories below it only.

    Raises:
        BootstrapProblem: A member would be written elsewhere, or cannot be written.
    """
    try:
        with open(archive, "rb") as file:
            content: IO[bytes] = file
            if archive.endswith(contract.INLINE_FILES):
                content = io.BytesIO(zlib.decompress(base64.b64decode(file.read())))
            with tarfile.open(fileobj=content) as tar:
                extract(tar, cwd)
    except (OSError, tarfile.TarError, EOFError, ValueError, zlib.error) as err:
        raise BootstrapProblem("the job's files could not be unpacked: %s" % err) from err


def extract(tar: tarfile.TarFile, target: str, links: bool = False) -> None:
    """Unpack plain files and directories, and `links` if the tar may have some, below `target`.

    Raises:
        ValueError: A member is something else, or would land elsewhere.
    """
    for member in tar:
        path = inside(target, member.name)
        if member.isdir():
            os.makedirs(path, exist_ok=True)
        elif links and member.issym():
            inside(target, os.path.join(os.path.dirname(member.name), member.linkname))
            link(path, member.linkname)
        elif member.isfile() or (links and member.islnk()):
            if member.islnk():
                inside(target, member.linkname)
            source = tar.extractfile(member)
            if source is None:
                raise ValueError("%r cannot be read" % member.name)
            with source:
                write(source, path, (member.mode & 0o755) | 0o600)
        else:
            raise ValueError("%r is not a plain file below the working directory" % member.name)


def inside(target: str, name: str) -> str:
    """Return the path of a member.

    Raises:
        ValueError: It is outside of `target`.
    """
    path = os.path.normpath(os.path.join(target, name))
    root = os.path.realpath(target)
    landed = root
    if path != os.path.normpath(target):
        landed = os.path.realpath(os.path.dirname(path))
    if os.path.isabs(name) or not (landed + os.sep).startswith(root.rstrip(os.sep) + os.sep):
        raise ValueError("%r would land outside the working directory" % name)
    return path


def link(path: str, target: str) -> None:
    """Make a symbolic link, in place of what is there."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)


def write(source: IO[bytes], path: str, mode: int) -> None:
    """Write a file in place of what is there: YARN's links point into its cache."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "xb") as sink:
        shutil.copyfileobj(source, sink, 1024 * 1024)
    os.chmod(path, mode)
