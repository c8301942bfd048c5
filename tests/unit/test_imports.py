"""No module of the package imports itself by way of others, imports in functions counted."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "submit_tf_job"


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below `node` without those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from run_time_nodes(child)


def imported(text: str, package: str, modules: Container[str]) -> Iterator[str]:
    """Yield what a text imports: `from a import b` imports the module a.b, if there is one, else a."""
    for node in run_time_nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            inner = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else base for name in inner)


def graph(modules: Mapping[str, tuple[str, str]]) -> dict[str, set[str]]:
    """Return the modules that each module imports; `modules` has package and text of each."""
    return {
        name: {found for found in imported(text, package, modules) if found in modules} - {name}
        for name, (package, text) in modules.items()
    }


def circle(modules: Mapping[str, tuple[str, str]]) -> list[str]:
    try:
        TopologicalSorter(graph(modules)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
def test_no_circle_of_modules() -> None:
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        modules[name] = package, path.read_text("utf-8")
    assert circle(modules) == []


@pytest.mark.parametrize(
    ("imports_a", "is_circle"),
    [
        ("from p.a import x", True),
        ("from p import a", True),
        ("from . import a", True),
        ("from .a import x", True),
        ("def f():\n    import p.a", True),
        ("if TYPE_CHECKING:\n    from p.a import x", False),
        ("from p import c", False),
    ],
)
def test_circle_counts_imports_in_functions(imports_a: str, is_circle: bool) -> None:
    modules = {"p.a": ("p", "from p.b import y"), "p.b": ("p", imports_a), "p.c": ("p", "")}
    assert bool(circle(modules)) == is_circle
