"""A gateway with a fake cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
from fastapi.testclient import TestClient

from submit_tf_job import Client
from submit_tf_job.gateway import openapi
from submit_tf_job.gateway.app import served
from submit_tf_job.gateway.callers import CallerClients, CallersFile, line_of
from submit_tf_job.gateway.policy import Policy
from submit_tf_job.gateway.runtime import Gateway, Limits, UploadDirectory
from submit_tf_job.settings import Settings, load_settings
from tests.world.cluster import FakeCluster

JOB: dict[str, Any] = {
    "name": "mnist",
    "image": "library/python:3.11",
    "command": "sleep 60",
    "strategy": "single",
    "roles": {"worker": {"memory": "256Mi"}},
}


SCHEMAS = {"components": {"schemas": openapi.schemas()}}


def is_a(name: str, value: Any) -> bool:
    """Check a value against a shape of the OpenAPI document."""
    schema = {**SCHEMAS, "$ref": f"#/components/schemas/{name}"}
    jsonschema.Draft202012Validator(schema).validate(value)
    return True


class World:
    """A gateway with callers alice, bob and etl, on a fake cluster; the gateway itself is etl."""

    def __init__(
        self,
        tmp_path: Path,
        limits: Limits | None = None,
        fake: FakeCluster | None = None,
        policy: str = "",
        **settings: Any,
    ) -> None:
        self.fake = fake or FakeCluster()
        self.fake.yarn.site.users = frozenset({"alice", "bob", "etl"})
        self.entries: list[dict[str, Any]] = []
        self.connected: list[Settings] = []
        self.tokens = {name: f"token-of-{name}" for name in ("alice", "bob", "etl")}
        self.file = tmp_path / "callers"
        self.file.write_text(
            "# who\n\n"
            + "".join(line_of(name, token) + "\n" for name, token in self.tokens.items())
        )
        self.file.chmod(0o600)
        self.policy = tmp_path / "policy.yaml"
        self.policy.write_text(policy)
        self.policy.chmod(0o600)
        self.settings = load_settings(
            arguments={"resource_managers": ["http://rm1:8088"], "user": "etl", **settings},
            environ={"HOME": "/nowhere"},
            cwd=Path("/"),
        )
        self.gateway = Gateway(
            CallerClients(self.settings, self.connect),
            CallersFile(self.file),
            self.entries.append,
            limits or Limits(),
            uploads=UploadDirectory(tmp_path),
            policy=Policy.of(self.policy),
        )
        self.http = TestClient(served(self.gateway), base_url="http://gateway")

    def connect(self, settings: Settings, rm: Any = None) -> Client:
        self.connected.append(settings)
        client = Client(settings=settings)
        made = rm or self.fake.client(settings.user)
        client.cluster = self.fake.connect(settings, made, own_jobs_only=True)
        return client

    def ask(self, method: str, path: str, caller: str = "alice", **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}", **options.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **options)

    def post(
        self, caller: str = "alice", key: str | None = None, path: str = "/v1/jobs", **changes: Any
    ) -> Any:
        return self.ask(
            "POST",
            path,
            caller,
            json={**JOB, **changes},
            headers={"Idempotency-Key": key} if key else {},
        )

    def runs_and_writes(self) -> None:
        """Let the first job run, and write."""
        self.fake.clock.sleep(5)
        container = "container_1700000000000_0001_01_000002"
        self.fake.yarn.containers["worker"] = [
            {
                "id": container,
                "component_instance_name": "worker-0",
                "bare_host": "node1",
                "state": "READY",
            }
        ]
        self.fake.node.logs[container, "stdout.txt"] = b"one\ntwo\x1b[31m\x1b[2J\n"

    @property
    def apps(self) -> list[tuple[str, str]]:
        return [(app.user, app.name) for app in self.fake.yarn.apps.values()]


def refused(answer: Any, status: int, code: str) -> str:
    """Assert that an answer is a problem, and return its sentence."""
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    ), answer.text
    body = answer.json()
    assert is_a("Problem", body)
    assert (body["status"], body["code"]) == (status, code)
    return str(body["detail"])
