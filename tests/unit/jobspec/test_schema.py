"""The JSON Schema and the hand-written reader say the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from submit_tf_job.job import Job, Strategy
from submit_tf_job.specfile import example, loads, schema
from submit_tf_job.specfile.nodes import Items, Kind, Node, Scalar, Table
from submit_tf_job.specfile.notes import Notes, Unreadable
from submit_tf_job.specfile.vocabulary import DOCKER, HADOOP, INPUT, JOB, KERBEROS, OUTPUT, PLACEMENT, PYTHON, RESTART, ROLE, SHIPPED
from submit_tf_job.specfile.yaml_text import read_yaml
from tests.fakes.keytabs import keytab
from tests.unit import bad_specs, test_specfile_good

SCHEMA = schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

# What a schema cannot say: rules between keys, and what is there on this host.
ONLY_THE_READER = {
    "bootstrap: false, and TF_CONFIG from counts",
    "bootstrap: false, and restarts to count",
    "bootstrap: false, and what only the bootstrap does",
    "command: a control character",
    "custom: TF_CONFIG for nobody",
    "custom: a role that does not decide has its own command",
    "custom: names that look like TensorFlow's are one's own",
    "custom: who decides?",
    "deciding_role: a ps",
    "deciding_role: a sidecar",
    "deciding_role: a worker that never ends",
    "deciding_role: an evaluator",
    "deciding_role: nobody",
    "files: a file where another needs a directory",
    "files: a name that would move the cursor",
    "files: missing ones",
    "files: symbolic links, empty directories, pipes",
    "files: two of one name",
    "hadoop: inline from a directory without any",
    "hadoop: inline without a configuration",
    "kerberos: a keytab that is not here",
    "kerberos: inline without a krb5.conf",
    "legacy_master: with an evaluator",
    "mounts: one target twice",
    "network: none, for tasks that have to meet",
    "restart: refused for ps",
    "restart: refused for what cannot come back",
    "roles: a sidecar without a command",
    "shape: unknown, and the settings have none",
    "tolerate: in lockstep",
    "tolerate: of one",
    "tolerate: who can be missed",
}


def plain(node: Node) -> Any:
    """Turn a node into what a JSON Schema validator reads: by YAML 1.2, as editors do."""
    if isinstance(node, Table):
        return {entry.key: plain(entry.value) for entry in node.entries}
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    assert isinstance(node, Scalar)
    if node.kind is Kind.WHOLE:
        return int(node.text, 0) if node.text[:2] in ("0x", "0o") else int(node.text)
    if node.kind is Kind.REAL:
        return float(node.text.lstrip("+-.") if node.text[-1] in "fFnN" else node.text)
    return {Kind.TEXT: node.text, Kind.BOOLEAN: node.text.lower() == "true", Kind.NULL: None}[node.kind]


def tree(text: str) -> Any:
    return plain(read_yaml(text, Notes("train.yaml")))


def accepts(text: str) -> bool:
    return bool(VALIDATOR.is_valid(tree(text)))


def walk(part: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """List every schema of a property, with the property's path."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(part, dict):
        for name, inner in part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ():
            if isinstance(inner, dict):
                found.append((f"{path}.{name}".lstrip("."), inner))
        for key, inner in part.items():
            found += walk(inner, f"{path}.{key}")
    if isinstance(part, list):
        for inner in part:
            found += walk(inner, path)
    return found


def test_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_schema_and_reader_know_the_same_keys() -> None:
    properties, role = SCHEMA["properties"], SCHEMA["definitions"]["role"]["properties"]
    restart = next(option for option in role["restart"]["oneOf"] if "properties" in option)
    shipped = next(option for option in SCHEMA["definitions"]["files"]["items"]["oneOf"] if "properties" in option)
    assert set(properties) == {*JOB.known, "$schema"}
    assert set(role) == set(ROLE.known)
    assert set(role["placement"]["properties"]) == set(PLACEMENT.known)
    assert set(restart["properties"]) == set(RESTART.known)
    assert set(shipped["properties"]) == set(SHIPPED.known)
    python = next(option for option in properties["python"]["oneOf"] if "properties" in option)
    assert set(python["properties"]) == set(PYTHON.known)
    assert set(properties["hadoop"]["properties"]) == set(HADOOP.known)
    assert set(SCHEMA["definitions"]["docker"]["properties"]) == set(DOCKER.known)
    assert set(properties["kerberos"]["properties"]) == set(KERBEROS.known)
    for key, keys in (("inputs", INPUT), ("outputs", OUTPUT)):
        detailed = next(option for option in properties[key]["additionalProperties"]["oneOf"] if "properties" in option)
        assert set(detailed["properties"]) == set(keys.known)


def test_schema_and_job_have_the_same_defaults() -> None:
    job = loads("name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {chief: {memory: 1Gi}}\n", source="x", base=None)
    stated = {key: part["default"] for key, part in SCHEMA["properties"].items() if "default" in part}
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in stated.items())
    again = loads(f"{text}name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {{chief: {{memory: 1Gi}}}}\n", source="x", base=None)
    assert isinstance(job, Job)
    assert again == job
    assert set(stated) == {"network", "start_timeout", "finish_timeout", "grace", "legacy_master", "bootstrap", "python"}
    role = {key: part["default"] for key, part in SCHEMA["definitions"]["role"]["properties"].items() if "default" in part}
    roles = json.dumps({"chief": {"memory": "1Gi", **role}})
    assert loads(f"name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {roles}\n", source="x", base=None) == job


def test_every_key_has_a_description_and_a_good_example() -> None:
    for path, part in walk(SCHEMA):
        if "allOf" in path or ".then." in path or ".if." in path or path.startswith("properties.roles."):
            continue
        target = SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        assert target.get("description"), path
        assert target.get("examples"), path
        for shown in target["examples"]:
            jsonschema.Draft7Validator({**target, "definitions": SCHEMA["definitions"]}).validate(shown)


@pytest.mark.parametrize("key", sorted(set(SCHEMA["properties"]) - {"$schema"}))
def test_examples_of_the_schema_are_good_for_the_reader(key: str, tmp_path: Any) -> None:
    (tmp_path / "models").mkdir()
    for name in ("train.py", "models/a.py", "core-site.xml"):
        (tmp_path / name).write_text("x")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "prod.yaml").write_text("x")
    (tmp_path / "svc.keytab").write_bytes(keytab("svc/node1@EXAMPLE.COM"))
    (tmp_path / "svc.keytab").chmod(0o600)
    part = SCHEMA["properties"][key]
    part = SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
    for shown in part["examples"]:
        spec: dict[str, Any] = {"name": "t", "image": "i", "command": "c", "strategy": "single", "roles": {"chief": {"memory": "1Gi"}}}
        if shown == "multi-worker":
            spec["roles"] = {"worker": {"memory": "1Gi"}}
        if key == "hadoop" or key == "kerberos":
            for name, inner in part["properties"].items():
                for value in inner["examples"]:
                    text = json.dumps({**spec, key: {**shown, name: value}})
                    loads(text, source="x", base=tmp_path, hadoop_conf=tmp_path, krb5_conf=[tmp_path / "core-site.xml"])
        loads(json.dumps({**spec, key: shown}), source="x.json", base=tmp_path, hadoop_conf=tmp_path)


@pytest.mark.parametrize("key", ROLE.known)
def test_examples_of_roles_are_good_for_the_reader(key: str, tmp_path: Any) -> None:
    from submit_tf_job.specfile import Defaults

    (tmp_path / "models").mkdir()
    (tmp_path / "conf").mkdir()
    for name in ("train.py", "models/a.py", "conf/prod.yaml"):
        (tmp_path / name).write_text("x")
    part = SCHEMA["definitions"]["role"]["properties"][key]
    part = SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
    for shown in part["examples"]:
        roles = {"chief": {"memory": "1Gi"}, "worker": {"memory": "1Gi", "instances": 2, key: shown}, "ps": {"memory": "1Gi"}}
        spec = {"name": "t", "image": "i", "command": "c", "strategy": "parameter-server", "roles": roles}
        loads(json.dumps(spec), source="x.json", base=tmp_path, defaults=Defaults(shapes={"big": {"memory": "1Gi"}}))
        assert VALIDATOR.is_valid(spec)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_examples_are_valid(strategy: Strategy) -> None:
    VALIDATOR.validate(tree(example(strategy)))


def test_good_specs_are_valid() -> None:
    VALIDATOR.validate(tree(test_specfile_good.FULL))


def readable() -> list[bad_specs.Case]:
    """List the bad cases that are YAML or JSON, and that are bad by themselves."""
    cases = []
    for case in bad_specs.cases():
        notes = Notes("x")
        try:
            read_yaml(case.text, notes)
        except Unreadable:
            continue
        if not notes.problems and not (case.overrides or case.defaults or case.name):
            cases.append(case)
    return cases


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    let_pass = {case.title for case in readable() if accepts(case.text)}
    assert let_pass == ONLY_THE_READER


def test_many_bad_specs_fail_both() -> None:
    assert len(readable()) - len(ONLY_THE_READER) >= 70
