"""Commands render, validate, schema and init, which need no cluster."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, SpecArgument, command, completed
from submit_tf_job.cli.jobfile import FromOption, NameOption, SetOption, SubmissionOption, read_job
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.jobspec.job import Job
from submit_tf_job.plan import Plan

if TYPE_CHECKING:
    from submit_tf_job.plan.preview import TaskPreview


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "render")(render)
    command(app, "validate")(validate)
    command(app, "schema", settings=False)(schema)
    command(app, "init", settings=False)(init)


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
            "--task",
            metavar="TASK",
            help="Show instead TF_CONFIG and the environment of one task, such as worker-1.",
        ),
    ] = None,
) -> None:
    """Print the exact service that `submit` would post, byte for byte.

    \b
    Examples:
      submit_tf_job render train.yaml
      submit_tf_job render train.yaml --set queue=ml | jq .components
      submit_tf_job render train.yaml --explain
      submit_tf_job render train.yaml --task worker-1
    """
    if explain and task is not None:
        raise UsageError("--explain and --task show different things; leave one of the two out")
    settings = context.settings()
    job = read_job(spec, settings, overrides, name, context.say, dialect)
    planned = operations.make_plan(job, settings, key=submission_id, lifetime=detach)
    if explain:
        context.result(_explain_lines(job, planned), lambda: _explain_object(job, planned))
        return
    if task is not None:
        from submit_tf_job.plan.preview import preview

        shown = preview(planned, task)
        context.result(_task_lines(shown), lambda: _task_object(planned, shown))
        return
    sys.stdout.write(planned.body)


def _task_lines(shown: TaskPreview) -> Iterator[str]:
    """Yield the environment as assignments for a shell."""
    for note in shown.notes:
        yield f"# {note}"
    for name, value in sorted(shown.environment.items()):
        yield f"{name}={shlex.quote(value)}"
    for path, content in shown.files.items():
        yield f"# {path} has {len(content.splitlines())} lines"


def _task_object(planned: Plan, shown: TaskPreview) -> dict[str, Any]:
    return {
        "kind": "Task",
        "format": 1,
        "name": planned.job.name,
        "run": planned.run,
        "submission": planned.key,
        **shown.to_json(),
    }


def _explain_lines(job: Job, planned: Plan) -> Iterator[str]:
    yield (
        f"{planned.run}, submission {planned.key}, {len(planned.body)} bytes, decided by "
        f"{job.deciding_task}"
    )
    width = max((len(path) for path in job.places if path), default=0)
    for path, place in job.places.items():
        if path:
            position = f":{place.line}:{place.column}" if place.line else ""
            yield f"{path:<{width}}  {place.source}{position} {place.path}".rstrip()
    for role in job.roles.values():
        for file in role.files:
            yield f"file for {role.name}: {file.name}, {file.size} bytes"
        for remote in role.remote_files:
            yield f"file for {role.name}: {remote.name}, copied by YARN from {remote.uri}"
    for upload in planned.uploads:
        yield f"will be uploaded: {upload.uri}, {upload.size} bytes"


def _explain_object(job: Job, planned: Plan) -> dict[str, Any]:
    return {
        "kind": "Plan",
        "format": 1,
        "name": job.name,
        "run": planned.run,
        "submission": planned.key,
        "bytes": len(planned.body),
        "deciding_task": job.deciding_task,
        "origins": {
            path: {"source": p.source, "line": p.line, "column": p.column}
            for path, p in job.places.items()
            if path
        },
        "files": {
            role.name: [{"name": f.name, "bytes": f.size} for f in role.files]
            for role in job.roles.values()
        },
        "uploads": [{"uri": upload.uri, "bytes": upload.size} for upload in planned.uploads],
    }


def validate(
    context: Context,
    specs: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Job spec files.")],
    overrides: SetOption = None,
    dialect: FromOption = None,
) -> int:
    """Report every problem of job spec files, without a cluster.

    \b
    Example: submit_tf_job validate specs/*.yaml
    """
    settings = context.settings()
    problems: dict[str, list[Any]] = {}
    for spec in specs:
        problems[spec] = []
        try:
            job = read_job(spec, settings, overrides, None, context.say, dialect)
            operations.make_plan(job, settings)
        except JobSpecError as error:
            problems[spec] = list(error.problems)
    found = [str(problem) for spec in specs for problem in problems[spec]]
    good = [f"{spec}: ok" for spec in specs if not problems[spec]]
    context.result(
        [*good, *found],
        lambda: {
            "kind": "Validation",
            "format": 1,
            "files": {
                spec: [
                    {"line": p.line, "column": p.column, "path": p.path, "message": p.message}
                    for p in items
                ]
                for spec, items in problems.items()
            },
        },
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
            "--strategy",
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
    context.result(
        text.splitlines(),
        lambda: {"kind": "Example", "format": 1, "strategy": strategy, "text": text},
    )
