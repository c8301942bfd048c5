"""Python packages for the containers, made on the submitting host by pip: wheels of requirements and projects, and one archive of many.

Everything is kept under the hash of what it was made of, so that the same requirements or sources are not resolved or built again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from submit_tf_job.specfile.digests import sha256_of

__all__ = ["HOST_VERSION", "NO_SOURCE", "PipFailed", "build", "bundle", "is_wheel", "needs", "resolve"]

HOST_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PIP_S = 1800
GLIBCS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35")
# https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
_WHEEL = re.compile(r"[\w.!+]+-[\w.!+]+(-\d[\w.]*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl")
# What a project's directory holds beside its sources.
NO_SOURCE = frozenset(
    ("__pycache__", ".git", ".venv", "venv", "build", "dist", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache")
)
_EPOCH = 315532800  # 1980-01-01, the first day of a zip file's time


class PipFailed(Exception):
    """What pip said, as the end of a message."""


def is_wheel(name: str) -> bool:
    """Say whether a file's name is that of a wheel."""
    return _WHEEL.fullmatch(name) is not None


def needs(name: str) -> str:
    """Return the one Python version that a wheel of this name runs on, as in 3.11; "" where it is not bound to one."""
    found = _WHEEL.fullmatch(name)
    version = re.fullmatch(r"cp(\d)(\d+)", found["python"]) if found and found["abi"] not in ("none", "abi3") else None
    return f"{version[1]}.{version[2]}" if version else ""


def build(project: Path, tree: Iterable[tuple[str, str]], cache: Path) -> Path:
    """Build the wheel of a project.

    Args:
        project: Its directory.
        tree: Names and hashes of its files: the same ones give the same wheel.
        cache: Where wheels are kept.

    Raises:
        PipFailed: It cannot be built.
    """
    made = _once(cache, ["project", HOST_VERSION, project.resolve().name, *(f"{name} {sha}" for name, sha in tree)])
    if not made.is_dir():
        with _making(made) as out:
            source = out.parent / "source"
            # setuptools leaves build directories in the tree that it builds, which is the user's.
            shutil.copytree(project, source, ignore=lambda _path, names: {name for name in names if name in NO_SOURCE})
            _pip("wheel", "--no-deps", "--wheel-dir", str(out), str(source), reproducible=True)
    return _wheels_in(made)[0]


def resolve(requirements: Path, version: str, cache: Path) -> list[Path]:
    """Get the wheels of a requirements file, with all that they depend on.

    Args:
        requirements: The file.
        version: The containers' Python, as in 3.11.
        cache: Where wheels are kept.

    Raises:
        PipFailed: They do not resolve, or (for another Python than this one) are not to be had as wheels.
        OSError: The file cannot be read.
    """
    made = _once(cache, ["requirements", version, platform.machine(), *_texts(requirements)])
    if not made.is_dir():
        with _making(made) as out:
            where = ["--requirement", str(requirements)]
            if version == HOST_VERSION:
                _pip("wheel", "--wheel-dir", str(out), *where, reproducible=True)
            else:
                _pip("download", "--dest", str(out), *_for_python(version), *where)
    return _wheels_in(made)


def bundle(wheels: Sequence[Path], cache: Path) -> Path:
    """Unpack wheels into one .tar.gz: `site` for PYTHONPATH, `bin` for PATH; the same wheels give the same bytes.

    Raises:
        PipFailed: A wheel is broken, or two of them hold different files of one name.
    """
    made = _once(cache, ["bundle", *(f"{path.name} {sha256_of(path)}" for path in wheels)])
    if not made.is_dir():
        with (
            _making(made) as out,
            (out / "packages.tar.gz").open("wb") as raw,
            gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed,  # level 1: a network is faster than gzip
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, wheel, member in _members(wheels):
                _add(tar, name, wheel, member)
    return made / "packages.tar.gz"


def _members(wheels: Sequence[Path]) -> Iterator[tuple[str, zipfile.ZipFile, zipfile.ZipInfo]]:
    seen: dict[str, tuple[int, str]] = {}
    for path in sorted(wheels, key=lambda item: item.name):
        try:
            with zipfile.ZipFile(path) as wheel:
                for member in sorted(wheel.infolist(), key=lambda item: item.filename):
                    name = "" if member.is_dir() else _place(member.filename)
                    if not name:
                        continue
                    earlier = seen.setdefault(name, (member.CRC, path.name))
                    if earlier[1] == path.name:
                        yield name, wheel, member
                    elif earlier[0] != member.CRC:
                        raise PipFailed(f"{earlier[1]} and {path.name} both hold {name}, and not the same; leave one out")
        except zipfile.BadZipFile as error:
            raise PipFailed(f"{path.name} is broken: {error}") from None


def _place(name: str) -> str:
    """Return where a wheel's file is installed (PEP 427), "" for what is not needed to run."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"site/{name}"
    scheme, _, inner = rest.partition("/")
    return {"purelib": f"site/{inner}", "platlib": f"site/{inner}", "scripts": f"bin/{inner}"}.get(scheme, "")


def _add(tar: tarfile.TarFile, name: str, wheel: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    info = tarfile.TarInfo(name)
    info.size = member.file_size
    info.mode = 0o755 if name.startswith("bin/") or (member.external_attr >> 16) & 0o100 else 0o644
    with wheel.open(member) as source:
        tar.addfile(info, source)


# --- pip ---


def _for_python(version: str) -> list[str]:
    machine = platform.machine()
    tags = [*(f"manylinux{glibc}_{machine}" for glibc in GLIBCS), f"linux_{machine}"]
    platforms = [argument for tag in tags for argument in ("--platform", tag)]
    return ["--only-binary", ":all:", "--implementation", "cp", "--python-version", version, *platforms]


def _pip(*arguments: str, reproducible: bool = False) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", *arguments]
    environment = {"SOURCE_DATE_EPOCH": str(_EPOCH)} if reproducible else {}
    try:
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PIP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PipFailed(f"pip was not done after {PIP_S // 60} minutes") from None
    if done.returncode:
        raise PipFailed(_words(done.stderr) or f"pip ended with status {done.returncode}")


def _words(stderr: str) -> str:
    """Return what pip says went wrong: its lines that begin with ERROR, each once."""
    if "No module named pip" in stderr:
        return "this Python has no pip; install it, or list wheels instead"
    errors = [line.removeprefix("ERROR:").strip() for line in stderr.splitlines() if line.lstrip().startswith(("ERROR:", "error:"))]
    found = list(dict.fromkeys(line for line in errors if line)) or [line.strip() for line in stderr.splitlines() if line.strip()][-3:]
    return f"pip says: {'; '.join(found)[:2000]}" if found else ""


# --- the cache ---


def _once(cache: Path, made_of: Iterable[str]) -> Path:
    return cache / hashlib.sha256(json.dumps(list(made_of)).encode()).hexdigest()[:32]


class _making:  # noqa: N801 - a context manager, used as a function
    """A directory that gets its name when it is whole, so that no other command finds half of it."""

    def __init__(self, made: Path) -> None:
        self._made = made

    def __enter__(self) -> Path:
        self._made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._room = Path(tempfile.mkdtemp(dir=self._made.parent, prefix=".making-"))
        (self._room / "out").mkdir()
        return self._room / "out"

    def __exit__(self, kind: object, _error: object, _traceback: object) -> None:
        if kind is None and not self._made.exists():
            (self._room / "out").rename(self._made)
        shutil.rmtree(self._room, ignore_errors=True)


def _wheels_in(directory: Path) -> list[Path]:
    found = sorted(directory.glob("*.whl"))
    if not found:
        raise PipFailed("pip made no wheel of it")
    return found


def _texts(requirements: Path, depth: int = 0) -> Iterator[str]:
    """Give the text of a requirements file, and of those that it takes in: what is resolved depends on all of them."""
    text = requirements.read_text("utf-8", errors="replace")
    yield text
    for line in text.splitlines():
        words = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        if depth < 10 and len(words) == 2 and words[0] in ("-r", "--requirement", "-c", "--constraint") and "://" not in words[1]:
            inner = requirements.parent / words[1]
            if inner.is_file():
                yield from _texts(inner, depth + 1)
