"""Waiting for what a cluster or a server does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(what: Callable[[], Any], timeout_s: float = 90, pause_s: float = 0.3) -> Any:
    """Repeat until the answer is true."""
    deadline = time.monotonic() + timeout_s
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(pause_s)
    return answer
