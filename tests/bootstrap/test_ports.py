"""Ports that tasks serve: chosen, passed to the command, reported."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from submit_tf_job.container import contract, tfconfig
from tests.bootstrap.harness import FOREVER, UNTIL_GO, WITNESS, Cluster, free, own_ports, pair, role

SERVE = "exec python3 -m http.server $TFJOB_PORT_MY_WEB --bind 127.0.0.1"


def job_with_boards(job: Cluster, **ports: int) -> None:
    job.job(
        {
            "chief": role(1, "trains", UNTIL_GO),
            "board": role(2, "sidecar", SERVE, ports={"my-web": 0, **ports}),
        }
    )


def addresses(job: Cluster) -> dict[str, int]:
    return {entry["task"]: entry["ports"]["my-web"] for entry in job.report().get("served", [])}


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=600) as page:
            return bool(page.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("taken", [False, True])
def test_auto_ports_are_bound_and_reported_and_one_that_is_taken_is_passed_over(
    job: Cluster, taken: bool
) -> None:
    job_with_boards(job)
    planned = {name: job.ports()[name] for name in ("board-0", "board-1")}
    with socket.socket() as other:
        if taken:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("0.0.0.0", planned["board-0"]))
            other.listen()
        job.start()
        found = job.until(lambda: addresses(job) if len(addresses(job)) == 2 else None)
        assert (planned["board-0"] in found.values()) is not taken
        assert taken or found == planned
        job.until(lambda: all(map(answers, found.values())))
        job.go()
        assert job.wait("chief-0") == 0
    assert "served" not in job.report()


def test_fixed_port_in_use_is_a_warning_that_names_the_remedy(job: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        job_with_boards(job, api=taken.getsockname()[1])
        job.start()
        warnings = job.until(lambda: job.report().get("warnings"))
        assert "is already in use on host node-of-board-" in warnings[0]
        assert "`ports: {api: auto}` takes a free port" in warnings[0]
        job.go()
        job.wait("chief-0")


# --- more tasks than ports ------------------------------------------------------------------------

# Each task says its name to whoever connects, and asks every address that it was given.
MEET = """
import json, os, socket, threading, time

server = socket.create_server(("0.0.0.0", int(os.environ["TFJOB_PORT"])))
me = os.environ["TFJOB_ROLE"] + "-" + os.environ["TFJOB_INDEX"]

def serve():
    while True:
        with server.accept()[0] as peer:
            peer.sendall(me.encode())

threading.Thread(target=serve, daemon=True).start()
found = {}
for role in ("worker", "zeta"):
    for index, address in enumerate(os.environ["TFJOB_HOSTS_" + role.upper()].split(",")):
        host, port = address.split(":")
        end = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection((host, int(port)), 60) as peer:
                    said = peer.recv(100).decode()
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        assert said == "%s-%d" % (role, index), said
        found[said] = address
names = "TF_CONFIG TFJOB_ADDRESS MASTER_PORT JAX_COORDINATOR_ADDRESS".split()
print(json.dumps(dict({name: os.environ.get(name) for name in names}, found=found)), flush=True)
while not os.path.exists("../go"):
    time.sleep(0.05)
"""
PORTS = 12


def free_range() -> dict[str, object]:
    """Return a rule whose ports are all free at the moment."""
    ports = own_ports()
    while True:
        first = random.randrange(ports[0], ports[-1] - PORTS)
        if all(free(port) for port in range(first, first + PORTS)):
            return {"mode": "host", "first": first, "last": first + PORTS - 1}


def job_of_shared_ports(job: Cluster, **extra: object) -> list[str]:
    """Describe a job in which each zeta has the port of a worker; return the workers and zetas.

    The sidecars between them reserve no ports, so that all others have room on this machine.
    """
    job.files = {"meet.py": MEET}
    command, rule = ["python3", "meet.py"], free_range()
    between = tfconfig.distinct_ports(rule) - 4
    roles = {
        "worker": role(3, "trains", command),
        "filler": role(between, "sidecar", FOREVER),
        "witness": role(1, "sidecar", FOREVER),
        "zeta": role(3, "serves", command),
    }
    job.job(roles, ports=rule, **extra)
    planned = job.ports()
    for index in range(3):
        assert planned[f"zeta-{index}"] == planned[f"worker-{index}"]
    return [f"{name}-{index}" for name in ("worker", "zeta") for index in range(3)]


def all_met(job: Cluster, tasks: list[str]) -> dict[str, Any]:
    """Start what does not run yet, and return what the tasks print once each has met the others."""
    job.start(*[name for name in job.names() if name not in job.runs])
    for name in tasks:
        job.printed(name, "\n")
    job.succeeds()
    return {name: json.loads(job.stdout(name)) for name in tasks}


def test_tasks_of_one_node_with_the_same_port_all_reach_one_another(any_job: Cluster) -> None:
    job = any_job
    tasks = job_of_shared_ports(job)
    shown = all_met(job, tasks)
    found = shown["worker-0"]["found"]
    assert len(set(found.values())) == 6
    for index in range(3):
        both = {found[f"worker-{index}"], found[f"zeta-{index}"]}
        assert f"127.0.0.1:{job.ports()[f'worker-{index}']}" in both
    assert sum("is taken instead" in job.stderr(name) for name in tasks) == 3
    for name, said in shown.items():
        assert said["found"] == found
        assert said["TFJOB_ADDRESS"] == found["worker-0"]
        if name.startswith("worker"):
            cluster = json.loads(said["TF_CONFIG"])["cluster"]
            assert cluster == {"worker": [found[f"worker-{i}"] for i in range(3)]}


@pytest.mark.parametrize(
    ("framework", "variable"), [("torch", "MASTER_PORT"), ("jax", "JAX_COORDINATOR_ADDRESS")]
)
def test_the_port_that_rank_0_took_instead_reaches_all_that_train(
    job: Cluster, framework: str, variable: str
) -> None:
    tasks = job_of_shared_ports(job, framework=framework, tf_config="none")
    job.start("zeta-0")  # it has the port of worker-0 before that one comes
    job.until(lambda: not free(job.ports()["worker-0"]))
    shown = all_met(job, tasks)
    address = shown["zeta-0"]["TFJOB_ADDRESS"]
    assert address != f"127.0.0.1:{job.ports()['worker-0']}"
    for index in range(3):
        assert address.endswith(shown[f"worker-{index}"][variable])


def test_ports_are_shared_anew_when_all_tasks_start_again(job: Cluster) -> None:
    tasks = job_of_shared_ports(job, retries={"max": 1, "on": ["lost"]}, grace_s=20)
    job.start()
    for name in tasks:
        job.printed(name, "\n")
    job.replace("zeta-0")
    job.until(lambda: all("\n{" in job.stdout(name) for name in tasks if name != "zeta-0"))
    job.printed("zeta-0", "\n")
    job.succeeds()
    found = [json.loads(job.stdout(name).splitlines()[-1])["found"] for name in tasks]
    assert found == [found[0]] * 6
    assert len(set(found[0].values())) == 6


# --- a deciding task that cannot listen -----------------------------------------------------------


def hold(stack: ExitStack, ports: list[int], *, listen: bool = False) -> None:
    for port in ports:
        sock = stack.enter_context(socket.socket())
        sock.bind(("0.0.0.0", port))
        if listen:
            sock.listen()


def test_rendezvous_takes_another_port_where_the_first_ones_are_held(job: Cluster) -> None:
    job.job(pair("true", workers=2))
    with ExitStack() as stack:
        ports = tfconfig.rendezvous_ports(job.task["ports"], job.task["run"])
        hold(stack, ports[:6])
        job.start()
        assert set(job.wait_all().values()) == {0}


@pytest.mark.parametrize("strangers", ["closed", "silent", "talk", "both"])
def test_deciding_task_that_cannot_listen_ends_the_job_for_the_others(
    job: Cluster, strangers: str
) -> None:
    """Long before they would give up waiting for it, whatever the programs do that have its
    ports; so does one that died before it listened.
    """
    job.job(
        {**pair(FOREVER, workers=2), "witness": WITNESS},
        start_timeout_s=900,
        grace_s=1,
        unheard_s=3,
    )
    with ExitStack() as stack:
        ports = tfconfig.rendezvous_ports(job.task["ports"], job.task["run"])
        if strangers == "talk":
            stack.enter_context(talks(ports))
        else:
            half = 8 if strangers == "both" else 16
            hold(stack, ports[:half], listen=strangers != "closed")
            hold(stack, ports[half:])
        job.start()
        left = contract.EXIT_PEERS_MISSING
        assert job.wait("chief-0") == contract.EXIT_PORT_IN_USE
        others = ("worker-0", "worker-1", "witness-0")
        assert {job.wait(name) for name in others} == {left}
    assert (job.report()["state"], job.report()["ended_at"] is not None) == ("failed", True)
    said = job.outcome("witness-0")["message"]
    assert "chief-0 has ended, or could not start: for " in said
    count = {"closed": 0, "silent": 16, "talk": 16, "both": 8}[strangers]
    assert (f"what listens at {count} of its 16 ports" in said) is bool(count)


@contextmanager
def talks(ports: list[int]) -> Iterator[None]:
    """Answer at each port as a program does that speaks another protocol, slowly."""
    over = threading.Event()

    def trickle(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            while not over.wait(0.5):
                sock.sendall(b"x")

    def accept(server: socket.socket) -> None:
        with server, suppress(OSError):
            while not over.is_set():
                threading.Thread(target=trickle, args=server.accept()[:1], daemon=True).start()

    for port in ports:
        server = socket.create_server(("", port))
        server.settimeout(600)
        threading.Thread(target=accept, args=(server,), daemon=True).start()
    yield
    over.set()


def test_a_deciding_task_that_is_only_slow_is_found_among_strangers(job: Cluster) -> None:
    """It is suspended as soon as it listens; programs of others hold the ports before its own."""
    job.job({**pair("true", workers=2), "witness": WITNESS}, grace_s=12, unheard_s=12)
    with ExitStack() as stack:
        ports = tfconfig.rendezvous_ports(job.task["ports"], job.task["run"])
        hold(stack, ports[:6], listen=True)
        job.start("chief-0")
        job.until(lambda: not free(ports[6]))
        job.kill("chief-0", signal.SIGSTOP)
        job.start("worker-0", "worker-1", "witness-0")
        job.until(lambda: all("looking up" in job.stderr(it) for it in ("worker-0", "witness-0")))
        time.sleep(6)
        job.kill("chief-0", signal.SIGCONT)
        assert set(job.wait_all().values()) == {0}


def test_a_deciding_task_that_prepares_for_long_is_waited_for(job: Cluster) -> None:
    """For longer than for one that does not answer: it says that it prepares."""
    tool = job.root / "nvidia-smi"
    tool.write_text("#!/bin/sh\nsleep 7; echo 'GPU 0: NVIDIA A100 (UUID: GPU-0)'\n")
    tool.chmod(0o755)
    roles = pair("true")
    roles["chief"]["gpus"] = 1
    job.job({**roles, "witness": WITNESS}, gpus="yarn.io/gpu", grace_s=2, unheard_s=2)
    job.start(env={"PATH": f"{job.root}:{os.environ['PATH']}"})
    assert set(job.wait_all().values()) == {0}
