"""Find literals in a job that are probably secrets.

A service is stored in clear text on HDFS, in two logs, and in the response to every GET
(hadoop-facts.md#where-a-service-is-stored).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from submit_tf_job.errors import Problem
from submit_tf_job.jobspec.job import Job, Role

WAY_OUT = "put it into a file that only you can read (on HDFS, or mounted) and pass the file's path"
_WORDS = frozenset({"secret", "apikey", "credential", "credentials", "passphrase"})
# Also PGPASSWORD, dbPassword and MYSQL_PWD.
_PASSWORD = re.compile(r"passw(or)?d$|[_-]pwd$", re.IGNORECASE)
_KEYS = frozenset(["api", "access", "private", "secret", "account", "auth"])  # before "key"
# Tokens of tokenizers: EOS_TOKEN=</s> is not a secret.
_TEXT_TOKENS = frozenset(
    {"bos", "cls", "end", "eos", "image", "mask", "pad", "sep", "special", "start", "stop"}
    | {"unk"}
)
_BY_REFERENCE = frozenset(
    {"file", "path", "dir", "location", "url", "uri", "name", "id", "size", "length", "type"}
    | {"provider"}
)
_HARMLESS = re.compile(
    r"|\d+(\.\d+)?|true|false|yes|no|none|null|/.*|[a-z0-9]+://[^@]*|[$`].*|file:.*|-.*",
    re.IGNORECASE | re.DOTALL,
)
_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}"  # noqa: E501
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|\bglpat-[A-Za-z0-9_-]{20,}|://[^/\s:@$]+:[^/\s:@$]+@"
)
# An option and its value, or a variable that is set in front of a command.
_OPTION = re.compile(r"(?:^|(?<=[\s;&|(]))(--?[A-Za-z][\w-]*(?:=|\s+)|[A-Za-z_]\w*=)(?=(\S+))")


def problems(job: Job) -> list[Problem]:
    """Return a problem for each literal that is probably a secret; messages omit the literal."""
    return [
        job.problem(path, message) for role in job.roles.values() for path, message in _find(role)
    ]


def _find(role: Role) -> Iterator[tuple[str, str]]:
    for name in in_environment(role.env):
        path = f"roles.{role.name}.env.{name}"
        yield (
            path,
            f"the value of {name} looks like a secret, and anyone who can see the job "
            f"could read it; {WAY_OUT}",
        )
    path = f"roles.{role.name}.command"
    text = (
        " ".join(role.command.argv) if role.command.argv is not None else role.command.script or ""
    )
    given = ((found[1].rstrip("= \t\n"), found[2].strip("\"'")) for found in _OPTION.finditer(text))
    option = next((name for name, value in given if _is_secret(name, value)), None)
    if option:
        yield (
            path,
            f"the value of {option} looks like a secret, and anyone who can see the job "
            f"could read it; {WAY_OUT}",
        )
    elif _KNOWN.search(text):
        yield (
            path,
            f"the command holds what looks like a secret, and anyone who can see the "
            f"job could read it; {WAY_OUT}",
        )


def in_environment(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables whose values are probably secrets."""
    for name, value in env.items():
        if _KNOWN.search(value) or _is_secret(name, value.strip()):
            yield name


def _is_secret(name: str, value: str) -> bool:
    if _PASSWORD.search(name) and value.isdigit():
        return True
    return _names_a_secret(name) and not _HARMLESS.fullmatch(value)


def _names_a_secret(name: str) -> bool:
    words = [word.lower() for word in re.split(r"[_\-.]+", name) if word]
    if not words or words[-1] in _BY_REFERENCE:
        return False
    if words[-1] == "token":
        return not _TEXT_TOKENS & set(words)
    named = (
        _WORDS & set(words)
        or _PASSWORD.search(name)
        or any(_PASSWORD.search(word) for word in words)
    )
    return bool(named) or any(one in _KEYS and two == "key" for one, two in pairwise(words))
