"""Files that are more than a tar to unpack: links to large ones, archives, wheels, packages; travels only with jobs that have such."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from submit_tf_job.bootstrap.info import Info

WHEEL_PARTS = {"purelib": "", "platlib": "", "scripts": "bin"}  # PEP 427: where the parts of NAME.data are installed


def deliver(info: Info) -> None:
    """Put this task's large files and archives where the job wants them.

    Raises:
        Problem: They cannot be written.
    """
    mine: dict[str, Any] = info.task["files"].get("roles", {}).get(info.role, {})
    try:
        for name, link in mine.get("links", {}).items():
            _link(os.path.join(info.cwd, name), os.path.join(info.cwd, link))
        for name, target in mine.get("unpack", {}).items():
            archive = os.path.join(info.cwd, name)
            unpack(archive, os.path.join(info.cwd, target))
            os.unlink(archive)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(info.cwd, contract.ARCHIVES_DIRECTORY))
    except (OSError, ValueError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as err:
        raise Problem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", "the job's files could not be unpacked: %s" % err) from err


def find_packages(info: Info, env: dict[str, str]) -> None:
    """Let Python find the job's packages, before those of the image.

    Raises:
        Problem: They are for another Python than the image's.
    """
    own = os.path.join(info.cwd, contract.SITE_DIRECTORY)
    if os.path.isdir(own):
        _prepend(env, "PYTHONPATH", own)
        _prepend(env, "PATH", os.path.join(own, "bin"))
    packages = info.task["files"].get("packages")
    if not packages:
        return
    root = os.path.join(info.cwd, contract.PACKAGES_LINK)
    here = "%d.%d" % sys.version_info[:2]
    if packages["version"] not in ("", here):
        text = "the job's packages are for Python %s, and this image's is %s; " % (packages["version"], here)
        raise Problem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", text + 'say python: {version: "%s"}' % here)
    if packages["kind"] == "site":
        _prepend(env, "PYTHONPATH", os.path.join(root, "site"))
        _prepend(env, "PATH", os.path.join(root, "bin"))
        return
    inner = os.listdir(root) if os.path.isdir(root) else []
    if "bin" not in inner and len(inner) == 1:
        root = os.path.join(root, inner[0])  # the archive holds one directory
    _prepend(env, "PATH", os.path.join(root, "bin"))
    _prepend(env, "LD_LIBRARY_PATH", os.path.join(root, "lib"), last=True)
    env["VIRTUAL_ENV"] = env["CONDA_PREFIX"] = root


def _prepend(env: dict[str, str], name: str, path: str, last: bool = False) -> None:
    parts = [part for part in [env.get(name, "")] if part]
    env[name] = os.pathsep.join(parts + [path] if last else [path] + parts)


def _link(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)


# --- archives ---


def unpack(archive: str, target: str) -> None:
    """Unpack an archive: nothing lands outside of `target`.

    Raises:
        ValueError: A member would.
    """
    os.makedirs(target, exist_ok=True)
    lower = archive.lower()
    if lower.endswith((".zip", ".whl")):
        _unzip(archive, target, wheel=lower.endswith(".whl"))
    else:
        _untar(archive, target)


def _unzip(archive: str, target: str, wheel: bool) -> None:
    with zipfile.ZipFile(archive) as found:
        for member in found.infolist():
            name = _wheel_place(member.filename) if wheel else member.filename
            if not name or member.filename.endswith("/"):
                continue
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise ValueError("%r is a symbolic link" % member.filename)
            with found.open(member) as source:
                executable = mode & 0o100 or (wheel and name.startswith("bin/"))
                _write(source, _inside(target, name), 0o755 if executable else 0o644)


def _wheel_place(name: str) -> str:
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return name
    part, _, inner = rest.partition("/")
    return os.path.join(WHEEL_PARTS[part], inner) if part in WHEEL_PARTS else ""


def _untar(archive: str, target: str) -> None:
    with tarfile.open(archive) as found:
        for member in found:
            path = _inside(target, member.name)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
            elif member.issym():
                _inside(target, os.path.join(os.path.dirname(member.name), member.linkname))
                _link(path, member.linkname)
            elif member.isfile() or member.islnk():
                if member.islnk():
                    _inside(target, member.linkname)
                source = found.extractfile(member)
                if source is None:
                    raise ValueError("%r cannot be read" % member.name)
                with source:
                    _write(source, path, (member.mode & 0o755) | 0o600)
            else:
                raise ValueError("%r is no plain file" % member.name)


def _inside(target: str, name: str) -> str:
    """Return where a member lands."""
    path = os.path.normpath(os.path.join(target, name))
    root = os.path.realpath(target)
    landed = os.path.realpath(os.path.dirname(path)) if path != os.path.normpath(target) else root
    if os.path.isabs(name) or not (landed + os.sep).startswith(root.rstrip(os.sep) + os.sep):
        raise ValueError("%r would land outside the working directory" % name)
    return path


def _write(source: Any, path: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "xb") as sink:
        shutil.copyfileobj(source, sink, 1024 * 1024)
    os.chmod(path, mode)
