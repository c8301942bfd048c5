"""The JSON Schema, which decides about job specs: its defaults, and the examples of its keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from submit_tf_job.jobspec import Defaults, loads, schema
from submit_tf_job.jobspec.files import Host
from tests.builders.keytabs import keytab

SCHEMA = schema()
SPEC: dict[str, Any] = {
    "name": "t",
    "image": "i",
    "command": "c",
    "strategy": "single",
    "roles": {"chief": {"memory": "1Gi"}},
}


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


def defaults(part: dict[str, Any]) -> dict[str, Any]:
    return {key: own["default"] for key, own in part["properties"].items() if "default" in own}


def test_schema_and_job_have_the_same_defaults() -> None:
    stated, of_role = defaults(SCHEMA), defaults(SCHEMA["definitions"]["role"])
    plain = loads(json.dumps(SPEC), source="x", base=None)
    assert loads(json.dumps({**SPEC, **stated}), source="x", base=None) == plain
    roles = {"chief": {"memory": "1Gi", **of_role}}
    assert loads(json.dumps({**SPEC, "roles": roles}), source="x", base=None) == plain
    assert " ".join(sorted(stated)) == (
        "finish_timeout grace image_policy keras legacy_master network python start_timeout "
        "stop_grace"
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
        target = resolved(part)
        assert target.get("description"), path
        assert target.get("examples"), path
        for shown in target["examples"]:
            whole = {**target, "definitions": SCHEMA["definitions"]}
            jsonschema.Draft7Validator(whole).validate(shown)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The files that the examples name."""
    for name in ("train.py", "models/a.py", "core-site.xml", "conf/prod.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "svc.keytab").write_bytes(keytab("svc/node1@EXAMPLE.COM"))
    (tmp_path / "svc.keytab").chmod(0o600)
    return tmp_path


def accepted(here: Path, spec: dict[str, Any]) -> None:
    loads(
        json.dumps(spec),
        source="x.json",
        base=here,
        host=Host(here, here, (here / "core-site.xml",)),
        defaults=Defaults(shapes={"big": {"memory": "1Gi"}}),
    )


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    return SCHEMA["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part


@pytest.mark.parametrize("key", sorted(set(SCHEMA["properties"]) - {"$schema"}))
def test_loads_accepts_examples_of_job_keys(key: str, here: Path) -> None:
    part = resolved(SCHEMA["properties"][key])
    for shown in part["examples"]:
        spec = {**SPEC, key: shown}
        if shown == "multi-worker":
            spec["roles"] = {"worker": {"memory": "1Gi"}}
        accepted(here, spec)
        for name, inner in part["properties"].items() if key in ("hadoop", "kerberos") else ():
            for value in inner["examples"]:
                accepted(here, {**SPEC, key: {**shown, name: value}})


@pytest.mark.parametrize("key", list(SCHEMA["definitions"]["role"]["properties"]))
def test_loads_accepts_examples_of_role_keys(key: str, here: Path) -> None:
    for shown in resolved(SCHEMA["definitions"]["role"]["properties"][key])["examples"]:
        roles: dict[str, Any] = {name: {"memory": "1Gi"} for name in ("chief", "worker", "ps")}
        roles["worker"] |= {"instances": 2, key: shown}
        spec = {**SPEC, "strategy": "parameter-server", "roles": roles}
        if key == "instances":  # elastic roles need it
            spec["retries"] = 3
        if key == "after":  # not for the roles of a cluster
            spec["strategy"] = "custom"
            roles |= {"data": {"memory": "1Gi"}, "index": {"memory": "1Gi"}}
        accepted(here, spec)
