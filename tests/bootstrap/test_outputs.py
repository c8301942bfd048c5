"""Outputs that are stored when a command has ended: by real bootstraps, on an HDFS with faults.

`tests/cluster/test_data.py` and `test_faults.py` beside it do the same on the real one.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.harness import HOLD, UNTIL_GO, WITNESS, Cluster, role
from tests.world.web_hdfs import CLOSE, Fault, WebNameNode, web_name_node

WRITE = "mkdir $TFJOB_OUTPUT_M/deep; echo new > $TFJOB_OUTPUT_M/deep/x"
NEW = {"deep/x": b"new\n"}
MARK = ".submit_tf_job"
SOON = {"finish_timeout_s": 4}


@pytest.fixture
def hdfs() -> Iterator[WebNameNode]:
    with web_name_node() as made:
        made.make("/models")
        yield made


def output(uri: str, **more: Any) -> dict[str, Any]:
    """Describe the output `m`."""
    rule = {"uri": uri, "upload": "deciding-task", "on_failure": "discard", "on_retry": "empty"}
    outputs = {"m": {**rule, "overwrite": False, **more}}
    return {"readers": ["chief"], "onlookers": [], "inputs": {}, "outputs": outputs}


def storing(
    job: Cluster, uri: str, command: Any = WRITE, *, task: dict[str, Any] | None = None, **more: Any
) -> None:
    """Start a job of one task that stores the output `m`."""
    job.job({"chief": role(1, "trains", command)}, data=output(uri, **more), **(task or {}))
    job.start(env={"HADOOP_USER_NAME": "alice"})


def on(hdfs: WebNameNode, path: str = "/models/m") -> str:
    return f"webhdfs://{hdfs.address}{path}"


def stored(hdfs: WebNameNode, path: str = "/models/m") -> dict[str, bytes]:
    """Return the files of a stored output without its mark, which must be there."""
    files = hdfs.below(path)
    assert json.loads(files.pop(MARK)).keys() == {"run", "task"}
    return files


def fails(hdfs: WebNameNode, asked: str, fault: Fault, end: str = "") -> None:
    """Have an operation on a path with this end fail."""

    def fail(operation: str, path: str) -> None:
        if operation == asked and path.endswith(end):
            raise fault

    hdfs.before = fail


def aside(job: Cluster) -> str:
    return f"/models/m.failed-{job.task['run']}"


def lost(job: Cluster) -> str:
    """Wait for a job whose output is not at its place; return the message."""
    assert job.wait("chief-0") == 97
    failure = job.report()["first_failure"]
    assert failure["reason"] == "output-failed"
    return str(failure["message"])


def copying(job: Cluster) -> int:
    """Return the process that copies."""
    parent = job.runs["chief-0"].pid

    def find() -> int | None:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = stat.read_text().rpartition(")")[2].split()
                line = stat.with_name("cmdline").read_bytes()
            except OSError:
                continue
            if words[1] == str(parent) and b"data.transfer" in line:
                return int(stat.parent.name)
        return None

    return int(job.until(find))


# --- what stands there ----------------------------------------------------------------------------


def test_upload_stores_everything_and_nothing_else(any_job: Cluster, hdfs: WebNameNode) -> None:
    storing(any_job, on(hdfs))
    assert any_job.wait("chief-0") == 0, any_job.stderr("chief-0")
    assert stored(hdfs) == NEW
    assert hdfs.children("/models") == ["m"]
    report = any_job.report()
    assert report["warnings"] == []
    assert report["outputs"] == [{"name": "m", "uri": on(hdfs), "tasks": 1}]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_upload_replaces_nothing_that_came_during_the_copy(
    job: Cluster, hdfs: WebNameNode, overwrite: bool, before: bool
) -> None:
    if before:
        hdfs.put("/models/m/old", b"old")

    def another_job_stores(operation: str, path: str) -> None:
        if operation == "DATA" and path.endswith("/x"):
            hdfs.before = lambda _operation, _path: None
            hdfs._move("/models/m", None)
            time.sleep(0.005)
            hdfs.put("/models/m/theirs", b"theirs")

    hdfs.before = another_job_stores
    storing(job, on(hdfs), overwrite=overwrite)
    told = lost(job)
    assert hdfs.below("/models/m") == {"theirs": b"theirs"}
    assert stored(hdfs, aside(job)) == NEW
    assert told.endswith(f"; the output is at {aside(job)}")
    was_there = before and not overwrite
    why = "exists already" if was_there else "something else was stored there during the upload"
    assert f"/models/m: {why}" in told or was_there
    assert hdfs.children("/models") == ["m", aside(job).rpartition("/")[2]]


def test_upload_without_overwrite_leaves_what_is_there_and_the_output_beside_it(
    job: Cluster, hdfs: WebNameNode
) -> None:
    hdfs.put("/models/m/old", b"old")
    storing(job, on(hdfs))
    assert lost(job).endswith(
        f"the output m could not be stored at {on(hdfs)}: /models/m: exists already; set "
        f"overwrite: true to replace it; the output is at {aside(job)}"
    )
    assert hdfs.below("/models/m") == {"old": b"old"}
    assert stored(hdfs, aside(job)) == NEW


def test_overwrite_moves_a_foreign_tree_to_the_trash_and_removes_outputs_of_jobs(
    job: Cluster, hdfs: WebNameNode
) -> None:
    hdfs.put("/models/m/2020/thesis", b"thesis")
    trash = "/user/alice/.Trash/Current/models/m"
    hdfs.put(f"{trash}/x", b"an earlier one")
    storing(job, on(hdfs), overwrite=True)
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW
    [kept] = [name for name in hdfs.children("/user/alice/.Trash/Current/models") if name != "m"]
    place = f"/user/alice/.Trash/Current/models/{kept}"
    assert hdfs.below(place) == {"2020/thesis": b"thesis"}
    assert job.report()["warnings"] == [
        f"the output m: what stood at /models/m was no output of an earlier job, and is now at {place}"
    ]
    storing(job, on(hdfs), "echo newer > $TFJOB_OUTPUT_M/y", overwrite=True)
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == {"y": b"newer\n"}
    assert hdfs.children("/models") == ["m"]
    assert sorted(hdfs.children("/user/alice/.Trash/Current/models")) == sorted(["m", kept])
    assert job.report()["warnings"] == []


def test_foreign_tree_stays_beside_the_output_without_a_trash(job: Cluster, tmp_path: Path) -> None:
    (tmp_path / "out/m").mkdir(parents=True)
    (tmp_path / "out/m/old").write_text("old")
    storing(job, f"file://{tmp_path}/out/m", overwrite=True)
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    beside = tmp_path / f"out/m.replaced-{job.task['run']}"
    assert (beside / "old").read_text() == "old"
    assert (tmp_path / "out/m/deep/x").read_text() == "new\n"


def test_what_earlier_uploads_have_left_is_swept(job: Cluster, hdfs: WebNameNode) -> None:
    long_ago = int(time.time() * 1000) - 25 * 3600 * 1000
    done = ".m.c-chief-0-01.tfjob-tmp"
    for name in (".m.a-chief-0-01.tfjob-tmp", ".m.b-chief-0-01.tfjob-tmp", ".m.mine.tmp", done):
        hdfs.put(f"/models/{name}/x", b"left")
        hdfs.directories[f"/models/{name}"] = long_ago
    hdfs.put(f"/models/{done}/{MARK}", b'{"run": "c", "task": "chief-0"}')
    hdfs.directories[f"/models/{done}"] = long_ago
    hdfs.directories["/models/.m.b-chief-0-01.tfjob-tmp"] += 2 * 3600 * 1000  # may be under way
    storing(job, on(hdfs))
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    beside = "m.failed-c-chief-0-01"
    assert hdfs.children("/models") == [".m.b-chief-0-01.tfjob-tmp", ".m.mine.tmp", "m", beside]
    [told] = job.report()["warnings"]
    assert told.endswith(f"that had not come to its place is now at /models/{beside}")


def test_what_an_earlier_upload_has_left_delays_no_job(job: Cluster, hdfs: WebNameNode) -> None:
    left = "/models/.m.c-chief-0-01.tfjob-tmp"
    hdfs.put(f"{left}/{MARK}", b'{"run": "c", "task": "chief-0"}')
    hdfs.directories[left] = int(time.time() * 1000) - 25 * 3600 * 1000
    fails(hdfs, "RENAME", Fault(403, "SafeModeException"), left)
    storing(job, on(hdfs))
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert job.report()["warnings"] == []
    assert stored(hdfs) == NEW


def test_what_uploads_to_a_longer_name_have_left_is_theirs(job: Cluster, hdfs: WebNameNode) -> None:
    long_ago = int(time.time() * 1000) - 25 * 3600 * 1000
    names = [".m.v2.a-chief-0-01.1700000000000.tfjob-old", ".m.v2.a-chief-0-01.tfjob-tmp"]
    for name in names:
        hdfs.put(f"/models/{name}/x", b"of m.v2")
        hdfs.directories[f"/models/{name}"] = long_ago
    storing(job, on(hdfs))
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW
    assert hdfs.children("/models") == [*names, "m"]


def test_an_output_has_the_longest_name_that_hdfs_accepts(job: Cluster, hdfs: WebNameNode) -> None:
    place = "/models/" + 127 * "ü"
    hdfs.put(f"{place}/old", b"old")
    storing(job, on(hdfs, place), overwrite=True)
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs, place) == NEW


def test_later_container_of_a_task_replaces_its_output(job: Cluster, hdfs: WebNameNode) -> None:
    """Its first container stored the output, and was lost before it could say so."""
    storing(job, on(hdfs))
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    for marker in (job.root / "app").glob("tfjob-done-*"):
        marker.unlink()
    job.start("chief-0", env={"HADOOP_USER_NAME": "alice"})
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW


def test_containers_of_two_application_masters_do_not_share_a_hidden_name(
    job: Cluster, hdfs: WebNameNode
) -> None:
    """An ApplicationMaster counts its containers anew, and a lost one may still upload."""
    arrived, may_go = threading.Event(), threading.Event()

    def hold(operation: str, path: str) -> None:
        if operation == "DATA" and path.endswith("/x"):
            hdfs.before = lambda _operation, _path: None
            arrived.set()
            may_go.wait(240)

    hdfs.before = hold
    both = "echo $CONTAINER_ID > $TFJOB_OUTPUT_M/x; echo $CONTAINER_ID > $TFJOB_OUTPUT_M/y"
    ids = [f"container_1700000000000_0001_{attempt}_000002" for attempt in ("01", "02")]
    job.job({"chief": role(1, "trains", both)}, data=output(on(hdfs)))
    job.start(env={"CONTAINER_ID": ids[0]})
    assert arrived.wait(240)
    first = job.runs["chief-0"]
    job.until(lambda: any(path.endswith("/y") for path in hdfs.files))
    job.start(env={"CONTAINER_ID": ids[1]})
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    may_go.set()
    assert first.wait(240) == 0
    found = stored(hdfs)
    assert found.keys() == {"x", "y"}
    assert len(set(found.values())) == 1


# --- odd contents ---------------------------------------------------------------------------------


def test_links_are_followed_and_what_holds_nothing_is_told(job: Cluster, tmp_path: Path) -> None:
    (tmp_path / "scratch/model").mkdir(parents=True)
    (tmp_path / "scratch/model/weights").write_text("far")
    program = (
        "cd $TFJOB_OUTPUT_M; mkdir v1; echo near > v1/weights; ln -s v1 latest; ln -s .. v1/up; "
        f"ln -s {tmp_path}/scratch/model model; ln -s v1/weights file; mkfifo pipe"
    )
    storing(job, f"file://{tmp_path}/out/m", program)
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    out = tmp_path / "out/m"
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {MARK, "v1/weights", "latest/weights", "model/weights", "file"}
    assert (out / "model/weights").read_text() == "far"
    assert not any(path.is_symlink() for path in out.rglob("*"))
    assert sorted(job.report()["warnings"]) == [
        "the output m: latest/up is a link to a directory around it; it is not stored",
        "the output m: pipe is neither a file nor a directory; it is not stored",
        "the output m: v1/up is a link to a directory around it; it is not stored",
    ]


MARKED = "has the name of this program's own mark"
ODD = [  # what a program does, what is told of it, and the files that are stored beside the place
    ("ln -s /no/such model", "m/model is a link to nothing", NEW),
    ("touch 2026-11-29T10:00:00.log", "m/2026-11-29T10:00:00.log is refused: ", NEW),
    ("mkdir a:b; touch a:b/x a:b/y", "m/a:b is refused: ", NEW),
    (r"touch $'lo\xdcs'", r"m/lo\udcdcs is refused: ", NEW),
    ("touch b:{1..9}", "; and 6 more, which the log names", NEW),
    ("mkdir .submit_tf_job; echo own > .submit_tf_job/x", MARKED, {f"{MARK}/x": b"own\n", **NEW}),
    ("echo own > .submit_tf_job", MARKED, {MARK: b"own\n", **NEW}),
]


@pytest.mark.parametrize(("program", "why", "kept"), ODD, ids=[odd[0] for odd in ODD])
def test_what_cannot_be_stored_is_named_and_the_rest_is_kept_beside(
    job: Cluster, hdfs: WebNameNode, program: str, why: str, kept: dict[str, bytes]
) -> None:
    storing(job, on(hdfs), f"{WRITE}; cd $TFJOB_OUTPUT_M; {program}")
    told = lost(job)
    assert why in told
    assert told.endswith(f" is at {aside(job)}")
    found = hdfs.below(aside(job))
    if MARK not in kept and f"{MARK}/x" not in kept:
        found.pop(MARK)
    assert found == kept
    assert hdfs.children("/models") == [aside(job).rpartition("/")[2]]


GOOD = [  # what a program does, the files that are stored, and what is told of it
    (r"echo 1 > $'a\nb'", {"a\nb": b"1\n"}, ""),
    ("echo 1 > 'ü %41+&?#;\\ é'", {"ü %41+&?#;\\ é": b"1\n"}, ""),
    (f'echo \'{{"run": 1, "task": 2}}\' > {MARK}; echo 1 > x', {"x": b"1\n"}, ""),
    ("cd ..; rmdir m; echo 1 > m", {"m": b"1\n"}, "a file in place of its directory; it is at "),
    ("cd ..; rmdir m; ln -s ../far m; mkdir ../far; echo 1 > m/x", {"x": b"1\n"}, ""),
]


@pytest.mark.parametrize(("program", "files", "told"), GOOD, ids=[good[0] for good in GOOD])
def test_odd_names_and_places_are_stored(
    job: Cluster, hdfs: WebNameNode, program: str, files: dict[str, bytes], told: str
) -> None:
    storing(job, on(hdfs), f"cd $TFJOB_OUTPUT_M; {program}")
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == files
    assert [told in text for text in job.report()["warnings"]] == ([True] if told else [])


@pytest.mark.parametrize("first", ["true", "ln -s /no/such $TFJOB_OUTPUT_A/x"])
def test_an_output_that_cannot_be_stored_does_not_cost_the_next_one(
    job: Cluster, hdfs: WebNameNode, first: str
) -> None:
    rule = output(on(hdfs))["outputs"]["m"]
    data = output(on(hdfs))
    data["outputs"] = {"a": {**rule, "uri": on(hdfs, "/models/a")}, "m": rule}
    job.job({"chief": role(1, "trains", f"{first}; {WRITE}")}, data=data)
    job.start()
    assert "the output a could not be stored" in lost(job)
    assert stored(hdfs) == NEW
    assert job.report()["outputs"] == [{"name": "m", "uri": on(hdfs), "tasks": 1}]


@pytest.mark.parametrize("on_failure", ["keep", "discard"])
def test_links_count_as_what_a_task_wrote(
    job: Cluster, hdfs: WebNameNode, tmp_path: Path, on_failure: str
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch/weights").write_text("far")
    fails = on_failure == "keep"
    program = f"ln -s {tmp_path}/scratch $TFJOB_OUTPUT_M/model; exit {3 * fails}"
    storing(job, on(hdfs), program, upload="all-that-write", on_failure=on_failure)
    assert job.wait("chief-0") == 3 * fails
    place = "/models/m/chief-0" + f".failed-{job.task['run']}" * fails
    assert stored(hdfs, place) == {"model/weights": b"far"}


def test_what_is_kept_of_a_failure_is_at_its_place_and_names_what_is_missing(
    job: Cluster, hdfs: WebNameNode
) -> None:
    storing(job, on(hdfs), f"{WRITE}; touch $TFJOB_OUTPUT_M/a:b; exit 3", on_failure="keep")
    assert job.wait("chief-0") == 3
    assert stored(hdfs, aside(job)) == NEW
    [told] = job.report()["warnings"]
    assert told.startswith("the output m: not all of it is stored: m/a:b is refused: ")


SHADOWS = ("json", "os", "queue", "site", "sitecustomize", "socket", "subprocess", "threading")


@pytest.mark.parametrize("where", [".", "src"])
def test_no_file_or_variable_of_a_job_changes_how_its_outputs_are_stored(
    any_job: Cluster, hdfs: WebNameNode, where: str
) -> None:
    """Python of the job's own may have such names, and be for another Python."""
    job = any_job
    job.files = {f"{where}/{name}.py": "import os; os._exit(9)\n" for name in SHADOWS}
    names = ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR", "LD_LIBRARY_PATH")
    env = {**dict.fromkeys(names, "/no/such"), "PYTHONPATH": where, "LD_PRELOAD": ""}
    job.job({"chief": role(1, "trains", WRITE, env=env)}, data=output(on(hdfs)))
    job.start(env={"PYTHONPATH": where, "HADOOP_USER_NAME": "alice"})
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW


def test_copy_that_dies_by_itself_is_tried_again_and_keeps_the_container(job: Cluster) -> None:
    library = "mkdir lib; echo 'raise SystemExit(9)' > lib/s3fs.py; "
    role_ = role(1, "trains", library + WRITE, env={"PYTHONPATH": "lib"})
    job.job({"chief": role_}, data=output("s3://bucket/models/m"))
    job.start()
    told = job.until(lambda: job.report().get("warnings"))
    assert "the copying process died (exit status 9)" in told[0]
    (job.places["chief-0"][0] / "lib/s3fs.py").write_text("raise ImportError")
    assert "the image has nothing that reads s3://" in lost(job)


def test_a_file_that_still_grows_is_told(job: Cluster, hdfs: WebNameNode) -> None:
    """A process of the program in a session of its own is not waited for."""

    def grow(operation: str, path: str) -> None:
        if operation == "DATA" and path.endswith("/x"):
            with (job.places["chief-0"][0] / "tfjob-outputs/m/deep/x").open("a") as out:
                out.write("more")

    hdfs.before = grow
    storing(job, on(hdfs))
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW
    [told] = job.report()["warnings"]
    assert "deep/x was still being written" in told


# --- a stop ---------------------------------------------------------------------------------------


def stop(job: Cluster, *numbers: int) -> None:
    """Send signals to the deciding task; SIGQUIT before SIGTERM is a stop that waits."""
    for number in numbers:
        job.kill("chief-0", number)


TRAIN = f"trap '{WRITE}; exit 0' TERM; echo runs; while :; do sleep 0.05; done"
SLOW = f"trap 'sleep 1; {WRITE}; exit 0' TERM; echo runs; while :; do sleep 0.05; done"
STOPS = [("upload", "/models/m"), ("keep", "aside"), ("discard", "")]


@pytest.mark.parametrize(("on_failure", "place"), STOPS, ids=[rule for rule, _ in STOPS])
def test_stop_that_waits_stores_what_the_task_saves(
    job: Cluster, hdfs: WebNameNode, on_failure: str, place: str
) -> None:
    storing(job, on(hdfs), TRAIN, on_failure=on_failure)
    job.printed("chief-0", "runs")
    stop(job, signal.SIGQUIT, signal.SIGTERM)
    report = job.until_saved(lambda: job.report().get("ended_at") and job.report())
    if place:
        assert stored(hdfs, aside(job) if place == "aside" else place) == NEW
    lost = f"the output m of chief-0 is not stored at {on(hdfs)}: stopped"
    assert report["state"] == "stopped"
    assert report["warnings"] == ([] if place else [lost + ", and its `on_failure` is discard"])


def test_stop_that_waits_stores_what_is_saved_after_the_shell_has_ended(
    job: Cluster, hdfs: WebNameNode
) -> None:
    """A shell dies of SIGTERM at once; the program that it runs saves."""
    storing(job, on(hdfs), f"bash -c {shlex.quote(SLOW)}; true", on_failure="upload")
    job.printed("chief-0", "runs")
    stop(job, signal.SIGQUIT, signal.SIGTERM)
    job.until_saved(lambda: job.report().get("ended_at"))
    assert stored(hdfs) == NEW
    assert job.report()["warnings"] == []


def test_stop_that_waits_does_not_begin_an_upload_anew(job: Cluster, hdfs: WebNameNode) -> None:
    """Without Docker a NodeManager signals the process group, in which the upload is, too."""
    arrived, may_go = threading.Event(), threading.Event()

    def hold(operation: str, path: str) -> None:
        if operation == "DATA" and path.endswith("/x"):
            arrived.set()
            may_go.wait(240)

    hdfs.before = hold
    storing(job, on(hdfs), on_failure="upload")
    assert arrived.wait(240)
    for number in (signal.SIGQUIT, signal.SIGTERM):
        os.killpg(job.runs["chief-0"].pid, number)
    job.until_saved(lambda: "stopped, with time to save" in job.stderr("chief-0"))
    may_go.set()
    job.until_saved(lambda: job.report().get("ended_at"))
    assert stored(hdfs) == NEW
    assert "died" not in job.stderr("chief-0")
    assert job.report()["warnings"] == []


@pytest.mark.parametrize("task", ["chief-0", "worker-0"])
def test_stop_that_waits_gives_an_upload_longer_than_finish_timeout(
    job: Cluster, hdfs: WebNameNode, task: str
) -> None:
    may_go = threading.Event()

    def hold(operation: str, path: str) -> None:
        if operation == "DATA" and f"{task}." in path and path.endswith("/x"):
            may_go.wait(240)

    hdfs.before = hold
    roles = {"chief": role(1, "trains", TRAIN), "worker": role(1, "trains", TRAIN)}
    data = output(on(hdfs), upload="every-task", on_failure="upload")
    job.job(roles, data=data, finish_timeout_s=1)
    job.start()
    job.until(lambda: all("runs" in job.stdout(name) for name in job.names()))
    stop(job, signal.SIGQUIT, signal.SIGTERM)
    job.until_saved(lambda: "uploading" in job.stderr(task))
    uploaded = time.monotonic()
    job.until_saved(lambda: time.monotonic() > uploaded + 4)
    may_go.set()
    job.until_saved(lambda: job.report().get("ended_at"))
    assert stored(hdfs, f"/models/m/{task}") == NEW
    assert job.report()["warnings"] == []


def test_stop_that_waits_for_an_absent_hdfs_ends_with_its_time_and_tells_what_is_lost(
    job: Cluster, hdfs: WebNameNode
) -> None:
    fails(hdfs, "CREATE", Fault(403, "SafeModeException"))
    storing(job, on(hdfs), TRAIN, on_failure="upload")
    job.printed("chief-0", "runs")
    stop(job, signal.SIGQUIT, signal.SIGTERM)
    told = job.until_saved(
        lambda: [t for t in job.report().get("warnings", []) if "tried again until" in t]
    )
    assert len(job.report()["warnings"]) == 1, told  # in place of the first
    assert job.wait("chief-0") == 143  # 20 s after the last SIGQUIT
    [told] = job.report()["warnings"]
    assert told.startswith("the output m could not be stored at ")


def test_stop_that_does_not_wait_tells_what_is_lost(job: Cluster, hdfs: WebNameNode) -> None:
    storing(job, on(hdfs), TRAIN)
    job.printed("chief-0", "runs")
    stop(job, signal.SIGTERM)
    assert job.wait("chief-0") == 143
    [told] = job.report()["warnings"]
    assert told.startswith(f"the output m of chief-0 is not stored at {on(hdfs)}: stopped")


def test_stop_after_the_output_is_stored_does_not_call_it_lost(
    job: Cluster, hdfs: WebNameNode
) -> None:
    """The copying process is held while it clears away what the output has replaced."""
    hdfs.put("/models/m/old", b"old")
    ends = threading.Event()

    def hold(_operation: str, _path: str) -> None:
        if any(path.startswith("/user/alice/.Trash/Current/models/m/") for path in hdfs.files):
            ends.wait(240)

    hdfs.before = hold
    storing(job, on(hdfs), overwrite=True)
    job.until(lambda: "is now at" in json.dumps(job.report().get("warnings")))
    stop(job, signal.SIGTERM)
    assert job.wait("chief-0") == 143
    ends.set()
    assert (job.outcome("chief-0")["status"], job.outcome("chief-0")["reason"]) == (0, "exited")
    assert stored(hdfs) == NEW
    [told] = job.report()["warnings"]
    assert "is now at" in told


def test_stop_that_waits_stores_what_other_tasks_save(job: Cluster, hdfs: WebNameNode) -> None:
    roles = {"chief": role(1, "trains", TRAIN), "worker": role(1, "trains", TRAIN)}
    job.job(roles, data=output(on(hdfs), upload="every-task", on_failure="upload"))
    job.start()
    job.until(lambda: all("runs" in job.stdout(name) for name in job.names()))
    stop(job, signal.SIGQUIT, signal.SIGTERM)
    job.until_saved(lambda: job.report().get("ended_at"))
    for name in job.names():
        assert stored(hdfs, f"/models/m/{name}") == NEW
    assert job.report()["warnings"] == []


def test_an_output_that_cannot_be_emptied_for_a_retry_fails_the_task(
    job: Cluster, hdfs: WebNameNode
) -> None:
    """Its program has put a file in the place of the directory of all outputs."""
    chief = f"rm -rf tfjob-outputs; touch tfjob-outputs; echo here; {HOLD}"
    roles = {"chief": role(1, "trains", chief), "worker": role(1, "trains", HOLD)}
    job.job(roles, data=output(on(hdfs)), retries={"max": 3, "on": ["lost"]})
    job.start()
    job.printed("chief-0", "here")
    job.printed("worker-0", "generation 0")
    job.replace("worker-0")
    assert job.wait("chief-0") == 0  # YARN would start it again after any other
    failure = job.report()["first_failure"]
    assert (failure["task"], failure["reason"]) == ("chief-0", "input-failed")
    assert "/tfjob-outputs/m cannot be made: " in failure["message"]


def test_a_file_in_place_of_an_output_is_removed_for_a_retry(
    job: Cluster, hdfs: WebNameNode
) -> None:
    chief = f"rmdir $TFJOB_OUTPUT_M; echo $TFJOB_GENERATION > $TFJOB_OUTPUT_M; {HOLD}"
    roles = {"chief": role(1, "trains", chief), "worker": role(1, "trains", HOLD)}
    retries = {"max": 3, "on": ["lost"]}
    job.job({**roles, "witness": WITNESS}, data=output(on(hdfs)), retries=retries, grace_s=20)
    job.start()
    job.printed("chief-0", "generation 0")
    job.printed("worker-0", "generation 0")
    job.replace("worker-0")
    job.printed("chief-0", "generation 1")
    outputs = job.places["chief-0"][0] / "tfjob-outputs"
    job.until(lambda: not list(outputs.glob(".m.gone-*")))
    job.succeeds()
    assert stored(hdfs) == {"m": b"1\n"}


def test_output_of_a_deciding_task_that_is_lost_after_it_is_told(
    job: Cluster, hdfs: WebNameNode
) -> None:
    roles = {"chief": role(1, "trains", WRITE), "worker": role(1, "trains", HOLD)}
    retries = {"max": 3, "on": ["lost"]}
    job.job({**roles, "witness": WITNESS}, data=output(on(hdfs)), retries=retries, grace_s=300)
    job.start()
    job.printed("worker-0", "generation 0")
    job.until(lambda: job.report().get("state") == "finishing")
    job.replace("chief-0")
    job.until(lambda: "after its command had ended with 0" in job.stderr("chief-0"))
    job.succeeds()
    assert stored(hdfs) == NEW
    assert job.report()["outputs"] == [{"name": "m", "uri": on(hdfs), "tasks": 1}]


@pytest.mark.parametrize("on_retry", ["empty", "keep"])
def test_generations_begin_with_no_output(job: Cluster, hdfs: WebNameNode, on_retry: str) -> None:
    chief = f"echo part > $TFJOB_OUTPUT_M/part-$TFJOB_GENERATION; {HOLD}"
    job.job(
        {"chief": role(1, "trains", chief), "worker": role(1, "trains", HOLD), "witness": WITNESS},
        retries={"max": 3, "on": ["lost"]},
        grace_s=20,
        data=output(on(hdfs), on_retry=on_retry),
    )
    job.start()
    job.printed("chief-0", "generation 0")
    job.printed("worker-0", "generation 0")
    job.replace("worker-0")
    job.printed("chief-0", "generation 1")
    job.succeeds()
    both = {"part-0": b"part\n", "part-1": b"part\n"}
    assert stored(hdfs) == (both if on_retry == "keep" else {"part-1": b"part\n"})


def test_files_of_the_working_directory_are_collected(job: Cluster, hdfs: WebNameNode) -> None:
    write = (
        "mkdir -p ck/a tfjob-x; echo m > model.keras; echo 1 > ck/a/1; echo 2 > ck/2; echo s > .s; "
        "echo x > tfjob-x/x.keras; echo l > left.txt; ln -s /etc/passwd p.keras; "
        "echo own > $TFJOB_OUTPUT_M/own; mkfifo pipe.keras; " + HOLD
    )
    storing(job, on(hdfs), write, collect=["*.keras", "ck", "ck/**", "none*"])
    job.succeeds()
    tree = {"model.keras": b"m\n", "ck/a/1": b"1\n", "ck/2": b"2\n", "own": b"own\n"}
    assert stored(hdfs) == tree
    [warning] = job.report()["warnings"]
    assert "left 'left.txt' (2 B)" in warning
    assert "`run --keep left.txt`, or `collect` of an output, stores it" in warning


def test_collected_files_are_stored_from_where_they_are(job: Cluster, hdfs: WebNameNode) -> None:
    write = (
        "mkdir ck best; echo 1 > ck/1; echo b > best/b; ln -s $PWD/ck/1 ck/last; "
        "ln -s ../best ck/best; mkdir ck/none; rmdir $TFJOB_OUTPUT_M; echo own > $TFJOB_OUTPUT_M"
    )
    storing(job, on(hdfs), write, collect=["ck"])
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    tree = {"m": b"own\n", "ck/1": b"1\n", "ck/last": b"1\n", "ck/best/b": b"b\n"}
    assert stored(hdfs) == tree
    assert "/models/m/ck/none" in hdfs.directories


def test_a_retry_stores_what_it_has_written_and_not_what_a_failure_had(
    job: Cluster, hdfs: WebNameNode
) -> None:
    chief = (
        "if [ $TFJOB_GENERATION = 1 ]; then cat model.keras; echo new > model.keras; "
        f"{HOLD}; else {UNTIL_GO}; rm ../go; echo old > model.keras; exit 3; fi"
    )
    roles = {"chief": role(1, "trains", chief), "worker": role(1, "trains", HOLD)}
    data = output(on(hdfs), on_retry="keep", on_failure="keep", collect=["*.keras"])
    retries = {"max": 3, "on": ["lost"]}
    job.job({**roles, "witness": WITNESS}, data=data, retries=retries, grace_s=20)
    job.start()
    job.printed("worker-0", "generation 0")
    job.kill("worker-0")
    job.runs["worker-0"].wait()
    job.go()
    job.until(lambda: hdfs.children("/models") == [aside(job).rpartition("/")[2]])
    job.start("worker-0")
    job.printed("chief-0", "generation 1")
    assert "old" in job.stdout("chief-0")
    job.succeeds()
    assert stored(hdfs, aside(job)) == {"model.keras": b"old\n"}
    assert stored(hdfs) == {"model.keras": b"new\n"}


def test_nothing_to_collect_fails_as_an_empty_output(job: Cluster, hdfs: WebNameNode) -> None:
    storing(job, on(hdfs), "true", collect=["model.keras"])
    assert "nothing was written to" in lost(job)


GIVEN = "mkdir ck conf; echo a | tee sent.csv old.csv ck/a conf/a > /dev/null"


def test_files_that_the_job_has_brought_are_not_collected(job: Cluster, hdfs: WebNameNode) -> None:
    """But those that the program has changed, and directories in which it has."""
    command = f"echo n > new.csv; echo b >> old.csv; echo b > ck/b; {HOLD}"
    collect = ["*.csv", "ck", "conf"]
    job.job({"chief": role(1, "trains", command)}, data=output(on(hdfs), collect=collect))
    job.start(shell=GIVEN)
    job.succeeds()
    assert stored(hdfs) == {
        "new.csv": b"n\n",
        "old.csv": b"a\nb\n",
        "ck/a": b"a\n",
        "ck/b": b"b\n",
    }


def test_files_that_the_job_has_brought_are_no_result(job: Cluster, hdfs: WebNameNode) -> None:
    collect = ["*.csv", "ck", "conf"]
    job.job({"chief": role(1, "trains", "cat *.csv ck/a")}, data=output(on(hdfs), collect=collect))
    job.start(shell=GIVEN)
    assert "nothing was written to" in lost(job)


# --- an HDFS that is away -------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [(403, "SafeModeException"), (500, "Whatever"), (CLOSE, "")])
def test_upload_is_tried_until_hdfs_is_back_and_that_is_told(
    job: Cluster, hdfs: WebNameNode, fault: tuple[int, str]
) -> None:
    def away(operation: str, _path: str) -> None:
        if operation == "CREATE" and not hdfs.fault:
            hdfs.fault = fault

    hdfs.before = away
    storing(job, on(hdfs), task=SOON)
    warnings = job.until(lambda: job.report().get("warnings"))
    assert warnings[0].startswith(f"the output m cannot be stored at {on(hdfs)} yet; it is tried")
    # past finish_timeout, and the six seconds after which it used to give up
    job.until(lambda: "within finish_timeout" in job.report()["warnings"][0])
    [told] = job.report()["warnings"]  # in place of the first
    assert "could not be stored" in told
    assert "within finish_timeout" in told
    assert f"it is in {job.places['chief-0'][0]}/tfjob-outputs/m on node-of-chief-0 until" in told
    assert job.report()["state"] == "running"
    hdfs.before, hdfs.fault = (lambda _operation, _path: None), None
    assert job.wait("chief-0") == 0
    assert stored(hdfs) == NEW
    assert hdfs.children("/models") == ["m"]
    assert job.report()["warnings"] == []  # it is stored


def test_task_that_is_stopped_while_it_awaits_hdfs_ends(job: Cluster, hdfs: WebNameNode) -> None:
    fails(hdfs, "CREATE", Fault(403, "SafeModeException"))
    storing(job, on(hdfs))
    job.until(lambda: job.report().get("warnings"))
    job.kill("chief-0", signal.SIGTERM)
    assert job.wait("chief-0") == 143  # it would wait for half an hour
    [told] = job.report()["warnings"]
    assert told.endswith("this task was stopped meanwhile")


def test_a_copy_that_is_killed_is_tried_again(job: Cluster, hdfs: WebNameNode) -> None:
    hdfs.put(f"/models/m/{MARK}", b"{}")
    hdfs.put("/models/m/old", b"old")
    arrived, may_go = threading.Event(), threading.Event()

    def hold(operation: str, path: str) -> None:
        # in the middle of the replacement: the old output is renamed, the new one is not
        if operation == "RENAME" and path.endswith("tfjob-tmp"):
            arrived.set()
            may_go.wait(240)
            raise Fault(CLOSE)

    hdfs.before = hold
    storing(job, on(hdfs), overwrite=True)
    assert arrived.wait(240)
    assert hdfs.children("/models")[-1].endswith(".tfjob-tmp")  # nothing is at /models/m
    os.kill(copying(job), signal.SIGKILL)
    hdfs.before = lambda _operation, _path: None
    may_go.set()
    assert job.wait("chief-0") == 0, job.stderr("chief-0")
    assert stored(hdfs) == NEW
    assert hdfs.children("/models") == ["m"]
    assert "the copying process died (killed, or out of memory)" in job.stderr("chief-0")


def test_a_full_quota_is_told_as_one_and_the_output_is_stored_once_there_is_room(
    job: Cluster, hdfs: WebNameNode
) -> None:
    said = "The DiskSpace quota of /models is exceeded: quota = 104857600 B = 100 MB"
    trace = "\n\tat java.security.AccessController.doPrivileged(Native Method)"
    fails(hdfs, "CONTENT", Fault(403, "DSQuotaExceededException", said + trace), "/big")
    storing(job, on(hdfs), "head -c 50000000 /dev/zero > $TFJOB_OUTPUT_M/big")
    told = job.until(lambda: job.report().get("warnings"))[0]
    assert told.endswith(f"/big: {said}")
    hdfs.before = lambda _operation, _path: None
    assert job.wait("chief-0") == 0
    assert {name: len(content) for name, content in stored(hdfs).items()} == {"big": 50_000_000}


@pytest.mark.parametrize("waits", ["a", "m"])
def test_an_output_that_waits_for_its_place_does_not_delay_another(
    job: Cluster, hdfs: WebNameNode, waits: str
) -> None:
    def full(operation: str, path: str) -> None:
        if operation == "CREATE" and f"/.{waits}." in path:
            raise Fault(403, "DSQuotaExceededException", "the quota is exceeded")

    hdfs.before = full
    data = output(on(hdfs))
    rule = data["outputs"]["m"]
    data["outputs"] = {"a": {**rule, "uri": on(hdfs, "/models/a")}, "m": rule}
    write = f"{WRITE}; cp -r $TFJOB_OUTPUT_M/. $TFJOB_OUTPUT_A"
    job.job({"chief": role(1, "trains", write)}, data=data)
    job.start()
    told = job.until(lambda: job.report().get("warnings"))[0]
    assert f"the output {waits} cannot be stored at {on(hdfs, f'/models/{waits}')} yet" in told
    other = "am".replace(waits, "")
    job.until(lambda: f"/models/{other}/{MARK}" in hdfs.files)
    hdfs.before = lambda _operation, _path: None
    assert job.wait("chief-0") == 0
    assert stored(hdfs) == stored(hdfs, "/models/a") == NEW
    assert job.report()["warnings"] == []


def test_an_output_whose_place_cannot_be_changed_is_beside_it(
    job: Cluster, hdfs: WebNameNode
) -> None:
    hdfs.put("/models/m/old", b"old")
    fails(hdfs, "RENAME", Fault(403, "AccessControlException", DENIED), "/m")
    storing(job, on(hdfs), overwrite=True)
    assert lost(job).endswith(f"{DENIED}; the output is at {aside(job)}")
    assert stored(hdfs, aside(job)) == NEW
    assert hdfs.below("/models/m") == {"old": b"old"}


DENIED = "Permission denied: user=alice"
KERBEROS = "HDFS wants Kerberos, and takes no delegation token of this task (a ticket of its own "
KERBEROS += "needs hdfs-native in the image)"
REFUSALS = [(Fault(403, "AccessControlException", DENIED), DENIED), (Fault(401), KERBEROS)]


@pytest.mark.parametrize(("fault", "told"), REFUSALS, ids=["denied", "Kerberos"])
def test_what_trying_again_cannot_change_fails_at_once(
    job: Cluster, hdfs: WebNameNode, fault: Fault, told: str
) -> None:
    fails(hdfs, "MKDIRS", fault)
    storing(job, on(hdfs))
    assert lost(job).endswith(f"/.m.{_mark(job)}.tfjob-tmp: {told}")


def _mark(job: Cluster) -> str:
    container = job.places["chief-0"][0].name.split("_", 2)[2]
    return f"{job.task['run']}-chief-0-{container}"


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_failure", "left"), [("discard", ""), ("keep", "m.failed-"), ("upload", "m")]
)
def test_output_after_failure(job: Cluster, hdfs: WebNameNode, on_failure: str, left: str) -> None:
    storing(job, on(hdfs), WRITE + "; exit 3", on_failure=on_failure)
    assert job.wait("chief-0") == 3
    names = [name + job.task["run"] if name.endswith("-") else name for name in [left] if name]
    assert hdfs.children("/models") == names
    assert all(stored(hdfs, f"/models/{name}") == NEW for name in names)
    told = [output["uri"] for output in job.report().get("outputs", [])]
    assert told == [on(hdfs, f"/models/{name}") for name in names]


# Programs that write an output, and remove what else is there.
CLEANING: dict[str, tuple[str, int]] = {
    "all else": ("find . -mindepth 1 -maxdepth 1 ! -name tfjob-outputs -exec rm -rf {} +", 0),
    "all of it": ('here=$PWD; cd /; rm -rf "$here"', 97),
    "the directory's name": ('mv "$PWD" "$PWD.old"', 97),
    "its own home": ("export HOME=/no/such; unset PATH", 0),
}


@pytest.mark.parametrize("name", CLEANING)
def test_output_of_a_program_that_cleans_up_is_stored_or_told(
    job: Cluster, hdfs: WebNameNode, name: str
) -> None:
    clean, status = CLEANING[name]
    storing(job, on(hdfs), f"echo new > $TFJOB_OUTPUT_M/x; {clean}")
    assert job.wait("chief-0") == status
    if status:
        assert "no such file or directory" in job.outcome("chief-0")["message"]
    else:
        assert stored(hdfs) == {"x": b"new\n"}


def test_a_command_that_writes_nothing_fails(job: Cluster, hdfs: WebNameNode) -> None:
    storing(job, on(hdfs), "true")
    where = job.places["chief-0"][0] / "tfjob-outputs/m"
    assert lost(job).endswith(f": nothing was written to {where}")


def test_every_task_that_trains_stores_its_own(job: Cluster, hdfs: WebNameNode) -> None:
    roles = {"chief": role(1, "trains", WRITE), "learner": role(2, "trains", WRITE)}
    job.job(roles, data=output(on(hdfs), upload="every-task"))
    job.start()
    assert set(job.wait_all().values()) == {0}
    for name in ("chief-0", "learner-0", "learner-1"):
        assert stored(hdfs, f"/models/m/{name}") == NEW
    assert job.report()["outputs"] == [{"name": "m", "uri": on(hdfs), "tasks": 3}]


def test_hdfs_that_nothing_answers_for(job: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    storing(job, f"webhdfs://{address}/models/m", WRITE + "; exit 3", on_failure="keep", task=SOON)
    assert job.wait("chief-0") == 3  # after finish_timeout, at most
    assert "not stored yet" in job.stderr("chief-0") or "cannot be stored" in job.stderr("chief-0")
