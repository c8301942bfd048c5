"""Text reaches a container unchanged, through what the AM and the NodeManager do to it, and through
the real bash.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.jobspec.job import Command
from submit_tf_job.plan import check
from submit_tf_job.plan import launch as shell
from tests.property.shell import (
    AppMaster,
    expanded,
    fragments,
    launch_script,
    run,
)

LOG_DIR = "/var/log/yarn/container_1"


# --- texts ----------------------------------------------------------------------------------------


slow = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


MEANT = ("${COMPONENT_ID}", "${COMPONENT_INSTANCE_NAME}", "${DOMAIN}")


@st.composite
def with_tokens(draw: st.DrawFn) -> tuple[str, str]:
    """Return a text with tokens that are meant to be replaced, and what it is to become."""
    parts = draw(st.lists(fragments() | st.sampled_from(MEANT), max_size=6))
    text = "".join(parts)
    pattern = "|".join(re.escape(token) for token in MEANT)
    return text, re.sub(pattern, lambda found: AppMaster().tokens[found[0]], text)


@slow
@given(st.lists(st.lists(with_tokens(), min_size=1, max_size=20), min_size=1, max_size=6))
def test_only_intended_tokens_are_replaced(
    batches: list[list[tuple[str, str]]],
) -> None:
    launched = [
        AppMaster().launch(
            {f"V{n}": shell.env_value(text, tokens=MEANT) for n, (text, _) in enumerate(batch)},
            "exec show",
        )
        for batch in batches
    ]
    for batch, found in zip(batches, run(launched), strict=True):
        assert [found.env[f"V{n}"] for n in range(len(batch))] == [wanted for _, wanted in batch]


@given(fragments() | st.text())
def test_encoded_text_has_no_patterns_of_yarn(text: str) -> None:
    for encoded in (
        shell.env_value(text),
        shell.launch_command(Command(script=text)),
        shell.launch_command(Command(argv=("a", text))),
    ):
        assert not re.search(r"\$\{|\{\{|\}\}|<LOG_DIR>|<CPS>", encoded)
        assert (
            AppMaster().replaced(encoded, AppMaster().tokens)
            == encoded
            == expanded(encoded, LOG_DIR)
        )


def results(commands: Iterable[Command]) -> list[tuple[str, int]]:
    """Run commands for good, under the real bash, and return what each printed and its exit
    status.
    """
    out = []
    with tempfile.TemporaryDirectory() as name:
        for command in commands:
            container = AppMaster().launch(
                {"GREETING": shell.env_value("good $day")}, shell.launch_command(command)
            )
            script = launch_script(container, Path(name), Path(name))
            done = subprocess.run(
                ["/bin/bash", "-c", script], cwd=name, timeout=60, env={"PATH": os.defpath}
            )
            out.append((Path(name, "stdout.txt").read_text(), done.returncode))
    return out


def test_commands_run_in_bash() -> None:
    assert results(
        [
            Command(argv=("printf", "%s", "$GREETING")),
            Command(script='printf %s "$GREETING"'),
            Command(script="echo one; echo two | tr a-z A-Z; (exit 3)"),
            Command(script="exit 0 # a comment"),
            Command(argv=("sh", "-c", 'echo "$0 $@"; exit 7', "a", "b c")),
            Command(script='x="a  b"; echo "${x/  /_}" \'{{y}}\' <<< unused'),
            Command(script="cat <<EOF\n$GREETING\nEOF\n"),
        ]
    ) == [
        ("$GREETING", 0),
        ("good $day", 0),
        ("one\nTWO\n", 3),
        ("", 0),
        ("a b c\n", 7),
        ("a_b {{y}}\n", 0),
        ("good $day\n", 0),
    ]


def test_program_replaces_the_shell() -> None:
    """Otherwise it would not get SIGTERM: hadoop-facts.md#sigterm."""
    for command in (Command(argv=("sh", "-c", "echo $PPID $$")), Command(script="echo $PPID $$")):
        with tempfile.TemporaryDirectory() as name:
            container = AppMaster().launch({}, shell.launch_command(command))
            process = subprocess.Popen(
                ["/bin/bash", "-c", launch_script(container, Path(name), Path(name))], cwd=name
            )
            assert process.wait(60) == 0
            assert Path(name, "stdout.txt").read_text().split() == [
                str(os.getpid()),
                str(process.pid),
            ]


def test_bashs_own_variables_are_refused_and_all_others_arrive() -> None:
    listed = subprocess.run(
        ["/bin/bash", "-c", "compgen -v"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={},
    )
    own = {
        *listed.stdout.split(),
        *check.BASH_ENV_NAMES,
        "BASH_ENV",
        "CDPATH",
        "ENV",
        "GLOBIGNORE",
        "OPTARG",
        "POSIXLY_CORRECT",
        "TMOUT",
    }
    allowed = sorted(own - check.BASH_ENV_NAMES - check.RESERVED_ENV - {"PATH"})
    assert len(allowed) > 5
    found = run([AppMaster().launch({name: "some value"}, "exec show") for name in allowed])
    assert {
        name: item.env.get(name) for name, item in zip(allowed, found, strict=True)
    } == dict.fromkeys(allowed, "some value")


def test_imitation_changes_raw_text() -> None:
    """The imitation changes a raw text as real clusters do
    (hadoop-facts.md#environment-and-command).
    """
    raw = AppMaster().launch(
        {"V0": '{"a":{"b":"${COMPONENT_ID}$HOMELESS"}}', "V1": "<LOG_DIR>"}, "exec show ${V1}"
    )
    [found] = run([raw])
    assert found.env["V0"] == "{a:{b:3"
    assert found.env["V1"] == found.argv[0]
    assert found.env["V1"].startswith("/")
    with pytest.raises(ValueError, match="Illegal group reference"):
        AppMaster().launch({}, "exec show ${WORK_DIR}")
