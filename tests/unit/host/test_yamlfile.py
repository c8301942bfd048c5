"""Small YAML files: one mapping, and the place of everything in it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.host.yamlfile import YamlProblem, read_mapping


def test_read_mapping_returns_keys_and_their_places() -> None:
    content, places = read_mapping("a: 1\nb:\n  c: {d: x, 2: true}\nf: [{g: 1}]\n")
    assert content == {"a": 1, "b": {"c": {"d": "x", 2: True}}, "f": [{"g": 1}]}
    assert places == {
        "a": (1, 1),
        "b": (2, 1),
        "b.c": (3, 3),
        "b.c.d": (3, 7),
        "b.c.2": (3, 13),
        "f": (4, 1),
        "f.g": (4, 6),
    }


@pytest.mark.parametrize("text", ["", "\n", "# a comment\n", "---\n", "{}", "\ufeff"])
def test_read_mapping_of_an_empty_text(text: str) -> None:
    assert read_mapping(text)[0] == {}


PROBLEMS = [
    ("[1]", 1, 1, "expected a mapping of names to values"),
    ("\n- a\n", 2, 1, "expected a mapping of names to values"),
    ("text", 1, 1, "expected a mapping of names to values"),
    ("a: 1\na: 2", 2, 1, "'a' is there twice"),
    ("a:\n  b: 1\n  c: 2\n  b: 3", 4, 3, "'b' is there twice"),
    ("a: [{b: 1, b: 2}]", 1, 12, "'b' is there twice"),
    ("1: a\n'1': b", 2, 1, "'1' is there twice"),
    ("a: &x 1\nb: *x", 1, 4, "aliases are not supported"),
    ("a: &x [*x]", 1, 4, "aliases are not supported"),
    ("a: &x b\n*x : 1", 1, 4, "aliases are not supported"),
    ("a: *x", 1, 4, "found undefined alias 'x'"),
    ("? [a, b]\n: c", 1, 3, "a name must be a plain text"),
    ("? {a: b}\n: c", 1, 3, "a name must be a plain text"),
    ("a: !!python/object/apply:os.system [ls]", 1, 4, "could not determine a constructor for the tag 'tag:yaml.org,2002:python/"),
    ("a: 1\n---\nb: 2", 2, 1, "but found another document"),
    ("a:\n\tb: 1", 2, 1, "found character '\\t' that cannot start any token"),
    ('a: "x', 1, 6, "found unexpected end of stream"),
    ("ok: 1\na: b\x00", 2, 5, "the character U+0000 is not allowed"),
    ("a: \ud800", 1, 4, "the character U+D800 is not allowed"),
    ("a: 2024-13-45", 1, 1, "not valid YAML: month must be in 1..12"),
    ("a: " + "[" * 1500, 1, 1, "not valid YAML: maximum recursion depth exceeded"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), PROBLEMS)
def test_what_is_refused(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(YamlProblem) as problem:
        read_mapping(text)
    assert problem.value.message.startswith(message)
    assert (problem.value.line, problem.value.column) == (line, column)


def outcome(text: str) -> tuple[object, list[tuple[int, int]]]:
    try:
        content, places = read_mapping(text)
    except YamlProblem as problem:
        return {}, [(problem.line, problem.column)]
    return content, list(places.values())


# YAML's further ends of lines
UNBROKEN = st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029")


@given(st.text(UNBROKEN, max_size=40) | st.text("{}[]:,?&*!|>'\"%@`# \n-ab1", max_size=30))
def test_read_mapping_of_any_text(text: str) -> None:
    content, places = outcome(text)
    assert isinstance(content, dict)
    assert all(1 <= line <= text.count("\n") + 2 and column >= 1 for line, column in places)


def test_yaml_is_imported_only_when_a_file_is_read() -> None:
    code = (
        "import sys, submit_tf_job.host.yamlfile, submit_tf_job.settings as s\n"
        "s.load_settings(environ={'HOME': '/nowhere'}); print('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd="/",
    )
    assert done.stdout == "False\n"
