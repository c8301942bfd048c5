"""The image of the gateway (docker/gateway), as docs/gateway.md starts it: without root, with
nothing to write to but /tmp.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from submit_tf_job import __version__
from submit_tf_job.gateway.callers import line_of
from tests.conftest import DockerHost
from tests.gateway.conftest import JOB, TOKEN, certificates, until
from tests.world.served import Served, served_cluster

__all__ = ["certificates"]
pytestmark = [pytest.mark.cluster, pytest.mark.long]

IMAGE = "submit_tf_job/gateway:1"
UID = 10001
ETC = "/etc/submit_tf_job"
UNPRIVILEGED = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
# What Kubernetes calls `restricted`, and a root file system that cannot be written.
STRICT = (*UNPRIVILEGED, "--read-only", "--tmpfs", "/tmp")


@pytest.fixture(scope="module")
def image(docker: DockerHost) -> str:
    build = Path(__file__).parents[2] / "docker/build"
    environ = {**os.environ, "DOCKER_HOST": docker.host}
    subprocess.run([build, "--packages", "gateway"], env=environ, check=True, timeout=900)
    return IMAGE


@pytest.fixture
def secrets(tmp_path: Path, certificates: Path) -> Path:
    """A directory as /etc/submit_tf_job of the documentation."""
    made = tmp_path / "etc"
    made.mkdir()
    for name in ("server.crt", "server.key"):
        shutil.copy(certificates / name, made)
    (made / "callers").write_text(line_of("alice", TOKEN))
    for file in made.iterdir():
        file.chmod(0o600)
        os.chown(file, UID, UID)
    return made


@contextmanager
def started(docker: DockerHost, cluster: Served, secrets: Path) -> Iterator[tuple[str, str]]:
    """Run a container, and give its id and the gateway's address; the host's network, since the
    fake cluster is on its loopback.
    """
    run = ("run", "--detach", "--network", "host", *STRICT, "--volume", f"{secrets}:{ETC}:ro")
    files = ("--callers", f"{ETC}/callers", "--cert", f"{ETC}/server.crt")
    here = ("--key", f"{ETC}/server.key", "--host", "127.0.0.1", "--port", "0")
    rm = ("--rm", cluster.url, "--user", "alice")
    container = docker(*run, IMAGE, *files, *here, *rm).strip()
    try:
        until(lambda: "listening on" in docker("logs", container), "it listens")
        found = re.search(r"listening on https://127\.0\.0\.1:(\d+)", docker("logs", container))
        assert found
        yield container, f"https://localhost:{found[1]}"
    finally:
        docker("rm", "--force", "--volumes", container)


def test_it_serves_without_root_and_ends_in_good_order(
    image: str, docker: DockerHost, secrets: Path, certificates: Path
) -> None:
    with (
        served_cluster() as cluster,
        started(docker, cluster, secrets) as (container, url),
        requests.Session() as http,
    ):
        http.verify = str(certificates / "ca.crt")
        http.trust_env = False
        assert http.get(f"{url}/readyz", timeout=20).json() == {"ready": True, "why": ""}
        assert http.get(f"{url}/v1/jobs", timeout=20).status_code == 401
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        made = http.post(f"{url}/v1/jobs", json={**JOB, "name": "mnist"}, timeout=60)
        assert made.status_code == 201, made.text
        text = docker("exec", container, "cat", "/proc/1/status")
        status = dict(line.split(":\t", 1) for line in text.splitlines())
        assert status["Uid"].split()[0] == str(UID)
        assert (status["CapEff"], status["NoNewPrivs"]) == ("0" * 16, "1")
        docker("stop", "--time", "40", container)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
    docker.is_clean()


def test_what_is_in_the_image(image: str, docker: DockerHost) -> None:
    config = json.loads(docker("inspect", "--format", "{{json .Config}}", image))
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"][:3] == ["submit_tf_job", "gateway", "serve"]
    run = ("run", "--rm", "--network", "none")

    def called(program: str, *words: str) -> str:
        return docker(*run, *STRICT, "--entrypoint", program, image, *words)

    assert __version__ in called("submit_tf_job", "version")
    code = "import gssapi, hdfs_native, krb5, requests_kerberos; print('all there')"
    assert called("python", "-c", code) == "all there\n"
    assert called("sh", "-c", "command -v gcc || echo none") == "none\n"
    # /etc/ssl/private is closed to it
    look = "find /opt /etc /usr /bin /lib -xdev -not -type l -writable 2>/dev/null || true"
    found = docker(*run, "--cap-drop", "ALL", "--entrypoint", "sh", image, "-c", look)
    assert set(found.split()) <= {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    docker.is_clean()


def test_what_it_needs_is_said(image: str, docker: DockerHost) -> None:
    argv = ["docker", "-H", docker.host, "run", "--rm", *STRICT, image, "--no-auth"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2, done
    assert "every client that reaches 0.0.0.0 acts as you" in done.stderr
