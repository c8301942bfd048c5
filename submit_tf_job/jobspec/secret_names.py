"""Recognise files whose names show that they contain secrets."""

from __future__ import annotations

import re

_SECRETS = re.compile(
    r"\.env(\..*)?|\.netrc|\.pypirc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)|credentials(\..*)?"
    r"|.*\.(keytab|pem|key|p12|pfx|jks)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether a file's name is typical of a secret, such as .env or a keytab."""
    return _SECRETS.fullmatch(name) is not None
