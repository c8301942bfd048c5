"""The rendezvous under stress: restarts, lost deciding tasks, strangers, noise."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from submit_tf_job.container import contract, tfconfig
from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, pair, role


def events(job: Cluster) -> str:
    return "\n".join(event["text"] for event in job.report()["events"])


def call(job: Cluster, data: bytes, timeout_s: float = 5) -> bytes:
    """Say something to the deciding task, and read until it closes or is silent."""
    with socket.create_connection(("127.0.0.1", job.rendezvous()), timeout_s) as sock:
        try:
            sock.sendall(data)
            return sock.recv(65536)
        except (TimeoutError, ConnectionError):
            return b""


def hello(job: Cluster, role: str = "worker", index: int = 0, **extra: Any) -> bytes:
    message = {
        "t": "hello",
        "run": job.task["run"],
        "role": role,
        "index": index,
        "process": "other",
        "attempt": 0,
        "state": "waiting",
    }
    return json.dumps({**message, **extra}).encode() + b"\n"


def test_lost_deciding_task_ends_the_others_after_the_grace(any_job: Cluster) -> None:
    job = any_job
    job.job(
        {
            "chief": role(1, "trains", FOREVER),
            "worker": role(1, "serves", FOREVER),
            "board": role(1, "sidecar", FOREVER),
        },
        grace_s=1,
    )
    job.start()
    job.started("worker-0", "board-0")
    job.kill("chief-0")
    assert job.wait("worker-0") == contract.EXIT_DECIDING_LOST
    assert job.wait("board-0") == contract.EXIT_DECIDING_LOST


def test_other_job_at_the_deciding_address(job: Cluster) -> None:
    job.job(pair(FOREVER, "echo ran"))
    other = dict(job.task, run="another", start_timeout_s=3)
    job.start("chief-0")
    job.until(lambda: job.report())
    span = other["ports"]
    for first in range(20000, 32768):  # the other job's rule leads to the same port
        other["ports"] = {**span, "first": first, "last": first + 500}
        if tfconfig.rendezvous_ports(other["ports"], other["run"])[0] == job.rendezvous():
            break
    job.start("worker-0", task=other)
    assert job.wait("worker-0") == contract.EXIT_WRONG_JOB
    assert job.outcome("worker-0")["reason"] == "wrong-job"
    assert job.report()["state"] == "waiting"
    assert "a task of another job called, from 127.0.0.1" in events(job)


def test_noise_does_not_disturb_the_job(job: Cluster) -> None:
    job.job(
        {
            "chief": role(1, "trains", "ulimit -Sn; sleep 0.2"),
            "worker": role(2, "trains", "sleep 0.2"),
            "board": role(1, "sidecar", FOREVER),
        }
    )
    job.start("chief-0", "worker-0", shell="ulimit -Sn 64")
    job.until(lambda: job.report().get("arrived") == 2)
    half_open = [socket.create_connection(("127.0.0.1", job.rendezvous())) for _ in range(80)]
    for noise in (
        *(b"GET / HTTP/1.0\r\n\r\n", b"\x00\xff" * 1000 + b"\n", b"x" * 200_000),
        *(b'{"t":' * 20_000 + b"\n", b"[" * 30_000 + b"\n", b"[1,2]\n"),
        *(b'{"t":"done","status":0}\n', hello(job, "nobody"), hello(job, "chief")),
        *(hello(job, "worker", 77), hello(job, attempt="x"), hello(job, process=None)),
    ):
        assert call(job, noise) == b""
    assert json.loads(call(job, hello(job, run="x")))["t"] == "wrong-job"
    assert json.loads(call(job, hello(job, "worker", 0)))["t"] == "taken"
    job.start("worker-1", "board-0")
    assert set(job.wait_all().values()) == {0}
    for sock in half_open:
        sock.close()
    assert job.stderr("chief-0").count("\n") < 18
    # the bootstrap needed more files, the command gets what it would have had
    assert job.stdout("chief-0") == "64\n"


def test_invalid_messages_after_a_valid_hello(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", UNTIL_GO), "board": role(2, "sidecar", FOREVER)})
    job.start("chief-0")
    job.until(lambda: job.report())
    strange: list[dict[str, Any]] = [
        {"t": "progress", "data": [1]},
        {"t": "progress", "data": {"step": "x", "metrics": {"a": {}}}},
        {"t": "nonsense"},
        {"t": "running"},
        {
            "t": "done",
            "status": "x",
            "signal": [],
            "ago": "y",
            "last_lines": [1, {}],
            "reason": None,
        },
    ]
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in strange)
    assert b"welcome" in call(job, hello(job, "board", 1) + lines)
    job.go()
    assert job.wait("chief-0") == 0
    assert job.report()["state"] == "succeeded"


def test_idle_job_uses_no_cpu(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", FOREVER), "worker": role(1, "serves", FOREVER)})
    job.start()
    job.started("worker-0")

    def ticks(name: str) -> int:
        fields = Path(f"/proc/{job.runs[name].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    time.sleep(0.5)
    before = {name: ticks(name) for name in job.runs}
    time.sleep(2)
    hertz = os.sysconf("SC_CLK_TCK")
    for name in job.runs:
        assert (ticks(name) - before[name]) / hertz < 0.1


def test_tf_config_of_the_environment_is_kept_where_the_job_wants_none(job: Cluster) -> None:
    job.job(
        {"chief": role(1, "trains", 'echo "$TF_CONFIG"'), "ps": role(1, "serves", FOREVER)},
        tf_config="none",
    )
    job.start(env={contract.ENV_TF_CONFIG: '{"mine": 1}'})
    assert set(job.wait_all().values()) == {0}
    assert job.stdout("chief-0") == '{"mine": 1}\n'
