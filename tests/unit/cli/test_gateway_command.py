"""The commands gateway serve and gateway token."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.gateway.callers import CallersFile
from submit_tf_job.gateway.running import Gateway
from submit_tf_job.gateway.server import Listening
from tests.builders.command_line import Cli
from tests.pages import DOCS, blocks, resolve

RM = ("--rm", "http://rm1:8088")


def test_token_prints_a_matching_line(cli: Cli, home: Path) -> None:
    done = cli("gateway", "token", "alice")
    token, line = re.fullmatch(
        r"token  (stfj_\S{43})\nline   (alice sha256:[0-9a-f]{64})\n", done.out
    ).groups()  # type: ignore[union-attr]
    (home / "callers").write_text(line)
    assert CallersFile(home / "callers").caller(token) == "alice"
    made = cli("gateway", "token", "alice", "-o", "json").json
    assert (made["kind"], made["name"]) == ("GatewayToken", "alice")
    assert made["token"] != token
    assert cli("gateway", "token", "a b").status == 2


def test_serve_starts_the_gateway(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "callers").write_text(f"bob sha256:{'0' * 64}\n")
    (home / "callers").chmod(0o600)
    served: list[tuple[Gateway, Listening]] = []

    def serve(gateway: Gateway, listening: Listening, ready: Any) -> None:
        served.append((gateway, listening))
        ready("http://127.0.0.1:8090")
        gateway.log({"event": "request", "path": "/a\x1b"})

    monkeypatch.setattr("submit_tf_job.gateway.server.serve", serve)
    done = cli("gateway", "serve", "--callers", "callers", "--drain", "5s", *RM)
    assert (done.status, done.out) == (0, "listening on http://127.0.0.1:8090\n")
    assert done.err == '{"event": "request", "path": "/a\\u001b"}\n'
    [(gateway, listening)] = served
    assert gateway.callers is not None
    assert (gateway.callers.names, gateway.clusters.settings.user, listening.drain_s) == (
        frozenset({"bob"}),
        "alice",
        5.0,
    )
    assert cli("gateway", "serve", "--no-auth", "-o", "json", *RM).json == {
        "kind": "Gateway",
        "format": 1,
        "url": "http://127.0.0.1:8090",
    }
    assert served[1][0].callers is None


def test_systemd_unit_in_the_docs_uses_existing_options(tmp_path: Path) -> None:
    [unit] = [block.text for block in blocks(DOCS / "gateway.md") if block.language == "ini"]
    [line] = re.findall(r"^ExecStart=(.*)$", unit.replace("\\\n", ""), re.MULTILINE)
    program, *words = line.split()
    command, rest = resolve(words)
    assert command.name == "serve"
    command.make_context("serve", rest)
    if shutil.which("systemd-analyze"):
        (tmp_path / "tfgateway.service").write_text(unit.replace(program, "/bin/true"))
        argv = ["systemd-analyze", "verify", str(tmp_path / "tfgateway.service")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert "tfgateway.service" not in done.stderr, done.stderr


def test_serve_without_its_packages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submit_tf_job.cli.gateway.find_spec", lambda _name: None)
    done = cli("gateway", "serve", "--no-auth", *RM)
    assert (done.status, "pip install 'fastapi>=0.115' 'uvicorn>=0.32'" in done.err) == (2, True)
