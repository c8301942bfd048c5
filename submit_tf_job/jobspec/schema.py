"""What helps to write a job spec: its JSON Schema, made from the key table, and the examples in the
package, one for each strategy.
"""

from __future__ import annotations

from typing import Any

from submit_tf_job.jobspec.grammar import Keys
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.keys import INPUT, JOB, OUTPUT, ROLE, SHARED


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07) of the job spec, for editors and other tools.

    Example:
        >>> schema()["title"]
        'submit_tf_job job spec'
    """
    whole = JOB.schema()
    at_schema = {
        "description": "Where an editor finds this schema; not read otherwise.",
        "type": "string",
        "examples": ["./job.schema.json"],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "submit_tf_job job spec",
        "description": "One distributed TensorFlow job on YARN. Reference: submit_tf_job help "
        "job-spec. Rules that join several keys (which roles a strategy needs) are in part here "
        "and in full in `submit_tf_job validate`.",
        **whole,
        "properties": {"$schema": at_schema, **whole["properties"]},
        "allOf": [
            _under("single", _SINGLE, legacy_master={"const": False}),
            _under(
                "multi-worker",
                {"required": ["worker"], "properties": {"ps": False}},
                legacy_master={"const": False},
            ),
            _under(
                "parameter-server", {"required": ["worker", "ps"]}, legacy_master={"const": False}
            ),
            _under("estimator", {"anyOf": [{"required": [name]} for name in ("chief", "master")]}),
        ],
        "definitions": _definitions(),
    }


def partial_schema(keys: Keys) -> dict[str, Any]:
    """Return the JSON Schema of some keys of a job spec: those of the settings, of a shape."""
    return {**keys.schema(), "definitions": _definitions()}


def _definitions() -> dict[str, Any]:
    defined = (
        JOB.rows["name"],
        JOB.rows["lifetime"],
        ROLE.rows["memory"],
        *(keys.rows["uri"] for keys in (INPUT, OUTPUT)),
    )
    return {
        "role": {
            "description": "All tasks of one role.",
            **ROLE.schema(),
            "examples": [{"instances": 4, "cpus": 4, "memory": "16Gi", "gpus": 1}],
        },
        **{name: key.schema() for name, key in SHARED.items()},
        **{key.kind.definition: key.kind.schema() for key in defined},
    }


_SINGLE: dict[str, Any] = {
    "properties": {
        "ps": False,
        "evaluator": False,
        "worker": {"properties": {"instances": {"maximum": 1}}},
    },
    "oneOf": [{"required": [name]} for name in ("chief", "master", "worker")],
}


def _under(strategy: str, roles: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {
        "if": {"properties": {"strategy": {"const": strategy}}, "required": ["strategy"]},
        "then": {"properties": {"roles": roles, **keys}},
    }


def example(strategy: Strategy | str) -> str:
    """Return an example job spec with comments.

    Args:
        strategy: The strategy of the example.

    Raises:
        ValueError: The strategy does not exist.
    """
    from importlib.resources import files

    path = files("submit_tf_job.jobspec") / "examples" / f"{Strategy(strategy).value}.yaml"
    return path.read_text("utf-8")
