"""The program of the container that calls a pickled function, as a process."""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle.cloudpickle
import pytest

from submit_tf_job.sdk import callee


def call(folder: Path, text: str, rank: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the program of the container with a pickled call."""
    shutil.copy(callee.__file__, folder)
    shutil.copy(str(cloudpickle.cloudpickle.__file__), folder / callee.PICKLE_FILE)
    (folder / callee.COMPAT_FILE).write_text("")
    (folder / callee.CALL_FILE).write_text(text)
    return subprocess.run(
        [sys.executable, "callee.py"],
        cwd=folder,
        env={**os.environ, "LOG_DIRS": str(folder), "TFJOB_RANK": rank},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_call_that_another_python_pickled(tmp_path: Path) -> None:
    done = call(tmp_path, "3.7\nAAAA")
    assert done.returncode == callee.EXIT_CANNOT_CALL
    assert "the call was made by Python 3.7, and this task runs" in done.stderr
    assert (tmp_path / callee.RESULT_FILE).is_file()


@pytest.mark.parametrize(("rank", "status"), [("0", 1), ("1", 0)])
def test_result_that_cannot_be_sent_fails_the_job(tmp_path: Path, rank: str, status: int) -> None:
    packed = base64.b64encode(cloudpickle.dumps((lambda: (n for n in "ab"), (), {}))).decode()
    done = call(tmp_path, "{}.{}\n".format(*sys.version_info) + packed, rank)
    said = "RuntimeError: what the function returned cannot be sent back: TypeError" in done.stderr
    assert (done.returncode, said) == (status, status == 1), done
    assert (tmp_path / callee.RESULT_FILE).is_file()


WORKERS = {
    "pool": "multiprocessing.Pool(2)",
    "spawned pool": "multiprocessing.get_context('spawn').Pool(2)",
    "pool of a server": "multiprocessing.get_context('forkserver').Pool(2)",
    "executor": "concurrent.futures.ProcessPoolExecutor(2)",
    "spawned executor": "concurrent.futures.ProcessPoolExecutor("
    "2, multiprocessing.get_context('spawn'))",
}
OWN_MODULE = """
OFFSET = 1
class Pair:
    def __init__(self, number):
        self.number = number + OFFSET
def pair(number):
    return Pair(number)
"""
# The names are those that the container's program has, too.
SCRIPT = """
import base64, concurrent.futures, functools, multiprocessing, os, sys
import cloudpickle
import own_module
from own_package.inner import double
class main:
    def __init__(self, number):
        self.leave = number
def returned(number):
    return main(double(number) + own_module.pair(number).number)
def train():
    os.chdir("/")
    with %s as workers:
        made = list(workers.map(returned, [1, 2]))
        pairs = list(workers.map(own_module.pair, [3]))
        parts = list(workers.map(functools.partial(double), [4]))
    assert all(type(one) is main for one in made), made
    return [one.leave for one in made] + [one.number for one in pairs] + parts
if __name__ == "__main__":
    import own_package.inner
    for module in (own_module, own_package.inner):
        cloudpickle.register_pickle_by_value(module)
    print(base64.b64encode(cloudpickle.dumps((train, (), {}))).decode())
"""


@pytest.mark.parametrize("workers", WORKERS.values(), ids=list(WORKERS))
def test_processes_of_a_function_find_its_names(tmp_path: Path, workers: str) -> None:
    script, task = tmp_path / "script", tmp_path / "task"
    (script / "own_package").mkdir(parents=True)
    task.mkdir()
    (script / "own_module.py").write_text(OWN_MODULE)
    (script / "own_package/__init__.py").touch()
    (script / "own_package/inner.py").write_text("def double(number):\n    return 2 * number\n")
    (script / "script.py").write_text(SCRIPT % workers)
    packed = subprocess.check_output([sys.executable, "script.py"], cwd=script, text=True)
    done = call(task, "{}.{}\n".format(*sys.version_info) + packed)
    assert done.returncode == 0, done.stderr
    kind, value, _ = pickle.loads(base64.b64decode((task / callee.RESULT_FILE).read_bytes()))
    assert (kind, pickle.loads(value)) == (callee.VALUE, [4, 7, 4, 8])


def test_a_module_of_a_function_says_what_was_not_sent(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def used():\n    return 1\n\ndef unused():\n    return 2\n")
    text = (
        "import base64, cloudpickle, own\nfrom own import used\n"
        "def f():\n    import own\n    return used(), own.unused()\n"
        "cloudpickle.register_pickle_by_value(own)\n"
        "print(base64.b64encode(cloudpickle.dumps((f, (), {}))).decode())"
    )
    (tmp_path / "made.py").write_text(text)
    packed = subprocess.check_output([sys.executable, "made.py"], cwd=tmp_path, text=True)
    (tmp_path / "task").mkdir()
    done = call(tmp_path / "task", "{}.{}\n".format(*sys.version_info) + packed)
    assert "module 'own' was sent with what the function uses of it" in done.stderr
