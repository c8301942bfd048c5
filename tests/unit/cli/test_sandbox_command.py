"""`sandbox up` refuses what it cannot start, before it starts anything. What it starts is tested on
the real thing: tests/cluster/test_sandbox.py.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.builders.command_line import Cli
from tests.builders.sandbox import state_of

USAGE, FAILED = 2, 1


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--profile", "kerberos+knox"), USAGE, "not 'knox'"),
        (("--profile", "simple+ha"), USAGE, "--profile simple means without the others"),
        (("--profile", "Kerberos"), USAGE, "not 'Kerberos'"),
        (("--name", "../x"), FAILED, "'../x'"),
        (("--nodes", "9"), USAGE, "--nodes"),
        (("--nodes", "2", "--profile", "kerberos"), FAILED, "cannot be combined with Kerberos"),
        (("--memory", "64"), USAGE, "--memory: "),
        (("--memory", "2048Ti"), USAGE, "less than 2048Ti"),
        (("--cpus", "0"), USAGE, "--cpus"),
        (("--gpus", "2"), FAILED, "with Docker only"),
        (("--mount", "/data", "--profile", "ha"), FAILED, "with Docker only"),
        (("--container-executor", "/x"), FAILED, "with Docker only"),
        (("--container-path", "/nowhere/bin"), FAILED, "/nowhere/bin, which is to be on the PATH"),
        (("--profile", "docker", "--container-path", "/venv"), FAILED, "PATH is their image's"),
        (("--profile", "docker", "--resolver", "direct"), FAILED, "containers' own resolver"),
        (("--profile", "docker", "--hadoop", "3.3.5"), FAILED, "only with Hadoop 3.4.2"),
        (("--profile", "docker", "--mount", "data"), FAILED, "'data' is nothing to mount"),
        (("--profile", "docker", "--mount", "/nowhere/at/all"), FAILED, "does not exist"),
        (("--hadoop", "2.10.2"), FAILED, "2.10.2"),
        (("--hadoop-home", "/nowhere/hadoop"), FAILED, "/nowhere/hadoop"),
    ],
)
def test_sandbox_up_refuses_what_it_cannot_start(
    cli: Cli, home: Path, options: tuple[str, ...], status: int, words: str
) -> None:
    done = cli("sandbox", "up", *options)
    assert done.status == status, done
    assert words in done.err
    assert done.out == ""
    assert not list(home.glob(".local/state/submit_tf_job/sandbox/*/state.json"))


@pytest.mark.parametrize(
    ("programs", "words"), [((), "openjdk"), (("java",), "maven")], ids=["no java", "no maven"]
)
def test_sandbox_up_names_the_package_of_a_missing_program(
    cli: Cli,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
    words: str,
) -> None:
    (home / "bin").mkdir()
    for name in programs:
        program = home / "bin" / name
        program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    done = cli("sandbox", "up")
    assert done.status == FAILED, done
    assert words in done.err.lower(), done.err


def test_sandbox_verbs_without_a_sandbox(cli: Cli, home: Path) -> None:
    # its state was removed by hand
    profile = home / ".config/submit_tf_job/profiles.d/sandbox.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("resource_managers: [http://localhost:1]\n")
    assert cli("sandbox", "status").status == FAILED
    assert cli("sandbox", "logs", "nodemanager").status == FAILED
    assert cli("sandbox", "down").status == 0
    assert not profile.exists()


def test_sandbox_up_with_kerberos_refuses_an_unpacked_hadoop_that_is_too_old(
    cli: Cli, tmp_path: Path
) -> None:
    common = tmp_path / "share/hadoop/common"
    common.mkdir(parents=True)
    (common / "hadoop-common-3.2.4.jar").touch()
    done = cli("sandbox", "up", "--profile", "kerberos", "--hadoop-home", str(tmp_path))
    assert done.status == FAILED, done
    assert "with Kerberos cannot be had of Hadoop 3.2.4" in done.err


def test_sandbox_up_refuses_other_options_than_those_of_a_sandbox_that_is_down(
    cli: Cli, home: Path
) -> None:
    kept = home / ".local/state/submit_tf_job/sandbox/default"
    kept.mkdir(parents=True)
    state = asdict(state_of(name="default", home=str(kept), ready=True))
    (kept / "state.json").write_text(json.dumps({"format": 2, **state}))
    done = cli("sandbox", "up", "--profile", "kerberos")
    assert done.status == FAILED, done
    assert "the sandbox default was made with the profile simple, not kerberos" in done.err
    assert (kept / "state.json").exists()
