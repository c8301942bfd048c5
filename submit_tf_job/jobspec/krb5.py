"""Merge krb5.conf of this host and the files that it includes into one file for the containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from submit_tf_job.host.inputfile import read_input

__all__ = ["gather"]

MAX_BYTES = 64 * 1024
MAX_LEVELS = 10
_INCLUDE = re.compile(r"(include|includedir)[ \t]+(\S.*)")
# profile_parse in MIT's prof_parse.c ignores other names of a directory
_INCLUDED = re.compile(r"[A-Za-z0-9_-]+|[^.].*\.conf")
_SECTION = re.compile(r"\[[^\]]+\]\*?")


def gather(paths: Iterable[Path]) -> bytes:
    """Return one krb5.conf, or several merged, in the order of KRB5_CONFIG: the first value wins.

    A container has none of the directories that a host's krb5.conf includes, and MIT's library
    refuses a file whose `includedir` is missing.

    Raises:
        OSError: A file cannot be read.
        ValueError: The files are too large, include each other, or are not text.
    """
    content = "".join(f"{line}\n" for path in paths for line in _lines(path, 0)).encode()
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"with what it includes it has {len(content)} bytes; the most is {MAX_BYTES}"
        )
    return content


def _lines(path: Path, level: int) -> Iterator[str]:
    if level > MAX_LEVELS:
        raise ValueError(f"{path} is included more than {MAX_LEVELS} levels deep")
    section = ""
    for raw in read_input(path).decode("utf-8").splitlines():
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        found = _INCLUDE.fullmatch(line)
        if found:
            for included in _included(found[1], Path(found[2])):
                yield from _lines(included, level + 1)
            if section:  # the included file may end in another section
                yield section
            continue
        if _SECTION.fullmatch(line):
            section = line
        yield line


def _included(word: str, path: Path) -> list[Path]:
    if word == "include":
        return [path]
    return sorted(
        item for item in path.iterdir() if _INCLUDED.fullmatch(item.name) and item.is_file()
    )
