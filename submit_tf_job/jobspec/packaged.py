"""The example job specs in the package: one for each strategy."""

from __future__ import annotations

from submit_tf_job.jobspec.job import Strategy

__all__ = ["example"]


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
