"""Find literals that look like secrets: a service is kept in clear text on HDFS, in two logs, and in every GET (facts: client D2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from submit_tf_job.job import Job, Role

__all__ = ["find"]

WAY_OUT = "put it into a file that only you can read (on HDFS, or mounted) and pass the file's path"
_WORDS = frozenset({"password", "passwd", "secret", "token", "apikey", "credential", "credentials", "passphrase"})
_PAIRS = frozenset({("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("account", "key"), ("auth", "key")})
_BY_REFERENCE = frozenset({"file", "path", "dir", "location", "url", "uri", "name", "id", "size", "length", "type", "provider"})
_HARMLESS = re.compile(r"|\d+(\.\d+)?|true|false|yes|no|none|null|/.*|[a-z0-9]+://[^@]*|\$.*|file:.*", re.IGNORECASE | re.DOTALL)
_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|\bglpat-[A-Za-z0-9_-]{20,}|://[^/\s:@]+:[^/\s:@]+@"
)
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)[= ]+(\S+)")


def find(job: Job, role: Role) -> Iterator[tuple[str, str]]:
    """Yield (path, message) for each literal of a role that looks like a secret; the message never holds the literal."""
    for name, value in role.env.items():
        own = f"roles.{role.name}.env.{name}"
        path = f"env.{name}" if own not in job.places and f"env.{name}" in job.places else own
        if _KNOWN.search(value) or (_names_a_secret(name) and not _HARMLESS.fullmatch(value.strip())):
            yield path, f"the value of {name} looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"
    own = f"roles.{role.name}.command"
    path = own if own in job.places or "command" not in job.places else "command"
    text = " ".join(role.command.argv) if role.command.argv is not None else role.command.script or ""
    option = next((m[1] for m in _OPTION.finditer(text) if _names_a_secret(m[1]) and not _HARMLESS.fullmatch(m[2])), None)
    if option:
        yield path, f"the value of --{option} looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"
    elif _KNOWN.search(text):
        yield path, f"the command holds what looks like a secret, and everybody who can see the job could read it; {WAY_OUT}"


def _names_a_secret(name: str) -> bool:
    words = [word.lower() for word in re.split(r"[_\-.]+", name) if word]
    if not words or words[-1] in _BY_REFERENCE:
        return False
    return bool(_WORDS & set(words)) or any(pair in _PAIRS for pair in pairwise(words))
