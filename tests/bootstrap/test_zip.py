"""bootstrap.zip: what is in it, and what a program sees of it."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import submit_tf_job
from submit_tf_job.container import contract
from submit_tf_job.plan import bootstrap_zip
from tests.bootstrap.harness import Cluster, role

CONTAINER = Path(submit_tf_job.__file__).parent / "container"


def members() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(bootstrap_zip.bootstrap_zip())) as made:
        return {name: made.read(name).decode() for name in made.namelist()}


def test_zip_holds_every_module_without_annotations() -> None:
    own = {path.relative_to(CONTAINER).as_posix() for path in CONTAINER.rglob("*.py")}
    top = {"submit_tf_job/__init__.py", "__main__.py"}
    assert set(members()) == top | {f"submit_tf_job/container/{n}" for n in own - {"__main__.py"}}
    for name, source in members().items():
        for node in ast.walk(ast.parse(source, name)):
            assert not getattr(node, "annotation", None), name
            assert not getattr(node, "returns", None), name


@pytest.mark.slow
def test_equal_modules_give_equal_bytes() -> None:
    assert bootstrap_zip.build() == bootstrap_zip.bootstrap_zip()


def test_a_module_that_the_oldest_python_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("if (x := 1):\n    pass\n")
    with pytest.raises(SyntaxError):
        bootstrap_zip.build(tmp_path)


@pytest.mark.slow
def test_zip_uses_only_what_the_oldest_python_has(tmp_path: Path) -> None:
    for name, source in members().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    vermin = [str(Path(sys.executable).with_name("vermin")), "--no-tips", "--violations", "-t=3.6-"]
    probe = CONTAINER.with_name("doctor") / "probe.py"
    done = subprocess.run([*vermin, tmp_path, probe], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_older_python_is_named_in_one_sentence(job: Cluster) -> None:
    job.job({"worker": role(1, "trains", "true")})
    cwd, _logs, env = job.place("worker-0")
    code = "import runpy, sys; sys.version_info = (3, 5, 9); runpy.run_path('bootstrap.zip', run_name='__main__')"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == contract.EXIT_BOOTSTRAP_ERROR
    assert done.stderr.startswith("[submit_tf_job] the bootstrap needs Python 3.6 or later, and ")
    assert done.stderr.count("\n") == 1


def test_a_program_sees_nothing_of_the_zip(any_job: Cluster) -> None:
    look = "import os, sys; print(os.environ.get('PYTHONPATH'), [p for p in sys.path if 'zip' in p and 'bootstrap' in p])"
    any_job.job({"worker": role(1, "trains", [sys.executable, "-c", look])})
    any_job.start()
    assert any_job.wait_all() == {"worker-0": 0}, any_job.stderr("worker-0")
    [folder, rest] = any_job.stdout("worker-0").split()
    assert (Path(folder).name, rest) == (".tfjob-site", "[]")


def test_a_program_may_empty_its_directory(any_job: Cluster, tmp_path: Path) -> None:
    """Its output is stored afterwards, by a process that imports more modules."""
    output = {"uri": f"file://{tmp_path}/stored", "upload": "deciding-task", "overwrite": False}
    data = {"readers": ["worker"], "onlookers": [], "inputs": {}, "outputs": {"m": output}}
    output |= {"on_failure": "discard", "on_retry": "empty"}
    write = 'rm -rf ./*; mkdir -p "$TFJOB_OUTPUT_M"; echo 1 >"$TFJOB_OUTPUT_M/f"'
    any_job.job({"worker": role(1, "trains", write)}, data=data)
    any_job.start()
    assert any_job.wait_all() == {"worker-0": 0}, any_job.stderr("worker-0")
    assert (tmp_path / "stored/f").read_text() == "1\n"


def test_a_missing_description_is_told(job: Cluster) -> None:
    job.job({"worker": role(1, "trains", "true")})
    job.start("worker-0", shell="rm conf/tfjob.json")
    assert job.wait("worker-0") == contract.EXIT_BOOTSTRAP_ERROR
    assert "conf/tfjob.json" in job.stderr("worker-0")
    assert job.outcome("worker-0")["reason"] == "bootstrap-error"


@pytest.mark.parametrize("name", ["doctor/probe", "doctor/imageprobe", "sdk/callee"])
def test_programs_are_sent_as_they_are_and_need_no_newer_python(name: str) -> None:
    source = (CONTAINER.parent / f"{name}.py").read_text("utf-8")
    assert "from submit_tf_job" not in source
    if name == "sdk/callee":
        ast.parse(source, feature_version=(3, 7))
        return
    tree = ast.parse(source, feature_version=(3, 6))
    types = [node.returns for node in ast.walk(tree) if hasattr(node, "returns")]
    types += [node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg)]
    # Python up to 3.8 evaluates them, and cannot subscript `dict`
    assert not [ast.unparse(each) for each in types if isinstance(each, ast.Subscript)]
