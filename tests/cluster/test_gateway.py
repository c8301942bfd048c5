"""The gateway as a process of its own, called by programs that have nothing but HTTP, on a real
cluster; killed in the middle of it.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway import generated
from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "strategy": "single",
    "roles": {"worker": {"memory": "128Mi"}},
}


class Served:
    """A gateway that can be killed and started again, always at the same address."""

    def __init__(self, tool: Tool, callers: tuple[str, ...], directory: Path) -> None:
        self._tool, self._port, self.log = tool, 0, directory / "gateway.log"
        made = {name: tool("gateway", "token", name, "-o", "json").json for name in callers}
        self.tokens = {name: str(one["token"]) for name, one in made.items()}
        self._file = directory / "callers"
        self._file.write_text("".join(f"{one['line']}\n" for one in made.values()))
        self._file.chmod(0o600)
        self.start()

    def start(self) -> None:
        argv = [
            *self._tool.argv("gateway"),
            "serve",
            "--callers",
            str(self._file),
            "--port",
            str(self._port),
        ]
        argv = [word for word in argv if word not in ("--profile", self._tool.profile)] + [
            "--profile",
            self._tool.profile,
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                argv, env=self._tool.environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("listening on http://127.0.0.1:"), (said, self.log.read_text())
        self._port = int(said.rpartition(":")[2])
        self.url = said.split()[-1]

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        status = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def ask(self, method: str, path: str, caller: str = "", **options: Any) -> requests.Response:
        headers = {
            "Authorization": f"Bearer {self.tokens[caller or next(iter(self.tokens))]}",
            **options.pop("headers", {}),
        }
        return requests.request(
            method, f"{self.url}{path}", headers=headers, timeout=150, **options
        )

    def post(self, name: str, key: str, caller: str = "", **content: Any) -> requests.Response:
        headers = {"Idempotency-Key": key}
        return self.ask(
            "POST", "/v1/jobs", caller, json={**JOB, "name": name, **content}, headers=headers
        )

    def until(
        self, name: str, holds: Callable[[dict[str, Any]], bool], caller: str = ""
    ) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while True:
            seen: dict[str, Any] = self.ask("GET", f"/v1/jobs/{name}", caller).json()
            if holds(seen):
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.5)


@pytest.fixture
def me(tool: Tool) -> str:
    user = tool("config", "show", "-o", "json").json["settings"]["user"]["value"]
    return str(user)


@pytest.fixture
def served(tool: Tool, me: str, tmp_path: Path) -> Iterator[Served]:
    made = Served(tool, (me, "bob"), tmp_path)
    yield made
    if made.process.returncode is None:
        made.end(signal.SIGKILL)
    tool("delete", "gw-bobs", "--user", "bob", "--force")
    assert not [token for token in made.tokens.values() if token in made.log.read_text()]


def test_generated_client_submits_and_waits(served: Served, tool: Tool, tmp_path: Path) -> None:
    tool.jobs.append("gw-generated")
    directory = tmp_path / "client"
    directory.mkdir()
    assert generated.generate(directory) == ""
    (directory / "train.py").write_text("print('made by a generated client')")
    # does not fit into the service, so it is staged
    (directory / "large.bin").write_bytes(bytes(range(256)) * 8192)
    command = "python3 train.py && sha256sum large.bin && ls -l train.py"
    spec = {**JOB, "name": "gw-generated", "command": command, "files": ["train.py", "large.bin"]}
    token = next(iter(served.tokens.values()))
    said = generated.run(directory, served.url, token, spec, "train.py", "large.bin")
    assert hashlib.sha256((directory / "large.bin").read_bytes()).hexdigest() in said["logs"]
    assert (said["state"], said["deleted"], said["missing"]) == ("SUCCEEDED", True, "no-such-job")
    assert "made by a generated client" in said["logs"]
    assert said["tasks"] == ["worker-0"]
    gone("gw-generated")


def test_a_job_from_post_to_delete_with_streams_and_two_callers(
    served: Served, tool: Tool, me: str
) -> None:
    tool.jobs.append("gw-life")
    command = "for n in 1 2 3 4 5 6; do echo line $n; sleep 1; done"
    posted = served.post("gw-life", "run-1", command=command)
    assert posted.status_code == 201, posted.text
    # Of another name: the ApplicationMasters of one cluster share a directory by the service's
    # name, which its first user owns.
    theirs = served.post("gw-bobs", "run-1", "bob", command="echo from bob; sleep 300")
    assert theirs.status_code == 201, theirs.text

    events = [
        served.ask("GET", f"/v1/jobs/{posted.json()['application_id']}/events", stream=True)
        for _ in range(3)
    ]
    logs = served.ask(
        "GET",
        "/v1/jobs/gw-life/logs?follow=true&file=stdout.txt",
        stream=True,
        headers={"Accept": "application/x-ndjson"},
    )
    lines = [json.loads(line) for line in logs.iter_lines()]
    assert [line["text"] for line in lines if line["kind"] == "LogLine"] == [
        f"line {n}" for n in range(1, 7)
    ], lines
    for stream in events:
        jobs = [
            json.loads(line[6:])
            for line in stream.iter_lines(decode_unicode=True)
            if line.startswith("data: ")
        ]
        assert (jobs[-1]["state"], jobs[-1]["confirmed"], jobs[-1]["user"]) == (
            "SUCCEEDED",
            True,
            me,
        ), jobs[-1]
        assert "RUNNING" in [job["state"] for job in jobs]
    assert "line 6" in served.ask("GET", "/v1/jobs/gw-life/logs?tail=1").text

    bobs = served.until("gw-bobs", lambda job: job["state"] == "RUNNING", "bob")
    assert bobs["user"] == "bob"
    routes = [("GET", ""), ("DELETE", ""), ("POST", "/stop")]
    routes += [("GET", f"/{page}") for page in ("description", "logs", "events")]
    for method, page in routes:
        answer = served.ask(method, f"/v1/jobs/{bobs['application_id']}{page}", me)
        assert (answer.status_code, answer.json()["code"]) == (404, "no-such-job"), (
            page,
            answer.text,
        )
    everybody = served.ask("GET", "/v1/jobs?user=*&limit=1000").json()["jobs"]
    assert {(job["name"], job["user"]) for job in everybody} >= {
        ("gw-life", me),
        ("gw-bobs", "bob"),
    }

    watching = served.ask("GET", "/v1/jobs/gw-bobs/events", "bob", stream=True)
    following = served.ask(
        "GET", "/v1/jobs/gw-bobs/logs?follow=true&file=stdout.txt", "bob", stream=True
    )
    said = following.iter_lines()
    assert next(said) == b"from bob"
    assert served.end(signal.SIGTERM) == 0, "it drains, and that is no failure"
    assert b"RUNNING" in watching.content
    assert list(said) == [], "the stream has an end, and no error"
    served.start()
    assert served.ask("POST", "/v1/jobs/gw-bobs/stop?wait=true", "bob").json()["state"] == "STOPPED"
    for caller, name in ((me, "gw-life"), ("bob", "gw-bobs")):
        assert served.ask("DELETE", f"/v1/jobs/{name}", caller).status_code == 200
        assert served.ask("GET", f"/v1/jobs/{name}", caller).status_code == 404
        gone(name)

    hostile = {
        "application/json": b"[" * 500_000,
        "application/yaml": b"a: !!python/name:os.system",
        "text/html": b"<a>",
    }
    for media, body in hostile.items():
        answer = served.ask("POST", "/v1/jobs", data=body, headers={"Content-Type": media})
        assert answer.status_code in (415, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    entries = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert {entry["event"] for entry in entries} == {"request"}
    assert {entry["status"] for entry in entries} <= {0, 200, 201, 404, 415, 422}
