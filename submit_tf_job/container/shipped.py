"""Put the job's files into place: files that travel in tars, large files, archives, wheels and
packages.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterable
from typing import IO, Any

from submit_tf_job.container import contract
from submit_tf_job.container.info import BootstrapProblem, Info

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


def deliver(info: Info, tars: Iterable[str] = ()) -> None:
    """Write the files of `tars`, link this task's large files, and unpack its archives.

    Raises:
        BootstrapProblem: A file would be written outside of the working directory, or cannot be
            written; or an archive cannot be read.
    """
    mine: dict[str, Any] = info.task.get("files", {}).get("roles", {}).get(info.role, {})
    try:
        for path in tars:
            with open(path, "rb") as file:
                content: IO[bytes] = file
                if path.endswith(contract.INLINE_FILES):
                    content = io.BytesIO(zlib.decompress(base64.b64decode(file.read())))
                with tarfile.open(fileobj=content) as tar:
                    extract(tar, info.cwd)
        for name, place in mine.get("links", {}).items():
            link(os.path.join(info.cwd, name), os.path.join(info.cwd, place))
        for name, target in mine.get("unpack", {}).items():
            archive = os.path.join(info.cwd, name)
            unpack(archive, os.path.join(info.cwd, target))
            os.unlink(archive)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(info.cwd, contract.ARCHIVES_DIRECTORY))
    # RuntimeError: of zipfile, for a password, or what this Python lacks
    except (OSError, ValueError, EOFError, RuntimeError, zlib.error, tarfile.TarError) as err:
        raise BootstrapProblem(f"the job's files could not be unpacked: {err}") from err


def find_packages(info: Info, env: dict[str, str]) -> None:
    """Put the job's packages on Python's path, before the image's packages, and put their commands
    on PATH. A whole environment (conda, venv) is activated instead.

    Raises:
        BootstrapProblem: The packages were made for another version of Python than the image has.
        OSError: The packages' commands cannot be written.
    """
    own = os.path.join(info.cwd, contract.SITE_DIRECTORY)
    if os.path.isdir(own):
        _add_site(info.cwd, own, os.path.join(own, "bin"), env)
    mine = info.task["files"].get("roles", {}).get(info.role, {})
    packages = mine["packages"] if "packages" in mine else info.task["files"].get("packages")
    if not packages:
        return
    root = os.path.join(info.cwd, contract.PACKAGES_LINK)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
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
    _prepend_path(env, "PATH", os.path.join(root, "bin"))
    _prepend_path(env, "LD_LIBRARY_PATH", os.path.join(root, "lib"), last=True)
    env["VIRTUAL_ENV"] = env["CONDA_PREFIX"] = root


def _add_site(cwd: str, site: str, programs: str, env: dict[str, str]) -> None:
    """Add a directory of packages to Python's path, and its commands to PATH: a program is written
    here for each of the packages' `console_scripts`, as pip does.
    """
    import configparser  # as slow as zipfile

    _prepend_path(env, "PYTHONPATH", site)
    _prepend_path(env, "PATH", programs)
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
        _prepend_path(env, "PATH", made)


def _prepend_path(env: dict[str, str], name: str, path: str, last: bool = False) -> None:
    parts = [env.get(name, ""), path] if last else [path, env.get(name, "")]
    env[name] = os.pathsep.join(filter(None, parts))


# --- archives ---


def unpack(archive: str, target: str) -> None:
    """Unpack an archive into `target`. A zip file may contain no links.

    Raises:
        ValueError: A member would be written outside of `target`, or is of a type that is not
            unpacked; or the zip file is damaged.
        OSError, EOFError, zlib.error, tarfile.TarError: A file cannot be written, or the archive is
            damaged.
    """
    os.makedirs(target, exist_ok=True)
    lower = archive.lower()
    if lower.endswith((".zip", ".whl")):
        _unzip_archive(archive, target, wheel=lower.endswith(".whl"))
    else:
        with tarfile.open(archive) as found:
            extract(found, target, links=True)


def _unzip_archive(archive: str, target: str, wheel: bool) -> None:
    import zipfile  # some ms, and few jobs send one

    try:
        with zipfile.ZipFile(archive) as found:
            for member in found.infolist():
                name = _wheel_path(member.filename) if wheel else member.filename
                if not name or member.filename.endswith("/"):
                    continue
                mode = member.external_attr >> 16
                if stat.S_ISLNK(mode):
                    raise ValueError(f"{member.filename!r} is a symbolic link")
                with found.open(member) as source:
                    executable = mode & 0o100 or (wheel and name.startswith("bin/"))
                    write(source, inside(target, name), 0o755 if executable else 0o644)
    except zipfile.BadZipFile as err:
        raise ValueError(str(err)) from err


def _wheel_path(name: str) -> str:
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return name
    part, _, inner = rest.partition("/")
    return os.path.join(WHEEL_PARTS[part], inner) if part in WHEEL_PARTS else ""


def extract(tar: tarfile.TarFile, target: str, links: bool = False) -> None:
    """Unpack plain files and directories below `target`; unpack links only if the tar may contain
    them (`links`).

    Raises:
        ValueError: A member is of another type, or would be written outside of `target`.
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
                raise ValueError(f"{member.name!r} cannot be read")
            with source:
                write(source, path, (member.mode & 0o755) | 0o600)
        else:
            raise ValueError(f"{member.name!r} is not a plain file below the working directory")


def inside(target: str, name: str) -> str:
    """Return the path of a member of an archive below `target`. This guards against `..`, absolute
    names, and links that were unpacked before and lead outside.

    Raises:
        ValueError: The path is outside of `target`.
    """
    path = os.path.normpath(os.path.join(target, name))
    root = os.path.realpath(target)
    landed = root
    if path != os.path.normpath(target):
        landed = os.path.realpath(os.path.dirname(path))
    if os.path.isabs(name) or not (landed + os.sep).startswith(root.rstrip(os.sep) + os.sep):
        raise ValueError(f"{name!r} would land outside the working directory")
    return path


def link(path: str, target: str) -> None:
    """Make a symbolic link; it replaces what exists at `path`."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)


def write(source: IO[bytes], path: str, mode: int) -> None:
    """Copy `source` to a new file at `path`. What exists there is removed first; if it is a link,
    the file to which it leads is kept, because YARN's links point into its cache.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "xb") as sink:
        shutil.copyfileobj(source, sink, 1024 * 1024)
    os.chmod(path, mode)
