"""The key table: its words are distinct, and the documentation's tables of keys are made from it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from submit_tf_job.jobspec import keys, loads
from tests.unit.jobspec import key_tables

DOCS = (key_tables.DOCS / "job-spec.md").read_text("utf-8")


@pytest.mark.parametrize("page", key_tables.PAGES)
def test_tables_of_keys_are_up_to_date(page: str) -> None:
    """`python -m tests.unit.jobspec.key_tables` writes them anew."""
    written = (key_tables.DOCS / page).read_text("utf-8")
    assert written == key_tables.regenerated(written)


def test_each_mapping_of_keys_has_one_table() -> None:
    pages = [(key_tables.DOCS / page).read_text("utf-8") for page in key_tables.PAGES]
    marks = [found[2] for page in pages for found in key_tables.MARKED.finditer(page)]
    assert sorted(marks) == sorted([*key_tables.TABLES, *key_tables.TOPICS, "words"])


def test_each_key_of_a_job_has_one_topic() -> None:
    topics = [names for known, names in key_tables.TOPICS.values() if known is keys.JOB]
    assert sorted(" ".join(topics).split()) == sorted(keys.JOB.rows)


def test_job_specs_of_the_page_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS, flags=re.DOTALL)
    assert [loads(block, source="docs", base=None).name for block in blocks] == [
        "first",
        "mnist",
        "with-readers",
        "board",
        "etl",
    ]


def test_page_lists_the_keys_that_settings_cannot_state() -> None:
    sentence = DOCS[DOCS.index("any key but") : DOCS.index("Its `env` is overridden")]
    assert set(re.findall(r"`([a-z_]+)`", sentence)) == set(keys.JOB.rows) - set(keys.SITE.rows)


def test_words_without_a_key_of_their_own_have_advice() -> None:
    table = DOCS[DOCS.index("What has no single key here") :]
    theirs = {
        word.lower()
        for line in table.splitlines()[4:]
        if not line.startswith(("| strategy", "| roles"))
        for word in re.findall(r"`(\w+)[`:]", line.split(" | ")[0])
    }
    assert len(theirs) > 10
    assert theirs - {*keys.JOB.advice, *keys.ROLE.advice} == set()


@pytest.mark.parametrize("known", key_tables.TABLES.values(), ids=key_tables.TABLES.keys())
def test_each_word_of_other_tools_has_one_meaning(known: Any) -> None:
    words = [word for key in known.rows.values() for word in key.words.split()]
    assert len(words) == len(set(words))
    assert not set(words) & {*known.rows, *known.advice}
    assert not set(known.advice) & set(known.rows)


def test_advice_covers_keys_of_the_other_level() -> None:
    assert set(keys.ROLE.rows) - set(keys.JOB.rows) <= set(keys.JOB.advice)
    assert set(keys.JOB.rows) - set(keys.ROLE.rows) <= set(keys.ROLE.advice)


@pytest.mark.parametrize("known", key_tables.TABLES.values(), ids=key_tables.TABLES.keys())
def test_each_key_has_help_and_examples(known: Any) -> None:
    for key in known.rows.values():
        assert key.help.endswith("."), key.name
        assert key.examples, key.name
