"""What comes with the package: the JSON Schema, and a job spec to begin with for each strategy."""

from __future__ import annotations

import json
from typing import Any

from submit_tf_job.job import Strategy

__all__ = ["example", "schema"]


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07) of the job spec, for editors and other tools.

    Example:
        >>> schema()["title"]
        'submit_tf_job job spec'
    """
    content: dict[str, Any] = json.loads(_read("job.schema.json"))
    return content


def example(strategy: Strategy | str) -> str:
    """Return a commented job spec to begin with.

    Args:
        strategy: Which way of training it is for.

    Raises:
        ValueError: There is no such strategy.
    """
    return _read(f"examples/{Strategy(strategy).value}.yaml")


def _read(name: str) -> str:
    from importlib.resources import files

    return files("submit_tf_job.specfile").joinpath(name).read_text("utf-8")
