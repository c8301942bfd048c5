"""The command line as a process: what it imports, pipes that break, terminals that know little,
signals.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.command_line import GOOD
from tests.tool import until

PATIENCE_S = 600  # a command takes a second where nothing else runs
HEAVY = [
    *("requests", "yaml", "jsonschema", "rich", "fsspec", "hdfs_native", "email.mime", "asyncio"),
    *("xml.etree", "concurrent.futures", "tarfile"),
    *(f"submit_tf_job.{name}" for name in ("sandbox", "container.main", "diagnose.cause", "logs")),
    *(f"submit_tf_job.{name}" for name in ("jobspec", "plan", "storage", "yarn.records")),
    *(f"submit_tf_job.{name}" for name in ("job_report", "usage_report", "yarn.submission_steps")),
    *(f"submit_tf_job.operations.{name}" for name in ("description", "usage")),
    "submit_tf_job.yarn.observed_cluster",
]
CODE = f"""
import sys
from submit_tf_job.cli import main
if "--rm" in sys.argv:  # nobody answers there, and nobody is asked
    import socket
    def refuse(*_):
        raise ConnectionRefusedError(111, "Connection refused")
    socket.socket.connect = refuse
status = main(sys.argv[1:])
sys.stdout.flush()
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""


NOBODY = ["--rm", "http://127.0.0.1:9"]
OF_SPECS = [f"submit_tf_job.{name}" for name in ("jobspec", "plan", "yarn.records", "storage")]
# classes that are imported with the first report, stored run, or table of tasks
OF_REPORTS = [
    f"submit_tf_job.{name}"
    for name in ("job_report", "usage_report", "yarn.submission_steps", "operations.description")
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "train.yaml").write_text(GOOD)
    (tmp_path / "train.json").write_text(
        '{"name": "mnist", "image": "library/tf:2", "strategy": "single", "command": '
        '["a"], "roles": {"worker": {"memory": "1Gi"}}}'
    )
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    own = {"USER": "alice", "TIMEOUTS_FAILOVER": "100ms"}
    found = {f"SUBMIT_TF_JOB_{name}": value for name, value in own.items()}
    return {"HOME": str(home), "PATH": os.defpath, **found, **more}


def ran(home: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    own = environment(home, **environ)
    return subprocess.run(
        argv, cwd=home, env=own, capture_output=True, text=True, timeout=PATIENCE_S
    )


def imported(home: Path, *argv: str) -> tuple[int, list[str]]:
    done = ran(home, sys.executable, "-c", CODE, *argv)
    names: list[str] = json.loads(done.stderr.splitlines()[-1].replace("'", '"'))
    return done.returncode, names


@pytest.mark.parametrize(
    ("argv", "status", "allowed"),
    [
        (["version"], 0, []),
        (["--help"], 0, []),
        (["submit", "--help"], 0, [*OF_SPECS[:1], *OF_REPORTS]),
        (["config", "show"], 0, OF_SPECS[:1]),
        (["schema"], 0, [*OF_SPECS, *OF_REPORTS]),
        (["init"], 0, [*OF_SPECS, *OF_REPORTS]),
        (["render", "train.yaml"], 0, ["yaml", "jsonschema"]),
        (["render", "train.json"], 0, ["jsonschema"]),
        (["validate", "train.yaml"], 0, ["yaml", "jsonschema"]),
        (["status", "mnist", *NOBODY], 7, ["requests"]),
        (["list", *NOBODY], 7, ["requests"]),
        (["wait", "mnist", *NOBODY], 7, ["requests"]),
        (["delete", "mnist", *NOBODY], 7, ["requests", *OF_REPORTS]),
        (["submit", "train.yaml", *NOBODY], 7, ["requests", "yaml", "jsonschema"]),
    ],
)
def test_a_command_imports_only_what_it_needs(
    home: Path, argv: list[str], status: int, allowed: list[str]
) -> None:
    found, names = imported(home, *argv)
    assert found == status
    of_requests = ["email.mime", "asyncio", "xml.etree"] if "requests" in allowed else []
    of_specs = [*OF_SPECS, *OF_REPORTS] if "jsonschema" in allowed else []
    assert set(names) <= {*allowed, *of_requests, *of_specs}


def start(home: Path, *argv: str, **given: object) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    more = {**pipes, "env": environment(home), "cwd": home, **given}
    return subprocess.Popen([sys.executable, "-m", "submit_tf_job", *argv], **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("module", ["cli.one_job", "diagnose"])
def test_an_interrupt_during_an_import_keeps_its_status(home: Path, module: str) -> None:
    (home / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'submit_tf_job.{module}':\n"
        "            exec('raise KeyboardInterrupt')\n"
        "sys.meta_path.insert(0, Interrupted())\n"
    )
    process = start(home, "describe", "train", env={**environment(home), "PYTHONPATH": str(home)})
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, b"")


LOST = "error: the result could not be written to stdout: "


@pytest.mark.parametrize(
    ("argv", "redirection", "status", "said"),
    [
        (["render", "train.json"], "2>/dev/full", 0, ""),
        (["render", "train.json"], "2>&-", 0, ""),
        (["render", "train.json"], ">/dev/full", 74, LOST + "No space left on device"),
        (["render", "train.json"], ">&-", 74, LOST + "Bad file descriptor"),
        (["render", "train.json"], ">&- 2>&-", 74, ""),
        (["render", "train.json"], "<&- >/dev/full 2>/dev/full", 74, ""),
        (["schema"], ">/dev/full", 74, LOST + "No space left on device"),
        (["config", "show", "-o", "json"], ">/dev/full", 74, '"code": "output"'),
        (["submit", "--help"], ">/dev/full", 74, LOST),
        (["submit", "--help"], ">&9", 141, ""),
        (["schema"], ">&9", 141, ""),
        (["render", "train.json"], ">&9 2>&1", 141, ""),
        (["validate", "train.json"], "2>/dev/full | cat", 0, ""),
        (["render", "missing.json"], "2>/dev/full", 2, ""),
        (["render", "missing.json"], "2>&-", 2, ""),
        (["nosuchcommand"], "2>/dev/full", 2, ""),
        (["status", "mnist", *NOBODY], "2>/dev/full", 7, ""),
        (["status", "mnist", *NOBODY, "-o", "json"], "<&- >&- 2>&-", 7, ""),
    ],
)
def test_streams_that_cannot_be_written(
    home: Path, argv: list[str], redirection: str, status: int, said: str
) -> None:
    call = f'"{sys.executable}" -m submit_tf_job "$@" {redirection}'
    # 9 is a pipe whose reader has gone
    gone = f"mkfifo {home}/gone; exec 8<>{home}/gone 9>{home}/gone 8<&-"
    script = f'{gone}; {call}; echo "${{PIPESTATUS[0]}}" >{home}/status'
    done = ran(home, "/bin/bash", "-c", script, "-", *argv)
    assert (home / "status").read_text() == f"{status}\n", done
    assert said in done.stderr, done
    assert "Traceback" not in done.stderr, done
    assert "Exception ignored" not in done.stderr, done
    assert said or not done.stderr, done


def test_a_reader_that_takes_one_line(home: Path) -> None:
    script = f'"{sys.executable}" -m submit_tf_job schema | head -1; echo "${{PIPESTATUS[0]}}"'
    done = ran(home, "/bin/bash", "-c", script)
    line, status = done.stdout.splitlines()
    assert (line, done.stderr) == ("{", "")
    assert status in ("0", "141")


def test_a_terminal_that_has_no_such_character(home: Path) -> None:
    process = start(home, "validate", "é…\n.yaml", env=environment(home, PYTHONIOENCODING="ascii"))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (
        2,
        b"\\xe9\\u2026\\x0a.yaml: cannot be read: no such file or directory\n",
        b"",
    )


def test_standard_input_is_a_stream(home: Path) -> None:
    process = start(home, "render", "-", stdin=subprocess.PIPE)
    out, err = process.communicate(GOOD.encode(), timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["name"].startswith("mnist-")


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_commands_without_a_traceback(home: Path, sent: int, status: int) -> None:
    process = start(home, "render", "-", stdin=subprocess.PIPE)

    def is_at_work() -> bool:
        [caught] = re.findall(r"SigCgt:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())
        return bool(int(caught, 16) & (1 << (signal.SIGTERM - 1)))

    until(is_at_work, "the command's handler is in place")
    process.send_signal(sent)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (status, b"")


def test_tasks_of_local_get_no_secret_of_the_shell(home: Path) -> None:
    (home / "env.yaml").write_text(
        "{name: env, image: none, strategy: single, command: env, roles: {worker: {memory: 1Gi}}}"
    )
    shell = {"PATH": os.environ["PATH"], "LC_TIME": "C", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    done = ran(home, sys.executable, "-m", "submit_tf_job", "local", "env.yaml", **shell)
    assert (done.returncode, "LC_TIME=C" in done.stdout) == (0, True), done
    assert "hunter2" not in done.stdout + done.stderr


def test_the_module_is_the_command(home: Path) -> None:
    process = start(home, "version")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out.startswith(b"submit_tf_job "), err) == (0, True, b"")


@pytest.mark.parametrize(("auth", "dumpable"), [("simple", "1"), ("bearer", "0")])
def test_a_process_that_holds_a_secret_leaves_no_core(home: Path, auth: str, dumpable: str) -> None:
    code = """
import ctypes, os, resource, sys
from submit_tf_job.cli import main
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
status = main(sys.argv[1:])
sys.stdout.flush()
print(status, ctypes.CDLL(None).prctl(3), resource.getrlimit(resource.RLIMIT_CORE)[0] == 0, file=sys.stderr)
"""
    done = ran(home, sys.executable, "-c", code, "config", "show", "--auth", auth)
    status, found, no_core = done.stderr.split()
    assert (status, found) == ("0", dumpable)
    assert auth == "simple" or no_core == "True"
