"""What others send, print and write decides nothing: messages of strangers, progress, log lines."""

from __future__ import annotations

import json
import random
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container.progress import Progress
from submit_tf_job.container.task_files import last_lines
from tests.bootstrap.harness import FOREVER, UNTIL_GO, WITNESS, Cluster, pair, role
from tests.examples import examples

DEEP = "[" * 20000 + "]" * 20000
# texts of JSON in the place of a value
VALUES = (
    *("null", "true", "-1", "0", "1e308", "1e999", "-1e999", "NaN", "Infinity", "0.5", "65536"),
    *("9" * 5000, "-" + "9" * 400, "1" + "0" * 18, '"\\ud800"', '"a\\u0000\\u001b[2Jb\\nc"'),
    *(
        '""',
        '"container_1_' + "9" * 5000 + '"',
        '"x"',
        "[]",
        "{}",
        "[[1, 2], [3]]",
        '{"a": {"b": [0]}}',
    ),
    *('"' + "é" * 3000 + '"', '["\\udfff", 3]', "[" * 30 + "]" * 30, DEEP),
)
HISTORY = {
    "container": "container_1_0000",
    "host": "h",
    "attempt": 1,
    "generation": 1,
    "resized": 0,
}
ENDED = {"generation": 0, "step": 3, "reason": "lost", "kind": "lost", "task": "worker-0"}
STACKS: dict[str, Any] = {"number": 1, "where": "x", "key": "k", "text": "t", "cores": "0.1"}
RECORD = {"status": 1, "signal": None, "reason": "exited", "message": "m", "last_lines": ["l"]}
TIMES = {"ago": 1.0, "after": 0.5, "number": 1, "duration_s": 2.0, "generation": 0}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"t": "ping", "quiet": 3}, {"t": "ping", "probe": 1}, {"t": "away"}, {"t": "stopping"},
    {"t": "running"}, {"t": "warn", "text": "w"}, {"t": "stacks", **STACKS},
    {"t": "ready", "generation": 0, "port": 5, "ports": {"web": 6006}},
    {"t": "done", **RECORD, **TIMES, "stored": [["m", "hdfs:///m"]]},
    {"t": "progress", "data": {"step": 1, "total": 5, "unit": "epoch", "metrics": {"loss": 0.1}}},
)  # fmt: skip


def hello(run: str, container: str, draw: random.Random) -> dict[str, Any]:
    return {
        "t": "hello", "run": run, "role": "web", "index": draw.randrange(1, 900),
        "process": draw.randbytes(4).hex(), "attempt": 0, "call": 1, "state": "waiting",
        "host": "h", "address": "10.0.0.3", "port": 5, "container": container, "age_s": 1.0,
        "search_s": 0.5, "seen": "x", "ignored_image": "", "gpus": ["A"], "ports": {"web": 1},
        "warnings": ["w"], "gave_up": None, "history": {**HISTORY, "past": [ENDED]},
    }  # fmt: skip


def changed(message: dict[str, Any], draw: random.Random) -> bytes:
    """Return a message with values of other kinds, at any depth, and perhaps cut off."""
    marks: dict[str, str] = {}

    def walk(value: Any) -> Any:
        if draw.random() < 0.12:
            mark = f"<{len(marks)}>"
            marks[json.dumps(mark)] = draw.choice(VALUES)
            return mark
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items() if draw.random() > 0.02}
        return [walk(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(
        {**message, **{k: walk(v) for k, v in message.items() if k not in ("t", "run")}}
    )
    for mark, value in marks.items():
        text = text.replace(mark, value)
    line = text.encode() + b"\n"
    return line if draw.random() > 0.05 else bytes(draw.choices(line, k=draw.randrange(99))) + b"\n"


def attack(port: int, number: int, run: str, container: str) -> None:
    """Send what the same number always sends, on a connection of its own."""
    draw = random.Random(number)
    first = hello(run, container, draw)
    lines = [changed(first, draw) if draw.random() < 0.5 else json.dumps(first).encode() + b"\n"]
    lines += [changed(draw.choice(MESSAGES), draw) for _ in range(draw.randrange(6))]
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(b"".join(lines))
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def strict(text: str) -> Any:
    """Parse a report as every program can: finite numbers, texts that are texts."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    text.encode("utf-8")
    found = json.loads(text, parse_constant=refuse)
    json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


@pytest.fixture
def attacked(job: Cluster) -> Cluster:
    """A job with a witness, retries and a role that may grow, whose commands run."""
    board = role(1, "sidecar", FOREVER)
    roles = {**pair(UNTIL_GO), "web": board, "witness": WITNESS}
    job.job(roles, retries={"max": 3, "on": ["lost"]}, grace_s=20, settle_s=0.1)
    job.start()
    job.started("chief-0", "worker-0", "web-0")
    return job


def attacks(job: Cluster, numbers: range) -> None:
    container = f"{job.application}_01_999999"
    for number in numbers:
        attack(job.rendezvous(), number, job.task["run"], container)
    job.succeeds()
    path = job.places["chief-0"][1] / "job-report.json"
    report = strict(path.read_text("utf-8"))
    assert report["state"] == "succeeded"
    assert report["retries"]["used"] == 0
    assert {m["task"] for m in report.get("tasks", ())} >= {
        "chief-0",
        "worker-0",
    } or "tasks" not in report


def test_messages_of_strangers_end_no_job(attacked: Cluster) -> None:
    attacks(attacked, range(examples(1000)))


@pytest.mark.long
def test_task_that_reads_no_answer_is_hung_up(attacked: Cluster) -> None:
    """Each ping is answered; what it does not read would be kept for as long as the job lives."""
    draw = random.Random(1)
    first = hello(attacked.task["run"], f"{attacked.application}_01_999999", draw)
    pings = json.dumps({"t": "ping", "quiet": 1}).encode() + b"\n"
    address = ("127.0.0.1", attacked.rendezvous())
    with socket.create_connection(address, timeout=1800) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(json.dumps(first).encode() + b"\n")
        sent = 0
        with suppress(ConnectionError):
            while sent < 3000:
                sock.sendall(pings * 1000)
                sent += 1
        assert sent < 3000, "every answer was kept"
    attacked.succeeds()


@pytest.mark.long
def test_many_messages_of_strangers_end_no_job(attacked: Cluster) -> None:
    attacks(attacked, range(10_000, 30_000))


ANSWERS: tuple[dict[str, Any], ...] = (
    {"t": "welcome", "attempt": 0, "process": "p", "history": {**HISTORY, "past": [ENDED]}},
    {"t": "again", "history": HISTORY}, {"t": "past", "history": {"left_out": {"worker": [0]}}},
    {"t": "ping", "probe": 1}, {"t": "pong", "number": 1}, {"t": "busy"}, {"t": "noted"},
    {"t": "stacks", "number": 1, "limit": 9, "watch_s": 0}, {"t": "grace", "grace_s": 1},
    {"t": "go", "hosts": "eJw=", "ports": {"worker-0": 1}, "history": {"left_out": {"x": 1}}},
)  # fmt: skip


UNREADABLE: tuple[dict[str, Any], ...] = (
    {"t": "again", "history": [1]},
    {"t": "welcome", "attempt": 0, "process": "p", "history": "x"},
    {"t": "again"},
    {"t": "go", "hosts": 5, "ports": [], "history": {"left_out": 3}},
    {"t": "stacks", "number": [], "limit": "x", "watch_s": {}},
)


def test_what_answers_in_the_place_of_the_deciding_task_ends_no_other(job: Cluster) -> None:
    job.job({**pair("true"), "witness": WITNESS}, retries={"max": 3, "on": ["lost"]}, grace_s=20)
    with socket.create_server(("", job.rendezvous())) as server:
        server.settimeout(600)
        job.start("worker-0")
        for number in range(15):
            draw = random.Random(number)
            lines = [changed(draw.choice(ANSWERS), draw) for _ in range(3)]
            if number < len(UNREADABLE):
                lines = [json.dumps(UNREADABLE[number]).encode() + b"\n"]
            sock, _ = server.accept()
            with sock, suppress(OSError):
                sock.sendall(b"".join(lines))
    assert job.runs["worker-0"].poll() is None
    job.start("chief-0", "witness-0")
    assert set(job.wait_all().values()) == {0}


PROGRESS = MESSAGES[-1]["data"] | {"part": 0.5, "lines": ["x"]}


def read_progress(folder: Path, numbers: range) -> None:
    """Read what programs write into the file and on stdout, and the end of what they print."""
    file, stdout = folder / "progress.json", folder / "stdout.txt"
    stdout.touch()
    reader = Progress(str(file), str(stdout))
    for number in numbers:
        line = changed({"t": "", **PROGRESS}, random.Random(number))
        (folder / "new").write_bytes(line)
        (folder / "new").replace(file)
        with stdout.open("ab") as sink:
            sink.write(b"TFJOB_PROGRESS " + line)
        found = reader.poll() or {"step": None}
        strict(json.dumps(found))
        assert len(json.dumps(found)) < 60_000
        assert isinstance(found["step"], (int, float, type(None)))
        if not number % 10:
            assert all(text.isprintable() for text in last_lines(str(file)))


def test_progress_of_any_program_is_clean(tmp_path: Path) -> None:
    read_progress(tmp_path, range(examples(2000)))


@pytest.mark.long
def test_much_progress_of_any_program_is_clean(tmp_path: Path) -> None:
    read_progress(tmp_path, range(10_000, 30_000))


ODD_PROGRESS = (
    r'{"step": 7, "total": 1e999, "part": NaN, "unit": "\ud800ep\noch", "metrics": '
    r'{"loss": NaN, "lo\udc80ss": 1.5, "a\u001b[2J": -Infinity, "n": ' + "9" * 500 + "}}"
)
ODD_PROGRAM = rf"""
import os, sys, time
with open("p", "w") as sink:
    sink.write({ODD_PROGRESS!r})
os.replace("p", os.environ["TFJOB_PROGRESS_FILE"])
time.sleep(1.5)
sys.stderr.buffer.write(b"10%\r50%\rhalf \x1b[31mred\x1b[0m\n\xff\x00\x1b]0;t\x07 \xed\xa0\x80\n")
print('TFJOB_PROGRESS [[[' + '[' * 3000)
sys.exit(5)
"""


def test_what_a_program_writes_is_text_in_the_report(job: Cluster) -> None:
    job.files = {"odd.py": ODD_PROGRAM}
    job.job({"chief": role(1, "trains", [sys.executable, "-S", "odd.py"])})
    job.start()
    assert job.wait("chief-0") == 5
    report = strict((job.places["chief-0"][1] / "job-report.json").read_text("utf-8"))
    progress = report["progress"]
    assert (progress["step"], progress["total"], progress["unit"]) == (7, None, r"\ud800ep och")
    odd_metrics = {"loss": "NaN", r"lo\udc80ss": 1.5, r"a\x1b[2J": "-Infinity", "n": None}
    assert progress["metrics"] == odd_metrics
    half, odd = report["first_failure"]["last_lines"]
    assert half == "half red"
    assert odd.isprintable()
    job.start("chief-0")  # a new ApplicationMaster starts finished tasks again
    assert job.wait("chief-0") == 5


@pytest.mark.parametrize("content", ["{}", "5", '{"exit": 0}', DEEP, '"\\ud800"', '{"exit": NaN}'])
def test_marker_of_an_earlier_start_that_is_none_is_passed_over(job: Cluster, content: str) -> None:
    job.job({"chief": role(1, "trains", "true")})
    (job.root / "app").mkdir(exist_ok=True)
    if content.startswith("{"):
        application = "_".join(job.application.split("_")[1:])
        content = json.dumps({"application": application, "exit": 0}) if "0" in content else content
    (job.root / f"app/tfjob-done-{job.task['run']}-chief-0.json").write_text(content)
    job.start()
    assert job.wait("chief-0") == 0
    assert job.report()["state"] == "succeeded"
