"""Read a job spec file as a `Job`; report every problem with its location and a solution.

`keys.py` has every key. The reader, `--set`, the JSON Schema and the documentation's tables use it.
"""

from __future__ import annotations

from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.reader import loads, read, read_file
from submit_tf_job.jobspec.roles import Defaults
from submit_tf_job.jobspec.validate import schema

__all__ = ["Defaults", "example", "loads", "read", "read_file", "schema"]


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
