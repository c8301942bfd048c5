"""Compare the output of `render` with `plan().body` in several environments, and run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from submit_tf_job.plan import plan
from tests.builders.command_line import Cli, Done
from tests.golden.fixed import HADOOP_CONF, KRB5_CONF, ROOT, SITE, SPECS, STAGING, load

# what `render` reads of the environment
FIXED = {"HADOOP_CONF_DIR": str(HADOOP_CONF), "KRB5_CONFIG": str(KRB5_CONF)}
FIXED |= {"SUBMIT_TF_JOB_USER": SITE.user, "SUBMIT_TF_JOB_STAGING": STAGING}


def render(spec: Path, home: Path, *options: str, **environment: str) -> bytes:
    """Return the output of `render` in a process with only the given environment."""
    env = {"HOME": str(home), "PYTHONPATH": str(ROOT), **FIXED, **environment}
    command = [sys.executable, "-m", "submit_tf_job", "render", str(spec), *options]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_render_prints_the_body(spec: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FIXED.items():
        monkeypatch.setenv(name, value)
    assert cli("render", str(spec)) == Done(0, plan(load(spec), SITE).body, "")


LATIN = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
ENVIRONMENTS = [
    {"PYTHONHASHSEED": "0"},
    {"PYTHONHASHSEED": "4711", "TZ": "Pacific/Kiritimati", "LANG": "tr_TR.UTF-8", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "America/St_Johns", "LC_ALL": "POSIX", **LATIN},
    {"SOURCE_DATE_EPOCH": "0", "COLUMNS": "20", "TERM": "dumb", "PYTHONOPTIMIZE": "2"},
]


@pytest.mark.slow
def test_render_is_equal_in_all_environments(tmp_path: Path) -> None:
    spec = ROOT / "specs/multi-worker.yaml"
    homes = [tmp_path / str(number) / "é" for number in range(len(ENVIRONMENTS))]
    for home in homes:
        home.mkdir(parents=True)
    printed = {
        render(spec, home, **environment)
        for home, environment in zip(homes, ENVIRONMENTS, strict=True)
    }
    assert printed == {plan(load(spec), SITE).body.encode("ascii")}


@pytest.mark.slow
def test_render_with_submission_id(tmp_path: Path) -> None:
    spec = ROOT / "specs/custom.yaml"
    assert render(spec, tmp_path, "--submission-id", "run-7") == plan(
        load(spec), SITE, key="run-7"
    ).body.encode("ascii")
