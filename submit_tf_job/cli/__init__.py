"""The command line: argv → one api call → print → exit status.

Only the module of the command that was asked for is imported: what another command needs must not cost this one time.
"""

from __future__ import annotations

import sys
from importlib import import_module

from submit_tf_job.settings import process_environment

__all__ = ["COMMANDS", "main"]

# Command → (module of this package, group it belongs to or ""); the order is that of `--help`.
COMMANDS = {
    "submit": "submit",
    "local": "local",
    "render": "render",
    "validate": "render",
    "schema": "render",
    "init": "render",
    "list": "listing",
    "status": "look",
    "describe": "detail",
    "watch": "watching",
    "wait": "look",
    "events": "detail",
    "open": "reaching",
    "tunnel": "reaching",
    "logs": "logs",
    "stop": "control",
    "start": "changing",
    "delete": "control",
    "scale": "changing",
    "restart": "changing",
    "priority": "changing",
    "move": "changing",
    "extend": "changing",
    "doctor": "doctor",
    "image": "image",
    "staging": "staging",
    "config": "config",
    "sandbox": "sandbox",
    "gateway": "gateway",
    "version": "version",
}

EPILOG = """\
Exit status: 0 done, or the job succeeded; 1 the job failed; 2 wrong usage, job spec or settings; 3 the job was stopped; 4 not allowed;
5 no such job; 6 the name is taken; 7 no ResourceManager could be reached; 8 the deadline passed; 9 the cluster refused the job;
130 and 143 interrupted: the job goes on."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--version"]:
        arguments = ["version", *arguments[1:]]
    import typer

    app = typer.Typer(
        name="submit_tf_job",
        help="Run distributed TensorFlow on Hadoop YARN: one job spec in, a true verdict out.",
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # rich costs more than all else that a command needs; help and errors are plain text here
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    for module in _wanted_modules(arguments):
        import_module(f"submit_tf_job.cli.{module}").register(app)
    from submit_tf_job.cli.door import run

    return run(app, arguments)


def _wanted_modules(arguments: list[str]) -> list[str]:
    command = arguments[0] if arguments else ""
    if command in COMMANDS and "_SUBMIT_TF_JOB_COMPLETE" not in process_environment():
        return [COMMANDS[command]]
    return list(dict.fromkeys(COMMANDS.values()))


def _root() -> None:
    """Run distributed TensorFlow on Hadoop YARN: one job spec in, a true verdict out."""
