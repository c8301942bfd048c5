"""Who we are to the cluster; chosen once, used by every request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from submit_tf_job.errors import AuthError, UsageError
from submit_tf_job.yarn.answers import Reply

if TYPE_CHECKING:
    import requests

__all__ = ["Auth", "SimpleAuth"]


class Auth(Protocol):
    """What the request funnel needs to know of an authentication method."""

    @property
    def user(self) -> str | None:
        """The user that jobs run as, `None` where only the cluster knows."""

    def prepare(self, session: requests.Session) -> None:
        """Make a new session ready for requests."""

    def params(self) -> Mapping[str, str]:
        """Return the query parameters that every request carries."""

    def explain(self, error: Exception) -> AuthError | None:
        """Return what a failure inside the session means, `None` where it is not about authentication."""

    def explain_401(self, reply: Reply) -> AuthError:
        """Return what an answer of 401 means."""


class SimpleAuth:
    """The cluster believes the name we give.

    `user.name` is sent with every request, whatever its method: without it the job runs as `dr.who`. Cookies are not kept, because the
    one that the filter sends would outweigh the name in later requests (facts: yarn-services 1.4).

    Args:
        user: Name to submit as.

    Raises:
        UsageError: when the name is empty or holds a blank or a control character.
    """

    def __init__(self, user: str) -> None:
        if not user or re.search(r"[\s\x00-\x1f\x7f]", user):
            raise UsageError(
                f"The user name {user!r} is not one word.", hint="Give the user that the job runs as, for example --user alice."
            )
        self._user = user

    @property
    def user(self) -> str:
        """The name we give."""
        return self._user

    def prepare(self, session: requests.Session) -> None:
        """Make the session forget every cookie."""
        from http.cookiejar import DefaultCookiePolicy

        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def params(self) -> Mapping[str, str]:
        """Return `user.name`."""
        return {"user.name": self._user}

    def explain(self, error: Exception) -> AuthError | None:  # noqa: ARG002 (nothing of simple authentication can fail in the session)
        """Return `None`: nothing of simple authentication happens inside the session."""
        return None

    def explain_401(self, reply: Reply) -> AuthError:
        """Return the error that names the method the cluster wants."""
        if "negotiate" in reply.headers.get("www-authenticate", "").lower():
            return AuthError(
                f"{reply.url} wants Kerberos, and user.name={self._user} was sent.",
                hint="Choose Kerberos authentication and get a ticket with kinit.",
                details=reply.details(),
            )
        return AuthError(f"{reply.url} does not accept user.name={self._user}.", details=reply.details())
