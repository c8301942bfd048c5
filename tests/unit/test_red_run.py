"""The last twenty lines of a red run tell what failed, why, and how to run it alone."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from typing import Any

import pytest

from tests.clusters import ROOT

pytest_plugins = ["pytester"]

FAILING = """
from tests import tool as tools
from tests.tool import Result, Tool, until
import pytest, pathlib

class Asked(Tool):
    def __call__(self, *words, timeout=0, stdin=""):
        lines = {"status": '{"state": "RUNNING", "reason": "", "tasks": {"missing": ["worker-1"]}}',
                 "logs": "worker-0 | loss is nan"}
        made = Result(0, lines[words[0]], "", 1.0)
        tools.calls.append((list(map(str, words)), made))
        return made

@pytest.fixture
def tool():
    return Asked({}, "", pathlib.Path(), ["mnist-1", "other"])

def test_waits(tool):
    tool("status", "mnist-1", "-o", "json")
    until(lambda: False, "a second ResourceManager", within_s=0)

def test_values(tool):
    state = tool.status("other")["state"]
    assert state == "SUCCEEDED"
"""


def stages() -> Any:
    """Return `.ci/stages` as a module."""
    loader = importlib.machinery.SourceFileLoader("stages", str(ROOT / ".ci/stages"))
    spec = importlib.util.spec_from_loader("stages", loader)
    assert spec is not None
    made = sys.modules["stages"] = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


@pytest.mark.parametrize(("more", "total"), [(0, 2), (9, 11)])
def test_last_lines_of_a_red_run(pytester: pytest.Pytester, more: int, total: int) -> None:
    added = "".join(f"def test_more_{n}():\n    assert [{n}] == []\n" for n in range(more))
    pytester.makepyfile(test_red=FAILING + added)
    done = pytester.runpytest_inprocess("-p", "tests.red", "-q")
    done.assert_outcomes(failed=total)
    command = stages().Command("promises", ["pytest"])
    with command.log:
        command.log.write(f"{done.stdout}\n".encode())
        told = command.what_failed()
    assert len(told) <= 18, told
    text = "\n".join(told)
    assert "FAILED test_red.py::test_waits (call) at " in text
    assert "not within 0 s: a second ResourceManager" in text
    assert 'last call: submit_tf_job status mnist-1 -o json: status 0 after 1.0 s, {"state"' in text
    assert '"missing": ["worker-1"]' in text
    assert "log of mnist-1: worker-0 | loss is nan" in text
    assert " -m pytest test_red.py::test_waits" in text
    assert "assert 'RUNNING' == 'SUCCEEDED'" in text
    assert ("and 9 more: " in text) is (more == 9)


def test_last_lines_of_a_command_that_is_not_pytest() -> None:
    command = stages().Command("lint", ["make", "lint"])
    with command.log:
        command.log.write(b"".join(b"line %d\n" % n for n in range(50)))
        assert command.what_failed()[-2:] == ["line 49", "  alone: make lint"]
