"""Text that must arrive in a container unchanged in entry-point mode, where no launch script stands between YARN and the image.

What stands in the way there, in this order:
1. The AM splits the launch command at blanks, a whole argument in double quotes staying together, and joins it by commas
   (DockerProviderService, ProviderUtils.replaceSpacesWithDelimiter; only where there is a blank at all; what Java takes for a line break,
   U+0085, U+2028 and U+2029 too, ends an argument in quotes). It replaces `${TOKEN}` in values of the environment, never in the command.
2. The NodeManager turns `{{` into `$`, drops `}}`, and replaces `<LOG_DIR>` and `<CPS>`, in both (ContainerLaunch.expandEnvironment).
3. container-executor splits the command at commas; Docker reads the environment from a file, one variable a line.

Nothing can be escaped there, so what would not arrive is refused.
"""

from __future__ import annotations

import re

from submit_tf_job.job import Command

__all__ = ["argument_problem", "arguments", "json_value", "launch_command", "value_problem"]

_CUTS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_EXPANDED = re.compile(r"\{\{|\}\}|<LOG_DIR>|<CPS>")


def arguments(command: Command) -> tuple[str, ...]:
    """Return a command as the arguments that the image's ENTRYPOINT gets."""
    return command.argv if command.argv is not None else ("bash", "-c", command.script or "")


def argument_problem(argument: str) -> str | None:
    """Say why an argument would not arrive, None where it does."""
    if not argument:
        return "is empty, and YARN drops empty arguments"
    if _CUTS.search(argument):
        return "holds a line break, a tab or another control character, at which YARN cuts it"
    if "," in argument:
        return "holds a comma, at which YARN cuts it in two"
    if '"' in argument:
        return "holds a double quote, which YARN takes for its own"
    if argument != argument.strip(" "):
        return "begins or ends with a blank, which YARN drops"
    return _expanded(argument)


def value_problem(value: str) -> str | None:
    """Say why a value of the environment would not arrive, None where it does."""
    if re.search(r"[\r\n]", value):
        return "holds a line break, at which YARN cuts it"
    if "${" in value:
        return "holds '${', which YARN may take for one of its own tokens"
    return _expanded(value)


def _expanded(text: str) -> str | None:
    found = _EXPANDED.search(text)
    return f"holds {found[0]!r}, which a NodeManager replaces" if found else None


def launch_command(command: Command) -> str:
    """Encode a command whose arguments all arrive as `launch_command` in entry-point mode."""
    return " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments(command))


def json_value(text: str) -> str:
    """Encode JSON as a value of the environment: blanks between braces, which no reader of JSON minds."""
    return re.sub(r"\}(?=\})", "} ", re.sub(r"\{(?=\{)", "{ ", text))
