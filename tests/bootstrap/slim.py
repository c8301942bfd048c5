"""Source text without what a machine does not need: docstrings, comments, annotations, spaces.

A third of the compressed size of the bootstrap goes so. The result depends on the text alone, not on the Python that runs this.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER})


def slim(source: str) -> str:
    """Return an equivalent, shorter source text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    if not source.isascii():
        raise ValueError("positions in the syntax tree are bytes; this works on ASCII")
    end, short = len(source), source
    for first, last, instead in sorted(_cuts(ast.parse(source), source, starts), reverse=True):
        if last <= end:
            short, end = short[:first] + instead + short[last:], first
    return "".join(_squeezed(short))


def _cuts(tree: ast.AST, source: str, starts: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield what goes: start, end, and what comes instead."""

    def span(node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            yield (*span(node.body[0]), "pass")
        if isinstance(node, ast.FunctionDef) and node.returns:
            first, last = span(node.returns)
            yield source.rindex("->", 0, first), last, ""
        if isinstance(node, ast.arg) and node.annotation:
            yield span(node)[0] + len(node.arg), span(node)[1], ""
        if isinstance(node, ast.AnnAssign):
            yield (span(node.target)[1], span(node.annotation)[1], "") if node.value else (*span(node), "pass")
        if (
            (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            or (isinstance(node, ast.If) and _is_type_checking(node.test))
            or (isinstance(node, ast.Assign) and _is_type_checking(node.targets[0]))
        ):
            yield (*span(node), "pass")


def _is_type_checking(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def _squeezed(source: str) -> Iterator[str]:
    """Yield the tokens with one blank per level of indentation, one line per statement, and no `pass` that is not needed."""
    depth, line = 0, ""
    lines: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type == tokenize.NEWLINE:
            lines.append((depth, line))
            line = ""
        elif token.type not in LAYOUT:
            before = line[-1:]
            gap = " " if (before.isalnum() or before == "_") and (token.string[0].isalnum() or token.string[0] == "_") else ""
            line += gap + token.string
    for number, (depth, line) in enumerate(lines):
        opens = number > 0 and lines[number - 1][0] < depth
        ends = number + 1 == len(lines) or lines[number + 1][0] < depth
        if line != "pass" or (opens and ends):
            yield " " * depth + line + "\n"
