"""Commands compare and top: runs side by side, and the free capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context, completed
from submit_tf_job.cli.jobs import FromOption, NameOption, SetOption, read_job

if TYPE_CHECKING:
    from submit_tf_job.diagnose.room import ClusterRoom
    from submit_tf_job.operations.comparison import Comparison


def compare(
    context: Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs; jobs, each by its newest run, and one job alone by its last ten; "
            "application ids; or a pattern of jobs, such as 'hpo-*'.",
            autocompletion=completed("job"),
        ),
    ],
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="METRIC", help="The best run first.")
    ] = None,
) -> None:
    """Compare runs: what differs in what they were given, and their results.

    One row for each run, by its record: exactly those keys, arguments, variables, files and
    packages that differ, the last value of each metric (and the best, where it was another), the
    largest memory that a task used, and outputs. Also `-o csv`.

    \b
    Examples:
      submit_tf_job compare churn
      submit_tf_job compare 'churn-*' --sort val_accuracy
      submit_tf_job compare churn-4k3f7qa2 churn-7m2xw5te -o csv
    """
    from submit_tf_job.operations.comparison import compare_runs
    from submit_tf_job.report.comparison_text import comparison_csv, comparison_lines

    found = compare_runs(context.cluster(), runs, sort=sort)
    if context.output == "csv":
        lines = comparison_csv(found)
    else:
        lines = comparison_lines(found, width=context.width)
    context.result(lines, lambda: _json_of_comparison(found))


def _json_of_comparison(found: Comparison) -> dict[str, Any]:
    """Return the object for `-o json`. `jsonview` is imported here, as only that needs it."""
    from submit_tf_job.jsonview import comparison_object

    return comparison_object(found)


def top(
    context: Context,
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]", help="Job spec file: whether the job would start now; - for stdin."
        ),
    ] = None,
    overrides: SetOption = None,
    name: NameOption = None,
    dialect: FromOption = None,
) -> None:
    """Show the free capacity of queues, node labels and nodes; and whether a job would start now.

    Four requests, for any number of jobs and nodes; nothing is submitted.

    \b
    Examples:
      submit_tf_job top
      submit_tf_job top train.yaml --set roles.worker.instances=16
    """
    from submit_tf_job.operations.cluster_room import read_room
    from submit_tf_job.report.room_text import room_lines

    settings = context.settings()
    job = spec and read_job(spec, settings, overrides, name, context.say, dialect)
    room = read_room(context.cluster(settings), job or None)
    context.result(room_lines(room, width=context.width), lambda: _json_of_room(room))


def _json_of_room(room: ClusterRoom) -> dict[str, Any]:
    """Return the object for `-o json`. `jsonview` is imported here, as only that needs it."""
    from submit_tf_job.jsonview import room_object

    return room_object(room)
