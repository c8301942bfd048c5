"""The command line: parse arguments, call one operation, print, return the exit status.

Only the module of the requested command is imported, so that the dependencies of other commands do
not delay it.
"""

from __future__ import annotations

import sys
from importlib import import_module

from submit_tf_job.errors import EXIT_INTERRUPTED
from submit_tf_job.settings import process_environment

__all__ = ["COMMANDS", "main"]

# Section of `--help` → command → (module of this package, its line of the help), in the order of
# `--help`.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run jobs": {
        "submit": ("submit", "Submit a job and follow it to its end."),
        "run": ("run", "Run a program as a job, without a job spec file."),
        "local": ("local", "Run a job on this machine, without a cluster."),
        "validate": ("render", "Report every problem of job spec files."),
        "render": ("render", "Print the service that submit would post."),
        "init": ("render", "Print a starter job spec."),
        "convert": ("convert", "Print a job of another system as a job spec."),
        "formats": ("convert", "List the formats that are read."),
        "schema": ("render", "Print the JSON Schema of job specs."),
    },
    "Watch jobs": {
        "list": ("list_jobs", "List jobs, the newest first."),
        "history": ("list_jobs", "List runs, beyond what the ResourceManager remembers."),
        "status": ("status", "Show the state of a job."),
        "describe": ("status", "Show a job in detail: tasks, limits, links, last events."),
        "watch": ("watch", "Watch a job, or all jobs, in a live view."),
        "wait": ("status", "Wait until a job is ready or done."),
        "logs": ("logs", "Show what tasks wrote."),
        "events": ("status", "Show what happened to a job, in order of time."),
        "open": ("open_link", "Print the address of what a role serves."),
        "tunnel": ("open_link", "Print the ssh command that makes a role's port reachable here."),
    },
    "Change jobs": {
        "stop": ("change", "Stop a job."),
        "delete": ("change", "Delete the ended runs of a job, or one run."),
        "scale": ("change", "Change the number of tasks of a sidecar or an elastic role."),
        "restart": ("change", "End one task, so that YARN starts it again."),
        "priority": ("change", "Change the priority of a job within its queue."),
        "move": ("change", "Move a job to another queue."),
        "extend": ("change", "Extend the time limit of a running job."),
    },
    "Check and set up": {
        "doctor": ("doctor", "Check that this machine can run jobs on the cluster."),
        "image": ("doctor", "Check Docker images."),
        "config": ("config", "Show the settings, and where each comes from."),
        "staging": ("staging", "Manage files staged on HDFS."),
        "sandbox": ("sandbox", "Run a real YARN cluster on this machine."),
        "gateway": ("gateway", "Run the REST gateway."),
        "help": ("manual", "Print a page of the documentation."),
        "version": ("config", "Print the version."),
    },
}
COMMANDS = {name: module for rows in SECTIONS.values() for name, (module, _) in rows.items()}

# Lines of the groups' own help.
SUBCOMMANDS = {
    "config show": "Show every setting, its value, and where it comes from.",
    "gateway serve": "Serve jobs over HTTP until SIGTERM.",
    "gateway token": "Make a token for a caller.",
    "image check": "Report what YARN, HDFS or TensorFlow will miss in an image.",
    "sandbox up": "Start a YARN cluster on this machine, or repair a running one.",
    "sandbox down": "Stop a sandbox and remove all that it wrote.",
    "sandbox status": "Show each daemon of a sandbox.",
    "sandbox logs": "Print the log of one daemon.",
    "staging gc": "Remove what was staged for jobs that no longer exist.",
}

EPILOG = """\
Exit status: 0 done, or the job succeeded; 1 the job failed; 2 wrong usage, job spec or settings; 3 the job was stopped; 4 not allowed;
5 no such job; 6 another run of the job is alive; 7 no ResourceManager could be reached; 8 the deadline passed; 9 the cluster refused the job;
74 the result could not be written; 130 and 143 interrupted: the job keeps running.

More: submit_tf_job help, and submit_tf_job COMMAND --help."""  # noqa: E501


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: The arguments; None for those of this process, which then ends with the command.
    """
    try:
        status = _run(argv)
    except KeyboardInterrupt:  # while the command was imported
        status = EXIT_INTERRUPTED
    if argv is None:
        _leave(status)
    return status


def _leave(status: int) -> None:
    """End the process without Python's cleanup while a call to HDFS is pending: it would abort.

    `python -m` ends by SIGINT, not with the status that it is given, where an interrupt came while
    Python ran a text (dataclasses do so in an import), though it was caught (Python's
    pythonrun.c, `run_eval_code_obj`). The next text that runs resets this.
    """
    if status == EXIT_INTERRUPTED:
        exec("")  # noqa: S102 - see above
    storage = sys.modules.get("submit_tf_job.storage.hdfs")
    if storage is not None and storage.calls_under_way():
        from submit_tf_job.cli.streams import leave

        leave(status)


def _run(argv: list[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--version"]:
        arguments = ["version", *arguments[1:]]
    if arguments[:1] and arguments[0] in ("--install-completion", "--show-completion"):
        from submit_tf_job.cli.completion import run as run_completion

        return run_completion(arguments)
    import typer

    from submit_tf_job.cli.usage import Group

    app = typer.Typer(
        name="submit_tf_job",
        cls=Group,
        help="Run distributed TensorFlow on Hadoop YARN: one job spec, one command.",
        epilog=EPILOG,
        no_args_is_help=True,
        # rich takes longer to import than all else that a command needs; help and errors are plain
        # text
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    wanted = _wanted_command(arguments)
    if wanted in COMMANDS:
        import_module(f"submit_tf_job.cli.{COMMANDS[wanted]}").register(app)
    else:  # help, completion and errors need only names and summaries
        for rows in SECTIONS.values():
            for name, (_, summary) in rows.items():
                app.command(name, help=summary)(_root)
    from submit_tf_job.cli.context import run

    return run(app, arguments)


def _wanted_command(arguments: list[str]) -> str:
    """Return the name of the command; for a completion, that of the completed command line."""
    environment = process_environment()
    if "_SUBMIT_TF_JOB_COMPLETE" in environment:
        sys.modules["rich"] = None  # type: ignore[assignment] # typer would import it to strip markup, which the help does not contain
        arguments = environment.get(
            "_TYPER_COMPLETE_ARGS", environment.get("COMP_WORDS", "")
        ).split()[1:]
    return next((word for word in arguments if not word.startswith("-")), "")


def _root() -> None:
    """Run distributed TensorFlow on Hadoop YARN: one job spec, one command."""
