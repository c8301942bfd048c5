"""The program of the container that calls a pickled function, as a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle.cloudpickle

from submit_tf_job.container.programs import callee


def test_a_call_that_another_python_pickled(tmp_path: Path) -> None:
    """The program of the container, as a process."""
    shutil.copy(callee.__file__, tmp_path)
    shutil.copy(str(cloudpickle.cloudpickle.__file__), tmp_path / callee.PICKLE_FILE)
    (tmp_path / callee.COMPAT_FILE).write_text("")
    (tmp_path / callee.CALL_FILE).write_text("3.7\nAAAA")
    done = subprocess.run(
        [sys.executable, "callee.py"],
        cwd=tmp_path,
        env={**os.environ, "LOG_DIRS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == callee.EXIT_CANNOT_CALL
    assert "the call was made by Python 3.7, and this task runs" in done.stderr
    assert (tmp_path / callee.RESULT_FILE).is_file()
