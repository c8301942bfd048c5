"""Commands about one job: status, wait, why, describe, events, logs, stacks, open and tunnel."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from submit_tf_job.cli.context import Context, JobArgument, coloured, completed
from submit_tf_job.cli.jobs import json_of_job, print_events, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.json_values import document, plain
from submit_tf_job.observation import JobState, JobStatus
from submit_tf_job.operations import read_status
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.why import diagnose_and_record
from submit_tf_job.report.job_text import job_lines, why_lines


def status(context: Context, job: JobArgument) -> None:
    """Show the state of a job. The exit status is 0 even if the job failed; `wait` returns the
    job's.

    \b
    Examples:
      submit_tf_job status mnist
      submit_tf_job status application_1795256400000_0007 -o json | jq -r .state
    """
    cluster = context.cluster()
    status = read_status.status_of_name(cluster, job)
    found = diagnose_and_record(cluster, status)
    causes = found.pending, found.failure
    lines = [*job_lines(status, *causes)]
    if status.state.is_final and status.report is not None and not context.json:
        from submit_tf_job.operations.usage import note_of_end

        note = note_of_end(cluster, status, found.failure)
        lines += [f"  memory       {note}"] if note else []
    context.result(lines, lambda: json_of_job(status, *causes))


def wait(
    context: Context,
    job: JobArgument,
    condition: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="ready|done",
            help="ready: all tasks run; done: the job is over.",
            autocompletion=completed("for"),
        ),
    ] = "done",
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Give up after 90s, 15m, 2h.")
    ] = None,
) -> int:
    """Wait until a job is ready or done; the exit status is the job's.

    A job that is submitted again with more memory (retries.memory) is followed to its last run. One
    that can never start is stopped, as by `submit` (start_timeout).

    \b
    Examples:
      submit_tf_job wait mnist
      submit_tf_job wait mnist --for ready --timeout 15m
    """
    if condition not in ("ready", "done"):
        raise UsageError(f"--for takes ready or done, not {condition!r}")
    from submit_tf_job.operations.follow import follow

    timeout_s, cluster = seconds(timeout), context.cluster()
    ref = find(cluster, job)

    def ready(status: JobStatus) -> bool:
        # one whose end is near is ready if it has trained, and else will never be
        trained = status.report is not None and status.report.state == "succeeded"
        return status.state is JobState.RUNNING or (status.state is JobState.FINISHING and trained)

    events = follow(
        cluster,
        ref,
        own=True,
        next_runs=ref.name == job,
        until=lambda status: condition == "ready" and ready(status),
        timeout_s=timeout_s,
    )
    return print_events(context, ref.name, events, cluster.sleep)


def why(context: Context, job: JobArgument) -> None:
    """Show why a job waits or failed, in ten lines, and what is new since a run of it succeeded:
    files, packages, keys, arguments, node, and lines that no such run had printed.

    \b
    Examples:
      submit_tf_job why mnist
      submit_tf_job why mnist -o json | jq .since_success.changes
    """
    from submit_tf_job.operations.explain import explain

    cluster = context.cluster()
    found = explain(cluster, read_status.status_of_name(cluster, job))

    def json() -> dict[str, Any]:
        from submit_tf_job.jsonview import why_object

        return why_object(found)

    context.result(why_lines(found), json)


# --- describe and events --------------------------------------------------------------------------


def describe(context: Context, job: JobArgument) -> None:
    """Show a job in detail: verdict and cause, each task, limits, links and the last events.

    \b
    Examples:
      submit_tf_job describe mnist
      submit_tf_job describe mnist -o json | jq '.task_list[].host'
    """
    from submit_tf_job.jsonview import description_object
    from submit_tf_job.operations.usage import summary, use_of_status
    from submit_tf_job.report.detail_text import description_lines

    cluster = context.cluster()
    found = read_status.describe(cluster, job)
    diagnosis = diagnose_and_record(cluster, found)
    uses = ""
    if not context.json:
        uses = summary(use_of_status(cluster, found))
    lines = description_lines(
        found, diagnosis, now_ms=cluster.now_ms(), uses=uses, width=context.width
    )
    context.result(lines, lambda: description_object(found, diagnosis.pending, diagnosis.failure))


def events(context: Context, job: JobArgument) -> None:
    """Show the events of a job in order of time: YARN's, and those that its tasks reported.

    \b
    Example: submit_tf_job events mnist
    """
    from submit_tf_job.operations.description import events_of
    from submit_tf_job.report.detail_text import events_lines, events_object

    found = read_status.describe(context.cluster(), job)
    happened = events_of(found)
    context.result(events_lines(happened), lambda: events_object(found.name, happened))


# --- logs -----------------------------------------------------------------------------------------


def logs(
    context: Context,
    job: JobArgument,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROLE|TASK]",
            help="worker, worker-0, am; without it, every task.",
            autocompletion=completed("role-or-task"),
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job is over.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="N", help="Only the last N lines of each file.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only lines of the last 90s, 15m, 2h.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[,NAME]", help="Files; default: stdout.txt and stderr.txt."),
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only lines that match.")
    ] = None,
    am: Annotated[
        bool, typer.Option("--am", help="Logs of YARN's ApplicationMaster for this job.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the files instead.")] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Begin each line with the local time.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also TFJOB_PROGRESS lines, outcomes and locale warnings.")
    ] = False,
    prefix: Annotated[
        bool | None,
        typer.Option("--prefix/--no-prefix", help="Begin each line with its task, or not."),
    ] = None,
) -> None:
    """Show what the tasks of a running or finished job wrote, in order of time.

    With -o json each line is an object.

    \b
    Examples:
      submit_tf_job logs mnist worker-0 --tail 100
      submit_tf_job logs mnist -f --grep 'loss|Error'
      submit_tf_job logs application_1795256400000_0007 --am
    """
    from submit_tf_job.operations.logs import log_files
    from submit_tf_job.operations.logs import logs as read_logs
    from submit_tf_job.report.log_text import inventory_lines, inventory_object, log_json, log_text

    cluster = context.cluster()
    if list_:
        inventory = log_files(cluster, job, task, am=am, say=context.say)
        context.result(inventory_lines(inventory), lambda: inventory_object(inventory))
        return
    names = [name for given in file or [] for name in given.split(",") if name]
    since_s = seconds(since, "--since")
    reading = read_logs(
        cluster,
        job,
        task,
        files=names,
        tail=tail,
        since_s=since_s,
        grep=grep,
        am=am,
        follow=follow,
        raw=raw,
        say=context.say,
    )
    if reading.following:
        context.interrupted = f"Job {job} is still running."
    for text in (
        log_json(reading)
        if context.json
        else log_text(reading, prefix=prefix, colours=coloured(sys.stdout), timestamps=timestamps)
    ):
        sys.stdout.write(text)
        if reading.following:
            sys.stdout.flush()


def stacks(
    context: Context,
    job: JobArgument,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK]",
            help="worker-0; without it, every task.",
            autocompletion=completed("task"),
        ),
    ] = None,
) -> None:
    """Print where each Python process of a running job stands, a task that differs first.

    The program is not changed or interrupted. Each task's log keeps its own (stacks.txt).

    \b
    Examples:
      submit_tf_job stacks mnist
      submit_tf_job logs mnist worker-1 --file stacks.txt
    """
    from submit_tf_job.operations.stacks import take_stacks
    from submit_tf_job.report.detail_text import stacks_lines, stacks_object

    found = take_stacks(context.cluster(), job, task)
    context.result(stacks_lines(found), lambda: stacks_object(found))


# --- open and tunnel ------------------------------------------------------------------------------


RoleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ROLE]",
        help="The role that serves the port, such as tensorboard, or one of its tasks; not needed "
        "where only one does.",
        autocompletion=completed("role"),
    ),
]
PortOption = Annotated[
    str | None, typer.Option("--port", metavar="NAME", help="Name of one of the role's ports.")
]


def open_(
    context: Context,
    job: JobArgument,
    role: RoleArgument = None,
    port: PortOption = None,
    browser: Annotated[
        bool, typer.Option("--browser", "-b", help="Open it in a browser, too.")
    ] = False,
) -> None:
    """Print the address that a role serves under its `ports`.

    If this machine cannot reach it, a hint shows how to.

    \b
    Examples:
      submit_tf_job open mnist
      submit_tf_job open mnist tensorboard --browser
    """
    from submit_tf_job.operations.links import find_links, is_reachable

    link, *others = find_links(context.cluster(), job, role, port)
    reachable = is_reachable(link)
    context.result([link.url], lambda: document("Link", **plain(link), reachable=reachable))
    for other in others:
        context.say(f"{other.task}: {other.url}")
    if not reachable and link.via:
        context.say(
            f"{link.host} is an address of Docker's network on {link.via}, which this "
            f"machine does not reach; "
            f"try: submit_tf_job tunnel {job} {link.task}"
        )
    elif not reachable:
        context.say(
            f"{link.host}:{link.port} does not answer here yet, or cannot be reached from here; "
            f"try again, or: submit_tf_job tunnel {job} {link.task}"
        )
    elif browser:
        import webbrowser

        if not webbrowser.open(link.url):
            context.say("no browser was found here")


def tunnel(
    context: Context,
    job: JobArgument,
    role: RoleArgument = None,
    port: PortOption = None,
    via: Annotated[
        str | None,
        typer.Option(
            metavar="[USER@]HOST", help="Host to connect through; default: the node itself."
        ),
    ] = None,
    local_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=1, max=65535, help="Port on this machine; default: the same."
        ),
    ] = None,
) -> None:
    """Print the ssh command that forwards a role's port to this machine.

    \b
    Examples:
      submit_tf_job tunnel mnist tensorboard
      $(submit_tf_job tunnel mnist tensorboard --via edge01 -q)
    """
    from submit_tf_job.operations.links import find_links, tunnel_command

    link = find_links(context.cluster(), job, role, port)[0]
    words, url = tunnel_command(link, via=via, local_port=local_port)
    context.result(
        [shlex.join(words)],
        lambda: document("Tunnel", **plain(link), command=words, local_url=url),
    )
    if sys.stderr.isatty() or context.verbose:
        context.say(f"then open {url}")
