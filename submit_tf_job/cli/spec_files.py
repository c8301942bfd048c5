"""Commands about job spec files, which need no cluster: render, validate, schema, init, and those
for files of other systems, convert and formats.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context, SpecArgument, completed
from submit_tf_job.cli.jobs import (
    FromOption,
    NameOption,
    SetOption,
    SubmissionOption,
    read_content,
    read_job,
)
from submit_tf_job.diagnose.amounts import plural
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.jobspec.job import Job
from submit_tf_job.json_values import document, plain
from submit_tf_job.operations.submit import convert as convert_job
from submit_tf_job.operations.submit import make_plan
from submit_tf_job.operations.submit import stage as stage_files
from submit_tf_job.plan import Plan

if TYPE_CHECKING:
    from submit_tf_job.plan.preview import TaskPreview


def render(
    context: Context,
    spec: SpecArgument,
    overrides: SetOption = None,
    name: NameOption = None,
    dialect: FromOption = None,
    submission_id: SubmissionOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="As for `submit --detach`.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show instead the origin of each value, and the files to upload."
        ),
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK",
            help="Show instead TF_CONFIG and the environment of one task, such as worker-1.",
        ),
    ] = None,
    stage: Annotated[
        bool,
        typer.Option(
            "--stage",
            help="Upload first what the service refers to, for another program to post it.",
        ),
    ] = False,
) -> None:
    """Print the exact service that `submit` would post, byte for byte.

    \b
    Examples:
      submit_tf_job render train.yaml
      submit_tf_job render train.yaml --set queue=ml | jq .components
      submit_tf_job render train.yaml --stage > service.json
      submit_tf_job render train.yaml --explain
      submit_tf_job render train.yaml --task worker-1
    """
    chosen = [
        option
        for option, given in {"--explain": explain, "--task": task, "--stage": stage}.items()
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} do different things; leave one of them out")
    settings = context.settings()
    job = read_job(spec, settings, overrides, name, context.say, dialect)
    planned = make_plan(job, settings, key=submission_id, detached=detach)
    if explain:
        context.result(_explain_lines(job, planned), lambda: _explain_object(job, planned))
        return
    if task is not None:
        from submit_tf_job.plan.preview import preview

        shown = preview(planned, task)
        run = {"name": planned.job.name, "run": planned.run, "submission": planned.key}
        context.result(_task_lines(shown), lambda: document("Task", **run, **shown.to_json()))
        return
    if stage:
        stage_files(planned, settings)
    sys.stdout.write(planned.body)


def _task_lines(shown: TaskPreview) -> Iterator[str]:
    """Yield the environment as lines in which a shell would assign the variables."""
    for note in shown.notes:
        yield f"# {note}"
    for name, value in sorted(shown.environment.items()):
        yield f"{name}={shlex.quote(value)}"
    for path, content in shown.files.items():
        yield f"# {path} has {len(content.splitlines())} lines"


def _explain_lines(job: Job, planned: Plan) -> Iterator[str]:
    yield (
        f"{planned.run}, submission {planned.key}, {len(planned.body)} bytes, decided by "
        f"{job.deciding_task}"
    )
    width = max((len(path) for path in job.places if path), default=0)
    for path, place in job.places.items():
        if path:
            yield f"{path:<{width}}  {place} {place.path}".rstrip()
    for role in job.roles.values():
        for file in role.files:
            yield f"file for {role.name}: {file.name}, {file.size} bytes"
        for remote in role.remote_files:
            yield f"file for {role.name}: {remote.name}, copied by YARN from {remote.uri}"
    for upload in planned.uploads:
        yield f"will be uploaded: {upload.uri}, {upload.size} bytes"


def _explain_object(job: Job, planned: Plan) -> dict[str, Any]:
    return document(
        "Plan",
        name=job.name,
        run=planned.run,
        submission=planned.key,
        bytes=len(planned.body),
        deciding_task=job.deciding_task,
        origins={
            path: {"source": p.source, "line": p.line, "column": p.column}
            for path, p in job.places.items()
            if path
        },
        files={
            role.name: [{"name": f.name, "bytes": f.size} for f in role.files]
            for role in job.roles.values()
        },
        uploads=[{"uri": upload.uri, "bytes": upload.size} for upload in planned.uploads],
    )


def validate(
    context: Context,
    specs: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Job spec files.")],
    overrides: SetOption = None,
    dialect: FromOption = None,
) -> int:
    """Report every problem of job spec files, and what is probably a mistake, without a cluster.

    \b
    Example: submit_tf_job validate specs/*.yaml
    """
    settings = context.settings()
    problems: dict[str, list[Any]] = {}
    warnings: dict[str, list[str]] = {}
    for spec in specs:
        problems[spec], warnings[spec] = [], []
        try:
            job = read_job(spec, settings, overrides, None, context.say, dialect)
            warnings[spec] += make_plan(job, settings).warnings
        except JobSpecError as error:
            problems[spec] = list(error.problems)
    found = [str(problem) for spec in specs for problem in problems[spec]]
    good = [f"{spec}: ok" for spec in specs if not problems[spec]]
    for spec in specs:
        for warning in warnings[spec]:
            context.say(f"warning: {spec}: {warning}")
    context.result(
        [*good, *found],
        lambda: document(
            "Validation",
            files={
                spec: [
                    {"line": p.line, "column": p.column, "path": p.path, "message": p.message}
                    for p in items
                ]
                for spec, items in problems.items()
            },
            warnings=warnings,
        ),
    )
    return 2 if found else 0


def schema(context: Context) -> None:  # noqa: ARG001 - it takes the common options
    """Print the JSON Schema of job specs, for editors and other tools.

    \b
    Example: submit_tf_job schema > job.schema.json
    """
    from submit_tf_job import jobspec

    print(json.dumps(jobspec.schema(), indent=2))


def init(
    context: Context,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="single, multi-worker, parameter-server, estimator or custom.",
            autocompletion=completed("strategy"),
        ),
    ] = "multi-worker",
) -> None:
    """Print a starter job spec, with comments.

    \b
    Example: submit_tf_job init --strategy parameter-server > train.yaml
    """
    from submit_tf_job import jobspec
    from submit_tf_job.jobspec.job import Strategy

    known = [item.value for item in Strategy]
    if strategy not in known:
        raise UsageError(f"--strategy takes {', '.join(known)}, not {strategy!r}")
    text = jobspec.example(strategy)
    context.result(text.splitlines(), lambda: document("Example", strategy=strategy, text=text))


# --- convert and formats --------------------------------------------------------------------------


_COMMAND_LINE = "a command line"


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
        made = convert_job(
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
        mean = "means" if len(made.silent) == 1 else "mean"
        lines.append(f"{plural(len(made.silent), 'key')} {mean} nothing on YARN")
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
        lambda: document(
            "Conversion",
            dialect=made.dialect or None,
            version=made.version or None,
            text=made.text,
            remarks=[plain(remark) for remark in made.remarks],
            silent=list(made.silent),
        ),
    )


def formats(
    context: Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[FORMAT]", help="The name of a format.", show_default=False),
    ] = None,
) -> None:
    """List the job files and command lines of other systems that `convert` reads; with FORMAT, what
    becomes of each of its keys.

    \b
    Examples:
      submit_tf_job formats
      submit_tf_job formats tfjob
    """
    from submit_tf_job.dialects import COMMANDS, FORMATS, keys, table

    known = {key: found.description for key, found in {**FORMATS, **COMMANDS}.items()}
    if name is not None and name not in known:
        raise UsageError(f"there is no format {name!r}", hint=f"one of {', '.join(known)}")
    made = document("Formats", formats=known)
    if name is None:
        context.result((f"{key:<15}  {text}" for key, text in known.items()), lambda: made)
        return
    context.result(
        table(name), lambda: {**made, "formats": {name: known[name]}, "keys": list(keys(name))}
    )
