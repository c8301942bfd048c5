"""The program of the container that calls a pickled function, as a process."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle.cloudpickle
import pytest

from submit_tf_job.sdk import callee


def call(folder: Path, text: str, rank: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the program of the container with a pickled call."""
    shutil.copy(callee.__file__, folder)
    shutil.copy(str(cloudpickle.cloudpickle.__file__), folder / callee.PICKLE_FILE)
    (folder / callee.COMPAT_FILE).write_text("")
    (folder / callee.CALL_FILE).write_text(text)
    return subprocess.run(
        [sys.executable, "callee.py"],
        cwd=folder,
        env={**os.environ, "LOG_DIRS": str(folder), "TFJOB_RANK": rank},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_call_that_another_python_pickled(tmp_path: Path) -> None:
    done = call(tmp_path, "3.7\nAAAA")
    assert done.returncode == callee.EXIT_CANNOT_CALL
    assert "the call was made by Python 3.7, and this task runs" in done.stderr
    assert (tmp_path / callee.RESULT_FILE).is_file()


@pytest.mark.parametrize(("rank", "status"), [("0", 1), ("1", 0)])
def test_result_that_cannot_be_sent_fails_the_job(tmp_path: Path, rank: str, status: int) -> None:
    packed = base64.b64encode(cloudpickle.dumps((lambda: (n for n in "ab"), (), {}))).decode()
    done = call(tmp_path, "{}.{}\n".format(*sys.version_info) + packed, rank)
    said = "RuntimeError: what the function returned cannot be sent back: TypeError" in done.stderr
    assert (done.returncode, said) == (status, status == 1), done
    assert (tmp_path / callee.RESULT_FILE).is_file()
