"""Select the active ResourceManager, and detect the responses of a standby.

A standby responds with 307 and the address of the active ResourceManager; with 307 and only
`Refresh` while no ResourceManager is active; with 307 to itself while it becomes active; and with
200 and text if a client has followed `Refresh` many times
(hadoop-facts.md#standby-resourcemanager). Requests are sent to configured addresses only:
`Location` merely selects one of them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from urllib.parse import SplitResult, urlsplit

from submit_tf_job.container import untrusted
from submit_tf_job.yarn.response import Reply, TransportError

Resolve = Callable[[str], frozenset[str]]


def addresses_of(host: str) -> frozenset[str]:
    """Return the IP addresses of a host; empty if its name does not resolve."""
    try:
        return frozenset(
            str(info[4][0]) for info in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
        )
    except OSError:
        return frozenset()


class ResourceManagers:
    """The configured ResourceManagers; the one that responded last comes first.

    Args:
        urls: Addresses as the settings have them: `http://host:port`, with the path behind a
            gateway, lower-case host and no slash at the end.
        resolve: Maps a host name to its addresses, so that two names of one host are recognised.

    Attributes:
        urls: The addresses in the order in which to try them.
    """

    def __init__(self, urls: Iterable[str], *, resolve: Resolve = addresses_of) -> None:
        self.urls = tuple(dict.fromkeys(urls))
        self._resolve = resolve

    def worked(self, url: str) -> None:
        """Move the address that responded to the front; other threads try it first from now on."""
        if self.urls[0] != url:
            self.urls = (url, *(other for other in self.urls if other != url))

    def standby(self, reply: Reply, asked: str) -> TransportError | None:
        """Return the error for the response of a standby; None for a response that is not a
        standby's.

        A standby executes no request.

        Args:
            reply: The response.
            asked: The configured address to which the request was sent.
        """
        if reply.status == 307 and ("location" in reply.headers or "refresh" in reply.headers):
            return self._redirect_of_standby(reply.headers.get("location"), asked)
        # it has no tokens: hadoop-facts.md#tokens-and-a-standby
        unknown = reply.status == 403 and "can't be found in cache" in reply.text
        if unknown and len(self.urls) > 1:
            return TransportError("a standby, or it does not know the token")
        if reply.content_type != "text/plain":
            return None
        text = reply.text
        if reply.status == 200 and text.startswith("There is no active RM"):
            return TransportError("no ResourceManager is active")
        if text.startswith("This is standby RM") or (
            reply.status == 405 and "I am not Active" in text
        ):
            return TransportError("standby")
        return None

    def _redirect_of_standby(self, location: str | None, asked: str) -> TransportError | None:
        if location is None:
            return TransportError("standby, and no ResourceManager is active")
        target = untrusted.url_parts(location)
        if target.hostname is None or not _has_port(target):
            return TransportError("standby")
        known = self._configured_address(target)
        if known == asked:
            return TransportError("standby that is becoming active")
        if known is not None:
            return TransportError(f"standby of {known}", active=known)
        address = f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
        return TransportError(f"standby of {address}", hopeless=True, unconfigured=address)

    def _configured_address(self, target: SplitResult) -> str | None:
        """Return the configured address that has the same scheme and port and means the same host,
        even if the host's name is different; None if there is none.
        """
        same = [
            url for url in self.urls if _scheme_and_port(urlsplit(url)) == _scheme_and_port(target)
        ]
        exact = [url for url in same if urlsplit(url).hostname == target.hostname]
        if exact:
            return exact[0]
        if not same:
            return None
        wanted = self._resolve(target.hostname or "")
        return next(
            (url for url in same if wanted & self._resolve(urlsplit(url).hostname or "")), None
        )


def _scheme_and_port(parts: SplitResult) -> tuple[str, int]:
    return parts.scheme, parts.port or (443 if parts.scheme == "https" else 80)


def _has_port(parts: SplitResult) -> bool:
    """Return whether the port is valid, or omitted."""
    try:
        return parts.port != 0
    except ValueError:
        return False
