"""A job spec file for commands that need no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.command_line import GOOD


@pytest.fixture
def spec(home: Path) -> Path:
    """Return a job spec file."""
    path = home / "train.yaml"
    path.write_text(GOOD)
    return path
