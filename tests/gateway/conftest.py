"""A gateway as a process, a PostgreSQL of the session's own, and whoever receives webhooks."""

from __future__ import annotations

import base64
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from submit_tf_job.gateway.callers import line_of
from tests.fakes.served import Served, served_cluster

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "command": "true",
    "strategy": "single",
    "roles": {"worker": {"memory": "256Mi"}},
}
TOKEN = "token-of-alice"


class Process:
    """`gateway serve`, which can be killed and started again, always at the same address."""

    def __init__(
        self, directory: Path, *options: str, environ: dict[str, str] | None = None, patch: str = ""
    ) -> None:
        self.directory, self._options, self.port, self._patch = directory, options, 0, patch
        self.log = directory / f"gateway-{secrets.token_hex(3)}.log"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SUBMIT_TF_JOB", "HADOOP", "XDG", "KRB5"))
        }
        self.environ = {
            **kept,
            "HOME": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environ or {}),
        }
        self.start()

    def start(self) -> None:
        program = f"{self._patch}\nimport sys\nfrom submit_tf_job.cli import main\nsys.exit(main())"
        argv = [
            sys.executable,
            "-c",
            program,
            "gateway",
            "serve",
            "--port",
            str(self.port),
            *self._options,
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                argv,
                env=self.environ,
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("listening on "), (said, self.log.read_text())
        self.port = int(said.rpartition(":")[2])
        self.url = said.split()[-1]

    def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        if self.process.returncode is None:
            self.process.send_signal(how)
            self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        return requests.request(
            method, f"{self.url}{path}", headers=headers, **{"timeout": 60, **options}
        )

    def metric(self, name: str) -> float:
        text = requests.get(f"{self.url}/metrics", timeout=10).text
        return float(
            next(
                line.rpartition(" ")[2]
                for line in text.splitlines()
                if line.startswith(f"submit_tf_job_gateway_{name}")
            )
        )

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """A fake cluster at a real address, ten times as fast."""
    with served_cluster() as made:
        yield made


@pytest.fixture
def cluster(served: Served) -> Iterator[Served]:
    """The session's cluster, whose jobs run until a test ends them, or sets `job_s` for itself."""
    yield served
    served.delay_s = 0.0
    served.cluster.yarn.job_s = None
    served.cluster.yarn.release()


@pytest.fixture
def options(tmp_path: Path, cluster: Served) -> list[str]:
    """What every gateway of a test is started with."""
    callers, key = tmp_path / "callers", tmp_path / "webhook-key"
    callers.write_text(line_of("alice", TOKEN))
    key.write_text("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())
    for file in (callers, key):
        file.chmod(0o600)
    return [
        "--rm",
        cluster.url,
        "--user",
        "alice",
        "--callers",
        str(callers),
        "--webhook-key",
        str(key),
    ]


class Receiver:
    """Whoever is told of ends."""

    def __init__(self) -> None:
        self.had: Counter[str] = Counter()  # webhook-id
        self.jobs: Counter[str] = Counter()
        self.ids_of: dict[str, set[str]] = {}
        self.received: list[tuple[bytes, dict[str, str]]] = []
        self.delay_s = 0.0
        self._lock = threading.Lock()

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        job = json.loads(body)["data"]["name"]
        with self._lock:
            self.received.append((body, headers))
            self.had[headers["webhook-id"]] += 1
            self.jobs[job] += 1
            self.ids_of.setdefault(job, set()).add(headers["webhook-id"])
        time.sleep(self.delay_s)


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    """A receiver, and its address."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.take(body, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield made, f"http://127.0.0.1:{server.server_address[1]}/hooks"
    server.shutdown()
    server.server_close()


def _postgresql() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
        Path(name) for name in [shutil.which("initdb")] if name
    ]
    if not found:
        pytest.fail("PostgreSQL is not installed; run `make test`, or apt-get install postgresql")
    return found[-1].parent


class Postgres:
    """A server of the test session's own, without any file of the system; nobody reaches it but by
    its socket.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self._bin = directory, _postgresql()
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:  # it refuses to be root
            nobody = pwd.getpwnam("nobody")
            os.chown(directory, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._run(
            "initdb", "--no-sync", "-A", "trust", "-U", "gateway", "-D", str(directory / "data")
        )
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://gateway@/postgres?host={self.directory}"

    def _run(self, program: str, *arguments: str) -> None:
        argv = [str(self._bin / program), *arguments]
        done = subprocess.run(
            argv, cwd=self.directory, capture_output=True, text=True, timeout=60, **self._as
        )
        assert done.returncode == 0, (argv, done.stderr)

    def start(self) -> None:
        told = f"-c listen_addresses= -c unix_socket_directories={self.directory} -c fsync=off"
        self._run(
            "pg_ctl",
            "-D",
            str(self.directory / "data"),
            "-l",
            str(self.directory / "log"),
            "-w",
            "-o",
            told,
            "start",
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL."""
    # pytest's own are closed to all but their owner
    directory = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        made = Postgres(directory)
        yield made
        made.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def until(holds: Any, what: str, within_s: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def openssl(directory: Path, *words: str) -> str:
    done = subprocess.run(
        ["openssl", *words], cwd=directory, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a server certificate for localhost, one client certificate that is known and one that
    is not, and a stranger's CA.
    """
    made = tmp_path_factory.mktemp("tls")
    (made / "san").write_text(
        "subjectAltName=DNS:localhost\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    # Python 3.13 and later verify strictly
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for ca in ("ca", "other-ca"):
        openssl(
            made,
            "req",
            "-x509",
            *new,
            "-keyout",
            f"{ca}.key",
            "-out",
            f"{ca}.pem",
            "-subj",
            f"/CN={ca}",
            "-days",
            "2",
            *usage,
        )
    rows = [
        ("server", "ca", "/CN=localhost"),
        ("alice", "ca", "/C=CH/O=Example, Inc./CN=alice"),
        ("mallory", "ca", "/O=Example, Inc./CN=mallory"),
        ("forged", "other-ca", "/C=CH/O=Example, Inc./CN=alice"),
    ]
    for name, ca, subject in rows:
        openssl(
            made, "req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject
        )
        signed = (
            "-CA",
            f"{ca}.pem",
            "-CAkey",
            f"{ca}.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "san",
        )
        openssl(made, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return made
