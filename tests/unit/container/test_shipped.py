"""Delivery of large files, archives, wheels and packages in a container."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract, shipped
from submit_tf_job.container.info import BootstrapProblem, Info
from tests.unit.container.descriptions import description, role

HERE = "{}.{}".format(*sys.version_info[:2])


def info(cwd: Path, **files: Any) -> Info:
    task = description({"chief": role(1, "trains")}, files=files)
    return Info(task, {contract.ENV_INSTANCE: "chief-0"}, str(cwd))


def deliver(cwd: Path, **mine: Any) -> None:
    shipped.deliver(info(cwd, roles={"chief": mine}))


def a_tar(path: Path, *members: tuple[str, bytes | None, int, str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, mode, link in members:
            found = tarfile.TarInfo(name)
            found.type, found.mode, found.linkname = kind or tarfile.REGTYPE, mode, link
            tar.addfile(found)


def test_deliver_links_a_large_file(tmp_path: Path) -> None:
    (tmp_path / "tfjob-large-1").write_bytes(b"model")
    deliver(tmp_path, links={"models/big one.bin": "tfjob-large-1"})
    assert (tmp_path / "models" / "big one.bin").read_bytes() == b"model"
    assert (tmp_path / "models" / "big one.bin").is_symlink()


def test_deliver_unpacks_archives_with_links_and_modes(tmp_path: Path) -> None:
    name = f"{contract.ARCHIVES_DIRECTORY}/data.tar.gz"
    members = (
        ("a/ü", None, 0o640, ""),
        ("run", None, 0o755, ""),
        ("link", tarfile.SYMTYPE, 0o777, "a/ü"),
        ("hard", tarfile.LNKTYPE, 0o644, "a/ü"),
    )
    a_tar(tmp_path / name, *members)
    deliver(tmp_path, unpack={name: "data"})
    assert (tmp_path / "data" / "link").readlink() == Path("a/ü")
    modes = [(tmp_path / "data" / path).stat().st_mode & 0o777 for path in ("a/ü", "run")]
    assert modes == [0o640, 0o755]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", None, 0o644, ""),
        ("/tmp/evil", None, 0o644, ""),
        ("link", tarfile.SYMTYPE, 0o777, "../.."),
        ("link", tarfile.SYMTYPE, 0o777, "/etc/passwd"),
        ("hard", tarfile.LNKTYPE, 0o644, "../../etc/passwd"),
        ("pipe", tarfile.FIFOTYPE, 0o644, ""),
    ],
    ids=lambda member: f"{member[0]} {member[3]}",
)
def test_nothing_lands_outside(member: tuple[str, bytes | None, int, str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    a_tar(work / ".tfjob-archives" / "x.tar.gz", member)
    why = r"the job's files could not be unpacked: .*(would land outside|is not a plain file)"
    with pytest.raises(BootstrapProblem, match=why):
        deliver(work, unpack={".tfjob-archives/x.tar.gz": "data"})
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_a_link_that_is_followed_by_a_file_below_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "there").symlink_to(tmp_path)
    with zipfile.ZipFile(tmp_path / "work" / "x.zip", "w") as out:
        out.writestr("there/evil", b"")
    with pytest.raises(BootstrapProblem, match="would land outside"):
        deliver(tmp_path / "work", unpack={"x.zip": "."})


def test_deliver_unpacks_wheels_for_python(tmp_path: Path) -> None:
    name = f"{contract.ARCHIVES_DIRECTORY}/one-1.0-py3-none-any.whl"
    (tmp_path / contract.ARCHIVES_DIRECTORY).mkdir()
    with zipfile.ZipFile(tmp_path / name, "w") as out:
        for member in (
            "one/__init__.py",
            "one-1.0.data/purelib/two.py",
            "one-1.0.data/scripts/run",
            "one-1.0.data/data/share/x",
        ):
            out.writestr(member, "#!/bin/sh\n")
    deliver(tmp_path, unpack={name: contract.SITE_DIRECTORY})
    site = tmp_path / contract.SITE_DIRECTORY
    assert sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()) == [
        "bin/run",
        "one/__init__.py",
        "two.py",
    ]
    assert (site / "bin" / "run").stat().st_mode & 0o111
    env = {"PYTHONPATH": "/mine", "PATH": "/bin"}
    shipped.find_packages(info(tmp_path), env)
    assert env == {"PYTHONPATH": f"{site}:/mine", "PATH": f"{site}/bin:/bin"}


def test_find_packages_checks_the_python_version(tmp_path: Path) -> None:
    root = tmp_path / contract.PACKAGES_LINK
    env = {"PATH": "/bin"}
    shipped.find_packages(info(tmp_path, packages={"kind": "site", "version": HERE}), env)
    assert env == {"PYTHONPATH": f"{root}/site", "PATH": f"{root}/bin:/bin"}
    with pytest.raises(BootstrapProblem) as caught:
        shipped.find_packages(info(tmp_path, packages={"kind": "site", "version": "3.6"}), env)
    assert caught.value.message == (
        f"the job's packages are for Python 3.6, and this image's is {HERE}; write python: "
        f'{{version: "{HERE}"}}'
    )


@pytest.mark.parametrize("inner", ["", "env"])
def test_find_packages_with_an_environment(inner: str, tmp_path: Path) -> None:
    root = tmp_path / contract.PACKAGES_LINK / inner
    (root / "bin").mkdir(parents=True)
    env = {"PATH": "/bin", "LD_LIBRARY_PATH": "/cuda"}
    shipped.find_packages(info(tmp_path, packages={"kind": "environment", "version": ""}), env)
    assert env["PATH"].split(":")[0] == str(root / "bin").replace("/./", "/")
    assert env["LD_LIBRARY_PATH"] == f"/cuda:{root / 'lib'}"
    assert "PYTHONPATH" not in env


def test_find_packages_of_the_role_replace_those_of_the_job(tmp_path: Path) -> None:
    packages = {"kind": "site", "version": ""}
    env: dict[str, str] = {}
    without = info(tmp_path, packages=packages, roles={"chief": {"packages": None}})
    shipped.find_packages(without, env)
    assert env == {}
    shipped.find_packages(info(tmp_path, roles={"chief": {"packages": packages}}), env)
    assert env["PYTHONPATH"] == str(tmp_path / contract.PACKAGES_LINK / "site")
