"""The command line, in process: help, usage, settings, and what errors look like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from submit_tf_job import __version__
from submit_tf_job.cli import commands
from submit_tf_job.errors import JobSpecError, Problem, SubmitTFJobError
from tests.builders.command_line import Cli, Done

SUBCOMMANDS = [
    *(
        c
        for c in commands.COMMANDS
        if c not in ("config", "image", "sandbox", "gateway", "staging")
    ),
    "config show",
    "staging gc",
    "image check",
    *(f"sandbox {c}" for c in ("up", "down", "status", "logs")),
    *(f"gateway {c}" for c in ("serve", "token")),
]

NO_SETTINGS = ("version", "schema", "init", "formats", "help", "gateway token")


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", SUBCOMMANDS)
@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_help_of_every_command(cli: Cli, command: str, asked: str) -> None:
    done = cli(*command.split(), asked)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"Usage: submit_tf_job {command} [OPTIONS]")
    assert max(map(len, lines)) <= 80
    assert f"submit_tf_job {command}" in done.out.partition("Example")[2]
    for common in ("--output", "--quiet", "--verbose"):
        assert common in done.out
    cluster = done.out.partition("\nCluster options:\n")[2]
    assert "--output" not in cluster, "the options of the cluster are the last ones"
    # only where the settings are read: no option does nothing
    for option in ("--auth", "--rm", "--user"):
        reads = command not in NO_SETTINGS and not command.startswith("sandbox")
        assert (option in cluster) is reads
    assert done.out.isascii()


@pytest.mark.parametrize("argv", [["--help"], ["-h"], []])
def test_help_lists_every_command(cli: Cli, argv: list[str]) -> None:
    done = cli(*argv)
    text = done.out or done.err
    assert done.status == (0 if argv else 2)
    assert max(map(len, text.splitlines())) <= 80
    for title, rows in commands.SECTIONS.items():
        listed = dict(
            line.split(maxsplit=1)
            for line in text.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()
        )
        assert listed == {name: summary for name, (_, summary) in rows.items()}, (
            "one line each, and nothing is cut"
        )
    assert "Exit status: 0 done, or the job succeeded; 1 the job failed; 2 wrong usage" in text


@pytest.mark.parametrize("group", ["config", "image", "sandbox", "gateway", "staging"])
def test_group_without_a_command_prints_help(cli: Cli, group: str) -> None:
    done = cli(group)
    assert done.status == 2
    text = done.out + done.err
    assert f"Usage: submit_tf_job {group} [OPTIONS] COMMAND" in text
    listed = [line.split()[0] for line in text.partition("Commands:\n")[2].splitlines()]
    assert [f"{group} {name}" for name in listed] == [
        name for name in SUBCOMMANDS if name.startswith(f"{group} ")
    ]
    assert "..." not in text.partition("Commands:")[2], "no line is cut"


# --- version, config ------------------------------------------------------------------------------


def test_version(cli: Cli) -> None:
    assert cli("version") == cli("--version") == Done(0, f"submit_tf_job {__version__}\n", "")
    told = {"kind": "Version", "format": 1, "version": __version__}
    assert cli("version", "-o", "json").json == told


def test_config_show(cli: Cli, home: Path) -> None:
    path = home / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("profiles:\n  prod: {resource_managers: [http://rm1:8088, http://rm2:8088]}\n")
    done = cli("config", "show", "--profile", "prod", "--user", "bob")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "profile: prod"
    assert (
        f"{'resource_managers':<20}  {'http://rm1:8088, http://rm2:8088':<40}  "
        f"{path}:2:10, profile prod" in lines
    )
    assert f"{'user':<20}  {'bob':<40}  argument" in lines
    assert f"{'detached_lifetime':<20}  {'30d':<40}  default" in lines
    assert f"{'timeouts.unreachable':<20}  {'900s':<40}  default" in lines


# --- the parser's errors, and the length of messages ----------------------------------------------


LONG = "a" * 100_000


LINES = """\
{}|list --{}|list -p {}|list --rm {}|list --rm http://{}|wait a --timeout {}|init --strategy {}|\
render {}|render /dev/null --set {}"""


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("line", LINES.split("|"))
def test_messages_about_long_arguments_are_short(cli: Cli, line: str, output: str) -> None:
    done = cli(*line.format(LONG).split(), "-o", output)
    assert (done.status, done.out) == (2, "")
    assert 20 < len(done.err) < 8000
    assert "a defect" not in done.err


def test_errors_shorten_foreign_text() -> None:
    details = {"body": LONG, "more": [{"text": LONG}], "status": 500}
    error = SubmitTFJobError(LONG, hint=LONG, details=details)
    assert (len(error.message), len(str(error)), len(error.hint)) == (3993, 3993, 1993)
    assert len(json.dumps(error.to_json())) < 12_000
    assert error.details["status"] == 500
    problems = JobSpecError([Problem(1, 1, LONG, LONG, LONG)])
    assert len(str(problems.problems[0])) < 1000
    assert len(json.dumps(problems.to_json())) < 12_000
