"""`why`: what is new since a run of the job succeeded, by records and collected logs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from tests.json_page import documented, produced
from tests.scenarios.conftest import ME
from tests.world import RM, World

ROLES: dict[str, dict[str, Any]] = {
    "chief": {"memory": "1Gi"},
    "worker": {"memory": "1Gi", "instances": 2},
}
COMMAND = ["python3", "train.py", "--lr", "0.1", "--epochs", "3"]


def ran(world: World, status: int, printed: str = "", program: str = "a", **changes: Any) -> str:
    """Let a run of the job end with a status; return its name."""
    (world.home / "train.py").write_text(f"# {program}\n")
    host = changes.pop("host", "node1")
    given = {"command": COMMAND, "files": ["train.py"], "roles": ROLES, **changes}
    world.submitted(**given)
    run, containers = world.name, world.runs("chief-0", "worker-0")
    world.hdfs(ME)
    world.writes(containers["worker-0"], "stderr.txt", printed)
    tasks = [{"task": name, "host": host, "container": containers[name]} for name in containers]
    failure = {"task": "worker-0", "status": status, "reason": "exited", "host": host}
    failure |= {"container": containers["worker-0"], "message": "worker-0 exited"}
    told: dict[str, Any] = {"tasks": tasks, "outcome": {"status": status}}
    told |= {"first_failure": failure} if status else {}
    world.reports(containers["chief-0"], "failed" if status else "succeeded", **told)
    world.ends("FAILED" if status else "SUCCEEDED")
    world.collects()
    logs = world.home / "logs" / ME
    if not logs.exists():
        logs.symlink_to(world.home / "logs/alice")
    world("status", run)
    return run


def why(world: World, job: str = "mnist") -> Any:
    found = world("why", job, "-o", "json").json
    told = set(produced(found))
    assert told <= documented("Why") | documented("Job"), told
    return found


def changed(found: Any) -> dict[tuple[str, str], tuple[str | None, str | None]]:
    return {
        (one["kind"], one["name"]): (one["before"], one["now"])
        for one in found["since_success"]["changes"]
    }


LOG = "".join(
    f"2026-11-2{{day}} 10:00:0{n} INFO step {n} of {{steps}} in /data/{{day}}\n" for n in range(9)
)


def test_why_tells_what_is_new_since_a_run_succeeded(kept: World) -> None:
    good = ran(kept, 0, LOG.format(day=1, steps=50))
    ran(kept, 7, "", "c")  # a failed run in between is not compared
    roles = {**ROLES, "worker": {"memory": "2Gi", "instances": 2, "env": {"DAY": "monday"}}}
    command = ["python3", "train.py", "--lr", "0.5", "--epochs", "3"]
    ends = LOG.format(day=4, steps=70) + "shard 17 is not what it was\nstep 8 of 70\n"
    ran(kept, 3, ends, "b", command=command, roles=roles, host="node2")
    found = why(kept)
    new = changed(found)
    assert found["root_cause"]["code"] == "exited"
    assert found["since_success"]["run"] == good
    assert new["argument", "--lr"] == ("0.1", "0.5")
    assert new["key", "roles.worker.memory"] == ("1Gi", "2Gi")
    assert new["variable", "DAY"] == (None, "monday")
    assert new["node", "worker-0"] == ("node1", "node2")
    before, now = new["file", "train.py"]
    assert None not in (before, now)
    assert before != now
    assert len(new) == 5
    assert found["since_success"]["lines"] == ["shard 17 is not what it was", "step 8 of 70"]
    text = kept("why", "mnist").out
    assert len(text.splitlines()) <= 10
    for words in (
        "train.py has changed",
        "and 2 more",
        "printed  shard 17 is not what it was",
        good,
    ):
        assert words in text, text
    client = submit_tf_job.Client(resource_managers=[RM])
    since = client.attach("mnist").why().since_success
    assert since is not None
    assert [(one.kind, one.name) for one in since.changes] == list(new)


def test_why_says_that_nothing_is_new(kept: World) -> None:
    ran(kept, 0, "begin\n")
    ran(kept, 3, "begin\n")
    assert "which succeeded: no file, package" in kept("why", "mnist").out
    since = why(kept)["since_success"]
    assert (since["changes"], since["lines"]) == ([], None)


def test_why_compares_no_lines_if_the_cause_is_known(kept: World) -> None:
    ran(kept, 0, "begin\n")
    raised = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    f()\n'
    ran(kept, 1, f"{raised}ModuleNotFoundError: No module named 'wisdom'\n")
    found = why(kept)
    assert found["root_cause"]["code"] == "module-missing"
    assert found["since_success"]["lines"] is None


def test_why_without_an_earlier_success(kept: World) -> None:
    assert kept("why", "mnist").status == 5
    ran(kept, 3, "begin\n")
    assert why(kept)["since_success"] is None
    ran(kept, 0, "begin\n")
    found = why(kept)
    assert (found["state"], found["root_cause"], found["since_success"]) == (
        "SUCCEEDED",
        None,
        None,
    )


def test_why_with_records_of_another_version_and_with_damaged_ones(kept: World) -> None:
    good = ran(kept, 0, "begin\n")
    ran(kept, 3, "end\n", "b")
    [path] = (kept.home / "staging/records/mnist").glob(f"{good}.json")
    record = json.loads(path.read_text())
    for damage in ({"values": None}, {"values": {"keys": 3}}, {"values": [], "spec": "{"}):
        submission = {**record["submission"], **damage, "version": "0.0.1"}
        path.write_text(json.dumps({**record, "submission": submission, "end": record["end"]}))
        assert ("version", "submit_tf_job") in changed(why(kept))
    path.write_text("{")
    assert why(kept)["since_success"] is None


def wheel(folder: Path, version: str) -> str:
    """Make a wheel of a library; return its name."""
    made = folder / f"mylib-{version}-py3-none-any.whl"
    info = f"mylib-{version}.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("mylib.py", f"V = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: mylib\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return made.name


# what the failed run has other than the one that succeeded, and what is told of it
GPUS = {"DAY": "monday"}
SORTS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str], tuple[str | None, ...]]] = {
    "image": ({"image": "a/b:1"}, {"image": "a/b:2"}, ("image", "image"), ("a/b:1", "a/b:2")),
    "argument that is gone": (
        {"command": [*COMMAND, "--fast"]},
        {"command": COMMAND},
        ("argument", "--fast"),
        (None, None),
    ),
    "variable that is gone": ({"env": GPUS}, {}, ("variable", "DAY"), ("monday", None)),
    "variable of one role": (
        {},
        {"roles": {**ROLES, "worker": {**ROLES["worker"], "env": GPUS}}},
        ("variable", "DAY"),
        (None, "monday"),
    ),
    "key of the job": (
        {},
        {"finish_timeout": "90s"},
        ("key", "finish_timeout"),
        (None, None),
    ),
    "number of workers": (
        {},
        {"roles": {**ROLES, "worker": {"memory": "1Gi", "instances": 3}}},
        ("key", "roles.worker.instances"),
        ("2", "3"),
    ),
    "file": ({"program": "a"}, {"program": "b"}, ("file", "train.py"), (None, None)),
    "node": ({}, {"host": "node2"}, ("node", "worker-0"), ("node1", "node2")),
    "package": ({"wheel": "1.0"}, {"wheel": "1.1"}, ("package", ""), (None, None)),
}


@pytest.mark.parametrize("name", SORTS)
def test_why_tells_each_sort_of_change(kept: World, name: str) -> None:
    """Nothing else differs; values of None are not compared, and an archive is gone and is new."""
    before, now, told, values = SORTS[name]
    for status, given in ((0, before), (3, now)):
        more = dict(given)
        if version := more.pop("wheel", None):
            more["python"] = {"wheels": [wheel(kept.home, version)]}
        ran(kept, status, "begin\n", **more)
    new = changed(why(kept))
    kinds = {key: value for key, value in new.items() if key[0] == told[0]}
    assert list(new) == list(kinds), new
    assert kinds, "nothing is told"
    for key, found in kinds.items():
        assert not told[1] or key[1].startswith(told[1]), new
        assert all(value is None or value == got for value, got in zip(values, found, strict=True))
        assert found[0] != found[1]


END = "shard 17 is not what it was\n"


@pytest.mark.parametrize(
    ("read_s", "has_changes", "has_lines"),
    [(0.0, True, True), (0.4, True, False), (3.0, False, False)],
)
def test_why_compares_for_two_seconds(
    kept: World, monkeypatch: pytest.MonkeyPatch, read_s: float, has_changes: bool, has_lines: bool
) -> None:
    """What a slow HDFS has not told until then is left out; the cause is told all the same."""
    good = ran(kept, 0, "begin\n")
    run = ran(kept, 3, f"begin\n{END}", "b")
    plain = kept("why", "mnist", "-o", "json").json
    assert plain["since_success"]["lines"] == [END.strip()]
    opened = Path.open

    def slow(self: Path, *args: Any, **more: Any) -> Any:
        if any(part in str(self) for part in (run, good, "/logs/")):
            kept.passes(read_s)
        return opened(self, *args, **more)

    monkeypatch.setattr(Path, "open", slow)
    found = kept("why", "mnist", "-o", "json").json
    since = found["since_success"]
    assert (since is not None) == has_changes, since
    assert bool(since and since["lines"]) == has_lines, since
    assert found["state"] == "FAILED"


def test_why_reads_at_most_five_megabytes(kept: World) -> None:
    long = "".join(f"step {n} of 900000\n" for n in range(900_000))  # 19 MB
    for status in (0, 0, 0, 3):
        ran(kept, status, long + (END if status else ""))
    kept("why", "mnist")  # imports are read once

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    assert why(kept)["since_success"]["lines"] == [END.strip()]
    assert read() - before < 5 * 2**20 + 2**19  # with records and YARN's answers
