"""Columns that fit a terminal."""

from __future__ import annotations

import math
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.host.units import duration_text
from submit_tf_job.report.table import columns, cut, value_text

ROWS = [
    ["NAME", "STATE", "MEMORY", "APPLICATION"],
    ["mnist", "RUNNING", "1.5Gi", "application_1700000000000_0001"],
]


def test_columns_without_width() -> None:
    assert list(columns(ROWS)) == [
        "NAME   STATE    MEMORY  APPLICATION",
        "mnist  RUNNING  1.5Gi   application_1700000000000_0001",
    ]


@pytest.mark.parametrize("width", [80, None])
def test_columns_of_a_name_of_megabytes_cost_no_seconds_and_no_memory(width: int | None) -> None:
    rows = [*ROWS * 50, ["\u5b57" * 1_000_000, "RUNNING", "1Gi", "application_1_0001"]]
    before = time.process_time()
    found = list(columns(rows, width))
    assert time.process_time() - before < 4
    assert sum(map(len, found[:-1])) < 200_000
    assert found[-1].endswith("RUNNING  1Gi     application_1_0001")


def test_columns_drop_optional_ones_and_cut_ids_at_the_beginning() -> None:
    assert (
        list(columns(ROWS, 50, optional=(2,), ids=(3,)))[1]
        == "mnist  RUNNING  application_1700000000000_0001"
    )
    assert (
        list(columns(ROWS, 40, optional=(2,), ids=(3,)))[1]
        == "mnist  RUNNING  …tion_1700000000000_0001"
    )
    assert list(columns(ROWS, 40))[1] == "mnist  RUNNING  1.5Gi   application_170…"


# of one column, of two, and an accent of none
texts = st.text("abc…损\u0301", max_size=40)


def places(line: str) -> int:
    """How many columns of a terminal a line takes."""
    shown = [character for character in line if not unicodedata.combining(character)]
    return sum(1 + (unicodedata.east_asian_width(one) in "FW") for one in shown)


@given(st.lists(st.lists(texts, min_size=3, max_size=3), min_size=1), st.integers(30, 120))
def test_columns_keep_within_the_width(rows: list[list[str]], width: int) -> None:
    assert all(places(line) <= width for line in columns(rows, width, indent="  ", ids=(1,)))


def test_columns_align_characters_of_two_columns() -> None:
    rows = [["METRIC", "LAST"], ["损失", "0.1"], ["e\u0301tude", "2"]]
    assert list(columns(rows)) == ["METRIC  LAST", "损失    0.1", "e\u0301tude   2"]
    assert [cut("损失值", size) for size in (3, 4, 5, 6)] == ["损…", "损… ", "损失…", "损失值"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (48211.0, "48211"),
        (1234567.8, "1234568"),
        (1.7e30, "1.7e+30"),
        (1e-12, "1e-12"),
        (3.0, "3"),
        (math.nan, "NaN"),
        (-math.inf, "-infinite"),
    ],
)
def test_value_text_has_the_digits_of_a_whole_number(value: float, text: str) -> None:
    assert value_text(value) == text


DURATIONS = {None: "-", -5: "0s", 59.9: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m"}
DURATIONS |= {86399: "23h59m", 90000: "1d01h"}


def test_duration_in_two_units() -> None:
    assert {seconds: duration_text(seconds) for seconds in DURATIONS} == DURATIONS
