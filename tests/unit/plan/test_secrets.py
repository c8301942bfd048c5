"""Literals that look like secrets are refused; tests/unit/messages/plan.txt has those, and harmless
ones, that no scanner of repositories minds.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.jobspec.job import Command, Job
from submit_tf_job.plan.check import secret_problems
from tests.golden.fixed import make_job, make_role

SENTENCE = (
    "looks like a secret, and anyone who can see the job could read it; "
    "put it into a file that only you can read (on HDFS, or mounted) and pass the file's path"
)
# Each is concatenated here, so that scanners of repositories do not report this file.
AWS = "AKIA" + "ABCDEFGHIJKLMNOP"
GITHUB = "ghp_" + "a1" * 18
SLACK = "xoxb-" + "1234567890-abc"
GITLAB = "glpat-" + "a" * 20
JWT = "eyJ" + "a" * 12 + ".eyJ" + "b" * 12 + "." + "c" * 12
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE"


def found(job: Job) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in secret_problems(job)]


def in_env(name: str, value: str) -> list[tuple[str, str]]:
    return found(make_job(make_role(env={name: value})))


def in_script(text: str) -> list[tuple[str, str]]:
    return found(make_job(make_role(command=Command(script=text))))


@pytest.mark.parametrize(
    "text",
    [AWS, f"id={AWS};", GITHUB, SLACK, GITLAB, f"Bearer {JWT}", PEM],
    ids=lambda text: text[:9],
)
def test_known_secret_in_a_value_and_in_a_command(text: str) -> None:
    assert in_env("ANY", text) == [("roles.worker.env.ANY", f"the value of ANY {SENTENCE}")]
    sentence = f"the command holds what {SENTENCE}"
    assert in_script(f"run {text}") == [("roles.worker.command", sentence)]


@given(
    st.sampled_from(["PASSWORD", "HF_TOKEN", "API_KEY"]),
    st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=30).filter(
        lambda text: not text.isdigit()
    ),
)
def test_message_never_contains_the_literal(name: str, literal: str) -> None:
    env, option = in_env(name, literal), in_script(f"run --{name} {literal}")
    assert len(env) == len(option) == 1
    assert literal not in env[0][1] + option[0][1]


HIDDEN = [
    *("--password x1y2", "-Dpassword=x1y2", 'a required user="b" password="x1y2";'),
    *('{"password": "x1y2"}', "{'a': 1, 'hf-token' : 'x1y2'}", "redis://:x1y2@host/0"),
    *("hf_" + "a" * 34, "x apiKey=x1y2"),
]


@pytest.mark.parametrize("text", HIDDEN, ids=lambda text: text[:9])
def test_secret_in_a_longer_value_in_a_command_and_in_prepare(text: str) -> None:
    command = Command(script=f"run {text}")
    jobs = [make_job(make_role(env={"ARGUMENTS": text})), make_job(make_role(command=command))]
    jobs.append(make_job(make_role(), prepare=command))
    paths = [[path for path, _ in found(job)] for job in jobs]
    assert paths == [["roles.worker.env.ARGUMENTS"], ["roles.worker.command"], ["prepare"]]


@pytest.mark.parametrize("name", ["hfToken", "secretKey", "awsSecretAccessKey", "dbPassword"])
def test_secret_named_in_camel_case(name: str) -> None:
    assert len(in_env(name, "x1y2")) == len(in_script(f"run --{name}=x1y2")) == 1


@pytest.mark.parametrize(
    "value",
    [
        *(
            '{"eos_token": "</s>"}',
            '{"password_file": "x"}',
            "--tokenFile x",
            '{"token": "/run/t"}',
        ),
        *('{"maxToken": "5"}', "https://h:80/a@b", "--passwordFile=x", '{"key": "value"}'),
        *("--placeholder_token '<cat-toy>' --initializer_token toy", "OPENAI_API_KEY=EMPTY"),
        '{"user_token": "<|user|>", "new_token": "x"}',
    ],
)
def test_harmless_values_that_resemble_secrets(value: str) -> None:
    assert in_env("ARGUMENTS", value) == in_script(f"run {value}") == []


@given(st.text(max_size=60), st.text(max_size=200))
def test_problems_accepts_any_text(name: str, value: str) -> None:
    assert len(in_env(name, value)) <= 1
    assert len(in_script(f"{name} {value}")) <= 1
