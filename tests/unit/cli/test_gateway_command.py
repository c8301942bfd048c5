"""The commands gateway serve and gateway token."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders.command_line import Cli
from tests.pages import DOCS, blocks, resolve

RM = ("--rm", "http://rm1:8088")


def test_token_prints_a_matching_line(cli: Cli, home: Path) -> None:
    done = cli("gateway", "token", "alice")
    token, line = re.fullmatch(
        r"token  (stfj_\S{43})\nline   (alice sha256:[0-9a-f]{64})\n", done.out
    ).groups()  # type: ignore[union-attr]
    assert line == f"alice sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    made = cli("gateway", "token", "alice", "-o", "json").json
    assert (made["kind"], made["name"]) == ("GatewayToken", "alice")
    assert made["token"] != token
    assert cli("gateway", "token", "a b").status == 2


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
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
        assert "tfgateway.service" not in done.stderr, done.stderr


def test_serve_without_its_packages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submit_tf_job.cli.gateway.find_spec", lambda _name: None)
    done = cli("gateway", "serve", "--no-auth", *RM)
    assert (done.status, "pip install 'fastapi>=0.115' 'uvicorn>=0.32'" in done.err) == (2, True)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_serve_refuses_a_key_that_others_can_read(cli: Cli, home: Path, mode: int) -> None:
    for name in ("cert.pem", "key.pem"):
        (home / name).write_text("no PEM")
    (home / "key.pem").chmod(mode)
    tls = ("--cert", str(home / "cert.pem"), "--key", str(home / "key.pem"))
    done = cli("gateway", "serve", "--no-auth", "--port", "0", *tls, *RM)
    assert f"the file of --key {home}/key.pem: others can" in done.err
    assert f"chmod 600 {home}/key.pem" in done.err
