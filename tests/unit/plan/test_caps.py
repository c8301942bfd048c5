"""A job that asks for more than the settings allow one job."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.command_line import Cli

SPEC = """\
name: t
image: library/tf:2
command: x
strategy: parameter-server
roles:
  chief: {memory: 1Gi}
  worker:
    instances: 4
    gpus: 2
    memory: 8Gi
  ps: {instances: 2, memory: 16Gi}
"""


def refused(cli: Cli, home: Path, caps: str, spec: str = SPEC) -> list[str]:
    """Return the problems of a job spec under these caps; empty for a job that is planned."""
    where = home / ".config" / "submit_tf_job"
    where.mkdir(parents=True, exist_ok=True)
    (where / "settings.yaml").write_text(f"caps: {{{caps}}}\ndns.domain: example.com\n")
    (home / "train.yaml").write_text(spec)
    done = cli("render", "train.yaml")
    assert done.status == (2 if done.err else 0), done
    return done.err.replace(str(where), "CONFIG").splitlines()


def test_every_cap_is_refused_at_its_line_with_who_set_it(cli: Cli, home: Path) -> None:
    file = "CONFIG/settings.yaml:1"
    told = refused(cli, home, "tasks: 6, gpus: 4, memory: 64Gi, lifetime: 2d")
    assert told[:4] == [
        f"train.yaml:1:1: lifetime: missing; caps.lifetime allows 2d (set by {file}:41); say "
        f"lifetime: 2d, or less",
        f"train.yaml:8:5: roles.worker.instances: all tasks of the job together ask for 7 tasks, "
        f"and caps.tasks allows 6 tasks (set by {file}:8)",
        f"train.yaml:9:5: roles.worker.gpus: all tasks of the job together ask for 8 GPUs, and "
        f"caps.gpus allows 4 GPUs (set by {file}:18)",
        f"train.yaml:10:5: roles.worker.memory: all tasks of the job together ask for 65Gi, and "
        f"caps.memory allows 64Gi (set by {file}:27)",
    ]


def test_a_job_at_its_caps_is_planned(cli: Cli, home: Path) -> None:
    caps = "tasks: 7, gpus: 8, memory: 65Gi, lifetime: 2h"
    assert refused(cli, home, caps, SPEC + "lifetime: 2h\n") == []
    [told, *_] = refused(cli, home, caps, SPEC + "lifetime: 2h1s\n")
    assert told.startswith(
        "train.yaml:12:1: lifetime: 7201s is more than a job may have: caps.lifetime allows 2h "
    )
    assert "caps.gpus allows 0 GPUs" in refused(cli, home, "gpus: 0")[0]
