"""What ten thousand workers cost more than ten: bytes of the posted service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bench.measure import Row

__all__ = ["SIZE_GOAL", "measure_size", "posted_bytes"]

SPEC = Path(__file__).parents[2] / "specs/parameter-server.yaml"
SIZE_GOAL = 1.05
FEW, MANY = 10, 10_000


def posted_bytes(workers: int) -> int:
    """Return the size of the request's body for so many workers."""
    argv = [sys.executable, "-m", "submit_tf_job", "render", str(SPEC)]
    options = ["--set", f"roles.worker.instances={workers}", "--rm", "http://rm.example.com:8088"]
    environ = {"HOME": "/nonexistent", "PATH": os.defpath, "PYTHONPATH": str(SPEC.parents[1])}
    return len(subprocess.check_output([*argv, *options, "--user", "alice"], env=environ))


def measure_size() -> list[Row]:
    """Plan the same job with few and with many workers."""
    few, many = posted_bytes(FEW), posted_bytes(MANY)
    what, details = f"bytes posted for {MANY:,} workers", f"{many:,} and {few:,} bytes"
    return [Row(what, f"{FEW} workers", many / few, SIZE_GOAL, details)]
