"""The user's files, the tail of stderr, progress, markers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import contract, keras, task_files
from tests.fakes.task_info import CONTAINER, task_info


# --- the tail of stderr ---------------------------------------------------------------------------
def tail(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "stderr.txt").write_bytes(content)
    return task_files.last_lines(str(tmp_path / "stderr.txt"))


def test_last_lines_without_noise(tmp_path: Path) -> None:
    content = (
        b"bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n"
        b"[submit_tf_job] starting: python train.py\nTraceback\n\nValueError: \xff no\r\n"
        + contract.OUTCOME_MARK.encode()
        + b"{}\n"
    )
    assert tail(tmp_path, content) == ["Traceback", "ValueError: \ufffd no"]


def test_last_lines_is_bounded(tmp_path: Path) -> None:
    assert tail(tmp_path, b"".join(b"line %d\n" % i for i in range(100_000))) == [
        f"line {i}" for i in range(99_980, 100_000)
    ]
    assert tail(tmp_path, b"x" * 100_000) == ["x" * 500]
    long = tail(tmp_path, b"".join(b"%04d" % i + b"y" * 2000 + b"\n" for i in range(50)))
    assert len(long) == 16
    assert long[-1].startswith("0049")
    assert tail(tmp_path, b"") == []


def test_last_lines_without_stderr(tmp_path: Path) -> None:
    assert task_files.last_lines(str(tmp_path / "nothing")) == []


@given(st.binary(max_size=3000))
def test_any_bytes_make_a_message_of_bounded_size(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    lines = tail(tmp_path_factory.getbasetemp(), content * 40)
    assert len(lines) <= 20
    assert len(json.dumps(lines)) < 60_000


# --- progress -------------------------------------------------------------------------------------
def test_progress_is_read_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "p"
    progress = task_files.Progress(str(path))
    assert progress.poll() is None
    path.write_text('{"step": 3, "total": 10, "metrics": {"loss": 0.25}, "more": 1}')
    assert progress.poll() == {"step": 3, "total": 10, "metrics": {"loss": 0.25}}
    assert progress.poll() is None
    path.write_text('{"step": 4}')
    assert progress.poll() == {"step": 4, "total": None, "metrics": {}}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1]", "3", '"x"', "null", "\x00", '{"step": ' + "1" * 5000 + "}", "[" * 4000],
)
def test_progress_ignores_invalid_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "p").write_text(content)
    assert task_files.Progress(str(tmp_path / "p")).poll() is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"step": "3"}, {"step": None, "total": None, "metrics": {}}),
        ({"step": True, "total": 1.5}, {"step": None, "total": 1.5, "metrics": {}}),
        (
            {"metrics": {"nan": float("nan"), "inf": float("inf"), "huge": 10**400, "deep": [1]}},
            None,
        ),
        ({"metrics": [1]}, {"step": None, "total": None, "metrics": {}}),
    ],
)
def test_clean_progress(value: dict[str, Any], expected: dict[str, Any] | None) -> None:
    expected = expected or {
        "step": None,
        "total": None,
        "metrics": {"nan": None, "inf": None, "huge": None, "deep": None},
    }
    assert task_files.clean_progress(value) == expected


def test_metrics_are_bounded() -> None:
    clean = task_files.clean_progress({"metrics": {"m" * 200 + str(i): i for i in range(500)}})
    assert clean
    assert len(clean["metrics"]) <= 50
    assert max(map(len, clean["metrics"])) == 100


# --- markers --------------------------------------------------------------------------------------
def test_marker_is_for_the_same_task_of_the_same_application(tmp_path: Path) -> None:
    cwd = tmp_path / CONTAINER
    cwd.mkdir()
    task_files.write_marker(task_info(cwd), True, 3, {"status": 3}, {"state": "failed"})
    assert (tmp_path / "tfjob-done-abc-worker-1.json").exists()
    marker = task_files.read_marker(task_info(cwd))
    assert marker == {
        "application": "1700000000000_0042",
        "final": True,
        "attempt": 0,
        "exit": 3,
        "outcome": {"status": 3},
        "report": {"state": "failed"},
    }
    assert (
        task_files.read_marker(
            task_info(cwd, container="container_e18_1700000000000_0042_02_000009")
        )
        == marker
    )
    assert (
        task_files.read_marker(task_info(cwd, container="container_1700000000000_0043_01_000003"))
        is None
    )
    assert task_files.read_marker(task_info(cwd, submission="other")) is None


def test_marker_path_without_container_id(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    task_files.write_marker(task_info(tmp_path / "cwd", container=""), True, 0, {}, None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cwd"]
    assert task_files.read_marker(task_info(tmp_path / "cwd", container="")) is None


@pytest.mark.parametrize(
    "content", ["", "[]", "3", "{}", '{"application": "1700000000000_0042", "exit": "x"}']
)
def test_read_marker_ignores_invalid_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "tfjob-done-abc-worker-1.json").write_text(content)
    assert task_files.read_marker(task_info(tmp_path / "cwd")) is None


def test_json_is_written_by_rename(tmp_path: Path) -> None:
    task_files.write_json(str(tmp_path / "r.json"), {"a": "\u00e9"})
    assert (tmp_path / "r.json").read_text() == '{"a":"\\u00e9"}'
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


# --- progress on stdout ---------------------------------------------------------------------------
def test_progress_lines(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    out.write_text('TFJOB_PROGRESS {"step": 1}\n')
    progress = task_files.Progress("", str(out))
    assert progress.poll() is None  # an earlier program wrote it
    with out.open("a") as stdout:
        stdout.write(
            'x\nTFJOB_PROGRESS {"step": 2, "total": 9}\nTFJOB_PROGRESS {"step": 3, '
            '"metrics": {"loss": 0.5}}\ny\nTFJOB_PROGRESS {"st'
        )
        stdout.flush()
        assert progress.poll() == {"step": 3, "total": None, "metrics": {"loss": 0.5}}
        assert progress.poll() is None
        stdout.write('ep": 4}\n')
        stdout.flush()
        assert progress.poll() == {"step": 4, "total": None, "metrics": {}}


@pytest.mark.parametrize(
    "line",
    [
        "TFJOB_PROGRESS",
        "TFJOB_PROGRESS 7",
        "TFJOB_PROGRESS {",
        " TFJOB_PROGRESS {}",
        "TFJOB_PROGRESS " + "[" * 9000,
    ],
)
def test_no_progress_line(tmp_path: Path, line: str) -> None:
    out = tmp_path / "stdout.txt"
    progress = task_files.Progress("", str(out))
    out.write_text(f'TFJOB_PROGRESS {{"step": 1}}\n{line}\n')
    assert progress.poll() == {"step": 1, "total": None, "metrics": {}}


def test_progress_reads_the_end_of_much_output(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    progress = task_files.Progress("", str(out))
    out.write_bytes(
        b'TFJOB_PROGRESS {"step": 1}\n' + b"\xff" * 500_000 + b'\nTFJOB_PROGRESS {"step": 2}\n'
    )
    assert progress.poll() == {"step": 2, "total": None, "metrics": {}}
    with out.open("ab") as stdout:
        stdout.write(b"z" * 200_000)  # a line without an end
    assert progress.poll() is None
    with out.open("ab") as stdout:
        stdout.write(b'\nTFJOB_PROGRESS {"step": 3}\n')
    assert progress.poll() == {"step": 3, "total": None, "metrics": {}}


def test_progress_file_outranks_stdout(tmp_path: Path) -> None:
    out, path = tmp_path / "stdout.txt", tmp_path / "progress.json"
    progress = task_files.Progress(str(path), str(out))
    out.write_text('TFJOB_PROGRESS {"step": 1}\n')
    path.write_text('{"step": 7}')
    assert progress.poll() == {"step": 7, "total": None, "metrics": {}}
    assert progress.poll() is None


# --- progress out of what Keras prints ------------------------------------------------------------
BACK = "\b" * 40
KERAS_2 = (
    "Epoch 2/4\n"
    "\r 1/18 [>.....] - ETA: 31s - loss: 5.4192 - mae: 2.2440"
    + BACK
    + "\r 9/18 [===>..] - ETA: 1s - loss: 3.1 - mae: 2.0"
    + BACK
    + "\r"
)
KERAS_3 = (
    "Epoch 3/10\n\r\x1b[1m16/32\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━\x1b[0m \x1b[1m0s\x1b[0m "
    "12ms/step - accuracy: 0.5312 - loss: 6.1e-01\n"
)
PER_EPOCH = "Epoch 1/2\n20/20 - 0s - loss: 0.3002 - mae: 0.4420 - 37ms/epoch - 2ms/step\n"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Epoch 1/3\n", {"step": 1, "total": 3, "metrics": {}, "unit": "epoch", "part": 0.0}),
        (
            KERAS_2,
            {
                "step": 2,
                "total": 4,
                "metrics": {"loss": 3.1, "mae": 2.0},
                "unit": "epoch",
                "part": 0.375,
            },
        ),
        (
            KERAS_3,
            {
                "step": 3,
                "total": 10,
                "metrics": {"accuracy": 0.5312, "loss": 0.61},
                "unit": "epoch",
                "part": 0.25,
            },
        ),
        (
            PER_EPOCH,
            {
                "step": 1,
                "total": 2,
                "metrics": {"loss": 0.3002, "mae": 0.442},
                "unit": "epoch",
                "part": 0.5,
            },
        ),
        (
            "Epoch 1/3\n7/Unknown - 3s - loss: nan\n",
            {"step": 1, "total": 3, "metrics": {"loss": None}, "unit": "epoch", "part": 0.0},
        ),
        ("3/10 files read - done\n", None),
        ("Epoch 5/3\n", None),
        ("Epoch 1/3", None),  # not a whole line yet
    ],
)
def test_progress_reads_what_keras_prints(tmp_path: Path, printed: str, expected: Any) -> None:
    out = tmp_path / "stdout.txt"
    progress = task_files.Progress("", str(out))
    out.write_text(printed)
    assert progress.poll() == expected


def test_progress_keeps_the_epoch_between_polls(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    progress = task_files.Progress("", str(out))
    out.write_text("Epoch 2/4\n")
    progress.poll()
    with out.open("a") as file:
        file.write("\r 9/18 [==>..] - ETA: 1s - loss: 3.1" + BACK + "\r18/18 [==")
    assert (progress.poll() or {}).get("part") == 0.375
    assert progress.poll() is None
    with out.open("a") as file:
        file.write("==] - 2s - loss: 2.5\n")
    assert (progress.poll() or {}).get("metrics") == {"loss": 2.5}
    with out.open("a") as file:
        file.write("Epoch 3/4\n")
    assert progress.poll() == {
        "step": 3,
        "total": 4,
        "metrics": {"loss": 2.5},
        "unit": "epoch",
        "part": 0.5,
    }


def test_progress_that_the_program_reports_replaces_what_keras_prints(tmp_path: Path) -> None:
    out = tmp_path / "stdout.txt"
    progress = task_files.Progress("", str(out))
    out.write_text('Epoch 1/3\nTFJOB_PROGRESS {"step": 70, "total": 900}\nEpoch 2/3\n')
    assert (progress.poll() or {}).get("step") == 70
    with out.open("a") as file:
        file.write("Epoch 3/3\n")
    assert progress.poll() is None


@given(st.text(alphabet="Epoch 0123456789/\n\r\b- loss:.e+nafi", max_size=200))
def test_progress_survives_any_output(text: str) -> None:
    found = keras.Keras().read(text)
    assert found is None or 0 <= found["part"] <= 1
