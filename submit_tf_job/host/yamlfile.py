"""Read a small YAML file that a person wrote: one mapping, no duplicate keys, no tags, no aliases."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Places", "YamlProblem", "read_mapping"]

# Dotted path of a key → its line and column, both from 1.
Places: TypeAlias = dict[str, tuple[int, int]]


class YamlProblem(Exception):
    """What is wrong with the text, and where."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def read_mapping(text: str) -> tuple[dict[str, Any], Places]:
    """Read the text as one mapping, and say where each key stands; an empty text is an empty mapping.

    Raises:
        YamlProblem: It is not YAML, not a mapping, or holds what a settings file has no use for.
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
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(error.problem or "not valid YAML", mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        raise YamlProblem(f"the character U+{ord(text[error.position]):04X} cannot stand here", line, column) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlProblem(f"not valid YAML: {str(error).splitlines()[0] if str(error) else 'nested too deeply'}") from None
    return content, places


def _check(node: Any, path: str, seen: set[int], places: Places) -> None:
    import yaml

    if id(node) in seen:
        raise _problem("aliases are not read here", node)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("a name must be a plain text", key)
            _check(key, path, seen, places)
            if key.value in names:
                raise _problem(f"{key.value!r} stands here twice", key)
            names.add(key.value)
            full = f"{path}.{key.value}" if path else key.value
            places[full] = (key.start_mark.line + 1, key.start_mark.column + 1)
            _check(value, full, seen, places)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check(item, path, seen, places)


def _problem(message: str, node: Any) -> YamlProblem:
    return YamlProblem(message, node.start_mark.line + 1, node.start_mark.column + 1)
