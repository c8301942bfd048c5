"""What `files` of a job spec names on the submitting host: found and hashed at load time, in bounds, never held as a whole."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from submit_tf_job import contract
from submit_tf_job.job import HostFile, ShippedFile
from submit_tf_job.jobdata import PATTERN
from submit_tf_job.specfile.digests import Digests
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import SHIPPED

__all__ = ["HADOOP_FILES", "MAX_BYTES", "MAX_FILES", "MAX_LEVELS", "CannotShip", "Host", "Shipper", "shown_path"]

MAX_BYTES = 20 * 1024**3
MAX_FILES = 100_000
MAX_LEVELS = 50
# What may travel inside the service is held: nothing larger gets into its 60 KB, or the 1 MB where nothing can be staged.
HELD_FILE = 1024**2
HELD = 8 * 1024**2
HADOOP_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_LONGEST_NAME = 1024
_SKIPPED = frozenset(("__pycache__", ".git"))
_EXPECTED = "a path, a pattern, or {src: path, dst: name}"
_NO_HOST = "files of this host are not read here; put them on HDFS or into the image"


@dataclass(frozen=True)
class Host:
    """What a job spec may find on this host.

    Attributes:
        base: The directory that relative paths start from; None where no file of this host may be read (a gateway's callers).
        hadoop_conf: The Hadoop configuration directory, for `hadoop.conf: inline`.
        krb5_conf: The files that are krb5.conf here, in the order of their weight.
        cache: Where hashes are remembered and packages are made; None for nowhere.
    """

    base: Path | None = None
    hadoop_conf: Path | None = None
    krb5_conf: tuple[Path, ...] = ()
    cache: Path | None = None


class CannotShip(Exception):
    """Why a file cannot travel, as the end of a message."""


@dataclass(frozen=True)
class _Entry:
    """One entry of `files`: the path on this host, and the name in the task's working directory.

    Attributes:
        name: "." for a directory's content itself; "" where it follows from the path.
    """

    src: str
    name: str = ""
    unpack: bool = False


@dataclass
class Shipper:
    """Reads or hashes each file once, and keeps what travels in bounds."""

    host: Host
    _held: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _bytes: int = 0
    _bytes_held: int = 0

    def __post_init__(self) -> None:
        """Open what is remembered of this directory."""
        cache = self.host.cache / "hashes" if self.host.cache else None
        self.digests = Digests(cache, self.host.base or Path())

    def ship(self, value: Value) -> list[ShippedFile] | None:
        """Find what one entry of `files` names: a file, all files under a directory or of a pattern, an archive, a project, wheels."""
        section = value.section(SHIPPED, _EXPECTED) if value.is_mapping else None
        if value.is_mapping and section is None:
            return None
        if section is not None and (section.has("project") or section.has("wheels")):
            return self._python(value, section)
        asked = _entry(value, section)
        if asked is None:
            return None
        if self.host.base is None:
            return value.fail(_NO_HOST)
        try:
            return list(self._found(asked, self.host.base))
        except CannotShip as error:
            return value.fail(f"{clip(asked.src)}: {error}")

    def find(self, value: Value) -> HostFile | None:
        """Describe the one file that a value names."""
        src = value.text(expected="a path")
        if src is None or not _is_path(value, src):
            return None
        if self.host.base is None:
            return value.fail(_NO_HOST)
        try:
            with shown_path(src, self.host.base / src):
                return self.described(self.host.base / src)
        except CannotShip as error:
            return value.fail(f"{clip(src)}: {error}")

    # --- a Python project, wheels ---

    def _python(self, value: Value, section: Section) -> list[ShippedFile] | None:
        if len(section.keys) > 1:
            return value.fail("a project or wheels are unpacked where Python finds them; they stand alone, without src, dst and unpack")
        found = self.project(section) if section.has("project") else self.wheels(section)
        return None if found is None else [self._archive(file, contract.SITE_DIRECTORY) for file in found]

    def wheels(self, section: Section) -> list[HostFile] | None:
        """Find the wheels that the key `wheels` lists."""
        listed = section.get("wheels")
        items = listed.items("a list of wheels, as in [dist/*.whl]") if listed else ()
        if listed is not None and listed.is_list and not items:
            return listed.fail("the list is empty; name a wheel, as in [dist/*.whl]")
        found = [self._wheels_of(item) for item in items]
        return None if not found or None in found else [file for some in found for file in some or ()]

    def _wheels_of(self, value: Value) -> list[HostFile] | None:
        src = value.text(expected="the path of a wheel")
        if src is None or not _is_path(value, src):
            return None
        if self.host.base is None:
            return value.fail(_NO_HOST)
        try:
            return [self._wheel(self.host.base / match) for match in _matches(src, self.host.base)]
        except CannotShip as error:
            return value.fail(f"{clip(src)}: {error}")

    def _wheel(self, path: Path) -> HostFile:
        from submit_tf_job.specfile import wheels

        with shown_path(str(path), path):
            file = self.described(path)
        if not wheels.is_wheel(path.name):
            raise CannotShip("is no wheel; its name must end in -<python>-<abi>-<platform>.whl")
        self.check(file)
        return file

    def project(self, section: Section) -> list[HostFile] | None:
        """Build the wheel of the Python project that the key `project` names, or take the one that was built of the same files."""
        value = section.get("project")
        src = value.text(expected="the path of a Python project") if value else None
        if value is None or src is None or not _is_path(value, src):
            return None
        if self.host.base is None:
            return value.fail(_NO_HOST)
        from submit_tf_job.specfile import wheels  # only here: zipfile and subprocess would cost every start

        path = self.host.base / src
        if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
            return value.fail(f"{clip(src)} holds neither pyproject.toml nor setup.py; to ship plain modules write the path alone")
        if self.host.cache is None:
            return value.fail("there is no cache directory to build it in")
        try:
            with shown_path(src, path):
                tree = list(self._directory(os.fspath(path), os.path.realpath(path), "", (), wheels.NO_SOURCE))
            built = wheels.build(path, [(file.name, file.sha256) for file in tree], self.host.cache / "python")
            return [self._wheel(built)]
        except (CannotShip, wheels.PipFailed) as error:
            return value.fail(f"{clip(src)}: {error}")

    # --- files ---

    def _found(self, asked: _Entry, base: Path) -> Iterator[ShippedFile]:
        if not PATTERN.search(asked.src) or os.path.lexists(base / asked.src):
            yield from self._files(asked, base / asked.src, asked.name or _own_name(asked.src))
            return
        fixed = posixpath.dirname(PATTERN.split(asked.src, maxsplit=1)[0])
        above = "" if fixed.startswith(("/", "..")) else fixed
        for match in _matches(asked.src, base):
            inner = posixpath.relpath(match, fixed or ".")
            name = posixpath.normpath(posixpath.join(asked.name or above, inner))
            yield from self._files(_Entry(match, name, asked.unpack), base / match, asked.name if asked.unpack else name)

    def _files(self, asked: _Entry, path: Path, name: str) -> Iterator[ShippedFile]:
        with shown_path(asked.src, path):
            is_directory = path.is_dir()
            if is_directory and not asked.unpack:
                found = list(self._directory(os.fspath(path), os.path.realpath(path), "" if name == "." else name + "/", ()))
                if not found:
                    raise CannotShip("the directory holds no file")
                yield from found
                return
            if asked.unpack:
                if is_directory:
                    raise CannotShip("is a directory, and only an archive is unpacked; leave unpack out")
                yield self._archive(self.described(path), name)
                return
            if name in (".", ""):
                raise CannotShip("only a directory can have the name '.'; give the file a name")
            yield self._file(os.fspath(path), path.stat(), name)

    def _directory(
        self, path: str, root: str, prefix: str, above: tuple[tuple[int, int], ...], skipped: frozenset[str] = _SKIPPED
    ) -> Iterator[ShippedFile]:
        status = Path(path).stat()
        here = (status.st_dev, status.st_ino)
        if here in above:
            raise CannotShip(f"the symbolic link {clip(prefix.rstrip('/'))} leads back to a directory above it; take it out")
        if len(above) == MAX_LEVELS:
            raise CannotShip(f"its directories are nested more than {MAX_LEVELS} levels deep; pack them into one archive")
        with os.scandir(path) as entries:
            children = sorted((entry for entry in entries if entry.name not in skipped), key=lambda entry: entry.name)
        for child in children:
            if child.is_symlink() and not _is_below(os.path.realpath(child.path), root):
                raise CannotShip(
                    f"the symbolic link {clip(prefix + child.name)} leads out of the directory; copy the file in, or list it by itself"
                )
            if child.is_dir():
                yield from self._directory(child.path, root, f"{prefix}{child.name}/", (*above, here), skipped)
            else:
                yield self._file(child.path, child.stat(), prefix + child.name)

    def _file(self, path: str, status: os.stat_result, name: str) -> ShippedFile:
        if not stat.S_ISREG(status.st_mode):
            raise CannotShip(f"{clip(posixpath.basename(path))} is neither a file nor a directory")
        if not name.isprintable():
            raise CannotShip(f"the file name {clip(name)} holds characters that cannot travel; rename it")
        return ShippedFile(name, self._content(path, status), bool(status.st_mode & stat.S_IXUSR))

    def _content(self, path: str, status: os.stat_result) -> bytes | HostFile:
        identity = (status.st_dev, status.st_ino)
        if identity not in self._seen:
            self._reserve(status.st_size)
            self._seen.add(identity)
            if status.st_size <= HELD_FILE and self._bytes_held + status.st_size <= HELD:
                self._held[identity] = Path(path).read_bytes()
                self._bytes_held += len(self._held[identity])
        held = self._held.get(identity)
        return self.digests.file(Path(path), status) if held is None else held

    def described(self, path: Path) -> HostFile:
        """Describe a file of this host.

        Raises:
            CannotShip: It is none, or too much.
            OSError: It cannot be read.
        """
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CannotShip("is no file")
        self._reserve(status.st_size)
        return self.digests.file(path.absolute(), status)

    def _archive(self, file: HostFile, target: str) -> ShippedFile:
        self.check(file)
        content = file.path.read_bytes() if file.size <= HELD_FILE else file
        return ShippedFile(f"{contract.ARCHIVES_DIRECTORY}/{file.sha256[:12]}-{_plain(file.path.name)}", content, unpack=target)

    def check(self, file: HostFile, *, links: bool = True) -> None:
        """Refuse an archive that the container would refuse, after minutes of uploading.

        Args:
            file: The archive.
            links: Whether links out of it are refused, too; environments link to the system's Python.

        Raises:
            CannotShip: It is none, is damaged, or would be unpacked elsewhere.
        """
        from submit_tf_job.specfile import archives

        checked = f"archive {file.sha256} {archives.kind(file.path.name)} {links}"
        if self.digests.is_proven(checked):
            return
        why = archives.trouble(file.path, links=links)
        if why:
            raise CannotShip(why)
        self.digests.prove(checked)

    def _reserve(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise CannotShip(
                f"with it the files come to more than {MAX_BYTES // 1024**3} GiB; put large ones on HDFS and read them from there"
            )
        if len(self._seen) >= MAX_FILES:
            raise CannotShip(f"with it there are more than {MAX_FILES} files; pack them into one archive, or put them on HDFS")


class shown_path:  # noqa: N801 - a context manager, used as a function
    """Turn what the operating system says of a path into a `CannotShip`."""

    def __init__(self, shown: str, path: Path) -> None:
        self._shown, self._path = shown, path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise the sentence."""
        if isinstance(error, FileNotFoundError):
            raise CannotShip(_not_found(self._shown, self._path)) from None
        if isinstance(error, OSError):
            raise CannotShip(f"cannot be read: {error.strerror or error}") from None
        if isinstance(error, ValueError | RuntimeError):  # a NUL in the path; a loop of symbolic links on Python before 3.13
            raise CannotShip(f"cannot be read: {error}") from None


def _entry(value: Value, section: Section | None) -> _Entry | None:
    if section is None:
        src = value.text(expected=_EXPECTED)
        return None if src is None or not _is_path(value, src) else _Entry(src)
    at = section.required("src", lambda item: item.text(expected="a path"), "say which file, as in {src: conf/prod.yaml, dst: conf.yaml}")
    unpack = section.optional("unpack", Value.flag) if section.has("unpack") else False
    missing = "say the file's name in the task's working directory; without one, write the path alone"
    name = "." if unpack and not section.has("dst") else section.required("dst", _destination, missing)
    if at is None or name is None or unpack is None or not _is_path(value, at):
        return None
    return _Entry(at, name, unpack)


def _matches(src: str, base: Path) -> list[str]:
    """Expand a pattern; a path without one, or that is there as it is written, is itself."""
    if not PATTERN.search(src) or os.path.lexists(base / src):
        return [src]
    found = sorted(glob(src, root_dir=base, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if "**" in src:  # it matches directories and what they hold alike
        found = [match for match in found if not (base / match).is_dir()]
    found = [match for match in found if not _SKIPPED & set(match.split("/"))]
    if not found:
        raise CannotShip(f"the pattern matches no file; patterns start from the job spec's own directory ({base.absolute()})")
    return found


def _own_name(src: str) -> str:
    inside = posixpath.normpath(src)
    return posixpath.basename(inside) if inside.startswith(("/", "..")) else inside


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _plain(name: str) -> str:
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[-100:]


def _is_path(value: Value, src: str) -> bool:
    if "://" in src:
        value.fail(f"{clip(src)} is no file of this host; read it from the program, or download it first")
        return False
    return True


def _destination(value: Value) -> str | None:
    name = value.text(expected="a relative path")
    if name is None:
        return None
    clean = posixpath.normpath(name)
    if clean.startswith(("/", "..")) or not name.isprintable() or len(name) > _LONGEST_NAME:
        return value.fail(f"{clip(name)} does not lie in the task's working directory; write a short relative path without '..'")
    return clean


def _not_found(shown: str, path: Path) -> str:
    if shown.startswith("~"):
        return "no such file; '~' is not expanded here, write the path out"
    return (
        f"no such file or directory ({path if str(path).isprintable() else clip(str(path))}); paths start from the job spec's own directory"
    )
