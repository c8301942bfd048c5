"""What goes wrong on a real cluster: the verdict is right, within seconds, and says which task and
why.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from submit_tf_job.sandbox import Sandbox, SandboxInfo, SandboxOptions
from tests.tool import (
    Tool,
    application_master,
    bootstrap_of,
    command_of,
    gone,
    script,
    warned_of_room,
)

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}
FOREVER = "sleep 600"
JOB_STOPPED = 3


def running(tool: Tool, job: str) -> dict[str, Any]:
    return tool.until(job, lambda seen: seen["state"] == "RUNNING")


def test_a_worker_that_exits_3_fails_the_job_and_is_named(tool: Tool) -> None:
    spec = tool.spec(
        "exits-3",
        strategy="multi-worker",
        roles={
            "chief": {**SMALL, "command": FOREVER},
            "worker": {
                **SMALL,
                "instances": 2,
                "command": "if [ $TFJOB_INDEX = 1 ]; then echo cannot go on >&2; exit 3; fi; sleep "
                "600",
            },
        },
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    result = done.json
    assert (result["state"], result["confirmed"]) == ("FAILED", True)
    assert (result["failure"]["task"], result["failure"]["status"]) == ("worker-1", 3)
    assert "cannot go on" in result["failure"]["last_lines"]
    assert result["reason"] == "worker-1 exited with status 3"
    gone("exits-3")
    text = tool("wait", "exits-3")
    assert text.status == 1
    assert "cannot go on" in text.stdout
    assert "exit status 3" in text.stdout


def test_a_chief_that_is_killed_fails_the_job(tool: Tool) -> None:
    spec = tool.spec(
        "killed",
        strategy="multi-worker",
        command="exec sleep 600",
        roles={"chief": SMALL, "worker": SMALL},
    )
    assert tool("submit", spec, "--detach").status == 0
    running(tool, "killed")
    os.kill(command_of("killed", "chief-0", "sleep"), signal.SIGKILL)
    done = tool("wait", "killed", "-o", "json")
    assert done.status == 1
    assert (done.json["failure"]["task"], done.json["failure"]["status"]) == ("chief-0", 137)
    gone("killed")


def test_a_worker_that_vanishes_is_the_cause_also_when_nobody_watches(tool: Tool) -> None:
    spec = tool.spec(
        "vanished",
        strategy="multi-worker",
        command=FOREVER,
        grace="5s",
        roles={"chief": SMALL, "worker": {**SMALL, "instances": 2}},
    )
    assert tool("submit", spec, "--detach").status == 0
    running(tool, "vanished")
    os.kill(bootstrap_of("vanished", "worker-1"), signal.SIGKILL)
    time.sleep(20)  # nobody looks: the job must end by itself
    gone("vanished")
    done = tool("wait", "vanished", "-o", "json")
    assert done.status == 1
    assert (done.json["failure"]["task"], done.json["failure"]["reason"]) == ("worker-1", "lost")
    assert (done.json["root_cause"]["code"], done.json["root_cause"]["status"]) == ("killed", 137)


def test_a_chief_that_was_suspended_for_longer_than_the_grace_hears_how_the_others_ended(
    tool: Tool, tmp_path: Path
) -> None:
    ends = tmp_path / "ends"
    for place in (tmp_path, *tmp_path.parents):
        if place.owner() == tmp_path.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    waits = f"until [ -e {ends} ]; do sleep 0.2; done"
    roles = {"chief": {**SMALL, "command": "sleep 25"}, "worker": {**SMALL, "command": waits}}
    spec = tool.spec("suspended", strategy="multi-worker", grace="15s", roles=roles)
    assert tool("submit", spec, "--detach").status == 0
    running(tool, "suspended")
    chief = bootstrap_of("suspended", "chief-0")
    os.kill(chief, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 60
        while (
            "went away" not in tool("logs", "suspended", "worker-0", "--file", "stderr.txt").stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(1)
        ends.touch()
        time.sleep(25)  # longer than the grace
    finally:
        os.kill(chief, signal.SIGCONT)
    done = tool("wait", "suspended", "-o", "json")
    assert done.status == 0, (done.stdout, done.stderr)
    assert any("chief-0 stood still for" in warning for warning in done.json["warnings"])


def test_a_killed_application_master_comes_back_and_training_goes_on(tool: Tool) -> None:
    spec = tool.spec(
        "am-killed",
        strategy="custom",
        deciding_role="main",
        roles={
            "main": {
                **SMALL,
                "command": "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 "
                "25; do sleep 1; done; echo done",
            },
            "worker": {**SMALL, "command": "date >> /tmp/am-killed-$TFJOB_SUBMISSION_ID"},
        },
    )
    assert tool("submit", spec, "--detach").status == 0
    seen = tool.until(
        "am-killed", lambda seen: seen["roles"].get("worker", {}).get("succeeded") == 1
    )
    trainer = bootstrap_of("am-killed", "main-0")
    master = application_master("am-killed")
    watch = tool.start("watch", "am-killed", "-o", "json")
    time.sleep(3)
    os.kill(master, signal.SIGKILL)
    stdout, stderr = watch.communicate(timeout=180)
    assert watch.returncode == 0, stdout + stderr
    assert (json.loads(stdout)["state"], json.loads(stdout)["confirmed"]) == ("SUCCEEDED", True)
    assert stderr.count("YARN started the ApplicationMaster again (attempt 2)") == 1
    assert not Path(f"/proc/{trainer}").exists()
    marks = Path(f"/tmp/am-killed-{seen['submission']}")
    assert len(marks.read_text().splitlines()) == 1, "the finished task ran its command again"
    marks.unlink()
    gone("am-killed")


def test_ctrl_c_leaves_the_job_running_and_says_how_to_stop_it(tool: Tool) -> None:
    spec = tool.spec("interrupted", strategy="single", command=FOREVER, roles={"worker": SMALL})
    process = tool.start("submit", spec)
    running_by = time.monotonic() + 60
    while time.monotonic() < running_by and tool("status", "interrupted", "-o", "json").status != 0:
        time.sleep(0.5)
    running(tool, "interrupted")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == (
        "Job interrupted is still running. Reattach: submit_tf_job wait interrupted    "
        "Stop: submit_tf_job stop interrupted"
    )
    assert tool.status("interrupted")["state"] == "RUNNING"
    again = tool("submit", spec, "--detach", "-o", "json")
    assert (again.status, again.json["adopted"]) == (0, True)
    stopped = tool("stop", "interrupted")
    assert stopped.status == 0
    assert tool("stop", "interrupted").status == 0, "stopping is idempotent"
    assert tool("wait", "interrupted").status == 3
    gone("interrupted")


def test_a_taken_name_is_refused_and_the_running_job_untouched(tool: Tool) -> None:
    first = tool.spec("taken", strategy="single", command=FOREVER, roles={"worker": SMALL})
    assert tool("submit", first, "--detach").status == 0
    before = running(tool, "taken")
    second = tool.spec("taken", strategy="single", command="sleep 5", roles={"worker": SMALL})
    for arguments in ((), ("--replace",)):
        refused = tool("submit", second, *arguments)
        assert refused.status == 6, refused.stderr
        assert before["application_id"] in refused.stderr
    after = tool.status("taken")
    assert (after["application_id"], after["state"]) == (before["application_id"], "RUNNING")
    assert tool("delete", "taken").status == 6
    assert tool("delete", "taken", "--force").status == 0
    assert tool("status", "taken").status == 5


def test_a_finished_submission_tells_its_verdict_again_and_replace_runs_it_anew(tool: Tool) -> None:
    spec = tool.spec("again", strategy="single", command="echo hello", roles={"worker": SMALL})
    first = tool("submit", spec, "-o", "json")
    assert first.status == 0, first.stderr
    second = tool("submit", spec, "-o", "json")
    assert second.status == 0
    assert second.json["application_id"] == first.json["application_id"]
    assert f"to run it once more: submit_tf_job submit {spec} --replace" in second.stderr
    third = tool("submit", spec, "--replace", "-o", "json")
    assert third.status == 0, third.stderr
    assert third.json["application_id"] != first.json["application_id"]
    fourth = tool("submit", spec, "-o", "json")
    assert fourth.status == 0, fourth.stderr
    assert fourth.json["application_id"] == third.json["application_id"]


@pytest.mark.parametrize(
    ("name", "command", "status", "words"),
    [
        (
            "not-found",
            ["no-such-program"],
            127,
            "the command 'no-such-program' was not found in the container",
        ),
        pytest.param(*("not-executable", ["/etc/passwd"], 126, "not"), marks=pytest.mark.long),
        pytest.param(*("status-22", "exit 22", 22, "22"), marks=pytest.mark.long),
        ("piped", "(echo epoch 1; exit 3) | tee log", 3, "3"),
    ],
)
def test_statuses_of_commands_are_explained(
    tool: Tool, name: str, command: object, status: int, words: str
) -> None:
    spec = tool.spec(name, strategy="single", command=command, roles={"worker": SMALL})
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert done.json["failure"]["status"] == status
    assert words in done.json["reason"]


def test_a_node_is_healthy_after_a_command_that_exits_22(
    tool: Tool, real_cluster: SandboxInfo
) -> None:
    spec = tool.spec("healthy", strategy="single", command="exit 24", roles={"worker": SMALL})
    assert tool("submit", spec).status == 1
    spec = tool.spec("healthy-after", strategy="single", command="true", roles={"worker": SMALL})
    assert tool("submit", spec).status == 0


def test_a_missing_task_is_named_at_the_start_deadline(tool: Tool) -> None:
    # More memory than the node has left: the second worker never gets a container.
    spec = tool.spec(
        "missing",
        strategy="multi-worker",
        command="true",
        start_timeout="10s",
        roles={"chief": SMALL, "worker": {"memory": "7Gi", "instances": 2}},
    )
    done = warned_of_room(tool)("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert "it cannot start before the cluster grows: the job needs 14" in done.stderr
    assert done.json["failure"]["reason"] == "peers-missing"
    assert done.json["root_cause"]["code"] == "tasks-missing"
    assert "worker-1" in done.json["reason"] or "worker-0" in done.json["reason"]
    gone("missing")


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("no-queue", {"queue": "nosuch"}, "nosuch"),
        (
            "too-large",
            {"roles": {"worker": {"memory": "999Gi"}}},
            "too-large.yaml:7:5: roles.worker.memory: 999Gi is more than the 12Gi "
            "one container may have here",
        ),
        (
            "too-many",
            {
                "strategy": "multi-worker",
                "roles": {"chief": SMALL, "worker": {"memory": "3Gi", "instances": 4}},
            },
            "too-many.yaml:9:5: roles.worker.memory: the job needs",
        ),
        (
            "no-gpus",
            {"roles": {"worker": {"memory": "256Mi", "gpus": 1}}},
            "roles.worker.gpus: this cluster offers no yarn.io/gpu; leave gpus out, or "
            "set gpu_resource",
        ),
    ],
)
def test_what_the_cluster_refuses_leaves_the_name_free(
    tool: Tool, name: str, change: dict[str, object], sentence: str
) -> None:
    content = {"strategy": "single", "command": "true", "roles": {"worker": SMALL}, **change}
    refused = tool("submit", tool.spec(name, **content))
    assert refused.status == 9, refused.stderr
    assert sentence in refused.stderr
    assert refused.stdout == ""
    assert tool("status", name).status == 5, "the name is free"


def test_an_unknown_user_is_refused(tool: Tool) -> None:
    spec = tool.spec("stranger", strategy="single", command="true", roles={"worker": SMALL})
    refused = tool("submit", spec, "--user", "stranger")
    assert refused.status in (2, 4, 9), refused.stderr
    assert "stranger" in refused.stderr
    assert "\tat " not in refused.stderr


def test_another_user_has_jobs_of_their_own(tool: Tool) -> None:
    """But the names share a directory of the ApplicationMasters, as docs/gateway.md says."""
    spec = tool.spec(
        "of-alice", strategy="single", command="echo hello $USER", roles={"worker": SMALL}
    )
    theirs = tool("submit", spec, "--user", "alice", "-o", "json")
    assert theirs.status == 0, theirs.stderr
    assert theirs.json["user"] == "alice"
    assert tool("status", "of-alice").status == 5, "names are per user"
    taken = tool("submit", spec, "--user", "bob", "-o", "json")
    assert (taken.status, taken.json["root_cause"]["code"]) == (1, "hdfs-permission"), taken
    assert "alice has, or had, a job of-alice" in taken.json["root_cause"]["sentence"]
    assert "or alice deletes that job" in taken.json["root_cause"]["hint"]
    for user in ("alice", "bob"):
        assert tool("delete", "of-alice", "--user", user).status == 0
    cured = tool("submit", spec, "--user", "bob", "-o", "json")
    assert cured.status == 0, cured.stderr
    assert tool("delete", "of-alice", "--user", "bob").status == 0


def test_a_container_that_fails_before_its_bootstrap_ends_the_job(
    tool: Tool, tmp_path: Path
) -> None:
    python = script(
        tmp_path, 'case "$TFJOB_INSTANCE" in worker-*) exit 7 ;; esac\nexec /usr/bin/python3 "$@"\n'
    )
    spec = tool.spec(
        "no-python",
        strategy="multi-worker",
        command=FOREVER,
        python=python,
        roles={"chief": SMALL, "worker": SMALL},
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert (
        done.json["reason"]
        == "the container of worker-0 failed before its bootstrap could run, so the job was stopped"
    )
    gone("no-python")


def test_an_unreachable_cluster_is_7_and_says_so(tool: Tool) -> None:
    spec = tool.spec("nowhere", strategy="single", command="true", roles={"worker": SMALL})
    # bound and not listening: refused, whoever else is on this machine
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        started = [
            tool.start(*words, "--rm", url) for words in (("status", "nowhere"), ("submit", spec))
        ]
        for process in started:
            said = process.communicate(timeout=400)[1]
            assert process.returncode == 7, said
            assert url in said
            assert "Traceback" not in said
    tool.jobs.remove("nowhere")


def test_an_unknown_job_is_5(tool: Tool) -> None:
    for verb in ("status", "wait", "stop"):
        done = tool(verb, "no-such-job")
        assert done.status == 5, done.stderr
    assert tool("delete", "no-such-job").status == 0
    assert tool("status", "application_1_0001").status == 5


def test_yarn_says_succeeded_but_the_command_never_ran(tool: Tool, tmp_path: Path) -> None:
    """An entry point that swallows the command: the container ends with 0, and no outcome is
    left.
    """
    spec = tool.spec(
        "swallowed",
        strategy="single",
        command="true",
        python=script(tmp_path, "exit 0\n"),
        roles={"worker": SMALL},
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    result = done.json
    assert result["yarn"]["final_status"] == "SUCCEEDED"
    assert (result["state"], result["evidence"]) == ("FAILED", "missing")
    assert result["root_cause"]["code"] == "command-never-ran"
    assert (
        result["reason"]
        == "YARN reports SUCCEEDED, but the deciding task left no outcome: its command never ran"
    )
    later = tool("wait", "swallowed", "-o", "json")
    assert (later.status, later.json["evidence"]) == (1, "missing"), (
        "from the aggregated logs alone"
    )


def test_the_task_says_succeeded_but_yarn_says_failed(tool: Tool, tmp_path: Path) -> None:
    """A container that fails after the bootstrap said that all was well."""
    python = script(tmp_path, '/usr/bin/python3 "$@"\nexit 9\n')
    spec = tool.spec(
        "contradicted", strategy="single", command="true", python=python, roles={"worker": SMALL}
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert (done.json["yarn"]["final_status"], done.json["confirmed"]) == ("FAILED", False)
    assert done.json["reason"].startswith(
        "the deciding task reports success, but YARN reports FAILED"
    )


@pytest.mark.long
def test_a_killed_resource_manager_comes_back_and_the_watch_goes_on(
    tool: Tool, sandbox: Sandbox, real_cluster: SandboxInfo, session_environ: dict[str, str]
) -> None:
    spec = tool.spec("rm-killed", strategy="single", command="sleep 30", roles={"worker": SMALL})
    process = tool.start("submit", spec, "-o", "json")
    time.sleep(3)
    running(tool, "rm-killed")
    manager = next(
        daemon.pid for daemon in sandbox.status().daemons if daemon.name == "resourcemanager"
    )
    assert manager is not None
    os.kill(manager, signal.SIGKILL)
    time.sleep(3)
    assert tool("sandbox", "status", "--name", sandbox.name).status == 1
    healed = sandbox.up(SandboxOptions(), session_environ)
    assert healed.started == ("resourcemanager",)
    stdout, stderr = process.communicate(timeout=180)
    assert process.returncode == 0, stderr
    assert (json.loads(stdout)["state"], json.loads(stdout)["confirmed"]) == ("SUCCEEDED", True)


@pytest.mark.long
def test_a_kill_in_the_last_seconds_of_the_application_master_decides(
    tool: Tool, real_cluster: SandboxInfo
) -> None:
    job = "killed-late"
    spec = tool.spec(job, strategy="single", command=["true"], roles={"worker": SMALL})
    follower = tool.start("submit", spec)
    seen = tool.until(job, lambda status: status["state"] == "FINISHING")
    url = f"{real_cluster.rm_url}/ws/v1/cluster/apps/{seen['application_id']}/state"
    answer = requests.put(
        f"{url}?user.name={real_cluster.user}", json={"state": "KILLED"}, timeout=30
    )
    assert answer.status_code in (200, 202), answer.text
    said = follower.communicate(timeout=120)
    assert follower.returncode == JOB_STOPPED, said
    assert tool.status(job)["state"] == "STOPPED"
