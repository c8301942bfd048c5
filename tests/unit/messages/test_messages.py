"""Each row of the tables beside this file: what a command says of its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.command_line import Cli
from tests.unit.messages import Case, cases

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_command_prints_what_the_table_says(cli: Cli, home: Path, case: Case) -> None:
    for name, text in case.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    done = cli(*case.command)
    printed = (done.out + done.err).replace(str(home), "~").rstrip("\n")
    printed = re.sub(r"\d+ bytes, decided", "N bytes, decided", printed)  # of this version
    assert (done.status, printed.split("\n")) == (case.status, case.printed)


def test_tables_have_distinct_cases() -> None:
    assert len({case.title for case in CASES}) == len(CASES)
    assert len({(*case.command, *case.files.values()) for case in CASES}) == len(CASES)
