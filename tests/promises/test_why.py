"""`status` says why a job waits, and why it failed: three of each, on a real cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from tests.promises.conftest import SMALL, Fleet
from tests.tool import SUBMIT_S, Result, Tool, until, warned_of_room

pytestmark = pytest.mark.cluster

SLEEP = ["sleep", "3600"]


# as TensorFlow's collectives end where a task has gone
LOST = """
names = {"__module__": "tensorflow.python.framework.errors_impl"}
words = "Collective ops is aborted by: failed to connect /job:worker/replica:0/task:0"
raise type("UnavailableError", (Exception,), names)(words)
"""


@pytest.fixture(scope="module")
def failed(fleet: Fleet, tool: Tool) -> Mapping[str, Future[Result]]:
    (tool.cwd / "train.py").write_text("def main():\n    import pandaz\n\n\nmain()\n")
    memory = ["python3", "-c", "import time; held = bytearray(600 << 20); time.sleep(600)"]
    # The worker raises first, and ends after the chief: in the middle of the 2 s for which the deciding task waits.
    half = "sleep 1"
    raised, pid = tool.cwd / "raised", tool.cwd / "pid-of-chief"
    wait_for_chief = f"while kill -0 $(cat {pid}) 2>&-; do sleep 0.05; done"
    worker = (
        f"python3 -c 'raise KeyError(\"label\")'; touch {raised}; {wait_for_chief}; {half}; exit 1"
    )
    wait_for_worker = f"echo $$ > {pid}; until [ -e {raised} ]; do sleep 0.05; done"
    lost = "python3 lost.py"
    chief = f"{wait_for_worker}; exec {lost}"
    worker = f"until [ -s {pid} ]; do sleep 0.05; done; {worker}"
    elsewhere = f"if [ $TFJOB_ROLE = worker ]; then {worker}; else {chief}; fi"
    (tool.cwd / "lost.py").write_text(LOST)
    one = {"strategy": "single", "roles": {"worker": SMALL}}
    pair = {"strategy": "multi-worker", "roles": {"chief": SMALL, "worker": SMALL}}
    return fleet(
        {
            "why-memory": {**one, "command": memory},
            "why-module": {**one, "command": "python3 train.py", "files": ["train.py"]},
            "why-elsewhere": {**pair, "command": elsewhere, "files": ["lost.py"]},
        }
    )


@pytest.mark.parametrize(
    ("name", "code", "task", "words", "hint"),
    [
        ("why-memory", "out-of-memory", "worker-0", "its container may have", "try "),
        ("why-module", "module-missing", "worker-0", "pandaz", "`files`"),
        ("why-elsewhere", "python-exception", "worker-0", "KeyError: 'label'", ""),
    ],
)
def test_why_it_failed(
    failed: Mapping[str, Future[Result]],
    tool: Tool,
    name: str,
    code: str,
    task: str,
    words: str,
    hint: str,
) -> None:
    done = failed[name].result()
    assert done.status == 1, done.stderr
    tool.collected(done.json["name"])  # between node and store a log may not be readable
    cause = tool.root_cause(done.json["name"])
    assert (cause["code"], cause["task"]) == (code, task), cause
    assert words in cause["sentence"]
    assert hint in (cause["hint"] or "")
    assert (cause["host"], cause["container_id"][:10]) == ("localhost", "container_")


def test_why_it_failed_with_numbers_and_places(
    failed: Mapping[str, Future[Result]], tool: Tool
) -> None:
    memory, module, elsewhere = (
        failed[name].result().json for name in ("why-memory", "why-module", "why-elsewhere")
    )
    for job in (memory, module, elsewhere):
        tool.collected(job["name"])
    cause = tool.root_cause(memory["name"])
    assert cause["facts"]["asked_mib"] == 128
    assert "beyond the 'PHYSICAL' memory limit" in cause["diagnostics"]
    assert tool.root_cause(module["name"])["facts"]["place"] == "train.py:2"

    def shown() -> str:
        text = tool("status", module["name"]).stdout
        return text if "first cause  worker-0 could not import the module pandaz" in text else ""

    text = until(shown, "`status` shows the cause", within_s=SUBMIT_S, pause_s=1)
    assert "ModuleNotFoundError: No module named 'pandaz'  (train.py:2)" in text
    assert elsewhere["failure"]["task"] == "chief-0", "the one that ended first"
    [chief] = tool.root_cause(elsewhere["name"])["consequences"]
    assert chief["task"] == "chief-0"
    assert "it names worker-0" in chief["message"]


def waits(tool: Tool, job: str, code: str, words: str) -> None:
    """Ask until a job waits for this, in JSON and as text: what others hold at first may be told
    before.
    """
    deadline = time.monotonic() + SUBMIT_S
    while True:
        seen = tool.status(job)
        told = [
            cause["sentence"] + cause["hint"] for cause in seen["pending"] if cause["code"] == code
        ]
        if any(words in text for text in told) and "waits because: " in tool("status", job).stdout:
            return
        assert time.monotonic() < deadline, seen
        time.sleep(1)


WAITING: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "pending-room": (
        "no-room",
        {"main": SMALL, "worker": {"memory": "25Gi", "instances": 2}},
        "wait until others are done, or lower roles.worker.memory",
    ),
    "pending-place": (
        "placement-disabled",
        {"main": {**SMALL, "placement": {"spread": "node"}}},
        "placement",
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_why_it_waits(tool: Tool, unique: str, name: str) -> None:
    code, roles, hint = WAITING[name]
    roles = {role: {**keys, "command": SLEEP} for role, keys in roles.items()}
    spec = tool.spec(f"{name}-{unique}", strategy="custom", deciding_role="main", roles=roles)
    assert warned_of_room(tool)("submit", spec, "--detach", "-q").status == 0
    try:
        waits(tool, f"{name}-{unique}", code, hint)
    finally:  # it holds the room of all others
        assert tool("delete", f"{name}-{unique}", "--force").status == 0


def test_missing_task_is_named_at_the_start_deadline(tool: Tool, unique: str) -> None:
    """More memory than the node has: the second worker never gets a container."""
    spec = tool.spec(
        f"missing-{unique}",
        strategy="multi-worker",
        command="true",
        start_timeout="10s",
        roles={"chief": SMALL, "worker": {"memory": "25Gi", "instances": 2}},
    )
    done = warned_of_room(tool)("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert tool.root_cause(done.json["name"])["code"] == "tasks-missing"
    assert "it cannot start before the cluster grows: the job needs 51328 MiB" in done.stderr
    assert "worker-" in done.json["reason"]
