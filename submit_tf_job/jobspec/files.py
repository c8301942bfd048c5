"""Find and hash the files of the submitting host that are listed in `files` of a job spec."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO

from submit_tf_job.container import contract
from submit_tf_job.host.located.tree import Where
from submit_tf_job.host.quoting import clip
from submit_tf_job.host.user_files import is_directory, is_file, named_reason
from submit_tf_job.jobspec.file_contents import KnownContents, opened_again
from submit_tf_job.jobspec.job import PATTERN, HostFile, Remark, RemoteFile, ShippedFile
from submit_tf_job.jobspec.left_out import LeftOut
from submit_tf_job.jobspec.path_kinds import ON_HDFS, ON_THE_WEB, without_secrets
from submit_tf_job.jobspec.reading_budget import ReadingBudget, TooMuch
from submit_tf_job.jobspec.sent_files import SentFiles

MAX_BYTES = 20 * 1024**3
MAX_FILES = 100_000
MAX_LEVELS = 50
# Only files that may be sent inside the service are kept in memory: it may have 60 KB, or 1 MB
# without a file system for staging.
HELD_FILE = 1024**2
HELD = 8 * 1024**2
HADOOP_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_UNPACKED_BY_YARN = (".tar.gz", ".tgz", ".tar", ".zip")  # FSDownload.unpack
_NEVER = frozenset(("__pycache__", ".git"))
_GITIGNORE_BYTES = 100_000
_NO_HOST = "files of this host are not read here; put them on HDFS or into the image"


@dataclass(frozen=True)
class Host:
    """The files of this host that a job spec may use.

    Attributes:
        base: The directory at which relative paths start; None if no file of this host may be read
            (for callers of a gateway).
        hadoop_conf: The Hadoop configuration directory, for `hadoop.conf: inline`.
        krb5_conf: The krb5.conf files, the first with the highest precedence.
        cache: The directory for hashes and packages; None for no cache.
        uploads: The directory with the files that a gateway's caller has sent, without symbolic
            links. If `base` is None, a job spec may name only these files.
        budget: The limits for reading the job spec.
    """

    base: Path | None = None
    hadoop_conf: Path | None = None
    krb5_conf: tuple[Path, ...] = ()
    cache: Path | None = None
    uploads: Path | None = None
    budget: ReadingBudget = field(default_factory=ReadingBudget, compare=False)


class CannotShip(Exception):
    """A file cannot be sent; the text of the error is the end of a message."""


@dataclass(frozen=True)
class _Entry:
    """One entry of `files`: the path on this host, and the name in the task's working directory.

    Attributes:
        name: "." for a directory's content; "" to derive it from the path.
        exclude: Patterns of files that are not sent.
        gitignore: Whether files that .gitignore names are not sent either.
    """

    src: str
    name: str = ""
    unpack: bool = False
    sha256: str = ""
    exclude: tuple[str, ...] = ()
    gitignore: bool = False

    @property
    def scheme(self) -> str:
        """The scheme of a URI, "" for a path."""
        return self.src.partition("://")[0] if "://" in self.src else ""


@dataclass
class Shipper:
    """Reads or hashes each file once, and limits the number and the size of the files.

    Attributes:
        remarks: What users should know about files that are sent or left out.
    """

    host: Host
    remarks: list[Remark] = field(default_factory=list)
    _read: dict[tuple[int, int], bytes | HostFile] = field(default_factory=dict)
    _packed: dict[str, bytes] = field(default_factory=dict)  # small archives, by their hash
    _bytes: int = 0
    _bytes_held: int = 0

    def __post_init__(self) -> None:
        """If no other file of this host may be read, restrict paths to the files that were sent
        with the job spec.
        """
        uploads = self.host.uploads if self.host.base is None else None
        self._sent = SentFiles(uploads, self.host.budget) if uploads else None

    @cached_property
    def _contents(self) -> KnownContents:
        """The cache of hashes for the job spec's directory; it is read when it is first needed."""
        cache = self.host.cache / "hashes" if self.host.cache else None
        return KnownContents(cache, self.host.base or Path(), self.host.budget)

    def save(self) -> None:
        """Write the cache of hashes, if it was read."""
        if "_contents" in vars(self):
            self._contents.save()

    def ship(
        self, values: Mapping[str, Any], at: Where
    ) -> Sequence[ShippedFile | RemoteFile] | None:
        """Return the files for one entry of `files`. The entry may name a file, a directory, a
        pattern, an archive, a project, wheels, or a file on HDFS or a web server. Files of a web
        server are downloaded now; a project is built now.

        Args:
            values: The entry; a wrong value in it is None. If the entry is only a path, this is its
                `src`.
            at: The entry's path in the job spec.

        Returns:
            The files; None if the entry is wrong, which is reported at `at`.

        Raises:
            UsageError: As `ReadingBudget.check`.
        """
        if "project" in values or "wheels" in values:
            return self._python_packages(values, at)
        if None in values.values() or "src" not in values:
            return None
        # without dst an archive is unpacked where a file keeps its own name
        name = values.get("dst", "." if values.get("unpack") else "")
        asked = _Entry(
            values["src"],
            name,
            values.get("unpack", False),
            values.get("sha256", ""),
            tuple(filter(None, values.get("exclude") or ())),
            values.get("gitignore", False),
        )
        if asked.sha256 and asked.scheme not in ON_THE_WEB:
            return at.fail("sha256 is for a file that is downloaded; leave it out")
        if asked.scheme and (asked.exclude or asked.gitignore):
            return at.fail("exclude and gitignore are for a directory of this host; leave them out")
        if asked.scheme in ON_HDFS:
            return _remote_file(asked, at)
        if asked.scheme:
            return self._downloaded_file(asked, at)
        base = self._base_of_path(asked.src, at)
        if base is None:
            return None
        try:
            left = self._left_out(asked)
            found = list(self._shipped_files(asked, base, left))
            place = at.place
            self.remarks += [
                Remark(level, place.source, place.line, place.column, at.path, text)
                for level, text in left.remarks(asked.src)
            ]
            return found
        except CannotShip as error:
            return at.fail(f"{clip(asked.src)}: {error}")

    def _downloaded_file(self, asked: _Entry, at: Where) -> list[ShippedFile] | None:
        """Download a file from a web server into the cache, and return it; None if that is not
        possible, which is reported. With a known `sha256` a file that is in the cache is not
        downloaded again.
        """
        # imported here: urllib would slow down every start
        from submit_tf_job.host.download import DownloadFailed, download, name_of, shown_url

        shown = clip(shown_url(asked.src))
        if why := _not_downloadable(asked, self.host):
            return at.fail(f"{shown}: {why}")
        try:
            where, most = (self.host.cache or Path()) / "downloads", MAX_BYTES - self._bytes
            path = download(asked.src, where, most=most, sha256=asked.sha256)
            entry = _Entry(shown_url(asked.src), asked.name, asked.unpack)
            left = self._left_out(entry)
            return list(self._files_of_entry(entry, path, asked.name or name_of(asked.src), left))
        except OSError as error:
            return at.fail(f"{shown}: the cache cannot be written: {error.strerror or error}")
        except (CannotShip, DownloadFailed) as error:
            return at.fail(f"{shown}: {error}")

    def find(self, src: str, at: Where) -> HostFile | None:
        """Return the file (path, size, hash) that a key of the job spec names. If it cannot be
        read, report that and return None.
        """
        base = self._base_of_path(src, at)
        if base is None:
            return None
        try:
            name = (self._sent.exact(src) or src) if self._sent else src
            with shown_path(src, base / name):
                return self.described(base / name)
        except CannotShip as error:
            return at.fail(f"{clip(src)}: {error}")

    def _base_of_path(self, src: str, at: Where) -> Path | None:
        """Return the directory to which a relative `src` refers: that of the job spec, or that of
        the files that were sent with the request. If this host reads no files, or `src` was not
        sent, report that and return None.
        """
        if self.host.base is not None:
            return self.host.base
        if self._sent is None:
            return at.fail(_NO_HOST)
        if not (self._sent.exact(src) or self._sent.matching(src)):
            return at.fail(
                f"{clip(src)} did not come with the request; send the file as a part `files`, and "
                f"write the part's filename here: a relative path without '..'"
            )
        return self._sent.root

    def _matching_paths(self, src: str, base: Path) -> list[str]:
        """Return the paths below `base` that a pattern matches; for a path that is not a pattern,
        or that exists as it is written, the path itself.

        Raises:
            CannotShip: The pattern matches no file.
        """
        if self._sent:
            if name := self._sent.exact(src):
                return [name]
            found = self._sent.matching(src)
        elif not PATTERN.search(src) or os.path.lexists(base / src):
            return [src]
        else:
            # Path.glob takes no absolute pattern
            found = sorted({*glob(src, root_dir=base, recursive=True)})  # noqa: PTH207
        if "**" in src:  # it matches directories, too, besides the files in them
            found = [match for match in found if not self._is_directory(base / match)]
        found = [match for match in found if not _NEVER & set(match.split("/"))]
        if not found and self._sent:
            raise CannotShip("the pattern matches no file that came with the request")
        if not found:
            raise CannotShip(
                f"the pattern matches no file; patterns start from the job spec's own "
                f"directory ({base.absolute()})"
            )
        return found

    def _is_directory(self, path: Path) -> bool:
        if self._sent:
            return self._sent.is_directory(self._sent.name_of(path))
        return is_directory(path)

    @contextmanager
    def _open_file(self, path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        """Open a file that the job spec names.

        Only this method opens such a file for the first time; `opened_again` opens it later, and
        checks that it has not changed.

        Raises:
            CannotShip: The path is not a regular file.
            OSError: The file cannot be opened; or a gateway's caller named it, and did not send it
                with the request.
        """
        if self._sent:
            descriptor = self._sent.open(self._sent.name_of(path))
        else:
            _refuse_special(path, path.stat())  # to open a device may already change something
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
            status = os.fstat(descriptor)
            _refuse_special(path, status)
            yield file, status

    # --- a Python project, wheels ---

    def _python_packages(self, values: Mapping[str, Any], at: Where) -> list[ShippedFile] | None:
        if len(values) > 1:
            return at.fail(
                "a project or wheels are unpacked where Python finds them; they stand "
                "alone, without src, dst and unpack"
            )
        found = self.project(values, at) if "project" in values else self.wheels(values, at)
        try:
            return [self._shipped_archive(file, contract.SITE_DIRECTORY) for file in found or ()]
        except CannotShip as error:
            return at.fail(str(error))
        except OSError as error:  # changed or removed since it was hashed
            return at.fail(f"cannot be read: {named_reason(error)}")

    def wheels(self, values: Mapping[str, Any], at: Where) -> list[HostFile] | None:
        """Return the wheels that the key `wheels` lists; None if the list is empty or one of them
        is wrong, which is reported.
        """
        listed, at = values["wheels"] or (), at.member("wheels")
        found = [self._wheels_of(src, at.item(index)) for index, src in enumerate(listed)]
        if not found or None in found:
            return None
        return [file for some in found for file in some or ()]

    def _wheels_of(self, src: str | None, at: Where) -> list[HostFile] | None:
        base = None if src is None else self._base_of_path(src, at)
        if src is None or base is None:
            return None
        try:
            return [
                self._described_wheel(base / match) for match in self._matching_paths(src, base)
            ]
        except CannotShip as error:
            return at.fail(f"{clip(src)}: {error}")

    def _described_wheel(self, path: Path) -> HostFile:
        from submit_tf_job.jobspec import wheels

        with shown_path(str(path), path):
            file = self.described(path)
        if not wheels.is_wheel(path.name):
            raise CannotShip("is not a wheel; its name must end in -<python>-<abi>-<platform>.whl")
        self.check(file)
        return file

    def project(self, values: Mapping[str, Any], at: Where) -> list[HostFile] | None:
        """Return, in a list, the wheel of the Python project that the key `project` names: built by
        pip, or from the cache. Return None if that is not possible, which is reported; also if the
        job spec has other problems, because pip may take minutes.
        """
        src, at = values["project"], at.member("project")
        if src is None:
            return None
        if self.host.base is None:
            return at.fail(
                "a project is built on the submitting host; build its wheel, and send that"
                if self.host.uploads
                else _NO_HOST
            )
        # imported here: zipfile and subprocess would slow down every start
        from submit_tf_job.jobspec import wheels

        path = self.host.base / src
        if not any(is_file(path / name) for name in ("pyproject.toml", "setup.py")):
            return at.fail(
                f"{clip(src)} holds neither pyproject.toml nor setup.py; to ship plain "
                f"modules write the path alone"
            )
        if self.host.cache is None:
            return at.fail("there is no cache directory to build it in")
        if at.notes.problems:
            return None  # the job spec is refused anyway, and pip may take minutes
        try:
            with shown_path(src, path):
                sources = self.sources_of(path)
            return [self._described_wheel(wheels.build(path, sources, self.host.cache / "python"))]
        except (CannotShip, wheels.PipFailed) as error:
            return at.fail(f"{clip(src)}: {error}")
        except OSError as error:
            return at.fail(f"{clip(src)}: its wheel cannot be built: {named_reason(error)}")

    def sources_of(self, project: Path) -> list[tuple[str, str]]:
        """Return the files that belong to a Python project: their paths in the project, with their
        hashes.
        """
        from submit_tf_job.jobspec import wheels

        root, left = os.path.realpath(project), LeftOut(self.host.budget)
        left.add_patterns(wheels.NO_SOURCE)
        found = self._files_of_directory(os.fspath(project), root, left, "")
        return [(file.name, file.sha256) for file in found]

    # --- files ---

    def _left_out(self, asked: _Entry) -> LeftOut:
        left = LeftOut(self.host.budget, asked.gitignore)
        left.add_patterns(asked.exclude)
        return left

    def _shipped_files(self, asked: _Entry, base: Path, left: LeftOut) -> Iterator[ShippedFile]:
        matches = self._matching_paths(asked.src, base)
        if not PATTERN.search(asked.src) or matches == [posixpath.normpath(asked.src)]:
            path = base / matches[0]
            with shown_path(asked.src, path):
                if (asked.exclude or asked.gitignore) and not self._is_directory(path):
                    raise CannotShip("is not a directory, of which exclude leaves out files")
            yield from self._files_of_entry(asked, path, asked.name or _own_name(asked.src), left)
            return
        fixed = posixpath.dirname(PATTERN.split(asked.src, maxsplit=1)[0])
        above = "" if fixed.startswith(("/", "..")) else fixed
        for match in matches:
            inner = posixpath.relpath(match, fixed or ".")
            path, is_directory = base / match, self._is_directory(base / match)
            environments = self._virtual_environments(base / fixed, inner)
            name = posixpath.normpath(posixpath.join(asked.name or above, inner))
            target = asked.name if asked.unpack else name
            if is_directory and not asked.unpack:
                if not left.covers_below(f"{inner}/.", environments):
                    yield from self._files_below(path, f"{name}/", left, inner)
            elif not left.covers_below(inner, environments):
                yield from self._files_of_entry(
                    _Entry(match, name, asked.unpack), path, target, left
                )

    def _virtual_environments(self, top: Path, inner: str) -> frozenset[str]:
        """Return which of a path and the directories above it, up to `top`, are virtual
        environments.
        """
        parts = inner.split("/")
        names = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return frozenset(name for name in names if self._is_environment(top / name))

    def _is_environment(self, path: Path) -> bool:
        if self._sent:
            return self._sent.exact(f"{self._sent.name_of(path)}/pyvenv.cfg") is not None
        return (path / "pyvenv.cfg").is_file()

    def _files_of_entry(
        self, asked: _Entry, path: Path, name: str, left: LeftOut
    ) -> Iterator[ShippedFile]:
        with shown_path(asked.src, path):
            is_directory = self._is_directory(path)
            if asked.unpack and is_directory:
                raise CannotShip(
                    "is a directory, and only an archive is unpacked; leave unpack out"
                )
            if asked.unpack:
                yield self._shipped_archive(self.described(path), name)
            elif is_directory:
                prefix = "" if name == "." else name + "/"
                found = list(self._files_below(path, prefix, left, ""))
                if not found:
                    raise CannotShip("the directory holds no file that is sent")
                yield from found
            elif name in (".", ""):
                raise CannotShip("only a directory can have the name '.'; give the file a name")
            else:
                yield self._shipped_file(path, name)

    def _files_below(
        self, directory: Path, prefix: str, left: LeftOut, inner: str
    ) -> Iterator[ShippedFile]:
        """Yield the files of a directory.

        Args:
            directory: The directory.
            prefix: The beginning of the files' names in the task's working directory.
            left: Decides which files are left out.
            inner: The directory's name relative to the directory for which `left` was made.
        """
        if self._sent is None:
            root = os.path.realpath(directory)
            yield from self._files_of_directory(os.fspath(directory), root, left, inner, prefix)
            return
        start = self._sent.name_of(directory)
        names = {posixpath.relpath(name, start): name for name in self._sent.below(start)}
        below = f"{inner}/" if inner else ""
        for name in names:
            if posixpath.basename(name) == ".gitignore":
                self._add_gitignore(
                    self._sent.root / names[name], posixpath.dirname(below + name), left
                )
        environments = frozenset(
            below + posixpath.dirname(name) for name in names if name.endswith("/pyvenv.cfg")
        )
        for name, sent in names.items():
            if not left.covers_below(below + name, environments):
                yield self._shipped_file(self._sent.root / sent, prefix + name)

    def _add_gitignore(self, path: Path, inner: str, left: LeftOut) -> None:
        with self._open_file(path) as (file, _status):
            text = file.read(_GITIGNORE_BYTES).decode("utf-8", "replace")
        left.add_patterns(text.splitlines(), gitignore_of=inner)

    def _files_of_directory(
        self,
        path: str,
        root: str,
        left: LeftOut,
        inner: str,
        prefix: str = "",
        above: tuple[tuple[int, int], ...] = (),
    ) -> Iterator[ShippedFile]:
        status = Path(path).stat()
        here = (status.st_dev, status.st_ino)
        if here in above:
            raise CannotShip(
                f"the symbolic link {clip(prefix.rstrip('/'))} leads back to a directory "
                f"above it; take it out, or name it in exclude"
            )
        if len(above) == MAX_LEVELS:
            raise CannotShip(
                f"its directories are nested more than {MAX_LEVELS} levels deep; pack them "
                f"into one archive"
            )
        with os.scandir(path) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        if any(child.name == ".gitignore" and child.is_file() for child in children):
            self._add_gitignore(Path(path) / ".gitignore", inner, left)
        for child in children:
            is_directory = child.is_dir()
            name = f"{inner}/{child.name}" if inner else child.name
            is_environment = is_directory and self._is_environment(Path(child.path))
            if left.covers(name, is_directory=is_directory, is_environment=is_environment):
                continue
            if child.is_symlink() and not _is_below(os.path.realpath(child.path), root):
                raise CannotShip(
                    f"the symbolic link {clip(prefix + child.name)} leads out of the "
                    f"directory; copy the file in, list it by itself, or name it in exclude"
                )
            if is_directory:
                inside = f"{prefix}{child.name}/"
                yield from self._files_of_directory(
                    child.path, root, left, name, inside, (*above, here)
                )
            else:
                yield self._shipped_file(Path(child.path), prefix + child.name)

    def _shipped_file(self, path: Path, name: str) -> ShippedFile:
        self._count_entry()
        with self._open_file(path) as (file, status):
            if not name.isprintable():
                raise CannotShip(
                    f"the file name {clip(name)} holds characters that cannot travel; rename it, "
                    f"or name it in exclude"
                )
            content = self._content_of_file(path, file, status)
            return ShippedFile(name, content, bool(status.st_mode & stat.S_IXUSR))

    def _content_of_file(
        self, path: Path, file: BinaryIO, status: os.stat_result
    ) -> bytes | HostFile:
        identity = (status.st_dev, status.st_ino)
        if identity not in self._read:
            self._reserve_size(status.st_size)
            if status.st_size <= HELD_FILE and self._bytes_held + status.st_size <= HELD:
                self._bytes_held += status.st_size
                self._read[identity] = file.read()
            else:
                self._read[identity] = self._contents.file(path, file, status)
        return self._read[identity]

    def described(self, path: Path) -> HostFile:
        """Return a file of this host (path, size, hash), and count its size.

        Raises:
            CannotShip: The path is not a file, or the file exceeds a limit.
            OSError: The file cannot be read.
        """
        with self._open_file(path) as (file, status):
            self._reserve_size(status.st_size)
            return self._contents.file(path.absolute(), file, status)

    def _shipped_archive(self, file: HostFile, target: str) -> ShippedFile:
        self._count_entry()
        self.check(file)
        content: bytes | HostFile = file
        if file.sha256 in self._packed:
            content = self._packed[file.sha256]
        elif file.size <= HELD_FILE:
            with opened_again(file) as source:
                content = self._packed[file.sha256] = source.read()
        return ShippedFile(
            f"{contract.ARCHIVES_DIRECTORY}/{file.sha256[:12]}-{_plain_name(file.path.name)}",
            content,
            unpack=target,
        )

    def check(self, file: HostFile, *, links: bool = True) -> None:
        """Refuse an archive that the container could not unpack, before it is uploaded.

        Args:
            file: The archive.
            links: Whether symbolic links that lead out of the archive are refused, too; False for
                environments, which contain links to the system's Python.

        Raises:
            CannotShip: The file is not an archive, is damaged, or has members outside of the
                archive's directory.
        """
        if why := self._contents.archive_problem(file, links=links):
            raise CannotShip(why)

    def _count_entry(self) -> None:
        try:
            self.host.budget.add_entry()
        except TooMuch as error:
            raise CannotShip(str(error)) from None

    def _reserve_size(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise CannotShip(
                f"with it the files come to more than {MAX_BYTES // 1024**3} GiB; put "
                f"large ones on HDFS and read them from there"
            )
        if len(self._read) >= MAX_FILES:
            raise CannotShip(
                f"with it there are more than {MAX_FILES} files; pack them into one "
                f"archive, or put them on HDFS"
            )


@contextmanager
def shown_path(shown: str, path: Path) -> Iterator[None]:
    """Convert an error of the operating system about a path to `CannotShip`, with the path as the
    user wrote it.
    """
    try:
        yield
    except FileNotFoundError:
        raise CannotShip(_not_found(shown, path)) from None
    except OSError as error:
        raise CannotShip(f"cannot be read: {error.strerror or error}") from None
    # a NUL in the path; a loop of symbolic links on Python before 3.13
    except (ValueError, RuntimeError) as error:
        raise CannotShip(f"cannot be read: {error}") from None


def _remote_file(asked: _Entry, at: Where) -> list[RemoteFile] | None:
    """Return, in a list, the entry for a file on HDFS, which this host does not read; None if the
    URI or the name is not valid, which is reported.
    """
    place = asked.src.partition("://")[2]
    name = asked.name or posixpath.basename(place)
    wrong = "@" in place.partition("/")[0] or re.search(r"\s", asked.src) or name == ".."
    if PATTERN.search(asked.src) or wrong:
        return at.fail(
            f"{without_secrets(asked.src)} is not the URI of one file; write hdfs:///path/file"
        )
    if "/" not in place or place.endswith("/"):
        return at.fail(
            f"{clip(asked.src)} is not the URI of a file; a directory is an input: "
            f"`inputs`, or one archive with unpack: true"
        )
    if asked.unpack and not place.endswith(_UNPACKED_BY_YARN):
        return at.fail(
            f"{clip(asked.src)}: YARN unpacks {', '.join(_UNPACKED_BY_YARN)}; pack it anew"
        )
    if name == ".":
        return at.fail(
            "missing dst; YARN unpacks an archive of HDFS into a directory of its own, as in "
            "dst: data"
        )
    return [RemoteFile(name, asked.src, asked.unpack, at.path)]


def _not_downloadable(asked: _Entry, host: Host) -> str | None:
    from urllib.parse import urlsplit

    from submit_tf_job.host.download import name_of

    try:
        parts = urlsplit(asked.src)
        known = bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or re.search(r"[\s\x00-\x1f\x7f]", asked.src) or not asked.src.isascii():
        return "is not a valid URL"
    if parts.username or parts.password:
        return "a job spec holds no passwords; download it first"
    if asked.scheme == "http" and not asked.sha256:
        return "can be changed on its way; write https://, or add its sha256"
    if not name_of(asked.src):
        return "its path names no file"
    if host.base is None:
        return "a gateway downloads nothing; send the file with the request, or put it on HDFS"
    if host.cache is None:
        return "there is no cache directory to download it to"
    return None


def _refuse_special(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CannotShip(f"{clip(path.name)} is neither a file nor a directory; leave it out")


def _own_name(src: str) -> str:
    inside = posixpath.normpath(src)
    return posixpath.basename(inside) if inside.startswith(("/", "..")) else inside


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _plain_name(name: str) -> str:
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[-100:]


def _not_found(shown: str, path: Path) -> str:
    if shown.startswith("~"):
        return "no such file; '~' is not expanded here, write the path out"
    if path.is_absolute() and str(path) == shown:
        return "not found"
    return (
        f"not found next to the job spec, in "
        f"{path.parent if str(path).isprintable() else clip(str(path.parent))}"
    )
