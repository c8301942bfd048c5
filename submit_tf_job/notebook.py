"""The live view of a job in a notebook: one output that is drawn anew at each look, as `watch` does on a terminal."""

from __future__ import annotations

import html
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.picture import JobPicture
from submit_tf_job.report.untrusted import clean

if TYPE_CHECKING:
    from submit_tf_job.api import Cluster

__all__ = ["in_notebook", "notebook_picture"]

_WIDTH, _HEIGHT = 120, 40  # what fits a cell; the browser scrolls what is wider
_STYLE = "line-height: 1.25; overflow-x: auto"  # colours are the notebook's own


def in_notebook() -> bool:
    """Say whether this program runs in a notebook's kernel, which shows what is displayed."""
    ipython = sys.modules.get("IPython")  # a kernel has it; nobody else needs it for this
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def notebook_picture(cluster: Cluster, *, with_lines: bool) -> JobPicture:
    """Make a live view below the cell that runs now.

    Args:
        cluster: Where the job is.
        with_lines: Whether the last log line of each task is shown.
    """
    display: Any = import_module("IPython.display").display
    handle = display(_bundle(["looking …"]), raw=True, display_id=True)

    def show(picture: JobPicture) -> None:
        handle.update(_bundle(list(picture.draw(_WIDTH, _HEIGHT))), raw=True)

    return JobPicture(cluster, show, with_lines=with_lines, leave="Interrupting the kernel leaves")


def _bundle(lines: list[str]) -> dict[str, str]:
    """Write lines for a notebook; what logs and servers wrote in them is text there, whatever it looks like."""
    text = "\n".join(clean(line) for line in lines)
    return {"text/plain": text, "text/html": f'<pre style="{_STYLE}">{html.escape(text)}</pre>'}
