"""The JSON Schema, which decides about job specs: its defaults, and the examples of its keys."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from submit_tf_job.jobspec import loads, schema
from submit_tf_job.jobspec.job import Job
from tests.builders.keytabs import keytab

SCHEMA = schema()


def walk(part: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """List every schema of a property, with the property's path."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(part, dict):
        for name, inner in (
            part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ()
        ):
            if isinstance(inner, dict):
                found.append((f"{path}.{name}".lstrip("."), inner))
        for key, inner in part.items():
            found += walk(inner, f"{path}.{key}")
    if isinstance(part, list):
        for inner in part:
            found += walk(inner, path)
    return found


def test_schema_is_valid_draft_07() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_schema_and_job_have_the_same_defaults() -> None:
    job = loads(
        "name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {chief: {memory: 1Gi}}\n",
        source="x",
        base=None,
    )
    stated = {
        key: part["default"] for key, part in SCHEMA["properties"].items() if "default" in part
    }
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in stated.items())
    again = loads(
        f"{text}name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {{chief: {{memory: "
        f"1Gi}}}}\n",
        source="x",
        base=None,
    )
    assert isinstance(job, Job)
    assert again == job
    assert set(stated) == {
        "keras",
        "network",
        "start_timeout",
        "finish_timeout",
        "grace",
        "stop_grace",
        "legacy_master",
        "image_policy",
        "python",
    }
    role = {
        key: part["default"]
        for key, part in SCHEMA["definitions"]["role"]["properties"].items()
        if "default" in part
    }
    roles = json.dumps({"chief": {"memory": "1Gi", **role}})
    assert (
        loads(
            f"name: t\nimage: i\ncommand: c\nstrategy: single\nroles: {roles}\n",
            source="x",
            base=None,
        )
        == job
    )


def test_schema_describes_each_key_with_valid_examples() -> None:
    for path, part in walk(SCHEMA):
        if (
            "allOf" in path
            or ".then." in path
            or ".if." in path
            or path.startswith("properties.roles.")
        ):
            continue
        target = SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        assert target.get("description"), path
        assert target.get("examples"), path
        for shown in target["examples"]:
            jsonschema.Draft7Validator({**target, "definitions": SCHEMA["definitions"]}).validate(
                shown
            )


@pytest.mark.parametrize("key", sorted(set(SCHEMA["properties"]) - {"$schema"}))
def test_loads_accepts_examples_of_job_keys(key: str, tmp_path: Any) -> None:
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
        spec: dict[str, Any] = {
            "name": "t",
            "image": "i",
            "command": "c",
            "strategy": "single",
            "roles": {"chief": {"memory": "1Gi"}},
        }
        if shown == "multi-worker":
            spec["roles"] = {"worker": {"memory": "1Gi"}}
        if key == "hadoop" or key == "kerberos":
            for name, inner in part["properties"].items():
                for value in inner["examples"]:
                    text = json.dumps({**spec, key: {**shown, name: value}})
                    loads(
                        text,
                        source="x",
                        base=tmp_path,
                        hadoop_conf=tmp_path,
                        krb5_conf=[tmp_path / "core-site.xml"],
                    )
        loads(
            json.dumps({**spec, key: shown}), source="x.json", base=tmp_path, hadoop_conf=tmp_path
        )


@pytest.mark.parametrize("key", list(SCHEMA["definitions"]["role"]["properties"]))
def test_loads_accepts_examples_of_role_keys(key: str, tmp_path: Any) -> None:
    from submit_tf_job.jobspec import Defaults

    (tmp_path / "models").mkdir()
    (tmp_path / "conf").mkdir()
    for name in ("train.py", "models/a.py", "conf/prod.yaml"):
        (tmp_path / name).write_text("x")
    part = SCHEMA["definitions"]["role"]["properties"][key]
    part = SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
    for shown in part["examples"]:
        roles = {
            "chief": {"memory": "1Gi"},
            "worker": {"memory": "1Gi", "instances": 2, key: shown},
            "ps": {"memory": "1Gi"},
        }
        spec: dict[str, Any] = {
            "name": "t",
            "image": "i",
            "command": "c",
            "strategy": "parameter-server",
            "roles": roles,
        }
        if key == "instances":  # elastic roles need it
            spec["retries"] = 3
        if key == "after":  # not for the roles of a cluster
            spec["strategy"] = "custom"
            roles |= {"data": {"memory": "1Gi"}, "index": {"memory": "1Gi"}}
        loads(
            json.dumps(spec),
            source="x.json",
            base=tmp_path,
            defaults=Defaults(shapes={"big": {"memory": "1Gi"}}),
        )
