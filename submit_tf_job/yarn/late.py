"""`logging` and `random`, which most commands do not need, and so do not import."""

from __future__ import annotations

import sys

__all__ = ["jitter", "log_info"]


def log_info(logger: str, message: str, *values: object, exc_info: bool = False) -> None:
    """Log a message with level INFO, as `logging.getLogger(logger).info` does.

    No handler shows INFO unless a program configured it, which imports `logging`.
    """
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(logger).info(message, *values, exc_info=exc_info)


def jitter() -> float:
    """Return a random number in [0, 1)."""
    import random

    return random.random()  # noqa: S311 - for the length of pauses
