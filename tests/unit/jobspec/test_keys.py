"""The key table: its rows fit the value classes, and its words are distinct."""

from __future__ import annotations

from typing import Any

import pytest

from submit_tf_job.jobspec import keys
from tests.unit.jobspec.key_tables import TABLES


@pytest.mark.parametrize("known", TABLES.values(), ids=TABLES.keys())
def test_each_word_of_other_tools_has_one_meaning(known: Any) -> None:
    words = [word for key in known.rows.values() for word in key.words.split()]
    assert len(words) == len(set(words))
    assert not set(words) & {*known.rows, *known.advice}
    assert not set(known.advice) & set(known.rows)


def test_advice_covers_keys_of_the_other_level() -> None:
    assert set(keys.ROLE.rows) - set(keys.JOB.rows) <= set(keys.JOB.advice)
    assert set(keys.JOB.rows) - set(keys.ROLE.rows) <= set(keys.ROLE.advice)


@pytest.mark.parametrize("known", TABLES.values(), ids=TABLES.keys())
def test_each_key_has_help_and_examples(known: Any) -> None:
    for key in known.rows.values():
        assert key.help.endswith("."), key.name
        assert key.examples, key.name
