"""The short form of the modules that travel with every job."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from submit_tf_job import bootstrap, contract
from tests.bootstrap.slim import slim

BOOTSTRAP = Path(next(iter(bootstrap.__path__)))
MODULES = [Path(contract.__file__), BOOTSTRAP.parent / "tfconfig.py", *sorted(BOOTSTRAP.glob("*.py"))]


def bare(source: str) -> str:
    """Return the syntax tree without docstrings, annotations and what only type checkers read."""

    class Stripped(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                if ast.get_docstring(node, clean=False) is not None:
                    del node.body[0]
                node.body = [item for item in node.body if not isinstance(item, ast.Pass)]
            if isinstance(node, ast.FunctionDef):
                node.returns = None
            if isinstance(node, ast.arg):
                node.annotation = None
            return node

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            self.generic_visit(node)
            return ast.Assign([node.target], node.value) if node.value else ast.Pass()

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
            return ast.Pass() if node.module == "__future__" else node

        def visit_If(self, node: ast.If) -> ast.AST:
            self.generic_visit(node)
            return ast.Pass() if ast.dump(node.test) == ast.dump(ast.Name("TYPE_CHECKING", ast.Load())) else node

        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            self.generic_visit(node)
            return ast.Pass() if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "TYPE_CHECKING" else node

    return ast.dump(Stripped().visit(ast.parse(source)))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_short_form_means_the_same(path: Path) -> None:
    source = path.read_text()
    short = slim(source)
    assert bare(short) == bare(source)
    assert len(short) < 0.8 * len(source)
    assert '"""' not in short


def test_short_form() -> None:
    source = '''"""Doc."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Gone(Exception):
    """Only a docstring."""


def f(a: int, *rest: str, b: dict[str, int] | None = None) -> tuple[int, int]:  # a comment
    """Doc."""
    value: list[Any] = [
        a,  # one
        "# no comment",
    ]
    if a and (
        b
        or rest
    ):
        return value, not b
    return -1, 2
'''
    assert slim(source) == (
        "class Gone(Exception):\n pass\n"
        'def f(a,*rest,b=None):\n value=[a,"# no comment",]\n if a and(b or rest):\n  return value,not b\n return-1,2\n'
    )
