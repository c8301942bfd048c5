"""What a job reads and writes: data sets that are there before it, and results that are to be there after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

__all__ = ["PATTERN", "Input", "OnFailure", "Output", "Uploader"]

PATTERN = re.compile(r"[*?\[]")  # what makes a path stand for the files that match it


class Uploader(str, Enum):
    """Whose directory becomes the output."""

    DECIDING_TASK = "deciding-task"
    EVERY_TASK = "every-task"


class OnFailure(str, Enum):
    """What becomes of what a task has written when its command failed."""

    DISCARD = "discard"
    KEEP = "keep"  # beside the output, under a name that says so
    UPLOAD = "upload"


@dataclass(frozen=True)
class Input:
    """A data set.

    Attributes:
        uri: A file, a directory, or a pattern with `*`, `?`, `[a-c]`.
        sharded: Whether its files are shared among the tasks that read.
        download: Whether the bootstrap puts it on the task's disk.
    """

    name: str
    uri: str
    sharded: bool = False
    download: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the URI stands for the files that match it."""
        return PATTERN.search(self.uri) is not None


@dataclass(frozen=True)
class Output:
    """A result.

    Attributes:
        uri: A file or directory.
        upload: Whether the program writes to its own disk, and the bootstrap puts that to `uri` when the command has ended.
        by: Whose.
        on_failure: What becomes of it when the command failed.
        overwrite: Whether what lies at `uri` may be replaced.
    """

    name: str
    uri: str
    upload: bool = False
    by: Uploader = Uploader.DECIDING_TASK
    on_failure: OnFailure = OnFailure.DISCARD
    overwrite: bool = False
