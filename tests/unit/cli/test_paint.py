"""Colours follow the position in a line, not words that a program printed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.cli.streams import paint

RED, GREEN, YELLOW, CYAN, BOLD, DIM = (f"\x1b[{number}m" for number in (31, 32, 33, 36, 1, 2))
OFF = "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "painted"),
    [
        ("00:34  RUNNING    epoch 3/10", f"{DIM}00:34  {OFF}{CYAN}RUNNING{OFF}    epoch 3/10"),
        ("digits  SUCCEEDED after 58 s", f"{BOLD}digits{OFF}  {GREEN}SUCCEEDED{OFF} after 58 s"),
        ("digits  FAILED", f"{BOLD}digits{OFF}  {RED}FAILED{OFF}"),
        ("  TASK      STATE    HOST", f"{BOLD}  TASK      STATE    HOST{OFF}"),
        ("  worker-1  failed   node1", f"  worker-1  {RED}failed{OFF}   node1"),
        ("  hint: install it", f"{DIM}  hint: install it{OFF}"),
        ("  application  app_1_1  queue ml", f"{DIM}  application  app_1_1  queue ml{OFF}"),
        ("  warning      worker-0 is slow", f"  {YELLOW}warning{OFF}      worker-0 is slow"),
        ("  first cause  worker-1 FAILED", f"  {RED}first cause{OFF}  worker-1 FAILED"),
        ("FAILURE  queue     there is none", f"{RED}FAILURE{OFF}  queue     there is none"),
        ("chief-0 | 3 tests FAILED", f"{DIM}chief-0 | {OFF}3 tests FAILED"),
        ("chief-0 | digits  FAILED", f"{DIM}chief-0 | {OFF}digits  FAILED"),
        ("    ERROR FAILED: worker RUNNING", "    ERROR FAILED: worker RUNNING"),
        ("the state RUNNING is no meaning", "the state RUNNING is no meaning"),
        ("", ""),
    ],
)
def test_paint_colours_parts_by_their_place(line: str, painted: str) -> None:
    assert paint(line) == painted


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"])))
def test_paint_changes_no_text(line: str) -> None:
    assert re.sub(r"\x1b\[\d+m", "", paint(line)) == line
