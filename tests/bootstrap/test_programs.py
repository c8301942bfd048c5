"""Programs that disturb what is around them end as what they are, soon, and say why."""

from __future__ import annotations

import os

import pytest

from tests.bootstrap.harness import Cluster, role

LOGS = "${LOG_DIRS%%,*}"
# A program, its exit status, and the reason in the report of one that fails.
PROGRAMS: dict[str, tuple[str, int, str]] = {
    "closes its files": ("exec 0<&- 1>&- 2>&-; sleep 0.2; exit 3", 3, "exited"),
    "closes its files, and succeeds": ("exec 0<&- 1>&- 2>&-; sleep 0.2", 0, ""),
    "empties its directory": ("rm -rf ./*; sleep 0.2", 0, ""),
    "empties its directory, and fails": ("rm -rf ./*; echo why >&2; exit 3", 3, "exited"),
    "removes its directory": ('here=$PWD; cd /; rm -rf "$here"; sleep 0.2', 0, ""),
    "removes its directory, and fails": ('here=$PWD; cd /; rm -rf "$here"; exit 3', 3, "exited"),
    "moves its directory": ('mv "$PWD" "$PWD.old"; sleep 0.2', 0, ""),
    "removes its logs": (f"rm -rf {LOGS}; sleep 0.2; exit 3", 3, "exited"),
    "puts directories in the place of its logs": (
        f"cd {LOGS}; for one in job-report.json job-usage.json job-times.txt; do "
        "rm -f $one; mkdir -p $one/x; done; exit 3",
        3,
        "exited",
    ),
    "kills its group": ("sleep 60 & kill -9 0", 137, "killed"),
    "terminates its group": ("sleep 60 & kill -TERM 0; sleep 60", 143, "killed"),
    "leaves a hundred processes": ("for i in $(seq 100); do sleep 60 & done", 0, ""),
    "leaves a daemon": ("setsid -f sleep 5", 0, ""),
    "leaves a daemon, and fails": ("setsid -f sleep 5; exit 3", 3, "exited"),
    "may write no file": ("ulimit -f 0; trap '' XFSZ; echo x > f", 1, "exited"),
    "is ended by its limit": (
        "ulimit -f 0; exec python3 -c 'import os, signal; signal.signal(signal.SIGXFSZ, 0); "
        'os.write(os.open("f", 65), b"x")\'',
        153,
        "crashed",
    ),
    "has no time": ("ulimit -St 1; exec python3 -c 'while True: pass'", 152, "crashed"),
    "may open no file": ("ulimit -n 3; cat < /dev/null; exit 3", 3, "exited"),
    "prints one line for ever": (
        "head -c 30000000 /dev/zero | tr '\\0' x >&2; exit 3",
        3,
        "exited",
    ),
    "has a queue for progress": ("mkfifo $TFJOB_PROGRESS_FILE; sleep 0.5; exit 3", 3, "exited"),
    "has endless progress": (
        "ln -s /dev/zero $TFJOB_PROGRESS_FILE; sleep 0.5; exit 3",
        3,
        "exited",
    ),
    "has a directory for progress": (
        "mkdir -p $TFJOB_PROGRESS_FILE; sleep 0.5; exit 3",
        3,
        "exited",
    ),
    "has progress in a circle": (
        "ln -s $TFJOB_PROGRESS_FILE $TFJOB_PROGRESS_FILE; sleep 0.5; exit 3",
        3,
        "exited",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_ends_as_what_it_is(job: Cluster, name: str) -> None:
    program, status, reason = PROGRAMS[name]
    job.job({"chief": role(1, "trains", program)})
    job.start()
    assert job.wait("chief-0", 60) == status
    outcome = job.outcome("chief-0") if "logs" not in name else {"status": status, "reason": reason}
    assert outcome["status"] == status, outcome
    assert not reason or outcome["reason"] == reason, outcome
    assert "Traceback" not in (job.stderr("chief-0") if name != "removes its logs" else "")


# A container's directory or its logs on a file system of their own, which is full when the command
# starts; the mounts are those of this process alone.
FULL = """
here=$PWD; place=%s; mkdir ../kept; cp -a $place/. ../kept; mount -t tmpfs -o size=300k none $place
cp -a ../kept/. $place; cd $here
"""
FILL = "head -c 1000000 /dev/zero > %s/fills; exit %d"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("place", ["$PWD", LOGS], ids=["directory", "logs"])
def test_program_that_fills_the_disk_ends_as_what_it_is(
    job: Cluster, monkeypatch: pytest.MonkeyPatch, place: str, status: int
) -> None:
    job.job({"chief": role(1, "trains", FILL % (place, status))})
    monkeypatch.setattr(job, "inside", lambda _name: ["unshare", "--mount"])
    job.start(shell=FULL % place)
    assert job.wait("chief-0", 60) == status
    assert (job.outcome("chief-0")["status"], "Traceback" in job.stderr("chief-0")) == (
        status,
        False,
    )
