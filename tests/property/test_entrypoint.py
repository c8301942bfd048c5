"""Text reaches an image's ENTRYPOINT unchanged, or is refused: through what the AM, the NodeManager
and container-executor do to it.

`received` does what Hadoop does in entry-point mode (hadoop-facts.md#entry-point-mode):
DockerProviderService with ProviderUtils.replaceSpacesWithDelimiter,
ContainerLaunch.expandEnvironment, container-executor's split at commas by strtok; the environment
goes through the AM's tokens and, line by line, through Docker's env file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec.job import Command, DockerOptions, Job, Strategy, TFConfigMode
from submit_tf_job.local.containers import arguments_received
from submit_tf_job.plan import Plan, launch, plan
from submit_tf_job.plan.limits import check_version
from tests.golden.fixed import SITE, make_job, make_role
from tests.property.literal import wanted
from tests.property.shell import AppMaster, expanded, fragments

LOG_DIR = "/var/log/yarn/container_1"
ENTRY_POINT = DockerOptions(entrypoint=True)


def received(command: str) -> list[str]:
    """Return the arguments that container-executor hands to Docker."""
    if " " in command:
        parts = []
        for match in re.finditer(r'([^"]\S*|"[^\n\r\x85\u2028\u2029]+?")\s*', command, re.ASCII):
            part = match[1]
            if part.startswith('"') and part.endswith('"'):
                part = re.sub(r'^"|"$', "", part)
            parts.append(part)
        command = ",".join(parts)
    # the command file has one value a line, and it is trimmed
    line = expanded(command, LOG_DIR).partition("\n")[0].strip(" \t\v\f\r")
    return [word for word in line.split(",") if word]


def env_file(env: Mapping[str, str], master: AppMaster) -> dict[str, str]:
    """Return what Docker reads: the AM's tokens replaced, the NodeManager's patterns gone, one
    variable a line.
    """
    tokens = {**master.tokens, **{f"${{{name}}}": value for name, value in env.items()}}
    lines = [
        f"{name}={expanded(master.replaced(value, tokens), LOG_DIR)}" for name, value in env.items()
    ]
    return dict(
        line.partition("=")[::2]
        for line in re.split(r"\r?\n", "\n".join(lines))
        if line and not line.startswith("#")
    )


def job_of(command: Command, env: Mapping[str, str], **values: object) -> Job:
    role = make_role("worker", instances=2, command=command, env=env, docker=ENTRY_POINT)
    plain = {
        "bootstrap": False,
        "tf_config": TFConfigMode.LITERAL,
        "network": "bridge",
        "strategy": Strategy.MULTI_WORKER,
    }
    return make_job(role, **{**plain, **values})


@settings(deadline=None)
@given(
    st.lists(fragments() | st.text(), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from(("A", "B_2")), fragments()),
)
def test_accepted_text_arrives(arguments: list[str], env: dict[str, str]) -> None:
    bad = [text for text in arguments if launch.argument_problem(text)]
    bad += [text for text in env.values() if launch.value_problem(text)]
    job = job_of(Command(argv=tuple(arguments)), env)
    if bad:
        with pytest.raises(JobSpecError):
            plan(job, SITE)
        return
    arrives(plan(job, SITE))


@settings(deadline=None)
@given(
    st.lists(
        st.text("ab \\'=:;$`{}<>!#&|*?~()[]%^é🚀-", min_size=1, max_size=9)
        .map(str.strip)
        .filter(bool),
        min_size=1,
        max_size=5,
    )
)
def test_texts_without_what_cuts_arrive(arguments: list[str]) -> None:
    if not any(launch.argument_problem(text) for text in arguments):
        arrives(plan(job_of(Command(argv=tuple(arguments)), {}), SITE))


def arrives(planned: Plan) -> None:
    role = planned.job.roles["worker"]
    (component,) = json.loads(planned.body)["components"]
    sent = component["configuration"]["env"]
    assert sent["YARN_CONTAINER_RUNTIME_DOCKER_RUN_OVERRIDE_DISABLE"] == "true"
    assert received(component["launch_command"]) == list(launch.arguments(role.command))
    assert arguments_received(component["launch_command"]) == list(launch.arguments(role.command))
    for index in range(role.instances):
        seen = env_file(
            sent, AppMaster("worker", index, planned.job.name, planned.site.registry_user)
        )
        assert {name: seen[name] for name in role.env} == dict(role.env)
        assert json.loads(seen["TF_CONFIG"]) == json.loads(wanted(planned, "worker", index))


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ('python "three four" five', ["python", "three four", "five"]),
        ("python -c import os,sys", ["python", "-c", "import", "os", "sys"]),
        ("run 'x y' $HOME ${COMPONENT_ID}", ["run", "'x", "y'", "$HOME", "${COMPONENT_ID}"]),
        ("one,two", ["one", "two"]),
        ("single", ["single"]),
        ("0 0\x850", ["0", "0\x850"]),
        ('0 "x y" "a \x85 b" z', ["0", "x y", "a", "\x85", 'b"', "z"]),
        ('0 "0 \u2028x"', ["0", "0", '\u2028x"']),
        ('0 "a\xa0 b" \u3000z', ["0", "a\xa0 b", "\u3000z"]),
    ],
)
def test_imitation_matches_recorded_behaviour(command: str, arguments: list[str]) -> None:
    """What containers got, and what ProviderUtils of 3.3.5 and 3.4.2 made of line breaks and blanks
    outside ASCII.
    """
    assert received(command) == arguments == arguments_received(command)


def test_imitation_matches_the_recorded_environment() -> None:
    raw = env_file(
        {"A": "a\nb", "B": '{"a": {"b": 1}}', "C": "${COMPONENT_ID}", "D": ' "$x" '}, AppMaster()
    )
    assert raw == {"A": "a", "b": "", "B": '{"a": {"b": 1', "C": "3", "D": ' "$x" '}


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("", "is empty"),
        ("a,b", "comma"),
        ('say "x"', "double quote"),
        ("a\nb", "line break"),
        ("a\tb", "tab"),
        ("a \x85b", "line break"),
        ("a \u2028b", "line break"),
        ("a \u2029b", "line break"),
        (" a", "begins or ends with a blank"),
        ("{{x}}", r"'\{\{'"),
        ("<LOG_DIR>/x", "'<LOG_DIR>'"),
    ],
)
def test_refused_text_is_reported(argument: str, why: str) -> None:
    with pytest.raises(
        JobSpecError,
        match=f"roles.worker.command: with docker.entrypoint .* does not arrive: it .*{why}",
    ):
        plan(job_of(Command(argv=("run", argument)), {}), SITE)


def test_with_the_bootstrap_it_is_refused() -> None:
    with pytest.raises(JobSpecError, match="cannot start the bootstrap"):
        plan(job_of(Command(argv=("x",)), {}, bootstrap=True, tf_config=TFConfigMode.COUNTS), SITE)


def test_before_hadoop_3_3_it_is_refused() -> None:
    body = plan(job_of(Command(argv=("x",)), {}), SITE).body
    check_version(body, "3.3.0")
    with pytest.raises(
        Exception, match=r"Hadoop 3\.2\.4 does not support docker\.entrypoint; 3\.3 is the first"
    ):
        check_version(body, "3.2.4")
