"""Ports that tasks serve: chosen, passed to the command, reported."""

from __future__ import annotations

import socket
import urllib.request

from tests.bootstrap.harness import UNTIL_GO, Cluster, role

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
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_auto_ports_are_bound_and_reported(job: Cluster) -> None:
    job_with_boards(job)
    job.start()
    found = job.until(lambda: addresses(job) if len(addresses(job)) == 2 else None)
    # nobody else has them
    assert found == {name: job.ports()[name] for name in ("board-0", "board-1")}
    job.until(lambda: all(map(answers, found.values())))
    job.go()
    assert job.wait("chief-0") == 0
    assert "served" not in job.report()


def test_auto_port_that_is_taken_is_passed_over(job: Cluster) -> None:
    job_with_boards(job)
    wanted = job.ports()["board-0"]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("0.0.0.0", wanted))
        taken.listen()
        job.start()
        found = job.until(lambda: addresses(job) if len(addresses(job)) == 2 else None)
        assert wanted not in found.values()
        job.until(lambda: answers(found["board-0"]))
        job.go()
        assert job.wait("chief-0") == 0


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
