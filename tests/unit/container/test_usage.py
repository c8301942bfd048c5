"""What tasks use and curves: thinning, roles of any size, control groups; no clock and no process."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract, control_groups, job_report, sampler
from tests.unit.container.descriptions import role
from tests.unit.container.played import Played

THREE_HOURS = 3 * 3600


def use(**changed: Any) -> dict[str, Any]:
    found = {"for_s": 60.0, "peak_by": "kernel"}
    found["cpu_cores"] = {"now": 1.5, "mean": 1.25}
    found["memory_bytes"] = {"now": 100, "mean": 90, "peak": 200}
    return {**found, **changed}


def played(workers: int = 1) -> Played:
    made = Played({"chief": role(1, "trains"), "worker": role(workers, "trains")})
    made.start()
    return made


def written(made: Played) -> dict[str, Any]:
    """Return the file as it is written at the end."""
    writer: Any = job_report.Writer(made.job).usage
    writer.write(made.now, over=True)
    found: dict[str, Any] = json.loads(json.dumps(writer.last, allow_nan=False))
    return found


# --- curves ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2, 239, 240, 241, 480, 481, 1000, THREE_HOURS])
def test_curve_of_any_length_has_at_most_240_points_evenly(count: int) -> None:
    made = played()
    for second in range(count):
        told = {"step": second, "metrics": {"loss": float(second)}}
        made.job.usage.metrics(float(second), "chief-0", told, True)
    (curve,) = written(made)["series"]
    points = curve["points"]
    assert points[-1] == [count - 1, count - 1, count - 1], "the newest value is there"
    assert min(count, 120) <= len(points) <= contract.SERIES_POINTS
    assert len({later[0] - one[0] for one, later in itertools.pairwise(points[:-1])}) <= 1
    assert (curve["least"][2], curve["most"][2]) == (0, count - 1)


def test_curve_keeps_peaks_of_memory_and_means_of_cpu() -> None:
    made = played()
    for second in range(THREE_HOURS):
        cpu, memory = {"mean": float(second % 2)}, {"most": 9e9 if second == 5000 else 1e9}
        made.job.usage.add_points(
            second, {"worker": {"cpu_cores": {"now": cpu}, "memory_bytes": {"now": memory}}}
        )
    cpu_curve, memory_curve = written(made)["series"]
    assert max(point[2] for point in memory_curve["points"]) == 9e9
    assert all(point[2] == pytest.approx(0.5, abs=0.1) for point in cpu_curve["points"][:-1])


def test_curve_replaces_the_value_of_a_step_and_keeps_what_is_not_finite() -> None:
    made = played()
    told = [(1, 1, 0.5), (2, 1, 0.5), (3, 1, 0.4), (4, 2, "NaN"), (9, 2, "NaN")]
    for at, step, value in told:
        made.job.usage.metrics(at, "chief-0", {"step": step, "metrics": {"loss": value}}, True)
    (curve,) = written(made)["series"]
    assert curve["points"] == [[3, 1, 0.4], [4, 2, "NaN"]]
    assert (curve["least"], curve["most"]) == ([3, 1, 0.4], [1, 1, 0.5])


# --- a run of three hours in virtual time ---------------------------------------------------------
@pytest.mark.slow
def test_usage_of_a_run_of_three_hours_fits_in_its_record() -> None:
    made = played(199)
    writer: Any = job_report.Writer(made.job).usage
    for second in range(0, THREE_HOURS, 30):
        made.now += 30
        metrics = {f"metric {i}": second / 7 + i for i in range(20)}
        made.job.record_progress(made.now, made.job.me, {"step": second // 60, "metrics": metrics})
        heard = 200 if second > THREE_HOURS - 100 else 2  # all of them cost 20 s of CPU
        for name in list(made.job.members)[:heard]:
            made.job.usage.heard(name, use())
        writer.write(made.now, over=False)
    live, record = writer.last, writer.record()
    assert len(record) <= job_report.RECORD_BYTES
    kept = json.loads(record)
    assert len(live["series"]) == len(kept["series"]) == 24
    assert all(len(series["points"]) <= contract.SERIES_POINTS for series in live["series"])
    assert all(len(series["points"]) >= 15 for series in kept["series"])
    last = (THREE_HOURS - 30) // 60
    assert {s["points"][-1][1] for s in (*live["series"][:20], *kept["series"][:20])} == {last}
    assert [s["least"] for s in kept["series"]] == [s["least"] for s in live["series"]]
    assert kept["roles"] == live["roles"]
    assert len(live["tasks"]) == 200


@pytest.mark.slow
def test_usage_of_a_role_is_small_for_any_number_of_tasks() -> None:
    sizes = []
    for count in (10, 9999):
        made = played(count)
        for index in range(count):
            memory = {"now": index, "mean": index, "peak": index}
            made.job.usage.heard(f"worker-{index}", use(memory_bytes=memory))
        roles = written(made)["roles"]
        sizes.append(len(json.dumps(roles)))
        peak = roles["worker"]["memory_bytes"]["peak"]
        found = {key: peak[key] for key in ("least", "most", "least_task", "most_task")}
        most = f"worker-{count - 1}"
        assert found == {"least": 0, "most": count - 1, "least_task": "worker-0", "most_task": most}
        assert "memory_bytes" not in json.dumps(made.report()), "a look is not larger"
    assert sizes[1] < 1.1 * sizes[0]


def test_tasks_are_listed_in_their_order_whoever_reported_first() -> None:
    made = played(2)
    for name in ("worker-1", "chief-0", "worker-0"):
        made.job.usage.heard(name, use())
    listed = [one["task"] for one in written(made)["tasks"]]
    assert listed == ["chief-0", "worker-0", "worker-1"]


# --- metrics --------------------------------------------------------------------------------------
def test_metric_that_is_not_finite_is_warned_of_while_it_is() -> None:
    made = played()
    for step, loss in [(1, 0.5), (2, "NaN"), (3, float("nan")), (4, "Infinity")]:
        told = {"step": step, "unit": "epoch", "metrics": {"loss": loss}}
        made.job.record_progress(made.now, made.job.me, told)
    assert made.job.warnings == ["loss is NaN since epoch 2"]
    values = [point[2] for point in written(made)["series"][0]["points"]]
    assert values == [0.5, "NaN", "NaN", "Infinity"]
    assert made.report()["progress"]["metrics"] == {"loss": "Infinity"}
    made.job.record_progress(made.now, made.job.me, {"step": 5, "metrics": {"loss": 0.4}})
    assert made.job.warnings == []


def test_metrics_are_those_of_whole_epochs() -> None:
    made = played()
    for told in [
        {"step": 1, "metrics": {}, "part": 0.1},
        {"step": 1, "metrics": {"loss": 3}, "part": 0.5},
        {"step": 2, "metrics": {"loss": 3}, "metrics_step": 1, "part": 0.7},
        {"step": 2, "metrics": {"loss": 2}, "part": 1},
    ]:
        made.now += 1
        made.job.record_progress(made.now, made.job.me, {"unit": "epoch", **told})
    (loss,) = written(made)["series"]
    assert [point[1:] for point in loss["points"]] == [[1, 3], [2, 2]]
    assert (loss["step_unit"], loss["task"], loss["kind"]) == ("epoch", "chief-0", "metric")


# who told which metrics one after the other; name → task and values of the curve
TELLERS: dict[str, tuple[list[tuple[str, str, float]], dict[str, tuple[str, list[float]]]]] = {
    "two workers, the chief is silent": (
        [("worker-0", "loss", 3), ("worker-1", "loss", 9), ("worker-0", "loss", 2)],
        {"loss": ("worker-0", [3, 2])},
    ),
    "two metrics": (
        [("worker-0", "loss", 3), ("worker-1", "auc", 0.5), ("worker-0", "loss", 2)],
        {"loss": ("worker-0", [3, 2]), "auc": ("worker-1", [0.5])},
    ),
    "the chief begins": (
        [("worker-0", "loss", 3), ("worker-0", "auc", 0.5), ("chief-0", "loss", 7)],
        {"loss": ("chief-0", [7]), "auc": ("worker-0", [0.5])},
    ),
}


@pytest.mark.parametrize("case", TELLERS)
def test_curve_of_a_metric_is_of_one_task(case: str) -> None:
    made, (told, expected) = played(2), TELLERS[case]
    for step, (task, name, value) in enumerate(told):
        made.now += 1
        progress = {"step": step, "unit": f"step of {task}", "metrics": {name: value}}
        made.job.record_progress(made.now, made.job.members[task], progress)
    series = written(made)["series"]
    found = {one["name"]: (one["task"], [value for _, _, value in one["points"]]) for one in series}
    assert found == expected
    assert all(one["step_unit"] == f"step of {one['task']}" for one in series)


def test_usage_of_strange_messages_costs_nothing() -> None:
    made = played()
    every: tuple[Any, ...] = (
        None,
        [],
        3,
        "x",
        {"for_s": "x"},
        {"cpu_cores": {"now": -1}, "gpus": [1, {}, {"percent": 1}] * 99},
    )
    for strange in every:
        made.job.usage.heard("worker-0", strange)
    assert "cpu_cores" not in written(made)["roles"]["worker"]


def test_usage_keeps_the_peak_of_an_earlier_container() -> None:
    made = played()
    made.job.usage.heard("worker-0", use(memory_bytes={"now": 1, "peak": 900}, peak_by="bound"))
    made.job.usage.heard("worker-0", use())
    (task,) = written(made)["tasks"]
    assert (task["memory_bytes"]["peak"], task["peak_by"]) == (900, "bound")


# --- control groups -------------------------------------------------------------------------------
V2 = {
    "memory.stat": "anon 500\nfile 300\nshmem 100\n",
    "memory.peak": "1000",
    "cpu.stat": "usage_usec 2000000\n",
}
V1_MEMORY = {"memory.stat": "total_rss 500\ntotal_cache 300\n", "memory.max_usage_in_bytes": "1000"}
V1_CPU = {"cpuacct.usage": "2000000000"}
MINE, OTHERS = f"{os.getpid()}\n", f"{os.getpid()}\n1\n99999\n"
# files below the root, this process's groups; whether the group is the container's own
GROUPS: dict[str, tuple[dict[str, dict[str, str]], str, bool]] = {
    "docker, version 2": ({"": {**V2, "cgroup.procs": MINE}}, "0::/\n", True),
    "a node's service, version 2": ({"/nm": {**V2, "cgroup.procs": OTHERS}}, "0::/nm\n", False),
    "a container, version 2": (
        {"/yarn/c_1": {**V2, "cgroup.procs": OTHERS}},
        "0::/yarn/c_1\n",
        True,
    ),
    "the node's root, version 1": (
        {
            "memory": {**V1_MEMORY, "cgroup.procs": OTHERS},
            "cpuacct": {**V1_CPU, "cgroup.procs": OTHERS},
        },
        "4:memory:/\n2:cpu,cpuacct:/\n",
        False,
    ),
    "docker, version 1": (
        {
            "memory": {**V1_MEMORY, "cgroup.procs": MINE},
            "cpuacct": {**V1_CPU, "cgroup.procs": MINE},
        },
        "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
        True,
    ),
    "outside of the root": ({"": {**V2, "cgroup.procs": OTHERS}}, "0::/../../c_1\n", False),
    "none": ({}, "", False),
}


@pytest.mark.parametrize("name", GROUPS)
def test_own_group_is_that_of_this_container_alone(tmp_path: Path, name: str) -> None:
    folders, groups, own = GROUPS[name]
    for folder, files in folders.items():
        place = tmp_path / "cgroup" / folder.strip("/")
        place.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (place / file).write_text(text)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
    root, proc = str(tmp_path / "cgroup"), str(tmp_path / "proc")
    found = control_groups.own_group({os.getpid()}, "c_1", root, proc)
    assert bool(found) == own
    if found:
        assert found.cpu_s() == 2.0
        used, risen = found.memory()
        assert (used, risen) == (600 if "2" in name else 500, 0)
        mark = next(tmp_path.rglob("memory.peak"), None) or next(tmp_path.rglob("memory.max_*"))
        mark.write_text("5000")
        assert found.memory()[1] == 5000 - (200 if "2" in name else 300), "less the cache of files"


def write_process(proc: Path, pid: int, parent: int, own: int, waited_for: int) -> None:
    """Write what the kernel tells of a process: its CPU time, and that of its ended children."""
    zeros = " ".join("0" * 9)
    times = f"{own} 0 {waited_for} 0"
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a b) S {parent} {zeros} {times} 0 0 0 0 7 0 9")


def test_tree_counts_a_child_that_ends_during_a_measurement_at_most_once(tmp_path: Path) -> None:
    """Whatever the order in which the kernel lists them."""
    me, child = 1007, 1008

    class Ending(sampler.Tree):
        def _read_process(self, pid: int) -> sampler.MeasuredProcess:
            seen = super()._read_process(pid)
            if pid == child:  # it ends once it was read, and its parent waits for it
                shutil.rmtree(tmp_path / str(child))
                write_process(tmp_path, me, 1, 100, 500)
            return seen

    write_process(tmp_path, me, 1, 100, 0)
    write_process(tmp_path, child, me, 500, 0)
    tree = Ending(str(tmp_path))
    tree.me = me
    ticks = os.sysconf("SC_CLK_TCK")
    for _ in range(2):
        assert sum(one.cpu_s for one in tree.read().values()) * ticks == 600
