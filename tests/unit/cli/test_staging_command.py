"""Progress of uploads, and the output of staging gc."""

from __future__ import annotations

import io
import sys
from datetime import datetime, timezone

import pytest

from submit_tf_job.cli.context import Context
from submit_tf_job.cli.submit import upload_progress
from submit_tf_job.operations import Sweep
from submit_tf_job.report.staging_text import amount, sweep_lines
from submit_tf_job.storage.staging import Leftover, Sent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (17_825_792, "17.8 MB"),
        (2 * 1024**3, "2.1 GB"),
        (1e15, "1000 TB"),
    ],
)
def test_amounts(size: float, text: str) -> None:
    assert amount(size) == text


def test_upload_progress_prints_two_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with upload_progress(Context(), "mnist") as told:
        for done in (4, 8, 10):
            told(Sent(done * 1_000_000, 10_000_000))
    first, second = capsys.readouterr().err.splitlines()
    assert first == "uploading 10.0 MB for mnist"
    assert second.startswith("uploaded in 0.1 s, 100 MB/s")


@pytest.mark.parametrize(
    ("context", "size"), [(Context(quiet=True), 10_000_000), (Context(), 30_000)]
)
def test_upload_progress_silent_for_small_uploads_and_quiet(
    context: Context, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with upload_progress(context, "mnist") as told:
        told(Sent(size, size))
    assert capsys.readouterr().err == ""


def test_upload_progress_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with upload_progress(Context(), "mnist") as told:
        told(Sent(4_000_000, 10_000_000))
        told(Sent(10_000_000, 10_000_000))
    text = terminal.getvalue()
    assert "uploading for mnist" in text
    assert "10.0/10.0 MB" in text
    assert text.rstrip().endswith("\x1b[2K") or "\x1b[2K" in text.splitlines()[-1]


def test_sweep_lines() -> None:
    used = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    gone, alive = (
        Leftover("old", ("/s/files/old",), 2_000_000, used),
        Leftover("live", ("/s/files/live",), 1000, used),
    )
    assert list(sweep_lines(Sweep("hdfs://nn/s", (gone,), (alive,), dry_run=True))) == [
        "live: kept, the job is alive (1 kB)",
        "old: would be removed, 2.0 MB, last submitted 2026-01-02 03:04 UTC",
        "2.0 MB of 1 job would be removed in hdfs://nn/s",
    ]
    assert list(sweep_lines(Sweep("hdfs://nn/s", (), (), dry_run=False))) == [
        "nothing to remove in hdfs://nn/s"
    ]
