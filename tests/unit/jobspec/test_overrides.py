"""`--set path=value`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from submit_tf_job.host.located.nodes import Location
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.job import (
    Command,
    Elastic,
    Input,
    Job,
    Mount,
    Output,
    Uploader,
)

SPEC = """\
name: t
image: tf
command: [python, train.py]
strategy: estimator
roles:
  master: {memory: 4Gi, env: {A: b}}
  worker: {memory: 4Gi, instances: 2, restart: on-failure}
mounts: ["/a:/b"]
"""


def read(*overrides: str, text: str = SPEC) -> Job:
    return loads(text, source="train.yaml", base=None, overrides=overrides)


@pytest.mark.parametrize(
    ("override", "role", "attribute", "expected"),
    [
        ("roles.worker.instances=8", "worker", "instances", 8),
        ("roles.worker.gpus= 1", "worker", "gpus", 1),
        ("roles.worker.memory=512Mi", "worker", "memory_mib", 512),
        ("image=other:1", "chief", "image", "other:1"),
        ("roles.chief.image=gpu", "chief", "image", "gpu"),
        ("roles.master.image=gpu", "chief", "image", "gpu"),
        ("env.A=1.10", "worker", "env", {"A": "1.10"}),
        ("env.A=yes", "worker", "env", {"A": "yes"}),
        ("env.A=", "worker", "env", {"A": ""}),
        ("env.A=b=c, d: [e]", "worker", "env", {"A": "b=c, d: [e]"}),
        ("env={A: b, C: d}", "worker", "env", {"A": "b", "C": "d"}),
        ("roles.chief.env.A=#c", "chief", "env", {"A": "#c"}),
        ("roles.chief.env.B=c", "chief", "env", {"A": "b", "B": "c"}),
        ("command=python other.py", "worker", "command", Command(script="python other.py")),
        ('command=[python, "3"]', "worker", "command", Command(argv=("python", "3"))),
        ("command[1]=3", "worker", "command", Command(argv=("python", "3"))),
        (
            "command[2]=--epochs=3",
            "worker",
            "command",
            Command(argv=("python", "train.py", "--epochs=3")),
        ),
        ("mounts[0]=/c:/d:rw", "worker", "mounts", (Mount("/c", "/d", read_only=False),)),
        ("mounts[1]=/c:/d", "worker", "mounts", (Mount("/a", "/b"), Mount("/c", "/d"))),
        ("mounts=[]", "worker", "mounts", ()),
        ("roles.worker.restart=never", "worker", "restart", "never"),
        ("roles.worker.restart={policy: on-failure, max: 9}", "worker", "max_restarts", 9),
        ("roles.worker.ports.http=80", "worker", "ports", {"http": 80}),
    ],
)
def test_set_changes_one_value_of_a_role(
    override: str, role: str, attribute: str, expected: object
) -> None:
    assert getattr(read(override).roles[role], attribute) == expected


def test_set_changes_values_of_the_job() -> None:
    job = read(
        "queue=010",
        "lifetime=2h",
        "kerberos.principal=a/b",
        "kerberos.keytab=hdfs:///k",
        "legacy_master=true",
        "python=py",
        "name=u",
    )
    assert (job.queue, job.lifetime_s, job.legacy_master, job.python, job.name) == (
        "010",
        7200,
        True,
        "py",
        "u",
    )
    assert job.kerberos is not None
    assert job.kerberos.principal == "a/b"


RETRIED = SPEC.replace(", restart: on-failure", "")


def test_set_gives_the_short_form_of_a_mapping() -> None:
    job = read("retries=3", "roles.worker.instances=8", text=RETRIED)
    assert job.retries is not None
    assert (job.retries.max, job.roles["worker"].instances) == (3, 8)
    job = read("retries=2", "roles.worker.instances={min: 2, max: 8}", text=RETRIED)
    assert (job.roles["worker"].instances, job.roles["worker"].elastic) == (8, Elastic(2))


def test_set_of_one_number_ends_elasticity() -> None:
    text = RETRIED.replace("instances: 2", "instances: {min: 2, max: 8}") + "retries: 1\n"
    assert read(text=text).roles["worker"].least == 2
    fixed = read("roles.worker.instances=4", text=text).roles["worker"]
    assert (fixed.instances, fixed.least, fixed.elastic) == (4, 4, None)
    lower = read("roles.worker.instances.max=4", text=text).roles["worker"]
    assert (lower.instances, lower.least) == (4, 2)


def test_set_accepts_dots_in_names_of_node_attributes() -> None:
    job = read(
        "roles.worker.placement.node_attributes.rm.yarn.io/os=linux",
        "roles.worker.placement.node_attributes.gpu=[a, b]",
    )
    placement = job.roles["worker"].placement
    assert placement is not None
    assert placement.attributes == {"rm.yarn.io/os": ("linux",), "gpu": ("a", "b")}


def test_set_changes_policy_and_max_of_restart() -> None:
    worker = read("roles.worker.restart.policy=on-failure", "roles.worker.restart.max=7").roles[
        "worker"
    ]
    assert (worker.restart, worker.max_restarts) == ("on-failure", 7)


def test_set_adds_max_to_restart_in_its_short_form() -> None:
    worker = read("roles.worker.restart.max=7").roles["worker"]
    assert (worker.restart, worker.max_restarts) == ("on-failure", 7)


def test_set_applies_the_last_of_several() -> None:
    assert read("roles.worker.instances=8", "roles.worker.instances=9").counts["worker"] == 9
    assert read("env={A: b}", "env.A=c").roles["worker"].env == {"A": "c"}


def test_set_adds_a_role() -> None:
    job = read("roles.ps.memory=2Gi", "roles.ps.instances=3", "roles.tb={command: tb, memory: 1Gi}")
    assert job.counts == {"chief": 1, "worker": 2, "ps": 3, "tb": 1}
    assert job.places["roles.ps"] == job.places["roles.ps.instances"] == Location("--set")


def test_set_keeps_locations_of_other_values() -> None:
    job = read("roles.worker.instances=8")
    assert job.places["roles.worker"] == Location("train.yaml", 7, 3)
    assert job.places["roles.worker.memory"] == Location("train.yaml", 7, 12)


def test_set_changes_json() -> None:
    tree: dict[str, Any] = {
        "name": "t",
        "image": "tf",
        "command": "x",
        "strategy": "single",
        "roles": {"chief": {"memory": "1Gi"}},
    }
    assert read("roles.chief.cpus=2", text=json.dumps(tree)).roles["chief"].cpus == 2


DATA = """
inputs: {short: "hdfs:///a", long: {uri: "hdfs:///b", shard: files}}
"""


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("inputs.short=hdfs:///c", Input("short", "hdfs:///c")),
        # its other keys stay
        ("inputs.long=hdfs:///c", Input("long", "hdfs:///c", sharded=True)),
        ("inputs.long={uri: hdfs:///c}", Input("long", "hdfs:///c")),
        ("inputs.short.shard=files", Input("short", "hdfs:///a", sharded=True)),
        ("inputs.long.download=true", Input("long", "hdfs:///b", sharded=True, download=True)),
        ("inputs.new=hdfs:///n", Input("new", "hdfs:///n")),
        ("inputs.new={uri: hdfs:///n, download: true}", Input("new", "hdfs:///n", download=True)),
    ],
)
def test_set_changes_inputs(override: str, expected: Input) -> None:
    assert {item.name: item for item in read(override, text=SPEC + DATA).inputs}[
        expected.name
    ] == expected


def test_set_changes_outputs() -> None:
    assert read(
        "outputs.m=hdfs:///m", "outputs.m.upload=true", "outputs.m.by=every-task"
    ).outputs == (Output("m", "hdfs:///m", upload=True, by=Uploader.EVERY_TASK),)
