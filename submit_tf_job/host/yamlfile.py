"""Read a small YAML file: one mapping without duplicate keys, tags and aliases."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

__all__ = ["Places", "YamlProblem", "read_mapping", "unclosed_bracket"]

# Dotted path of a key → its line and column, both from 1.
Places: TypeAlias = dict[str, tuple[int, int]]


class YamlProblem(Exception):
    """An error in the text, with its line and column."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def read_mapping(text: str) -> tuple[dict[str, Any], Places]:
    """Parse a text as one mapping and return it with the position of each key; {} for an empty
    text.

    Raises:
        YamlProblem: It is not YAML, not a mapping, or has duplicate keys or aliases.
    """
    import yaml

    places: Places = {}
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
                return {}, {}
            _check(node, "", set(), places)
            if not isinstance(node, yaml.MappingNode):
                raise _problem("expected a mapping of names to values", node)
            content: dict[str, Any] = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        unclosed = unclosed_bracket(error, text)
        if unclosed is not None:
            raise YamlProblem("the bracket that begins here is never closed", *unclosed) from None
        mark, line, column = error.problem_mark or error.context_mark, 1, 1
        if mark:
            line, column = mark.line + 1, mark.column + 1
        raise YamlProblem(error.problem or "not valid YAML", line, column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise YamlProblem(
            f"the character U+{ord(text[error.position]):04X} is not allowed", line, column
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = next(iter(str(error).splitlines()), "nested too deeply")
        raise YamlProblem(f"not valid YAML: {why}") from None
    return content, places


def unclosed_bracket(error: Any, text: str) -> tuple[int, int] | None:
    """Return line and column, both from 1, of a bracket that is never closed; None for other
    errors.

    YAML's parser reads the next line as a part of the list or mapping, and fails at that line's
    ':'. A line `key: …` that is indented no more than the line of the bracket is the next key.

    Args:
        error: PyYAML's error (`MarkedYAMLError`).
        text: The text that was parsed.
    """
    began, mark = error.context_mark, error.problem_mark or error.context_mark
    if began is None or not re.search("flow (sequence|mapping)", str(error.context)):
        return None
    lines = text.splitlines()
    at, stopped = (lines[line] if line < len(lines) else "" for line in (began.line, mark.line))
    next_key = mark.line > began.line and re.match(r" *[\w.\"'-]+ *:(\s|$)", stopped) is not None
    if mark.index >= len(text) or (next_key and _indentation(stopped) <= _indentation(at)):
        return began.line + 1, began.column + 1
    return None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _check(node: Any, path: str, seen: set[int], places: Places) -> None:
    import yaml

    if id(node) in seen:
        raise _problem("aliases are not supported", node)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("a name must be a plain text", key)
            _check(key, path, seen, places)
            if key.value in names:
                raise _problem(f"{key.value!r} is there twice", key)
            names.add(key.value)
            full = f"{path}.{key.value}" if path else key.value
            places[full] = (key.start_mark.line + 1, key.start_mark.column + 1)
            _check(value, full, seen, places)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check(item, path, seen, places)


def _problem(message: str, node: Any) -> YamlProblem:
    return YamlProblem(message, node.start_mark.line + 1, node.start_mark.column + 1)
