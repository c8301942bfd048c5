"""The parts that all commands share: options, help in plain text, and the conversion of errors
(including those of the parser) to messages and exit statuses.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from submit_tf_job.cli.commands import MORE_FORMATS, SECTIONS, SUBCOMMANDS
from submit_tf_job.cli.streams import ReaderGoneError, drop_output, paint, take_over
from submit_tf_job.errors import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    InternalError,
    JobSpecError,
    OutputError,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.host.user_files import leave_no_core
from submit_tf_job.report.table import clean
from submit_tf_job.settings import Settings, load_settings, process_environment

if TYPE_CHECKING:
    from submit_tf_job.operations.cluster import Cluster

# The base class of the parser's errors: click's, or since typer 0.24 that of typer's copy of click.
ParserError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

_OF_RUN = frozenset(
    ("--workers", "--ps", "--cpus", "--gpus", "--memory", "--image", "--strategy", "--env")
)


def requested_output(arguments: Sequence[str]) -> str:
    """Return the value of --output in arguments that could not be parsed: json or text."""
    text = "\n".join(takewhile(lambda word: word != "--", arguments))
    found = re.search(r"^(-[a-z]*o=?|--output[=\n])\n?json$", text, re.MULTILINE)
    return "json" if found else "text"


def from_parser(error: Any, arguments: Sequence[str] = ()) -> UsageError:
    """Return an error of the parser as a UsageError whose hint contains the usage of the command,
    or, if a key of a job spec was given as an option, how `--set` sets it.

    Args:
        error: A `ParserError`.
        arguments: The command line.
    """
    message = str(error.format_message()).strip()
    context = getattr(error, "ctx", None)
    if context is None:
        return UsageError(message)
    if instead := _as_override(context, getattr(error, "option_name", ""), arguments):
        return UsageError(message, hint=instead)
    usage = re.sub(r"\s+", " ", str(context.get_usage())).removeprefix("Usage: ")
    if context.parent is None and usage.startswith("submit_tf_job [OPTIONS]"):
        usage = "submit_tf_job COMMAND [OPTIONS]"  # the options of every command follow it
    if context.parent is None and (option := getattr(error, "option_name", "")):
        usage += f", an option of a command after it: submit_tf_job COMMAND {option} …"
    return UsageError(message, hint=f"usage: {usage}; see {context.command_path} --help")


def _as_override(context: Any, option: str, arguments: Sequence[str]) -> str:
    """If a key of a job spec was given as an option, return a hint how `--set` sets it; "" for any
    other option.
    """
    if not any(parameter.name == "overrides" for parameter in context.command.params):
        return ""
    from submit_tf_job.jobspec.keys import JOB, ROLE

    key = option.lstrip("-").replace("-", "_")
    path = {"workers": "roles.worker.instances", "ps": "roles.ps.instances"}.get(key)
    shared = key in JOB.rows
    if path is None and not shared and key not in ROLE.rows:
        return ""
    path = path or (key if shared else f"roles.worker.{key}")
    words = [piece for word in arguments for piece in word.split("=", 1)]
    value = next((after for word, after in pairwise(words) if word == option), "")
    value = "…" if not value or value.startswith("-") else value
    hint = f"did you mean --set {path}={value}"
    if option in _OF_RUN and context.info_name != "run":
        hint += f", or submit_tf_job run {option} {value}"
    return f"{hint}?"


# --- help layout ----------------------------------------------------------------------------------

CLUSTER_OPTIONS = "Cluster options"


class HelpCommand(TyperCommand):
    """A command whose help has sections: arguments, its own options, the cluster options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, then the cluster options."""
        _write_options(self, ctx, formatter)


class ProgramCommand(HelpCommand):
    """A command whose last argument is the command line of a program, and has its own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; without `--` an option of the command may not follow the program.

        Raises:
            UsageError: Such an option follows it, and may be meant for the command or for the
                program.
        """
        given = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        program = list(ctx.params.get("program") or ())
        own = given[: len(given) - len(program)]
        if program and own[-1:] != ["--"]:
            options = {
                name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)
            }
            words = takewhile(lambda word: word != "--", program)
            found = next((word for word in words if word.partition("=")[0] in options), None)
            if found is not None:
                self._ask_whose(ctx, found, own, program)
        return rest

    def _ask_whose(self, ctx: Any, word: str, own: list[str], program: list[str]) -> None:
        name = word.partition("=")[0]
        before = shlex.join([*own, "--"])
        raise UsageError(
            f"{name} stands behind the program, and is an option of {ctx.info_name}, too",
            hint=f"write it before {program[0]}; or, if the program is to get it, -- before the "
            f"program: {ctx.command_path} {before} {shlex.join(program)}",
        )


class Group(TyperGroup):
    """A group of commands whose help lists its options, then its commands by section."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        _write_options(self, ctx, formatter)
        sections = {
            title: [(name, summary) for name, (_, summary) in rows.items()]
            for title, rows in SECTIONS.items()
        }
        if ctx.parent is not None:
            names = self.list_commands(ctx)
            sections = {
                "Commands": [(name, SUBCOMMANDS[f"{ctx.info_name} {name}"]) for name in names]
            }
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {
        "Arguments": [],
        "Options": [],
        CLUSTER_OPTIONS: [],
    }
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            # `--help` itself is an option of click's, before typer 0.24
            title = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                title = "Arguments"
            sections[title].append(record)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


# --- the options of all commands ---


EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, the shell's exit status
HINT_INDENT = "  hint: "


def completed(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Return a completion function for values of one kind (`completion.values`)."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from submit_tf_job.cli import completion

        context = Context()
        for name in _SETTINGS:
            setattr(context, name, ctx.params.get(name))
        return completion.values(kind, ctx.params, incomplete, context.settings)

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


_FORMATS = ("text", "json")


@dataclass
class Context:
    """The common options of a command, and its two output streams.

    Attributes:
        formats: The formats that --output accepts.
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
    formats: tuple[str, ...] = _FORMATS
    interrupted: str = ""

    def settings(self) -> Settings:
        """Read the settings, with these options applied. Unless authentication is `simple`, also
        switch off core dumps of this process, which would contain credentials.

        Raises:
            SettingsError: The settings are not valid.
        """
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
        """Return a connection to the cluster of the settings; None to read the settings. No request
        is sent yet. Errors are those of `connect`, and without settings those of `settings`.
        """
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
        """Print the result to stdout: the lines, or with `-o json` what `value` returns."""
        if self.json:
            print(json.dumps(value(), indent=2))
        else:
            for line in lines:
                print(printable(line, sys.stdout))

    def result_line(self, line: str, value: Callable[[], object]) -> None:
        """Print one of several results at once: a line, or a JSON object on one line."""
        print(json.dumps(value()) if self.json else printable(line, sys.stdout), flush=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before another user's job is changed; return if the answer is yes, or at once with
        `yes` (the option --yes).

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
    "output": ("-o", "", "Output format."),
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
    of_all = inspect.signature(Context, eval_str=True).parameters
    own = [
        p
        for p in inspect.signature(function, eval_str=True).parameters.values()
        if p.name != "context"
    ]
    formats = (*_FORMATS, *MORE_FORMATS.get(name, ()))
    common = [_option_parameter(of_all[option], formats) for option in names]

    @functools.wraps(function)
    def guarded(**values: Any) -> None:
        context = Context(**{name: values.pop(name) for name in names}, formats=formats)
        raise SystemExit(guard(context, functools.partial(function, context, **values)))

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *common)]
    guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {p.name: p.annotation for p in parameters}
    # what follows the program's name are its own options, also without --
    kind, parsing = HelpCommand, None
    if name == "run":
        kind, parsing = ProgramCommand, {"allow_interspersed_args": False}
    app.command(name, cls=kind, context_settings=parsing)(guarded)


def _option_parameter(field: inspect.Parameter, formats: tuple[str, ...]) -> inspect.Parameter:
    """Return the parameter of a command for an option of all commands, a field of `Context`."""
    name = field.name
    short, metavar, text = {**_SETTINGS, **_COMMON}[name]
    values = name
    if name == "output":
        metavar, values = "|".join(formats), "-".join(("output", *formats[len(_FORMATS) :]))
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        *filter(None, [short]),
        metavar=metavar,
        help=text,
        show_default=False,
        rich_help_panel=CLUSTER_OPTIONS if name in _SETTINGS else None,
        autocompletion=completed(values) if name in ("profile", "auth", "output") else None,
    )
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
            status = _show_error(Context(output=requested_output(arguments)), error)
        sys.stdout.flush()
    except OutputError as error:  # of a help text; errors of a command are handled in `guard`
        drop_output()
        return _show_error(Context(), error)
    except ReaderGoneError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    # `--help` and an interrupt return a status
    return status if isinstance(status, int) else 0


def _wrong_usage(error: Any, arguments: list[str]) -> int:
    """Print a parser error like any other error (or the help, for a group without a command), and
    return the exit status.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    return _show_error(Context(output=requested_output(arguments)), from_parser(error, arguments))


class _TerminatedError(BaseException):
    """SIGTERM was received."""


def guard(context: Context, call: Callable[[], int | None]) -> int:
    """Call a command, and return its exit status; turn errors, SIGINT and SIGTERM into a message
    and an exit status. Refuse an output format that the command does not have.
    """
    if context.output not in context.formats:
        known = f"{', '.join(context.formats[:-1])} or {context.formats[-1]}"
        return _show_error(context, UsageError(f"--output takes {known}, not {context.output!r}"))

    def terminated(_signum: int, _frame: object) -> None:
        raise _TerminatedError

    previous = signal.signal(signal.SIGTERM, terminated)
    try:
        status = call() or 0
        sys.stdout.flush()
    except OutputError as error:
        drop_output()
        return _show_error(context, error)
    except SubmitTFJobError as error:
        return _show_error(context, error)
    except (KeyboardInterrupt, _TerminatedError) as event:
        if context.interrupted:
            print(f"\n{context.interrupted}", file=sys.stderr)
        return EXIT_TERMINATED if isinstance(event, _TerminatedError) else EXIT_INTERRUPTED
    except ReaderGoneError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - reported as a defect of this program
        return _show_error(context, _error_of_defect(context, error))
    else:
        return status
    finally:
        signal.signal(signal.SIGTERM, previous)


def _error_of_defect(context: Context, error: Exception) -> InternalError:
    if context.verbose:
        import traceback

        traceback.print_exc()
    return InternalError(
        f"a defect of submit_tf_job: {type(error).__name__}: {error}",
        hint="please report it with the output of the same command with -v; your job is "
        "probably not affected",
    )


def _show_error(context: Context, error: SubmitTFJobError) -> int:
    if context.json:
        from submit_tf_job.json_values import document

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
    """Return a line with control characters escaped, and with colours if the stream gets them
    (`coloured`).
    """
    return paint(clean(line)) if coloured(stream) else clean(line)


def takes_ascii_alone(stream: IO[str]) -> bool:
    """Return whether bars and curves must be drawn with ASCII characters: the stream gets no
    colours (`coloured`), or its encoding is not UTF-8.
    """
    return (
        not coloured(stream)
        or str(getattr(stream, "encoding", "")).lower().replace("-", "") != "utf8"
    )


def coloured(stream: IO[str]) -> bool:
    """Return whether a stream gets colours: a terminal, unless NO_COLOR is set
    (https://no-color.org) or TERM is `dumb`.
    """
    if not stream.isatty():
        return False
    environment = process_environment()
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
