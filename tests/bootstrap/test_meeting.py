"""Tasks that never meet: each trains a copy by itself."""

from __future__ import annotations

import pytest

from tests.bootstrap.harness import Cluster, role

ALONE = "sleep 8"
LISTENS = (
    'import os, socket, time; s = socket.create_server(("", int(os.environ["TFJOB_PORT"]))); '
    "time.sleep(5)"
)
CONNECTS = (
    "import os, socket, time\n"
    'port = int(os.environ["TFJOB_ADDRESS"].rpartition(":")[2])\n'
    'if os.environ["TFJOB_RANK"] == "0":\n'
    '    s = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)\n'
    "    time.sleep(8)\n"
    "for _ in range(50):\n"
    "    try:\n"
    '        s = socket.create_connection(("127.0.0.1", port))\n'
    "        break\n"
    "    except OSError:\n"
    "        time.sleep(0.1)\n"
    "time.sleep(5)"
)


def warned(job: Cluster, command: object, strategy: str, **task: object) -> list[str]:
    workers = {"worker": role(2, "trains", command)}
    job.job(workers, deciding="worker", strategy=strategy, **task)
    job.start()
    assert [job.wait(f"worker-{n}") for n in (0, 1)] == [0, 0]
    found: list[str] = job.report()["warnings"]
    return found


@pytest.mark.parametrize(
    ("strategy", "means"),
    [
        ("multi-worker", "tf.distribute.MultiWorkerMirroredStrategy"),
        ("torch", "torch.distributed.init_process_group"),
    ],
)
def test_tasks_that_never_meet_are_told(job: Cluster, strategy: str, means: str) -> None:
    assert warned(job, ALONE, strategy, meeting_s=3) == [
        "no task that trains listened at its port or connected to another's: each may have "
        f"trained a copy by itself; does the program use {means}?"
    ]


@pytest.mark.parametrize("program", [LISTENS, CONNECTS], ids=["listens", "connects"])
def test_tasks_that_meet_are_not_told(job: Cluster, program: str) -> None:
    assert warned(job, ["python3", "-c", program], "torch", meeting_s=3) == []


@pytest.mark.parametrize(
    ("strategy", "task"),
    [
        ("custom", {"meeting_s": 3}),
        ("multi-worker", {"meeting_s": 3, "variables": ["horovod"]}),
        ("multi-worker", {}),
    ],
    ids=["custom", "horovod", "too short to know"],
)
def test_tasks_that_may_have_met_otherwise_are_not_told(
    job: Cluster, strategy: str, task: dict[str, object]
) -> None:
    assert warned(job, ALONE, strategy, **task) == []
