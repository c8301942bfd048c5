"""The record of each run: `history`, and a run that YARN has forgotten."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.operations.record_files import RecordFiles
from tests.json_page import check, documented
from tests.scenarios.conftest import ME
from tests.tool import until
from tests.world import RM, World

SPEC = "mnist.yaml"
OUTPUTS = [{"name": "model", "uri": "hdfs://nn/models/mnist", "tasks": 1}]
PER_RUN = ("keytabs", "lists", "rendezvous")


def succeeds(world: World) -> None:
    chief = world.runs("chief-0")["chief-0"]
    progress = {"step": 40, "metrics": {"loss": 0.25, "accuracy": 0.9125}}
    told: dict[str, Any] = {"progress": progress, "outcome": {"status": 0}, "outputs": OUTPUTS}
    world.reports(chief, "succeeded", **told)
    world.yarn.containers["chief"][0]["state"] = "SUCCEEDED"


def test_a_verdict_does_not_wait_for_its_record(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.submitted()
    succeeds(kept)
    kept.cluster.clock.after(1, kept.ends)
    [record] = (kept.home / "staging/records").rglob(f"{kept.name}.json")
    answers, write = threading.Event(), RecordFiles.write

    def write_to_slow_hdfs(files: RecordFiles, content: Mapping[str, Any]) -> None:
        kept.passes(0.3)
        answers.wait(60)
        write(files, content)

    monkeypatch.setattr(RecordFiles, "write", write_to_slow_hdfs)
    done = kept("wait", "mnist")
    assert (done.status, done.out.split()[:2]) == (0, ["mnist", "SUCCEEDED"])
    assert json.loads(record.read_bytes())["end"] is None
    answers.set()
    until(lambda: json.loads(record.read_bytes())["end"], "the record is written afterwards")


@pytest.mark.parametrize(("age_s", "stays"), [(60, True), (7200, False)])
def test_what_a_killed_writer_of_a_record_leaves_is_no_run_and_is_removed(
    kept: World, age_s: float, stays: bool
) -> None:
    kept.submitted()
    [record] = (kept.home / "staging/records").rglob(f"{kept.name}.json")
    left = record.with_name(f".{record.name}.0123456789abcdef.tmp")
    shutil.copy(record, left)
    os.utime(left, (record.stat().st_mtime - age_s,) * 2)
    assert len(kept("history", "mnist", "-o", "json").json["runs"]) == 1
    kept.ends()
    kept.submitted()
    assert left.exists() == stays


@pytest.mark.parametrize(("earlier_s", "is_known"), [(0, True), (7200, False)])
def test_record_of_a_withdrawn_application_gets_the_end_of_the_one_that_stays(
    kept: World, earlier_s: int, is_known: bool
) -> None:
    """A record that is hours older is of a run that was deleted, whose name was used again."""
    app = kept.submitted()
    [path] = (kept.home / "staging/records").rglob(f"{kept.name}.json")
    record = json.loads(path.read_bytes())
    record["application_id"] = "application_1700000000000_0999"
    record["submission"]["at"] -= earlier_s
    path.write_text(json.dumps(record))
    succeeds(kept)
    kept.cluster.clock.after(1, kept.ends)
    assert kept("wait", "mnist").status == 0
    record = json.loads(path.read_bytes())
    ended = (record["application_id"] == app, record["end"] is not None)
    assert ended == (is_known, is_known)


def test_a_run_is_known_after_yarn_has_forgotten_it(kept: World) -> None:
    app = kept.submitted()
    run = kept.name
    succeeds(kept)
    kept.passes(30)
    heading, row = (line.split() for line in kept("history").out.splitlines())
    assert (heading[0], heading[3], row[0], row[1]) == ("RUN", "FOR", run, "FINISHING")
    assert 40 <= int(row[3].removesuffix("s")) <= 42, "the time that passed here, and requests"
    kept.cluster.clock.after(1, kept.ends)
    assert kept("wait", "mnist").status == 0
    staged = [kept.home / "staging" / kind / "mnist" / run for kind in PER_RUN]
    for directory in staged:
        directory.mkdir(parents=True)
    assert kept("delete", run).status == 0
    assert not any(map(os.path.exists, staged))
    kept.yarn.apps.clear()
    kept.cluster.node.logs.clear()
    for words in ("mnist", run):
        told = kept("status", words, "-o", "json").json
        assert (told["state"], told["application_id"]) == ("SUCCEEDED", app)
        assert told["progress"]["step"] == 40
    assert kept("describe", run).out.startswith("mnist  SUCCEEDED")
    found = kept("history", "mnist", "-o", "json").json
    assert set(found) == documented("RunHistory")
    [record] = found["runs"]
    check("RunRecord", record)
    assert (record["run"], record["end"]["state"]) == (run, "SUCCEEDED")
    assert record["metrics"] == {"loss": 0.25, "accuracy": 0.9125}
    assert (record["state"], record["outputs"]) == ("SUCCEEDED", OUTPUTS)
    assert record["duration_s"] == record["end"]["finished_at"] - record["end"]["started_at"] > 29
    [shown] = kept("history", "mnist").out.splitlines()[1:]
    assert "accuracy 0.9125  loss 0.25" in shown
    assert shown.endswith("hdfs://nn/models/mnist")
    assert [one.to_json() for one in submit_tf_job.history("mnist")] == [record]
    with pytest.raises(submit_tf_job.UsageError, match="limit"):
        submit_tf_job.history(limit=0)
    assert record["submission"]["spec"] == (kept.home / SPEC).read_text()
    assert kept("history", run, "-o", "json").json["runs"] == [record]
    for verb in ("status", "history", "delete"):
        told = kept(verb, "mnits")
        assert (told.status, told.err.splitlines()[-1]) == (5, "  hint: did you mean mnist?"), told


def test_list_says_the_full_name_of_a_deleted_run_by_its_record(kept: World) -> None:
    name = "recommendations-of-the-whole-catalogue-of-all-shops"
    kept.submitted(name)
    run = kept.name
    kept.hdfs(ME)
    kept.ends()
    assert kept("delete", name).status == 0
    shutil.rmtree(kept.home / ME / ".yarn/services" / run)
    [job] = kept("list", "-o", "json").json["jobs"]
    assert (job["name"], job["run"]) == (name, run)


def test_the_newest_runs_are_those_that_were_submitted_last(kept: World) -> None:
    for name in ("first", "second", "third"):
        kept.submitted(name)
        kept.passes(600)
    for number, name in enumerate(["second", "third", "first"]):  # as they ended
        [path] = (kept.home / "staging" / "records" / name).glob("*.json")
        at = json.loads(path.read_text())["submission"]["at"]
        os.utime(path, (at, at + 86_400 + 3_600 * number))
    for limit, newest in ((1, ["third"]), (2, ["third", "second"])):
        runs = kept("history", "--limit", str(limit), "-o", "json").json["runs"]
        assert [run["name"] for run in runs] == newest


def test_the_record_has_a_job_spec_that_came_by_a_pipe(kept: World) -> None:
    kept.spec()
    text = (kept.home / SPEC).read_bytes()
    reader, writer = os.pipe()  # as a shell's <(command)
    os.write(writer, text)
    os.close(writer)
    assert kept("submit", f"/dev/fd/{reader}", "-d").status == 0
    os.close(reader)
    [record] = kept("history", "mnist", "-o", "json").json["runs"]
    assert record["submission"]["spec"] == text.decode()


def test_a_key_is_used_as_long_as_any_of_its_numbers_has_a_record(kept: World) -> None:
    kept.submitted()
    first = kept.name
    kept.ends("FAILED")
    app = kept.submitted()
    kept.cluster.clock.after(1, kept.ends)
    assert kept("wait", "mnist").status == 0
    assert kept("delete", "mnist").status == 0
    kept.yarn.apps.clear()
    (kept.home / f"staging/records/mnist/{first}.json").unlink()
    done = kept("submit", SPEC, "--once", "-d")
    assert (done.status, done.out.strip(), kept.yarn.apps) == (0, app, {}), done


@pytest.mark.parametrize("ends", ["succeeded", "failed"])
def test_a_success_that_yarn_has_forgotten_is_not_run_again(kept: World, ends: str) -> None:
    """As Airflow's tries of one task submit it, days after the run has ended."""
    client = submit_tf_job.Client(resource_managers=[RM])
    planned = client.plan(kept.spec(), submission_id="task-1", again="after-failure")
    first = client.submit(planned)
    kept.passes(10)
    kept.of_the_live_one()
    kept.hdfs(ME)
    kept.reports(kept.runs("chief-0")["chief-0"], ends, outcome={"status": int(ends == "failed")})
    kept.ends(ends.upper())
    assert first.wait().is_over
    kept.yarn.apps.clear()
    client = submit_tf_job.Client(resource_managers=[RM])
    again = client.submit(planned)
    assert (again.run == first.run, again.adopted) == (ends == "succeeded", ends == "succeeded")


def test_history_learns_how_a_run_ended_that_nobody_followed(kept: World) -> None:
    kept.submitted()
    chief = kept.runs("chief-0")["chief-0"]
    failure = {"task": "chief-0", "status": 3, "message": "chief-0 exited with status 3"}
    kept.reports(chief, "failed", first_failure=failure, outcome={"status": 3})
    kept.yarn.containers["chief"][0]["state"] = "FAILED"
    kept.cluster.yarn.aggregation = "NOT_START"
    kept.ends("FAILED")
    assert "FAILED" in kept("history").out


def test_look_up_of_a_forgotten_run_writes_nothing(kept: World) -> None:
    kept.submitted()
    records, run = kept.home / "staging/records/mnist", kept.name
    kept.ends()
    kept.yarn.apps.clear()
    (records / f"{run}.report").write_text(json.dumps({"state": "succeeded"}))
    stored = {path.name: path.read_bytes() for path in records.iterdir()}
    assert kept("stop", "mnist").status == 0, "it is over"
    assert {path.name: path.read_bytes() for path in records.iterdir()} == stored
    assert kept("history", "mnist", "-o", "json").json["runs"][0]["end"], "history completes it"


def test_records_are_kept_up_to_a_number(kept: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RECORDS", "2")
    for _ in range(4):
        kept.submitted()
        (kept.home / f"staging/records/mnist/{kept.name}.report").write_text("{}")
        kept.ends()
    assert len(list((kept.home / "staging/records/mnist").iterdir())) == 4, "two with their report"
    assert len(kept("history", "-o", "json").json["runs"]) == 2


def test_a_record_costs_no_submission_and_has_no_secret(kept: World) -> None:
    (kept.home / "staging").mkdir()
    (kept.home / "staging/records").write_text("in the way")
    assert kept("submit", kept.spec(), "-d").status == 0


def test_without_a_staging_directory_there_is_no_history(world: World) -> None:
    done = world("history")
    assert (done.status, "no history is kept" in done.err) == (2, True)
    assert json.loads(world("history", "-o", "json").err)["kind"] == "Error"


def test_a_run_that_nobody_followed_is_known_by_its_deciding_task(kept: World) -> None:
    kept.submitted()
    run, application = kept.name, kept.application
    chief = kept.runs("chief-0")["chief-0"]
    kept.reports(chief, "succeeded", outcome={"status": 0}, progress={"step": 7})
    report = kept.cluster.node.logs[chief, "job-report.json"]
    (kept.home / f"staging/records/mnist/{run}.report").write_bytes(report)
    kept.yarn.apps.clear()
    kept.cluster.node.logs.clear()
    told = kept("status", "mnist", "-o", "json").json
    assert (told["state"], told["confirmed"], told["application_id"]) == (
        "SUCCEEDED",
        False,
        application,
    )
    [record] = kept("history", "-o", "json").json["runs"]
    assert (record["end"]["state"], record["end"]["progress"]["step"]) == ("SUCCEEDED", 7)
    assert [one.name for one in (kept.home / "staging/records/mnist").iterdir()] == [f"{run}.json"]


def test_gc_beside_a_recovering_resource_manager_removes_no_live_job_s_files(kept: World) -> None:
    """It has just started, and does not list the job yet, whose stored service is there."""
    kept.submitted()
    kept.hdfs(ME)
    files = kept.home / "staging/files/mnist"
    files.mkdir(parents=True)
    (files / "train.py").write_text("")
    for path in (files / "train.py", files):
        os.utime(path, (0, 0))
    [app] = kept.yarn.apps.values()
    kept.yarn.apps.clear()
    kept.yarn.crash(kept.yarn.servers[0], 0.0)
    assert kept("staging", "gc").status == 0
    assert files.exists()
    kept.yarn.apps[app.id] = app
    kept.ends()
    kept.passes(61)
    assert kept("staging", "gc").status == 0
    assert not files.exists()


def test_submit_and_gc_keep_as_many_runs_as_they_are_told(
    kept: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RUNS", "3")
    runs = []
    for _ in range(3):
        kept.submitted()
        runs.append(kept.name)
        kept.hdfs(ME)
        kept.ends()
        os.utime(kept.home / f"{ME}/.yarn/services/{kept.name}", (0, 0))
        kept.passes(300)
    assert "DELETE" not in {method for method, _path in kept.asked()}
    assert kept("staging", "gc", "--dry-run", "-o", "json").json["runs"] == []
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RUNS", "2")
    dry = kept("staging", "gc", "--dry-run")
    assert dry.out == f"{runs[0]}: would be deleted, one of more than keep_runs\n"
    assert kept("staging", "gc", "--dry-run", "-o", "json").json["runs"] == [runs[0]]
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RUNS", "9")
    kept.submitted()
    kept.hdfs(ME)
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RUNS", "1")  # the newest that has ended stays, too
    told = kept("staging", "gc", "--dry-run", "-o", "json").json["runs"]
    assert told == sorted(runs[:2])


def test_upload_is_told_once_and_an_ended_job_s_files_are_removed_by_gc(kept: World) -> None:
    (kept.home / "data").write_bytes(os.urandom(10_000_000))
    spec = kept.spec(files=["data"])
    first, again = (kept("submit", spec, "--detach").err for _ in range(2))
    told = r"^uploading 10\.\d MB for mnist\nuploaded in .* s, .*/s$"
    assert re.search(told, first, re.MULTILINE)
    assert "upload" not in again, "nothing has changed"
    assert "upload" not in kept("submit", kept.spec("other", files=["data"]), "--detach", "-q").err
    files = kept.home / "staging/files"
    for path in files.rglob("*"):
        os.utime(path, (0, 0))
    kept.yarn.end(
        next(app for app in kept.yarn.apps.values() if "other" in app.name), "FINISHED", "SUCCEEDED"
    )
    kept.passes(61)
    for dry, words in ((["--dry-run"], "would be removed"), ([], "removed")):
        told = kept("staging", "gc", *dry).out
        assert "mnist: kept, the job is alive (10" in told, told
        assert f"other: {words}, 10" in told, told


@pytest.mark.long
def test_a_thousand_nightly_runs_leave_what_retention_keeps(kept: World) -> None:
    services = kept.home / f"{ME}/.yarn/services"
    for night in range(1000):
        kept.submitted()
        kept.hdfs(ME)
        (services / kept.name / "lib").mkdir()
        (services / kept.name / "lib/hadoop-yarn-services-core.jar").write_text("")
        began = kept.cluster.clock.epoch_ms() / 1000
        for path in services.iterdir():
            if (ME, path.name) not in kept.yarn.directories:
                shutil.rmtree(path)  # a DELETE removes what YARN has stored
            elif path.stat().st_mtime > began:
                os.utime(path, (began, began))  # something in it changed, by HDFS's clock
        succeeds(kept)
        kept.ends()
        kept.passes(86400)
        if night % 50 == 49:
            kept.yarn.apps.clear()  # a ResourceManager remembers as many as it is told to
    runs = {path.name for path in services.iterdir()}
    assert (len(runs), kept.name in runs) == (5, True)
    assert [path.parent.name for path in services.glob("*/lib")] == [kept.name]
    assert len(kept("history", "mnist", "--limit", 2000, "-o", "json").json["runs"]) == 1000


def test_no_text_of_others_costs_a_success_or_its_record(kept: World) -> None:
    """As a program writes it by `json.dumps` of a file's name that is not UTF-8."""
    kept.submitted()
    chief = kept.runs("chief-0")["chief-0"]
    progress = {"step": 4, "total": None, "unit": "\ud800", "metrics": {"lo\udc80ss": 0.5}}
    outputs = [{"name": "m", "uri": "hdfs:///m\udcff", "tasks": 1}]
    events = [{"at": 1e308, "text": "late"}, {"at": 1.0, "text": "\x1b[2J\udc80"}]
    told: dict[str, Any] = {"progress": progress, "outputs": outputs, "events": events}
    kept.reports(chief, "succeeded", outcome={"status": 0}, warnings=["a\udc80"], **told)
    kept.cluster.clock.after(1, kept.ends)
    for words in ("wait", "status", "describe"):
        for more in ((), ("-o", "json")):
            done = kept(words, "mnist", *more)
            assert done.status == 0, done
            assert r"lo\udc80ss" in done.out.replace(r"\\u", r"\u")
    handle = submit_tf_job.Client(resource_managers=[RM]).attach("mnist")
    assert handle.wait().confirmed
    assert handle.why_failed() is None
    [record] = kept("history", "mnist", "-o", "json").json["runs"]
    assert record["end"]["state"] == "SUCCEEDED"
    assert record["end"]["progress"]["unit"] == r"\ud800"
    assert kept("history").status == kept("list").status == 0


@pytest.mark.parametrize("words", ["by \ud800", "by \x1b[2Jann", "by \udcff\x9b\x00"])
def test_what_yarn_quotes_of_others_is_text(kept: World, words: str) -> None:
    """Diagnostics have what a container wrote; names and tags are what any client sent."""
    app = kept.yarn.apps[kept.submitted()]
    kept.runs("chief-0")
    app.words, app.state, app.final = words, "KILLED", "KILLED"
    seen = submit_tf_job.Client(resource_managers=[RM]).attach("mnist").status()
    assert seen.reason.startswith("it was stopped: by ")
    assert seen.reason.isprintable()


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a": NaN}', b"\xff", b"5"])
def test_a_damaged_last_report_beside_the_record_is_none(kept: World, content: bytes) -> None:
    kept.submitted()
    kept.runs("chief-0")
    [record] = (kept.home / "staging/records/mnist").iterdir()
    record.with_suffix(".report").write_bytes(content)
    assert kept("history", "mnist").status == 0
    assert kept("status", "mnist").status == 0


def test_the_deciding_task_finds_in_the_record_how_long_the_job_may_run(kept: World) -> None:
    """Which is YARN's to say for everybody else."""
    kept.submitted(lifetime="1h")
    [file] = (kept.home / "staging/records/mnist").glob("*.json")
    assert json.loads(file.read_text())["lifetime_s"] == 3600
    assert kept("extend", "mnist", "2h").status == 0
    assert json.loads(file.read_text())["lifetime_s"] == 7200
    assert kept("extend", "mnist", "1h").status == 0
    assert json.loads(file.read_text())["lifetime_s"] == 7200
    assert "lifetime_s" not in kept("history", "mnist", "-o", "json").json["runs"][0]
    file.unlink()
    assert kept("extend", "mnist", "3h").status == 0
    assert not file.exists()


@pytest.mark.parametrize("kind", ["cut", "silent", "truncated"])
def test_a_run_whose_post_was_not_answered_has_a_record(kept: World, kind: str) -> None:
    kept.spec(lifetime="1h")
    kept.fails(1, "POST", "/services$", kind)
    assert kept("submit", SPEC, "-d").status == 0
    [file] = (kept.home / "staging/records/mnist").glob("*.json")
    record = json.loads(file.read_text())
    [app] = kept.yarn.apps.values()
    assert (record["application_id"], record["submission"]["at"]) == (
        app.id,
        app.started_ms // 1000,
    )
    assert 3400 < record["lifetime_s"] <= 3600, "what YARN says is left"
    assert kept("history", "mnist").status == 0


def test_a_run_whose_client_was_killed_after_the_post_gets_a_record(kept: World) -> None:
    kept.submitted(lifetime="1h")
    [file] = (kept.home / "staging/records/mnist").glob("*.json")
    before = json.loads(file.read_text())
    file.unlink()
    kept.passes(600)
    assert kept("submit", SPEC, "-d").status == 0
    record = json.loads(file.read_text())
    assert record["submission"] == before["submission"]
    assert 2900 < record["lifetime_s"] <= 3000
    file.unlink()
    succeeds(kept)
    kept.ends()
    assert kept("submit", SPEC, "-d", "--once").status == 0
    assert not file.exists(), "of a run that is over nothing is known here"


@pytest.mark.parametrize("kind", ["no-connection", "refused", "cut"])
def test_an_extension_that_yarn_does_not_take_is_not_in_the_record(kept: World, kind: str) -> None:
    """Else the tasks would save too late, when YARN has killed them."""
    app = kept.yarn.apps[kept.submitted(lifetime="1h")]
    [file] = (kept.home / "staging/records/mnist").glob("*.json")
    kept.passes(600)
    kept.fails(500, "PUT", "/services/", kind)
    assert kept("extend", "mnist", "2h").status == 7
    assert app.lifetime_s is not None
    left_s = app.lifetime_s - (kept.cluster.clock.epoch_ms() - app.started_ms) / 1000
    assert json.loads(file.read_text())["lifetime_s"] == pytest.approx(left_s, abs=120)
