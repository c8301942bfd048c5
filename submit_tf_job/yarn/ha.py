"""Which ResourceManager to ask, and how a standby gives itself away.

A standby answers 307 with the active one's address, 307 with only `Refresh` while there is none, 307 to itself while it becomes active,
and 200 with text where a client followed `Refresh` for long (facts: verified-security-ha 9). Nothing is ever sent to an address that is
not configured: what `Location` says only picks among the configured ones.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from submit_tf_job.errors import SettingsError
from submit_tf_job.yarn.answers import Reply

__all__ = ["ResourceManagers", "Standby", "addresses_of"]

Resolve = Callable[[str], frozenset[str]]


@dataclass(frozen=True)
class Standby:
    """A ResourceManager that is not the active one.

    Attributes:
        active: The configured ResourceManager that it calls active, `None` where there is none or itself.
        unconfigured: The active one's address where that is not configured.
        why: What it said, for messages.
    """

    why: str
    active: str | None = None
    unconfigured: str | None = None


def addresses_of(host: str) -> frozenset[str]:
    """Return the addresses of a host, empty where it does not resolve."""
    try:
        return frozenset(str(info[4][0]) for info in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP))
    except OSError:
        return frozenset()


class ResourceManagers:
    """The configured ResourceManagers, the one that answered last in front.

    Args:
        urls: Addresses as `http://host:port`, behind a gateway with its path.
        resolve: Host name to addresses; recognises one host under two names.

    Raises:
        SettingsError: when there is none, or one is not an address.
    """

    def __init__(self, urls: Iterable[str], *, resolve: Resolve = addresses_of) -> None:
        self._urls = tuple(dict.fromkeys(_checked(url) for url in urls))
        self._resolve = resolve
        if not self._urls:
            raise SettingsError("No ResourceManager is configured.", hint="Give --rm http://host:8088, or set resource_managers.")

    @property
    def urls(self) -> Sequence[str]:
        """The addresses in the order in which to try them."""
        return self._urls

    def worked(self, url: str) -> None:
        """Put the one that answered in front; at once, because other threads ask meanwhile."""
        self._urls = (url, *(other for other in self._urls if other != url))

    def standby(self, reply: Reply, asked: str) -> Standby | None:
        """Return what a standby's answer says, `None` where the answer is not a standby's.

        Args:
            reply: The answer.
            asked: The configured address that was asked.
        """
        if reply.status == 307 and ("location" in reply.headers or "refresh" in reply.headers):
            return self._redirected(reply.headers.get("location"), asked)
        text = reply.text if reply.content_type == "text/plain" else ""
        if reply.status == 200 and text.startswith("There is no active RM"):
            return Standby("no ResourceManager is active")
        if text.startswith("This is standby RM") or (reply.status == 405 and "I am not Active" in text):
            return Standby("standby")
        return None

    def _redirected(self, location: str | None, asked: str) -> Standby | None:
        if location is None:
            return Standby("standby, and no ResourceManager is active")
        target = urlsplit(location)
        if target.hostname is None or not _has_port(target):
            return Standby("standby")
        known = self._find(target)
        if known == asked:
            return Standby("standby that is becoming active")
        if known is not None:
            return Standby(f"standby of {known}", active=known)
        address = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
        return Standby(f"standby of {address}", unconfigured=address)

    def _find(self, target: SplitResult) -> str | None:
        """Return the configured address that means the same host, port and scheme."""
        same = [url for url in self._urls if _door(urlsplit(url)) == _door(target)]
        exact = [url for url in same if urlsplit(url).hostname == target.hostname]
        if exact:
            return exact[0]
        wanted = self._resolve(target.hostname or "") if same else frozenset()
        return next((url for url in same if wanted & self._resolve(urlsplit(url).hostname or "")), None)


def _door(parts: SplitResult) -> tuple[str, int]:
    return parts.scheme, parts.port or (443 if parts.scheme == "https" else 80)


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is a port, or left to the scheme."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _checked(url: str) -> str:
    parts = urlsplit(url.rstrip("/"))
    valid = parts.scheme in ("http", "https") and bool(parts.hostname) and _has_port(parts)
    if not valid or parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError(f"{url!r} is no address of a ResourceManager.", hint="Write it as http://rm.example.com:8088.")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
