"""One connection to the cluster for each caller, as that caller: never as the gateway's own user, unless that is who is calling."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable

from submit_tf_job import api
from submit_tf_job.api.cluster import check_identity
from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.settings import Settings

__all__ = ["Clusters"]


class Clusters:
    """Connections by caller; each is made, and the ResourceManager asked who it takes us for, at the caller's first request.

    Args:
        settings: The gateway's own.
        connect: Opens a connection.
    """

    def __init__(self, settings: Settings, connect: Callable[[Settings], api.Cluster] = api.connect) -> None:
        if settings.as_proxy:
            raise SettingsError("as_user does not go with a gateway: it acts for whoever calls", hint="leave as_user (--as-user) out")
        self.settings = settings
        self._connect = connect
        self._open: dict[str, api.Cluster] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def check_callers(self, names: Iterable[str]) -> None:
        """Refuse callers for whom nothing can be done.

        Raises:
            SettingsError: The way in which the gateway proves who it is knows no proxy users.
        """
        others = sorted(set(names) - {self.settings.user})
        if others and self.settings["auth"] not in ("simple", "kerberos"):
            raise SettingsError(
                f"with auth {self.settings['auth']} the gateway can act for {self.settings.user} alone, not for {', '.join(others[:5])}",
                hint="only auth simple and kerberos know proxy users",
            )

    def of(self, caller: str) -> api.Cluster:
        """Return the connection of a caller.

        Raises:
            AuthError: The ResourceManager would take us for somebody else.
            ClusterUnavailable: It cannot be asked.
        """
        with self._locks[caller]:
            if caller not in self._open:
                cluster = self._connect(self.settings.acting_for(caller))
                _check(cluster, caller)
                self._open[caller] = cluster
            return self._open[caller]

    def own(self) -> api.Cluster:
        """Return the connection of the gateway itself, which only asks whether the cluster is there."""
        return self.of(self.settings.user)


def _check(cluster: api.Cluster, caller: str) -> None:
    check_identity(cluster)
    if cluster.client.auth.as_user is not None and cluster.client.who_am_i() is None:  # before Hadoop 3.1.1 it does not say
        raise AuthError(
            f"the ResourceManager does not say who it takes the gateway for, so nothing is done for {caller}",
            hint="it needs Hadoop 3.1.1 or later",
        )
