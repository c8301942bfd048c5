"""On a real HDFS: files staged by the tool, against Hadoop's own FsShell -put of the same."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from submit_tf_job.operations import cluster
from submit_tf_job.settings import load_settings
from tests.bench.cluster import Bench, bench_sandbox
from tests.bench.measure import Row, Sample, interleave, run_process

__all__ = ["measure_staging"]

STAGE_ONLY = Path(__file__).with_name("stage_only.py")
SAME = 1.0
FIVE_TIMES_FASTER = 0.2
A_SECOND = 1.0
ROUNDS = 3  # a gigabyte each


def measure_staging(rounds: int) -> list[Row]:
    """Measure on a sandbox of its own."""
    with bench_sandbox() as bench:
        large, small, many = bench.home / "large", bench.home / "small", bench.home / "many"
        _fill(large, 1, 1_000_000_000)
        _fill(small, 2_000, 50_000)
        # FsShell sleeps up to 0.4 s at each file's end
        # (dfs.client.block.write.locateFollowingBlock.initial.delay.ms), a quarter of an hour for
        # all of them: it gets a tenth, and is to be beaten by as much as if that were all.
        few = min(rounds, ROUNDS), "1 file of 1 GB staged", large, "the same", large, SAME
        all_of_them = 1, "2,000 files of 50 kB staged", small, "200 of them", small / "000"
        rows = [_against_put(bench, *few), _against_put(bench, *all_of_them, FIVE_TIMES_FASTER)]
        shutil.rmtree(large)
        _fill(many, 10_000, 10_000)
        rows.append(_unchanged(bench, rounds, many))
    return rows


def _fill(directory: Path, count: int, size: int) -> None:
    for number in range(count):
        path = directory / f"{number // 200:03d}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for _ in range(max(1, size // 1_000_000)):
                out.write(os.urandom(min(size, 1_000_000)))
        # the young are not remembered, and a user's files are seldom young
        os.utime(path, (time.time() - 60, time.time() - 60))


def _spec(bench: Bench, name: str, files: Path | None) -> Path:
    content = {} if files is None else {"files": [{"src": str(files), "dst": "data"}]}
    return bench.job(name, command="true", **content)


def _against_put(
    bench: Bench, rounds: int, what: str, files: Path, about: str, put_files: Path, goal: float
) -> Row:
    settings = load_settings(profile=bench.cluster.profile, environ=bench.environ, cwd=bench.home)
    storage = cluster.storage_of(settings)
    home = storage.home(bench.cluster.user)
    numbers = itertools.count()

    def put() -> Sample:
        target = f"{home}/put-{next(numbers)}"
        sample = bench.java("org.apache.hadoop.fs.FsShell", "-put", put_files, target)
        storage.remove(target, recursive=True)
        return sample

    def stage() -> Sample:
        # hashing counts
        hashes = Path(bench.environ["XDG_CACHE_HOME"]) / "submit_tf_job" / "hashes"
        shutil.rmtree(hashes, ignore_errors=True)
        sample = _stage(bench, _spec(bench, "staged", files))
        storage.remove(f"{home}/.submit_tf_job", recursive=True)
        return sample

    # The first gigabyte that a DataNode ever takes is slow, whoever sends it; both read the same
    # files, the tool first.
    samples = interleave({"tool": stage, "put": put}, rounds, warm_up=int(goal == SAME))
    mine, floor = samples.wall("tool").median, samples.wall("put").median
    details = f"medians: {mine:.1f} s, hashing included, and {floor:.1f} s"
    return Row(what, f"`hdfs dfs -put` (FsShell) of {about}", mine / floor, goal, details)


def _stage(bench: Bench, spec: Path) -> Sample:
    argv = [sys.executable, STAGE_ONLY, spec, bench.cluster.profile]
    return run_process(argv, bench.environ, bench.home)


def _unchanged(bench: Bench, rounds: int, files: Path) -> Row:
    with_files, without = _spec(bench, "unchanged", files), _spec(bench, "bare", None)
    _stage(bench, with_files)
    runs: dict[str, Callable[[], Sample]] = {
        "files": lambda: _stage(bench, with_files),
        "none": lambda: _stage(bench, without),
    }
    samples = interleave(runs, rounds)
    mine, floor = samples.wall("files").median, samples.wall("none").median
    details = (
        f"the ratio is the seconds that they add: medians {mine:.2f} s, and {floor:.2f} s "
        f"without files"
    )
    return Row("10,000 unchanged files recognised", "one second", mine - floor, A_SECOND, details)
