"""Encode commands and environment values so that they arrive in a container unchanged.

In YARN's normal mode three steps change text, in this order:
1. The AM replaces `${TOKEN}` and `${ENV_KEY}` anywhere in env values and launch commands
   (ProviderUtils, ServiceUtils.buildEnvMap).
2. The NodeManager turns `{{` into `$`, drops `}}`, and replaces `<LOG_DIR>` and `<CPS>`
   (ContainerLaunch.expandEnvironment).
3. The launch script contains `export KEY="VALUE"` and `exec /bin/bash -c "COMMAND"`; it inserts
   VALUE and COMMAND without escaping them.

Inside double quotes bash joins `"a""b"` to `ab`, so an empty pair of quotes splits every pattern of
1 and 2 and the value stays exact.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Command, Job, Role

__all__ = [
    "COMPONENT_ID",
    "argument_problem",
    "arguments",
    "commands",
    "entry_point_command",
    "entry_point_problems",
    "env_value",
    "environments",
    "inner_command",
    "json_value",
    "launch_command",
    "value_problem",
]

COMPONENT_ID = "${COMPONENT_ID}"  # the AM replaces it by the task's index
_SPLIT = '""'
# The empty pair of quotes is inserted after "$" of "${", inside "{{", "}}" and "<LOG_DIR>".
_PATTERNS = (
    (re.compile(r"\$(?=\{)"), "$" + _SPLIT),
    (re.compile(r"\{(?=\{)"), "{" + _SPLIT),
    (re.compile(r"\}(?=\})"), "}" + _SPLIT),
    (re.compile(r"<(?=LOG_DIR>|CPS>)"), "<" + _SPLIT),
)


def commands(job: Job) -> dict[str, str]:
    """Return the launch command of each role of a job without the bootstrap."""
    return {
        role.name: entry_point_command(role.command)
        if role.docker.entrypoint
        else launch_command(role.command)
        for role in job.roles.values()
    }


def environments(job: Job, tf_configs: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the environment that each role's tasks get from YARN.

    Args:
        job: The job.
        tf_configs: Role → its literal TF_CONFIG.
    """
    found = {}
    for role in job.roles.values():
        raw = role.docker.entrypoint
        env = {contract.ENV_INSTANCE: "${COMPONENT_INSTANCE_NAME}"}
        if not job.bootstrap:
            env = {name: value if raw else env_value(value) for name, value in role.env.items()}
            if role.gpus == 0:
                # A node whose Docker defaults to the nvidia runtime would show it every GPU.
                env.setdefault("CUDA_VISIBLE_DEVICES", "")
        literal = tf_configs.get(role.name)
        if literal:
            encoded = json_value(literal) if raw else env_value(literal, tokens=[COMPONENT_ID])
            env[contract.ENV_TF_CONFIG] = encoded
        found[role.name] = env
    return found


def _double_quoted(text: str) -> str:
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    # "\$" followed by "{" still contains the AM's "${": the quotes go after the escaped dollar.
    for pattern, replacement in _PATTERNS:
        escaped = pattern.sub(replacement, escaped)
    return escaped


def env_value(text: str, tokens: Iterable[str] = ()) -> str:
    """Encode an environment value for `configuration.env` in normal mode.

    Args:
        text: The value that the program gets.
        tokens: Tokens such as `${COMPONENT_ID}` in the text that the AM replaces.
    """
    wanted = [re.escape(token) for token in tokens]
    if not wanted:
        return _double_quoted(text)
    parts = re.split(f"({'|'.join(wanted)})", text)
    return "".join(part if index % 2 else _double_quoted(part) for index, part in enumerate(parts))


def inner_command(command: Command) -> str:
    """Return a command as one line for bash; with `exec`, so that the program gets SIGTERM
    (hadoop-facts.md#sigterm).
    """
    if command.argv is not None:
        # Without the dashes bash parses a program's name that starts with one as an option.
        dashes = "-- " if command.argv[:1] and command.argv[0].startswith("-") else ""
        return f"exec {dashes}{shlex.join(command.argv)}"
    return f"exec bash -o pipefail -c {shlex.quote(command.script or '')}"


def launch_command(command: Command) -> str:
    """Encode a command as `launch_command` in normal mode."""
    return _double_quoted(inner_command(command))


_CUTS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_EXPANDED = re.compile(r"\{\{|\}\}|<LOG_DIR>|<CPS>")


def arguments(command: Command) -> tuple[str, ...]:
    """Return a command as the arguments that the image's ENTRYPOINT gets."""
    if command.argv is not None:
        return command.argv
    return ("bash", "-o", "pipefail", "-c", command.script or "")


def entry_point_problems(job: Job) -> list[Problem]:
    """Return the arguments and variables that would not reach an image's own ENTRYPOINT."""
    roles = [role for role in job.roles.values() if role.docker.entrypoint]
    if not job.bootstrap:
        return [problem for role in roles for problem in _entry_point_problems(job, role)]
    return [
        job.problem(
            f"roles.{role.name}.docker.entrypoint",
            "the image's own ENTRYPOINT cannot start the bootstrap; set bootstrap: "
            "false, and tf_config: literal or none",
        )
        for role in roles
    ]


def _entry_point_problems(job: Job, role: Role) -> Iterator[Problem]:
    path = f"roles.{role.name}"
    hint = "put it into a file of the image"
    if role.command.script:
        hint = "put the script into the image"
    for argument in arguments(role.command):
        why = argument_problem(argument)
        if why:
            shown = argument if len(argument) <= 40 else argument[:39] + "…"
            yield job.problem(
                f"{path}.command",
                f"with docker.entrypoint {shown!r} does not arrive: it {why}; {hint}",
            )
    for name, value in role.env.items():
        why = value_problem(value)
        if why:
            yield job.problem(
                f"{path}.env.{name}",
                f"with docker.entrypoint the value does not arrive: it {why}; put it into a file",
            )


def argument_problem(argument: str) -> str | None:
    """Return why an argument would not reach the ENTRYPOINT unchanged; None if it would."""
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
    """Return why a variable's value would not reach the ENTRYPOINT unchanged; None if it would."""
    if re.search(r"[\r\n]", value):
        return "holds a line break, at which YARN cuts it"
    if "${" in value:
        return "holds '${', which YARN may take for one of its own tokens"
    return _expanded(value)


def _expanded(text: str) -> str | None:
    found = _EXPANDED.search(text)
    return f"holds {found[0]!r}, which a NodeManager replaces" if found else None


def entry_point_command(command: Command) -> str:
    """Encode a command as `launch_command` in entry-point mode; no argument may have an
    `argument_problem`.
    """
    return " ".join(
        f'"{argument}"' if " " in argument else argument for argument in arguments(command)
    )


def json_value(text: str) -> str:
    """Encode JSON as a value of the environment: with spaces between braces, which JSON allows."""
    return re.sub(r"\}(?=\})", "} ", re.sub(r"\{(?=\{)", "{ ", text))
