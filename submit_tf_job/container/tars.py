"""Unpack the tars of a job's files; imported by tasks that have one."""

from __future__ import annotations

import base64
import io
import os
import shutil
import tarfile
import zlib

from submit_tf_job.container import contract
from submit_tf_job.container.info import BootstrapProblem


def unpack(archive: str, cwd: str) -> None:
    """Unpack a tar into `cwd`: plain files and directories below it only.

    Raises:
        BootstrapProblem: A member would be written elsewhere, or cannot be written.
    """
    root = os.path.realpath(cwd)
    try:
        with _open_tar(archive) as tar:
            for member in tar:
                _unpack_member(tar, member, root)
    except (OSError, tarfile.TarError, EOFError, ValueError, zlib.error) as err:
        raise BootstrapProblem(
            contract.EXIT_BOOTSTRAP_ERROR,
            "bootstrap-error",
            "the job's files could not be unpacked: %s" % err,
        ) from err


def _open_tar(archive: str) -> tarfile.TarFile:
    if not archive.endswith(contract.INLINE_FILES):
        return tarfile.open(archive)
    with open(archive, "rb") as file:
        return tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(file.read()))))


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> None:
    target = os.path.join(root, member.name)
    folder = target if member.isdir() else os.path.dirname(target)
    if (
        os.path.isabs(member.name)
        or ".." in member.name.split("/")
        or not (member.isfile() or member.isdir())
    ):
        raise tarfile.TarError("%r is not a plain file below the working directory" % member.name)
    if not (os.path.realpath(folder) + os.sep).startswith(root.rstrip(os.sep) + os.sep):
        raise tarfile.TarError("%r would land outside the working directory" % member.name)
    os.makedirs(folder, exist_ok=True)
    source = tar.extractfile(member)
    if source is None:
        return
    if os.path.lexists(target):
        os.unlink(target)  # YARN's links point into its cache, which must not be written
    with source, open(target, "xb") as sink:
        shutil.copyfileobj(source, sink)
    os.chmod(target, (member.mode & 0o777) | 0o600)
