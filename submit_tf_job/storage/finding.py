"""Find the files that a path or a pattern stands for."""

from __future__ import annotations

import fnmatch
import re

from submit_tf_job.storage.model import NoSuchPath, Stat, Storage, join

__all__ = ["files_of"]

_MAGIC = re.compile(r"[*?\[]")


def files_of(storage: Storage, path: str) -> list[Stat]:
    """List the files that a path stands for, sorted by path.

    Names that begin with `_` or `.` are left out, as Hadoop's own readers do (FileInputFormat.hiddenFileFilter), unless the pattern asks
    for them.

    Args:
        storage: Where to look.
        path: A file; a directory, for all files below it; or a pattern with `*`, `?` and `[…]`, each within one part of the path.

    Raises:
        NoSuchPath: There is nothing of that name; for a pattern that matches nothing the list is empty.

    Example:
        >>> [file.name for file in files_of(storage, "/data/*.tfrecord")]  # doctest: +SKIP
        ['train-0.tfrecord', 'train-1.tfrecord']
    """
    path = storage.path(path)
    tops = _matches(storage, path) if _MAGIC.search(path) else [storage.stat(path)]
    return sorted((file for top in tops for file in _below(storage, top)), key=lambda file: file.path)


def _below(storage: Storage, top: Stat) -> list[Stat]:
    files, todo = ([], [top.path]) if top.is_dir else ([top], [])
    while todo:
        for item in storage.list_dir(todo.pop()):
            if not item.name.startswith(("_", ".")):
                (todo.append(item.path) if item.is_dir else files.append(item))
    return files


def _matches(storage: Storage, pattern: str) -> list[Stat]:
    """Follow a pattern part by part; what stands before its first magic part is looked up at once."""
    parts = pattern.strip("/").split("/")
    plain = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    found = [storage.stat(join("/", *parts[:plain]) if plain else "/")]
    for part in parts[plain:]:
        nearer: list[Stat] = []
        for item in found:
            if not item.is_dir:
                continue
            if _MAGIC.search(part):
                hidden = part.startswith(("_", "."))
                names = [child for child in storage.list_dir(item.path) if fnmatch.fnmatchcase(child.name, part)]
                nearer += [child for child in names if hidden or not child.name.startswith(("_", "."))]
            else:
                nearer += _one(storage, join(item.path, part))
        found = nearer
    return found


def _one(storage: Storage, path: str) -> list[Stat]:
    try:
        return [storage.stat(path)]
    except NoSuchPath:
        return []
