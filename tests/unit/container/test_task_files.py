"""What the bootstrap reads of a program: the tail of its stderr, and its progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container import contract
from submit_tf_job.container.progress import Progress
from submit_tf_job.container.task_files import last_lines


# --- the tail of stderr ---------------------------------------------------------------------------
def tail(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "stderr.txt").write_bytes(content)
    return last_lines(str(tmp_path / "stderr.txt"))


def test_last_lines_without_noise(tmp_path: Path) -> None:
    content = (
        b"bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n"
        b"[submit_tf_job] starting: python train.py\nTraceback\n\nValueError: \xff no\r\n"
        + contract.OUTCOME_MARK.encode()
        + b"{}\n"
    )
    assert tail(tmp_path, content) == ["Traceback", "ValueError: \ufffd no"]
    # a line of the bootstrap's that follows a progress bar
    assert tail(tmp_path, b"\r1/9" * 200 + b"[submit_tf_job] stopping\nno\n") == ["no"]
    assert last_lines(str(tmp_path / "nothing")) == []


def test_last_lines_is_bounded(tmp_path: Path) -> None:
    assert tail(tmp_path, b"".join(b"line %d\n" % i for i in range(100_000))) == [
        f"line {i}" for i in range(99_980, 100_000)
    ]
    assert tail(tmp_path, b"x" * 100_000) == ["x" * 500]
    long = tail(tmp_path, b"".join(b"%04d" % i + b"y" * 2000 + b"\n" for i in range(50)))
    assert (len(long), long[-1][:4]) == (16, "0049")
    assert tail(tmp_path, b"") == []


@given(st.binary(max_size=3000))
def test_any_bytes_make_a_message_of_bounded_size(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    lines = tail(tmp_path_factory.getbasetemp(), content * 40)
    assert len(lines) <= 20
    assert len(json.dumps(lines)) < 60_000


# --- progress: the file, lines on stdout, what Keras prints ---------------------------------------
NONE: dict[str, Any] = {"step": None, "total": None, "metrics": {}}
LARGE = json.dumps({"metrics": {"m" * 200: 0, **{str(i): i for i in range(60)}}})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        *[(text, None) for text in ("", "{", "[1]", "3", '"x"', "null", "\0", "[" * 4000)],
        ('{"step": ' + "1" * 5000 + "}", None),
        ('{"step": 3, "total": 10, "metrics": {"loss": 0.25}, "more": 1}', {"step": 3, "total": 10, "metrics": {"loss": 0.25}}),
        ('{"step": "3"}', NONE),
        ('{"step": true, "total": 1.5}', {**NONE, "total": 1.5}),
        ('{"metrics": [1]}', NONE),
        ('{"metrics": {"nan": NaN, "inf": Infinity, "deep": [1]}}', {**NONE, "metrics": {"nan": "NaN", "inf": "Infinity", "deep": None}}),
        (LARGE, {**NONE, "metrics": {"m" * 100: 0, **{str(i): i for i in range(49)}}}),
    ],
    ids=range(15),
)  # fmt: skip
def test_progress_file(tmp_path: Path, content: str, expected: Any) -> None:
    path = tmp_path / "p"
    progress = Progress(str(path))
    assert progress.poll() is None
    path.write_text(content)
    assert progress.poll() == expected
    assert progress.poll() is None, "it has not changed"
    path.write_text('{"step": 4}')
    assert progress.poll() == {**NONE, "step": 4}


class Printed:
    """A program's stdout, and the progress that is read from it."""

    def __init__(self, tmp_path: Path) -> None:
        self.out, self.file = tmp_path / "stdout.txt", tmp_path / "progress.json"
        self.out.write_text('TFJOB_PROGRESS {"step": 1}\n')  # an earlier program's
        self.progress = Progress(str(self.file), str(self.out))
        assert self.progress.poll() is None

    def __call__(self, text: str | bytes) -> dict[str, Any] | None:
        with self.out.open("ab") as out:
            out.write(text.encode() if isinstance(text, str) else text)
        return self.progress.poll()


def test_progress_lines(tmp_path: Path) -> None:
    printed = Printed(tmp_path)
    said = 'x\nTFJOB_PROGRESS {"step": 2}\nTFJOB_PROGRESS {"step": 3, "metrics": {"loss": 0.5}}\ny\nTFJOB_PROGRESS {"st'
    assert printed(said) == {"step": 3, "total": None, "metrics": {"loss": 0.5}}
    assert printed("") is None
    assert printed('ep": 4}\n') == {**NONE, "step": 4}
    for none in ("", " 7", " {", " " + "[" * 9000):
        assert printed(f'TFJOB_PROGRESS {{"step": 5}}\nTFJOB_PROGRESS{none}\n') == {
            **NONE,
            "step": 5,
        }
    assert printed(' TFJOB_PROGRESS {"step": 6}\n') is None
    much = b'TFJOB_PROGRESS {"step": 1}\n' + b"\xff" * 500_000 + b'\nTFJOB_PROGRESS {"step": 2}\n'
    assert printed(much) == {**NONE, "step": 2}
    assert printed(b"z" * 200_000) is None  # a line without an end
    assert printed('\nTFJOB_PROGRESS {"step": 3}\n') == {**NONE, "step": 3}
    printed.out.write_bytes(b"")  # the program empties its output
    assert printed('TFJOB_PROGRESS {"step": 8}\n') == {**NONE, "step": 8}
    printed.file.write_text('{"step": 7}')
    assert printed('TFJOB_PROGRESS {"step": 4}\n') == {**NONE, "step": 7}, "the file comes first"
    assert printed("") is None


BACK = "\b" * 40
KERAS_2 = (
    "Epoch 2/4\n\r 1/18 [>.....] - ETA: 31s - loss: 5.4192 - mae: 2.2440"
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


def epoch(step: int, total: int, part: float, **metrics: float | str) -> dict[str, Any]:
    return {"step": step, "total": total, "metrics": metrics, "unit": "epoch", "part": part}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Epoch 1/3\n", epoch(1, 3, 0.0)),
        (KERAS_2, epoch(2, 4, 0.375)),
        (
            f"{PER_EPOCH}{KERAS_2}",
            {**epoch(2, 4, 0.375, loss=0.3002, mae=0.442), "metrics_step": 1},
        ),
        ("Epoch 1/2\n18/18 [====] - ETA: 0s - loss: 9.9 - accuracy: 1.9\n", epoch(1, 2, 0.5)),
        (KERAS_3, epoch(3, 10, 0.25)),
        (KERAS_3.replace("16/32", "32/32"), epoch(3, 10, 0.3, accuracy=0.5312, loss=0.61)),
        (PER_EPOCH, epoch(1, 2, 0.5, loss=0.3002, mae=0.442)),
        ("Epoch 1/3\n7/Unknown - 3s - loss: 2\n", epoch(1, 3, 0.0)),
        ("Epoch 1/3\n7/7 - 3s - loss: nan\n", epoch(1, 3, 0.333333, loss="NaN")),
        ("3/10 files read - done\n", None),
        ("Epoch 5/3\n", None),
        ("Epoch 1/3", None),  # not a whole line yet
    ],
)
def test_progress_reads_what_keras_prints(tmp_path: Path, printed: str, expected: Any) -> None:
    assert Printed(tmp_path)(printed) == expected


def test_progress_keeps_the_epoch_between_polls(tmp_path: Path) -> None:
    printed = Printed(tmp_path)
    printed("Epoch 2/4\n")
    said = "\r 9/18 [==>..] - ETA: 1s - loss: 3.1" + BACK + "\r18/18 [=="
    assert printed(said) == epoch(2, 4, 0.375)
    assert printed("") is None
    assert (printed("==] - 2s - loss: 2.5\n") or {})["metrics"] == {"loss": 2.5}
    assert printed("Epoch 3/4\n") == {**epoch(3, 4, 0.5, loss=2.5), "metrics_step": 2}
    own = 'Epoch 1/3\nTFJOB_PROGRESS {"step": 70, "total": 900}\nEpoch 2/3\n'
    assert (printed(own) or {})["step"] == 70
    assert printed("Epoch 3/3\n") is None, "the program reports its own progress"


@given(st.text(alphabet="Epoch 0123456789/\n\r\b- loss:.e+nafi", max_size=200))
def test_progress_survives_any_output(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    found = Printed(tmp_path_factory.getbasetemp())(text)
    assert found is None or 0 <= found["part"] <= 1
