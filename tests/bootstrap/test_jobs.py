"""Whole jobs of real bootstraps: start, end, and first cause."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, alive, pair, role
from tests.builders.keytabs import keytab


def test_job_with_all_kinds_of_roles_succeeds(any_job: Cluster) -> None:
    job = any_job
    shows = (
        "import os, time; from os import environ as e\n"
        "print('TF_CONFIG', e['TF_CONFIG']); print('HOME', e['HOME'])\n"
        "while not os.path.exists('../board'): time.sleep(0.05)"
    )
    job.files = {"train.py": shows, "lib/run.sh": "echo shipped"}
    board = 'echo "$TFJOB_ROLE-$TFJOB_INDEX of $TFJOB_COUNT at $TFJOB_PORT tf=$TF_CONFIG"'
    job.job(
        {
            "chief": role(1, "trains", ["python3", "train.py"]),
            "worker": role(2, "serves", FOREVER),
            "ps": role(1, "serves", FOREVER),
            "evaluator": role(1, "evaluates", "sleep 0.5; lib/run.sh"),
            "tensorboard": role(1, "sidecar", f"{board}; touch ../board; exec sleep 600"),
        },
        stop_grace_s=60,
    )
    job.start()
    assert set(job.wait_all().values()) == {0}
    ports = job.ports()
    line = job.stdout("chief-0").splitlines()[0]
    assert json.loads(line.split(" ", 1)[1]) == {
        "cluster": {
            "chief": [f"127.0.0.1:{ports['chief-0']}"],
            "worker": [f"127.0.0.1:{ports['worker-0']}", f"127.0.0.1:{ports['worker-1']}"],
            "ps": [f"127.0.0.1:{ports['ps-0']}"],
        },
        "task": {"type": "chief", "index": 0},
    }
    assert job.stdout("chief-0").splitlines()[1] == f"HOME {job.places['chief-0'][0]}/home"
    assert job.stdout("evaluator-0") == "shipped\n"
    assert job.stdout("tensorboard-0") == f"tensorboard-0 of 1 at {ports['tensorboard-0']} tf=\n"
    report = job.report()
    assert report["state"] == "succeeded"
    assert report["first_failure"] is None
    assert (report["wanted"], report["arrived"], report["missing"]) == (5, 5, [])
    assert report["outcome"]["status"] == 0
    assert report["started_at"] < report["ended_at"]
    states = dict.fromkeys(["worker-0", "worker-1", "ps-0", "tensorboard-0"], "ended")
    states |= {"chief-0": "succeeded", "evaluator-0": "succeeded"}
    assert {task["task"]: task["state"] for task in report["tasks"]} == states
    outcome = job.outcome("chief-0")
    assert (outcome["task"], outcome["job"]) == ("chief-0", "succeeded")
    assert (outcome["status"], outcome["exit"]) == (0, 0)
    assert [n for n in job.dns.asked if n.startswith("tensorboard")] == []


GLOO = """
import http.client, os, time
env = os.environ
at = env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
rank, size = env["HOROVOD_RANK"], int(env["HOROVOD_SIZE"])
def ask(method, path, body=None):
    for attempt in range(600):
        try:
            connection = http.client.HTTPConnection(*at, timeout=600)
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            time.sleep(0.1)
for turn in range(2):  # hvd.init(), hvd.shutdown(), hvd.init()
    assert ask("PUT", "/global_/" + rank, b"%d from " % turn + rank.encode())[0] == 200
    for other in range(size):
        status = 404
        while status == 404:
            status, value = ask("GET", "/global_/%d" % other)
            time.sleep(0.01)
        assert (status, value) == (200, b"%d from %d" % (turn, other)), (status, value)
    assert ask("DELETE", "/global_/" + rank)[0] == 200
    while ask("GET", "/global_/" + rank)[0] != 404:  # until all have finished
        time.sleep(0.01)
    print("met", size)
"""


def test_horovods_processes_meet_at_the_store_of_the_deciding_task(any_job: Cluster) -> None:
    job = any_job
    job.job({"worker": role(3, "trains", [job.python, "-c", GLOO])}, variables=["horovod"])
    job.start()
    assert set(job.wait_all().values()) == {0}
    assert [job.stdout(f"worker-{index}") for index in range(3)] == ["met 3\nmet 3\n"] * 3


@pytest.mark.parametrize("policy", ["warn", "allow"])
def test_tasks_that_run_outside_of_their_image_are_reported(job: Cluster, policy: str) -> None:
    """These are plain processes, which YARN was asked to run in an image."""
    asked = {contract.ENV_RUNTIME: "docker", contract.ENV_IMAGE: "company/tf:2.15"}
    roles = pair(["true"])
    job.job(roles, image_policy=policy)
    job.start(env=asked)
    assert [job.wait("chief-0"), job.wait("worker-0")] == [0, 0]
    report = job.report("chief-0")
    assert sorted(report["image_ignored"]) == ["chief-0", "worker-0"]
    plain = "runs as a plain process of its node: the NodeManager there does not run the image "
    told = [warning.endswith(f"{plain}company/tf:2.15") for warning in report["warnings"]]
    assert told == ([True] if policy == "warn" else [])
    for task in ("chief-0", "worker-0"):
        assert "the image company/tf:2.15" in job.stderr(task)


def test_a_worker_that_does_not_run_in_its_image_ends_the_job(job: Cluster) -> None:
    job.job(pair(["sleep", "60"], ["true"]))
    job.start("chief-0")
    job.start("worker-0", env={contract.ENV_RUNTIME: "docker", contract.ENV_IMAGE: "co/tf:2.15"})
    assert job.wait("worker-0") == contract.EXIT_IMAGE_IGNORED
    assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
    first = job.report("chief-0")["first_failure"]
    assert (first["task"], first["reason"]) == ("worker-0", "image-ignored")
    assert "did not run the image co/tf:2.15, but a plain process of its node" in first["message"]
    assert "starting: true" not in job.stderr("worker-0")


def test_workdir_is_where_the_command_starts(any_job: Cluster, tmp_path: Path) -> None:
    job = any_job
    job.files = {"src/here.txt": "here"}
    chief = role(1, "trains", "cat here.txt; pwd", workdir="src")
    job.job({"chief": chief, "worker": role(1, "trains", "pwd", workdir=str(tmp_path))})
    job.start()
    assert [job.wait("chief-0"), job.wait("worker-0")] == [0, 0]
    assert job.stdout("chief-0").startswith("here/")
    assert job.stdout("chief-0").endswith("/src\n")
    assert job.stdout("worker-0") == f"{tmp_path}\n"


def test_killed_bootstrap_is_the_cause_before_the_chiefs_failure(any_job: Cluster) -> None:
    job = any_job
    outlives = "while kill -0 $(cat ../pid) 2>&-; do sleep 0.05; done; sleep 0.1; exit 1"
    dies = "echo $$ >../new; mv ../new ../pid; echo up; sleep 600; true"
    job.job(pair(outlives, dies), grace_s=600)
    (job.root / "app").mkdir()
    (job.root / "app" / "pid").write_text(str(0))
    job.start()
    job.printed("worker-0", "up")
    pid = int((job.root / "app" / "pid").read_text())
    job.kill("worker-0")
    assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
    assert not alive(pid)
    first = job.report()["first_failure"]
    assert (first["task"], first["status"], first["reason"]) == ("worker-0", None, "lost")
    # the chief's own failure may come after the report of the end
    assert [later["task"] for later in job.report()["later_failures"]] in ([], ["chief-0"])


def test_a_task_that_ends_while_the_deciding_one_is_suspended_reports_later(job: Cluster) -> None:
    """The suspension is longer than `grace`, and no command fails: nor does the job."""
    ends = f"{UNTIL_GO.replace('go', 'end')}; exit 0"
    roles = pair(UNTIL_GO, ends)
    job.job(roles, grace_s=6, ping_s=1)
    job.start()
    job.started("chief-0", "worker-0")
    job.kill("chief-0", signal.SIGSTOP)
    suspended_at = time.monotonic()
    try:
        # after three pings without an answer
        job.until(lambda: "went away" in job.stderr("worker-0"))
        (job.root / "app" / "end").touch()
        said = "takes connections and does not answer; waiting up to"
        job.until(lambda: said in job.stderr("worker-0"))
        time.sleep(max(0, suspended_at + 8 - time.monotonic()))
        assert job.runs["worker-0"].poll() is None
        job.go()
    finally:
        job.kill("chief-0", signal.SIGCONT)
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}
    assert job.report()["state"] == "succeeded"
    assert any("chief-0 stood still for" in warning for warning in job.report()["warnings"])


def test_names_that_dns_does_not_have_do_not_delay_the_start(job: Cluster) -> None:
    job.dns.hidden |= {"worker-0", "worker-1"}
    job.job(pair('echo "$TF_CONFIG"', workers=2))
    job.start()
    assert set(job.wait_all().values()) == {0}
    start = job.report()["start"]
    assert start["launched_at"] <= start["arrived_at"] <= start["at"]
    assert start["by_address"] == 3
    ports = job.ports()
    for name in job.names():
        assert json.loads(job.stdout(name))["cluster"] == {
            "chief": [f"127.0.0.1:{ports['chief-0']}"],
            "worker": [f"127.0.0.1:{ports['worker-0']}", f"127.0.0.1:{ports['worker-1']}"],
        }


def test_rendezvous_port_that_is_in_use_is_passed_over(job: Cluster) -> None:
    job.job(pair("true"))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", job.rendezvous()))
        job.start()
        assert job.wait_all() == {"chief-0": 0, "worker-0": 0}


def test_restarted_task_whose_known_port_is_in_use_says_so(job: Cluster) -> None:
    once = "[ -e ../first ] || { touch ../first; exit 3; }; " + UNTIL_GO
    worker = role(1, "trains", once, max_restarts=1)
    job.job({"chief": role(1, "trains", UNTIL_GO), "worker": worker})
    port = job.ports()["worker-0"]
    job.start()
    assert job.wait("worker-0") == 3
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        job.start("worker-0")
        assert job.wait("worker-0") == contract.EXIT_PORT_IN_USE
    assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
    first = job.report()["first_failure"]
    assert (first["task"], first["reason"]) == ("worker-0", "port-in-use")
    assert f"port {port} of worker-0 cannot be used on host node-of-worker-0" in first["message"]


FILES = {"train.py": "1", "broken.sh": "#!/no/such/interpreter\n"}
Failure = tuple[Any, int, str, str]
FAILURES: dict[str, Failure] = {
    "nothing of that name": (["nosuchcommand", "x"], 127, "command-not-found", "the command 'nosuchcommand' was not found in the container"),
    "a file that is no program": (["./train.py"], 126, "not-executable", "Permission denied"),
    "a program without its interpreter": (["./broken.sh"], 126, "not-executable", "its first line does not exist"),
    "a shell that finds nothing": ("nosuchcommand x", 127, "command-not-found", "exited with status 127"),
    "the first part of a pipeline": ("(echo epoch; exit 3) | tee log", 3, "exited", "chief-0 exited with status 3"),
    "a command that is killed": ("kill -9 $$", 137, "killed", "chief-0 was killed by SIGKILL (often a memory limit)"),
    "a status that means something to YARN": ("exit 22", contract.EXIT_RESERVED_STATUS, "exited", "chief-0 exited with status 22"),
    "a workdir that is not there": (None, contract.EXIT_BOOTSTRAP_ERROR, "workdir-missing", "/no/such does not exist, or is not a directory"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_failure_of_the_deciding_task_ends_the_job(job: Cluster, name: str) -> None:
    command, status, reason, words = FAILURES[name]
    job.files = FILES
    chief = role(1, "trains", command or "true", **({} if command else {"workdir": "no/such"}))
    board, worker = role(1, "sidecar", FOREVER), role(1, "serves", FOREVER)
    job.job({"chief": chief, "board": board, "worker": worker})
    job.start()
    left = contract.EXIT_JOB_FAILED
    assert job.wait_all() == {"chief-0": status, "board-0": left, "worker-0": left}
    first, asked = job.report()["first_failure"], 22 if "22" in words else status
    assert (first["task"], first["status"], first["reason"]) == ("chief-0", asked, reason)
    assert words in first["message"]
    assert job.report()["state"] == "failed"


def test_single_task_waits_for_nothing(any_job: Cluster) -> None:
    job = any_job
    show = 'echo "[$TF_CONFIG] ${CUDA_VISIBLE_DEVICES-unset}"'
    job.job({"worker": role(1, "trains", show)})
    job.start(env={contract.ENV_HOSTNAME: ""})
    assert job.wait("worker-0") == 0
    assert job.stdout("worker-0") == "[] \n"
    assert job.dns.asked == []
    assert job.report()["state"] == "succeeded"


def test_sigterm_reaches_the_whole_group_of_the_command(any_job: Cluster) -> None:
    job = any_job
    child = "(trap 'echo child told; exit' TERM; echo up; while :; do sleep 0.1; done)"
    chief = role(1, "trains", f"trap 'echo chief told; exit 0' TERM; {child} & wait")
    job.job({"chief": chief, "worker": role(1, "serves", FOREVER)}, stop_grace_s=60)
    job.start()
    job.printed("chief-0", "up")
    job.kill("chief-0", signal.SIGTERM)
    assert job.wait("chief-0") == contract.EXIT_TERMINATED
    job.until(lambda: all(f"{it} told" in job.stdout("chief-0") for it in ("child", "chief")))
    assert job.report()["state"] == "stopped"
    assert job.report()["first_failure"] is None


def test_other_signals_are_forwarded_and_end_nothing(job: Cluster) -> None:
    block = "import signal as s; w = {s.SIGHUP, s.SIGUSR1}; s.pthread_sigmask(s.SIG_BLOCK, w)"
    wait = block + "; print('up'); print(s.sigwait(w).name); print(s.sigwait(w).name)"
    job.job({"chief": role(1, "trains", [sys.executable, "-c", wait])})
    job.start()
    job.printed("chief-0", "up")
    job.kill("chief-0", signal.SIGHUP)
    job.printed("chief-0", "HUP")
    job.kill("chief-0", signal.SIGUSR1)
    assert job.wait("chief-0") == 0
    assert "USR1" in job.stdout("chief-0")
    assert job.report()["state"] == "succeeded"


def test_command_that_ignores_sigterm_is_killed(job: Cluster) -> None:
    job.job(
        {
            "chief": role(1, "trains", UNTIL_GO),
            "ps": role(1, "serves", "trap '' TERM; touch ../go; while :; do sleep 0.1; done"),
        }
    )
    job.start()
    assert job.wait_all() == {"chief-0": 0, "ps-0": 0}
    assert job.outcome("ps-0")["signal"] == 9


def test_leftovers_of_the_command_are_ended(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", "sleep 600 & echo $!")})
    job.start()
    assert job.wait("chief-0") == 0
    pid = int(job.stdout("chief-0"))
    job.until(lambda: not alive(pid))


def test_bootstrap_killed_right_after_the_start_ends_the_command(tmp_path: Path) -> None:
    program = """if True:
        import os, signal, subprocess
        from submit_tf_job.container.child import Child

        class Dies(subprocess.Popen):
            def __init__(self, argv, **more):
                super().__init__(argv, **more)
                if "sleep" in argv[-1]:
                    while not os.path.exists("pid") or not open("pid").read():
                        pass
                    os.kill(os.getpid(), signal.SIGKILL)

        subprocess.Popen = Dies
        Child("sleep 600 & echo $! > pid; wait", {"PATH": os.environ["PATH"]})
    """
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, give_up_at = int((tmp_path / "pid").read_text()), time.monotonic() + 600
    while alive(pid):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.mark.parametrize("command", ["echo $$; sleep 600; true", "sleep 600 & echo $!; wait"])
def test_killed_bootstrap_takes_the_command_with_it(job: Cluster, command: str) -> None:
    job.job({"chief": role(1, "trains", command)})
    job.start()
    job.printed("chief-0", "\n")
    pid = int(job.stdout("chief-0"))
    assert alive(pid)
    job.kill("chief-0")
    job.until(lambda: not alive(pid))


def test_sigterm_while_waiting(job: Cluster) -> None:
    job.job(pair("echo ran", workers=2))
    job.start("chief-0", "worker-0")
    job.until(lambda: job.report().get("arrived") == 2)
    for name in ("worker-0", "chief-0"):
        job.kill(name, signal.SIGTERM)
    assert set(job.wait_all().values()) == {contract.EXIT_TERMINATED}
    assert job.report()["state"] == "stopped"
    assert job.outcome("worker-0")["message"] == "worker-0 was stopped by SIGTERM"


def test_addresses_of_peers_are_kept_off_a_proxy(job: Cluster) -> None:
    job.job(pair("echo $no_proxy"))
    job.start(env={"http_proxy": "http://proxy:3128", "no_proxy": "localhost"})
    assert set(job.wait_all().values()) == {0}
    assert job.stdout("chief-0") == job.stdout("worker-0") == "localhost,sandbox.test,127.0.0.1\n"


def test_files_and_hadoop_conf_are_delivered(job: Cluster) -> None:
    job.files = {"hadoop-conf/core-site.xml": "<configuration/>", "a/b.txt": "deep"}
    job.job(
        {"chief": role(1, "trains", 'cat a/b.txt; ls "$HADOOP_CONF_DIR"; echo "[$JAVA_HOME]"')},
        hadoop_conf="inline",
    )
    job.start(env={"JAVA_HOME": "/no/such/jdk", "HADOOP_CONF_DIR": "/no/such/conf"})
    assert job.wait("chief-0") == 0
    assert job.stdout("chief-0") == "deepcore-site.xml\n[]\n"


def test_marker_of_a_finished_task(any_job: Cluster) -> None:
    job = any_job
    job.job({"chief": role(1, "trains", "echo ran; exit 7")})
    job.start()
    assert job.wait("chief-0") == 7
    report = job.report()
    job.start()
    assert job.wait("chief-0") == 7
    assert job.stdout("chief-0") == ""
    assert job.report() == report
    assert job.outcome("chief-0")["status"] == 7
    # the same submission started once more is another application
    job.application = "container_1700000000001_0001"
    job.start()
    assert job.wait("chief-0") == 7
    assert job.stdout("chief-0") == "ran\n"


def test_marker_of_a_finished_task_counts_where_the_report_cannot_be_written(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", "exit 7")})
    job.start()
    assert job.wait("chief-0") == 7
    job.start(shell='mkdir "${LOG_DIRS%%,*}/job-report.json"')
    assert job.wait("chief-0") == 7
    assert job.outcome("chief-0")["reason"] == "exited"


def test_other_tasks_learn_of_a_task_that_cannot_be_prepared(any_job: Cluster) -> None:
    job = any_job
    # what the task would write is a directory there
    job.files = {"tfjob-input-m.txt": "hdfs:///m/1\n", "tfjob-inputs/m.files/x": ""}
    shard = {"uri": "hdfs:///m", "shard": True, "download": False}
    data = {"readers": ["worker"], "onlookers": [], "inputs": {"m": shard}, "outputs": {}}
    job.job(pair("true", FOREVER), data=data)
    job.start()
    ends = {"chief-0": contract.EXIT_JOB_FAILED, "worker-0": contract.EXIT_BOOTSTRAP_ERROR}
    assert job.wait_all() == ends
    failure = job.report()["first_failure"]
    assert (failure["task"], failure["reason"]) == ("worker-0", "bootstrap-error")
    assert "this task cannot be prepared: [Errno 21] Is a directory: " in failure["message"]


def test_a_login_that_cannot_write_its_keytab_is_a_warning(job: Cluster, tmp_path: Path) -> None:
    job.files = {"tfjob-own.keytab/x": ""}  # a directory
    path = tmp_path / "svc.keytab"
    path.write_bytes(keytab("svc@EXAMPLE.COM", "alice@EXAMPLE.COM"))
    rule = {"keytab": str(path), "principal": "svc@EXAMPLE.COM", "login": "auto"}
    job.job({"chief": role(1, "trains", "true")}, tokens=True, kerberos=rule)
    job.start()
    assert job.wait("chief-0") == 0
    (warning,) = job.report()["warnings"]
    assert warning.startswith("the login of svc@EXAMPLE.COM failed: [Errno 21] Is a directory: ")


@pytest.mark.parametrize(
    ("name", "more", "files", "message"),
    [
        ("chief-1", {}, {}, "the job has 1 of role 'chief'"),
        ("chief-0", {"ports": {}}, {}, "the bootstrap failed: KeyError('mode')"),
        ("chief-0", {}, {"../evil": "x"}, "the job's files could not be unpacked"),
    ],
    ids=["identity", "description", "files"],
)
def test_what_the_bootstrap_cannot_use_is_told(
    job: Cluster, name: str, more: dict[str, Any], files: dict[str, str], message: str
) -> None:
    job.files = files
    job.job({"chief": role(1, "trains", "echo ran")})
    job.start(name, task={**job.task, **more})
    assert job.wait(name) == contract.EXIT_BOOTSTRAP_ERROR
    outcome = job.outcome(name)
    assert (outcome["task"], outcome["reason"]) == (name, "bootstrap-error")
    assert message in outcome["message"]
    assert not (job.places[name][0].parent / "evil").exists()


@pytest.mark.parametrize(
    ("restarts", "status", "said"),
    [
        (3, 9, "web-0 had failed (exit status 9), and did not run again before the job's end"),
        (0, 0, "web-0 exited with status 9"),
    ],
)
def test_a_service_that_has_failed_when_its_job_succeeds_is_a_warning(
    job: Cluster, restarts: int, status: int, said: str
) -> None:
    """To Hadoop 3.1 and 3.2 a service has failed if any of its containers has: one that has failed
    for good ends with 0.
    """
    web = role(1, "sidecar", "exit 9", max_restarts=restarts)
    job.job({"main": role(1, "trains", UNTIL_GO), "web": web})
    job.start()
    assert job.wait("web-0") == status
    job.go()
    assert job.wait("main-0") == 0
    [warning] = job.report()["warnings"]
    assert warning.startswith(said)


def test_late_sidecar_is_informed_of_the_end(job: Cluster) -> None:
    job.job({"main": role(1, "trains", "true"), "helper": role(1, "sidecar", FOREVER)})
    job.start("main-0")
    job.until(lambda: "the job is done" in job.stderr("main-0"))
    job.start("helper-0")
    assert set(job.wait_all().values()) == {0}, "the deciding task leaves when all have been told"


STEP = "echo TFJOB_PROGRESS '{\"step\": '$i'}'"
WRITES = "echo '{\"step\": 4}' >p; mv p $TFJOB_PROGRESS_FILE"
SPEAKS = f"for i in 1 2 3 4; do {STEP}; sleep 0.3; done; "
GOES_ON = f"until [ -e ../go ]; do i=$((i + 1)); {STEP}; sleep 0.3; done"


def test_a_task_that_stands_still_while_others_move_is_reported(job: Cluster) -> None:
    """The one that moves tells steps: without news the report is written every 30 s only. In half
    of `still_s` also a busy machine starts all commands, and what they print counts as no rhythm.
    """
    roles = {
        "worker": role(1, "trains", SPEAKS + GOES_ON),
        "slow": role(1, "trains", f"{WRITES}; {UNTIL_GO}"),
        "silent": role(1, "trains", UNTIL_GO),
    }
    job.job(roles, still_s=20, ping_s=0.5)
    job.start()

    def told() -> bool:
        """On a busy machine the one that moves may stand still, too, for a while."""
        found = job.report().get("standstill") or {"tasks": []}
        still = [(entry["task"], entry["step"]) for entry in found["tasks"]]
        return still == [("slow-0", 4)] and not found["all"] and found["others_step"] > 4

    job.until(told, 240)
    job.succeeds()


def test_the_report_says_for_whom_the_end_waits(job: Cluster) -> None:
    roles = pair("true", UNTIL_GO)
    job.job(roles)
    job.start()
    found = job.until(lambda: job.report().get("awaited"))
    assert found["tasks"] == ["worker-0"]
    assert 0 < found["until"] - job.report()["updated_at"] <= 241
    job.go()
    job.wait_all()
    assert "awaited" not in job.report()


LISTED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-1b4d-4a1d-8b0b-000000000000)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-000000000000)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-000000000000)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-1b4d-4a1d-8b0b-000000000001)
"""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


CARD = '{"Card %s": "AMD INSTINCT MI200", "Card SKU": "D65201"}'
ROCM = f"""\
WARNING: AMD GPU device(s) is/are in a low-power state
{{"card0": {CARD % "Series"}, "card1": {CARD % "series"}, "system": {{"Driver version": "6.2"}}}}
"""


def with_gpus(
    job: Cluster, said: str, status: int = 0, *, asked: int = 1, name: str = "nvidia-smi"
) -> dict[str, str]:
    """Make a job whose worker asks for GPUs, and a tool that says this."""
    tool = job.root / "bin" / name
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit {status}\n")
    tool.chmod(0o755)
    roles = pair("true", "echo trains")
    job.job({**roles, "worker": {**roles["worker"], "gpus": asked}}, gpus="yarn.io/gpu")
    return {"PATH": f"{tool.parent}:{os.environ['PATH']}"}


PART = "NVIDIA A100-SXM4-40GB MIG 3g.20gb"


@pytest.mark.parametrize(
    ("name", "said", "gpus"),
    [
        ("nvidia-smi", LISTED, [PART, PART, "NVIDIA A100-SXM4-40GB"]),
        ("rocm-smi", ROCM, ["AMD INSTINCT MI200"] * 2),
    ],
)
def test_task_reports_its_gpus(any_job: Cluster, name: str, said: str, gpus: list[str]) -> None:
    any_job.start(env=with_gpus(any_job, said, asked=len(gpus), name=name))
    assert set(any_job.wait_all().values()) == {0}
    tasks = {entry["task"]: entry.get("gpus") for entry in any_job.report()["tasks"]}
    assert tasks == {"chief-0": None, "worker-0": gpus}
    assert "GPUs: " not in any_job.stderr("chief-0"), "a role without GPUs asks nothing"


@pytest.mark.parametrize(
    ("said", "status", "env", "words"),
    [
        (LISTED, 0, {}, "asked for 4 GPUs and sees 3 (NVIDIA A100"),
        (MISMATCH, 18, {}, f"sees none on node-of-worker-0: nvidia-smi says: {MISMATCH}"),
        (LISTED, 0, {"CUDA_VISIBLE_DEVICES": ""}, "sees none on node-of-worker-0: CUDA_VISIBLE"),
    ],
)
def test_fewer_gpus_than_asked_for_fail_the_job_before_the_training(
    job: Cluster, said: str, status: int, env: dict[str, str], words: str
) -> None:
    job.start(env={**with_gpus(job, said, status, asked=4), **env})
    assert set(job.wait_all().values()) != {0}
    failure = job.report()["first_failure"]
    assert (failure["task"], failure["reason"]) == ("worker-0", "gpu-missing")
    assert words in failure["message"]
    assert job.stdout("worker-0") == ""


# A container's /dev, seen by this process alone.
DEVICES = """
mkdir dev; mount -t tmpfs none dev
for one in null zero random urandom; do touch dev/$one; mount --bind /dev/$one dev/$one; done
mkdir dev/dri; (cd dev; touch %s); mount --move dev /dev
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a process a /dev of its own")
@pytest.mark.parametrize(
    ("files", "gpus"),
    [
        ("nvidia0 nvidia1 nvidiactl nvidia-uvm", ["NVIDIA GPU"] * 2),
        ("kfd dri/card0 dri/renderD128 dri/renderD129", ["AMD GPU"] * 2),
    ],
)
def test_without_a_vendors_tool_device_files_count(
    job: Cluster, monkeypatch: pytest.MonkeyPatch, files: str, gpus: list[str]
) -> None:
    roles = pair("true")
    job.job({**roles, "worker": {**roles["worker"], "gpus": 2}}, gpus="yarn.io/gpu")
    monkeypatch.setattr(job, "inside", lambda _name: ["unshare", "--mount"])
    job.start(shell=DEVICES % files)
    assert set(job.wait_all().values()) == {0}
    assert {entry["task"]: entry.get("gpus") for entry in job.report()["tasks"]}["worker-0"] == gpus


def test_a_role_that_chooses_its_devices_itself_is_not_judged(job: Cluster) -> None:
    env = with_gpus(job, LISTED, asked=4)
    job.task["roles"]["worker"]["env"] = {"CUDA_VISIBLE_DEVICES": "0"}
    job.start(env=env)
    assert set(job.wait_all().values()) == {0}
