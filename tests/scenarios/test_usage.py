"""`usage`: what a job uses of what it asked for, live, after its end, and from the record."""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import submit_tf_job
from tests.json_page import check
from tests.world import RM, World

ROOT = Path(__file__).parents[2]
FILE, QUARTER = "job-usage.json", 1 << 28
AMOUNTS = {
    "least": 1.0,
    "mean": 1.5,
    "most": 2.0,
    "least_task": "worker-0",
    "most_task": "worker-1",
}
BYTES = {**AMOUNTS, "least": QUARTER, "mean": 1.5 * QUARTER, "most": 2 * QUARTER}
TASK = {
    "cpu_cores": {"now": 2.0, "mean": 1.5},
    "memory_bytes": {"now": QUARTER, "mean": QUARTER, "peak": 2 * QUARTER},
}
GPU = {
    "percent": {"now": 50, "mean": 40.0, "peak": 90},
    "memory_bytes": {"now": 1, "mean": 1, "peak": 2},
}
CURVE = {"name": "loss", "kind": "metric", "task": "chief-0", "step_unit": "epoch"}
USAGE: dict[str, Any] = {
    "version": 1,
    "run": "mnist-4abcdefg",
    "started_at": 1795256400.0,
    "updated_at": 1795256460.0,
    "roles": {
        "worker": {
            "tasks": 2,
            "for_s": 60,
            "cpu_cores": {"now": AMOUNTS, "mean": {**AMOUNTS, "most": 0.1}},
            "memory_bytes": {"now": BYTES, "mean": BYTES, "peak": BYTES},
            "peak_by": "kernel",
        }
    },
    "tasks": [{"task": "worker-1", "for_s": 60, "peak_by": "kernel", "gpus": [GPU], **TASK}],
    "series": [{**CURVE, "points": [[1, 1, 0.5], [2, 2, "NaN"]], "least": [1, 1, 0.5], "most": [1, 1, 0.5]}],
}  # fmt: skip


def runs(world: World, *, part: float = 0.5) -> str:
    roles = {"chief": {"memory": "1Gi"}, "worker": {"memory": "4Gi", "instances": 2}}
    chief = world.running(roles=roles)["chief-0"]
    task = {"task": "chief-0", "state": "running", "host": "node1", "container": chief}
    told: dict[str, Any] = {"deciding": "chief-0", "tasks": [task]}
    told["progress"] = {"step": 3, "part": part, "metrics": {}}
    world.reports(chief, "running", **told)
    world.writes(chief, FILE, USAGE)
    return chief


def test_usage_of_a_running_job(world: World) -> None:
    runs(world)
    done = world("usage", "mnist", "--tasks")
    assert (done.status, done.err) == (0, "")
    assert "now 384 MiB  mean 384 MiB  peak 512 MiB (worker-1)" in done.out
    assert "  worker-1  2.0    1.5   256 MiB  256 MiB  512 MiB  40 %" in done.out
    found = world("usage", "mnist", "-o", "json").json
    assert found["series"][0]["points"] == [[1, 1, 0.5], [2, 2, "NaN"]]
    assert found["roles"]["worker"]["memory_bytes"]["peak"]["most_task"] == "worker-1"
    check("Usage", found)


@pytest.mark.parametrize(("part", "advised"), [(0.19, False), (0.2, True)])
def test_usage_advises_after_a_fifth_of_the_run(world: World, part: float, advised: bool) -> None:
    runs(world, part=part)
    assert bool(world("usage", "mnist", "-o", "json").json["advice"]) == advised


def test_usage_of_a_job_that_has_told_nothing(world: World) -> None:
    world.running()
    done = world("usage", "mnist")
    assert (done.status, "what its tasks use is not known" in done.out) == (0, True)


def test_usage_of_what_is_no_usage(world: World) -> None:
    chief = world.running()["chief-0"]
    strange_ones: tuple[Any, ...] = (
        b"[]",
        {"version": 2, "run": "x"},
        {"version": 1, "run": "x", "roles": 3, "series": [1]},
    )
    for strange in strange_ones:
        world.writes(chief, FILE, strange)
        assert world("usage", "mnist").status == 0


def test_account_of_a_team(world: World) -> None:
    world.running()
    found = world("usage", "--since", "7d", "--by", "job", "-o", "json").json
    assert [row["of"] for row in found["rows"]] == ["mnist"]
    check("Account", found)
    assert world("usage", "--since", "7d").out.splitlines()[0].split()[0] == "USER"
    for words in (
        ["usage"],
        ["usage", "mnist", "--since", "7d"],
        ["usage", "--since", "7d", "--by", "x"],
    ):
        assert world(*words).status == 2


# what a worker asks for, its peak in MiB and its mean cores; what is advised
ADVICE: dict[str, tuple[dict[str, Any], float, float, list[str]]] = {
    "memory": ({"memory": "16Gi"}, 3174, 0.9, ["memory=4Gi"]),
    "memory in a large unit": ({"memory": "1536Mi"}, 300, 0.9, ["memory=1Gi"]),
    "not worth it": ({"memory": "16Gi"}, 11264, 0.9, []),
    "more than it asked for": ({"memory": "16Gi"}, 17408, 0.9, []),
    "cores": ({"memory": "4Gi", "cpus": 8}, 3174, 1.7, ["cpus=3"]),
    "an idle task keeps a core": ({"memory": "4Gi", "cpus": 4}, 3174, 0.0, ["cpus=1"]),
}


def told(mib: float, cores: float, **more: Any) -> dict[str, Any]:
    memory = {**AMOUNTS, "most": mib * 1024 * 1024}
    worker = {"tasks": 2, "for_s": 700, "peak_by": "bound", **more}
    worker |= {"memory_bytes": {"peak": memory}, "cpu_cores": {"mean": {**AMOUNTS, "most": cores}}}
    return {**USAGE, "roles": {"worker": worker}, "series": []}


@pytest.mark.parametrize("name", ADVICE)
def test_usage_advises_the_most_that_was_used_and_a_fifth_more(world: World, name: str) -> None:
    asked, mib, cores, wanted = ADVICE[name]
    world.yarn.site.max_mb = 32768
    roles = {"chief": {"memory": "1Gi"}, "worker": {**asked, "instances": 2}}
    chief = world.running(roles=roles)["chief-0"]
    world.reports(chief, "running", progress={"step": 3, "part": 0.5, "metrics": {}})
    world.writes(chief, FILE, told(mib, cores))
    found = world("usage", "mnist", "-o", "json").json["advice"]
    assert [one["option"] for one in found] == [f"--set roles.worker.{text}" for text in wanted]
    shown = world("usage", "mnist").out
    assert "peak at most" in shown
    assert max(map(len, shown.splitlines())) <= 90


@pytest.mark.parametrize(("used", "said"), [(0, "none"), (1, "1")])
def test_usage_advises_about_idle_gpus(world: World, used: int, said: str) -> None:
    world.yarn.site.max_gpus = 2
    roles = {"chief": {"memory": "1Gi"}, "worker": {"memory": "1Gi", "gpus": 2, "instances": 2}}
    chief = world.running(roles=roles)["chief-0"]
    world.reports(chief, "running", progress={"step": 3, "part": 0.5, "metrics": {}})
    spread = {"peak": {**AMOUNTS, "most": used}}
    world.writes(chief, FILE, told(900, 0.9, gpus_used=spread))
    [one] = world("usage", "mnist", "-o", "json").json["advice"]
    assert (one["sentence"], one["option"]) == (
        f"worker used {said} of 2 GPUs",
        f"--set roles.worker.gpus={used}",
    )
    world.writes(chief, FILE, told(900, 0.9, gpus_used=spread, gpus_unknown="nvidia-smi hangs"))
    done = world("usage", "mnist")
    assert ("advice" in done.out, "not known: nvidia-smi hangs" in done.out) == (False, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mnist", "--by", "user"], "--by is for the account of all jobs"),
        (["--since", "7d", "--tasks"], "--tasks is for a job"),
    ],
)
def test_usage_refuses_options_of_the_other_form(
    world: World, words: list[str], message: str
) -> None:
    done = world("usage", *words)
    assert (done.status, done.out, message in done.err) == (2, "", True)


def test_usage_of_gpus_that_is_known_in_part(world: World) -> None:
    chief = runs(world)
    used = copy.deepcopy(USAGE)
    used["tasks"][0]["gpus"] = [{"memory_total_bytes": 1}, GPU]
    used["roles"]["worker"] |= {
        "gpu_percent": {"mean": AMOUNTS},
        "gpus_unknown": "worker-1: nvidia-smi has ended",
    }
    world.writes(chief, FILE, used)
    lines = world("usage", "mnist", "--tasks").out.splitlines()
    assert "    GPU      in part not known: worker-1: nvidia-smi has ended" in lines
    [row] = [line for line in lines if line.startswith("  worker-1  ")]
    assert "  -, 40 %  -, " in row


def test_end_of_a_long_run_says_that_it_used_little(kept: World) -> None:
    roles = {"chief": {"memory": "1Gi"}, "worker": {"memory": "4Gi", "instances": 2}}
    chief = kept.running(roles=roles)["chief-0"]
    kept.passes(900)
    kept.reports(chief, "succeeded", outcome={"status": 0})
    kept.ends()
    [record] = kept.home.rglob(f"{kept.name}.json")
    record.with_suffix(".usage").write_text(json.dumps(told(300, 0.9)))
    done = kept("wait", "mnist")
    wanted = "worker used at most 300 MiB of the 4Gi that it held; submit_tf_job usage mnist says what to ask for"
    assert (done.status, wanted in done.err + done.out) == (0, True), done
    assert "worker at most 300 MiB of 4Gi" in kept("describe", "mnist").out
    assert f"  memory       {wanted}" in kept("status", "mnist").out.splitlines()


# how a run ends whose deciding task writes no record; the command that learns of it
ENDS: dict[str, tuple[str, ...]] = {
    "stopped here": ("stop", "mnist"),
    "stopped elsewhere": ("status", "mnist"),
    "in the history": ("history",),
}


@pytest.mark.parametrize("end", ENDS)
def test_curves_of_a_stopped_run_stay(kept: World, end: str) -> None:
    kept.writes(runs(kept), FILE, {**USAGE, "run": kept.name})
    before = kept("usage", "mnist", "-o", "json").json
    assert before["series"]
    if end != "stopped here":
        kept.ends("KILLED", "KILLED")
    assert kept(*ENDS[end]).status == 0
    kept.cluster.node.logs.clear()
    found = kept("usage", kept.name, "-o", "json").json
    assert (found["series"], found["roles"]) == (before["series"], before["roles"])
    [record] = kept.home.rglob(f"{kept.name}.usage")
    assert record.stat().st_size < 65536


def test_record_of_a_stopped_run_is_small(kept: World) -> None:
    points = [[at, at, at / 7] for at in range(240)]
    series = [{**CURVE, "name": f"metric {number}", "points": points} for number in range(40)]
    chief = runs(kept)
    kept.writes(chief, FILE, {**USAGE, "series": series, "tasks": USAGE["tasks"] * 200})
    assert kept("stop", "mnist").status == 0
    kept.cluster.node.logs.clear()
    [record] = kept.home.rglob(f"{kept.name}.usage")
    assert record.stat().st_size < 65536
    found = kept("usage", kept.name, "-o", "json").json["series"]
    assert [one["name"] for one in found] == [one["name"] for one in series]
    assert {one["points"][-1][1] for one in found} == {239}


def test_a_file_with_any_number_of_curves_shows_a_bounded_one(kept: World) -> None:
    series = [{**CURVE, "name": f"metric {number}"} for number in range(5000)]
    kept.writes(runs(kept), FILE, {**USAGE, "series": series})
    found = kept("usage", kept.name, "-o", "json").json["series"]
    assert [one["name"] for one in found] == [f"metric {number}" for number in range(240)]


def test_who_watches_asks_once_in_fifteen_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(world)
    cell = SimpleNamespace(update=lambda *_, **__: None)
    cell.display = lambda *_, **__: cell
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    handle = submit_tf_job.Client(resource_managers=[RM]).attach("mnist")
    costs = []
    for notebook in (False, True):
        monkeypatch.setattr("submit_tf_job.sdk.notebook.in_notebook", lambda on=notebook: on)
        world.asked()
        with pytest.raises(submit_tf_job.DeadlinePassed):
            handle.watch(timeout_s=120)
        costs.append(world.asked())
    plain, shown = ([path for _, path in asked] for asked in costs)
    looks = [path for path in shown if FILE in path]
    assert 5 <= len(looks) <= 9  # due after 15 s, with the next status, whose pause is random
    assert not [path for path in plain if FILE in path]
    details = 120 / 15 + 1  # of the table of tasks
    assert len(shown) - len(plain) <= len(looks) + details


def test_usage_prints_what_the_documentation_shows(world: World) -> None:
    page = (ROOT / "docs/operate.md").read_text("utf-8")
    [shown] = re.findall(r"    \$ submit_tf_job usage churn\n((?:    .*\n)+)", page)
    world.yarn.site.max_mb, world.yarn.site.max_gpus = 32768, 4
    worker = {"memory": "16Gi", "cpus": 4, "gpus": 1, "instances": 4}
    spec = {"strategy": "multi-worker", "roles": {"worker": worker}}
    first = world.running("worker-0", name="churn", **spec)["worker-0"]
    world.reports(first, "running", progress={"step": 3, "part": 0.5, "metrics": {}})

    def of(mean: float, most: float, task: str) -> dict[str, Any]:
        return {**AMOUNTS, "least": mean / 2, "mean": mean, "most": most, "most_task": task}

    gib = 1 << 30
    memory = {"mean": of(2.8 * gib, 3 * gib, ""), "peak": of(3 * gib, 3.1 * gib, "worker-2")}
    held = {"mean": of(30.1 * gib, 30.2 * gib, ""), "peak": of(30 * gib, 30.3 * gib, "worker-3")}
    told = {
        "memory_bytes": memory,
        "cpu_cores": {"mean": of(1.6, 1.7, "worker-0")},
        "gpu_percent": {"mean": of(37, 40, ""), "peak": of(60, 98, "worker-1")},
        "gpus_used": {"peak": of(1, 1, "worker-0")},
        "gpu_memory_bytes": held,
    }
    use = {"tasks": 4, "for_s": 2520, "peak_by": "kernel", **told}
    world.writes(first, FILE, {**USAGE, "roles": {"worker": use}})
    printed = world("usage", "churn").out.splitlines()
    assert printed[0].startswith("churn  RUNNING  after")
    wanted = [line.removeprefix("    ") for line in shown.splitlines()]
    for lines in (printed, wanted):
        lines[:] = [line for line in lines[1:] if not line.startswith("charged")]
    assert printed == wanted
