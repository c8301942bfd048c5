"""Webhooks: allowed addresses, signatures and retry pauses.

The format is that of https://www.standardwebhooks.com: receivers in most languages have a library
that verifies it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.host.secretfile import read_secret

__all__ = ["ATTEMPTS", "Allowed", "Keyring", "content", "pause_s"]

ATTEMPTS = 150  # with the pauses below: one day
_PAUSE_S, _LONGEST_S = 5.0, 600.0
_PREFIX = "whsec_"
_KEY_MIN = 24  # in bytes, required by Standard Webhooks
_PORTS = {"http": 80, "https": 443}


def pause_s(attempts: int) -> float:
    """Return the pause in seconds after a number of attempts."""
    return min(_LONGEST_S, _PAUSE_S * 2.0 ** min(attempts - 1, 20))


def content(job: Mapping[str, Any], at: str) -> str:
    """Return the body of a webhook for a job that is over."""
    return json.dumps({"type": "job.ended", "timestamp": at, "data": job}, default=str)


class Allowed:
    """The addresses to which webhooks may be sent.

    A gateway inside a network reaches addresses that its callers cannot.

    Args:
        prefixes: URLs, each of which allows itself and the paths below it, with the same scheme,
            host and port.

    Raises:
        UsageError: A prefix is not a valid URL.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = [_parts(prefix, "--webhook-to") for prefix in prefixes]

    def check(self, url: str) -> str:
        """Return a URL if webhooks may be sent to it.

        Raises:
            UsageError: The URL is invalid, or not allowed.
        """
        scheme, host, port, path = _parts(url, "Webhook-Url")
        for prefix in self._prefixes:
            below = prefix[3].rstrip("/") + "/"
            if prefix[:3] == (scheme, host, port) and (path == prefix[3] or path.startswith(below)):
                return url
        raise UsageError(
            "Webhook-Url: this gateway sends no webhooks there",
            hint="its operator sets the allowed addresses with --webhook-to",
        )


def _parts(url: str, what: str) -> tuple[str, str, int, str]:
    """Split a URL; URLs that two programs might parse differently are refused."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise UsageError(f"{what}: not a URL") from None
    odd = (
        not re.fullmatch(r"[!-~]{1,2000}", url)
        or re.search(r'[\\<>"^`{|}]', url)
        or parts.fragment
        or parts.username is not None
    )
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or odd or not re.fullmatch(r"[a-z0-9.-]+|[0-9a-f:.]+", host):
        raise UsageError(
            f"{what}: needs a plain http or https URL, without user, password and fragment"
        )
    path = parts.path or "/"
    if (
        re.search(r"%(2e|2f|5c|00)", path, re.IGNORECASE)
        or {".", ".."} & set(path.split("/"))
        or "//" in path
    ):
        raise UsageError(f"{what}: a path with `.`, `..`, `//` or an encoded `/` is not accepted")
    return parts.scheme, host, port, path


class Keyring:
    """The keys that sign webhooks: one per caller, derived from the gateway's key.

    So a receiver of one caller's webhooks cannot forge another's, and only one secret is stored.

    Args:
        path: A file that only its owner can read, with `whsec_` and at least 24 random bytes as
            base64.

    Raises:
        SettingsError: The file is not valid.
    """

    def __init__(self, path: Path) -> None:
        text = read_secret(path, "the key of webhooks")
        try:
            self._key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            self._key = b""
        if len(self._key) < _KEY_MIN or not text.startswith(_PREFIX):
            raise SettingsError(
                f"{path}: not a key of webhooks",
                hint='make one: echo "whsec_$(openssl rand -base64 32)"',
            )

    def key_of(self, caller: str) -> str:
        """Return the key of a caller in Standard Webhooks' format."""
        return _PREFIX + base64.b64encode(self._raw(caller)).decode()

    def _raw(self, caller: str) -> bytes:
        return hmac.new(
            self._key, f"submit_tf_job webhooks of {caller}".encode(), hashlib.sha256
        ).digest()

    def headers(self, caller: str, webhook_id: str, at_s: int, body: bytes) -> dict[str, str]:
        """Return the header fields that authenticate a webhook and its time."""
        signed = f"{webhook_id}.{at_s}.".encode() + body
        signature = base64.b64encode(
            hmac.new(self._raw(caller), signed, hashlib.sha256).digest()
        ).decode()
        return {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": f"v1,{signature}",
        }
