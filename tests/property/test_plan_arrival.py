"""What a job says arrives in its containers, from the plan to the program: through the AM, the
NodeManager and bash.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.jobspec.job import Command, Job, Strategy
from submit_tf_job.plan import Plan, plan
from tests.golden.fixed import SITE_WITHOUT_STAGING, make_job, make_role, task_of
from tests.property.shell import AppMaster, fragments

ROLES = ("chief", "worker", "ps", "evaluator", "board")
NAMES = ("A", "B_2", "_c", "NO_PROXY", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
OURS = (
    "${TFJOB_INSTANCE}",
    "${TF_CONFIG}",
    "${A}",
    "${B_2}",
    "${YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK}",
    "${content}",
    "{{content}}",
)
texts = st.lists(fragments() | st.sampled_from(OURS), max_size=4).map("".join)
slow = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def jobs(draw: st.DrawFn, /, **values: Any) -> Job:
    names = draw(st.lists(st.sampled_from(ROLES), min_size=1, max_size=4, unique=True))
    roles = []
    for name in names:
        arguments = draw(st.lists(texts, max_size=3))
        # A script of blanks alone is no command; the job spec's reader refuses it.
        command = (
            Command(argv=("show", *arguments))
            if draw(st.booleans())
            else Command(script="show " + "".join(arguments))
        )
        env = draw(st.dictionaries(st.sampled_from(NAMES), texts, max_size=4))
        roles.append(make_role(name, instances=draw(st.integers(1, 3)), command=command, env=env))
    return make_job(*roles, deciding_role=names[0], strategy=Strategy.CUSTOM, **values)


def masters(planned: Plan) -> list[AppMaster]:
    roles = planned.job.roles.values()
    return [
        AppMaster(role.name, index, planned.job.name, planned.site.registry_user)
        for role in roles
        for index in range(role.instances)
    ]


def components(planned: Plan) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in json.loads(planned.body)["components"]}


@slow
@given(jobs())
def test_am_does_not_change_the_file(job: Job) -> None:
    planned = plan(job, SITE_WITHOUT_STAGING)
    for master in masters(planned):
        configuration = components(planned)[master.component]["configuration"]
        files = json.loads(planned.body)["configuration"]["files"]
        for file in [*files, *configuration.get("files", [])]:
            content = file["properties"]["content"]
            assert master.file(content, configuration["env"]) == content
        task = json.loads(files[0]["properties"]["content"])
        assert task == task_of(job, SITE_WITHOUT_STAGING, planned.key)
        for name, role in job.roles.items():
            assert (task["roles"][name]["env"], task["roles"][name]["command"]) == (
                dict(role.env),
                role.command.to_json(),
            )
