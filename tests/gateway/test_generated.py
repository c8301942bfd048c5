"""What a client that is generated from the OpenAPI document can do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fakes.served import Served
from tests.gateway import generated
from tests.gateway.conftest import JOB, TOKEN, Process

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the generator's releases for Python 3.10 are older"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the generated client."""
    made = tmp_path_factory.mktemp("client")
    assert generated.generate(made) == "", "the generator warns"
    return made


@pytest.fixture
def gateway(tmp_path: Path, options: list[str]) -> Iterator[Process]:
    """A gateway without webhooks."""
    made = Process(tmp_path, *options[:6])
    yield made
    made.end()


def test_generated_client_has_types(client: Path) -> None:
    assert generated.check_types(client) == ""


def test_generated_client_submits_and_waits(
    client: Path, gateway: Process, cluster: Served
) -> None:
    cluster.cluster.yarn.job_s = 5
    said = generated.run(client, gateway.url, TOKEN, {**JOB, "name": "generated"})
    assert (said["state"], said["deleted"], said["missing"]) == ("SUCCEEDED", True, "no-such-job")
    assert "generated" in said["listed"]
    assert '"state": "SUCCEEDED"' in said["events"]


def test_generated_client_sends_files(client: Path, gateway: Process, cluster: Served) -> None:
    cluster.cluster.yarn.job_s = 5
    (client / "train.py").write_text("print('trained')")
    spec = {**JOB, "name": "with-files", "files": ["train.py"]}
    assert generated.run(client, gateway.url, TOKEN, spec, "train.py")["state"] == "SUCCEEDED"


def test_generated_job_spec_keeps_every_key(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(client))
    models = importlib.import_module(f"{generated.PACKAGE}.models")
    try:
        files = [
            *ROOT.glob("specs/**/*.yaml"),
            *ROOT.glob("submit_tf_job/specfile/examples/*.yaml"),
        ]
        specs = [
            spec for file in files if "roles" in (spec := yaml.safe_load(file.read_text("utf-8")))
        ]
        assert len(specs) >= 10
        for spec in specs:
            assert models.JobSpec.from_dict(spec).to_dict() == spec
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == generated.PACKAGE]:
            del sys.modules[name]
