"""One real cluster for a whole test session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from submit_tf_job.sandbox import Sandbox, SandboxDirs, SandboxInfo, SandboxOptions


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[SandboxInfo]:
    """Start a sandbox of a name of its own, and take it down at the end."""
    sandbox = Sandbox(f"test{os.getpid()}", SandboxDirs.standard(os.environ))
    try:
        yield sandbox.up(SandboxOptions(), os.environ, print)
    finally:
        sandbox.down()
