"""A job that asks for more than the settings allow one job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.operations.site_facts import site_of
from submit_tf_job.plan import Site, plan
from submit_tf_job.plan.site import Cap
from submit_tf_job.settings import Settings, load_settings

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


def settings(tmp_path: Path, text: str) -> Settings:
    where = tmp_path / ".config" / "submit_tf_job"
    where.mkdir(parents=True)
    (where / "settings.yaml").write_text(text)
    home = {"HOME": str(tmp_path)}
    return load_settings(arguments={"user": "alice"}, environ=home, cwd=Path("/"))


def refused(spec: str, site: Site) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        plan(loads(spec, source="train.yaml", base=None), site)
    return [str(problem) for problem in caught.value.problems]


def test_every_cap_is_refused_at_its_line_with_who_set_it(tmp_path: Path) -> None:
    text = "caps: {tasks: 6, gpus: 4, memory: 64Gi, lifetime: 2d}\n"
    found = settings(tmp_path, text)
    file = f"{tmp_path}/.config/submit_tf_job/settings.yaml:1"
    assert refused(SPEC, site_of(found)) == [
        f"train.yaml:1:1: lifetime: missing; caps.lifetime allows 2d (set by {file}:41); say "
        f"lifetime: 2d, or less",
        f"train.yaml:8:5: roles.worker.instances: all tasks of the job together ask for 7 tasks, "
        f"and caps.tasks allows 6 tasks (set by {file}:8)",
        f"train.yaml:9:5: roles.worker.gpus: all tasks of the job together ask for 8 GPUs, and "
        f"caps.gpus allows 4 GPUs (set by {file}:18)",
        f"train.yaml:10:5: roles.worker.memory: all tasks of the job together ask for 65Gi, and "
        f"caps.memory allows 64Gi (set by {file}:27)",
    ]


def test_a_job_at_its_caps_is_planned() -> None:
    caps = (
        Cap("tasks", 7, "s"),
        Cap("gpus", 8, "s"),
        Cap("memory", 65 * 1024, "s"),
        Cap("lifetime", 7200, "s"),
    )
    site = replace(Site("alice", domain="example.com"), caps=caps)
    planned = plan(loads(SPEC + "lifetime: 2h\n", source="t.yaml", base=None), site)
    without = plan(planned.job, replace(site, caps=()))
    assert planned.body == without.body
    assert refused(SPEC + "lifetime: 2h1s\n", site) == [
        "train.yaml:12:1: lifetime: 7201s is more than a job may have: caps.lifetime allows 2h "
        "(set by s)"
    ]


def test_no_gpus_may_be_allowed(tmp_path: Path) -> None:
    found = settings(tmp_path, "caps: {gpus: 0}\n")
    assert found.caps.gpus == 0
    assert "caps.gpus allows 0 GPUs" in refused(SPEC, site_of(found))[0]
