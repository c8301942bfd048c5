"""A gateway that sends webhooks."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from submit_tf_job.gateway.app import served
from submit_tf_job.gateway.callers import CallersFile
from submit_tf_job.gateway.clusters import Clusters
from submit_tf_job.gateway.running import Gateway
from submit_tf_job.gateway.state import State, open_state
from submit_tf_job.gateway.uploads import UploadDirectory
from submit_tf_job.gateway.webhook_delivery import Webhooks
from submit_tf_job.gateway.webhooks import Allowed, Keyring
from tests.fakes.gateway import JOB, World

HOOK = "https://hooks.example.com/airflow/run-1?token=secret-in-the-url"


def a_key(tmp_path: Path) -> Path:
    path = tmp_path / "webhook-key"
    path.write_text("whsec_" + base64.b64encode(bytes(range(32))).decode() + "\n")
    path.chmod(0o600)
    return path


class Hooked(World):
    """A gateway with a database, and a receiver that answers what it is told to."""

    def __init__(self, tmp_path: Path, **options: Any) -> None:
        super().__init__(tmp_path, **options)
        self.directory = tmp_path
        self.received: list[tuple[str, bytes, dict[str, str]]] = []
        self.answers: list[int | OSError] = []
        self.keyring = Keyring(a_key(tmp_path))
        self.stores: list[State] = []
        self.begin()

    def begin(self) -> None:
        """Start a gateway on the database, beside or after the one before."""
        self.stores.append(open_state(f"sqlite://{self.directory}/state.db"))
        self.gateway = Gateway(
            Clusters(self.settings, self._connect),
            CallersFile(self.file),
            self.entries.append,
            store=self.stores[-1],
            uploads=UploadDirectory(self.file.parent),
            webhooks=Webhooks(
                Allowed(["https://hooks.example.com/airflow"]), self.keyring, self._receive
            ),
        )
        assert self.gateway.delivery is not None
        self.delivery = self.gateway.delivery
        self.delivery._clock = self.fake.clock
        self.http = TestClient(served(self.gateway), base_url="http://gateway")

    def end(self) -> None:
        """End the courier, and let go of the database."""
        self.delivery.end()
        for store in self.stores:
            store.database.close()

    def _receive(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        self.received.append((url, body, headers))
        answer = self.answers.pop(0) if self.answers else 204
        if isinstance(answer, OSError):
            raise answer
        return answer

    def hook(self, name: str = "mnist", url: str = HOOK, **options: Any) -> Any:
        return self.ask(
            "POST", "/v1/jobs", json={**JOB, "name": name}, headers={"Webhook-Url": url, **options}
        )

    def pass_(self, seconds: float, step_s: float = 5.0) -> None:
        """Let time pass, and the courier do what is due in it."""
        for _ in range(max(1, round(seconds / step_s))):
            self.fake.clock.sleep(step_s)
            self.tick()

    def tick(self) -> None:
        self.delivery.tick()
        deadline = time.monotonic() + 10
        while self.delivery._busy:
            assert time.monotonic() < deadline, self.delivery._busy
            time.sleep(0.001)

    def kept(self) -> list[dict[str, Any]]:
        app = next(iter(self.fake.yarn.apps))
        found: list[dict[str, Any]] = self.ask("GET", f"/v1/jobs/{app}/webhooks").json()["webhooks"]
        return found
