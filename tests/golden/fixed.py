"""One site, one user and plain jobs for golden, unit and property tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from submit_tf_job import jobspec
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Command, Job, Role, RoleKind, Strategy
from submit_tf_job.jobspec.rules import default_kind
from submit_tf_job.plan import Site, plan
from submit_tf_job.plan.site import WebStaging

ROOT = Path(__file__).parents[2]
# but one whose packages an index resolves when it is read, and one that needs the user's token file
SPECS = sorted(
    {*(ROOT / "specs").glob("*.yaml"), *(ROOT / "tests/golden").glob("*.yaml")}
    - {ROOT / "specs/tensorflow-io.yaml", ROOT / "specs/notebook.yaml"}
)
GOLDEN = Path(__file__).parent
HADOOP_CONF = GOLDEN / "hadoop-conf"
KRB5_CONF = HADOOP_CONF / "krb5.conf"
STAGING = "hdfs://nn.example.com:8020/user/alice/.submit_tf_job/staging"
WEB = WebStaging("http", ("nn.example.com:9870",), "/user/alice/.submit_tf_job/staging")
SITE = Site("alice", domain="example.com", staging=STAGING, web_hdfs=WEB)
SITE_WITHOUT_STAGING = replace(SITE, staging=None, web_hdfs=None)
KEY = "0123456789abcdef"


def load(path: Path) -> Job:
    """Return the job of an example job spec."""
    host = Host(path.parent, HADOOP_CONF, (KRB5_CONF,))
    return jobspec.read(path.read_bytes(), source=str(path), host=host).job


def spec_job(text: str = "", roles: str = "", **more: Any) -> Job:
    """Return the job of a job spec; what its text leaves out is a plain chief with two workers."""
    head = {
        "name": "mnist",
        "image": "library/tf:2",
        "command": "[python, t.py]",
        "strategy": "multi-worker",
        "roles": roles or "{chief: {memory: 512Mi}, worker: {memory: 512Mi, instances: 2}}",
    }
    stated = {line.partition(":")[0] for line in text.splitlines()}
    text += "".join(f"{key}: {value}\n" for key, value in head.items() if key not in stated)
    return jobspec.loads(text, **{"source": "train.yaml", "base": None, **more})


def make_role(name: str = "worker", **values: Any) -> Role:
    """Return a plain role with the given values."""
    plain = {"instances": 1, "command": Command(argv=("python", "t.py")), "memory_mib": 512}
    return Role(**{"name": name, "image": "library/tf:2", **plain, **values})


def make_job(*roles: Role, **values: Any) -> Job:
    """Return a plain job with the given values; by default with a chief and two workers.

    Roles without a kind of their own have the one that strategy and name give them.
    """
    asked = roles or (make_role("chief"), make_role("worker", instances=2))
    given = {"name": "mnist", "strategy": Strategy.MULTI_WORKER, **values}
    given.setdefault("deciding_role", asked[0].name)
    with_kinds = {}
    for role in asked:
        default = default_kind(given["strategy"], role.name, given["deciding_role"])
        own = role.kind is not RoleKind.TRAINS
        with_kinds[role.name] = role if own else replace(role, kind=default)
    return Job(roles=with_kinds, **given)


def task_of(job: Job, site: Site = SITE, key: str = KEY) -> dict[str, Any]:
    """Return the task description, as the first role's tasks get it."""
    configuration = plan(job, site, key=key).service.configuration
    assert configuration
    [file] = [file for file in configuration.files if file.dest_file == "tfjob.json"]
    assert file.properties
    found: dict[str, Any] = json.loads(file.properties["content"])
    return found
