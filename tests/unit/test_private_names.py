"""Private functions have names that say their object: how many have one word may only become smaller."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "submit_tf_job"
MOST = 836  # of the package; lower it with each package whose names are mended
NONE_IN = ("operations", "observation.py")


def one_word_names(path: Path) -> list[str]:
    names = [
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return [
        name for name in names if name[0] == "_" and "_" not in name.strip("_") and name[1] != "_"
    ]


def test_private_names_of_one_word_become_fewer() -> None:
    found = {path: one_word_names(path) for path in PACKAGE.rglob("*.py")}
    assert sum(map(len, found.values())) <= MOST
    done = {
        str(path.relative_to(PACKAGE)): names
        for path, names in found.items()
        if path.relative_to(PACKAGE).parts[0] in NONE_IN and names
    }
    assert done == {}
