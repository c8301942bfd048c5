from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bootstrap.harness import Cluster, cluster


def interpreters() -> list[str]:
    """Return the oldest and the newest Python that images are likely to have, as far as this
    machine has them.
    """
    found = []
    for version in ("3.6", "3.13"):
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        path = str(installed[-1]) if installed else shutil.which(f"python{version}")
        if path:
            found.append(os.fspath(path))
    return found or [sys.executable]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Cluster]:
    """A job's containers, run by this Python."""
    with cluster(tmp_path) as made:
        yield made


@pytest.fixture(params=interpreters(), ids=lambda path: Path(path).resolve().name)
def any_job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A job's containers, run by the oldest and by the newest Python."""
    with cluster(tmp_path, request.param) as made:
        yield made
