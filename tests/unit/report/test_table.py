"""Columns that fit a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.host.units import duration_text
from submit_tf_job.report.table import columns

ROWS = [
    ["NAME", "STATE", "MEMORY", "APPLICATION"],
    ["mnist", "RUNNING", "1.5Gi", "application_1700000000000_0001"],
]


def test_columns_without_width() -> None:
    assert list(columns(ROWS)) == [
        "NAME   STATE    MEMORY  APPLICATION",
        "mnist  RUNNING  1.5Gi   application_1700000000000_0001",
    ]


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


texts = st.text("abc…", max_size=40)


@given(st.lists(st.lists(texts, min_size=3, max_size=3), min_size=1), st.integers(30, 120))
def test_columns_keep_within_the_width(rows: list[list[str]], width: int) -> None:
    assert all(len(line) <= width for line in columns(rows, width, indent="  ", ids=(1,)))


DURATIONS = {None: "-", -5: "0s", 59.9: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m"}
DURATIONS |= {86399: "23h59m", 90000: "1d01h"}


def test_duration_in_two_units() -> None:
    assert {seconds: duration_text(seconds) for seconds in DURATIONS} == DURATIONS
