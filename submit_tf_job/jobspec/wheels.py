"""Build Python packages for the containers on the submitting host: wheels by pip, and one archive.

Each result is cached under the hash of its sources, so that the same requirements or sources are
not resolved or built again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
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
from contextlib import contextmanager
from pathlib import Path

from submit_tf_job.host.inputfile import read_input
from submit_tf_job.jobspec.file_contents import sha256_of

HOST_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PIP_S = 1800
GLIBCS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35")
# https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
_WHEEL = re.compile(
    r"[\w.!+]+-[\w.!+]+(-\d[\w.]*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl"
)
# Names in a project's directory that are not sources.
NO_SOURCE = frozenset(
    (
        "__pycache__",
        ".git",
        ".venv",
        "venv",
        "build",
        "dist",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    )
)
_EPOCH = 315532800  # 1980-01-01, the first day of a zip file's time


class PipFailed(Exception):
    """The error for a failed pip; its text is the end of a message."""


def is_wheel(name: str) -> bool:
    """Return whether a file's name is that of a wheel."""
    return _WHEEL.fullmatch(name) is not None


def needs(name: str) -> str:
    """Return the Python version that a wheel of this name requires, as in 3.11; "" for any."""
    found = _WHEEL.fullmatch(name)
    version = (
        re.fullmatch(r"cp(\d)(\d+)", found["python"])
        if found and found["abi"] not in ("none", "abi3")
        else None
    )
    return f"{version[1]}.{version[2]}" if version else ""


def build(project: Path, tree: Iterable[tuple[str, str]], cache: Path) -> Path:
    """Build the wheel of a project, or return it from the cache.

    Args:
        project: Its directory.
        tree: Names and hashes of its files, the cache's key.
        cache: The cache directory.

    Raises:
        PipFailed: The wheel cannot be built.
    """
    made = _once(
        cache,
        ["project", HOST_VERSION, project.resolve().name, *(f"{name} {sha}" for name, sha in tree)],
    )
    if not made.is_dir():
        with _making(made) as out:
            source = out.parent / "source"
            # setuptools leaves build directories in the tree that it builds, which is the user's.
            shutil.copytree(
                project,
                source,
                ignore=lambda _path, names: {name for name in names if name in NO_SOURCE},
            )
            _pip(
                cache, "wheel", "--no-deps", "--wheel-dir", str(out), str(source), reproducible=True
            )
    return _wheels_in(made)[0]


def resolve(requirements: Path, version: str, cache: Path) -> list[Path]:
    """Return the wheels of a requirements file and of its dependencies.

    Args:
        requirements: The file.
        version: The containers' Python, as in 3.11.
        cache: The cache directory.

    Raises:
        PipFailed: The requirements cannot be resolved, or (for another Python version than this
            one) not with wheels alone.
        OSError: The file cannot be read.
    """
    made = _once(cache, ["requirements", version, platform.machine(), *_texts(requirements)])
    if not made.is_dir():
        with _making(made) as out:
            where = ["--requirement", str(requirements)]
            if version == HOST_VERSION:
                _pip(cache, "wheel", "--wheel-dir", str(out), *where, reproducible=True)
            else:
                _pip(cache, "download", "--dest", str(out), *_for_python(version), *where)
    return _wheels_in(made)


def bundle(wheels: Sequence[Path], cache: Path) -> Path:
    """Return one reproducible .tar.gz of wheels: `site` for PYTHONPATH, `bin` for PATH.

    Raises:
        PipFailed: A wheel is damaged, or two wheels contain different files with the same name.
    """
    made = _once(cache, ["bundle", *(f"{path.name} {sha256_of(path)}" for path in wheels)])
    if not made.is_dir():
        with (
            _making(made) as out,
            (out / "packages.tar.gz").open("wb") as raw,
            # level 1: a network is faster than gzip
            gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed,
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
                    name = "" if member.is_dir() else _installed(member.filename)
                    if not name:
                        continue
                    earlier = seen.setdefault(name, (member.CRC, path.name))
                    if earlier[1] == path.name:
                        yield name, wheel, member
                    elif earlier[0] != member.CRC:
                        raise PipFailed(
                            f"{earlier[1]} and {path.name} both hold {name}, and not the "
                            f"same; leave one out"
                        )
        except zipfile.BadZipFile as error:
            raise PipFailed(f"{path.name} is broken: {error}") from None


def _installed(name: str) -> str:
    """Return where a wheel's file is installed (PEP 427); "" for files not needed to run."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"site/{name}"
    scheme, _, inner = rest.partition("/")
    return {"purelib": f"site/{inner}", "platlib": f"site/{inner}", "scripts": f"bin/{inner}"}.get(
        scheme, ""
    )


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
    return [
        "--only-binary",
        ":all:",
        "--implementation",
        "cp",
        "--python-version",
        version,
        *platforms,
    ]


def _pip(cache: Path, *arguments: str, reproducible: bool = False) -> None:
    options = ["--disable-pip-version-check", "--no-input", "--no-color"]
    environment = {"SOURCE_DATE_EPOCH": str(_EPOCH)} if reproducible else {}
    done = _run([_python_with_pip(cache), "-m", "pip", *options, *arguments], environment)
    if done.returncode:
        raise PipFailed(_complaint(done.stderr) or f"pip exited with status {done.returncode}")


def _python_with_pip(cache: Path) -> str:
    """Return this Python, or that of an environment with pip: environments of uv have none."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    made = _once(cache.parent, ["pip", sys.version, sys.base_prefix])
    if not (made / "bin" / "pip").exists():
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # not renamed when complete: an environment knows its path
        done = _run([sys.executable, "-m", "venv", str(made)], {})
        if done.returncode:
            shutil.rmtree(made, ignore_errors=True)
            raise PipFailed("this Python has no pip; install it, or list wheels instead")
    return str(made / "bin" / "python")


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
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


def _complaint(stderr: str) -> str:
    """Return pip's distinct error lines, else its last three lines."""
    errors = [
        line.removeprefix("ERROR:").strip()
        for line in stderr.splitlines()
        if line.lstrip().startswith(("ERROR:", "error:"))
    ]
    found = (
        list(dict.fromkeys(line for line in errors if line))
        or [line.strip() for line in stderr.splitlines() if line.strip()][-3:]
    )
    return f"pip says: {'; '.join(found)[:2000]}" if found else ""


# --- the cache ---


def _once(cache: Path, made_of: Iterable[str]) -> Path:
    return cache / hashlib.sha256(json.dumps(list(made_of)).encode()).hexdigest()[:32]


@contextmanager
def _making(made: Path) -> Iterator[Path]:
    """Yield a directory that is renamed when complete, so that no command uses a partial one."""
    made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".making-", dir=made.parent, ignore_cleanup_errors=True
    ) as working:
        out = Path(working) / "out"
        out.mkdir()
        yield out
        if not made.exists():
            out.rename(made)


def _wheels_in(directory: Path) -> list[Path]:
    found = sorted(directory.glob("*.whl"))
    if not found:
        raise PipFailed("pip made no wheel of it")
    return found


def _texts(requirements: Path, depth: int = 0) -> Iterator[str]:
    """Yield the text of a requirements file, and of the files that it includes."""
    text = read_input(requirements).decode("utf-8", errors="replace")
    yield text
    for line in text.splitlines():
        words = re.split(r"[\s=]+", line.strip(), maxsplit=1)
        if (
            depth < 10
            and len(words) == 2
            and words[0] in ("-r", "--requirement", "-c", "--constraint")
            and "://" not in words[1]
        ):
            inner = requirements.parent / words[1]
            if inner.is_file():
                yield from _texts(inner, depth + 1)
