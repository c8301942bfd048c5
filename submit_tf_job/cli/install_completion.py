"""The options --install-completion and --show-completion."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from submit_tf_job.cli.context import Context, guard, requested_output
from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.host.user_files import reason
from submit_tf_job.settings import directories

SHELLS = ("bash", "zsh", "fish")
_NAME, _VARIABLE = "submit_tf_job", "_SUBMIT_TF_JOB_COMPLETE"


def run(arguments: Sequence[str]) -> int:
    """Install or print the completion script of one shell, and return the exit status.

    Args:
        arguments: The command line: one of the two options, then the shell; without a shell, that
            of the running shell.
    """
    context = Context(output=requested_output(arguments))
    return guard(
        context,
        lambda: _run_typer(
            arguments[0], [word for word in arguments[1:] if not word.startswith("-")]
        ),
    )


def _run_typer(option: str, words: list[str]) -> None:
    scripts = import_module("typer.completion")
    shell = words[0] if words else _running_shell()
    if shell not in SHELLS:
        raise UsageError(
            f"{option} takes {', '.join(SHELLS)}, not {shell!r}",
            hint=f"submit_tf_job {option} bash",
        )
    if option == "--show-completion":
        print(scripts.get_completion_script(prog_name=_NAME, complete_var=_VARIABLE, shell=shell))
        return
    directories()  # raises an error if HOME is a file
    try:
        _, path = scripts.install(shell=shell, prog_name=_NAME, complete_var=_VARIABLE)
    except OSError as error:
        raise SettingsError(
            f"the completion cannot be installed: {error.filename}: {reason(error)}"
        ) from None
    print(f"{shell} completion installed in {path}; it works in new shells")


def _running_shell() -> str:
    shellingham = import_module("shellingham")  # a dependency of typer
    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        raise UsageError(
            "the running shell cannot be determined", hint="submit_tf_job --install-completion bash"
        ) from None
