"""Job specs that mean the same: short and long forms, defaults, what is inherited, and `--set`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.jobspec import Defaults, loads
from tests.unit.messages import completed

TABLE = Path(__file__).with_name("same_specs.txt").read_text("utf-8")
CASES = re.split(r"^## ", TABLE, flags=re.MULTILINE)[1:]


def read(part: str, base: Path) -> Any:
    """Return the job of one text."""
    lines = part.splitlines()
    options = [line[3:].split(" ", 1) for line in lines if line.startswith("-- ")]
    [defaults] = [json.loads(text) for name, text in options if name == "defaults"] or [{}]
    return loads(
        completed([line for line in lines if not line.startswith("-- ")]),
        source="train.yaml",
        base=base,
        overrides=[text for name, text in options if name == "set"],
        defaults=Defaults(**defaults),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case).partition("\n")[0])
def test_loads_reads_the_same_job(case: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    first, *others = [read(part, tmp_path) for part in case.partition("\n")[2].split("==\n")]
    assert others
    for other in others:
        assert other == first
