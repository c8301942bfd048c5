"""Users' commands on a simulated YARN, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.command_line import Cli
from tests.world import World, world_of


@pytest.fixture
def world(cli: Cli, home: Path) -> Iterator[World]:
    """Return a cluster without jobs, and the command line on it."""
    with world_of(cli, home) as made:
        yield made
