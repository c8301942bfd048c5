"""Users' commands on a simulated YARN, in virtual time."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.command_line import Cli
from tests.world import World, world_of

ME = getpass.getuser()


@pytest.fixture
def world(cli: Cli, home: Path) -> Iterator[World]:
    """Return a cluster without jobs, and the command line on it."""
    with world_of(cli, home) as made:
        yield made


@pytest.fixture
def kept(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Let a staging directory be configured, whose files are this process's user's."""
    monkeypatch.setenv("SUBMIT_TF_JOB_USER", ME)
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", (world.home / "staging").as_uri())
    world.yarn.site.users |= {ME}
    return world
