"""What the bootstrap imports before a command starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
NEEDLESS = {"tarfile", "tempfile", "uuid", "traceback", "random"}


def test_a_task_without_files_imports_no_module_that_it_does_not_need() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from submit_tf_job.container import decider, follower, main; print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(NEEDLESS & set(done.stdout.split())) == []
