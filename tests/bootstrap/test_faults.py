"""What goes wrong in a bootstrap itself, by real causes: a part that only observes ends no job; a
part that decides or stores ends with its cause, and the other tasks are told.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import UNTIL_GO, Cluster, FakeDns, generations, pair, role

# no thread fits: its stack would be larger than all memory that the process may have
NO_THREADS = "ulimit -s 16000000; ulimit -v 8000000"
# more descriptors than select() knows
MANY_FILES = 'ulimit -n 4096; for i in $(seq 3 1100); do eval "exec $i</dev/null"; done'
UNDER_WAY = f"trap 'echo asked' TERM; {UNTIL_GO}"
DEFECT = """
import os
_wait = Loop._wait_for_events
def _defective(loop, timeout_s):
    if os.path.exists("defect"):
        raise KeyError("stall_timeout")
    _wait(loop, timeout_s)
Loop._wait_for_events = _defective
"""


def limit(job: Cluster, name: str, kind: int, soft: int | None = None) -> None:
    """Set a limit of a running bootstrap; without a number its former one."""
    pid = job.runs[name].pid
    hard = resource.prlimit(pid, kind)[1]
    resource.prlimit(pid, kind, (hard if soft is None else soft, hard))


def opens_no_more_files(job: Cluster, name: str) -> None:
    used = [int(fd.name) for fd in Path(f"/proc/{job.runs[name].pid}/fd").iterdir()]
    free = next(number for number in range(len(used) + 1) if number not in used)
    limit(job, name, resource.RLIMIT_NOFILE, free)


@contextmanager
def changed_zip(job: Cluster) -> Iterator[dict[str, bytes]]:
    """Yield the files of the bootstrap by name, and write them as they are then."""
    with zipfile.ZipFile(job.zip) as found:
        files = {name: found.read(name) for name in found.namelist()}
    yield files
    with zipfile.ZipFile(job.zip, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)


def warned(job: Cluster, text: str) -> list[str]:
    return [warning for warning in job.report()["warnings"] if text in warning]


# --- parts that only observe ----------------------------------------------------------------------
def test_usage_is_not_measured_while_there_are_too_many_open_files(job: Cluster) -> None:
    job.job(pair(UNTIL_GO))
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    for name in job.names():
        opens_no_more_files(job, name)
    said = "what it uses cannot be measured: OSError"
    job.until(lambda: all(said in job.stderr(name) for name in job.names()))
    for name in job.names():
        limit(job, name, resource.RLIMIT_NOFILE)
    job.succeeds()
    assert job.report()["state"] == "succeeded"
    assert warned(job, said)


def test_stacks_are_not_taken_while_there_are_too_many_open_files(job: Cluster) -> None:
    """Their module cannot be imported."""
    job.job(pair(UNTIL_GO))
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    opens_no_more_files(job, "worker-0")
    job.kill("chief-0", signal.SIGQUIT)
    job.until(lambda: "stacks cannot be taken: OSError" in job.stderr("worker-0"))
    limit(job, "worker-0", resource.RLIMIT_NOFILE)
    job.succeeds()
    assert job.report()["state"] == "succeeded"


def test_a_lifetime_whose_module_cannot_be_imported_is_a_warning(job: Cluster) -> None:
    """As while there are too many open files; it is tried again."""
    with changed_zip(job) as files:
        del files["submit_tf_job/container/lifetime.py"]
    record = {"protocol": "http", "addresses": ["127.0.0.1:9"], "user": "alice"}
    record["path"] = "/user/alice/run.report"
    job.job({"chief": role(1, "trains", UNTIL_GO)}, record=record)
    job.start()
    said = "the job's `lifetime` is nearly over: ImportError"
    job.until(lambda: said in job.stderr("chief-0"))
    job.succeeds()
    assert job.report()["state"] == "succeeded"
    assert warned(job, said)


def test_odd_lines_of_nvidia_smi_are_no_samples(job: Cluster, tmp_path: Path) -> None:
    """A superscript two is a digit, and not a number."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / "nvidia-smi"
    tool.write_text(
        '#!/bin/sh\n[ "$1" = -L ] && echo "GPU 0: A100 (UUID: 1)" && exit\necho "²,1,2,3"\n'
    )
    tool.chmod(0o755)
    job.job({"chief": role(1, "trains", "sleep 2.5", gpus=1)}, gpus="yarn.io/gpu")
    job.start(env={"PATH": f"{tools}:{os.environ['PATH']}"})
    assert job.wait("chief-0") == 0
    assert job.report()["state"] == "succeeded"


def test_a_very_deep_directory_of_the_program_fails_no_job(job: Cluster) -> None:
    """Older versions of Python walk through directories by recursion."""
    deep = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w').write('x')"
    job.job({"chief": role(1, "trains", [sys.executable, "-c", deep])})
    job.start()
    try:
        assert job.wait("chief-0") == 0
        assert job.report()["state"] == "succeeded"
    finally:
        subprocess.run(["rm", "-rf", job.root / "app"], check=True)


def test_stacks_beside_a_process_whose_name_is_no_text(job: Cluster) -> None:
    sleep = shutil.which("sleep")
    command = f"cp {sleep} ./$'python\\xe9'; ./$'python\\xe9' 600 & {UNTIL_GO}; kill $!"
    job.job({"chief": role(1, "trains", command)})
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    job.kill("chief-0", signal.SIGQUIT)
    path = job.places["chief-0"][1] / contract.ALL_STACKS_FILE
    job.until(path.exists)
    assert "its node or container hangs" not in path.read_text()
    job.succeeds()


# --- threads --------------------------------------------------------------------------------------
def test_a_job_ends_well_without_threads(job: Cluster) -> None:
    """Neither the lifetime nor the record of the run are worth a failure."""
    record = {"protocol": "http", "addresses": ["127.0.0.1:9"], "user": "alice"}
    record["path"] = "/user/alice/run.report"
    job.job({"chief": role(1, "trains", UNTIL_GO)}, record=record)
    job.start(shell=NO_THREADS)
    job.until(lambda: "`lifetime` is nearly over" in job.stderr("chief-0"))
    job.go()
    assert job.wait("chief-0") == 0
    assert job.report()["state"] == "succeeded"
    assert warned(job, "the job's `lifetime` is nearly over: RuntimeError")
    assert "the record of this run has no report: RuntimeError" in job.stderr("chief-0")


def test_a_deciding_task_without_threads_is_found(job: Cluster) -> None:
    """It greets nobody, and takes the connections when it is ready."""
    job.job(pair("true"))
    job.start("chief-0", shell=NO_THREADS)
    job.start("worker-0")
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}


def test_an_output_that_no_thread_can_store_is_the_cause(job: Cluster, tmp_path: Path) -> None:
    rule = {"uri": f"file://{tmp_path}/m", "upload": "deciding-task", "on_failure": "discard"}
    outputs = {"m": {**rule, "on_retry": "empty", "overwrite": False}}
    data = {"readers": ["chief"], "onlookers": [], "inputs": {}, "outputs": outputs}
    command = "echo x > $TFJOB_OUTPUT_M/x; " + UNTIL_GO
    job.job({"chief": role(1, "trains", command)}, data=data)
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    status = Path(f"/proc/{job.runs['chief-0'].pid}/status").read_text()
    size = int(status.partition("VmSize:")[2].split()[0]) * 1024
    limit(job, "chief-0", resource.RLIMIT_AS, size + (4 << 20))  # less than a thread's stack
    job.go()
    assert job.wait("chief-0") == 97
    failure = job.report()["first_failure"]
    assert failure["reason"] == "output-failed"
    assert "could not be stored" in failure["message"]
    assert "can't start new thread" in failure["message"]


def test_a_search_continues_after_too_many_open_files(job: Cluster, dns: FakeDns) -> None:
    job.job(pair("true"))
    job.start("worker-0")
    job.until(lambda: dns.asked)
    opens_no_more_files(job, "worker-0")
    time.sleep(3)  # some look-ups, which fail
    limit(job, "worker-0", resource.RLIMIT_NOFILE)
    job.start("chief-0")
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}


@pytest.fixture
def dns(job: Cluster) -> FakeDns:
    return job.dns


# --- parts that store -----------------------------------------------------------------------------
def test_outputs_are_stored_beside_a_thousand_open_files(job: Cluster, tmp_path: Path) -> None:
    """As in the deciding task of a thousand others."""
    rule = {"uri": f"file://{tmp_path}/m", "upload": "deciding-task", "on_failure": "discard"}
    outputs = {"m": {**rule, "on_retry": "empty", "overwrite": False}}
    data = {"readers": ["chief"], "onlookers": [], "inputs": {}, "outputs": outputs}
    job.job({"chief": role(1, "trains", "echo x > $TFJOB_OUTPUT_M/x")}, data=data)
    job.start(shell=MANY_FILES)
    assert job.wait("chief-0") == 0, job.report().get("first_failure")
    assert (tmp_path / "m" / "x").read_text() == "x\n"


# --- parts that decide ----------------------------------------------------------------------------
def with_a_defect(job: Cluster) -> None:
    """Give the bootstrap an event loop that fails once a file is in the working directory."""
    with changed_zip(job) as files:
        files["submit_tf_job/container/loop.py"] += DEFECT.encode()


def broken(job: Cluster, name: str, **extra: Any) -> None:
    with_a_defect(job)
    job.job(pair(UNTIL_GO), **extra)
    job.start()
    job.started(*job.names())
    (job.places[name][0] / "defect").touch()


def tells_the_defect(job: Cluster, name: str) -> bool:
    outcome = job.outcome(name)
    said = "the bootstrap failed: KeyError('stall_timeout'"  # Python 3.6 adds a comma
    return outcome["reason"] == "bootstrap-error" and said in outcome["message"]


def test_a_defect_of_the_deciding_task_ends_the_job_with_its_cause(job: Cluster) -> None:
    broken(job, "chief-0")
    assert job.wait("chief-0") == 90
    assert job.wait("worker-0") == contract.EXIT_JOB_FAILED
    said = "chief-0 on node-of-chief-0: the bootstrap failed: KeyError('stall_timeout')"
    assert f"stopping: {said}" in job.stderr("worker-0")
    report = job.report()
    assert (report["state"], report["first_failure"]["message"]) == ("failed", said)
    assert job.outcome("chief-0")["first_failure"] == "chief-0"
    assert tells_the_defect(job, "chief-0")


def test_a_defect_is_told_while_there_are_too_many_open_files(any_job: Cluster) -> None:
    job = any_job
    with_a_defect(job)
    job.job(pair(UNTIL_GO))
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    opens_no_more_files(job, "worker-0")
    (job.places["worker-0"][0] / "defect").touch()
    assert job.wait("worker-0") == 90
    assert tells_the_defect(job, "worker-0")
    assert "Traceback" in job.stderr("worker-0")
    assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
    assert "the bootstrap failed: KeyError" in job.report()["first_failure"]["message"]


def test_a_defect_of_another_task_is_the_first_failure(job: Cluster) -> None:
    broken(job, "worker-0")
    assert job.wait("worker-0") == 90
    assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
    first = job.report()["first_failure"]
    assert (first["task"], first["reason"]) == ("worker-0", "bootstrap-error")
    assert "the bootstrap failed: KeyError('stall_timeout')" in first["message"]


def test_a_defect_of_a_task_is_retried_as_the_loss_of_its_container(job: Cluster) -> None:
    """As one of the deciding task is: another container, or node, may not have it."""
    broken(job, "worker-0", retries={"max": 3, "on": ["lost"]})
    assert job.wait("worker-0") == 90
    assert tells_the_defect(job, "worker-0")
    job.start("worker-0")
    job.until(lambda: generations(job))
    job.succeeds()
    assert generations(job) == [(0, "worker-0", "lost")]


def test_a_defect_at_the_end_of_a_job_with_retries_changes_no_verdict(job: Cluster) -> None:
    with_a_defect(job)
    roles = {"chief": role(1, "trains", "true"), "worker": role(1, "serves", UNDER_WAY)}
    job.job(roles, retries={"max": 3, "on": ["lost"]}, stop_grace_s=240)
    job.start()
    job.printed("worker-0", "asked")
    (job.places["chief-0"][0] / "defect").touch()
    assert job.wait("chief-0") == 0  # YARN would start it again after any other
    assert job.report()["state"] == "succeeded"
    job.go()
    job.wait("worker-0")


if sys.platform != "linux":  # the faults are those of its kernel
    pytest.skip("needs Linux", allow_module_level=True)
