"""The promises of a submission, on histories drawn from a seed."""

from __future__ import annotations

import random
import re

import pytest

from tests.histories.classes import CLASSES
from tests.histories.history import run

FEW, MANY = 10, 10_000


def _assert_kept(kind: str, seed: int | str) -> None:
    result = run(kind, seed)
    command = f"python -m tests.histories --class {kind} --seed {seed}"
    assert not result.broken, f"{command}\n{result}"


@pytest.mark.parametrize("kind", CLASSES)
def test_histories_keep_promises(kind: str) -> None:
    for seed in range(FEW):
        _assert_kept(kind, seed)


# a `delete` between the directory and the file of a submission's upload; a POST that arrives after
# its run was deleted, while the next number is submitted; an application that this client has just
# ended, and another client's next number
FOUND = [("retention", 100049), ("deleted", 100155), ("twin", 202377), ("twin", 208605)]
# what `retries.memory` has begun after an older run of the key, and after a POST that failed
FOUND += [("lineage", 200485), ("lineage", 6001003)]
# a proxy refuses to kill what is to be withdrawn; it refuses one of two processes of a submission,
# while the POST of the other one is on its way; another submission's run has the same name
FOUND += [("mixed", 202693), ("mixed", 200784), ("collision", 200846)]
# a new leader does not list what is to be withdrawn; `delete` beside the next run of the files
FOUND += [("rival", 420078), ("forgetting", 200082)]
# what a ResourceManager that has just started does not list yet, of a run that was seen before: as
# another submission's with the same name, alive, or stored after the first look
FOUND += [("collision", 202108), ("forgetting", 200968), ("rival", 202167)]
# `delete` looks at the marks of staged files while another process marks them; it removes the only
# number of a key that had run, and a lower one whose POST had failed; a run comes, ends and is
# deleted while its service is read
FOUND += [("retention", 204689), ("deleted", 440021), ("deleted", 7000772)]
# a POST accepted by a new leader that does not list another job yet; without HDFS, a number that had
# been waited for as long as its POST could take was waited for again
FOUND += [("mixed", 31000476), ("rival", 30000500), ("twin", 34000714), ("rival", 36000672)]
# a client stands still between its POST and its second check, behind a standby that answered
FOUND += [("mixed", 55000485)]


@pytest.mark.parametrize(("kind", "seed"), FOUND)
def test_history_that_once_broke_a_promise(kind: str, seed: int) -> None:
    _assert_kept(kind, seed)


def test_history_is_the_same_for_the_same_seed() -> None:
    def traced() -> list[str]:
        lines = map(str, run("mixed", 3).trace)
        return [re.sub(r"tfjob-clock-\w+", "tfjob-clock", line) for line in lines]  # a random name

    assert traced() == traced()


@pytest.mark.long
def test_calm_histories_keep_promises_with_new_seeds() -> None:
    for _ in range(3):
        _assert_kept("calm", random.SystemRandom().randrange(10**9))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", CLASSES)
def test_many_histories_keep_promises(kind: str) -> None:
    for seed in range(MANY):
        _assert_kept(kind, seed)
