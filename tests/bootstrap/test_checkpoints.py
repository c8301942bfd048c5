"""The newest checkpoint of a job, which its deciding task looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container.data.newest_checkpoint import newest
from submit_tf_job.container.data.stores import Disk
from tests.bootstrap.harness import HOLD, WITNESS, Cluster, pair


@pytest.mark.parametrize(
    ("names", "name", "step"),
    [
        ("checkpoint ckpt-9.index ckpt-12.index ckpt-12.data-00000-of-00001", "ckpt-12", 12),
        ("model.ckpt-100.meta model.ckpt-20.meta", "model.ckpt-100", 100),
        ("epoch=3-step=1200.ckpt epoch=4-step=900.ckpt", "epoch=3-step=1200", 1200),
        ("weights.0007.h5 weights.0010.h5", "weights.0010", 10),
        ("checkpoint-500 checkpoint-1000 runs", "checkpoint-1000", 1000),
        ("1000 2000 3000.orbax-checkpoint-tmp-17 .4000 _5000", "2000", 2000),
        ("global_step300", "global_step300", 300),
        ("model.keras", "model", None),
        ("", None, None),
        ("checkpoint", None, None),
    ],
)
def test_newest_checkpoint_by_name(
    tmp_path: Path, names: str, name: str | None, step: int | None
) -> None:
    for file in names.split():
        (tmp_path / file).touch()
    found = newest(Disk(), str(tmp_path))
    assert (found.get("name"), found.get("step")) == (name, step)
    assert (found.get("at") is None) is (name is None)
    assert newest(Disk(), str(tmp_path / "absent")) == {}


def test_newest_checkpoint_beside_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "ckpt-7.index").touch()
    (tmp_path / "latest").symlink_to("gone")
    assert newest(Disk(), str(tmp_path))["step"] == 7


@pytest.mark.parametrize("there", [True, False])
def test_a_restart_says_whether_there_is_a_checkpoint(
    job: Cluster, tmp_path: Path, there: bool
) -> None:
    place = tmp_path / "ckpts"
    place.mkdir()
    roles: dict[str, Any] = {**pair(HOLD), "witness": WITNESS}
    uri = f"file://{place}"
    job.job(roles, retries={"max": 2, "on": ["lost"]}, checkpoints=uri, checkpoints_s=0.2)
    job.start()
    job.printed("worker-0", "generation 0")
    if there:
        (place / "ckpt-7.index").touch()
        job.until(lambda: (job.report().get("checkpoint") or {}).get("step") == 7)
    job.replace("worker-0")
    job.printed("chief-0", "generation 1")
    if there:
        said = f"the newest checkpoint at {uri} is ckpt-7"
        job.until(lambda: said in str(job.report()["events"]))
    else:
        said = f"no checkpoint is at {uri}: the training begins from nothing"
        job.until(lambda: said in job.report()["warnings"])
    job.succeeds()
    assert bool([text for text in job.report()["warnings"] if "begins" in text]) is not there
