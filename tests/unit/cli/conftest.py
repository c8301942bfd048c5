"""A stand-in for the verbs that commands call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job import operations
from tests.fakes.command_line import GOOD

CLUSTER = SimpleNamespace(settings=SimpleNamespace(resource_managers=["http://rm1:8088"]))


class Stage:
    """Replaces functions of `operations`; a call to one that has no replacement fails the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._patch = monkeypatch
        self.on("connect", lambda _settings: CLUSTER)
        for name in (
            "submit",
            "follow",
            "status",
            "stop",
            "delete",
            "find",
        ):
            monkeypatch.setattr(
                operations,
                name,
                lambda *_args, _name=name, **_named: pytest.fail(
                    f"operations.{_name} must not be called"
                ),
            )

    def on(self, name: str, call: Callable[..., Any]) -> None:
        def recorded(*args: Any, **named: Any) -> Any:
            self.calls.append((name, *(arg for arg in args if arg is not CLUSTER)))
            return call(*args, **named)

        self._patch.setattr(operations, name, recorded)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a cluster on which no verb is expected yet."""
    return Stage(monkeypatch)


@pytest.fixture
def spec(home: Path) -> Path:
    """Return a job spec file."""
    path = home / "train.yaml"
    path.write_text(GOOD)
    return path
