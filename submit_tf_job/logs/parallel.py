"""Call a function with several values at once: most of the time of reading logs is latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(call: Callable[[T], R], values: Sequence[T], most: int) -> list[R]:
    """Return the result for each value, in their order; several are computed in threads.

    Args:
        call: The function.
        values: Its arguments.
        most: Maximum number of threads.
    """
    threads = min(most, len(values))
    if threads <= 1:
        return [call(value) for value in values]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(call, values))
