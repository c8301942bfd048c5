"""How tasks find one another without Registry DNS, in a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec.job import Job, TFConfigMode
from submit_tf_job.plan import Site, plan
from submit_tf_job.plan.preview import preview
from submit_tf_job.plan.site import Names, WebStaging
from tests.golden.fixed import SITE, make_job, make_role, task_of

STAGING = "hdfs://nameservice1/user/alice/staging"
WEB = WebStaging("http", ("nn1:9870", "nn2:9870"), "/user/alice/staging")
NAMELESS = replace(SITE, names=Names.RENDEZVOUS, staging=STAGING, web_hdfs=WEB)
TWO = make_job(make_role("chief"), make_role("worker"))


def described(job: Job, site: Site) -> Any:
    return task_of(job, site).get("meeting")


def problems(job: Job, site: Site) -> list[str]:
    try:
        plan(job, site)
    except JobSpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_tasks_are_told_where_to_meet() -> None:
    told = {
        "protocol": "http",
        "addresses": ["nn1:9870", "nn2:9870"],
        "path": "/user/alice/staging/rendezvous/mnist",
        "user": "alice",
        "dns": False,
    }
    assert described(TWO, NAMELESS) == told
    assert described(TWO, replace(NAMELESS, names=Names.AUTO)) == {**told, "dns": True}


@pytest.mark.parametrize(
    ("job", "site"),
    [
        (TWO, replace(NAMELESS, names=Names.DNS)),
        (TWO, replace(NAMELESS, names=Names.AUTO, web_hdfs=None)),
        (make_job(make_role("worker")), replace(NAMELESS, web_hdfs=None)),
    ],
)
def test_tasks_are_told_nothing_where_they_need_or_have_no_hdfs(job: Job, site: Site) -> None:
    assert described(job, site) is None
    assert problems(job, site) == []


def test_what_rendezvous_refuses() -> None:
    assert problems(TWO, replace(NAMELESS, web_hdfs=None)) == [
        "roles: with `names: rendezvous` of the settings the tasks find one another by a directory "
        "of HDFS, and none is configured; set hadoop_conf (or staging: hdfs://…), or use "
        "`names: dns`"
    ]
    literal = make_job(make_role("chief"), make_role("worker"), tf_config=TFConfigMode.LITERAL)
    assert problems(literal, NAMELESS) == [
        "tf_config: literal writes host names, and with `names: rendezvous` of the settings no "
        "task can resolve them; use counts"
    ]
    assert problems(literal, replace(NAMELESS, names=Names.AUTO)) == []


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (
            Names.RENDEZVOUS,
            "with `names: rendezvous` the program gets addresses instead of host names",
        ),
        (
            Names.AUTO,
            "with `names: auto` it gets addresses in place of host names that do not resolve",
        ),
    ],
)
def test_a_preview_says_that_addresses_take_the_place_of_names(names: Names, note: str) -> None:
    planned = plan(TWO, replace(NAMELESS, names=names))
    assert note in preview(planned, "worker-0").notes
