"""Help in plain text, and the argument parser's errors as this package's errors."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from submit_tf_job.cli import SECTIONS, SUBCOMMANDS
from submit_tf_job.errors import UsageError

# The base class of the parser's errors: click's, or since typer 0.24 that of typer's copy of click.
ParserError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

_OF_RUN = frozenset(
    ("--workers", "--ps", "--cpus", "--gpus", "--memory", "--image", "--strategy", "--env")
)


def requested_output(arguments: Sequence[str]) -> str:
    """Return the --output value of arguments that could not be parsed: json or text."""
    text = "\n".join(takewhile(lambda word: word != "--", arguments))
    found = re.search(r"^(-[a-z]*o=?|--output[=\n])\n?json$", text, re.MULTILINE)
    return "json" if found else "text"


def from_parser(error: Any, arguments: Sequence[str] = ()) -> UsageError:
    """Return a parser's error as a UsageError, with the command's usage in its hint.

    Args:
        error: A `ParserError`.
        arguments: The command line.
    """
    message = str(error.format_message()).strip()
    context = getattr(error, "ctx", None)
    if context is None:
        return UsageError(message)
    if instead := _as_override(context, getattr(error, "option_name", ""), arguments):
        return UsageError(message, hint=instead)
    usage = re.sub(r"\s+", " ", str(context.get_usage())).removeprefix("Usage: ")
    if context.parent is None and usage.startswith("submit_tf_job [OPTIONS]"):
        usage = "submit_tf_job COMMAND [OPTIONS]"  # the options of every command follow it
    if context.parent is None and (option := getattr(error, "option_name", "")):
        usage += f", an option of a command after it: submit_tf_job COMMAND {option} …"
    return UsageError(message, hint=f"usage: {usage}; see {context.command_path} --help")


def _as_override(context: Any, option: str, arguments: Sequence[str]) -> str:
    """Return how a key of a job spec that was given as an option is written; "" for no key."""
    if not any(parameter.name == "overrides" for parameter in context.command.params):
        return ""
    from submit_tf_job.jobspec.keys import JOB, ROLE

    key = option.lstrip("-").replace("-", "_")
    path = {"workers": "roles.worker.instances", "ps": "roles.ps.instances"}.get(key)
    shared = key in JOB.rows
    if path is None and not shared and key not in ROLE.rows:
        return ""
    path = path or (key if shared else f"roles.worker.{key}")
    words = [piece for word in arguments for piece in word.split("=", 1)]
    value = next((after for word, after in pairwise(words) if word == option), "")
    value = "…" if not value or value.startswith("-") else value
    hint = f"did you mean --set {path}={value}"
    if option in _OF_RUN and context.info_name != "run":
        hint += f", or submit_tf_job run {option} {value}"
    return f"{hint}?"


# --- help layout ----------------------------------------------------------------------------------

CLUSTER_OPTIONS = "Cluster options"


class HelpCommand(TyperCommand):
    """A command with this layout."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, then the cluster options."""
        _write_options(self, ctx, formatter)


class ProgramCommand(HelpCommand):
    """A command whose last argument is the command line of a program, and has its own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; without `--` an option of the command may not follow the program.

        Raises:
            UsageError: One does: it may be meant for either.
        """
        given = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        program = list(ctx.params.get("program") or ())
        own = given[: len(given) - len(program)]
        if program and own[-1:] != ["--"]:
            options = {
                name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)
            }
            words = takewhile(lambda word: word != "--", program)
            found = next((word for word in words if word.partition("=")[0] in options), None)
            if found is not None:
                self._ask_whose(ctx, found, own, program)
        return rest

    def _ask_whose(self, ctx: Any, word: str, own: list[str], program: list[str]) -> None:
        name = word.partition("=")[0]
        before = shlex.join([*own, "--"])
        raise UsageError(
            f"{name} stands behind the program, and is an option of {ctx.info_name}, too",
            hint=f"write it before {program[0]}; or, if the program is to get it, -- before the "
            f"program: {ctx.command_path} {before} {shlex.join(program)}",
        )


class Group(TyperGroup):
    """A group of commands with this layout."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        _write_options(self, ctx, formatter)
        sections = {
            title: [(name, summary) for name, (_, summary) in rows.items()]
            for title, rows in SECTIONS.items()
        }
        if ctx.parent is not None:
            names = self.list_commands(ctx)
            sections = {
                "Commands": [(name, SUBCOMMANDS[f"{ctx.info_name} {name}"]) for name in names]
            }
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {
        "Arguments": [],
        "Options": [],
        CLUSTER_OPTIONS: [],
    }
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            # `--help` itself is an option of click's, before typer 0.24
            title = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                title = "Arguments"
            sections[title].append(record)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
