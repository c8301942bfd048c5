"""One site, one user and plain jobs, the same in every run: what golden, unit and property tests plan for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from submit_tf_job import specfile
from submit_tf_job.job import Command, Job, Role, Strategy
from submit_tf_job.plan import Site

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
GOLDEN = Path(__file__).parent
HADOOP_CONF = GOLDEN / "hadoop-conf"
KRB5_CONF = HADOOP_CONF / "krb5.conf"
STAGING = "hdfs://nn.example.com:8020/user/alice/.submit_tf_job/staging"
SITE = Site("alice", domain="example.com", staging=STAGING)
SITE_WITHOUT_STAGING = replace(SITE, staging=None)
SUBMISSION = "0123456789abcdef"


def load(path: Path) -> Job:
    """Read one of the example job specs."""
    return specfile.load(path, hadoop_conf=HADOOP_CONF, krb5_conf=[KRB5_CONF])


def make_role(name: str = "worker", **values: Any) -> Role:
    """Make a plain role, but for what is asked."""
    return Role(
        **{"name": name, "instances": 1, "command": Command(argv=("python", "t.py")), "image": "library/tf:2", "memory_mib": 512, **values}
    )


def make_job(*roles: Role, **values: Any) -> Job:
    """Make a plain job, but for what is asked; without roles it has a chief and two workers."""
    asked = roles or (make_role("chief"), make_role("worker", instances=2))
    plain: Mapping[str, Any] = {"name": "mnist", "strategy": Strategy.MULTI_WORKER, "deciding_role": asked[0].name}
    return Job(roles={role.name: role for role in asked}, **{**plain, **values})


def block(text: str, name: str) -> str:
    """Return what stands between the quotes of `NAME = \"\"\"…\"\"\"` in a generated bootstrap.py."""
    found = re.search(rf'^{name} = r?"""\n(.*?)\n"""$', text, re.DOTALL | re.MULTILINE)
    assert found, f"no {name}"
    return found[1]
