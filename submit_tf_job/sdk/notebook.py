"""The live view of a job in a notebook: one output that is redrawn with each status."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from submit_tf_job.operations.comparison import Comparison
from submit_tf_job.report.comparison_text import comparison_lines, comparison_rows
from submit_tf_job.report.curves import curve_svg
from submit_tf_job.report.list_text import listing_lines, listing_rows
from submit_tf_job.report.live_view import JobView
from submit_tf_job.report.table import clean

if TYPE_CHECKING:
    from submit_tf_job.operations.cluster import Cluster
    from submit_tf_job.operations.listing import ListedJob

_WIDTH, _HEIGHT = 120, 40  # the width of a cell; the browser scrolls wider lines
# Colours are the notebook's own; some notebooks set another font for <pre>.
_STYLE = "font-family: monospace; line-height: 1.25; overflow-x: auto"


def in_notebook() -> bool:
    """Return whether this program runs in a notebook's kernel, which can display objects."""
    ipython = sys.modules.get("IPython")  # only a kernel has imported it
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def notebook_view(cluster: Cluster, *, with_lines: bool) -> JobView:
    """Display a live view below the current cell, and return it; its `take` draws it anew.

    Args:
        cluster: The job's cluster.
        with_lines: Whether to show the last log line of each task.
    """
    display: Any = import_module("IPython.display").display
    handle = display(_escaped_lines(["looking …"]), raw=True, display_id=True)

    def show(view: JobView) -> None:
        metric = view.usage and view.usage.main_metric
        curve = curve_svg(metric) if metric else ""
        handle.update(_escaped_lines(list(view.draw(_WIDTH, _HEIGHT)), curve), raw=True)

    return JobView(
        cluster,
        show,
        with_lines=with_lines,
        leave="Interrupting the kernel detaches",
        with_cause=True,
    )


def _escaped_lines(lines: list[str], curve: str = "") -> dict[str, str]:
    """Return lines, and a curve (SVG) below them, by MIME type, as IPython displays them. The lines
    are escaped, because logs and messages of servers may contain HTML.
    """
    text = "\n".join(clean(line) for line in lines)
    block = f'<pre style="{_STYLE}">{html.escape(text)}</pre>{curve}'
    return {"text/plain": text, "text/html": block}


class ListedJobs(tuple["ListedJob", ...]):
    """Jobs, newest first: a tuple that a shell and a notebook show as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(listing_lines(self))

    def _repr_html_(self) -> str:
        return html_table(listing_rows(self))


class ComparedRuns(Comparison):
    """Runs side by side, which a shell and a notebook show as a table."""

    def __repr__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        return html_table(comparison_rows(self))


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, of which the first is the heading, as an HTML table with escaped cells."""

    def row(cells: Sequence[str], tag: str) -> str:
        style = "text-align: left; font-family: monospace"
        return "".join(
            f'<{tag} style="{style}">{html.escape(clean(cell))}</{tag}>' for cell in cells
        )

    heading, *others = rows
    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in others)
    return f"<table><thead><tr>{row(heading, 'th')}</tr></thead><tbody>{body}</tbody></table>"
