"""Tests enter by the doors that users have: how many names of the package's inside they import may
only become smaller.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLIC = ("submit_tf_job", "submit_tf_job.errors")
MOST = 267  # lower it with each test that goes to a door


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a test imports from the package's inside."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("submit_tf_job"):
            for name in node.names:
                module = node.module or ""
                inner = (ROOT / module.replace(".", "/") / name.name).with_suffix(".py")
                if module not in PUBLIC or inner.exists() or inner.with_suffix("").is_dir():
                    yield module, name.name


def test_imports_of_the_inside_become_fewer() -> None:
    names = {found for path in (ROOT / "tests").rglob("*.py") for found in imported(path)}
    assert len(names) <= MOST, f"{len(names)} names: test through a door instead"
