"""Read a small YAML file that a person wrote: one mapping, no duplicate keys, no tags, no aliases."""

from __future__ import annotations

from typing import Any

__all__ = ["YamlProblem", "read_mapping"]


class YamlProblem(Exception):
    """What is wrong with the text, and where."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def read_mapping(text: str) -> dict[str, Any]:
    """Read the text as one mapping; an empty text is an empty mapping.

    Raises:
        YamlProblem: It is not YAML, not a mapping, or holds what a settings file has no use for.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        _check(node, set())
        if not isinstance(node, yaml.MappingNode):
            raise YamlProblem("expected a mapping of names to values")
        content: dict[str, Any] = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(error.problem or "not valid YAML", mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlProblem(f"not valid YAML: {str(error).splitlines()[0] if str(error) else 'nested too deeply'}") from None
    finally:
        loader.dispose()
    return content


def _check(node: Any, seen: set[int]) -> None:
    import yaml

    if id(node) in seen:
        raise YamlProblem("aliases are not read here", node.start_mark.line + 1, node.start_mark.column + 1)
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            if key.value in names:
                raise YamlProblem(f"{key.value!r} stands here twice", key.start_mark.line + 1, key.start_mark.column + 1)
            names.add(key.value)
            _check(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check(item, seen)
