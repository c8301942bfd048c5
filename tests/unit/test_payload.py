"""What travels with every task: the description, the code, the files."""

from __future__ import annotations

import ast
import base64
import dataclasses
import io
import json
import re
import tarfile
import zlib
from pathlib import Path

import pytest

import submit_tf_job
from submit_tf_job import contract
from submit_tf_job.job import Command, HadoopConf, Kerberos, ShippedFile, Strategy, TFConfigMode
from submit_tf_job.jobdata import Input
from submit_tf_job.plan import payload
from tests.golden.fixed import SITE, SUBMISSION, block, make_job, make_role

PACKAGE = Path(submit_tf_job.__file__).parent


TOKENS = {"bootstrap/hadoop.py", "bootstrap/tokens.py"}
LOGIN = {"keytab.py", "bootstrap/gss.py", "bootstrap/login.py"}
DATA = {f"bootstrap/{name}.py" for name in ("data", "hadoop", "store", "stores", "transfer", "webhdfs")}
SHIPPED = {"bootstrap/shipped.py"}
WITH_ARCHIVE = make_role(files=(ShippedFile(".tfjob-archives/a.zip", b"", unpack="."),))
JOBS = {  # what travels with whom, beside what always does
    "plain": (make_job(), SITE, set[str]()),
    "tokens": (make_job(), dataclasses.replace(SITE, secure=True), TOKENS),
    "login": (make_job(kerberos=Kerberos("svc/_HOST@R", "hdfs:///k")), SITE, TOKENS | LOGIN),
    "files": (make_job(WITH_ARCHIVE), SITE, SHIPPED),
    "data": (make_job(inputs=(Input("data", "hdfs:///d"),)), SITE, DATA),
}


@pytest.fixture(params=JOBS)
def code(request: pytest.FixtureRequest) -> dict[str, str]:
    job, site, _ = JOBS[request.param]
    text = payload.bootstrap_file(job, site, SUBMISSION, None)
    modules: dict[str, str] = json.loads(zlib.decompress(base64.b64decode(block(text, "CODE"))))
    return modules


# --- the code ---------------------------------------------------------------------------------------------------------


def test_the_code_is_the_packages_very_own(code: dict[str, str], request: pytest.FixtureRequest) -> None:
    travels = next(travels for name, (_, _, travels) in JOBS.items() if f"[{name}]" in request.node.name)
    left_out = (TOKENS | LOGIN | DATA | SHIPPED) - travels
    paths = [*(PACKAGE / name for name in ("contract.py", "keytab.py", "tfconfig.py")), *(PACKAGE / "bootstrap").glob("*.py")]
    own = {
        f"submit_tf_job/{name}": path.read_text("utf-8") for path in paths if (name := path.relative_to(PACKAGE).as_posix()) not in left_out
    }
    assert code == {"submit_tf_job/__init__.py": "", **own}


def test_the_code_can_be_read_by_python_3_7(code: dict[str, str]) -> None:
    for name, source in code.items():
        ast.parse(source, name, feature_version=(3, 7))


IMPORTERS = {f"submit_tf_job/bootstrap/{name}.py" for name in ("main", "agent")}  # when the description says so, or to name a type
ONLY_WHERE_NEEDED = {f"submit_tf_job.bootstrap.{name}" for name in ("data", "login", "shipped", "tokens")} | {"submit_tf_job.bootstrap"}


def test_the_code_imports_nothing_that_does_not_travel(code: dict[str, str]) -> None:
    for name, source in code.items():
        for found in re.findall(r"^\s*(?:from|import) (submit_tf_job[\w.]*)(?: import (\w+))?", source, re.MULTILINE):
            candidates = {f"{found[0].replace('.', '/')}{tail}" for tail in (".py", "/__init__.py", f"/{found[1]}.py")}
            later = name in IMPORTERS and found[0] in ONLY_WHERE_NEEDED
            assert candidates & set(code) or later, f"{name} imports {found}"


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_is_plain_ascii_python_in_short_lines() -> None:
    job = make_job(make_role(env={"A": 'é"""\\${A}{{x}}\u2028', "B": "x" * 5}))
    text = payload.bootstrap_file(job, SITE, SUBMISSION, payload.files_tar([ShippedFile("a", bytes(range(256)) * 50)]))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 140
    ast.parse(text, feature_version=(3, 7))


def test_the_file_says_what_the_job_is() -> None:
    tar = payload.files_tar([ShippedFile("a", b"1")])
    text = payload.bootstrap_file(make_job(), SITE, SUBMISSION, tar)
    assert json.loads(block(text, "TASK")) == payload.task_description(make_job(), SITE, SUBMISSION)
    assert zlib.decompress(base64.b64decode(block(text, "FILES"))) == tar
    assert block(payload.bootstrap_file(make_job(), SITE, SUBMISSION, None), "FILES") == ""


# --- the description --------------------------------------------------------------------------------------------------


def test_the_description_holds_counts_and_no_names() -> None:
    job = make_job(
        make_role("chief", env={"A": "1"}),
        make_role("worker", instances=10_000, gpus=2, max_restarts=3, tolerate=1),
        make_role("board", command=Command(script="tensorboard")),
        start_timeout_s=1,
        finish_timeout_s=2,
        grace_s=3,
    )
    assert payload.task_description(job, SITE, SUBMISSION) == {
        "version": 1,
        "job": "mnist",
        "submission": SUBMISSION,
        "strategy": "multi-worker",
        "host_suffix": "mnist.alice.example.com",
        "dns_server": None,
        "ports": {"mode": "host", "first": 20000, "last": 32767},
        "deciding": "chief",
        "cluster_roles": ["chief", "worker"],
        "legacy_master": False,
        "tf_config": "counts",
        "start_timeout_s": 1,
        "finish_timeout_s": 2,
        "grace_s": 3,
        "hadoop_conf": None,
        "roles": {
            "chief": {
                "count": 1,
                "duty": "decides",
                "command": ["python", "t.py"],
                "env": {"A": "1"},
                "max_restarts": 0,
                "tolerate": 0,
                "gpus": 0,
            },
            "worker": {
                "count": 10000,
                "duty": "trains",
                "command": ["python", "t.py"],
                "env": {},
                "max_restarts": 3,
                "tolerate": 1,
                "gpus": 2,
            },
            "board": {"count": 1, "duty": "sidecar", "command": "tensorboard", "env": {}, "max_restarts": 0, "tolerate": 0, "gpus": 0},
        },
    }


def test_the_description_of_other_sites() -> None:
    without_domain = payload.task_description(make_job(), dataclasses.replace(SITE, domain=None), SUBMISSION)
    assert without_domain["host_suffix"] is None
    mapped = payload.task_description(make_job(), dataclasses.replace(SITE, user="Al_Ice@REALM", dns_server="dns:53"), SUBMISSION)
    assert (mapped["host_suffix"], mapped["dns_server"]) == ("mnist.al-ice.example.com", "dns:53")


@pytest.mark.parametrize("network", ["bridge", "overlay", "none"])
def test_containers_with_an_address_of_their_own_need_no_range_of_ports(network: str) -> None:
    assert payload.port_rule(make_job(network=network), SITE) == {"mode": "own-address"}


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        (None, None),
        (HadoopConf("inline"), "inline"),
        (HadoopConf("node", "/etc/hadoop/conf"), "/etc/hadoop/conf"),
        (HadoopConf("archive", "hdfs:///conf.zip"), f"archive:{contract.HADOOP_CONF_LINK}"),
    ],
)
def test_where_the_hadoop_configuration_is(conf: HadoopConf | None, told: str | None) -> None:
    assert payload.task_description(make_job(hadoop=conf), SITE, SUBMISSION)["hadoop_conf"] == told


@pytest.mark.parametrize(
    ("strategy", "deciding", "duties"),
    [
        ("single", "worker", {"worker": "decides", "board": "sidecar"}),
        ("multi-worker", "worker", {"worker": "decides"}),
        ("multi-worker", "chief", {"chief": "decides", "worker": "trains", "evaluator": "evaluates", "board": "sidecar"}),
        ("parameter-server", "chief", {"chief": "decides", "worker": "serves", "ps": "serves", "evaluator": "evaluates"}),
        ("estimator", "chief", {"chief": "decides", "worker": "trains", "ps": "serves", "evaluator": "evaluates"}),
        ("custom", "main", {"main": "decides", "helper": "sidecar", "worker": "trains"}),
    ],
)
def test_what_the_rendezvous_expects_of_each_role(strategy: str, deciding: str, duties: dict[str, str]) -> None:
    job = make_job(*map(make_role, duties), strategy=Strategy(strategy), deciding_role=deciding)
    assert {name: payload.duty(job, role) for name, role in job.roles.items()} == duties
    assert set(duties.values()) <= set(contract.DUTIES)


def test_the_cluster_is_in_tensorflows_order_and_without_the_evaluator() -> None:
    job = make_job(*map(make_role, ("ps", "board", "evaluator", "worker", "chief")), deciding_role="chief")
    assert payload.cluster_roles(job) == ["chief", "worker", "ps"]


def test_literal_and_none_are_told_too() -> None:
    for mode in TFConfigMode:
        assert payload.task_description(make_job(tf_config=mode), SITE, SUBMISSION)["tf_config"] == mode.value


# --- files ------------------------------------------------------------------------------------------------------------

FILES = [
    ShippedFile("b/run.sh", b"#!/bin/sh\n", executable=True),
    ShippedFile("a.py", b"print()\n"),
    ShippedFile("ü/日本 x", bytes(range(256))),
]


def members(tar: bytes) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        files = [(member, archive.extractfile(member)) for member in archive]
        return {member.name: (file.read(), member.mode) for member, file in files if file}


def test_files_keep_their_bytes_and_their_executable_bit() -> None:
    tar = payload.files_tar(FILES)
    assert tar
    assert members(tar) == {file.name: (file.content, 0o755 if file.executable else 0o644) for file in FILES}


def test_a_tar_depends_on_nothing_but_names_modes_and_contents() -> None:
    assert payload.files_tar(FILES) == payload.files_tar(reversed(FILES)) == payload.files_tar(iter(FILES))
    with tarfile.open(fileobj=io.BytesIO(payload.files_tar(FILES) or b"")) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in archive} == {(0, 0, 0, "", "")}


def test_no_files_is_no_tar() -> None:
    assert payload.files_tar([]) is None


def test_a_content_is_named_by_its_sha256() -> None:
    assert payload.content_id(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
