"""The environment of one task, computed without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from submit_tf_job import jobspec
from submit_tf_job.errors import UsageError
from submit_tf_job.jobspec.job import Input, Job, Output, Strategy, TFConfigMode
from submit_tf_job.plan import plan
from submit_tf_job.plan.preview import TaskPreview, preview
from tests.golden.fixed import KEY, SITE, make_job, make_role

RUN = "mnist-52vtaptn"
END = f"{RUN}.alice.example.com"


def shown(job: Job, task: str, domain: str | None = "example.com") -> TaskPreview:
    return preview(plan(job, replace(SITE, domain=domain), key=KEY), task)


def test_preview_has_tf_config_and_facts() -> None:
    role = make_role(instances=2, env={"A": "b c"})
    found = shown(make_job(make_role("chief"), role), "worker-1")
    value = json.loads(found.environment["TF_CONFIG"])
    assert value["task"] == {"type": "worker", "index": 1}
    workers = value["cluster"]["worker"]
    assert workers[1].startswith(f"worker-1.{END}:")
    kept = {
        name: text
        for name, text in found.environment.items()
        if name not in ("TF_CONFIG", "TFJOB_PORT", "TFJOB_PROGRESS_FILE")
    }
    assert kept == {
        "A": "b c",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
        "TFJOB_NAME": "mnist",
        "TFJOB_ROLE": "worker",
        "TFJOB_INDEX": "1",
        "TFJOB_COUNT": "2",
        "TFJOB_RUN": RUN,
        "TFJOB_ATTEMPT": "0",
        "TFJOB_RANK": "2",
        "TFJOB_WORLD_SIZE": "3",
        "TFJOB_LOCAL_RANK": "0",
        "TFJOB_ADDRESS": value["cluster"]["chief"][0],
        "TFJOB_HOSTS_CHIEF": value["cluster"]["chief"][0],
        "TFJOB_HOSTS_WORKER": ",".join(workers),
    }
    assert workers[1].endswith(":" + found.environment["TFJOB_PORT"])
    assert found.notes == ()
    assert found.to_json()["tf_config"] == value


def test_preview_has_the_variables_of_the_strategy() -> None:
    roles = (make_role("chief", gpus=2), make_role(env={"PET_NPROC_PER_NODE": "1"}))
    torch = shown(make_job(*roles, strategy=Strategy.TORCH), "chief-0").environment
    assert (torch["PET_NPROC_PER_NODE"], torch["PET_RDZV_CONF"]) == ("2", "is_host=1")
    second = shown(make_job(*roles, strategy=Strategy.TORCH), "worker-0").environment
    assert (second["PET_NPROC_PER_NODE"], second["RANK"]) == ("1", second["TFJOB_RANK"])
    jax = shown(make_job(*roles, strategy=Strategy.JAX), "worker-0").environment
    assert jax["JAX_COORDINATOR_ADDRESS"] == jax["TFJOB_ADDRESS"] == torch["PET_RDZV_ENDPOINT"]


def test_preview_of_literal_tf_config_without_the_bootstrap() -> None:
    job = make_job(bootstrap=False, tf_config=TFConfigMode.LITERAL)
    found = dict(shown(job, "worker-1").environment)
    assert json.loads(found.pop("TF_CONFIG"))["task"] == {"type": "worker", "index": 1}
    assert found == {"TFJOB_INSTANCE": "worker-1", "CUDA_VISIBLE_DEVICES": ""}


def test_preview_of_inputs_outputs_and_ports() -> None:
    job = make_job(
        make_role("chief", ports={"http": 0, "my-api": 6006}),
        inputs=(Input("data", "hdfs:///d"), Input("copy", "hdfs:///c", download=True)),
        outputs=(Output("model", "hdfs:///m", upload=True),),
    )
    found = shown(job, "chief-0")
    assert found.notes == ("TFJOB_PORT_HTTP is a free port of the task's node",)
    assert {
        name: text
        for name, text in found.environment.items()
        if name.startswith(("TFJOB_INPUT", "TFJOB_OUTPUT", "TFJOB_FILES", "TFJOB_PORT_"))
    } == {
        "TFJOB_INPUT_DATA": "hdfs:///d",
        "TFJOB_INPUT_COPY": "./tfjob-inputs/copy",
        "TFJOB_FILES_COPY": "./tfjob-inputs/copy.files",
        "TFJOB_OUTPUT_MODEL": "./tfjob-outputs/model",
        "TFJOB_PORT_MY_API": "6006",
    }


def test_preview_says_that_the_domain_is_unknown() -> None:
    found = shown(make_job(), "chief-0", domain=None)
    assert ".alice.<domain>:" in found.environment["TFJOB_ADDRESS"]
    assert found.notes == (
        "<domain> stands for the registry's domain, which is not known here (dns.domain)",
    )


@pytest.mark.parametrize("task", ["worker-2", "worker", "boss-0", "worker--1"])
def test_preview_refuses_tasks_that_the_job_does_not_have(task: str) -> None:
    with pytest.raises(UsageError, match="the job has no task") as raised:
        shown(make_job(), task)
    assert raised.value.hint == "its tasks are chief-0, worker-0 to worker-1"


def test_legacy_master_under_custom() -> None:
    text = (
        "name: mnist\nimage: a/b:1\ncommand: x\nstrategy: custom\ntf_config: counts\n"
        "legacy_master: true\nvariables: cloud\n"
        "roles: {master: {memory: 1Gi}, worker: {memory: 1Gi}, ps: {memory: 1Gi}}\n"
    )
    job = jobspec.loads(text, source="train.yaml", base=None)
    value = json.loads(shown(job, "chief-0").environment["TF_CONFIG"])
    assert (list(value["cluster"]), value["task"]["type"], value["environment"]) == (
        ["master", "worker", "ps"],
        "master",
        "cloud",
    )
