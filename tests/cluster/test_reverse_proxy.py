"""A ResourceManager behind nginx, set up as Knox is: a password, and a bearer token that lapses."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import Cluster
from tests.gateways import unused_port
from tests.tool import SUBMIT_S, Tool, held, release, until

pytestmark = pytest.mark.cluster

PASSWORD, WRONG = "correct horse battery", "Tr0ub4dor"
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
# `/basic/` wants a password, `/bearer/` a token; both tell the ResourceManager who asks.
CONFIGURATION = """
{root}
pid {here}/pid;
error_log {here}/error.log;
events {{ }}
http {{
  access_log {here}/access.log;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
  fastcgi_temp_path {here}/f; uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  map $http_authorization $known {{ default ""; "Bearer {token}" {user}; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {here}/ca.pem;
    ssl_certificate_key {here}/key.pem;
    proxy_set_header Authorization "";
    location /basic/ {{
      auth_basic "gateway"; auth_basic_user_file {here}/passwords;
      rewrite ^/\\w+/(.*)$ /$1 break; set $args "$args&user.name=$remote_user"; proxy_pass {rm};
    }}
    location /bearer/ {{
      if ($known = "") {{ add_header WWW-Authenticate 'Bearer realm="gateway"' always; return 401; }}
      rewrite ^/\\w+/(.*)$ /$1 break; set $args "$args&user.name=$known"; proxy_pass {rm};
    }}
  }}
}}
"""


def run(*argv: object) -> str:
    words = [str(word) for word in argv]
    environ = {**os.environ, "PATH": PATH}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


class Nginx:
    """nginx with TLS in a directory of its own."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        self.here, self._cluster, self.user = directory, cluster, cluster.user
        self._port = unused_port()
        new = ("-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost")
        name = ("-addext", "subjectAltName=DNS:localhost")
        run("openssl", "req", *new, *name, "-keyout", f"{directory}/key.pem", "-out", self.ca_file)
        hashed = run("openssl", "passwd", "-apr1", PASSWORD).strip()
        (directory / "passwords").write_text(f"{cluster.user}:{hashed}\n")

    @property
    def ca_file(self) -> Path:
        return self.here / "ca.pem"

    def url(self, path: str) -> str:
        return f"https://localhost:{self._port}/{path}"

    def accept(self, token: str, *how: str) -> None:
        """Start, or go on, with another token as the good one."""
        text = CONFIGURATION.format(
            root="user root;" if os.geteuid() == 0 else "",
            here=self.here,
            token=token,
            user=self._cluster.user,
            port=self._port,
            rm=self._cluster.rm_url.replace("localhost", "127.0.0.1"),
        )
        (self.here / "nginx.conf").write_text(text)
        self.call(*how)

    def call(self, *how: str) -> None:
        run("nginx", "-p", self.here, "-c", f"{self.here}/nginx.conf", *how)

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@pytest.fixture
def nginx(real_cluster: Cluster, tmp_path: Path) -> Iterator[Nginx]:
    if shutil.which("nginx", path=PATH) is None:
        pytest.fail("nginx is not installed; run `make test-all`, or apt-get install nginx-light")
    tmp_path.chmod(0o755)
    (tmp_path / "nginx").mkdir()
    made = Nginx(tmp_path / "nginx", real_cluster)
    made.accept("token-1")
    until(made.listens)
    yield made
    made.call("-s", "stop")


def test_a_password_and_a_token_that_lapses_while_a_job_is_followed(
    nginx: Nginx, tool: Tool, tmp_path: Path
) -> None:
    secret, user = tmp_path / "secret", nginx.user
    shell = replace(tool, environ={**tool.environ, "HOME": str(tmp_path)}, jobs=[])

    def settle(path: str, text: str, **more: Any) -> None:
        secret.write_text(f"{text}\n")
        secret.chmod(0o600)
        content = {
            "resource_managers": [nginx.url(path)],
            "ca_file": str(nginx.ca_file),
            "user": user,
            "dns": {"domain": "sandbox.test"},
            "job": {"image_policy": "warn"},  # this sandbox has no Docker
            "poll": {"max": "1s"},
            "auth": path,
            "credentials": {"command": ["cat", str(secret)]},
        }
        file = tmp_path / ".config/submit_tf_job/settings.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({"profiles": {tool.profile: {**content, **more}}}))
        file.chmod(0o600)  # it names a command to run

    settle("bearer", "token-1")
    roles = {"worker": {"memory": "128Mi"}}
    name = "with-a-bearer"
    spec = tool.spec(name, strategy="single", command=held(name), roles=roles)
    running = shell.start("submit", spec, "-v")
    tool.until(name, lambda seen: seen["state"] == "RUNNING")
    # the nodes have no TLS, which ends in front of the ResourceManager
    assert shell.status(name)["state"] == "RUNNING"
    logs = shell("logs", name)
    assert (logs.status, "TLS" in logs.stderr) == (0, False), logs
    secret.write_text("token-2\n")
    nginx.accept("token-2", "-s", "reload")
    log = nginx.here / "access.log"
    until(lambda: " 401 " in log.read_text(), "the first token is refused", within_s=SUBMIT_S)
    release(name)
    stdout, stderr = running.communicate(timeout=SUBMIT_S)
    assert (running.returncode, "SUCCEEDED" in stdout) == (0, True), (stdout, stderr)
    assert "token-" not in stdout + stderr

    settle("basic", PASSWORD)
    assert shell.status(name)["state"] == "SUCCEEDED"
    settle("basic", WRONG)
    refused = shell("list", "-v")
    assert (refused.status, refused.stdout) == (4, ""), refused
    assert f"does not accept the password of {user}" in refused.stderr
    assert WRONG not in refused.stderr
    settle("basic", PASSWORD, auth="simple", credentials={})
    simple = shell("list")
    assert (simple.status, "Say --auth basic" in simple.stderr) == (4, True), simple
