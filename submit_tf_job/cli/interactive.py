"""Commands that serve a page on the cluster until it is stopped: notebook, tensorboard."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from submit_tf_job import waiting
from submit_tf_job.cli.context import Context
from submit_tf_job.cli.jobs import SetOption, finish
from submit_tf_job.errors import EXIT_OK, SettingsError, UsageError
from submit_tf_job.host.located.tree import to_python
from submit_tf_job.jobspec.interactive_specs import (
    Page,
    as_text,
    events_of,
    input_name,
    notebook_spec,
    tensorboard_spec,
)
from submit_tf_job.json_values import document
from submit_tf_job.observation import JobState
from submit_tf_job.operations.cluster import authenticate, home_on_hdfs, storage_of
from submit_tf_job.operations.submit import load_job, make_plan
from submit_tf_job.operations.submit import submit as submit_job
from submit_tf_job.plan import Plan
from submit_tf_job.report.follow_text import submitted_lines
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.run_names import host_name

_ImageOption = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Docker image.")]
_MemoryOption = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="Memory of the task.", show_default="4Gi"),
]
_LifetimeOption = Annotated[
    str, typer.Option("--lifetime", metavar="DURATION", help="When YARN ends it.")
]
_PrintOption = Annotated[
    bool, typer.Option("--print", help="Print the job spec, and submit nothing.")
]


def notebook(
    context: Context,
    image: _ImageOption = None,
    memory: _MemoryOption = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs of the task.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs of the task.")] = None,
    lifetime: _LifetimeOption = "8h",
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.")] = "notebook",
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="A file, directory or pattern to send."),
    ] = None,
    overrides: SetOption = None,
    print_only: _PrintOption = False,
) -> int:
    """Run a Jupyter notebook on the cluster, and print its address.

    The image needs Jupyter. Its token is in a file of this machine, which only you can read, and
    travels as the job's files do. Notebooks are stored below your home on HDFS when it is stopped,
    or its lifetime ends.

    \b
    Examples:
      submit_tf_job notebook --image jupyter/tensorflow-notebook --gpus 1
      submit_tf_job open notebook --browser
      submit_tf_job stop notebook
    """
    settings = context.settings()
    page = _page_of_settings(
        settings, name, lifetime, image, {"memory": memory, "cpus": cpus, "gpus": gpus}
    )
    token = settings.directories.state / "notebooks" / f"{name}.token"
    # `--print` asks no cluster
    is_free = _is_free_in(settings) if page.home and not print_only else lambda _uri: True
    spec = notebook_spec(page, str(token), files or (), is_free)
    if print_only:
        return _print_spec(context, spec, "notebook")
    _make_token(token)
    planned = _plan_of_session(settings, spec, "notebook", overrides)
    if planned.site.staging is None:
        raise SettingsError(
            "a notebook needs a staging directory: without one its token would stand in the "
            "service, which others can read",
            hint="set hadoop_conf, or staging: hdfs://…",
        )
    return _serve_session(context, settings, planned, token)


def tensorboard(
    context: Context,
    sources: Annotated[
        list[str], typer.Argument(metavar="JOB|URI...", help="Jobs, runs, or directories.")
    ],
    image: _ImageOption = None,
    memory: _MemoryOption = None,
    lifetime: _LifetimeOption = "8h",
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.")] = "tensorboard",
    overrides: SetOption = None,
    print_only: _PrintOption = False,
) -> int:
    """Run TensorBoard over the outputs of jobs, also of those that are over, and print its address.

    It shows what is there when it starts. Of a job it takes the outputs whose names hold events
    (events, logs, board and the like), or all.

    \b
    Examples:
      submit_tf_job tensorboard mnist
      submit_tf_job tensorboard mnist-4k3f7qa2 hdfs:///models/yesterday/events
    """
    settings = context.settings()
    uris: dict[str, str] = {}
    for source in sources:
        for found, uri in _uris_of(context, settings, source).items():
            uris[input_name(found, uris)] = uri
    page = _page_of_settings(settings, name, lifetime, image, {"memory": memory})
    spec = tensorboard_spec(page, uris)
    if print_only:
        return _print_spec(context, spec, "tensorboard")
    return _serve_session(
        context, settings, _plan_of_session(settings, spec, "tensorboard", overrides)
    )


def _uris_of(context: Context, settings: Settings, source: str) -> Mapping[str, str]:
    """Return name → URI of the directories with a job's events; for a URI that URI itself.

    Raises:
        NoSuchJob: There is no such job.
        UsageError: The job's newest run has no record, or no outputs that are known.
    """
    if "://" in source:
        return {source: source}
    from submit_tf_job.operations.history import run_history

    runs = run_history(context.cluster(settings), source, 1)
    outputs = {output.name: output.uri for run in runs for output in run.outputs}
    found = events_of(outputs)
    if not found:
        raise UsageError(
            f"{runs[0].run if runs else source} has no outputs that are known",
            hint="give the URI of the directory in which its events are",
        )
    return {f"{source}_{name}": uri for name, uri in found.items()}


def _page_of_settings(
    settings: Settings, name: str, lifetime: str, image: str | None, task: Mapping[str, Any]
) -> Page:
    given = {key: value for key, value in task.items() if value is not None}
    home = home_on_hdfs(settings)
    return Page(name, lifetime, {"memory": settings.task_memory or "4Gi", **given}, image, home)


def _print_spec(context: Context, spec: Mapping[str, Any], command: str) -> int:
    tree, text = as_text(spec, command)
    context.result(text.splitlines(), lambda: to_python(tree))
    return EXIT_OK


def _plan_of_session(
    settings: Settings, spec: Mapping[str, Any], command: str, overrides: list[str] | None
) -> Plan:
    _tree, text = as_text(spec, command)
    job = load_job(
        Path(command), settings, overrides=overrides or (), text=text.encode(), dialect="jobspec"
    )
    return make_plan(job, settings)


def _is_free_in(settings: Settings) -> Callable[[str], bool]:
    """Return a function that returns whether nothing is stored at a URI of the cluster's HDFS."""
    authenticate(settings)  # with a keytab: gets the ticket that HDFS asks for
    storage = storage_of(settings, "hdfs:///")
    return lambda uri: not storage.exists(uri)


def _make_token(path: Path) -> None:
    """Write a token into a file that only its owner can read, unless there is one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="ascii") as out:
        out.write(secrets.token_urlsafe(32) + "\n")


def _serve_session(
    context: Context, settings: Settings, planned: Plan, token: Path | None = None
) -> int:
    """Submit the job, wait until it runs, print its address, and return the exit status. If the job
    ends before it runs, print its status instead; if the address is not known a minute after the
    start, print how to get it.
    """
    from submit_tf_job.operations.follow import Event, follow
    from submit_tf_job.operations.links import all_links, is_reachable
    from submit_tf_job.operations.watch_run import until_end
    from submit_tf_job.report.follow_text import EventLines

    for warning in planned.warnings:
        context.say(f"warning: {warning}")
    cluster = context.cluster(settings)
    done = submit_job(planned, cluster, on_wait=context.say)
    for line in submitted_lines(done, settings.resource_managers[0], detail=context.verbose):
        context.say(line)
    name = planned.job.name
    context.interrupted = f"{name} keeps running: submit_tf_job open {name}, or stop {name}"
    events = follow(
        cluster, done.ref, own=True, until=lambda status: status.state is JobState.RUNNING
    )
    lines = EventLines()

    def show(event: Event) -> None:
        for line in lines.lines_of(event):
            context.say(line)

    end = until_end(events, cluster.sleep, show)
    if end.status.state is not JobState.RUNNING:
        return finish(context, end.status, end.cause)
    for _ in waiting.ADDRESS_IS_REPORTED.attempts(cluster.clock, cluster.sleep):
        served = all_links(cluster, done.ref).served
        if served:
            break
    else:
        context.say(f"it has not said its address yet: submit_tf_job open {name}")
        return EXIT_OK
    link, domain = served[0], planned.site.domain
    waits = waiting.PAGE_ANSWERS.attempts(cluster.clock, cluster.sleep)
    if not any(is_reachable(link) for _ in waits):
        context.say(
            "it does not answer from here yet: it is still starting, or this machine does not "
            f"reach its node (submit_tf_job tunnel {name})"
        )
    dns = domain and host_name(
        planned.job.deciding_role, 0, done.ref.run, planned.site.registry_user, domain
    )
    by_dns = f"http://{dns}:{link.port}" if dns else None
    shown = {"name": name, "run": done.ref.run, "url": link.url, "url_by_dns": by_dns}
    shown["token_file"] = str(token) if token else None
    if by_dns:
        context.say(f"by Registry DNS: {by_dns}")
    if token:
        context.say(f"its token is in {token}")
    context.say(f"submit_tf_job open {name} --browser; to end it: submit_tf_job stop {name}")
    context.result([link.url], lambda: document("Served", **shown))
    return EXIT_OK
