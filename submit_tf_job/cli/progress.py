"""Show the progress of an upload: a bar on a terminal, two lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from submit_tf_job.cli.context import Context, coloured
from submit_tf_job.report.staging_text import amount

if TYPE_CHECKING:
    from submit_tf_job.storage.staging import Sent

__all__ = ["upload_progress"]

# in bytes; smaller uploads take less than a second
MIN_BYTES = 1_000_000


@contextmanager
def upload_progress(context: Context, what: str) -> Iterator[Callable[[Sent], None]]:
    """Show the progress of the upload of a job's files while the block runs."""
    bar = (
        _UploadBar(what)
        if sys.stderr.isatty() and coloured(sys.stderr)
        else _UploadLines(context, what)
    )

    def show(sent: Sent) -> None:
        if sent.total >= MIN_BYTES and not context.quiet:
            bar.update(sent)

    try:
        yield show
    finally:
        bar.end()


class _UploadLines:
    def __init__(self, context: Context, what: str) -> None:
        self._context, self._what, self._begun = context, what, 0.0

    def update(self, sent: Sent) -> None:
        if not self._begun:
            self._begun = time.monotonic()
            self._context.say(f"uploading {amount(sent.total)} for {self._what}")
        if sent.done >= sent.total:
            took = max(time.monotonic() - self._begun, 0.1)
            self._context.say(f"uploaded in {took:.1f} s, {amount(sent.total / took)}/s")

    def end(self) -> None:
        """Do nothing: the lines stay."""


class _UploadBar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Any = None
        self._task: Any = None

    def update(self, sent: Sent) -> None:
        if self._progress is None:
            self._start(sent.total)
        self._progress.update(self._task, completed=sent.done)

    def _start(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(f"uploading for {self._what}", total=total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
