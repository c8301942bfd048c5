"""`local` without Docker: data of this machine, and how it ends; nothing is left of it. What succeeds
and what fails: tests/docker/test_local.py, tests/promises/test_python.py.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.tool import SUBMIT_S, LocalTool, gone


class Shell(LocalTool):
    """`local` on a machine without any settings."""

    def argv(self, *words: object) -> list[str]:
        return super().argv("local", *words)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "tmp").mkdir()
    own = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    return Shell({**clusters.environment(), **own}, "", tmp_path)


def is_clean(shell: Shell, job: str) -> None:
    gone(job)
    assert list((shell.cwd / "tmp").glob("submit_tf_job-local-*")) == []


def test_inputs_are_shared_and_fetched_and_outputs_stored(shell: Shell) -> None:
    """Without any cluster, on files of this machine."""
    (shell.cwd / "in").mkdir()
    for number in range(5):
        (shell.cwd / f"in/{number}.txt").write_text(f"row {number}\n")
    here = f"file://{shell.cwd}"
    parts = {"uri": f"{here}/out/parts", "upload": True, "by": "every-task"}
    spec = shell.spec(
        "data",
        strategy="multi-worker",
        roles={"chief": {"memory": "1Gi"}, "worker": {"memory": "1Gi"}},
        command="xargs cat < $TFJOB_FILES_ROWS > $TFJOB_OUTPUT_PARTS/p.txt; exit $STATUS",
        env={"STATUS": "0"},
        inputs={"rows": {"uri": f"{here}/in/*.txt", "shard": "files", "download": True}},
        outputs={"parts": {**parts, "on_failure": "keep"}},
    )
    assert shell(spec).status == 0
    stored = {
        str(path.relative_to(shell.cwd / "out/parts")): path.read_text()
        for path in (shell.cwd / "out/parts").rglob("p.txt")
    }
    assert stored == {"chief-0/p.txt": "row 0\nrow 2\nrow 4\n", "worker-0/p.txt": "row 1\nrow 3\n"}
    refused = shell(spec)
    assert refused.status == 2
    assert f"outputs.parts: {here}/out/parts/chief-0 is there already" in refused.stderr
    again = ("--set", "outputs.parts.overwrite=true", "--set", "env.STATUS=5")
    assert shell(spec, *again).status == 1
    kept = {path.name.partition(".failed-")[0] for path in (shell.cwd / "out/parts").iterdir()}
    assert kept >= {"chief-0", "worker-0"}
    assert any(".failed-" in path.name for path in (shell.cwd / "out/parts").iterdir())
    is_clean(shell, "data")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(
    shell: Shell, number: signal.Signals, status: int
) -> None:
    spec = shell.spec("broken-off", command="trap '' TERM; echo here; sleep 600 & wait; sleep 600")
    process = shell.start(spec)
    assert process.stdout is not None
    for line in process.stdout:
        if line == "here\n":
            break
    process.send_signal(number)
    _stdout, stderr = process.communicate(timeout=SUBMIT_S)
    assert process.returncode == status, stderr
    assert "broken-off was ended" in stderr
    is_clean(shell, "broken-off")


def test_a_deadline(shell: Shell) -> None:
    done = shell(shell.spec("slow", command="sleep 600"), "--timeout", "2s")
    assert (done.status, "was not over after 2 s" in done.stderr) == (8, True), done
    is_clean(shell, "slow")


@pytest.mark.parametrize("where", ["", " 2>&1 | tee train.log", " > train.log 2>&1"])
def test_the_cause_of_a_failure_is_found_where_the_program_wrote_it(
    shell: Shell, where: str
) -> None:
    program = "echo 'x = = 1' > t.py; set -o pipefail; python3 t.py"
    done = shell(shell.spec("fails", command=f"{program}{where}"), "-o", "json")
    cause = json.loads(done.stdout)["root_cause"]
    assert (cause["code"], cause["facts"]["place"]) == ("syntax-error", "t.py:1"), cause
    assert cause["exception"] == "SyntaxError: invalid syntax"


def test_what_is_kept_is_said(shell: Shell) -> None:
    done = shell(shell.spec("kept", command="echo kept > made.txt"), "--keep")
    (directory,) = (shell.cwd / "tmp").glob("submit_tf_job-local-*")
    assert str(directory) in done.stderr
    assert (directory / "work/worker-0.0/made.txt").read_text() == "kept\n"
    assert "submit_tf_job-outcome" in (directory / "logs/worker-0.0/stderr.txt").read_text()


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"command": "no-such-program"}, 1, "127"),
        ({"command": ["no-such-program"]}, 1, "not found"),
        ({"python": "no-such-python"}, 1, "ended without leaving an outcome|not found"),
        ({"hadoop": {"conf": "hdfs:///conf.zip"}}, 2, "lies on the cluster"),
        ({"rolse": {}}, 2, "did you mean 'roles'"),
    ],
)
def test_what_is_wrong(shell: Shell, change: dict[str, Any], status: int, words: str) -> None:
    done = shell(shell.spec("wrong", **{"command": "true", **change}))
    assert done.status == status, done
    assert re.search(words, done.stdout + done.stderr), done
    is_clean(shell, "wrong")
