"""The command line: parse the arguments, call one operation, print the result, and return the exit
status.

Only the module of the requested command is imported, so that the dependencies of other commands do
not delay it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from submit_tf_job.cli.commands import COMMANDS, EPILOG, SUBCOMMANDS, WITHOUT_SETTINGS
from submit_tf_job.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    import typer


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: The arguments. None means the arguments of this process; then the process ends here,
            instead of a return, if a call to HDFS is still running (`_end_process`).
    """
    try:
        status = _run_arguments(argv)
    except KeyboardInterrupt:  # while the command was imported
        status = EXIT_INTERRUPTED
    if argv is None:
        _end_process(status)
    return status


def _end_process(status: int) -> None:
    """If a call to HDFS is still running, end the process without Python's cleanup, which would
    abort the process; otherwise return, and the caller ends the process as usual.

    If an interrupt came while Python executed a string (dataclasses do so during an import),
    `python -m` ends by SIGINT instead of with the given status, although the interrupt was caught
    (Python's pythonrun.c, `run_eval_code_obj`). Executing another string resets this.
    """
    if status == EXIT_INTERRUPTED:
        exec("")  # noqa: S102 - see above
    storage = sys.modules.get("submit_tf_job.storage.hdfs")
    if storage is not None and storage.calls_under_way():
        from submit_tf_job.cli.streams import leave

        leave(status)


def _run_arguments(argv: list[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--version"]:
        arguments = ["version", *arguments[1:]]
    if arguments[:1] and arguments[0] in ("--install-completion", "--show-completion"):
        from submit_tf_job.cli.install_completion import run as run_completion

        return run_completion(arguments)
    import typer

    from submit_tf_job.cli.context import Group, run

    app = typer.Typer(
        name="submit_tf_job",
        cls=Group,
        help="Run distributed training (TensorFlow, PyTorch, JAX) on Hadoop YARN.",
        epilog=EPILOG,
        no_args_is_help=True,
        # rich takes longer to import than all else that a command needs; help and errors are plain
        # text
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root_command)
    wanted = _wanted_command(arguments)
    if wanted in COMMANDS:
        add(app, wanted)
    else:  # help, completion and errors need only names and summaries
        for name, (_, summary) in COMMANDS.items():
            app.command(name, help=summary)(_root_command)
    return run(app, arguments)


def add(app: typer.Typer, name: str) -> None:
    """Add a command or a group to the application; only its modules are imported."""
    import typer

    from submit_tf_job.cli.context import Group, add_command

    found, summary = COMMANDS[name]
    names = [words for words in SUBCOMMANDS if words.startswith(f"{name} ")]
    if names:
        group = typer.Typer(cls=Group, help=summary, no_args_is_help=True, rich_markup_mode=None)
        app.add_typer(group, name=name)
        app = group
    module = import_module(f"submit_tf_job.cli.{found}")
    for words in names or [name]:
        last = words.rpartition(" ")[2]
        function = getattr(module, last if hasattr(module, last) else f"{last}_")
        add_command(app, last, function, settings=words not in WITHOUT_SETTINGS)


def _wanted_command(arguments: list[str]) -> str:
    """Return the name of the command, "" if there is none; for a shell completion, the name of the
    command in the line that is completed.
    """
    from submit_tf_job.settings import process_environment

    environment = process_environment()
    if "_SUBMIT_TF_JOB_COMPLETE" in environment:
        sys.modules["rich"] = None  # type: ignore[assignment] # typer would import it to strip markup, which the help does not contain
        arguments = environment.get(
            "_TYPER_COMPLETE_ARGS", environment.get("COMP_WORDS", "")
        ).split()[1:]
    return next((word for word in arguments if not word.startswith("-")), "")


def _root_command() -> None:
    """Run distributed training (TensorFlow, PyTorch, JAX) on Hadoop YARN."""
