"""submit."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, SpecArgument, command
from submit_tf_job.cli.follow import finish, seconds, talking
from submit_tf_job.cli.jobfile import NameOption, SetOption, SubmissionOption, read_job
from submit_tf_job.cli.progress import shown
from submit_tf_job.errors import UsageError
from submit_tf_job.report.change import submission_object


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "submit")(submit)


def submit(
    context: Context,
    spec: SpecArgument,
    overrides: SetOption = None,
    name: NameOption = None,
    submission_id: SubmissionOption = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when YARN has accepted the job.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete a job of that name first, if it is over.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="Give up following after 90s, 15m, 2h; the job goes on.")
    ] = None,
) -> int:
    """Submit a job and follow it to its end; the exit status is the job's.

    The same command again finds its own job: while it runs it is followed, when it is over its verdict is told. To run it once more,
    say --replace, or give it another --name. Ctrl-C leaves the job running.

    \b
    Examples:
      submit_tf_job submit train.yaml
      submit_tf_job submit train.yaml --set roles.worker.instances=8 --name big
      submit_tf_job submit train.yaml --detach && submit_tf_job wait mnist
    """
    timeout_s = seconds(timeout)
    if detach and timeout_s is not None:
        raise UsageError("--timeout says how long to follow, and --detach not to follow at all", hint="leave one of them out")
    settings = context.settings()
    planned = api.make_plan(read_job(spec, settings, overrides, name), settings, submission=submission_id)
    for warning in api.warnings(planned.job, settings):
        context.say(f"warning: {warning}")
    context.interrupted = f"It is not certain whether {planned.job.name} was submitted. The same command again finds out."
    cluster = api.connect(settings)
    with shown(context, planned.job.name) as told:
        done = api.submit(planned, cluster, replace=replace, on_upload=told)
    what = "was submitted before, as" if done.adopted else "is submitted as"
    context.say(f"{planned.job.name} {what} {done.ref.application_id}  (submission {done.plan.submission})")
    if detach:
        context.result(
            [str(done.ref.application_id)],
            lambda: submission_object(done),
        )
        return 0
    look = talking(
        context,
        done.ref,
        lambda talk: api.follow_own(cluster, done, timeout_s=timeout_s, on_look=talk.look, on_trouble=talk.trouble),
        why=lambda look: api.why_pending(cluster, look),
    )
    if done.adopted and look.verdict.state.is_final:
        context.say(f"to run it once more: submit_tf_job submit {spec} --replace")
    return finish(context, look, api.why_failed(cluster, look))
