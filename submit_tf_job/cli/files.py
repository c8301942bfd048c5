"""Command put, and what it prints."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.diagnose.amounts import plural, size
from submit_tf_job.errors import UsageError
from submit_tf_job.json_values import document, plain


def put(
    context: Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH... TARGET",
            help="Files and directories of this host, and last where they go.",
            show_default=False,
        ),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist there.")
    ] = False,
) -> int:
    """Copy files and directories of this host to HDFS, without Java, as `hdfs dfs -put` does.

    TARGET is a URI, or a path of the cluster's default file system. What is a directory there, ends
    in `/`, or gets several files has them below it; else it is the new name. Nothing is copied if
    something of that name is there, or a name does not suit HDFS.

    \b
    Examples:
      submit_tf_job put churn.csv hdfs:///data/
      submit_tf_job put images/ hdfs:///data/images
      submit_tf_job put a.csv b.csv /user/alice/ --overwrite
    """
    if len(paths) < 2:
        raise UsageError("missing TARGET", hint=f"such as: put {paths[0]} hdfs:///user/NAME/")
    from submit_tf_job.operations.put import put as copy

    *sources, target = paths
    found = copy(context.settings(), sources, target, overwrite=overwrite)
    lines = [
        f"{one.source} → {one.uri}  {plural(one.files, 'file')}, {size(one.bytes)}" for one in found
    ]
    context.result(lines, lambda: document("Put", copied=[plain(one) for one in found]))
    return 0
