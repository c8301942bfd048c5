"""`submit` as a process refuses what a cluster does not have, before it posts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.served import served_cluster, submit_tf_job

SPEC = """\
name: mnist
image: library/tf:2
strategy: custom
deciding_role: worker
roles:
  worker: {memory: 1Gi, command: [a]}
  helper: {memory: 1Gi, command: [a], EXTRA}
"""


@pytest.mark.parametrize(
    ("extra", "where", "sentence"),
    [
        (
            "placement: {node_label: fast}",
            "7:51",
            "no node is labelled fast; no node has a label\n  hint: correct node_label, or have an "
            "administrator label nodes; if the cluster adds nodes",
        ),
        (
            "gpus: 1, gpu_resource: amd.com/gpu",
            "7:48",
            "this cluster offers no amd.com/gpu; leave gpus out, or set gpu_resource",
        ),
    ],
    ids=["label", "gpu"],
)
def test_submit_refuses_what_no_node_has(
    tmp_path: Path, extra: str, where: str, sentence: str
) -> None:
    (tmp_path / "train.yaml").write_text(SPEC.replace("EXTRA", extra))
    with served_cluster() as served:
        done = submit_tf_job(tmp_path, served, "submit", "train.yaml", "--detach")
        asked = [(method, path) for _, method, path in served.asked]
    assert done.returncode == 9, done
    assert f"train.yaml:{where}: roles.helper." in done.stderr, done.stderr
    assert sentence in done.stderr, done.stderr
    assert ("POST", "/app/v1/services") not in asked
