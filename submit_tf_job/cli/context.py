"""The options of all commands, and the conversion of errors to messages and exit statuses."""

from __future__ import annotations

import functools
import inspect
import json
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.streams import ReaderGoneError, drop_output, paint, take_over
from submit_tf_job.cli.usage import (
    CLUSTER_OPTIONS,
    HelpCommand,
    ParserError,
    ProgramCommand,
    from_parser,
    requested_output,
)
from submit_tf_job.errors import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    InternalError,
    JobSpecError,
    OutputError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.host.secretfile import leave_no_core
from submit_tf_job.report.table import clean
from submit_tf_job.settings import Settings, load_settings, process_environment

if TYPE_CHECKING:
    from submit_tf_job.operations.cluster import Cluster

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, the shell's exit status
HINT_INDENT = "  hint: "


def completed(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Return a completion function for values of one kind (`completion.values`)."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from submit_tf_job.cli import completion

        return completion.values(kind, ctx.params, incomplete)

    return complete


SpecArgument = Annotated[
    str, typer.Argument(metavar="SPEC", help="Job spec file, YAML or JSON; - for standard input.")
]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Name of the job (its newest run) or of a run, or an application id.",
        autocompletion=completed("job"),
    ),
]


@dataclass
class Context:
    """The common options of a command, and its two output streams.

    Attributes:
        interrupted: Message for an interrupt; a command sets it once there is something to report.
    """

    profile: str | None = None
    rm: list[str] | None = None
    user: str | None = None
    auth: str | None = None
    as_user: str | None = None
    output: str = "text"
    quiet: bool = False
    verbose: bool = False
    interrupted: str = ""

    def settings(self) -> Settings:
        """Read the settings, with these options applied."""
        given = {
            "resource_managers": list(self.rm or ()),
            "user": self.user,
            "auth": self.auth,
            "as_user": self.as_user,
        }
        settings = load_settings(arguments=given, profile=self.profile)
        if settings.auth != "simple":
            leave_no_core()
        return settings

    def cluster(self, settings: Settings | None = None) -> Cluster:
        """Return the cluster of the settings."""
        from submit_tf_job.operations.cluster import connect

        return connect(settings or self.settings())

    @property
    def width(self) -> int | None:
        """The columns of the terminal on stdout; None for a file or a pipe, where lines are not
        cut.
        """
        if not sys.stdout.isatty():
            return None
        import shutil

        return max(40, shutil.get_terminal_size().columns)

    @property
    def json(self) -> bool:
        """Whether the result is printed as JSON."""
        return self.output == "json"

    def result(self, lines: Iterable[str], value: Callable[[], object]) -> None:
        """Print the result to stdout."""
        if self.json:
            print(json.dumps(value(), indent=2))
        else:
            for line in lines:
                print(printable(line, sys.stdout))

    def result_line(self, line: str, value: Callable[[], object]) -> None:
        """Print one of several results at once: a line, or a JSON object on one line."""
        print(json.dumps(value()) if self.json else printable(line, sys.stdout), flush=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before another user's job is changed.

        Raises:
            UsageError: The answer is no, or there is no terminal to ask on.
        """
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"{question} There is no terminal to ask on", hint="add --yes")
        print(clean(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was done")

    def say(self, line: str) -> None:
        """Print a message to stderr, unless --quiet was given."""
        if not self.quiet:
            print(printable(line, sys.stderr), file=sys.stderr, flush=True)


def document(kind: str, /, **fields: Any) -> dict[str, Any]:
    """Return an object that is printed alone: its kind, the version of its format, its fields."""
    return {"kind": kind, "format": 1, **fields}


# The options of all commands, whose types and defaults are those of `Context`: short form, value in
# the help, help.
_SETTINGS = {
    "profile": ("-p", "NAME", "Settings profile."),
    "rm": ("", "URL", "ResourceManager, http://host:8088; may be given more than once."),
    "user": ("", "NAME", "User to submit as."),
    "auth": ("", "METHOD", "simple, kerberos, delegation-token, basic or bearer."),
    "as_user": ("", "NAME", "Submit for this user, as a proxy user (doAs)."),
}
_COMMON = {
    "output": ("-o", "text|json", "Output format."),
    "quiet": ("-q", None, "Print only errors, and the result on stdout."),
    "verbose": ("-v", None, "Verbose; show tracebacks."),
}


def add_command(
    app: typer.Typer, name: str, function: Callable[..., int | None], *, settings: bool
) -> None:
    """Add a command: `function(context, …) -> exit status or None`, plus the common options.

    Args:
        app: The application or group to add it to.
        name: Its name.
        function: Its function.
        settings: Whether it reads the settings, and so has the cluster options.
    """
    names = [*(_SETTINGS if settings else ()), *_COMMON]
    own = [
        p
        for p in inspect.signature(function, eval_str=True).parameters.values()
        if p.name != "context"
    ]
    common = map(_parameter, names)

    @functools.wraps(function)
    def guarded(**values: Any) -> None:
        context = Context(**{name: values.pop(name) for name in names})
        raise SystemExit(guard(context, lambda: function(context, **values)))

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *common)]
    guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {p.name: p.annotation for p in parameters}
    # what follows the program's name are its own options, also without --
    kind, parsing = HelpCommand, None
    if name == "run":
        kind, parsing = ProgramCommand, {"allow_interspersed_args": False}
    app.command(name, cls=kind, context_settings=parsing)(guarded)


def _parameter(name: str) -> inspect.Parameter:
    short, metavar, text = {**_SETTINGS, **_COMMON}[name]
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        *filter(None, [short]),
        metavar=metavar,
        help=text,
        show_default=False,
        rich_help_panel=CLUSTER_OPTIONS if name in _SETTINGS else None,
        autocompletion=completed(name) if name in ("profile", "auth", "output") else None,
    )
    field = inspect.signature(Context, eval_str=True).parameters[name]
    return field.replace(
        kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[field.annotation, option]
    )


def run(app: typer.Typer, arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    take_over()
    status: object = 0
    try:
        try:
            status = app(args=arguments, prog_name="submit_tf_job", standalone_mode=False)
        except SystemExit as done:
            status = done.code or 0
            if not isinstance(status, int):
                status = 2
        except ParserError as error:
            status = _wrong_usage(error, arguments)
        except UsageError as error:  # while a command line was parsed
            status = _show(Context(output=requested_output(arguments)), error)
        sys.stdout.flush()
    except OutputError as error:  # of a help text; errors of a command are handled in `guard`
        drop_output()
        return _show(Context(), error)
    except ReaderGoneError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    # `--help` and an interrupt return a status
    return status if isinstance(status, int) else 0


def _wrong_usage(error: Any, arguments: list[str]) -> int:
    """Print a parser error like any other error; a group without a command prints its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    return _show(Context(output=requested_output(arguments)), from_parser(error, arguments))


class _TerminatedError(BaseException):
    """SIGTERM was received."""


def guard(context: Context, call: Callable[[], int | None]) -> int:
    """Call a command, and turn errors and signals into a message and an exit status."""
    if context.output not in ("text", "json"):
        return _show(context, UsageError(f"--output takes text or json, not {context.output!r}"))

    def terminated(_signum: int, _frame: object) -> None:
        raise _TerminatedError

    previous = signal.signal(signal.SIGTERM, terminated)
    try:
        status = call() or 0
        sys.stdout.flush()
    except OutputError as error:
        drop_output()
        return _show(context, error)
    except SubmitTFJobError as error:
        return _show(context, error)
    except (KeyboardInterrupt, _TerminatedError) as event:
        if context.interrupted:
            print(f"\n{context.interrupted}", file=sys.stderr)
        return EXIT_TERMINATED if isinstance(event, _TerminatedError) else EXIT_INTERRUPTED
    except ReaderGoneError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - reported as a defect of this program
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
        hint="please report it with the output of the same command with -v; your job is "
        "probably not affected",
    )


def _show(context: Context, error: SubmitTFJobError) -> int:
    if context.json:
        print(json.dumps(document("Error", **error.to_json()), indent=2), file=sys.stderr)
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


def printable(line: str, stream: IO[str]) -> str:
    """Escape control characters, and add colours for a terminal."""
    return paint(clean(line)) if coloured(stream) else clean(line)


def coloured(stream: IO[str]) -> bool:
    """Return whether a stream gets colours: a terminal, unless NO_COLOR is set
    (https://no-color.org).
    """
    environment = process_environment()
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
