"""`compare`: runs side by side, by their records."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from tests.builders.records import report_of, write_record
from tests.json_page import check
from tests.scenarios.conftest import ME
from tests.world import World

SPEC = """\
name: churn
strategy: multi-worker
image: tf:2.15
command: [python, train.py, --lr, '0.1', --layers, '64', '32', data.csv]
env: {SEED: '1'}
roles: {worker: {instances: 2, memory: 2Gi}, tensorboard: {memory: 1Gi, command: tensorboard}}
"""
_SET = "command=[python, train.py, --lr, "
# what `--set` changed, or another job spec → differences: kind, name, role, value before and after
DIFFERENT: list[tuple[str, list[tuple[str, str, str, str | None, str | None]]]] = [
    ("", []),
    ("roles.worker.memory=4Gi", [("key", "roles.worker.memory", "", "2Gi", "4Gi")]),
    ("roles.worker.cpus=2", [("key", "roles.worker.cpus", "", None, "2")]),
    ("lifetime=2h", [("key", "lifetime", "", None, "2h")]),
    ("env.SEED=2", [("variable", "SEED", "", "1", "2")]),
    ("env.MODE=fast", [("variable", "MODE", "", None, "fast")]),
    ("roles.worker.env.SEED=2", [("variable", "SEED", "worker", "1", "2")]),
    ("image=tf:2.16", [("image", "image", "", "tf:2.15", "tf:2.16")]),
    ("roles.tensorboard.image=tb:1", [("image", "image", "tensorboard", "tf:2.15", "tb:1")]),
    (_SET + "'0.5', --layers, '64', '32', data.csv]", [("argument", "--lr", "", "0.1", "0.5")]),
    (_SET + "'-1e-3', --layers, '64', '32', data.csv]", [("argument", "--lr", "", "0.1", "-1e-3")]),
    (_SET + "'0.1', --layers, '64', data.csv]", [("argument", "--layers", "", "64 32", "64")]),
    (
        _SET + "'0.1', --layers, '64', '32', b.csv]",
        [("argument", "argument 2", "", "data.csv", "b.csv")],
    ),
    ("command=python train.py --lr=0.1 --layers 64 32 data.csv", []),
    (
        "command=python train.py --lr=0.1 --layers 64 32 data.csv seed=3",
        [("argument", "seed", "", None, "3")],
    ),
    (
        "roles.tensorboard.command=tensorboard --port 80",
        [("argument", "--port", "", None, "80")],
    ),
]


def spec_at(world: World, text: str = SPEC) -> None:
    (world.home / "churn.yaml").write_text(text)


def submitted(world: World, *words: str) -> str:
    """Submit a job that has ended; return its run."""
    done = world("submit", "churn.yaml", "-d", "-o", "json", *words)
    assert done.status == 0, done
    world.passes(10)
    world.application, world.name = done.json["application_id"], done.json["run"]
    world.ends()
    return str(done.json["run"])


@pytest.mark.parametrize("old", [False, True], ids=["values", "job-spec"])
@pytest.mark.parametrize(("changed", "expected"), DIFFERENT)
def test_compare_shows_exactly_what_differs(
    kept: World, changed: str, expected: list[tuple[Any, ...]], old: bool
) -> None:
    spec_at(kept)
    runs = [
        submitted(kept),
        submitted(kept, "--submission-id", "2", *(["--set", changed] if changed else [])),
    ]
    if old:  # records of earlier versions have the job spec alone
        for path in (kept.home / "staging/records/churn").glob("*.json"):
            record = json.loads(path.read_text())
            del record["submission"]["values"]
            path.write_text(json.dumps(record))
    found = kept("compare", *runs, "-o", "json").json
    told = [
        (
            one["kind"],
            one["name"],
            one["role"],
            *(run["values"][one["label"]] for run in found["runs"]),
        )
        for one in found["differences"]
    ]
    assert told == expected


# run → learning rate in the program, loss curve, accuracy, peak in MiB
HPO: dict[str, tuple[str, list[Any], float, int | None]] = {
    "hpo-lr1-4aaaaaaa": ("0.1", [0.9, 0.4, 0.5], 0.81, 700),
    "hpo-lr2-4aaaaaaa": ("0.01", [0.9, 0.3, 0.3], 0.92, 300),
    "hpo-lr3-4aaaaaaa": ("1.0", [2.5, "NaN", "NaN"], 0.5, None),
}
PROGRAM = "import keras\nLR = {}\nmodel = keras.Sequential()\nmodel.fit(lr=LR)\n"


@pytest.fixture
def hpo(kept: World) -> World:
    """Let there be the records of three jobs, and of one whose name is another."""
    staging = kept.home / "staging"
    for number, (run, (rate, losses, accuracy, peak)) in enumerate(HPO.items()):
        metrics = {"loss": losses[-1], "accuracy": accuracy}
        output = {"name": "model", "uri": f"hdfs://nn/models/{run}", "tasks": 1}
        told = report_of(run, progress={"step": 3, "metrics": metrics}, outputs=[output])
        role = {"command": ["python", "t.py"], "variables": {}, "packages": {}, "image": "tf"}
        values = {
            "keys": {"roles.worker.memory": "2Gi"},
            "roles": {"worker": {**role, "files": {"t.py": f"{number:012}"}}},
            "programs": {"t.py": PROGRAM.format(rate)},
        }
        write_record(staging, run, user=ME, at_s=100 * number, values=values, report=told)
        if peak:
            write_usage(staging, run, losses, peak)
    write_record(staging, "other-4aaaaaaa", user=ME, at_s=5000)
    return kept


def write_usage(staging: Path, run: str, losses: list[Any], peak_mib: int) -> None:
    peak = {"least": 1, "mean": 1, "most": peak_mib * 1024**2, "most_task": "worker-0"}
    series = {
        "name": "loss",
        "kind": "metric",
        "points": [[10 * at, at, loss] for at, loss in enumerate(losses)],
        "least": [10, 1, min(losses)],
        "most": [0, 0, max(losses)],
    }
    usage = {"version": 1, "run": run, "series": [series]}
    usage["roles"] = {"worker": {"tasks": 1, "memory_bytes": {"peak": peak}}}
    job = run.rpartition("-")[0]
    (staging / "records" / job / f"{run}.usage").write_text(json.dumps(usage))


def test_compare_has_metrics_memory_outputs_and_lines_of_programs(hpo: World) -> None:
    found = hpo("compare", "hpo-*", "--sort", "loss", "-o", "json").json
    check("Comparison", found)
    second, first, third = found["runs"]
    assert [run["run"] for run in found["runs"]] == [list(HPO)[at] for at in (1, 0, 2)]
    assert second["metrics"]["loss"] == {"last": 0.3, "best": 0.3, "least": 0.3, "most": 0.9}
    assert first["metrics"]["loss"]["best"] == 0.4
    assert first["metrics"]["accuracy"] == {"last": 0.81, "best": None, "least": None, "most": None}
    assert (first["peak_memory_bytes"], third["peak_memory_bytes"]) == ({"worker": 700 << 20}, {})
    assert (first["duration_s"], first["state"]) == (100, "SUCCEEDED")
    assert first["outputs"][0]["uri"] == "hdfs://nn/models/hpo-lr1-4aaaaaaa"
    assert [one["label"] for one in found["differences"]] == ["t.py"]
    assert [run["lines"]["t.py"] for run in (first, third)] == [["LR = 0.1"], ["LR = 1.0"]]
    best = submit_tf_job.compare("hpo-*", sort="accuracy")
    assert [run.ended.run for run in best.runs] == [list(HPO)[at] for at in (1, 0, 2)]
    assert "LR = 0.01" in best._repr_html_()


def test_compare_fits_eighty_columns(hpo: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hpo("compare", "hpo-*").out.splitlines()
    assert len(whole) == 4
    assert whole[0].split("  ")[0] == "RUN"
    monkeypatch.setattr("submit_tf_job.cli.context.Context.width", 80)
    lines = hpo("compare", "hpo-*", "--sort", "loss").out.splitlines()
    assert max(map(len, lines)) <= 80
    tables = "\n".join(lines).split("\n\n")
    assert all(table.count("hpo-lr2-4aaaaaaa") == 1 for table in tables), "each has the runs"
    for text in ("0.5 (0.4)", "LR = 0.01", "700 MiB", "SUCCEEDED", "1m40s", "loss (best)"):
        assert text in "\n".join(lines), text


def test_compare_prints_csv(hpo: World) -> None:
    done = hpo("compare", *HPO, "-o", "csv")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [(row["run"], row["best loss"]) for row in rows] == [
        ("hpo-lr1-4aaaaaaa", "0.4"),
        ("hpo-lr2-4aaaaaaa", "0.3"),
        ("hpo-lr3-4aaaaaaa", ""),
    ]
    assert rows[0]["peak_memory_bytes"] == str(700 << 20)
    assert hpo("list", "-o", "csv").status == 2, "of compare alone"


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        (
            ["m"],
            [f"m-4aaaaa{a}{b}" for a, b in zip("bb" + "a" * 8, "ba" + "hgfedcba", strict=True)],
        ),
        (["m", "other"], ["m-4aaaaabb", "other-4aaaaaaa"]),
        (["m-4aaaaaab", "m", "m-4aaaaaab"], ["m-4aaaaaab", "m-4aaaaabb"]),
        (["[mo]*"], ["m-4aaaaabb", "other-4aaaaaaa"]),
    ],
)
def test_compare_chooses_runs(kept: World, words: list[str], runs: list[str]) -> None:
    staging = kept.home / "staging"
    write_record(staging, "other-4aaaaaaa", user=ME, at_s=-10)
    for at_s in range(10):
        tail = "4aaaaaa" + "abcdefgh"[at_s] if at_s < 8 else "4aaaaab" + "ab"[at_s - 8]
        write_record(staging, f"m-{tail}", user=ME, at_s=at_s)
    write_record(staging, "m-4zzzzzzz", user=ME, at_s=-1)  # the eleventh
    found = kept("compare", *words, "-o", "json").json
    assert [run["run"] for run in found["runs"]] == runs


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["hpo-*", "--sort", "auc"],
            2,
            "no run has the metric 'auc'\n  hint: they have accuracy, loss",
        ),
        (["nothing"], 5, "There is no job nothing."),
        (["zz-*"], 5, "No run of a job like zz-* has a record."),
        ([], 2, "Missing argument"),
        ([""], 2, "no run is named"),
    ],
)
def test_compare_refuses(hpo: World, words: list[str], status: int, message: str) -> None:
    done = hpo("compare", *words)
    assert (done.status, done.out) == (status, "")
    assert message in done.err


def test_compare_says_how_many_jobs_a_pattern_means(
    kept: World, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(102):
        write_record(kept.home / "staging", f"m{number}-4aaaaaaa", user=ME, at_s=number)
    found = kept("compare", "m*", "-o", "json").json
    assert [run["name"] for run in found["runs"][:2]] == ["m101", "m100"]
    assert len(found["runs"]) == 100
    assert "of 102 jobs like m*, the 100 that were submitted last are compared" in caplog.text


@pytest.mark.parametrize(
    ("metric", "first"),
    [
        ("valLoss", "1"),
        ("mAP@0.5", "3"),
        ("train/loss", "1"),
        ("ms/step", "1"),
        ("step_time_sec", "1"),
        ("seconds_per_batch", "1"),
        ("images/sec", "3"),
        ("it/s", "3"),
        ("loss_per_token", "1"),
        ("准确率", "3"),
    ],
)
def test_compare_sorts_by_metrics_as_programs_name_them(
    kept: World, metric: str, first: str
) -> None:
    for value in (2.0, 1.0, 3.0):
        run = f"m{value:.0f}-4aaaaaaa"
        told = report_of(run, progress={"step": 3, "metrics": {metric: value}})
        write_record(kept.home / "staging", run, user=ME, report=told)
    write_record(kept.home / "staging", "m-4aaaaaaa", user=ME)  # it has told none
    found = kept("compare", "m*", "--sort", metric, "-o", "json").json
    assert [run["name"] for run in found["runs"]][::3] == [f"m{first}", "m"]


def test_compare_shows_a_run_that_lives(kept: World) -> None:
    spec_at(kept)
    done = kept("submit", "churn.yaml", "-d", "-o", "json")
    kept.passes(40)
    [run] = kept("compare", "churn", "-o", "json").json["runs"]
    assert (run["run"], run["duration_s"]) == (done.json["run"], 40)
    assert run["state"] in ("PENDING", "STARTING")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (["command=python train.py --lr 0.5"], "churn-lr0-5"),
        (["env.SEED=7", "roles.worker.memory=4Gi"], "churn-seed7-memory4gi"),
        (["image=tf:2.16"], "churn-imagetf-2-16"),
    ],
)
def test_a_loop_is_told_a_name_for_the_next_job(kept: World, changed: list[str], name: str) -> None:
    spec_at(kept, SPEC.replace("--lr, '0.1', --layers, '64', '32', data.csv", ""))
    assert kept("submit", "churn.yaml", "-d", "-q").out == "churn\n"
    words = [word for one in changed for word in ("--set", one)]
    refused = kept("submit", "churn.yaml", "-d", *words)
    assert (refused.status, refused.out) == (6, "")
    assert f"--name {name}" in refused.err
    assert kept("submit", "churn.yaml", "-d", "-q", *words, "--name", name).out == f"{name}\n"
