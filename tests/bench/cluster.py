"""On a real cluster: from the submission to the first line of the user's program, and from the
program's end to the tool's.

Every job runs the same program, which writes the time at its first and at its last line. Two ways
to start it take turns: `submit_tf_job submit`, timed from the start of its process; and `bare`, the
very service that `render` prints, sent by a ten-line script, timed from the moment before the POST.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests import clusters
from tests.bench.measure import Row, Sample, Times, run_process
from tests.clusters import ROOT, Cluster
from tests.tool import runs_of

__all__ = ["Bench", "ClusterTimes", "bench_sandbox", "cluster_rows", "measure_cluster"]

BARE_POST = Path(__file__).with_name("bare_post.py")
GOAL, VERDICT_GOAL = 1.05, 1.03
CPU_GOAL_S, MEMORY_GOAL_MB = 0.45, 40.0
# YARN's service AM sleeps this long, "in case there's a client polling", before it unregisters
# (ServiceUtils)
LINGER_S = 5.0
JOB_S = 180
PROGRAM = (
    "import sys, time; first = time.time(); time.sleep(1); open(sys.argv[1], "
    "'w').write(f'{first} {time.time()}')\n"
)


@dataclass
class ClusterTimes:
    """Seconds, one per round: until YARN accepted the job, from there to the first line, and from
    the last line to the verdict, by way; what came after the last line; and what the tool took.
    """

    accepted: dict[str, list[float]] = field(default_factory=lambda: {"tool": [], "bare": []})
    first_line: dict[str, list[float]] = field(default_factory=lambda: {"tool": [], "bare": []})
    end_to_yarn: list[float] = field(default_factory=list)
    yarn_to_exit: list[float] = field(default_factory=list)
    verdict: dict[str, list[float]] = field(default_factory=lambda: {"tool": [], "bare": []})
    cpu: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """A sandbox, and the tool as its user calls it."""

    cluster: Cluster
    environ: dict[str, str]
    home: Path

    def tool(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        return subprocess.run(
            self.argv(*words),
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=True,
        )

    def argv(self, *words: object) -> list[str]:
        """Compose a command line."""
        argv = [sys.executable, "-m", "submit_tf_job", *map(str, words)]
        return [*argv, "--profile", self.cluster.profile]

    def java(self, main: str, *words: object) -> Sample:
        """Run a client of Hadoop's own."""
        classpath = f"{self.cluster.home}/conf:{self.cluster.state()['jars']}/*"
        own = {"HADOOP_USER_NAME": self.cluster.user, "LC_ALL": "C.UTF-8"}
        environ = {"PATH": os.environ["PATH"], **own}
        return run_process(["java", "-cp", classpath, main, *words], environ, self.home)

    def get(self, path: str) -> dict[str, Any]:
        """Ask the ResourceManager."""
        with urllib.request.urlopen(f"{self.cluster.rm_url}{path}", timeout=30) as answer:
            value: dict[str, Any] = json.load(answer)
        return value

    def job(self, name: str, **content: Any) -> Path:
        """Write a job spec, by default of one small task; return its path."""
        path = self.home / f"{name}.json"
        own = {"name": name, "image": "library/python:3.11", "strategy": "single"}
        roles = {"roles": {"worker": {"memory": "256Mi"}}}
        path.write_text(json.dumps({**own, **roles, **content}))
        return path

    def spec(self, name: str, **content: Any) -> tuple[Path, Path]:
        """Write a job spec; return it and the file where its program writes its times."""
        program, times = self.home / "program.py", self.home / f"{name}.times"
        program.write_text(PROGRAM)  # the sandbox's containers see the files of this machine
        return self.job(name, command=["python3", str(program), str(times)], **content), times


def measure_cluster(rounds: int, say: Callable[[str], None]) -> ClusterTimes:
    """Run the jobs on a sandbox of their own, one after the other."""
    times = ClusterTimes()
    ways = {"tool": _by_tool, "bare": _by_bare_post}
    with bench_sandbox() as bench:
        for number in range(-1, rounds):
            # nobody always comes after the same neighbour
            order = list(ways)[:: 1 if number % 2 else -1]
            for way in order:
                run = ways[way](bench, f"{way}-{number + 1}")
                bench.tool("delete", run.name, "--force")
                if number < 0:
                    continue  # the first of each way warms up what everybody uses
                times.accepted[way].append(run.accepted - run.start)
                times.first_line[way].append(run.first - run.accepted)
                times.verdict[way].append(run.exit - run.start)
                if way == "tool":
                    times.end_to_yarn.append(run.finished - run.last)
                    times.yarn_to_exit.append(run.exit - run.finished)
                    times.cpu.append(run.cpu_s)
                    times.memory_mb.append(run.memory_mb)
                say(
                    f"{run.name}: accepted after {run.accepted - run.start:.2f} s, first "
                    f"line {run.first - run.accepted:.2f} s later"
                )
    return times


@contextmanager
def bench_sandbox(*options: str) -> Iterator[Bench]:
    """Start a sandbox for measurements, by default as it is by default, and take it down."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        clusters.own("bench", *options) as cluster,
    ):
        environ = clusters.environment() | {
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": f"{directory}/pycache",
        }
        yield Bench(cluster, environ, Path(directory))


@dataclass(frozen=True)
class _Run:
    """Moments of one job, as seconds since the epoch; all clocks are this machine's."""

    name: str
    start: float
    accepted: float
    first: float
    last: float
    finished: float
    exit: float
    cpu_s: float = 0.0
    memory_mb: float = 0.0


def _by_tool(bench: Bench, name: str) -> _Run:
    spec, times = bench.spec(name)
    start = time.time()
    cpu_s, memory_mb = _watched(bench, bench.argv("submit", spec))
    run = _run(bench, name, start, times, exit_at=time.time())
    return replace(run, cpu_s=cpu_s, memory_mb=memory_mb)


def _watched(bench: Bench, argv: list[str]) -> tuple[float, float]:
    """Run a command to its end; return its CPU time in seconds, and its largest memory in MB.

    The memory is read while it runs: what the kernel tells at the end counts this process, from
    which it was forked, too.
    """
    most_kb = 0
    with subprocess.Popen(
        argv, env=bench.environ, cwd=bench.home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        status = Path(f"/proc/{process.pid}/status")
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            with suppress(StopIteration, OSError):  # it has just ended
                lines = status.read_text().splitlines()
                most_kb = next(int(line.split()[1]) for line in lines if "VmHWM" in line)
            time.sleep(0.02)
        _, wait_status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read().decode()
    return usage.ru_utime + usage.ru_stime, most_kb / 1024


def _by_bare_post(bench: Bench, name: str) -> _Run:
    spec, times = bench.spec(name)
    path = times.with_suffix(".body")
    path.write_text(bench.tool("render", spec).stdout)
    argv = [sys.executable, str(BARE_POST), bench.cluster.rm_url, bench.cluster.user, str(path)]
    done = subprocess.check_output(argv, env=bench.environ, text=True, timeout=JOB_S)
    told = json.loads(done)
    return _run(bench, name, told["sent"], times, exit_at=told["seen"])


def _run(bench: Bench, name: str, start: float, times: Path, exit_at: float) -> _Run:
    apps = bench.get("/ws/v1/cluster/apps")["apps"]["app"]
    [app] = runs_of(name, apps)
    first, last = map(float, times.read_text().split())
    begun_s, over_s = app["startedTime"] / 1000, app["finishedTime"] / 1000
    return _Run(name, start, begun_s, first, last, over_s, exit_at)


def cluster_rows(times: ClusterTimes) -> list[Row]:
    """Compare the ways, and split the end."""
    before = {way: statistics.median(series) for way, series in times.accepted.items()}
    after = {way: statistics.median(series) for way, series in times.first_line.items()}
    raw = (before["tool"] + after["tool"]) / (before["bare"] + after["bare"])
    # Once accepted, the same bytes run on the same cluster: what differs there is the machine's
    # noise, so both share one median.
    shared = statistics.median(times.first_line["tool"] + times.first_line["bare"])
    details = (
        f"accepted after {before['tool']:.1f} s and {before['bare']:.1f} s; first line after "
        f"another {after['tool']:.1f} s and {after['bare']:.1f} s; ratio of these sums {raw:.2f}"
    )
    what, ratio = "submission → first line, `submit_tf_job submit`", before["tool"] + shared
    ratio /= before["bare"] + shared
    rows = [Row(what, "bare POST of the same service", ratio, GOAL, details)]
    whole = Times.of([a + b for a, b in zip(times.end_to_yarn, times.yarn_to_exit, strict=True)])
    yarn, ours = Times.of(times.end_to_yarn), Times.of(times.yarn_to_exit)
    what = "last line → exit of `submit_tf_job submit`"
    floor = "last line → the ResourceManager's own end of the application"
    details = (
        f"medians: {yarn.median:.1f} s to YARN's end, {LINGER_S:g} s of it YARN's own "
        f"pause; then {ours.median:.1f} s to the exit"
    )
    return [
        *rows,
        Row(what, floor, whole.median / yarn.median, None, details),
        *_verdict_rows(times),
    ]


def _verdict_rows(times: ClusterTimes) -> Iterator[Row]:
    """Yield the rows of the whole command: its time, its CPU time, its memory."""
    tool, bare = times.verdict["tool"], times.verdict["bare"]
    ratio = statistics.median(ours / floor for ours, floor in zip(tool, bare, strict=True))
    medians = f"median of pairs; medians: {statistics.median(tool):.1f} s and "
    yield Row(
        "submission → exit of `submit_tf_job submit`",
        "bare POST of the same service, and a look each second",
        ratio,
        VERDICT_GOAL,
        f"{medians}{statistics.median(bare):.1f} s",
    )
    cpu_s, memory_mb = min(times.cpu), statistics.median(times.memory_mb)
    what = "`submit_tf_job submit` to the verdict"
    yield Row(f"{what}, CPU time", f"{CPU_GOAL_S:g} s", cpu_s / CPU_GOAL_S, 1.0, f"{cpu_s:.2f} s")
    ratio = memory_mb / MEMORY_GOAL_MB
    yield Row(f"{what}, memory", f"{MEMORY_GOAL_MB:g} MB", ratio, 1.0, f"{memory_mb:.0f} MB")


def cpu_count() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0))
