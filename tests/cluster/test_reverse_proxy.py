"""A ResourceManager behind a reverse proxy (nginx, set up as Knox is): a password, a bearer token,
and who gets to see them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.tool import (
    Result,
    Tool,
)

pytestmark = pytest.mark.cluster

PASSWORD, WRONG = "correct horse battery", "Tr0ub4dor"
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@dataclass
class Proxy:
    """nginx with TLS: `/basic/` wants a password, `/bearer/` a token, and both tell the
    ResourceManager who asks.

    Attributes:
        directory: Its configuration, logs, certificate.
        port: Where it listens.
        rm: Address of the ResourceManager.
        user: Whose password and token they are.
    """

    directory: Path
    port: int
    rm: str
    user: str

    @property
    def ca_file(self) -> Path:
        return self.directory / "ca.pem"

    def url(self, path: str) -> str:
        return f"https://localhost:{self.port}/{path}"

    def write(self, token: str) -> None:
        """Write the configuration; `token` is the one that is good from now on."""
        tell = (
            'rewrite ^/\\w+/(.*)$ /$1 break; set $args "$args&user.name={0}"; '
            'proxy_set_header Authorization ""; proxy_pass {1};'
        )
        (self.directory / "nginx.conf").write_text(
            f"""
{"user root;" if os.geteuid() == 0 else ""}
pid {self.directory}/pid;
error_log {self.directory}/error.log;
worker_processes 1;
events {{ }}
http {{
  access_log {self.directory}/access.log;
  client_body_temp_path {self.directory}/body; proxy_temp_path {self.directory}/proxy;
  fastcgi_temp_path {self.directory}/f; uwsgi_temp_path {self.directory}/u; scgi_temp_path {self.directory}/s;
  map $http_authorization $known {{ default ""; "Bearer {token}" {self.user}; }}
  server {{
    listen 127.0.0.1:{self.port} ssl;
    ssl_certificate {self.ca_file};
    ssl_certificate_key {self.directory}/key.pem;
    location /basic/ {{ auth_basic "gateway"; auth_basic_user_file {self.directory}/passwords; {tell.format("$remote_user", self.rm)} }}
    location /bearer/ {{
      if ($known = "") {{ add_header WWW-Authenticate 'Bearer realm="gateway"' always; return 401; }}
      {tell.format("$known", self.rm)}
    }}
  }}
}}
"""
        )

    def make(self) -> None:
        """Make certificate and passwords."""
        _run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{self.directory}/key.pem", "-out", str(self.ca_file),
        )  # fmt: skip
        hashed = _run("openssl", "passwd", "-apr1", PASSWORD).strip()
        (self.directory / "passwords").write_text(f"{self.user}:{hashed}\n")
        (self.directory / "passwords").chmod(0o644)

    def nginx(self, *options: str) -> None:
        _run(
            "nginx",
            "-p",
            str(self.directory),
            "-c",
            f"{self.directory}/nginx.conf",
            "-e",
            f"{self.directory}/error.log",
            *options,
        )

    def accept(self, token: str) -> None:
        """Let another token be the good one."""
        self.write(token)
        self.nginx("-s", "reload")


def _run(*argv: str) -> str:
    done = subprocess.run(
        argv, env={**os.environ, "PATH": PATH}, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxy(real_cluster: Cluster, tmp_path: Path) -> Iterator[Proxy]:
    if shutil.which("nginx", path=PATH) is None:
        pytest.fail("nginx is not installed; run `make test`, or apt-get install nginx-light")
    tmp_path.chmod(0o755)
    directory = tmp_path / "nginx"
    directory.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Proxy(
        directory, port, real_cluster.rm_url.replace("localhost", "127.0.0.1"), real_cluster.user
    )
    made.make()
    made.write("token-1")
    made.nginx()
    deadline = time.monotonic() + 10
    while not _listens(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield made
    made.nginx("-s", "stop")


@dataclass
class Shell:
    """The tool with settings of its own, none of them the sandbox's."""

    tool: Tool
    home: Path

    def settings(self, **content: object) -> None:
        import yaml

        path = self.home / ".config/submit_tf_job/settings.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"profiles": {self.tool.profile: content}}))
        path.chmod(0o600)  # one names a command to run

    def __call__(self, *words: object) -> Result:
        environ = {**self.tool.environ, "HOME": str(self.home)}
        return Tool(environ, self.tool.profile, self.tool.cwd)(*words)

    def secret(self, name: str, text: str) -> str:
        path = self.home / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)


@pytest.fixture
def shell(tool: Tool, tmp_path: Path) -> Shell:
    return Shell(tool, tmp_path)


def test_a_password(proxy: Proxy, shell: Shell, real_cluster: Cluster) -> None:
    site = {
        "resource_managers": [proxy.url("basic")],
        "ca_file": str(proxy.ca_file),
        "user": proxy.user,
        "dns": {"domain": "sandbox.test"},
        "job": {"image_policy": "warn"},  # this sandbox has no Docker
        "hadoop_conf": str(real_cluster.client_conf),
    }
    shell.settings(**site, auth="basic", credentials={"file": shell.secret("password", PASSWORD)})
    job = shell.tool.spec(
        "behind-a-proxy",
        strategy="single",
        command="echo through the proxy",
        roles={"worker": {"memory": "128Mi"}},
    )
    done = shell("submit", job)
    assert (done.status, "SUCCEEDED" in done.stdout) == (0, True), done
    assert shell("status", "behind-a-proxy", "-o", "json").json["state"] == "SUCCEEDED"
    assert PASSWORD not in done.stdout + done.stderr

    shell.settings(**site, auth="basic", credentials={"file": shell.secret("password", WRONG)})
    refused = shell("list", "-v")
    assert (refused.status, refused.stdout) == (4, ""), refused
    assert f"does not accept the password of {proxy.user}" in refused.stderr
    assert WRONG not in refused.stderr

    shell.settings(**{**site, "resource_managers": [proxy.url("basic").replace("https://localhost", "http://rm.example.com")]},
                   auth="basic", credentials={"file": shell.secret("password", PASSWORD)})  # fmt: skip
    open_line = shell("list")
    assert (open_line.status, "the password would travel unencrypted" in open_line.stderr) == (
        2,
        True,
    ), open_line

    shell.settings(**site, auth="basic")
    nowhere = shell("list")
    assert (
        nowhere.status,
        "set one of credentials.file and credentials.command" in nowhere.stderr,
    ) == (2, True), nowhere

    shell.settings(**{**site, "auth": "simple"})
    simple = shell("list")
    assert (simple.status, "Say --auth basic" in simple.stderr) == (4, True), simple


def test_a_bearer_token_from_a_command(proxy: Proxy, shell: Shell) -> None:
    """A token that lapses while a command runs is asked for again; a node never sees it."""
    token = shell.secret("token", "token-1")
    site = {
        "resource_managers": [proxy.url("bearer")],
        "ca_file": str(proxy.ca_file),
        "user": proxy.user,
        "dns": {"domain": "sandbox.test"},
        "job": {"image_policy": "warn"},  # this sandbox has no Docker
    }
    shell.settings(
        **site, auth="bearer", credentials={"command": ["cat", token]}, poll={"max": "1s"}
    )
    job = shell.tool.spec(
        "with-a-bearer",
        strategy="single",
        command="sleep 12",
        roles={"worker": {"memory": "128Mi"}},
    )
    environ = {**shell.tool.environ, "HOME": str(shell.home)}
    running = Tool(environ, shell.tool.profile, shell.tool.cwd).start("submit", job, "-v")
    shell.tool.until("with-a-bearer", lambda seen: seen["state"] == "RUNNING")
    shell.secret("token", "token-2")
    proxy.accept("token-2")
    stdout, stderr = running.communicate(timeout=120)
    assert (running.returncode, "SUCCEEDED" in stdout) == (0, True), (stdout, stderr)
    assert "token-" not in stdout + stderr
    log = (proxy.directory / "access.log").read_text()
    assert " 401 " in log, "the first token was never refused"

    shell.settings(**site, auth="bearer", credentials={"command": ["false"]})
    failed = shell("list")
    assert (failed.status, "credentials.command 'false' exited with status 1" in failed.stderr) == (
        4,
        True,
    ), failed
    shell.settings(**site, auth="bearer", credentials={"command": ["echo", "token-0"]})
    refused = shell("list")
    assert (
        refused.status,
        "does not accept the bearer token" in refused.stderr,
        "token-0" in refused.stderr,
    ) == (4, True, False), refused
