"""Run real bootstraps as processes on this machine, the way YARN would: one directory, one log
directory, one identity each.
"""

from __future__ import annotations

import io
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.plan.bootstrap_zip import bootstrap_zip
from tests.unit.container.descriptions import description
from tests.unit.container.descriptions import role as described

DOMAIN = "mnist.alice.sandbox.test"
FOREVER = ["sleep", "600"]
UNTIL_GO = "until [ -e ../go ]; do sleep 0.05; done"
HOLD = "echo generation $TFJOB_GENERATION; " + UNTIL_GO
PORTS = range(20000, 32768)


def files_tar(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


class FakeDns:
    """Answers every name of the job with its address in `addresses`, or else `address_of_all`; not
    the names in `hidden`.
    """

    def __init__(self, sock: socket.socket | None = None) -> None:
        self.sock = sock or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if sock is None:
            self.sock.bind(("127.0.0.1", 0))
        self.host, self.port = self.sock.getsockname()
        self.address = f"{self.host}:{self.port}"
        self.hidden: set[str] = set()
        self.addresses: dict[str, str] = {}
        self.address_of_all = "127.0.0.1"
        self.asked: list[str] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with self.sock:
            self._answer_each()

    def _answer_each(self) -> None:
        while True:
            data, peer = self.sock.recvfrom(4096)
            if data == b"stop":
                return
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1 : at + 1 + data[at]].decode())
                at += 1 + data[at]
            name, question = ".".join(labels), data[12 : at + 5]
            self.asked.append(name)
            if name.split(".")[0] in self.hidden or not name.endswith(DOMAIN):
                self.sock.sendto(
                    data[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + question, peer
                )
            else:
                address = self.addresses.get(name.split(".")[0], self.address_of_all)
                family, kind = socket.AF_INET, 1
                if ":" in address:
                    family, kind = socket.AF_INET6, 28
                packed = socket.inet_pton(family, address)
                answer = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(packed)) + packed
                found = question[-4:-2] == struct.pack(">H", kind)
                self.sock.sendto(
                    data[:2]
                    + struct.pack(">HHHHH", 0x8580, 1, found, 0, 0)
                    + question
                    + answer * found,
                    peer,
                )

    def close(self) -> None:
        with suppress(OSError):  # the thread has closed it
            self.sock.sendto(b"stop", (self.host, self.port))
        self.thread.join(60)


def role(count: int, role_kind: str, command: Any, **extra: Any) -> dict[str, Any]:
    return described(count, role_kind, command=command, **extra)


WITNESS = role(1, "sidecar", ["sleep", "600"])


def pair(chief: Any, worker: Any = None, *, workers: int = 1) -> dict[str, Any]:
    """Return the roles of a chief and workers that train, by default with one command."""
    command = chief if worker is None else worker
    return {"chief": role(1, "trains", chief), "worker": role(workers, "trains", command)}


def _as_a_node_manager() -> None:
    """Block SIGQUIT, as in what the threads of a Java process start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGQUIT])


def free(port: int) -> bool:
    """Return whether nobody listens at a port, and no closed connection of it is left."""
    with socket.socket() as sock:
        try:
            sock.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def own_ports() -> range:
    """Return the ports of this process: those that run tests beside it draw from others. A
    bootstrap claims its port for as long as it runs, also while nothing listens there.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = len(PORTS) // count
    return PORTS[worker % count * size :][:size]


class Cluster:
    """One job's containers."""

    def __init__(self, root: Path, dns: FakeDns, python: str = sys.executable) -> None:
        self.root, self.dns, self.python = root, dns, python
        self.zip = root / contract.BOOTSTRAP_FILE
        self.zip.write_bytes(bootstrap_zip())
        self.task: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self.runs: dict[str, subprocess.Popen[bytes]] = {}
        self.places: dict[str, tuple[Path, Path]] = {}
        self.serial = 0
        self.application = f"container_1700000000000_{uuid.uuid4().int % 10000:04d}"

    def job(self, roles: Mapping[str, Any], **extra: Any) -> None:
        own: dict[str, Any] = {"strategy": "custom", "dns_server": self.dns.address}
        own |= {"host_suffix": None, "legacy_master": False, "hadoop_conf": None}
        ports = own_ports()
        own |= {"ports": {"mode": "host", "first": ports[0], "last": ports[-1]}}
        own |= {"tf_config": "counts", "stop_grace_s": 1.5}
        # longer than any test waits: one that waits for their end sets them
        own |= {"start_timeout_s": 240, "finish_timeout_s": 240, "grace_s": 60}
        self.task = description(dict(roles), **{**own, "settle_s": 0.5, **extra})
        while True:
            self.task["run"] = uuid.uuid4().hex[:10]
            wanted = tfconfig.rendezvous_ports(self.task["ports"], self.task["run"])
            if all(map(free, {*self.ports().values(), *wanted})):
                break

    def ports(self) -> dict[str, int]:
        counts = {name: int(r["count"]) for name, r in self.task["roles"].items()}
        return {
            f"{name}-{i}": tfconfig.task_port(self.task["ports"], counts, self.task["run"], name, i)
            for name in counts
            for i in range(counts[name])
        }

    def rendezvous(self) -> int:
        return tfconfig.rendezvous_ports(self.task["ports"], self.task["run"])[0]

    def names(self) -> list[str]:
        return list(self.ports())

    def start(
        self,
        *names: str,
        task: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        shell: str = "",
    ) -> None:
        """Start containers; a second start of a name is a later attempt on the same node."""
        for name in names or self.names():
            cwd, logs, environment = self.place(name, task, env)
            with (logs / "stdout.txt").open("wb") as out, (logs / "stderr.txt").open("wb") as err:
                line = f"{shell}\nexec {self.python} -S bootstrap.zip"
                self.runs[name] = subprocess.Popen(
                    [*self.inside(name), "bash", "-c", line],
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=_as_a_node_manager,
                )
            self.places[name] = (cwd, logs)

    def inside(self, _name: str) -> list[str]:
        """Return the words before a task's own command line."""
        return []

    def place(
        self, name: str, task: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
    ) -> tuple[Path, Path, dict[str, str]]:
        """Write what YARN puts into a new container: its directory, its logs', its environment."""
        self.serial += 1
        container = f"{self.application}_01_{self.serial:06d}"
        cwd, logs = self.root / "app" / container, self.root / "logs" / container
        (cwd / "conf").mkdir(parents=True)
        logs.mkdir(parents=True)
        (cwd / contract.BOOTSTRAP_FILE).symlink_to(self.zip)
        (cwd / "conf" / contract.TASK_FILE).write_text(json.dumps(task or self.task))
        if self.files:
            (cwd / contract.PAYLOAD_ARCHIVE).write_bytes(files_tar(self.files))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/no/such/home",
            "CONTAINER_ID": container,
            "LOG_DIRS": f"{logs},/nonexistent",
            "NM_HOST": "node-of-" + name,
            contract.ENV_INSTANCE: name,
            contract.ENV_HOSTNAME: f"{name}.{DOMAIN}",
            **(env or {}),
        }
        return cwd, logs, environment

    def wait(self, name: str, timeout_s: float = 240) -> int:
        try:
            return self.runs[name].wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} still runs; its stderr:\n{self.stderr(name)}") from None

    def wait_all(self, timeout_s: float = 240) -> dict[str, int]:
        return {name: self.wait(name, timeout_s) for name in self.runs}

    def stdout(self, name: str) -> str:
        return (self.places[name][1] / "stdout.txt").read_text()

    def stderr(self, name: str) -> str:
        return (self.places[name][1] / "stderr.txt").read_text()

    def outcome(self, name: str) -> dict[str, Any]:
        last = self.stderr(name).splitlines()[-1]
        assert last.startswith(contract.OUTCOME_MARK), last
        value: dict[str, Any] = json.loads(last[len(contract.OUTCOME_MARK) :])
        return value

    def report(self, name: str | None = None) -> dict[str, Any]:
        path = self.places[name or self.task["deciding"] + "-0"][1] / contract.REPORT_FILE
        value: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return value

    def until(self, what: Callable[[], Any], timeout_s: float = 240) -> Any:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(
            "\n".join(f"--- {name}\n{self.stderr(name)}" for name in self.runs)
            + json.dumps(self.report(), indent=1)
        )

    def until_saved(self, what: Callable[[], Any]) -> Any:
        """Wait as `stop --grace` does, which repeats SIGQUIT to the deciding task meanwhile."""
        asked_at = -math.inf

        def asked() -> Any:
            nonlocal asked_at
            if time.monotonic() > asked_at + 1:
                asked_at = time.monotonic()
                self.kill(self.task["deciding"] + "-0", signal.SIGQUIT)
            return what()

        return self.until(asked)

    def printed(self, name: str, text: str, timeout_s: float = 240) -> None:
        self.until(lambda: text in self.stdout(name), timeout_s)

    def go(self) -> None:
        """End every command that is UNTIL_GO."""
        (self.root / "app" / "go").touch()

    def succeeds(self) -> None:
        """End every command that is UNTIL_GO, and wait until all containers have ended with 0."""
        self.go()
        assert set(self.wait_all().values()) == {0}

    def started(self, *names: str) -> None:
        """Wait until these tasks' commands run; the report would say so up to a second later."""
        self.until(lambda: all("starting: " in self.stderr(name) for name in names))

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.runs[name].pid, number)

    def replace(self, name: str) -> None:
        """Kill a container, and start another one for its task, as YARN would."""
        self.kill(name)
        self.runs[name].wait()
        self.start(name)

    def close(self) -> None:
        for run in self.runs.values():
            if run.poll() is None:
                run.kill()  # its guard ends the command
                run.wait(240)


def generations(job: Cluster) -> list[tuple[int, str, str]]:
    found = job.report().get("generations", [])
    return [(entry["generation"], entry["task"], entry["kind"]) for entry in found]


@contextmanager
def cluster(root: Path, python: str = sys.executable) -> Iterator[Cluster]:
    dns = FakeDns()
    made = Cluster(root, dns, python)
    try:
        yield made
    finally:
        made.close()
        dns.close()


def alive(pid: int) -> bool:
    """Say whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
