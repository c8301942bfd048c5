"""docs/internals/promises.md: each promise has a test that is there, and `make test` runs one."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from tests.matrix.clusters import ROWS, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/promises.md"
STAGES = runpy.run_path(str(ROOT / ".ci/stages"), run_name="stages")
IN_MAKE_TEST = tuple(STAGES["UNIT"] + STAGES["FAST"] + STAGES["PROMISES"])


def table(page: Path, columns: int, heading: str = "") -> list[list[str]]:
    """Return the rows of the first table of so many columns below a heading."""
    text = page.read_text("utf-8")
    lines = text[text.index(heading) :].splitlines()
    rows = [re.split(r"\s+\|\s+", line.strip("| ")) for line in lines if line.startswith("|")]
    return [row for row in rows if len(row) == columns and not set(row[0]) <= set("-|")][1:]


PROMISES = table(PAGE, 3)


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def is_in_make_test(test: str) -> bool:
    """Return whether `.ci/stages` names a test, its file, or a folder that it is in."""
    return any(
        test == named or test.startswith((f"{named}/", f"{named}::")) for named in IN_MAKE_TEST
    )


def test_no_file_is_named_beside_its_directory() -> None:
    """Pytest collects the directory in its own order then, and what waits longest begins last."""
    named = STAGES["UNIT"] + STAGES["FAST"] + STAGES["PROMISES"]
    inside = [
        one for one in named for other in named if one.startswith((f"{other}/", f"{other}::"))
    ]
    assert inside == []
    assert all((ROOT / one.partition("::")[0]).exists() for one in named)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_row_of_the_matrix_has_its_test(row: Row) -> None:
    assert row.test.partition("[")[0] in functions(ROOT / row.file)


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: str(row[0])[:60])
def test_promise_has_a_test_that_make_test_runs(row: list[str]) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[2])
    assert tests, f"no test proves: {row[0]}"
    for path, name in tests:
        assert (ROOT / path).exists(), path
        assert name in functions(ROOT / path), f"{path}::{name} is gone"
    fast = [f"{path}::{name}" for path, name in tests if is_in_make_test(f"{path}::{name}")]
    assert fast or "not in `make test`" in row[2], f"`make test` does not prove: {row[0]}"


def test_each_row_of_the_verdicts_is_a_promise() -> None:
    promised = [row[0] for row in PROMISES if row[0].startswith("verdict: ")]
    for status, outcome, verdict, _confirmed in table(
        ROOT / "docs/verdict.md", 4, "| YARN's final status"
    ):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", outcome)
        status = status.partition(",")[0]
        said = f"verdict: {status}, {words}" if re.search(r"\w", words) else f"verdict: {status}"
        assert said in promised, (said, verdict)


def test_each_scheduler_s_recipe_is_a_promise() -> None:
    text = (ROOT / "docs/schedulers.md").read_text("utf-8")
    recipes = " ".join(row[0] for row in PROMISES if row[0].startswith("Recipe: "))
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [name for name in headings[1:] if name not in recipes] == []
