"""The image of the gateway (docker/gateway), as docs/gateway.md starts it: without root, with
nothing to write to but /tmp.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from submit_tf_job import __version__
from submit_tf_job.gateway.callers import line_of
from tests.conftest import DockerHost
from tests.gateway.conftest import JOB, TOKEN, until
from tests.world.served import Served, served_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]

IMAGE = "submit_tf_job/gateway:1"
UID = 10001
# What Kubernetes calls `restricted`, and a root file system that cannot be written.
STRICT = (
    "--read-only",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--tmpfs",
    "/tmp",
)


@pytest.fixture(scope="module")
def image(docker: DockerHost) -> str:
    build = Path(__file__).parents[2] / "docker/build"
    subprocess.run(
        [build, "--packages", "gateway"],
        env={**os.environ, "DOCKER_HOST": docker.host},
        check=True,
        timeout=900,
    )
    return IMAGE


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A directory as /etc/submit_tf_job of the documentation."""
    made = tmp_path / "etc"
    made.mkdir()
    new = (
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-days",
        "2",
    )
    argv = [
        "openssl",
        "req",
        "-x509",
        *new,
        "-keyout",
        str(made / "key.pem"),
        "-out",
        str(made / "cert.pem"),
    ]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    (made / "callers").write_text(line_of("alice", TOKEN))
    for file in made.iterdir():
        file.chmod(0o600)
        os.chown(file, UID, UID)
    return made


@contextmanager
def started(
    docker: DockerHost, image: str, cluster: Served, secrets: Path
) -> Iterator[tuple[str, str]]:
    """Run a container, and give its id and the gateway's address; the host's network, since the
    fake cluster is on its loopback.
    """
    files = (
        "--callers",
        "/etc/submit_tf_job/callers",
        "--cert",
        "/etc/submit_tf_job/cert.pem",
        "--key",
        "/etc/submit_tf_job/key.pem",
    )
    run = (
        "run",
        "--detach",
        "--network",
        "host",
        *STRICT,
        "--volume",
        f"{secrets}:/etc/submit_tf_job:ro",
        image,
    )
    here = (
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--rm",
        cluster.url,
        "--user",
        "alice",
    )
    container = docker(*run, *files, *here).strip()
    try:
        until(
            lambda: "listening on" in docker("logs", container) or not running(docker, container),
            "it listens",
        )
        found = re.search(r"listening on https://127\.0\.0\.1:(\d+)", docker("logs", container))
        assert found, subprocess.run(
            ["docker", "-H", docker.host, "logs", container], capture_output=True, text=True
        ).stderr
        yield container, f"https://localhost:{found[1]}"
    finally:
        docker("rm", "--force", "--volumes", container)


def running(docker: DockerHost, container: str) -> bool:
    return docker("inspect", "--format", "{{.State.Running}}", container).strip() == "true"


def test_it_serves_without_root_and_ends_in_good_order(
    image: str, docker: DockerHost, secrets: Path
) -> None:
    with (
        served_cluster() as cluster,
        started(docker, image, cluster, secrets) as (container, url),
        requests.Session() as http,
    ):
        http.verify = str(secrets / "cert.pem")
        http.trust_env = False
        assert http.get(f"{url}/healthz", timeout=20).json() == {"alive": True}
        assert http.get(f"{url}/readyz", timeout=20).json() == {"ready": True, "why": ""}
        assert http.get(f"{url}/v1/jobs", timeout=20).status_code == 401
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        made = http.post(
            f"{url}/v1/jobs",
            json={**JOB, "name": "mnist"},
            headers={"Idempotency-Key": "run-7"},
            timeout=60,
        )
        assert made.status_code == 201, made.text
        assert (
            http.get(f"{url}/v1/jobs/mnist", timeout=20).json()["application_id"]
            == made.json()["application_id"]
        )

        assert docker("exec", container, "sh", "-c", "id -u && cat /proc/1/status").splitlines()[
            0
        ] == str(UID)
        status = dict(
            line.split(":\t", 1)
            for line in docker("exec", container, "cat", "/proc/1/status").splitlines()
        )
        assert (status["CapEff"], status["NoNewPrivs"]) == ("0" * 16, "1")
        docker("stop", "--time", "40", container)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
    docker.is_clean()


def test_what_is_in_the_image(image: str, docker: DockerHost) -> None:
    config = json.loads(docker("inspect", "--format", "{{json .Config}}", image))
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"][:3] == ["submit_tf_job", "gateway", "serve"]
    run = ("run", "--rm", "--network", "none", *STRICT, "--entrypoint")
    assert __version__ in docker(*run, "submit_tf_job", image, "version")
    assert (
        docker(
            *run,
            "python",
            image,
            "-c",
            "import gssapi, hdfs_native, krb5, requests_kerberos; print('all there')",
        )
        == "all there\n"
    )
    assert docker(*run, "sh", image, "-c", "command -v gcc || echo none") == "none\n"
    # /etc/ssl/private is closed to it
    look = "find /opt /etc /usr /bin /lib -xdev -not -type l -writable 2>/dev/null || true"
    without_read_only = (
        "run",
        "--rm",
        "--network",
        "none",
        "--cap-drop",
        "ALL",
        "--entrypoint",
        "sh",
        image,
        "-c",
    )
    assert set(docker(*without_read_only, look).split()) <= {
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
    }
    docker.is_clean()


def test_what_it_needs_is_said(image: str, docker: DockerHost) -> None:
    """Without TLS nobody's token travels; a file of secrets that the container's user cannot read
    says so.
    """
    done = subprocess.run(
        ["docker", "-H", docker.host, "run", "--rm", *STRICT, image, "--no-auth"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done
    assert "every client that reaches 0.0.0.0 acts as you" in done.stderr
