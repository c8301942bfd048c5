"""One failure has one cause, with the same evidence, at every door."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.gateway.callers import line_of
from submit_tf_job.sdk.events import Status
from tests.scenarios.conftest import ME
from tests.world import RM, World
from tests.world.gateway import World as GatewayWorld

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    f()\n'
# what the program wrote, its exit status; the code of its cause, and whether it is certain
FAILURES: dict[str, tuple[str, int, str, bool]] = {
    "module": (
        f"{RAISED}ModuleNotFoundError: No module named 'wisdom'\n",
        1,
        "module-missing",
        True,
    ),
    "words": ("label 7 is out of range\n", 3, "exited", False),
    "exception": (f"{RAISED}ValueError: row 17 has no label\n", 1, "python-exception", True),
}
KEPT = ("code", "task", "sentence", "hint", "retryable", "certain", "exception", "evidence")


class Failed:
    """A job whose one task has failed, as each door shows it."""

    def __init__(self, world: World, printed: str, status: int) -> None:
        self.world, self.printed, self.status = world, printed, status
        self.spec = world.spec(
            strategy="single",
            roles={"worker": {"memory": "1Gi"}},
            command=[
                "python3",
                "-c",
                f"import sys; sys.stderr.write({printed!r}); sys.exit({status})",
            ],
        )

    def ends(self) -> None:
        """Let the run that lives fail."""
        world = self.world
        world.of_the_live_one()
        world.hdfs(ME)
        container = world.runs("worker-0")["worker-0"]
        failure = {"task": "worker-0", "status": self.status, "reason": "exited", "host": "node1"}
        failure |= {"container": container, "message": f"worker-0 exited with status {self.status}"}
        world.writes(container, "stderr.txt", self.printed)
        world.reports(
            container, "failed", first_failure=failure, outcome={"status": self.status}, wanted=1
        )
        world.ends("FAILED")

    def printed_json(self, *words: object) -> Any:
        done = self.world(*words, "-o", "json")
        return json.loads(done.out.splitlines()[-1] if done.out[:2] == '{"' else done.out)

    def raised(self) -> Mapping[str, Any]:
        error = self.followed().error
        assert isinstance(error, submit_tf_job.JobFailed)
        cause: Any = error.details["root_cause"]
        assert (error.hint, error.retryable) == (cause["hint"], cause["retryable"])
        assert cause["sentence"] in error.message
        told: Mapping[str, Any] = cause
        return told

    def followed(self) -> Status:
        *_before, ended = self.handle().events()
        assert isinstance(ended, Status)
        return ended

    def handle(self) -> submit_tf_job.JobHandle:
        return submit_tf_job.Client(resource_managers=[RM]).attach("mnist")

    def sent(self, path: Path) -> Any:
        """Return what the gateway sends, which the page shows."""
        gateway = GatewayWorld(path, fake=self.world.cluster)
        gateway.fake.yarn.site.users |= {ME}
        gateway.tokens[ME] = "token-of-me"
        gateway.file.write_text(line_of(ME, "token-of-me") + "\n")
        return gateway.ask("GET", "/v1/jobs/mnist", ME).json()


DOORS: dict[str, Callable[[Failed], Any]] = {
    "status": lambda job: job.printed_json("status", "mnist")["root_cause"],
    "describe": lambda job: job.printed_json("describe", "mnist")["root_cause"],
    "why": lambda job: job.printed_json("why", "mnist")["root_cause"],
    "wait": lambda job: job.printed_json("wait", "mnist")["root_cause"],
    "history": lambda job: job.printed_json("history", "mnist")["runs"][0]["end"]["root_cause"],
    "events": lambda job: job.followed().to_json()["root_cause"],
    "exception": lambda job: job.raised(),
    "gateway": lambda job: job.sent(job.world.home)["root_cause"],
}
TEXTS = ("status", "describe", "why", "wait")


@pytest.mark.parametrize("name", FAILURES)
def test_one_failure_has_the_same_cause_at_each_door(kept: World, name: str) -> None:
    printed, status, code, certain = FAILURES[name]
    job = Failed(kept, printed, status)
    kept.cluster.clock.after(5, job.ends)
    followed = kept("submit", job.spec)
    assert followed.status == 1, followed
    first = DOORS["status"](job)
    assert (first["code"], first["certain"], first["task"]) == (code, certain, "worker-0")
    assert first["evidence"]["lines"], first
    for door, ask in DOORS.items():
        told = ask(job)
        assert {key: told[key] for key in KEPT} == {key: first[key] for key in KEPT}, door
    for text in (followed, *(kept(verb, "mnist") for verb in TEXTS)):
        assert f"first cause  {first['sentence']}" in text.out + text.err, text
    assert first["sentence"] in str(job.followed())
    assert first["sentence"][:40] in kept("history", "mnist").out


class Shown:
    """What a notebook's cell shows."""

    def __init__(self) -> None:
        self.text = ""

    def display(self, bundle: Mapping[str, str], **_options: Any) -> Shown:
        self.update(bundle)
        return self

    def update(self, bundle: Mapping[str, str], **_options: Any) -> None:
        self.text = bundle["text/plain"]


def test_notebook_shows_the_cause(kept: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job, cell = Failed(kept, *FAILURES["module"][:2]), Shown()
    kept.cluster.clock.after(5, job.ends)
    kept("submit", job.spec)
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    monkeypatch.setattr("submit_tf_job.sdk.notebook.in_notebook", lambda: True)
    job.handle().watch()
    assert DOORS["status"](job)["sentence"] in cell.text


@pytest.mark.parametrize("name", FAILURES)
def test_local_tells_the_cause_that_a_cluster_tells(kept: World, name: str) -> None:
    printed, status, *_told = FAILURES[name]
    job = Failed(kept, printed, status)
    kept.cluster.clock.after(5, job.ends)
    kept("submit", job.spec)
    first = DOORS["status"](job)
    done = kept._cli("local", str(job.spec))
    assert first["sentence"] in done.out + done.err, done
