"""How a red run ends: for each failed test what failed, why as far as is known, and how to run it alone.

`.ci/stages` prints this as its own last lines.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests import tool as tools
from tests.clusters import Cluster
from tests.tool import Tool

TITLE = "what failed"
LINES = 18  # .ci/stages promises twenty, of which two are the title and the stage
DETAILED = 2  # failures; of others there is the name
WIDTH = 240
ASK_S = 60.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Add to a failure what the tool and the clusters tell, as long as they are there."""
    report: Any = yield
    if report.failed and call.excinfo is not None:
        facts = []
        with suppress(Exception):  # the failure matters, not that more of it could not be told
            for fact in _facts(getattr(item, "funcargs", {}), str(call.excinfo.value)):
                facts.append(fact)
        if facts:
            report.sections.append((TITLE, "\n".join(facts)))
    return report


def _facts(given: dict[str, Any], error: str) -> Iterator[str]:
    for cluster in [value for value in given.values() if isinstance(value, Cluster)][:1]:
        daemons = cluster.status()["daemons"]
        ill = [f"{one['name']} ({one['reason']})" for one in daemons if not one["healthy"]]
        well = f"all {len(daemons)} daemons are healthy"
        yield f"cluster {cluster.name}: {'not healthy: ' + ', '.join(ill) if ill else well}"
    for tool in [value for value in given.values() if isinstance(value, Tool)][:1]:
        known = [*tools.calls]
        said = [error, *(" ".join(words) for words, _ in reversed(known))]
        job = next((job for text in said for job in reversed(tool.jobs) if job in text), "")
        looks = [call for call in known if job and job in " ".join(call[0])]
        last = [*looks[-1:], *(call for call in known[-1:] if call not in looks[-1:])]
        for words, result in last:
            yield f"last call: submit_tf_job {' '.join(words)}: {_told(result)}"
        if job:
            for line in tool("logs", job, "--tail", 2, timeout=ASK_S).stdout.splitlines()[-4:]:
                yield f"log of {job}: {line}"


def _told(result: tools.Result) -> str:
    lines = (result.stderr or result.stdout).splitlines()
    text = lines[-1] if lines else "no output"
    with suppress(ValueError, AttributeError):
        seen = json.loads(result.stdout)
        keys = ("state", "reason", "failure", "root_cause", "pending", "tasks")
        text = json.dumps({key: seen[key] for key in keys if seen.get(key)})
    return f"status {result.status} after {result.seconds:.1f} s, {text}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the last lines of a red run."""
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if failed:
        terminalreporter.section(TITLE)
        for line in last_lines(failed):
            terminalreporter.write_line(line)


def last_lines(failed: list[Any]) -> list[str]:
    """Return at most LINES lines about failures."""
    shown, others = failed[:DETAILED], failed[DETAILED:]
    each = (LINES - bool(others)) // len(shown)
    lines = [line for report in shown for line in _lines(report, each)]
    if others:
        lines.append(f"and {len(others)} more: {' '.join(report.nodeid for report in others)}")
    return [line if line.startswith("  alone: ") else line[:WIDTH] for line in lines]


def _lines(report: Any, most: int) -> list[str]:
    crash = getattr(report.longrepr, "reprcrash", None)
    why = [
        line
        for line in (crash.message if crash else str(report.longrepr)).splitlines()
        if line.strip()
    ]
    facts = [line for name, text in report.sections if name == TITLE for line in text.splitlines()]
    place = f" at {crash.path}:{crash.lineno}" if crash else ""
    middle = max(1, most - 2)
    return [
        f"FAILED {report.nodeid} ({report.when}){place}",
        *(f"  {line}" for line in [*why[: max(2, middle - len(facts))], *facts][:middle]),
        f"  alone: {alone(report.nodeid)}",
    ]


def alone(nodeid: str) -> str:
    """Return the command that runs one test as it was run here."""
    own = {name: text for name, text in os.environ.items() if name.startswith("SUBMIT_TF_JOB_TEST")}
    variables = "".join(f"{name}={shlex.quote(text)} " for name, text in sorted(own.items()))
    return f"{variables}{os.path.relpath(sys.executable)} -m pytest {shlex.quote(nodeid)}"
