"""Make `bootstrap.zip`: all modules of `container`, which `python3 bootstrap.zip` runs.

There is one zip for each version of this package, and it does not depend on the job. Annotations
are removed, because Python 3.6 would try to evaluate them and fail; imports that only annotations
need are removed, too. A wheel contains the zip (hatch_build.py); a checkout makes it when the
modules have changed, which takes half a second, and keeps it beside their bytecode.

The build hook runs this file by itself: it imports the standard library alone.
"""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

FLOOR = (3, 6)  # the oldest Python that runs the zip
_CONTAINER = Path(__file__).parents[1] / "container"
_MAIN = "__main__.py"  # at the top of the zip, so that Python runs it
_1980 = (1980, 1, 1, 0, 0, 0)  # the oldest date that a zip can hold


@lru_cache(maxsize=1)
def bootstrap_zip() -> bytes:
    """Return the zip of this version."""
    packed = _CONTAINER / "bootstrap.zip"
    if packed.exists():
        return packed.read_bytes()
    sources = _module_sources(_CONTAINER)
    digest = hashlib.sha256(repr((sources, Path(__file__).read_bytes())).encode()).hexdigest()
    kept = _CONTAINER / "__pycache__" / f"bootstrap-{digest[:16]}.zip"
    with suppress(OSError):
        return kept.read_bytes()
    made = build()
    with suppress(OSError):  # another user's checkout
        kept.parent.mkdir(exist_ok=True)
        with NamedTemporaryFile(dir=kept.parent, delete=False) as part:
            part.write(made)
        Path(part.name).replace(kept)
    return made


def build(container: Path = _CONTAINER) -> bytes:
    """Make the zip; equal modules give equal bytes.

    Raises:
        SyntaxError: A module uses syntax that Python 3.6 does not know.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, source in {"submit_tf_job/__init__.py": "", **_module_sources(container)}.items():
            tree = ast.fix_missing_locations(_Bare().visit(ast.parse(source, name)))
            bare = ast.unparse(_without_unused_imports(tree))
            ast.parse(bare, name, feature_version=FLOOR)
            entry = zipfile.ZipInfo(name, _1980)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, bare + "\n", zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def _without_unused_imports(module: ast.Module) -> ast.Module:
    """Return a module without the imports that it does not use any more, because only its
    annotations needed them.
    """
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    for node in [node for node in module.body if isinstance(node, ast.ImportFrom)]:
        node.names = [alias for alias in node.names if (alias.asname or alias.name) in used]
        if not node.names:
            module.body.remove(node)
    return module


def _module_sources(container: Path) -> dict[str, str]:
    """Return the text of each module, by its name in the zip."""
    found = {}
    for path in sorted(container.rglob("*.py")):
        name = path.relative_to(container).as_posix()
        inside = name if name == _MAIN else f"submit_tf_job/container/{name}"
        found[inside] = path.read_text("utf-8")
    return found


class _Bare(ast.NodeTransformer):
    """Removes annotations and docstrings; a syntax tree has no comments anyway."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef | ast.Module) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Pass()
        return self.generic_visit(node)
