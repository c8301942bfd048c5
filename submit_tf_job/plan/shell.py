"""Text that must arrive in a container unchanged, past the AM's tokens, the NodeManager's expansion and two shells.

What stands in the way in YARN's normal mode, in this order:
1. The AM replaces `${TOKEN}` and `${ENV_KEY}` anywhere in env values and launch commands (ProviderUtils, ServiceUtils.buildEnvMap).
2. The NodeManager turns `{{` into `$`, drops `}}`, and replaces `<LOG_DIR>` and `<CPS>` (ContainerLaunch.expandEnvironment).
3. The launch script says `export KEY="VALUE"` and `exec /bin/bash -c "COMMAND"`, VALUE and COMMAND pasted in unescaped.

Inside double quotes bash joins `"a""b"` to `ab`, so an empty pair of quotes splits every pattern of 1 and 2 and leaves the value exact.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from submit_tf_job.job import Command

__all__ = ["env_value", "inner_command", "launch_command"]

_SPLIT = '""'
# An empty pair of quotes goes between these two characters: after "$" of "${", inside "{{", "}}" and "<LOG_DIR>".
_PATTERNS = (
    (re.compile(r"\$(?=\{)"), "$" + _SPLIT),
    (re.compile(r"\{(?=\{)"), "{" + _SPLIT),
    (re.compile(r"\}(?=\})"), "}" + _SPLIT),
    (re.compile(r"<(?=LOG_DIR>|CPS>)"), "<" + _SPLIT),
)


def _double_quoted(text: str) -> str:
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    # "\$" followed by "{" still holds the AM's "${": the split goes behind the escaped dollar.
    for pattern, replacement in _PATTERNS:
        escaped = pattern.sub(replacement, escaped)
    return escaped


def env_value(text: str, tokens: Iterable[str] = ()) -> str:
    """Encode an environment value for `configuration.env` in normal mode.

    Args:
        text: The value as the program is to see it.
        tokens: AM tokens (`${COMPONENT_ID}`) in the text that the AM is meant to replace.
    """
    wanted = [re.escape(token) for token in tokens]
    if not wanted:
        return _double_quoted(text)
    parts = re.split(f"({'|'.join(wanted)})", text)
    return "".join(part if index % 2 else _double_quoted(part) for index, part in enumerate(parts))


def inner_command(command: Command) -> str:
    """Write a command as one line for bash that replaces the shell: `exec`, so that the program sees SIGTERM (seen)."""
    if command.argv is not None:
        dashes = "-- " if command.argv[:1] and command.argv[0].startswith("-") else ""  # or bash takes the program's name for an option
        return f"exec {dashes}{shlex.join(command.argv)}"
    return f"exec bash -c {shlex.quote(command.script or '')}"


def launch_command(command: Command) -> str:
    """Encode a command as `launch_command` in normal mode."""
    return _double_quoted(inner_command(command))
