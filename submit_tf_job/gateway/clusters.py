"""Connections to the cluster, one per caller, each with that caller's identity."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from submit_tf_job import operations
from submit_tf_job.errors import AuthError, ClusterUnavailable, SettingsError
from submit_tf_job.operations.cluster import check_identity
from submit_tf_job.settings import Settings

__all__ = ["Clusters"]


class Clusters:
    """Connections by caller; each is opened and its identity checked at the caller's first request.

    Args:
        settings: The gateway's own settings.
        connect: Opens a connection.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[Settings], operations.Cluster] = operations.connect,
    ) -> None:
        if settings.as_proxy:
            raise SettingsError(
                "as_user does not work with a gateway: it acts for its callers",
                hint="leave as_user (--as-user) out",
            )
        self.settings = settings
        self._connect = connect
        self._open: dict[str, operations.Cluster] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def check_callers(self, names: Iterable[str]) -> None:
        """Refuse callers for whom the gateway cannot act.

        Raises:
            SettingsError: The gateway's way of authentication does not support proxy users.
        """
        others = sorted(set(names) - {self.settings.user})
        if others and self.settings.auth not in ("simple", "kerberos"):
            raise SettingsError(
                f"with auth {self.settings.auth} the gateway can act for "
                f"{self.settings.user} only, not for {', '.join(others[:5])}",
                hint="only auth simple and kerberos support proxy users",
            )

    def of(self, caller: str) -> operations.Cluster:
        """Return the connection of a caller, which treats jobs of other users as unknown.

        Raises:
            AuthError: The ResourceManager would take the gateway for another user.
            ClusterUnavailable: The ResourceManager cannot be reached.
        """
        with self._locks[caller]:
            if caller not in self._open:
                cluster = replace(
                    self._connect(self.settings.acting_for(caller)), own_jobs_only=True
                )
                _check(cluster, caller)
                self._open[caller] = cluster
            return self._open[caller]

    def check_own_user(self) -> None:
        """Check that the ResourceManager takes this gateway for its `user`.

        With Kerberos the ticket says who it is. A ResourceManager that does not answer yet is
        passed over: a gateway may be started before its cluster.

        Raises:
            AuthError: The ResourceManager takes it for another user.
        """
        if self.settings.auth == "kerberos":
            with suppress(ClusterUnavailable):
                self.own()

    def own(self) -> operations.Cluster:
        """Return the gateway's own connection, which only checks that the cluster is available."""
        return self.of(self.settings.user)


def _check(cluster: operations.Cluster, caller: str) -> None:
    check_identity(cluster)
    # Hadoop before 3.1.1 does not return it
    if cluster.client.auth.as_user is not None and cluster.client.who_am_i() is None:
        raise AuthError(
            f"the ResourceManager does not return the user that it takes the gateway for, so "
            f"nothing is done for {caller}",
            hint="it needs Hadoop 3.1.1 or later",
        )
