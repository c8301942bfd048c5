"""docs/job-spec.md names every key, and its examples are good."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from submit_tf_job.specfile import loads
from submit_tf_job.specfile.vocabulary import JOB, PLACEMENT, ROLE, SITE, Keys

DOCS = (Path(__file__).parents[2] / "docs" / "job-spec.md").read_text("utf-8")


@pytest.mark.parametrize("keys", [JOB, ROLE, PLACEMENT])
def test_every_key_has_a_row(keys: Keys) -> None:
    rows = {word for line in DOCS.splitlines() if line.startswith("| `") for word in re.findall(r"`([a-z_]+)`", line.split(" | ")[0])}
    assert set(keys.known) <= rows


def test_job_specs_in_it_are_good() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS, flags=re.DOTALL)
    assert [loads(block, source="docs", base=None).name for block in blocks] == ["mnist", "etl"]


def test_it_says_what_settings_cannot_say() -> None:
    sentence = DOCS[DOCS.index("any key but") : DOCS.index("Its `env` lies below")]
    assert set(re.findall(r"`([a-z_]+)`", sentence)) == set(JOB.known) - set(SITE.known)


def test_other_tools_words_are_answered() -> None:
    table = DOCS[DOCS.index("| theirs | ours |") :]
    answered = {*JOB.synonyms, *JOB.advice, *ROLE.synonyms, *ROLE.advice}
    theirs = {
        word.lower()
        for line in table.splitlines()[2:]
        if not line.startswith(("| strategy", "| roles"))
        for word in re.findall(r"`(\w+)[`:]", line.split(" | ")[0])
    }
    assert theirs - answered == set()
