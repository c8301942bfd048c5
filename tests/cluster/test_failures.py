"""Programs of the corpus (tests/failures) as jobs on a real YARN: the causes are those that `make unit`
reads from what they left.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import clusters
from tests.clusters import Cluster
from tests.failures.cases import Case, cases, judged
from tests.tool import Result, Tool

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NAMES = (
    "argparse-unknown",
    "bash-syntax",
    "below-make",
    "chained-from",
    "exception-group",
    "json-logs",
    "open-missing",
    "silent",
    "survived-then-status",
    "thread-died",
    "to-stdout",
)
AT_ONCE = 4  # jobs: the machine has two cores, and each ApplicationMaster is a Java of its own
CHOSEN = {case.name: case for case in cases() if case.name in NAMES}


def command_of(case: Case) -> str:
    """Return a case's command, for which this Python is the first on the PATH."""
    command = case.fields.get("run", "python train.py")
    return f"export PATH={Path(sys.executable).parent}:$PATH; {command}"


@pytest.fixture(scope="module")
def outcomes(
    real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Result]]]:
    """Run each program once as a job, some at once."""
    tool = Tool(clusters.environment(), real_cluster.profile, tmp_path_factory.mktemp("failures"))

    def run(case: Case) -> Result:
        folder = tool.cwd / case.name
        for name, text in case.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        roles = {
            "worker": {
                "memory": "256Mi",
                "env": dict(item.split("=", 1) for item in case.listed("env")),
            }
        }
        files = [f"{case.name}/{name}" for name in case.files]
        sent = [{"src": file, "dst": file.partition("/")[2]} for file in files]
        spec = tool.spec(
            f"fails-{case.name}",
            command=command_of(case),
            strategy="single",
            roles=roles,
            files=sent,
        )
        return tool("submit", spec, "-o", "json")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(run, case) for name, case in CHOSEN.items()}
        list(pool.map(lambda job: tool("delete", job, "--force"), tool.jobs))


@pytest.mark.parametrize("name", NAMES)
def test_cause_of_a_program_of_the_corpus(outcomes: dict[str, Future[Result]], name: str) -> None:
    done = outcomes[name].result()
    assert done.status == 1, done.stderr
    cause = done.json["root_cause"]
    assert cause is not None, done.stdout
    faults, _ = judged(CHOSEN[name], cause)
    assert not faults, cause
    assert (cause["task"], cause["host"]) == ("worker-0", "localhost")
