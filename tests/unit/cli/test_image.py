"""image check of a job spec: every image once, with its role's interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job.doctor.findings import Examination
from tests.builders.command_line import Cli

TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Chief: &chief
      replicas: 1
      template: {spec: {containers: [&c {name: tensorflow, image: "tf:2.15", command: [python], resources: {limits: {memory: 2Gi}}}]}}
    Worker: *chief
    PS: {replicas: 1, template: {spec: {containers: [{<<: *c, image: "tf:ps"}]}}}
"""
OWN = """
name: own
image: a:1
strategy: custom
command: [python, t.py]
python: /opt/bin/python
roles:
  worker: {memory: 1Gi}
  plain: {memory: 1Gi, image: none}
"""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    def check(_settings: object, image: str, *, python: str) -> Examination:
        seen.append((image, python))
        return Examination((), ())

    monkeypatch.setattr("submit_tf_job.doctor.images.check_image", check)
    return seen


def test_every_image_of_a_tfjob_is_checked_once(
    cli: Cli, home: Path, checked: list[tuple[str, str]]
) -> None:
    (home / "tfjob.json").write_text(json.dumps(yaml.safe_load(TFJOB)))
    done = cli("image", "check", "--file", "tfjob.json", "-o", "json")
    assert done.status == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert (found["kind"], found["ok"]) == ("Images", True)
    assert [image["image"] for image in found["images"]] == ["tf:2.15", "tf:ps"]
    assert checked == [("tf:2.15", "python3"), ("tf:ps", "python3")]


@pytest.mark.parametrize(
    ("options", "python"), [((), "/opt/bin/python"), (("--python", "python3.9"), "python3.9")]
)
def test_the_interpreter_is_the_roles_own(
    cli: Cli, home: Path, checked: list[tuple[str, str]], options: tuple[str, ...], python: str
) -> None:
    (home / "own.yaml").write_text(OWN)
    done = cli("image", "check", "-f", "own.yaml", *options)
    assert (done.status, done.out.splitlines()[0]) == (0, "a:1")
    assert checked == [("a:1", python)]
