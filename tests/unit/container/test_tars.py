"""Unpacking the tars of a job's files."""

from __future__ import annotations

import base64
import io
import os
import tarfile
import tempfile
import zlib
from pathlib import Path

import pytest

from submit_tf_job.container import contract, shipped
from submit_tf_job.container.info import BootstrapProblem, Info
from tests.unit.container.descriptions import description, role

Member = tuple[str, bytes, int]


def packed(*members: Member, kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.mode, info.linkname = kind, len(content), mode, "/etc/passwd"
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpack(archive: bytes, cwd: str) -> None:
    """Unpack it as what is staged, and as what is inside the service."""
    task = description({"chief": role(1, "trains")})
    info = Info(task, {contract.ENV_INSTANCE: "chief-0"}, cwd)
    with tempfile.TemporaryDirectory() as made:
        inline = Path(made) / contract.INLINE_FILES
        inline.write_bytes(base64.b64encode(zlib.compress(archive)))
        staged = Path(made) / contract.PAYLOAD_ARCHIVE
        staged.write_bytes(archive)
        for path in (inline, staged):
            shipped.deliver(info, [str(path)])


def test_files_have_their_modes_and_replace_a_link(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("YARN's")
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd/train.py").symlink_to(tmp_path / "cache")
    archive = packed(("train.py", b"mine", 0o644), ("a/b/run.sh", b"2", 0o755))
    unpack(archive, str(tmp_path / "cwd"))
    assert (tmp_path / "cwd/train.py").read_bytes() == b"mine"
    assert (tmp_path / "cwd/a/b/run.sh").read_bytes() == b"2"
    assert os.access(tmp_path / "cwd/a/b/run.sh", os.X_OK)
    assert not os.access(tmp_path / "cwd/train.py", os.X_OK)
    assert (tmp_path / "cache").read_text() == "YARN's"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "link/evil"])
def test_nothing_lands_outside(tmp_path: Path, name: str) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "link").symlink_to(tmp_path)
    with pytest.raises(BootstrapProblem, match="the job's files could not be unpacked"):
        unpack(packed((name, b"x", 0o644)), str(cwd))
    assert not (tmp_path / "evil").exists()


BROKEN = (b"", b"no tar at all", packed(("x", b"y" * 2000, 0o644))[:700])
SPECIAL = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        *[(archive, "the job's files could not be unpacked") for archive in BROKEN],
        *[(packed(("x", b"", 0o644), kind=kind), "is not a plain file below") for kind in SPECIAL],
    ],
)
def test_unpack_refuses_anything_but_plain_files(tmp_path: Path, archive: bytes, why: str) -> None:
    with pytest.raises(BootstrapProblem, match=why) as raised:
        unpack(archive, str(tmp_path))
    assert raised.value.status == contract.EXIT_BOOTSTRAP_ERROR
