"""docs/security.md: every threat has a test, and the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENOUGH = 25


def rows() -> list[list[str]]:
    text = (ROOT / "docs/security.md").read_text("utf-8")
    table = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    return [re.split(r"\s*\|\s*", line)[1:-1] for line in table]


def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_threats_are_numbered() -> None:
    assert [row[0] for row in rows()] == [str(number + 1) for number in range(len(rows()))]
    assert len(rows()) >= ENOUGH


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row[0]))
def test_each_threat_has_a_countermeasure_and_a_test(row: list[str]) -> None:
    assert len(row) == 5, row
    assert row[1], row
    assert row[2], row
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[4])
    assert found, row[4]
    assert found[2] in functions(ROOT / found[1]), found[0]


def test_each_threat_has_a_test_of_its_own() -> None:
    tests = [row[4] for row in rows()]
    assert len(set(tests)) == len(tests)
