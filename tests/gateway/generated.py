"""A client that openapi-python-client generates from the gateway's document, and a program that
uses it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
PACKAGE = "tfjobs"
# an environment of its own: the generator needs an older typer than users get
PYTHON = Path(os.environ.get("SUBMIT_TF_JOB_TEST_TOOLS", "run-make-tools")) / "bin/python"
PROGRAM = '''
"""Submit a job and wait for its end."""

import io
import json
import sys
import time
from pathlib import Path

from tfjobs import AuthenticatedClient
from tfjobs.api.jobs import delete_job, describe_job, follow_job, get_job, list_jobs, read_logs, submit_job
from tfjobs.models import (
    Deletion,
    Job,
    JobDescription,
    JobList,
    JobSpec,
    JobState,
    JobWithFiles,
    Problem,
    Submission,
)
from tfjobs.types import File

FINAL = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


def main(url: str, token: str, spec: str, *files: str) -> None:
    """Print how the job ended.

    Args:
        url: The gateway.
        token: Of the caller.
        spec: A job spec, as JSON.
        files: Files that go along.
    """
    client = AuthenticatedClient(url, token=token, raise_on_unexpected_status=True)
    body = JobSpec.from_dict(json.loads(spec))
    for adopted in range(2):
        answer = submit_job.sync(client=client, body=sent(body, files), idempotency_key=body.name)
        assert isinstance(answer, Submission), answer
        assert answer.adopted == bool(adopted)
    job = wait(client, body.name)
    description = describe_job.sync(body.name, client=client)
    assert isinstance(description, JobDescription), description
    jobs = list_jobs.sync(client=client)
    assert isinstance(jobs, JobList), jobs
    logs = read_logs.sync(body.name, client=client, file=["stdout.txt"]) if job.confirmed else ""
    assert isinstance(logs, str), logs
    events = follow_job.sync(body.name, client=client)
    assert isinstance(events, str), events
    deleted = delete_job.sync(body.name, client=client)
    assert isinstance(deleted, Deletion), deleted
    over = get_job.sync(body.name, client=client)  # YARN remembers the application
    assert isinstance(over, Job) and over.state == job.state, over
    missing = get_job.sync("never-used", client=client)
    assert isinstance(missing, Problem), missing
    said = {
        "state": job.state.value,
        "tasks": [task.task for task in description.task_list],
        "listed": [listed.name for listed in jobs.jobs],
        "logs": logs,
        "events": events,
        "deleted": deleted.deleted,
        "missing": missing.code.value,
    }
    print(json.dumps(said))


def sent(body: JobSpec, names: tuple[str, ...]) -> JobSpec | JobWithFiles:
    """Return what is sent: the job spec, with its files where it has some."""
    if not names:
        return body
    files = [File(payload=io.BytesIO(Path(name).read_bytes()), file_name=name) for name in names]
    return JobWithFiles(job=body, files=files)


def wait(client: AuthenticatedClient, name: str) -> Job:
    """Return the job when it is over."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        job = get_job.sync(name, client=client)
        assert isinstance(job, Job), job
        if job.state in FINAL:
            return job
        time.sleep(0.2)
    raise TimeoutError(name)


main(*sys.argv[1:])
'''


def generate(directory: Path) -> str:
    """Generate the client, and return what the generator says on stderr."""
    words = ["--path", str(DOCUMENT), "--meta", "none", "--output-path", str(directory / PACKAGE)]
    done = _python(
        directory, "-m", "openapi_python_client", "generate", *words, "--fail-on-warning"
    )
    (directory / "program.py").write_text(PROGRAM, "utf-8")
    return done.stderr


def check_types(directory: Path) -> str:
    """Run mypy over the program and the client."""
    cache = f"--cache-dir={directory / 'mypy'}"
    words = ["--strict", "--no-error-summary", "--config-file=", cache, "program.py"]
    return _python(directory, "-m", "mypy", *words).stdout


def run(directory: Path, url: str, token: str, spec: dict[str, Any], *files: str) -> dict[str, Any]:
    """Run the program, with names of files in its directory."""
    done = _python(directory, "program.py", url, token, json.dumps(spec), *files)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def read_back(directory: Path, specs: list[Any]) -> list[Any]:
    """Return what the client's model makes of job specs."""
    program = (
        f"import json, sys; from {PACKAGE}.models import JobSpec; "
        "print(json.dumps([JobSpec.from_dict(spec).to_dict() for spec in json.load(sys.stdin)]))"
    )
    said: list[Any] = json.loads(_python(directory, "-c", program, given=json.dumps(specs)).stdout)
    return said


def _python(directory: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    beside = str(PYTHON.parent)  # the generator calls ruff
    environ = {
        **os.environ,
        "PATH": f"{beside}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [str(PYTHON), *words],
        cwd=directory,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done
