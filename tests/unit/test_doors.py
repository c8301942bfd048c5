"""Numbers that may only become smaller: names of the package's inside that tests import, because
tests enter by the doors that users have; private functions whose name is one word, because a name
says its object.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = ("submit_tf_job", "submit_tf_job.errors")
MOST = 282  # lower it with each test that goes to a door; 15 are pure functions of use and curves


# the share of private functions whose name is one word, in percent; lower it with each renaming
ONE_WORD = {
    "": 1,
    "container/rendezvous": 0,
    "jobspec/kinds.py": 0,
    "observation.py": 0,
    "operations": 0,
    "yarn": 0,
}


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a test imports from the package's inside."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("submit_tf_job"):
            for name in node.names:
                module = node.module or ""
                inner = (ROOT / module.replace(".", "/") / name.name).with_suffix(".py")
                if module not in PUBLIC or inner.exists() or inner.with_suffix("").is_dir():
                    yield module, name.name


@pytest.mark.slow
def test_imports_of_the_inside_become_fewer() -> None:
    names = {found for path in (ROOT / "tests").rglob("*.py") for found in imported(path)}
    assert len(names) <= MOST, f"{len(names)} names: test through a door instead"


def private_functions(place: Path) -> Iterator[str]:
    """Yield the names of the private functions and methods in a module or package."""
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    for path in paths:
        # without `_missing_`, which Enum names
        yield from re.findall(
            r"(?m)^ *(?:async )?def (_[a-z0-9]\w*(?<!_))\(", path.read_text("utf-8")
        )


@pytest.mark.parametrize("place", ONE_WORD)
def test_private_functions_with_names_of_one_word_become_fewer(place: str) -> None:
    names = list(private_functions(ROOT / "submit_tf_job" / place))
    one_word = [name for name in names if "_" not in name[1:]]
    share = 100 * len(one_word) / len(names)
    assert share <= ONE_WORD[place], f"{len(one_word)} of {len(names)}: {sorted(set(one_word))}"
