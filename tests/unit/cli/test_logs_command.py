"""The command `logs`: output for a terminal, a file, and a program."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.cli.streams import ReaderGoneError
from submit_tf_job.logs.entries import FileInfo, LogInventory, Origin, Run, TaskContainer
from submit_tf_job.logs.read import Reading
from submit_tf_job.report.log_text import inventory_lines, log_json, log_text
from tests.fakes.command_line import Cli
from tests.unit.cli.conftest import Stage

ONE, TWO = (
    TaskContainer("worker-0", "container_1_0001_01_000002", "node1"),
    TaskContainer("ps-10", "container_1_0001_01_000003"),
)


def reading(*data: tuple[TaskContainer, bytes], following: bool = False) -> Reading:
    def make(_times: bool) -> Iterator[Run]:
        return (Run(Origin(container, "stdout.txt"), None, 0.0, text) for container, text in data)

    return Reading(make, [container.task for container, _text in data], following=following)


def shown(found: Reading, *, prefix: bool | None = None, colours: bool = False) -> str:
    return "".join(log_text(found, prefix=prefix, colours=colours))


def test_log_text_of_one_task() -> None:
    assert (
        shown(reading((ONE, b"one\n\ttwo\n"), (ONE, "drei \u00e4\u4e2d\n".encode())))
        == "one\n\ttwo\ndrei \u00e4\u4e2d\n"
    )
    assert shown(reading((ONE, b"one\ntwo\n")), prefix=True) == "worker-0 | one\nworker-0 | two\n"


def test_log_text_of_several_tasks_has_prefixes() -> None:
    found = [(ONE, b"one\n\ntwo\n"), (TWO, b"\xff\n")]
    assert (
        shown(reading(*found)) == "worker-0 | one\nworker-0 | \nworker-0 | two\nps-10    | \\xff\n"
    )
    assert shown(reading(*found), prefix=False) == "one\n\ntwo\n\\xff\n"


def test_log_text_colours_tasks() -> None:
    found = [(ONE, b"a\n"), (TWO, b"b\n"), (ONE, b"c\n")]
    assert shown(reading(*found), colours=True) == (
        "\x1b[36mworker-0 | \x1b[0ma\n\x1b[33mps-10    | \x1b[0mb\n\x1b[36mworker-0 | \x1b[0mc\n"
    )


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"\x1b[31mred\x1b[0m\x07\x1b]0;x\n", "red\\x07\\x1b]0;x\n"),  # colours are taken away
        (b"nul\0\x7f \xc2\x9b31m\n", "nul\\x00\\x7f \\x9b31m\n"),
        (b"\xff\xfe\xc3\n", "\\xff\\xfe\\xc3\n"),
        (b"10%\r50%\r100%\r\n", "100%\n"),
        (b"windows\r\nlines\r\n", "windows\nlines\n"),
        ("\u202eright to left\u2028new line\n".encode(), "\\x202eright to left\\x2028new line\n"),
    ],
)
def test_log_text_escapes_control_characters(written: bytes, text: str) -> None:
    assert shown(reading((ONE, written))) == text
    prefixed = "".join(f"worker-0 | {line}\n" for line in ("before", *text[:-1].split("\n")))
    assert shown(reading((ONE, b"before\n" + written)), prefix=True) == prefixed


def test_log_json_has_an_object_per_line() -> None:
    lines = "".join(log_json(reading((ONE, b"a\x7f\x1b\n\xffb\r\n")))).splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["a\x7f\x1b", "\\xffb"]
    assert all(line.isprintable() for line in lines)


def test_logs_list() -> None:
    files = (FileInfo("a.log", 12), FileInfo("stdout.txt", 5 * 1024**3), FileInfo("x", None))
    assert list(
        inventory_lines(
            LogInventory("mnist", "application_1_0001", "nodes", ((ONE, files), (TWO, ())))
        )
    ) == [
        "worker-0  container_1_0001_01_000002 on node1",
        "  a.log       12 B",
        "  stdout.txt  5.0 GiB",
        "  x           -",
        "ps-10  container_1_0001_01_000003",
    ]


def test_logs_passes_its_options(cli: Cli, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def logs(_cluster: object, *args: object, **named: Any) -> Reading:
        asked.update(named, args=args)
        named["say"]("a sentence")
        return reading((ONE, b"one\n"), following=named["follow"])

    stage.on("logs", logs)
    done = cli(
        "logs",
        "mnist",
        "worker-0",
        "-f",
        "--tail",
        "5",
        "--since",
        "2m",
        "--grep",
        "o",
        "--file",
        "a,b",
        "--file",
        "c",
    )
    assert (done.status, done.out, done.err) == (0, "one\n", "a sentence\n")
    asked.pop("say")
    assert asked == {
        "args": ("mnist", "worker-0"), "files": ["a", "b", "c"], "tail": 5, "since_s": 120.0, "grep": "o", "am": False, "follow": True,
        "raw": False,
    }  # fmt: skip
    assert cli("logs", "mnist", "--am", "-o", "json").json["task"] == "worker-0"
    assert cli("logs", "mnist", "--since", "soon").err.startswith("error: --since: ")
    stage.on(
        "log_files",
        lambda *_args, **_named: LogInventory("mnist", "application_1_0001", "nodes", ((ONE, ()),)),
    )
    assert cli("logs", "mnist", "--list").out == "worker-0  container_1_0001_01_000002 on node1\n"
    assert cli("logs", "mnist", "--list", "-o", "json").json["kind"] == "LogFiles"


def test_logs_ends_when_the_reader_closes(
    cli: Cli, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise ReaderGoneError

    stage.on("logs", lambda *_args, **_named: reading((ONE, b"one\n")))
    monkeypatch.setattr(sys, "stdout", Closed())
    from submit_tf_job.cli import main

    assert main(["logs", "mnist"]) == 141


def test_public_names() -> None:
    assert {"logs", "log_files", "tail_of"} <= set(operations.__all__)


def test_log_text_with_local_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        run = Run(Origin(ONE, "stdout.txt"), 0.0, 0.0, b"a\nb\n", 3600.0)
        bare = Run(Origin(ONE, "stdout.txt"), None, 0.0, b"c\n")
        made = Reading(lambda _times: iter([run, bare]), ["worker-0"])
        text = "".join(log_text(made, prefix=True, colours=False, timestamps=True))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert text.splitlines() == [
        "1970-01-01 09:00:00 worker-0 | a",
        "1970-01-01 10:00:00 worker-0 | b",
        "                    worker-0 | c",
    ]
