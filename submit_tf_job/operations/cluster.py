"""The connection to a cluster, and which job of it is meant."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.errors import AuthError, NoSuchJob, SettingsError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.storage import Storage
    from submit_tf_job.yarn.auth import Auth
    from submit_tf_job.yarn.client import Client
    from submit_tf_job.yarn.nodemanager import NodeManagers

__all__ = ["Cluster", "JobRef", "authenticate", "check_identity", "connect", "find", "storage_of"]

_APPLICATION = re.compile(r"application_\d+_\d+")


@dataclass(frozen=True)
class JobRef:
    """Which job is meant: the service's name, and one application of it where that matters."""

    name: str
    application_id: str | None = None


@dataclass(frozen=True)
class Cluster:
    """A connection to one cluster, as one user."""

    settings: Settings
    client: Client
    nodes: NodeManagers
    clock: Callable[[], float]
    sleep: Callable[[float], None]


def connect(
    settings: Settings,
    *,
    secret: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Cluster:
    """Prepare to talk to the cluster of the settings; nothing is sent yet.

    Args:
        settings: The settings.
        secret: What `credentials.file` would hold, where a program has it.
        clock: Monotonic seconds.
        sleep: Waits for a number of seconds.

    Raises:
        SettingsError: No ResourceManager is known, or the settings do not say how to prove who we are.
        AuthError: The keytab gets no ticket.
    """
    from submit_tf_job.yarn.client import Client, Timeouts
    from submit_tf_job.yarn.nodemanager import NodeManagers

    client = Client(
        settings.resource_managers,
        authenticate(settings, secret),
        timeouts=Timeouts(connect_s=settings["timeouts.connect"], read_s=settings["timeouts.read"], total_s=settings["timeouts.failover"]),
        ca_file=settings["ca_file"],
        clock=clock,
        sleep=sleep,
    )
    return Cluster(settings, client, NodeManagers(client), clock, sleep)


def authenticate(settings: Settings, secret: str | None = None) -> Auth:
    """Choose how to prove who we are, as the settings say; with a keytab this gets a ticket.

    Raises:
        SettingsError: The settings do not say enough, or a package is missing.
        AuthError: The keytab gets no ticket.
    """
    from submit_tf_job.yarn import auth
    from submit_tf_job.yarn.credentials import Credentials

    method, as_user = settings["auth"], settings["as_user"]
    if method == "simple":
        return auth.SimpleAuth(settings.login, as_user)
    if method == "kerberos":
        from submit_tf_job import kerberos
        from submit_tf_job.yarn.negotiate import KerberosAuth

        kerberos.log_in(settings["kerberos.principal"], settings["kerberos.keytab"], settings["kerberos.krb5_conf"])
        return KerberosAuth(settings.user, settings["kerberos.principal"], as_user)
    if as_user is not None:
        raise SettingsError(f"as_user does not go with auth {method}: it says itself whose jobs they are", hint="leave as_user out")
    what = {"delegation-token": "delegation token", "basic": "password", "bearer": "bearer token"}[method]
    credentials = Credentials(what, settings["credentials.file"], settings["credentials.command"], given=secret)
    if method == "delegation-token":
        return auth.DelegationTokenAuth(settings.user, credentials)
    for url in settings.resource_managers:
        auth.check_protected(url, what)
    return auth.GatewayAuth(method.capitalize(), settings.user, credentials)


def storage_of(settings: Settings, uri: str | None = None, *, timeout_s: float = 60.0) -> Storage:
    """Open a storage as whoever the settings say that we are.

    Args:
        settings: The settings.
        uri: As for `open_storage`; None for the default file system of the Hadoop configuration.
        timeout_s: Limit of each single call.
    """
    from submit_tf_job.storage import open_storage

    return open_storage(uri, hadoop_conf=settings["hadoop_conf"], user=settings.user, as_proxy=settings.as_proxy, timeout_s=timeout_s)


def check_identity(cluster: Cluster) -> None:
    """Ask the ResourceManager who we are to it, before anything is done in somebody's name.

    Where its filter does not know doAs it ignores it, and a proxy user would submit as itself (facts: verified-security-ha 6).

    Raises:
        AuthError: We are somebody else to it than the settings say.
    """
    if cluster.settings["auth"] == "simple" and cluster.client.auth.as_user is None:
        return  # it believes the name we give
    found = cluster.client.who_am_i()
    if found is None or found == cluster.settings.user:
        return
    if cluster.client.auth.as_user is not None:
        message = f"the ResourceManager ignores as_user {cluster.settings.user}: to it you are {found}"
        hint = "its web filter does not know proxy users (yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled)"
    else:
        origin = cluster.settings.origins["user"]
        message = f"to the ResourceManager you are {found}, not {cluster.settings.user} ({origin})"
        hint = f"say --user {found} (or set `user`): host names and HDFS directories go by it"
    raise AuthError(message, hint=hint)


def find(cluster: Cluster, job: str) -> JobRef:
    """Find out which job a user means: a name, or an application id.

    Raises:
        NoSuchJob: There is no such application.
    """
    if not _APPLICATION.fullmatch(job):
        return JobRef(job)
    app = cluster.client.app(job)
    if app is None:
        raise NoSuchJob(f"the ResourceManager knows no {job}", hint="it keeps only so many finished applications; try the job's name")
    return JobRef(app.name or job, job)
