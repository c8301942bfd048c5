"""Deliver files that a plain tar does not cover: large files, archives, wheels, packages."""

from __future__ import annotations

import configparser
import contextlib
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import BootstrapProblem, Info
from submit_tf_job.container.tars import extract, inside, link, write

# PEP 427: install directories of the parts of NAME.data
WHEEL_PARTS = {"purelib": "", "platlib": "", "scripts": "bin"}

# sh starts Python, whose path may be too long for a line with #!; to Python the line is a text
COMMAND = """#!/bin/sh
'''exec' "%s" "$0" "$@"
' '''
import sys
from %s import %s
sys.exit(%s())
"""


def deliver(info: Info) -> None:
    """Link this task's large files, and unpack its archives.

    Raises:
        BootstrapProblem: The files cannot be written.
    """
    mine: dict[str, Any] = info.task["files"].get("roles", {}).get(info.role, {})
    try:
        for name, place in mine.get("links", {}).items():
            link(os.path.join(info.cwd, name), os.path.join(info.cwd, place))
        for name, target in mine.get("unpack", {}).items():
            archive = os.path.join(info.cwd, name)
            unpack(archive, os.path.join(info.cwd, target))
            os.unlink(archive)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(info.cwd, contract.ARCHIVES_DIRECTORY))
    except (OSError, ValueError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as err:
        raise BootstrapProblem("the job's files could not be unpacked: %s" % err) from err


def find_packages(info: Info, env: dict[str, str]) -> None:
    """Put the job's packages on Python's path, before those of the image, and their commands on
    PATH.

    Raises:
        BootstrapProblem: The packages are for another Python than the image's.
    """
    own = os.path.join(info.cwd, contract.SITE_DIRECTORY)
    if os.path.isdir(own):
        _add_site(info.cwd, own, os.path.join(own, "bin"), env)
    mine = info.task["files"].get("roles", {}).get(info.role, {})
    packages = mine["packages"] if "packages" in mine else info.task["files"].get("packages")
    if not packages:
        return
    root = os.path.join(info.cwd, contract.PACKAGES_LINK)
    here = "%d.%d" % sys.version_info[:2]
    if packages["version"] not in ("", here):
        text = "the job's packages are for Python %s, and this image's is %s; "
        text += 'write python: {version: "%s"}'
        raise BootstrapProblem(text % (packages["version"], here, here))
    if packages["kind"] == "site":
        _add_site(info.cwd, os.path.join(root, "site"), os.path.join(root, "bin"), env)
        return
    inner = os.listdir(root) if os.path.isdir(root) else []
    if "bin" not in inner and len(inner) == 1:
        root = os.path.join(root, inner[0])  # the archive holds one directory
    _prepend(env, "PATH", os.path.join(root, "bin"))
    _prepend(env, "LD_LIBRARY_PATH", os.path.join(root, "lib"), last=True)
    env["VIRTUAL_ENV"] = env["CONDA_PREFIX"] = root


def _add_site(cwd: str, site: str, programs: str, env: dict[str, str]) -> None:
    """Add a directory of packages, and their commands: one that is written here for each of their
    `console_scripts`, as pip does.
    """
    _prepend(env, "PYTHONPATH", site)
    _prepend(env, "PATH", programs)
    made = os.path.join(cwd, contract.COMMANDS_DIRECTORY)
    for name in sorted(os.listdir(site)) if os.path.isdir(site) else ():
        entries = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        entries.optionxform = str  # type: ignore[assignment, method-assign]
        if name.endswith(".dist-info"):
            with contextlib.suppress(configparser.Error, UnicodeDecodeError):
                entries.read(os.path.join(site, name, "entry_points.txt"), encoding="utf-8")
        if not entries.has_section("console_scripts"):
            continue
        for command, target in entries.items("console_scripts"):
            module, _, call = target.partition("[")[0].replace(" ", "").partition(":")
            path = os.path.join(made, os.path.basename(command))
            first = call.partition(".")[0]
            text = COMMAND % (sys.executable, module, first, call)
            os.makedirs(made, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o700)
    if os.path.isdir(made) and made not in env.get("PATH", "").split(os.pathsep):
        _prepend(env, "PATH", made)


def _prepend(env: dict[str, str], name: str, path: str, last: bool = False) -> None:
    parts = [env.get(name, ""), path] if last else [path, env.get(name, "")]
    env[name] = os.pathsep.join(filter(None, parts))


# --- archives ---


def unpack(archive: str, target: str) -> None:
    """Unpack an archive into `target`.

    Raises:
        ValueError: A member would be written outside of `target`.
    """
    os.makedirs(target, exist_ok=True)
    lower = archive.lower()
    if lower.endswith((".zip", ".whl")):
        _unzip(archive, target, wheel=lower.endswith(".whl"))
    else:
        with tarfile.open(archive) as found:
            extract(found, target, links=True)


def _unzip(archive: str, target: str, wheel: bool) -> None:
    with zipfile.ZipFile(archive) as found:
        for member in found.infolist():
            name = _wheel_path(member.filename) if wheel else member.filename
            if not name or member.filename.endswith("/"):
                continue
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise ValueError("%r is a symbolic link" % member.filename)
            with found.open(member) as source:
                executable = mode & 0o100 or (wheel and name.startswith("bin/"))
                write(source, inside(target, name), 0o755 if executable else 0o644)


def _wheel_path(name: str) -> str:
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return name
    part, _, inner = rest.partition("/")
    return os.path.join(WHEEL_PARTS[part], inner) if part in WHEEL_PARTS else ""
