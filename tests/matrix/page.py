"""What the matrix found: kept between runs, and written as docs/internals/matrix.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Cell", "Column", "load", "page", "save"]

HEAD = """\
# What was run where

`make matrix` runs everything below and writes this page; a run of a part (`make matrix PART=NAME`; `make matrix-parts` lists them) replaces only that part.
A cell is `ok`, the number of a note that says what went wrong, or `-` where nothing was to be run.
"""
HADOOP_HEAD = """
## Hadoop

Each column is a real cluster on one machine (`submit_tf_job sandbox up --hadoop VERSION`), started for this run and taken down after it:
ZooKeeper, HDFS, ResourceManager, NodeManager, Registry DNS. Every row calls the command line as users do, and asserts exit status, verdict
and, where a job is over, that no process of it is left. `system` and `direct` are the two ways in which containers find names.
"""
PYTHON_HEAD = """
## Python

Each row is a throw-away virtual environment with the package installed into it, and every test that needs no cluster
(`pytest -m 'not cluster and not long'`) run against what was installed. *Lowest* has the lowest version of each dependency that the package
allows. What travels into containers is tested on older Pythons as well, by the tests of the bootstrap themselves.
"""


@dataclass(frozen=True)
class Cell:
    """One thing that was run. `note` says what went wrong, or, where all is well, what there is to
    add.
    """

    ok: bool
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Column:
    """One cluster or one Python, and what was run on it."""

    kind: str  # hadoop or python
    title: str
    date: str
    revision: str
    cells: Mapping[str, Cell] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything passed."""
        return all(cell.ok for cell in self.cells.values())


def load(path: Path) -> dict[str, Column]:
    """Read what earlier runs found."""
    if not path.exists():
        return {}
    found = {}
    for title, column in json.loads(path.read_text()).items():
        column["cells"] = {name: Cell(**cell) for name, cell in column["cells"].items()}
        found[title] = Column(**column)
    return found


def save(path: Path, columns: Mapping[str, Column]) -> None:
    """Keep what was found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {title: asdict(column) for title, column in columns.items()}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def page(columns: list[Column], rows: Mapping[str, str]) -> str:
    """Write the page.

    Args:
        columns: In the order in which they are shown.
        rows: Name of a check on a cluster → what it does.
    """
    notes: list[str] = []
    clusters = [column for column in columns if column.kind == "hadoop"]
    lines = [*HEAD.splitlines(), *HADOOP_HEAD.splitlines(), "", *_clusters(clusters, rows, notes)]
    lines += [*PYTHON_HEAD.splitlines(), ""]
    lines += _pythons([column for column in columns if column.kind == "python"], notes)
    if notes:
        lines += ["", "## Notes", ""]
        lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(lines) + "\n"


def _clusters(columns: list[Column], rows: Mapping[str, str], notes: list[str]) -> Iterator[str]:
    yield "| | " + " | ".join(column.title for column in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name, about in rows.items():
        cells = (_cell(column.cells.get(name), column.title, notes) for column in columns)
        yield f"| {about} | " + " | ".join(cells) + " |"
    yield "| run on | " + " | ".join(column.date for column in columns) + " |"
    yield "| at revision | " + " | ".join(column.revision for column in columns) + " |"


def _pythons(columns: list[Column], notes: list[str]) -> Iterator[str]:
    yield "| Python | result | what | run on | at revision |"
    yield "|---|---|---|---|---|"
    for column in columns:
        cell = column.cells["tests"]
        found = (_cell(cell, column.title, notes), cell.note if cell.ok else "")
        yield f"| {column.title} | {' | '.join(found)} | {column.date} | {column.revision} |"


def _cell(cell: Cell | None, title: str, notes: list[str]) -> str:
    if cell is None:
        return "-"
    if cell.ok:
        return "ok"
    notes.append(f"{title}: {' '.join(cell.note.split())}")
    return f"FAILED, note {len(notes)}"
