"""render, validate, schema: what can be done without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, SpecArgument, command
from submit_tf_job.cli.jobfile import NameOption, SetOption, SubmissionOption, read_job
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.job import Job
from submit_tf_job.plan import Plan


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
    submission_id: SubmissionOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say instead where each value came from and what will be uploaded.")] = False,
) -> None:
    """Print the exact service that `submit` would post, byte for byte.

    \b
    Examples:
      submit_tf_job render train.yaml
      submit_tf_job render train.yaml --set queue=ml | jq .components
      submit_tf_job render train.yaml --explain
    """
    settings = context.settings()
    job = read_job(spec, settings, overrides, name)
    planned = api.make_plan(job, settings, submission=submission_id)
    if explain:
        context.result(_explain_lines(job, planned), lambda: _explain_object(job, planned))
        return
    sys.stdout.write(planned.body)


def _explain_lines(job: Job, planned: Plan) -> Iterator[str]:
    yield f"submission {planned.submission}, {len(planned.body)} bytes, decided by {job.deciding_task}"
    width = max((len(path) for path in job.places if path), default=0)
    for path, place in job.places.items():
        if path:
            yield f"{path:<{width}}  {place.source}{f':{place.line}:{place.column}' if place.line else ''}"
    for role in job.roles.values():
        for file in role.files:
            yield f"file for {role.name}: {file.name}, {file.size} bytes"
    for upload in planned.uploads:
        yield f"will be uploaded: {upload.uri}, {upload.size} bytes"


def _explain_object(job: Job, planned: Plan) -> dict[str, Any]:
    return {
        "kind": "Plan",
        "format": 1,
        "name": job.name,
        "submission": planned.submission,
        "bytes": len(planned.body),
        "deciding_task": job.deciding_task,
        "origins": {path: {"source": p.source, "line": p.line, "column": p.column} for path, p in job.places.items() if path},
        "files": {role.name: [{"name": f.name, "bytes": f.size} for f in role.files] for role in job.roles.values()},
        "uploads": [{"uri": upload.uri, "bytes": upload.size} for upload in planned.uploads],
    }


def validate(
    context: Context,
    specs: Annotated[list[str], typer.Argument(metavar="SPEC...", help="Job spec files.")],
    overrides: SetOption = None,
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
            api.make_plan(read_job(spec, settings, overrides, None), settings)
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
                spec: [{"line": p.line, "column": p.column, "path": p.path, "message": p.message} for p in items]
                for spec, items in problems.items()
            },
        },
    )
    return 2 if found else 0


def schema(context: Context) -> None:  # noqa: ARG001 - it has the same options as all
    """Print the JSON Schema of job specs, for editors and other tools.

    \b
    Example: submit_tf_job schema > job.schema.json
    """
    from submit_tf_job import specfile

    print(json.dumps(specfile.schema(), indent=2))


def init(
    context: Context,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="S", help="single, multi-worker, parameter-server, estimator or custom.")
    ] = "multi-worker",
) -> None:
    """Print a commented job spec to begin with.

    \b
    Example: submit_tf_job init --strategy parameter-server > train.yaml
    """
    from submit_tf_job import specfile
    from submit_tf_job.job import Strategy

    known = [item.value for item in Strategy]
    if strategy not in known:
        raise UsageError(f"--strategy takes {', '.join(known)}, not {strategy!r}")
    text = specfile.example(strategy)
    context.result(text.splitlines(), lambda: {"kind": "Example", "format": 1, "strategy": strategy, "text": text})
