"""convert, formats: job files of other systems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, command
from submit_tf_job.cli.jobfile import FromOption, NameOption, SetOption, read_content
from submit_tf_job.errors import JobSpecError, UsageError

_COMMAND_LINE = "a command line"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "convert")(convert)
    command(app, "formats", settings=False)(formats)


def convert(
    context: Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | -- COMMAND...",
            help="The file, - for standard input; or a whole command line.",
        ),
    ],
    dialect: FromOption = None,
    overrides: SetOption = None,
    name: NameOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Print only what does not carry over.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if anything does not carry over.")
    ] = False,
) -> None:
    """Print the job spec that a job file or a command line of another system becomes.

    Comments say what was decided, and what did not carry over. `submit` takes such a file as it is.
    Behind `--` stands a whole command line, as in your scripts, of Submarine's job run, TonY's
    ClusterSubmitter, hbox-submit, or YARN-8220's submit_tf_job.py; submit the job spec it becomes.

    \b
    Examples:
      submit_tf_job convert tfjob.yaml > train.yaml
      submit_tf_job convert tfjob.yaml --check --strict
      submit_tf_job convert tfjob.yaml --set roles.worker.memory=4Gi
      submit_tf_job convert -- yarn jar submarine.jar job run ... > mnist.yaml
    """
    file = words[0]
    is_command = len(words) > 1
    content: bytes | list[str] = words
    if not is_command:
        content = read_content(file)
    try:
        made = operations.convert(
            content,
            context.settings(),
            source=_COMMAND_LINE if is_command else file,
            base=Path.cwd() if is_command or file == "-" else Path(file).parent,
            dialect=dialect,
            overrides=overrides or (),
            name=name,
            strict=strict,
        )
    except JobSpecError as error:
        for line in error.remarks if check else ():
            context.say(line)
        raise
    lines = [str(remark) for remark in made.remarks]
    if made.silent:
        lines.append(f"{len(made.silent)} keys mean nothing on YARN")
        if context.verbose:
            lines[-1] += f": {', '.join(made.silent)}"
    if not check and not context.json:
        for line in lines:
            context.say(line)
        sys.stdout.write(made.text)
        if is_command:
            name = f"{made.job.name}.yaml"
            context.say(f"save it as {name} here, then: submit_tf_job submit {name}")
        return
    context.result(
        lines,
        lambda: {
            "kind": "Conversion",
            "format": 1,
            "dialect": made.dialect or None,
            "version": made.version or None,
            "text": made.text,
            "remarks": [remark.to_json() for remark in made.remarks],
            "silent": list(made.silent),
        },
    )


def formats(
    context: Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[FORMAT]", help="One of them.", show_default=False)
    ] = None,
) -> None:
    """List the files and command lines that are read; with FORMAT, what becomes of each key.

    \b
    Examples:
      submit_tf_job formats
      submit_tf_job formats tfjob
    """
    from submit_tf_job.dialects import COMMANDS, FORMATS, keys, table

    known = {key: found.description for key, found in {**FORMATS, **COMMANDS}.items()}
    if name is not None and name not in known:
        raise UsageError(f"there is no format {name!r}", hint=f"one of {', '.join(known)}")
    made = {"kind": "Formats", "format": 1, "formats": known}
    if name is None:
        context.result((f"{key:<15}  {text}" for key, text in known.items()), lambda: made)
        return
    context.result(
        table(name), lambda: {**made, "formats": {name: known[name]}, "keys": list(keys(name))}
    )
