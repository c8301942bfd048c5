"""How far an upload is: a bar on a terminal, two lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from submit_tf_job.cli.door import Context, coloured
from submit_tf_job.report.staging import amount

if TYPE_CHECKING:
    from submit_tf_job.staging import Sent

__all__ = ["shown"]

WORTH_SAYING = 1_000_000  # bytes; the bootstrap and a few scripts are there before one could read of it


@contextmanager
def shown(context: Context, what: str) -> Iterator[Callable[[Sent], None]]:
    """Show how far the upload of a job's files is, for the length of a block."""
    bar = _Bar(what) if sys.stderr.isatty() and coloured(sys.stderr) else _Lines(context, what)

    def told(sent: Sent) -> None:
        if sent.total >= WORTH_SAYING and not context.quiet:
            bar.tell(sent)

    try:
        yield told
    finally:
        bar.end()


class _Lines:
    def __init__(self, context: Context, what: str) -> None:
        self._context, self._what, self._begun = context, what, 0.0

    def tell(self, sent: Sent) -> None:
        if not self._begun:
            self._begun = time.monotonic()
            self._context.say(f"uploading {amount(sent.total)} for {self._what}")
        if sent.done >= sent.total:
            took = max(time.monotonic() - self._begun, 0.1)
            self._context.say(f"uploaded in {took:.1f} s, {amount(sent.total / took)}/s")

    def end(self) -> None:
        """Do nothing: its lines stand."""


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Any = None
        self._task: Any = None

    def tell(self, sent: Sent) -> None:
        if self._progress is None:
            self._start(sent.total)
        self._progress.update(self._task, completed=sent.done)

    def _start(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(f"uploading for {self._what}", total=total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
