"""Find the files that match a path or a pattern."""

from __future__ import annotations

import fnmatch
import re

from submit_tf_job.storage.base import Stat, Storage, join

__all__ = ["files_of"]

_MAGIC = re.compile(r"[*?\[]")


def files_of(storage: Storage, path: str) -> list[Stat]:
    """List the files that match a path or a pattern, sorted by path.

    Names that start with `_` or `.` are skipped, as in Hadoop (FileInputFormat.hiddenFileFilter),
    unless the matching component of the pattern starts with one of them.

    Args:
        storage: The storage to search.
        path: A file; a directory, for all files below it; or a pattern with `*`, `?` and `[…]`,
            each of which matches within one path component.

    Raises:
        NoSuchPath: The path does not exist; for a pattern without a match, an empty list is
            returned.

    Example:
        >>> [file.name for file in files_of(storage, "/data/*.tfrecord")]  # doctest: +SKIP
        ['train-0.tfrecord', 'train-1.tfrecord']
    """
    path = storage.path(path)
    todo = _matches(storage, path) if _MAGIC.search(path) else [storage.stat(path)]
    files = []
    while todo:
        top = todo.pop()
        if top.is_dir:
            todo += (item for item in storage.list_dir(top.path) if not _is_hidden(item.name))
        else:
            files.append(top)
    return sorted(files, key=lambda file: file.path)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _matches(storage: Storage, pattern: str) -> list[Stat]:
    """Match a pattern component by component; those before the first wildcard in one step."""
    parts = pattern.strip("/").split("/")
    plain = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    found = [storage.stat(f"/{'/'.join(parts[:plain])}")]
    for part in parts[plain:]:
        nearer: list[Stat] = []
        for item in found:
            if not item.is_dir:
                continue
            if _MAGIC.search(part):
                nearer += (
                    child
                    for child in storage.list_dir(item.path)
                    if fnmatch.fnmatchcase(child.name, part)
                    and (_is_hidden(part) or not _is_hidden(child.name))
                )
            elif (child := storage.look(join(item.path, part))) is not None:
                nearer.append(child)
        found = nearer
    return found
