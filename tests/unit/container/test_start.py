"""What the bootstrap imports before a command starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
NEEDLESS = {"tarfile", "tempfile", "uuid", "traceback", "random"}
ITS_OWN = {"submit_tf_job.container.decider", "submit_tf_job.container.rendezvous"}


def imported(*modules: str) -> set[str]:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"from submit_tf_job.container import {', '.join(modules)}; print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_a_task_without_files_imports_no_module_that_it_does_not_need() -> None:
    assert sorted(NEEDLESS & imported("decider", "follower", "main")) == []


def test_only_the_deciding_task_compiles_the_state_machine() -> None:
    assert sorted(ITS_OWN & imported("follower", "main")) == []
    assert sorted(ITS_OWN - imported("decider", "main")) == []
