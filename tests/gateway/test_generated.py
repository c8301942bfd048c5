"""What a client that is generated from the OpenAPI document can do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.gateway import generated
from tests.gateway.conftest import JOB, TOKEN, Process
from tests.world.served import Served

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
    made = Process(tmp_path, *options)
    yield made
    made.end()


def node(directory: Path, *words: str) -> str:
    done = subprocess.run(
        ["npx", "--no-install", *words], cwd=directory, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two generated TypeScript clients and a type-checked program for each."""
    made = tmp_path_factory.mktemp("typescript")
    shutil.copytree(Path(__file__).parent / "typescript", made, dirs_exist_ok=True)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=made, check=True, timeout=300)
    node(made, "openapi-typescript", str(generated.DOCUMENT), "-o", "schema.d.ts")
    node(made, "openapi-ts", "-i", str(generated.DOCUMENT), "-o", "client")
    options = "--strict --noEmit --skipLibCheck --target es2022 --module preserve"
    types = "--moduleResolution bundler --types node openapi_fetch.ts openapi_ts.ts"
    node(made, "tsc", *options.split(), *types.split())
    return made


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


@pytest.mark.long  # npm installs 60 MB of packages
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize("program", ["openapi_fetch", "openapi_ts"])
def test_typescript_client_submits(
    typescript: Path, gateway: Process, cluster: Served, program: str
) -> None:
    spec = json.dumps({**JOB, "name": program.replace("_", "-")})
    said = node(typescript, "tsx", f"{program}.ts", gateway.url, TOKEN, spec)
    assert json.loads(said) == {"status": 201, "job": program.replace("_", "-"), "listed": 1}


def test_generated_job_spec_keeps_every_key(client: Path) -> None:
    files = (ROOT / "specs").glob("**/*.yaml")
    specs = [spec for file in files if "roles" in (spec := yaml.safe_load(file.read_text("utf-8")))]
    assert len(specs) >= 10
    assert generated.read_back(client, specs) == specs
