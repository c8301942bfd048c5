"""Build Python packages for the containers, on the submitting host: wheels made by pip, and one
archive of them.

Each result is cached under the hash of its sources, so that the same requirements are not resolved
again, and the same sources are not built again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
import platform
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from submit_tf_job.container import untrusted
from submit_tf_job.host.user_files import read_input
from submit_tf_job.jobspec.file_contents import sha256_of

HOST_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PIP_S = 1800
MAX_INCLUDES = 10
GLIBCS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35")
# https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
_WHEEL = re.compile(
    r"[\w.!+]+-[\w.!+]+(-\d[\w.]*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl"
)
# What is no source at the top of a project; below it these are packages.
NO_SOURCE = ("/.venv", "/venv", "/build", "/dist")
# what is left out of a copy does not make its version a dirty one
_FORGET_DELETED = (
    'cd "$(git rev-parse --show-toplevel)" && '
    "git ls-files --deleted -z | git update-index -z --skip-worktree --stdin"
)
_FROM_GIT = re.compile(r"\b(setuptools.scm|\w+.vcs|versioneer|versioningit|dunamai|pbr|git)\b")
# https://pip.pypa.io/en/stable/reference/requirements-file-format/
_BEFORE_PATH = re.compile(r"(?:(?:-e|--editable)[\s=]*)?(?:[\w.-]+(?:\[[^]]*])?\s*@\s*)?")
_PATHS = (
    re.compile(r"(?:file:|[./])[^\s\[;]*"),
    re.compile(r"\S+/[^\s\[;]*"),
    re.compile(r"[^\s\[;]+\.(?:whl|zip|tar\.\w+|tgz)(?=[\[\s;]|$)"),
)
# the package of a line: before `@`, or in the name of a wheel
_NAME = re.compile(r"(?:^|/)(?=[^/]*\.whl)([\w.]+)-\d|^([\w.-]+)(?:\[[^]]*])?\s*@")
_AFTER_PATH = re.compile(r"(?:\[[^]]*])?(?:\s*;.*|\s.*)?")
_OPTION = re.compile(
    r"(?P<option>-[rcf]|--requirement|--constraint|--find-links)[\s=]*(?P<value>[^\s=]\S*)"
)
# where uv takes packages from that pip would look for on its index, under the same names
_SOURCES_OF_UV = re.compile(
    r"^\[tool\.uv\.sources\]\n(?P<rows>.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL
)
_SOURCE_OF_UV = re.compile(
    r"""^["']?(?P<name>[\w.-]+)["']? *= *(?:\{|\[ *\{)[^}]*\b(?:workspace|path|git|url) *=""",
    re.MULTILINE,
)
_EPOCH = 315532800  # 1980-01-01, the first day of a zip file's time


class PipFailed(Exception):
    """Packages cannot be resolved, built or put together; the text of the error is the end of a
    message.
    """


def is_wheel(name: str) -> bool:
    """Return whether a file's name is that of a wheel."""
    return _WHEEL.fullmatch(name) is not None


def needs(name: str) -> str:
    """Return the Python version that a wheel with this name requires, such as 3.11; "" for any
    version.
    """
    found = _WHEEL.fullmatch(name)
    version = (
        re.fullmatch(r"cp(\d)(\d+)", found["python"])
        if found and found["abi"] not in ("none", "abi3")
        else None
    )
    return f"{version[1]}.{version[2]}" if version else ""


def build(project: Path, tree: Iterable[tuple[str, str]], cache: Path) -> Path:
    """Build the wheel of a project with pip, or take it from the cache; return its path.

    Args:
        project: The project's directory.
        tree: Names and hashes of the project's files, which are the key for the cache.
        cache: The cache directory.

    Raises:
        PipFailed: The wheel cannot be built.
        OSError: A file cannot be read, or the cache cannot be written.
    """
    sources, history = list(tree), _git_version(project)
    made_of = ["project", HOST_VERSION, project.resolve().name, *history]
    made = _cache_path(cache, [*made_of, *(f"{name} {sha}" for name, sha in sources)])
    if not made.is_dir():
        with _made_directory(made) as out:
            # setuptools leaves build directories in the tree that it builds, which is the user's.
            source = _cloned_project(project, out.parent / "source") if history else None
            source = source or out.parent / "source"
            for name, _sha in sources:
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(project / name, source / name)
            if history:
                _run_command(["sh", "-c", _FORGET_DELETED], {}, source)
            wheel = ["wheel", "--no-deps", "--wheel-dir", str(out), str(source)]
            _run_pip(cache, *wheel, reproducible=True)
    return _wheels_in(made)[0]


def resolve(
    requirements: Path,
    version: str,
    base: Path,
    cache: Path,
    tree_of: Callable[[Path], Iterable[tuple[str, str]]],
) -> list[Path]:
    """Return the paths of the wheels of a requirements file and of its dependencies, made by pip or
    from the cache.

    Requirements that are paths are identified by the content at the path: projects are built first,
    and replaced by their wheels.

    Args:
        requirements: The file.
        version: The version of the containers' Python, such as 3.11.
        base: The directory at which relative paths in the file start.
        cache: The cache directory.
        tree_of: Returns names and hashes of the files of a project.

    Raises:
        PipFailed: The requirements cannot be resolved, or (for another Python version than this
            one) not with wheels alone.
        OSError: A file cannot be read, or the cache cannot be written.
    """
    lines, contents = [], []
    projects: list[tuple[Path, str, Path]] = []  # with their words in the file, and their wheels
    for line in _requirement_lines(requirements):
        built, content = _with_content(line, base, cache, tree_of, projects)
        lines.append(built)
        contents += content
    for project, named, wheel in projects:
        _refuse_sources_of_uv(project, named, wheel, _names_of_places(lines))
    made = _cache_path(cache, ["requirements", version, platform.machine(), *lines, *contents])
    if not made.is_dir():
        with _made_directory(made) as out:
            written = out.parent / "requirements.txt"
            written.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            where = ["--requirement", str(written)]
            if version == HOST_VERSION:
                _run_pip(
                    cache, "wheel", "--wheel-dir", str(out), *where, reproducible=True, at=base
                )
            else:
                _run_pip(
                    cache, "download", "--dest", str(out), *_for_python(version), *where, at=base
                )
    return _wheels_in(made)


def bundle(wheels: Sequence[Path], cache: Path) -> Path:
    """Return the path of a reproducible .tar.gz made from wheels, which may be in the cache
    already: its directory `site` is for PYTHONPATH, `bin` for PATH.

    Raises:
        PipFailed: A wheel is damaged, or two wheels contain different files with the same name.
        OSError: A wheel cannot be read, or the cache cannot be written.
    """
    made = _cache_path(cache, ["bundle", *(f"{path.name} {sha256_of(path)}" for path in wheels)])
    if not made.is_dir():
        with (
            _made_directory(made) as out,
            (out / "packages.tar.gz").open("wb") as raw,
            # level 1: a network is faster than gzip
            gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, wheel, member in _members_of_wheels(wheels):
                _add_member(tar, name, wheel, member)
    return made / "packages.tar.gz"


def _members_of_wheels(
    wheels: Sequence[Path],
) -> Iterator[tuple[str, zipfile.ZipFile, zipfile.ZipInfo]]:
    seen: dict[str, tuple[int, str]] = {}
    for path in sorted(wheels, key=lambda item: item.name):
        try:
            with zipfile.ZipFile(path) as wheel:
                for member in sorted(wheel.infolist(), key=lambda item: item.filename):
                    name = "" if member.is_dir() else _installed_path(member.filename)
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


def _installed_path(name: str) -> str:
    """Return the path at which a file of a wheel is installed (PEP 427); "" for files that are not
    needed to run.
    """
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"site/{name}"
    scheme, _, inner = rest.partition("/")
    return {"purelib": f"site/{inner}", "platlib": f"site/{inner}", "scripts": f"bin/{inner}"}.get(
        scheme, ""
    )


def _add_member(
    tar: tarfile.TarFile, name: str, wheel: zipfile.ZipFile, member: zipfile.ZipInfo
) -> None:
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


# `python -m pip` would import modules of the working directory, which may be a stranger's checkout
_PIP = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy; "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)


def _run_pip(
    cache: Path, *arguments: str, reproducible: bool = False, at: Path | None = None
) -> None:
    options = ["--disable-pip-version-check", "--no-input", "--no-color"]
    environment = {"SOURCE_DATE_EPOCH": str(_EPOCH)} if reproducible else {}
    done = _run_command(
        [_python_with_pip(cache), "-c", _PIP, *options, *arguments], environment, at
    )
    if done.returncode:
        said = _failed_build(done.stdout, done.stderr) or _error_lines(done.stderr)
        raise PipFailed(said or f"pip exited with status {done.returncode}")


def _python_with_pip(cache: Path) -> str:
    """Return the path of this Python. If it has no pip, as in environments made by uv, return that
    of a virtual environment with pip, which is created in the cache.

    Raises:
        PipFailed: The environment cannot be created.
    """
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    made = _cache_path(cache.parent, ["pip", sys.version, sys.base_prefix])
    if not (made / "bin" / "pip").exists():
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # not renamed when complete: an environment knows its path
        done = _run_command([sys.executable, "-m", "venv", str(made)], {}, made.parent)
        if done.returncode:
            shutil.rmtree(made, ignore_errors=True)
            raise PipFailed("this Python has no pip; install it, or list wheels instead")
    return str(made / "bin" / "python")


def _run_command(
    command: list[str], environment: dict[str, str], at: Path | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
            stdin=subprocess.DEVNULL,
            cwd=at,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PIP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PipFailed(f"pip was not done after {PIP_S // 60} minutes") from None


def _failed_build(stdout: str, stderr: str) -> str:
    """Return which package could not be built, and the end of what the build has printed; "" if pip
    did not fail in a build.
    """
    lines = [line.strip(" │|") for line in _last_block(stderr).splitlines()]
    if not any(lines):
        return ""
    named = re.findall(r"Failed building wheel for (\S+)|Failed to build '([^']+)'", stderr)
    started = re.findall(r"^ *(?:Collecting|Processing) (\S+)", stdout, re.MULTILINE)
    names = [posixpath.basename(name) for pair in named for name in pair if name] or started[-1:]
    name = next((name for name in names if not name.endswith("source")), "it")
    return f"pip cannot build {name}: {'; '.join([line for line in lines if line][-3:])[:2000]}"


def _last_block(stderr: str) -> str:
    for part in reversed(stderr.split("[end of output]")[:-1]):
        if found := re.search(r"\[\d+ lines? of output\]\n", part):
            return part[found.end() :]
    return ""


def _error_lines(stderr: str) -> str:
    """Return pip's error lines, each once; if there are none, its last three lines; "" if it has
    printed nothing.
    """
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


def _cache_path(cache: Path, made_of: Iterable[str]) -> Path:
    return cache / hashlib.sha256(json.dumps(list(made_of)).encode()).hexdigest()[:32]


@contextmanager
def _made_directory(made: Path) -> Iterator[Path]:
    """Yield a directory that is renamed when it is complete, so that no command uses an incomplete
    directory.
    """
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


def _requirement_lines(requirements: Path, depth: int = 0) -> Iterator[str]:
    """Yield the lines of a requirements file and of the files that it includes with `-r`. Paths of
    other files of this host become absolute.
    """
    text = read_input(requirements).decode("utf-8", errors="replace")
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        option = _OPTION.fullmatch(line)
        inner = requirements.parent / option["value"] if option else None
        if option is None or inner is None or not inner.exists():
            yield line
        elif option["option"] in ("-r", "--requirement") and depth < MAX_INCLUDES:
            yield from _requirement_lines(inner, depth + 1)
        else:
            yield f"{option['option']} {inner.absolute()}"


def _with_content(
    line: str,
    base: Path,
    cache: Path,
    tree_of: Callable[[Path], Iterable[tuple[str, str]]],
    projects: list[tuple[Path, str, Path]],
) -> tuple[str, list[str]]:
    """Return a line of requirements in which the path of a project is replaced by its wheel; also
    return texts that change with the content at other paths in the line. The project is added to
    `projects`.

    Raises:
        PipFailed: The project cannot be built, or itself requires a path.
        OSError: As `build`.
    """
    expanded = re.sub(r"\$\{[A-Z0-9_]+\}", lambda name: os.path.expandvars(name[0]), line)
    if option := _OPTION.fullmatch(expanded):
        return line, list(_content_hashes(Path(option["value"])))
    if repository := re.search(r"git\+(file:[^\s@#;]+)", expanded):
        return line, [_call_git("ls-remote", repository[1], at=base) or ""]
    found = _split_at_path(expanded)
    if found is None:
        return line, []
    before, named, after = found
    local = (
        unquote(untrusted.url_parts(named).path) or named if named.startswith("file:") else named
    )
    path = base / local
    if not path.is_dir():
        return line, list(_content_hashes(path))
    try:
        wheel = build(path, tree_of(path), cache)
    except PipFailed as error:
        raise PipFailed(f"{named}: {error}") from None
    projects.append((path, named, wheel))
    before = re.sub(r"^(-e|--editable)[\s=]*", "", before)
    if needed := _needs_by_path(wheel):
        raise PipFailed(
            f"{named} requires {needed}: name it there without its path, and list the path here"
        )
    return f"{before}{wheel.as_uri() if '@' in before else wheel}{after}", []


def _split_at_path(line: str) -> tuple[str, str, str] | None:
    """Split a requirement into the part before the path that it names, the path, and the part after
    it; None if it names no path.
    """
    before = _BEFORE_PATH.match(line)
    at = before.end() if before else 0
    for pattern in _PATHS:
        path = pattern.match(line, at)
        if path and _AFTER_PATH.fullmatch(line, path.end()):
            return line[:at], path[0], line[path.end() :]
    return None


def _content_hashes(path: Path) -> Iterator[str]:
    """Yield texts that change with the content at a path: the hash of a file; or name, size and
    modification time of each entry of a directory. Yield nothing if the path does not exist.
    """
    if path.is_file():
        yield sha256_of(path)
    elif path.is_dir():
        for file in sorted(path.iterdir()):
            status = file.stat()
            yield f"{file.name} {status.st_size} {status.st_mtime_ns}"


def _refuse_sources_of_uv(project: Path, named: str, wheel: Path, known: Collection[str]) -> None:
    """Refuse a project that needs a package which uv gets from a special source: pip would look for
    that package on its index, where another package may have the same name.

    Args:
        project: The project's directory.
        named: The words by which the requirements name the project.
        wheel: The project's wheel.
        known: The packages for which the requirements themselves state a place.
    """
    configured = project / "pyproject.toml"
    text = read_input(configured).decode("utf-8", "replace") if configured.is_file() else ""
    rows = _SOURCES_OF_UV.search(text)
    needed = {
        _normal_name(name)
        for name in re.findall(r"^Requires-Dist: *([\w.-]+)", _metadata_of(wheel), re.MULTILINE)
    }
    for name in _SOURCE_OF_UV.findall(rows["rows"]) if rows else ():
        if _normal_name(name) in needed and _normal_name(name) not in known:
            raise PipFailed(
                f"{named} takes {name} from the place in its tool.uv.sources, which pip does not "
                "read: name that place in the requirements, too"
            )


def _names_of_places(lines: Iterable[str]) -> set[str]:
    """Return the normalized names of the packages that lines of the requirements take from a URL
    or path (`name @ …`, or the path of a wheel) instead of an index.
    """
    found = (_NAME.search(line) for line in lines)
    return {_normal_name(name[1] or name[2]) for name in found if name}


def _normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _needs_by_path(wheel: Path) -> str:
    """Return a requirement of a wheel that is a path of this host; "" if there is none."""
    found = re.search(r"^Requires-Dist: (.*@ *file:\S*)", _metadata_of(wheel), re.MULTILINE)
    return found[1] if found else ""


def _metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("info/METADATA"))
        return archive.read(name).decode("utf-8", errors="replace")


# --- versions that come from git ---


def _git_version(project: Path) -> list[str]:
    """Return, in a list, the tag and commit (`git describe`) from which a project computes its
    version; [] if the project does not use git for that, or git fails.
    """
    texts = [
        read_input(project / name).decode("utf-8", errors="replace")
        for name in ("pyproject.toml", "setup.py", "setup.cfg")
        if (project / name).is_file()
    ]
    if not _FROM_GIT.search("\n".join(texts)):
        return []
    described = _call_git("describe", "--tags", "--always", "--long", "--dirty", at=project)
    return [described] if described else []


def _cloned_project(project: Path, copy: Path) -> Path | None:
    """Return the project's directory in a clone of its repository with the history, but without the
    files; None if the project is in no repository, or it cannot be cloned.
    """
    top = _call_git("rev-parse", "--show-toplevel", at=project)
    index = _call_git("rev-parse", "--path-format=absolute", "--git-path", "index", at=project)
    if not top or not index:
        return None
    if _call_git("clone", "--shared", "--no-checkout", "-q", top, str(copy), at=project) is None:
        return None
    shutil.copy2(index, copy / ".git" / "index")
    return copy / project.resolve().relative_to(Path(top).resolve())


def _call_git(*arguments: str, at: Path) -> str | None:
    """Return what git prints; None if git fails or is not installed."""
    done = _run_command(["git", "--no-optional-locks", "-C", str(at), *arguments], {})
    return done.stdout.strip("\n") if done.returncode == 0 else None
