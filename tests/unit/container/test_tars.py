"""Unpacking the tars of a job's files."""

from __future__ import annotations

import base64
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from submit_tf_job.container import contract, tars
from submit_tf_job.container.info import BootstrapProblem


def packed(
    *members: tuple[str, bytes, int], change: Callable[[tarfile.TarInfo], None] | None = None
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            if change:
                change(info)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpack(archive: bytes, cwd: str) -> None:
    """Unpack it as what is staged, and as what is inside the service."""
    with tempfile.TemporaryDirectory() as made:
        inline = Path(made) / contract.INLINE_FILES
        inline.write_bytes(base64.b64encode(zlib.compress(archive)))
        staged = Path(made) / contract.PAYLOAD_ARCHIVE
        staged.write_bytes(archive)
        for path in (inline, staged):
            tars.unpack(str(path), cwd)


def test_files_and_their_modes(tmp_path: Path) -> None:
    unpack(packed(("train.py", b"1", 0o644), ("a/b/run.sh", b"2", 0o755)), str(tmp_path))
    assert (tmp_path / "train.py").read_bytes() == b"1"
    assert (tmp_path / "a/b/run.sh").read_bytes() == b"2"
    assert os.access(tmp_path / "a/b/run.sh", os.X_OK)
    assert not os.access(tmp_path / "train.py", os.X_OK)


def test_unpack_replaces_a_link(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("YARN's")
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd/train.py").symlink_to(tmp_path / "cache")
    unpack(packed(("train.py", b"mine", 0o644)), str(tmp_path / "cwd"))
    assert (tmp_path / "cwd/train.py").read_bytes() == b"mine"
    assert (tmp_path / "cache").read_text() == "YARN's"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "link/evil"])
def test_nothing_lands_outside(tmp_path: Path, name: str) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "link").symlink_to(tmp_path)
    with pytest.raises(BootstrapProblem, match="the job's files could not be unpacked"):
        unpack(packed((name, b"x", 0o644)), str(cwd))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_unpack_refuses_special_files(tmp_path: Path, kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.size, info.linkname = kind, 0, "/etc/passwd"

    with pytest.raises(BootstrapProblem, match="is not a plain file below the working directory"):
        unpack(packed(("x", b"", 0o644), change=change), str(tmp_path))


@pytest.mark.parametrize(
    "archive", [b"", b"no tar at all", packed(("x", b"y" * 2000, 0o644))[:700]]
)
def test_unpack_refuses_a_broken_archive(tmp_path: Path, archive: bytes) -> None:
    with pytest.raises(BootstrapProblem) as raised:
        unpack(archive, str(tmp_path))
    assert raised.value.status == contract.EXIT_BOOTSTRAP_ERROR
