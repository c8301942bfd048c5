"""One failure has one cause, with the same evidence, at every door."""

from __future__ import annotations

import base64
import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.gateway.callers import line_of
from submit_tf_job.sdk import callee
from tests.scenarios.conftest import ME
from tests.world import RM, World
from tests.world.gateway import World as GatewayWorld
from tests.world.transport import remote_exception

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

    def __init__(self, world: World, printed: str, status: int, *, reason: str = "exited") -> None:
        self.world, self.printed, self.status, self.reason = world, printed, status, reason
        self.spec = world.spec(
            strategy="single",
            roles={"worker": {"memory": "1Gi"}},
            command=[
                "python3",
                "-c",
                f"import sys; sys.stderr.write({printed!r}); sys.exit({status})",
            ],
        )

    def ends(self, **files: str) -> None:
        """Let the run that lives fail; its task has written these files, too."""
        world = self.world
        world.of_the_live_one()
        world.hdfs(ME)
        container = world.runs("worker-0")["worker-0"]
        failure = {"task": "worker-0", "status": self.status, "reason": self.reason}
        failure |= {"host": "node1"}
        failure |= {"container": container, "message": f"worker-0 exited with status {self.status}"}
        for file, text in {"stderr.txt": self.printed, **files}.items():
            world.writes(container, file, text)
        task = {"task": "worker-0", "state": "failed", "container": container, "host": "node1"}
        told: dict[str, Any] = {"outcome": {"status": self.status}, "tasks": [task], "wanted": 1}
        world.reports(container, "failed", first_failure=failure, **told)
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

    def followed(self) -> submit_tf_job.Status:
        *_before, ended = self.handle().events()
        assert isinstance(ended, submit_tf_job.Status)
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


@pytest.fixture
def found(kept: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event until which no log is read within the time limit of a cause."""
    event = threading.Event()

    def read_log(*arguments: Any, **options: Any) -> str:
        if event.is_set():
            return str(end_of_log(*arguments, **options))
        kept.passes(why.CAUSE_WITHIN_S + 1)
        event.wait(60)
        return ""

    why: Any = sys.modules["submit_tf_job.operations.why"]
    end_of_log = why.end_of_log
    monkeypatch.setattr(why, "end_of_log", read_log)
    yield event
    event.set()


def test_a_cause_that_is_found_late_is_added_to_the_record(
    kept: World, found: threading.Event
) -> None:
    printed, status, code, _certain = FAILURES["module"]
    job = Failed(kept, printed, status)
    kept.cluster.clock.after(5, job.ends)
    told = kept("submit", job.spec, "-o", "json").json
    assert (told["state"], told["root_cause"]) == ("FAILED", None)
    assert DOORS["history"](job) is None, "the record has the end without a cause"
    found.set()
    cause = DOORS["status"](job)
    assert cause["code"] == code
    assert DOORS["history"](job) == {key: cause[key] for key in KEPT}
    job.printed_json("wait", "mnist")
    assert DOORS["history"](job) == {key: cause[key] for key in KEPT}


def test_a_cause_that_the_report_alone_tells_is_told_also_where_no_log_is_read_in_time(
    kept: World, found: threading.Event
) -> None:
    """So that no scheduler tries again in vain."""
    assert not found.is_set()
    job = Failed(kept, "bash: trian: command not found", 127, reason="command-not-found")
    kept.cluster.clock.after(5, job.ends)
    told = kept("submit", job.spec, "-o", "json").json["root_cause"]
    assert (told["code"], told["certain"], told["retryable"]) == ("command-not-found", True, False)


def test_a_function_s_value_is_returned_also_if_its_run_cannot_be_deleted(
    kept: World, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"name": "mnist", "image": "i", "roles": {"worker": {"memory": "1Gi"}}}
    submit_tf_job.start(len, ("a",), job=spec, client=submit_tf_job.Client(resource_managers=[RM]))
    kept.of_the_live_one()
    kept.hdfs(ME)
    client = submit_tf_job.Client(resource_managers=[RM])  # which knows hadoop_conf
    call = submit_tf_job.start(len, ("a",), job=spec, client=client)
    container = kept.runs("worker-0")["worker-0"]
    left = (callee.VALUE, pickle.dumps(1), "")
    kept.writes(container, callee.RESULT_FILE, base64.b64encode(pickle.dumps(left)).decode())
    task = {"task": "worker-0", "state": "succeeded", "container": container, "host": "node1"}
    kept.reports(container, "succeeded", outcome={"status": 0}, tasks=[task], wanted=1)
    kept.ends()
    kept.collects()
    (kept.home / "logs/alice").rename(kept.home / "logs" / ME)
    kept.fails(9, "DELETE", "/services/", remote_exception("AuthorizationException", "no", 403))
    assert call.result() == 1
    run = call.handle.run
    assert f"{run} was not deleted: " in capsys.readouterr().err
    assert client.attach(run).run == run


class Unlucky(Exception):
    """What a user's function raises."""


def test_a_function_s_exception_is_raised_also_if_no_cause_is_found_in_time(
    kept: World, found: threading.Event
) -> None:
    client = submit_tf_job.Client(resource_managers=[RM])
    spec = {"name": "mnist", "image": "i", "roles": {"worker": {"memory": "1Gi"}}}
    submit_tf_job.start(len, ("a",), job=spec, client=client)
    kept.of_the_live_one()
    kept.hdfs(ME)
    client = submit_tf_job.Client(resource_managers=[RM])  # which knows hadoop_conf
    call = submit_tf_job.start(len, ("a",), job=spec, client=client)
    left = (callee.ERROR, pickle.dumps(Unlucky("1 is too much")), f"{RAISED}Unlucky: 1 is too much")
    result = base64.b64encode(pickle.dumps(left)).decode()
    Failed(kept, f"{RAISED}Unlucky: 1 is too much\n", 1).ends(**{callee.RESULT_FILE: result})
    kept.collects()
    (kept.home / "logs/alice").rename(kept.home / "logs" / ME)
    with pytest.raises(Unlucky, match="1 is too much") as raised:
        call.result()
    assert "in task worker-0:" in str(raised.value.__cause__)
    if sys.version_info >= (3, 11):
        [note] = raised.value.__notes__
        assert note.startswith("mnist failed: worker-0 exited with status 1\n")
