"""bootstrap.py: the task description, the code, the files."""

from __future__ import annotations

import ast
import base64
import dataclasses
import io
import json
import re
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.container import contract
from submit_tf_job.jobspec.job import (
    Elastic,
    Input,
    Kerberos,
    Retries,
    ShippedFile,
    Strategy,
    Variables,
)
from submit_tf_job.plan import payload
from submit_tf_job.plan.delivery import pack
from submit_tf_job.plan.site import Names, WebStaging
from tests.golden.fixed import (
    SITE,
    block,
    bootstrap_of,
    make_job,
    make_role,
    task_of,
)

PACKAGE = Path(submit_tf_job.__file__).parent


WITH_ARCHIVE = make_role(files=(ShippedFile(".tfjob-archives/a.zip", b"", unpack="."),))
CUSTOM = {"strategy": Strategy.CUSTOM}
MEETING = dataclasses.replace(
    SITE, names=Names.AUTO, web_hdfs=WebStaging("https", ("nn1:9871", "nn2:9871"), "/user/alice/s")
)
JOBS = {  # with the optional folders of `container` that travel
    "plain": (make_job(**CUSTOM), SITE, ()),
    "tokens": (make_job(**CUSTOM), dataclasses.replace(SITE, secure=True), ("delegation",)),
    "login": (
        make_job(kerberos=Kerberos("svc/_HOST@R", "hdfs:///k"), **CUSTOM),
        SITE,
        ("delegation", "login"),
    ),
    "files": (make_job(WITH_ARCHIVE, **CUSTOM), SITE, ("shipping",)),
    "data": (make_job(inputs=(Input("data", "hdfs:///d"),), **CUSTOM), SITE, ("data",)),
    "framework": (make_job(), SITE, ("frameworks",)),
    "meeting": (make_job(**CUSTOM), MEETING, ("data", "meeting")),
    "gpus": (make_job(make_role(gpus=1), **CUSTOM), SITE, ("devices",)),
    "variables": (make_job(variables=(Variables.TONY,), **CUSTOM), SITE, ("systems",)),
}


@pytest.fixture(scope="module")
def codes() -> dict[str, dict[str, str]]:
    """The modules that travel with each of the jobs."""
    return {
        name: json.loads(zlib.decompress(base64.b64decode(block(bootstrap_of(job, site), "CODE"))))
        for name, (job, site, _) in JOBS.items()
    }


# --- the code -------------------------------------------------------------------------------------


def test_code_holds_the_modules_of_container(codes: dict[str, dict[str, str]]) -> None:
    container = PACKAGE / "container"
    for name, (_, _, folders) in JOBS.items():
        own = {
            f"submit_tf_job/{path.relative_to(PACKAGE).as_posix()}": payload.stripped(
                path.read_text("utf-8")
            )
            for folder in (container, *(container / each for each in folders))
            for path in folder.glob("*.py")
        }
        assert codes[name] == {"submit_tf_job/__init__.py": "", **own}, name


class Bare(ast.NodeTransformer):
    """Removes annotations, their imports, and the one that leaves them unevaluated."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if node.value is None:
            return None
        return ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if _is_for_types(node.targets[0]) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return None if _is_for_types(node.test) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node


def _is_for_types(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def _dumped(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body[0] = ast.Expr(ast.Constant(""))
    return ast.dump(tree)


# `programs` are sent as they are
CONTAINER = sorted(
    path for path in (PACKAGE / "container").rglob("*.py") if path.parent.name != "programs"
)


def test_stripped_removes_only_what_does_not_run() -> None:
    for path in CONTAINER:
        source = path.read_text("utf-8")
        stripped = payload.stripped(source)
        assert _dumped(ast.parse(stripped)) == _dumped(Bare().visit(ast.parse(source))), path
        assert not [line for line in stripped.splitlines() if line.lstrip().startswith("#")], path


@pytest.mark.slow
def test_code_runs_on_python_3_5(codes: dict[str, dict[str, str]], tmp_path: Path) -> None:
    """Checked by its syntax and the standard library's names; 3.6 runs the tests of the bootstrap.

    No published package has an interpreter of 3.5.
    """
    for name, source in {k: v for code in codes.values() for k, v in code.items()}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    vermin = [str(Path(sys.executable).with_name("vermin")), "--no-tips", "--violations", "-t=3.5-"]
    # called with it where Python knows it
    guarded = ["--exclude", "signal.set_wakeup_fd(warn_on_full_buffer)"]
    done = subprocess.run([*vermin, *guarded, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


IMPORTERS = {
    f"submit_tf_job/container/{name}.py"
    for name in ("main", "agent", "decider", "follower", "data/webhdfs_client")
}  # only with a key of the task description, or for type checks
ONLY_WHERE_NEEDED = tuple(
    f"submit_tf_job.container.{name}"
    for name in (
        "data",
        "delegation",
        "devices",
        "frameworks",
        "login",
        "meeting",
        "retrying",
        "shipping",
        "systems",
    )
)


def test_code_imports_only_standard_library_and_itself(codes: dict[str, dict[str, str]]) -> None:
    pattern = re.compile(
        r"^\s*(?:from|import) (submit_tf_job[\w.]*)(?: import (\w+))?", re.MULTILINE
    )
    for code in codes.values():
        for name, source in code.items():
            for module, inner in pattern.findall(source):
                path = module.replace(".", "/")
                candidates = {f"{path}.py", f"{path}/__init__.py", f"{path}/{inner}.py"}
                later = name in IMPORTERS and module.startswith(ONLY_WHERE_NEEDED)
                assert candidates & set(code) or later, f"{name} imports {module}"


# --- the file -------------------------------------------------------------------------------------


def test_bootstrap_is_ascii_python_in_short_lines() -> None:
    files = (ShippedFile("a", bytes(range(256)) * 50),)
    env = {"A": 'é"""\\${A}{{x}}\u2028', "B": "x" * 5}
    text = bootstrap_of(make_job(make_role(env=env, files=files)))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 140
    ast.parse(text, feature_version=(3, 7))


def test_bootstrap_holds_the_tar_of_the_files_or_nothing() -> None:
    files = (ShippedFile("a", b"1"),)
    text = bootstrap_of(make_job(make_role(files=files)))
    made = pack(files)
    assert made
    assert zlib.decompress(base64.b64decode(block(text, "FILES"))) == made.tobytes()
    assert block(bootstrap_of(make_job()), "FILES") == ""


# --- the description ------------------------------------------------------------------------------


def test_task_description_has_the_bounds_of_elastic_roles_alone() -> None:
    elastic = make_role("worker", instances=8, elastic=Elastic(2, 90))
    task = task_of(make_job(make_role("chief"), elastic, retries=Retries(3)))
    assert task["elastic"] == {"worker": {"min": 2, "grow_after_s": 90}}
    assert task["roles"]["worker"]["count"] == 8
    assert {"retries", "elastic"} <= set(payload.needs(task))
    assert "elastic" not in task_of(make_job(retries=Retries(3)))


def test_task_description_of_other_sites() -> None:
    without_domain = task_of(make_job(), dataclasses.replace(SITE, domain=None))
    assert without_domain["host_suffix"] is None
    site = dataclasses.replace(SITE, user="Al_Ice@REALM", dns_server="dns:53")
    mapped = task_of(make_job(), site)
    suffix = f"{mapped['run']}.al-ice.example.com"
    assert (mapped["host_suffix"], mapped["dns_server"]) == (suffix, "dns:53")


# --- files ----------------------------------------------------------------------------------------

FILES = [
    ShippedFile("b/run.sh", b"#!/bin/sh\n", executable=True),
    ShippedFile("a.py", b"print()\n"),
    ShippedFile("ü/日本 x", bytes(range(256))),
]


def tar_of(files: Iterable[ShippedFile]) -> bytes:
    made = pack(files)
    assert made
    return made.tobytes()


def members(tar: bytes) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        files = [(member, archive.extractfile(member)) for member in archive]
        return {member.name: (file.read(), member.mode) for member, file in files if file}


def test_pack_keeps_bytes_and_modes() -> None:
    assert members(tar_of(FILES)) == {
        file.name: (file.content, 0o755 if file.executable else 0o644) for file in FILES
    }


def test_pack_depends_only_on_names_modes_and_contents() -> None:
    assert tar_of(FILES) == tar_of(reversed(FILES)) == tar_of(iter(FILES))
    with tarfile.open(fileobj=io.BytesIO(tar_of(FILES))) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in archive} == {(0, 0, 0, "", "")}


def test_pack_of_no_files() -> None:
    assert pack([]) is None


@pytest.mark.parametrize("name", ["probe", "imageprobe"])
def test_programs_for_any_image_parse_with_python_3_6(name: str) -> None:
    source = (PACKAGE / "container" / "programs" / f"{name}.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 5))
    assert "__future__" not in source
    types = [node.returns for node in ast.walk(ast.parse(source)) if hasattr(node, "returns")]
    types += [node.annotation for node in ast.walk(ast.parse(source)) if isinstance(node, ast.arg)]
    # Python up to 3.8 evaluates them, and cannot subscript `dict`
    assert not [ast.unparse(each) for each in types if isinstance(each, ast.Subscript)]


def test_older_python_is_named_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: dict[str, Any] = {"__name__": "bootstrap"}
    exec(payload.pack({"version": 1}, None), made)
    monkeypatch.setattr(sys, "version_info", (3, 4, 9))
    assert made["_start"]() == contract.EXIT_BOOTSTRAP_ERROR
    said = capsys.readouterr().err
    assert said.startswith("[submit_tf_job] the bootstrap needs Python 3.5 or later, and ")
    assert said.count("\n") == 1
