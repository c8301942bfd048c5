"""The command line, in process: help, usage, settings, and what errors look like."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from submit_tf_job import __version__, api
from submit_tf_job.cli import COMMANDS, main
from submit_tf_job.errors import TABLE, JobSpecError, Problem, SubmitTFJobError
from submit_tf_job.settings import load_settings

SUBCOMMANDS = [
    *(c for c in COMMANDS if c not in ("config", "image", "sandbox", "gateway", "staging")),
    "config show",
    "staging gc",
    "image check",
    *(f"sandbox {c}" for c in ("up", "down", "status", "logs")),
    *(f"gateway {c}" for c in ("serve", "token")),
]

NO_SETTINGS = ("version", "schema", "init", "gateway token")


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli(Protocol):
    """Runs a command in this process."""

    def __call__(self, *argv: str, stdin: bytes = b"") -> Done: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the command a home, a working directory and an environment of its own."""
    for name in list(os.environ):
        if name.startswith(("SUBMIT_TF_JOB_", "HADOOP_", "XDG_")):
            monkeypatch.delenv(name)
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SUBMIT_TF_JOB_USER", "alice")
    monkeypatch.chdir(made)
    monkeypatch.setattr(load_settings, "__kwdefaults__", {**(load_settings.__kwdefaults__ or {}), "system_file": tmp_path / "none.yaml"})
    return made


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    before = signal.getsignal(signal.SIGTERM)

    def run(*argv: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = main(list(argv))
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    yield run
    assert signal.getsignal(signal.SIGTERM) is before, "a command must leave no signal handler behind"


# --- help -------------------------------------------------------------------------------------------------------------


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
    for option in ("--auth", "--rm", "--user"):  # only where the settings are read: no option does nothing
        assert (option in done.out) is (command not in NO_SETTINGS and not command.startswith("sandbox"))
    assert done.out.isascii()


@pytest.mark.parametrize("argv", [["--help"], ["-h"], []])
def test_the_first_help_lists_every_command(cli: Cli, argv: list[str]) -> None:
    done = cli(*argv)
    text = done.out or done.err
    assert done.status == (0 if argv else 2)
    assert max(map(len, text.splitlines())) <= 80
    listed = [line.split()[0] for line in text.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    assert sorted(listed) == sorted(COMMANDS)
    assert "Exit status: 0 done, or the job succeeded; 1 the job failed; 2 wrong usage" in text


@pytest.mark.parametrize("group", ["config", "sandbox", "gateway", "staging"])
def test_a_group_alone_shows_its_help(cli: Cli, group: str) -> None:
    done = cli(group)
    assert done.status == 2
    assert f"Usage: submit_tf_job {group} [OPTIONS] COMMAND" in done.out + done.err


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["submot"], "No such command 'submot'"),
        (["config", "shovv"], "No such command 'shovv'"),
        (["submit"], "Missing argument 'SPEC'"),
        (["status"], "Missing argument 'JOB'"),
        (["version", "--nosuch"], "No such option:? '?--nosuch"),  # click 8.5 quotes it
        (["version", "extra"], "Got unexpected extra argument"),
        (["status", "a", "b"], "Got unexpected extra argument"),
        (["wait", "a", "--timeout"], "Option '--timeout' requires an argument"),
        (["sandbox", "logs", "nodemanager", "--tail", "x"], "Invalid value for '--tail'"),
    ],
)
def test_wrong_usage(cli: Cli, argv: list[str], message: str) -> None:
    done = cli(*argv)
    assert (done.status, done.out) == (2, "")
    assert re.search(message, done.err), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["version", "-o", "yaml"], "--output takes text or json, not 'yaml'", ""),
        (["wait", "a", "--for", "ever"], "--for takes ready or done, not 'ever'", ""),
        (["wait", "a", "--timeout", "5"], "--timeout: '5' is no duration; write 500ms, 30s, 5m or 1h", ""),
        (["submit", "a", "--timeout", "x"], "--timeout: 'x' is no duration; write 500ms, 30s, 5m or 1h", ""),
        (
            ["submit", "a", "--detach", "--timeout", "5s"],
            "--timeout says how long to follow, and --detach not to follow at all",
            "leave one of them out",
        ),
        (["init", "--strategy", "x"], "--strategy takes single, multi-worker, parameter-server, estimator, custom, not 'x'", ""),
        (["sandbox", "up", "--resolver", "x"], "--resolver takes auto, system or direct, not 'x'", ""),
        (["render", "."], ". is a directory", "name the job spec file in it"),
    ],
)
def test_wrong_values(cli: Cli, argv: list[str], message: str, hint: str) -> None:
    done = cli(*argv)
    assert (done.status, done.out) == (2, "")
    assert done.err == f"error: {message}\n" + (f"  hint: {hint}\n" if hint else "")


# --- version, config --------------------------------------------------------------------------------------------------


def test_version(cli: Cli) -> None:
    assert cli("version") == cli("--version") == Done(0, f"submit_tf_job {__version__}\n", "")
    assert cli("version", "-o", "json").json == {"kind": "Version", "format": 1, "version": __version__}


def test_config_show(cli: Cli, home: Path) -> None:
    path = home / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("profiles:\n  prod: {resource_managers: [http://rm1:8088, http://rm2:8088]}\n")
    done = cli("config", "show", "--profile", "prod", "--user", "bob")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "profile: prod"
    assert f"{'resource_managers':<20}  {'http://rm1:8088, http://rm2:8088':<40}  {path}:2:10, profile prod" in lines
    assert f"{'user':<20}  {'bob':<40}  argument" in lines
    found = cli("config", "show", "-p", "prod", "--rm", "http://rm:1", "--rm", "http://rm:2", "-o", "json").json
    assert (found["kind"], found["profile"]) == ("Settings", "prod")
    assert found["settings"]["resource_managers"] == {"value": ["http://rm:1", "http://rm:2"], "origin": "argument"}
    assert found["settings"]["user"] == {"value": "alice", "origin": "environment variable SUBMIT_TF_JOB_USER"}


def test_wrong_settings(cli: Cli, home: Path) -> None:
    assert cli("config", "show", "--profile", "prod") == Done(2, "", "error: there is no profile 'prod'\n  hint: known profiles: none\n")
    (home / "submit_tf_job.yaml").write_text("\npolls: {min: 1s}\n")
    done = cli("config", "show")
    assert (done.status, done.out) == (2, "")
    assert done.err == f"error: {home}/submit_tf_job.yaml:2:1: polls: unknown setting; did you mean poll.min?\n"
    assert cli("version").status == 0, "what needs no settings does not fail of them"


def test_no_resource_manager(cli: Cli) -> None:
    done = cli("status", "mnist")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(
        "error: no ResourceManager is known: neither settings, environment nor HADOOP_CONF_DIR names one\n  hint: give --rm "
    )


# --- errors -----------------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Any:
    def fail(*_args: object, **_named: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_every_error_has_its_status_and_its_words(cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: type[SubmitTFJobError]) -> None:
    error = JobSpecError([Problem(3, 5, "name", "wrong", "a.yaml")], hint="mend it") if kind is JobSpecError else kind(
        "it went wrong\nbadly", hint="mend it", details={"url": "http://rm", "status": 500}
    )  # fmt: skip
    monkeypatch.setattr(api, "connect", raising(error))
    said = "a.yaml:3:5: name: wrong\n" if kind is JobSpecError else "error: it went wrong\nbadly\n"
    assert cli("status", "mnist") == Done(error.exit_status, "", f"{said}  hint: mend it\n")
    assert cli("status", "mnist", "-q").err == f"{said}  hint: mend it\n", "quiet is not about errors"
    more = "" if kind is JobSpecError else "  url: http://rm\n  status: 500\n"
    assert cli("status", "mnist", "-v").err == f"{said}  hint: mend it\n{more}"
    done = cli("status", "mnist", "-o", "json")
    assert (done.status, done.out) == (error.exit_status, "")
    assert json.loads(done.err) == {"kind": "Error", "format": 1, **error.to_json()}


def test_a_defect_is_ours_and_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "connect", raising(ZeroDivisionError("division by zero")))
    expected = (
        "error: a defect of submit_tf_job: ZeroDivisionError: division by zero\n"
        "  hint: please report it with the output of the same command with -v; nothing is known to be wrong with your job\n"
    )
    assert cli("status", "mnist") == Done(70, "", expected)
    done = cli("status", "mnist", "-v")
    assert (done.status, done.out) == (70, "")
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert done.err.endswith(expected)
    assert json.loads(cli("status", "mnist", "-o", "json").err)["code"] == "internal"


def test_an_interrupt_is_no_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "connect", raising(KeyboardInterrupt()))
    assert cli("status", "mnist") == Done(130, "", "")
    monkeypatch.setattr(api, "connect", lambda _settings: object())
    monkeypatch.setattr(api, "stop", raising(KeyboardInterrupt()))
    assert cli("stop", "mnist").err == "\nStopping mnist may have been asked for already; submit_tf_job status mnist tells.\n"


def test_sigterm_is_an_interrupt_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated(*_given: object, **_named: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(api, "connect", lambda _settings: object())
    monkeypatch.setattr(api, "stop", terminated)
    done = cli("stop", "mnist")
    assert (done.status, done.out) == (143, "")
    assert done.err.startswith("\nStopping mnist may have been asked for already")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("a\rb\x07\x00", "a\\x0db\\x07\\x00"),
        ("a\tb", "a\tb"),
        ("ünï … 日本", "ünï … 日本"),
        ("\u202eevil\u200b\ud800", "\\x202eevil\\x200b\\xd800"),
    ],
)
def test_control_characters_never_reach_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setattr(api, "connect", raising(SubmitTFJobError(text, hint=text)))
    assert cli("status", "mnist").err == f"error: {shown}\n  hint: {shown}\n"
    monkeypatch.setattr(api, "connect", raising(JobSpecError([Problem(1, 1, "a", text)])))
    assert cli("status", "mnist").err == f"line 1: a: {shown}\n"
