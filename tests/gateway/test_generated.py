"""Clients that are generated from the OpenAPI document: by openapi-python-client, and two of
TypeScript.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.gateway.conftest import JOB, TOKEN, Process
from tests.world.served import Served

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/openapi.json"
# an environment of its own: the generator needs an older typer than users get
PYTHON = Path(os.environ.get("SUBMIT_TF_JOB_TEST_TOOLS", "run-make-tools")) / "bin/python"
pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the generator's releases for Python 3.10 are older"
)
NPX = ("npx", "--no-install")
PROGRAM = """
import io, json, sys, time
from pathlib import Path

from tfjobs import AuthenticatedClient
from tfjobs.api.jobs import delete_job, describe_job, follow_job, get_job, list_jobs, submit_job
from tfjobs.models import Deletion, Job, JobDescription, JobList, JobSpec, JobState, JobWithFiles
from tfjobs.models import Problem, Submission
from tfjobs.types import File

FINAL = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


def main(url: str, token: str, spec: str, *names: str) -> None:
    client = AuthenticatedClient(url, token=token, raise_on_unexpected_status=True)
    body = JobSpec.from_dict(json.loads(spec))
    files = [File(payload=io.BytesIO(Path(name).read_bytes()), file_name=name) for name in names]
    sent = JobWithFiles(job=body, files=files) if files else body
    for adopted in range(2):
        answer = submit_job.sync(client=client, body=sent, idempotency_key=body.name)
        assert isinstance(answer, Submission) and answer.adopted == bool(adopted), answer
    job = wait(client, body.name)
    description = describe_job.sync(body.name, client=client)
    assert isinstance(description, JobDescription), description
    jobs = list_jobs.sync(client=client)
    assert isinstance(jobs, JobList) and body.name in [one.name for one in jobs.jobs], jobs
    events = follow_job.sync(body.name, client=client)
    assert isinstance(events, str) and \'"state": "SUCCEEDED"\' in events, events
    deleted = delete_job.sync(body.name, client=client)
    assert isinstance(deleted, Deletion) and deleted.deleted, deleted
    missing = get_job.sync("never-used", client=client)
    assert isinstance(missing, Problem) and missing.code.value == "no-such-job", missing
    print(job.state.value)


def wait(client: AuthenticatedClient, name: str) -> Job:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        job = get_job.sync(name, client=client)
        assert isinstance(job, Job), job
        if job.state in FINAL:
            return job
        time.sleep(0.2)
    raise TimeoutError(name)


main(*sys.argv[1:])
"""


def run(
    directory: Path, *words: object, given: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    argv = [str(word) for word in words]
    done = subprocess.run(
        argv,
        cwd=directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environ},
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the generated client; the generator calls ruff."""
    made = tmp_path_factory.mktemp("client")
    words = ("--meta", "none", "--output-path", made / "tfjobs", "--fail-on-warning")
    generate = (PYTHON, "-m", "openapi_python_client", "generate", "--path", DOCUMENT, *words)
    done = run(made, *generate, PATH=f"{PYTHON.parent}:{os.environ['PATH']}")
    assert done.stderr == "", "the generator warns"
    (made / "program.py").write_text(PROGRAM, "utf-8")
    return made


@pytest.fixture
def gateway(gateway: Process, cluster: Served) -> Process:
    cluster.cluster.yarn.site.job_s = (5, 5)
    return gateway


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two generated TypeScript clients and a type-checked program for each."""
    made = tmp_path_factory.mktemp("typescript")
    shutil.copytree(Path(__file__).parent / "typescript", made, dirs_exist_ok=True)
    run(made, "npm", "install", "--no-audit", "--no-fund")
    run(made, *NPX, "openapi-typescript", DOCUMENT, "-o", "schema.d.ts")
    run(made, *NPX, "openapi-ts", "-i", DOCUMENT, "-o", "client")
    options = "--strict --noEmit --skipLibCheck --target es2022 --module preserve"
    types = "--moduleResolution bundler --types node openapi_fetch.ts openapi_ts.ts"
    run(made, *NPX, "tsc", *options.split(), *types.split())
    return made


def test_generated_client_has_types(client: Path) -> None:
    cache = f"--cache-dir={client / 'mypy'}"
    words = ("--strict", "--no-error-summary", "--config-file=", cache, "program.py")
    assert run(client, PYTHON, "-m", "mypy", *words).stdout == ""


@pytest.mark.parametrize("files", [[], ["train.py"]])
def test_generated_client_submits_waits(client: Path, gateway: Process, files: list[str]) -> None:
    (client / "train.py").write_text("print('trained')")
    spec = {**JOB, "name": f"generated-{len(files)}", "files": files}
    words = ("program.py", gateway.url, TOKEN, json.dumps(spec), *files)
    assert run(client, PYTHON, *words).stdout == "SUCCEEDED\n"


@pytest.mark.long  # npm installs 60 MB of packages
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize("program", ["openapi_fetch", "openapi_ts"])
def test_typescript_client_submits(typescript: Path, gateway: Process, program: str) -> None:
    spec = json.dumps({**JOB, "name": program.replace("_", "-")})
    done = run(typescript, *NPX, "tsx", f"{program}.ts", gateway.url, TOKEN, spec)
    told = {"status": 201, "job": program.replace("_", "-"), "listed": 1}
    assert json.loads(done.stdout) == told


def test_generated_job_spec_keeps_every_key(client: Path) -> None:
    files = (ROOT / "specs").glob("**/*.yaml")
    specs = [spec for file in files if "roles" in (spec := yaml.safe_load(file.read_text("utf-8")))]
    assert len(specs) >= 10
    code = (
        "import json, sys; from tfjobs.models import JobSpec; "
        "print(json.dumps([JobSpec.from_dict(spec).to_dict() for spec in json.load(sys.stdin)]))"
    )
    assert json.loads(run(client, PYTHON, "-c", code, given=json.dumps(specs)).stdout) == specs
