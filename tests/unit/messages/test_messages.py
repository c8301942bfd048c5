"""Each row of the tables beside this file: what a command says of its files.

With SUBMIT_TF_JOB_TEST_UPDATE_GOLDENS=1 the tables are written anew (`make goldens`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.builders.command_line import Cli
from tests.unit.messages import Case, cases

# a command line for each of some hundred messages: seconds in all
pytestmark = pytest.mark.slow

CASES = cases()
UPDATE = bool(os.environ.get("SUBMIT_TF_JOB_TEST_UPDATE_GOLDENS"))
# What other versions, of this tool or of the parser of command lines, print otherwise.
UNSTABLE = {
    r"\d+ bytes, decided": "N bytes, decided",
    r"the keys here are .*": "the keys here are …",
    r"No such option:? '?--(\w+)'?": r"No such option: --\1",
    r" Did you mean '\w+'\?": "",
    r"(Invalid value for '\S+'): [^\"\n]*": r"\1: …",
    r"\[OPTIONS\][^;,\n]*": "[OPTIONS]",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_command_prints_what_the_table_says(cli: Cli, home: Path, case: Case) -> None:
    for name, text in case.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    done = cli(*case.command)
    printed = (done.out + done.err).replace(str(home), "~").rstrip("\n")
    for pattern, shown in UNSTABLE.items():
        printed = re.sub(pattern, shown, printed)
    if UPDATE:
        case.write(done.status, printed)
    else:
        assert (done.status, printed.split("\n")) == (case.status, case.printed)


def test_tables_have_distinct_cases() -> None:
    assert len({case.title for case in CASES}) == len(CASES)
    assert len({(*case.command, *case.files.values()) for case in CASES}) == len(CASES)
