"""The promises of a submission, on histories drawn from a seed."""

from __future__ import annotations

import random

import pytest

from tests.histories.classes import CLASSES
from tests.histories.history import Result, run

FEW, MANY = 20, 1000


def _assert_kept(kind: str, seed: int | str) -> None:
    """Assert that a history breaks no promise, except by a race of Hadoop's own."""
    result = run(kind, seed)
    broken = [b for b in result.broken if not b.promise.startswith("race")]
    assert not broken, _story(result)


def _story(result: Result) -> str:
    return f"python -m tests.histories --class {result.kind} --seed {result.seed}\n{result}"


@pytest.mark.parametrize("kind", CLASSES)
def test_histories_keep_promises(kind: str) -> None:
    for seed in range(FEW):
        _assert_kept(kind, seed)


def test_history_is_the_same_for_the_same_seed() -> None:
    first, second = run("mixed", 3), run("mixed", 3)
    assert [str(line) for line in first.trace] == [str(line) for line in second.trace]


def test_calm_histories_keep_promises_with_new_seeds() -> None:
    for _ in range(3):
        _assert_kept("calm", random.SystemRandom().randrange(10**9))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", CLASSES)
def test_thousand_histories_keep_promises(kind: str) -> None:
    for seed in range(MANY):
        _assert_kept(kind, seed)
