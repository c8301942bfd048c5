"""Find literals that look like secrets: a service is kept in clear text on HDFS, in two logs, and in every GET (facts: client D2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from submit_tf_job.job import Role

__all__ = ["find", "in_environment"]

WAY_OUT = "put it into a file that only you can read (on HDFS, or mounted) and pass the file's path"
_WORDS = frozenset({"secret", "apikey", "credential", "credentials", "passphrase"})
_PASSWORD = re.compile(r"passw(or)?d$|[_-]pwd$", re.IGNORECASE)  # also PGPASSWORD, dbPassword and MYSQL_PWD
_PAIRS = frozenset({("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("account", "key"), ("auth", "key")})
# A tokenizer's own, in a place where most programs are about text: EOS_TOKEN=</s> is no secret.
_TEXT_TOKENS = frozenset({"bos", "cls", "end", "eos", "image", "mask", "pad", "sep", "special", "start", "stop", "unk"})
_BY_REFERENCE = frozenset({"file", "path", "dir", "location", "url", "uri", "name", "id", "size", "length", "type", "provider"})
_HARMLESS = re.compile(r"|\d+(\.\d+)?|true|false|yes|no|none|null|/.*|[a-z0-9]+://[^@]*|[$`].*|file:.*|-.*", re.IGNORECASE | re.DOTALL)
_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|\bglpat-[A-Za-z0-9_-]{20,}|://[^/\s:@$]+:[^/\s:@$]+@"
)
# An option and its value, or a variable that is set in front of a command.
_OPTION = re.compile(r"(?:^|(?<=[\s;&|(]))(--?[A-Za-z][\w-]*(?:=|\s+)|[A-Za-z_]\w*=)(?=(\S+))")


def find(role: Role) -> Iterator[tuple[str, str]]:
    """Yield (path, message) for each literal of a role that looks like a secret; the message never holds the literal."""
    for name in in_environment(role.env):
        path = f"roles.{role.name}.env.{name}"
        yield path, f"the value of {name} looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"
    path = f"roles.{role.name}.command"
    text = " ".join(role.command.argv) if role.command.argv is not None else role.command.script or ""
    given = ((found[1].rstrip("= \t\n"), found[2].strip("\"'")) for found in _OPTION.finditer(text))
    option = next((name for name, value in given if _is_secret(name, value)), None)
    if option:
        yield path, f"the value of {option} looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"
    elif _KNOWN.search(text):
        yield path, f"the command holds what looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"


def in_environment(env: Mapping[str, str]) -> Iterator[str]:
    """Name the variables whose values look like secrets."""
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
    named = _WORDS & set(words) or _PASSWORD.search(name) or any(_PASSWORD.search(word) for word in words)
    return bool(named) or any(pair in _PAIRS for pair in pairwise(words))
