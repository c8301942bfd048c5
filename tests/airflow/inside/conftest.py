"""Where Airflow is: its settings, and a cluster of fakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.airflow.hook import SubmitTFJobHook
from submit_tf_job.sdk.client import Client
from submit_tf_job.settings import load_settings
from tests.world.cluster import FakeCluster


class FakeHook(SubmitTFJobHook):
    """A hook whose clients reach the fakes."""

    def __init__(self, fakes: FakeCluster) -> None:
        super().__init__(None)
        self.fakes = fakes

    def _new_client(self) -> Client:
        settings = load_settings(
            arguments={"resource_managers": ["http://rm1:8088"], "user": "alice"},
            environ={"HOME": "/"},
            cwd=Path("/"),
        )
        client = Client(settings=settings)
        client.__dict__["cluster"] = self.fakes.connect(settings)
        return client


@pytest.fixture
def fakes() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def hook(fakes: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeHook:
    """The hook that every operator and trigger gets."""
    made = FakeHook(fakes)
    monkeypatch.setattr("submit_tf_job.airflow.hook.SubmitTFJobHook", lambda _conn_id=None: made)
    return made
