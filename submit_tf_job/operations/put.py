"""Copy files and directories of this host into a storage of the cluster, without Java."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.operations.cluster import authenticate, storage_of
from submit_tf_job.settings import Settings
from submit_tf_job.storage import PathExists, Storage

_LOG = logging.getLogger(__name__)
PIECE = 4 * 1024 * 1024
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755  # what Hadoop's default umask leaves


@dataclass(frozen=True)
class Put:
    """A file or directory that was copied.

    Attributes:
        source: The path on this host.
        uri: The URI at which the copy is now.
        files: Number of files; 1 for a file.
        bytes: How many bytes were copied.
    """

    source: str
    uri: str
    files: int
    bytes: int


@dataclass(frozen=True)
class _PlannedCopy:
    """One file to copy, or a directory to make."""

    source: Path
    target: str
    is_directory: bool


def put(
    settings: Settings,
    sources: Sequence[str],
    target: str,
    *,
    overwrite: bool = False,
) -> list[Put]:
    """Copy files and directories to a URI, as `hdfs dfs -put` names them.

    The copies are made below `target` if `target` is a directory or ends in `/`, or if there are
    several sources; else `target` is the name of the copy. Missing directories are made. Everything
    is checked before the first byte is copied; a file is visible only when it is complete.

    Args:
        settings: The cluster and the user.
        sources: Paths of this host; links are followed.
        target: A URI (`hdfs:///data/`), or a path of the cluster's default file system.
        overwrite: Replace files that exist, one by one: a directory that exists keeps its others.

    Raises:
        AuthError: The keytab gets no ticket, or the user may not write there.
        UsageError: A source does not exist or is neither file nor directory, or has a name that
            HDFS does not take; two sources have the same name; or `target` is a file, and there are
            several sources.
        PathExists: Something with that name exists already, and `overwrite` is False.
    """
    authenticate(settings)  # with a keytab: gets the ticket that HDFS asks for
    storage = storage_of(settings, target if "://" in target else None)
    place = storage.path(target)
    found = storage.stat_or_none(place)
    is_directory = found.is_dir if found else target.endswith("/") or len(sources) > 1
    if found and not found.is_dir and len(sources) > 1:
        raise UsageError(
            f"{storage.url(place)} is a file, and several cannot have its name",
            hint="name a directory",
        )
    plans = []
    for source in sources:
        own = Path(source).name
        if own in ("", ".."):
            own = Path(source).resolve().name
        name = f"{place.rstrip('/')}/{own}" if is_directory else place
        plans.append((source, name, list(_planned_copies(Path(source), name))))
    _refuse_one_name_for_two(storage, plans)
    if not overwrite:
        for _, name, _ in plans:
            _refuse_existing(storage, name)
    return [_run_copies(storage, *plan, overwrite=overwrite) for plan in plans]


def _refuse_one_name_for_two(
    storage: Storage, plans: Sequence[tuple[str, str, list[_PlannedCopy]]]
) -> None:
    first: dict[str, str] = {}
    for source, name, _ in plans:
        other = first.setdefault(name, source)
        if other != source:
            raise UsageError(
                f"{other} and {source} would both be {storage.url(name)}",
                hint="copy them to two directories; nothing was copied",
            )


def _refuse_existing(storage: Storage, path: str) -> None:
    if storage.exists(path):
        raise PathExists(
            f"{storage.url(path)}: is there already",
            hint="name another place, or add --overwrite",
        )


def _planned_copies(
    source: Path, target: str, above: tuple[tuple[int, int], ...] = ()
) -> Iterator[_PlannedCopy]:
    """Yield the files and directories to copy for one source, each directory before its content.

    Args:
        source: A file or directory of this host.
        target: Its path on HDFS.
        above: Device and inode of each directory that contains `source`, to detect a link to one
            of them.

    Raises:
        UsageError: HDFS does not take a name; or something is neither a file nor a directory, or
            is a link to a directory that contains it.
    """
    with _this_host(source):
        status = source.stat()
        children = sorted(source.iterdir()) if stat.S_ISDIR(status.st_mode) else []
    name = source.name
    # DFSUtil.isValidName; the file systems of hosts take every name
    if ":" in name or not name.isprintable():
        raise UsageError(
            f"{str(source)!r}: HDFS takes no name with a colon, and no unprintable characters",
            hint="rename it; nothing was copied",
        )
    if stat.S_ISREG(status.st_mode):
        yield _PlannedCopy(source, target, is_directory=False)
        return
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(
            f"{source}: is neither a file nor a directory", hint="leave it out; nothing was copied"
        )
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        raise UsageError(
            f"{source}: is a link to a directory that holds it", hint="remove the link"
        )
    yield _PlannedCopy(source, target, is_directory=True)
    for child in children:
        yield from _planned_copies(child, f"{target}/{child.name}", (*above, identity))


def _run_copies(
    storage: Storage,
    source: str,
    name: str,
    copies: list[_PlannedCopy],
    *,
    overwrite: bool,
) -> Put:
    """Make the directories and copy the files of one source; `name` is the path of its copy."""
    storage.mkdirs(name.rpartition("/")[0] or "/", DIRECTORY_MODE)
    sizes: list[int] = []
    for copy in copies:
        if copy.is_directory:
            storage.mkdirs(copy.target, DIRECTORY_MODE)
            continue
        _LOG.info("copying %s to %s", copy.source, storage.url(copy.target))
        content = _pieces_of(copy.source, sizes.append)
        storage.write(copy.target, content, mode=FILE_MODE, overwrite=overwrite)
    files = sum(not copy.is_directory for copy in copies)
    return Put(source, storage.url(name), files, sum(sizes))


def _pieces_of(path: Path, on_piece: Callable[[int], None]) -> Iterator[bytes]:
    """Yield a file's content; call `on_piece` with the size of each piece: a file may change after
    it was planned, and one of /proc has no size.
    """
    with _this_host(path), path.open("rb") as file:
        while piece := file.read(PIECE):
            on_piece(len(piece))
            yield piece


@contextmanager
def _this_host(path: Path) -> Iterator[None]:
    """Raise an error of this host's file system as a `UsageError` about the path."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="check the path") from None
