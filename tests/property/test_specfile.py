"""Any job spec is either a Job or one JobSpecError, in bounded time."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import Defaults, loads, schema
from submit_tf_job.jobspec.job import Job
from tests.examples import examples

SLOW = [HealthCheck.too_slow]
relaxed = settings(deadline=None, max_examples=examples(120), suppress_health_check=SLOW)
BASE: dict[str, Any] = {
    "name": "t",
    "image": "i",
    "command": "c",
    "strategy": "single",
    "roles": {"chief": {"memory": "1Gi"}},
}


def outcome(text: str | bytes, source: str = "train.yaml", **more: Any) -> Job | str:
    """Return the job, or all of the error's text; let any other exception pass."""
    try:
        return loads(text, source=source, base=None, **more)
    except JobSpecError as error:
        problems = error.problems
        assert problems
        assert list(problems) == sorted(problems)
        # one line each, and nothing that moves a terminal's cursor
        assert all(str(problem).isprintable() for problem in problems)
        return str(error)


# --- any bytes ------------------------------------------------------------------------------------

yaml_ish = st.text(alphabet="abn01:-[]{},&*!|>'\"%@`#?~<=. \t\n\r\\/é\u2028\x85\x00", max_size=80)


@relaxed
@given(yaml_ish, st.sampled_from(["train.yaml", "train.json"]))
@example("? a\n", "train.yaml")
@example("&a *a\n", "train.yaml")
@example("%YAML 1.1\n", "train.yaml")
@example("!!int x: 1\n", "train.yaml")
@example("a: !<tag:x> 1\n", "train.yaml")
def test_any_text_that_looks_like_yaml(text: str, source: str) -> None:
    outcome(text, source)


# --- any tree -------------------------------------------------------------------------------------

SCHEMA = schema()
OF_ROLES = SCHEMA["definitions"]["role"]["properties"]
WORDS = sorted({*SCHEMA["properties"], *OF_ROLES, "policy", "src"})
VALUES = """\
4Gi 30s 1h30m on-failure never single multi-worker custom estimator parameter-server node rack host
inline /a:/b /a:/b:rw counts none literal chief hdfs:///a.zip a/b@C file:///k x 010 yes 1.10"""
scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.integers(min_value=0, max_value=4)),
    *(st.floats(), st.dates(), st.text(max_size=8), st.sampled_from(VALUES.split())),
)
keys = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["chief", "worker", "ps", "evaluator", "master", "tb", "A", "http"]),
    st.text(max_size=5),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
GOOD: dict[str, list[Any]] = {
    "description": ["", "a line", "yes"],
    "queue": ["ml", "root.a.b"],
    "env": [{}, {"A": "b", "_C": ""}, {"N": "1", "Y": "yes", "D": "2024-01-31", "O": "010"}],
    "mounts": [[], ["/a:/b"], ["/a:/b:rw", "/a:/c/"]],
    "network": ["host", "bridge", "net_1"],
    "hadoop": [{"conf": "/etc/hadoop/conf"}, {"conf": "hdfs:///a/b.tgz"}],
    "kerberos": [{"principal": "a/b@C", "keytab": "hdfs:///k"}],
    "lifetime": ["1d", "1h30m", "3650d"],
    "grace": ["1s", "90s"],
    "tf_config": ["counts", "none"],
    "python": ["python3", "/opt/py-3.9/bin/python"],
    "legacy_master": [False, True],
    "deciding_role": ["chief", "worker", "tb"],
    "docker_client_config": ["/a/b", "hdfs:///a"],
}
GOOD_ROLE: dict[str, list[Any]] = {
    "cpus": [1, 10_000],
    "gpus": [0, 1],
    "shape": ["big"],
    "image": ["other:1"],
    "command": ["y", ["a", ""], ["a", "1", "yes"]],
    "env": GOOD["env"],
    "mounts": GOOD["mounts"],
    "placement": [
        {},
        {"spread": "node", "together": "rack"},
        {"node_label": "x", "node_attributes": {"a.b/c": ["d"], "e": "f"}},
    ],
    "restart": ["never", "on-failure", {"policy": "on-failure", "max": 1}],
    "tolerate": [0, 1],
    "ports": [{"http": 1}, {"a-b": 65535}],
}
ROLES = {
    "single": "chief|worker|chief tb",
    "multi-worker": "worker|chief worker|worker evaluator tb|worker ps",
    "parameter-server": "chief worker ps|master worker ps evaluator|worker ps",
    "estimator": "chief|master worker ps|chief evaluator|worker",
    "custom": "tb|a b|chief worker ps",
}


@st.composite
def likely(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a job spec that is good more often than not."""

    def some(pool: dict[str, list[Any]], most: int) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(sorted(pool)), max_size=most, unique=True))
        return {key: draw(st.sampled_from(pool[key])) for key in chosen}

    strategy = draw(st.sampled_from(sorted(ROLES)))
    roles = {}
    for name in draw(st.sampled_from(ROLES[strategy].split("|"))).split():
        several = name in ("worker", "ps", "tb") and strategy != "single"
        command = {"command": "z"} if name in ("tb", "a", "b") else {}
        memory = draw(st.sampled_from(["1Gi", "512Mi"]))
        roles[name] = {"memory": memory, **command, **some(GOOD_ROLE, 2)}
        if several and draw(st.booleans()):
            roles[name]["instances"] = draw(st.integers(min_value=1, max_value=4))
    return {**BASE, "strategy": strategy, "roles": roles, **some(GOOD, 2)}


def edited(tree: Any, path: list[int], new: Any) -> Any:
    """Put another value somewhere into a tree."""
    if not path or not isinstance(tree, (dict, list)) or not tree:
        return new
    if isinstance(tree, list):
        at = path[0] % len(tree)
        return [*tree[:at], edited(tree[at], path[1:], new), *tree[at + 1 :]]
    key = sorted(tree, key=str)[path[0] % len(tree)]
    return {**tree, key: edited(tree[key], path[1:], new)}


def agree(tree: dict[str, Any]) -> None:
    """The reader is at least as strict as the schema, and YAML and JSON mean the same."""
    defaults = Defaults(shapes={"big": {"memory": "2Gi", "cpus": 2}})
    text = json.dumps(tree, default=str)
    as_json = outcome(text, "train.json", defaults=defaults)
    as_yaml = outcome(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False), defaults=defaults)
    event(type(as_json).__name__)
    if isinstance(as_json, Job):
        VALIDATOR.validate(json.loads(text))
    if isinstance(as_yaml, Job):
        assert as_yaml == as_json


@relaxed
@given(trees)
def test_any_tree(tree: Any) -> None:
    outcome(yaml.safe_dump(tree, allow_unicode=True))


@relaxed
@given(likely())
def test_likely_trees_mean_the_same_to_reader_and_schema(tree: dict[str, Any]) -> None:
    agree(tree)


@relaxed
@given(likely(), st.lists(st.integers(0, 20), min_size=2, max_size=4), st.one_of(scalars, trees))
def test_likely_trees_with_something_odd(tree: dict[str, Any], path: list[int], odd: Any) -> None:
    agree(edited(tree, path, odd))


# --- --set ----------------------------------------------------------------------------------------

shown = st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\ufffe\uffff")
printable = st.text(alphabet=shown, max_size=30)
steps = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["chief", "worker", "A", "[0]", "[9]", "", "a[0]", "files[0]", "command[0]"]),
    st.text(max_size=4),
)


settings_of_paths = st.builds(
    lambda path, value: f"{'.'.join(path)}={value}",
    st.lists(steps, max_size=4),
    st.text(max_size=12),
)


@relaxed
@given(st.lists(st.text(max_size=30) | settings_of_paths))
def test_any_override(overrides: list[str]) -> None:
    outcome(json.dumps(BASE), overrides=overrides)


@relaxed
@given(printable.filter(lambda text: bool(text.strip()) and text.lstrip()[:1] not in "[{"))
def test_set_command_takes_a_script_as_it_is(script: str) -> None:
    job = outcome(json.dumps(BASE), overrides=[f"command={script}"])
    assert isinstance(job, Job)
    assert job.roles["chief"].command.script == script


# --- bombs ----------------------------------------------------------------------------------------


MAX_BYTES = 1024 * 1024


def filled(unit: str, head: str = "", tail: str = "") -> str:
    """Repeat a unit up to 1 MiB."""
    room = MAX_BYTES - len(head.encode()) - len(tail.encode())
    return head + unit * (room // len(unit.encode())) + tail


LAUGHS = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)]
NESTED = [f"a{n}: &a{n} {{x: *a{n - 1}}}\n" for n in range(1, 90)]
BOMBS = {
    "nothing": "",
    "billion laughs": "".join(["a0: &a0 lol\n", *LAUGHS]),
    "nested aliases": "".join(["a0: &a0 {}\n", *NESTED]),
    **{unit: filled(unit) for unit in ("[", "{", "{a: ", "- ", "? ", '{"a":', '"', "'")},
    **{unit: filled(unit) for unit in ("&a ", "*a ", "!", "!a ", "--- a\n", "#\n", "\n", " ")},
    **{unit: filled(unit) for unit in ("\t", "a", "a\n", "a: 1\n")},
    "directives": filled("%TAG !a! x\n", head="#\n"),
    "directives of a second document": filled("%TAG !a! x\n", head="name: t\n...\n"),
    "one number": filled("1", head="name: "),
    "sexagesimal": filled("1:", head="env: {A: 1", tail="1}"),
    "underscores": filled("1_", head="env: {A: ", tail="}"),
    "a key": filled("a", tail=": 1"),
    "mounts": filled("- /a:/b\n", head="mounts:\n"),
    "one long mount": filled("/b", head="mounts: ['/a:", tail="']"),
    "one long dst": filled("a/", head="files: [{src: x, dst: '", tail="'}]"),
    "one long duration": filled("1h", head="lifetime: "),
    "roles": "roles:\n" + "".join(f" a{n}: {{}}\n" for n in range(9_000)),
    "unknown keys": "".join(f"key{n}: 1\n" for n in range(9_000)),
    "long unknown keys": "".join(f"{'k' * 90}{n}: 1\n" for n in range(9_000)),
    "escapes": filled("\\u0041", head='name: "', tail='"'),
    "JSON keys": filled('"a":1,', head="{", tail='"b":1}'),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("libyaml", [True, False])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(name: str, libyaml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BOMBS[name]
    if not libyaml:
        monkeypatch.delattr(yaml, "CSafeLoader")
        text = text[: MAX_BYTES // 4]  # PyYAML's own parser takes 20 times as long
    said = outcome(text)
    assert isinstance(said, str)
    assert len(said) < 100_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_json_and_set(name: str) -> None:
    assert isinstance(outcome(BOMBS[name], "train.json"), str)
    bomb = BOMBS[name]
    outcome(json.dumps(BASE), overrides=[f"roles={bomb}", f"command=[{bomb}", bomb])
