"""Where errors become messages and exit statuses, and where the options stand that every command has."""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Annotated, Any

import typer

from submit_tf_job.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, InternalError, JobSpecError, SubmitTFJobError, UsageError
from submit_tf_job.report.untrusted import clean
from submit_tf_job.secretfile import leave_no_core
from submit_tf_job.settings import Settings, load_settings, process_environment

__all__ = ["Context", "JobArgument", "SpecArgument", "coloured", "command", "printable", "run"]

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, as the shell would say
HINT_INDENT = "  hint: "

SpecArgument = Annotated[str, typer.Argument(metavar="SPEC", help="Job spec file, YAML or JSON; - for standard input.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, or an application id.")]


@dataclass
class Context:
    """What every command gets: the options that stand everywhere, and the two streams.

    Attributes:
        interrupted: What to say when the user interrupts the command; a command sets it once there is something to say.
    """

    profile: str | None = None
    rm: list[str] = field(default_factory=list)
    user: str | None = None
    auth: str | None = None
    as_user: str | None = None
    output: str = "text"
    quiet: bool = False
    verbose: bool = False
    interrupted: str = ""

    def settings(self) -> Settings:
        """Read the settings under these options."""
        given = {"resource_managers": list(self.rm), "user": self.user, "auth": self.auth, "as_user": self.as_user}
        settings = load_settings(arguments=given, profile=self.profile)
        if settings["auth"] != "simple":
            leave_no_core()
        return settings

    @property
    def width(self) -> int | None:
        """Columns of the terminal that the result goes to; None for a file or a pipe, where nothing is cut."""
        if not sys.stdout.isatty():
            return None
        import shutil

        return max(40, shutil.get_terminal_size().columns)

    @property
    def json(self) -> bool:
        """Whether the result is to be JSON."""
        return self.output == "json"

    def result(self, lines: Iterable[str], value: Callable[[], object]) -> None:
        """Print the result: to stdout, the only thing that goes there."""
        if self.json:
            print(json.dumps(value(), indent=2))
        else:
            for line in lines:
                print(printable(line, sys.stdout))

    def result_line(self, line: str, value: Callable[[], object]) -> None:
        """Print one of several results, each as it comes: a line, or a JSON object on a line."""
        print(json.dumps(value()) if self.json else printable(line, sys.stdout), flush=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something of somebody else's is destroyed.

        Raises:
            UsageError: The answer is no, or nobody is there to give one.
        """
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"{question} Nobody is there to ask", hint="say --yes")
        print(clean(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was done")

    def say(self, line: str) -> None:
        """Talk to the person at the terminal: to stderr, unless they want quiet."""
        if not self.quiet:
            print(printable(line, sys.stderr), file=sys.stderr, flush=True)


_SETTINGS = (
    ("profile", "-p", "--profile", str | None, None, "NAME", "Settings profile."),
    ("rm", "--rm", None, list[str] | None, None, "URL", "ResourceManager, http://host:8088; may be given more than once."),
    ("user", "--user", None, str | None, None, "NAME", "User to submit as."),
    ("auth", "--auth", None, str | None, None, "METHOD", "simple, kerberos, delegation-token, basic or bearer."),
    ("as_user", "--as-user", None, str | None, None, "NAME", "Submit for this user, as a proxy user (doAs)."),
)
_COMMON = (
    ("output", "-o", "--output", str, "text", "text|json", "Form of the result on stdout."),
    ("quiet", "-q", "--quiet", bool, False, None, "Say nothing on stderr but errors."),
    ("verbose", "-v", "--verbose", bool, False, None, "Say more; show tracebacks of defects."),
)


def command(
    app: typer.Typer, name: str | None = None, *, settings: bool = True
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Register a command: `function(context, …) -> exit status or None`, with the options that stand everywhere added.

    Args:
        app: Where.
        name: Its name, where that is not the function's.
        settings: Whether it reads the settings, and so has the options that decide about them.
    """
    rows = (*_SETTINGS, *_COMMON) if settings else _COMMON

    def register(function: Callable[..., int | None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "context"]
        common = [_parameter(*row) for row in rows]

        @functools.wraps(function)
        def guarded(**values: Any) -> None:
            given = {row[0]: values.pop(row[0]) for row in rows}
            context = Context(**{**given, "rm": given.get("rm") or []})
            raise SystemExit(_guard(context, lambda: function(context, **values)))

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *common)]
        guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        guarded.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, rich_help_panel=None)(guarded)
        return guarded

    return register


def _parameter(name: str, first: str, second: str | None, kind: Any, default: Any, metavar: str | None, text: str) -> inspect.Parameter:
    names = [option for option in (second, first) if option]
    option = typer.Option(*names, metavar=metavar, help=text, show_default=False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def run(app: typer.Typer, arguments: list[str]) -> int:
    """Run the command line and return the exit status, whatever happens."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no … must not turn a result into a defect
    try:
        app(args=arguments, prog_name="submit_tf_job")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0 if done.code is None else 2
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


class _TerminatedError(BaseException):
    """SIGTERM came."""


def _guard(context: Context, call: Callable[[], int | None]) -> int:
    """Call a command and turn every way it can end into a message and an exit status."""
    if context.output not in ("text", "json"):
        return _show(context, UsageError(f"--output takes text or json, not {context.output!r}"))

    def terminated(_signum: int, _frame: object) -> None:
        raise _TerminatedError

    previous = signal.signal(signal.SIGTERM, terminated)
    try:
        status = call() or 0
        sys.stdout.flush()
    except SubmitTFJobError as error:
        return _show(context, error)
    except (KeyboardInterrupt, _TerminatedError) as event:
        if context.interrupted:
            print(f"\n{context.interrupted}", file=sys.stderr)
        return EXIT_TERMINATED if isinstance(event, _TerminatedError) else EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more at its end
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - a defect of ours must not look like the user's
        return _show(context, _defect(context, error))
    else:
        return status
    finally:
        signal.signal(signal.SIGTERM, previous)


def _defect(context: Context, error: Exception) -> InternalError:
    if context.verbose:
        import traceback

        traceback.print_exc()
    return InternalError(
        f"a defect of submit_tf_job: {type(error).__name__}: {error}",
        hint="please report it with the output of the same command with -v; nothing is known to be wrong with your job",
    )


def _show(context: Context, error: SubmitTFJobError) -> int:
    if context.json:
        print(json.dumps({"kind": "Error", "format": 1, **error.to_json()}, indent=2), file=sys.stderr)
    elif isinstance(error, JobSpecError):
        for problem in error.problems:
            print(clean(str(problem)), file=sys.stderr)
    else:
        print(clean(f"error: {error.message}", keep_lines=True), file=sys.stderr)
    if error.hint and not context.json:
        print(clean(HINT_INDENT + error.hint), file=sys.stderr)
    if context.verbose and not context.json:
        for name, value in error.details.items():
            if name != "problems":
                print(clean(f"  {name}: {value}"), file=sys.stderr)
    return error.exit_status


_COLOURS = {
    "SUCCEEDED": 32,
    "FAILED": 31,
    "STOPPED": 33,
    "UNKNOWN": 33,
    "PENDING": 33,
    "STARTING": 36,
    "RUNNING": 36,
    "FINISHING": 36,
}
_STATE = re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b")


def printable(line: str, stream: IO[str]) -> str:
    """Make a line fit to be printed: nothing in it reaches the terminal but text, and a job's states are coloured there."""
    if not coloured(stream):
        return clean(line)
    return _STATE.sub(lambda found: f"\x1b[{_COLOURS[found.group()]}m{found.group()}\x1b[0m", clean(line))


def coloured(stream: IO[str]) -> bool:
    """Say whether a stream gets colours: a terminal, unless the user wants none (https://no-color.org)."""
    environment = process_environment()
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
