"""Connect to a cluster, as one user."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job.container import untrusted
from submit_tf_job.errors import AuthError, SettingsError, SubmitTFJobError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.plan import Site
    from submit_tf_job.plan.site import Cap, WebStaging
    from submit_tf_job.storage import Storage
    from submit_tf_job.yarn.auth import Auth
    from submit_tf_job.yarn.nodemanager import NodeManagers
    from submit_tf_job.yarn.resource_manager import ResourceManager

_T = TypeVar("_T")


@dataclass(frozen=True)
class JobRef:
    """One run of a job.

    Attributes:
        name: The job's name.
        application_id: The run's application.
        run: The run's name, which is also the name of its YARN service.
        others: Names of the job's other live runs. A job has other live runs only if a client died
            while it submitted one of them.
    """

    name: str
    application_id: str
    run: str
    others: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Cluster:
    """A connection to one cluster, as one user.

    Attributes:
        settings: The settings, with the user.
        client: The client of the ResourceManager.
        clock: Returns monotonic seconds.
        sleep: Waits for a number of seconds.
        own_jobs_only: Whether the user is a caller of a gateway. This is a security guard:
            application ids and records of other users count as unknown, and a job's URIs are opened
            only on the cluster's own HDFS.
        wall: Returns the time by this machine's clock, seconds since 1970, only for times that are
            shown or recorded. It may be wrong, so decisions use the cluster's time
            (`client.now_ms`).
    """

    settings: Settings
    client: ResourceManager
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    own_jobs_only: bool = False
    wall: Callable[[], float] = time.time

    def now_ms(self) -> int:
        """Return the time by the ResourceManager's clock, by this machine's if that is not known,
        in milliseconds since 1970; for times that are shown or recorded.
        """
        return self.client.now_ms() or int(self.wall() * 1000)

    @cached_property
    def nodes(self) -> NodeManagers:
        """The NodeManagers that the client's ResourceManager lists."""
        from submit_tf_job.yarn.nodemanager import NodeManagers

        return NodeManagers(self.client)


def connect(
    settings: Settings,
    *,
    secret: str | None = None,
) -> Cluster:
    """Return a connection to the cluster of the settings. No request is sent to the cluster; with a
    keytab a Kerberos ticket is fetched.

    Args:
        settings: The settings.
        secret: The content of `credentials.file`, if the caller has it.

    Raises:
        SettingsError: No ResourceManager is configured, or the settings for authentication are
            incomplete.
        AuthError: The keytab gets no ticket.
    """
    from submit_tf_job.yarn.resource_manager import ResourceManager, Timeouts

    client = ResourceManager(
        settings.resource_managers,
        authenticate(settings, secret),
        timeouts=Timeouts(
            connect_s=settings.timeouts.connect_s,
            read_s=settings.timeouts.read_s,
            total_s=settings.timeouts.failover_s,
        ),
        ca_file=settings.ca_file,
    )
    return Cluster(settings, client, client.clock, client.sleep)


def authenticate(settings: Settings, secret: str | None = None) -> Auth:
    """Return the configured authentication; with a keytab this gets a ticket.

    Raises:
        SettingsError: The settings are incomplete or contradictory, a package is missing, or a
            secret would be sent unencrypted.
        AuthError: The keytab gets no ticket.
    """
    from submit_tf_job.yarn import auth
    from submit_tf_job.yarn.auth import Credentials

    method, as_user = settings.auth, settings.as_user
    if method == "simple":
        return auth.SimpleAuth(settings.login, as_user)
    if method == "kerberos":
        from submit_tf_job.host import kerberos
        from submit_tf_job.yarn.auth import KerberosAuth

        kerberos.log_in(
            settings.kerberos.principal, settings.kerberos.keytab, settings.kerberos.krb5_conf
        )
        return KerberosAuth(settings.user, settings.kerberos.principal, as_user)
    if as_user is not None:
        raise SettingsError(
            f"as_user does not go with auth {method}: it says itself whose jobs they are",
            hint="leave as_user out",
        )
    what = {"delegation-token": "delegation token", "basic": "password", "bearer": "bearer token"}[
        method
    ]
    credentials = Credentials(
        what, settings.credentials.file, settings.credentials.command, given=secret
    )
    for url in settings.resource_managers:
        auth.check_protected(url, what)
    if method == "delegation-token":
        return auth.DelegationTokenAuth(settings.user, credentials)
    return auth.GatewayAuth(method.capitalize(), settings.user, credentials)


def storage_of(settings: Settings, uri: str | None = None, *, timeout_s: float = 60.0) -> Storage:
    """Open the storage of a URI as the user of the settings.

    Args:
        settings: The settings.
        uri: As for `open_storage`; None for the default file system of the Hadoop configuration.
        timeout_s: Time limit of each call in seconds.

    Raises:
        UsageError: The URI is not valid; or it is None, and `hadoop_conf` is not set.
        SettingsError: The Hadoop configuration cannot be read or names no file system, or a package
            is missing.
    """
    from submit_tf_job.storage import open_storage

    return open_storage(
        uri,
        hadoop_conf=settings.hadoop_conf,
        user=settings.user,
        as_proxy=settings.as_proxy,
        timeout_s=timeout_s,
    )


def none_on_error(ask: Callable[[], _T]) -> _T | None:
    """Return the result of a request that only adds to what is told; None if it fails: a diagnosis
    still finds the causes that do not depend on it, and of a submission the POST decides.
    """
    try:
        return ask()
    except SubmitTFJobError:
        return None


def check_identity(cluster: Cluster) -> None:
    """Check that the ResourceManager sees this client as the user of the settings.

    With simple authentication and without `as_user`, nothing is checked, because any name is
    accepted. A ResourceManager whose filter does not implement doAs ignores it, and a proxy user
    would submit as itself (hadoop-facts.md#doas). A ResourceManager that does not tell the user
    passes.

    Raises:
        AuthError: The ResourceManager sees another user.
        ClusterUnavailable: No ResourceManager answered.
    """
    if cluster.settings.auth == "simple" and cluster.client.auth.as_user is None:
        return  # simple authentication accepts any name
    found = cluster.client.who_am_i()
    if found is None or found == cluster.settings.user:
        return
    if cluster.client.auth.as_user is not None:
        message = (
            f"the ResourceManager ignores as_user {cluster.settings.user}: to it you are {found}"
        )
        hint = (
            "its web filter does not know proxy users "
            "(yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled)"
        )
    else:
        origin = cluster.settings.origins["user"]
        message = f"to the ResourceManager you are {found}, not {cluster.settings.user} ({origin})"
        hint = f"use --user {found} (or set `user`): host names and directories contain the user"
    raise AuthError(message, hint=hint)


# --- the facts of a cluster that a plan depends on ------------------------------------------------


def site_of(settings: Settings) -> Site:
    """Return what a plan depends on besides the job: the user, and the properties of the cluster
    that the settings and the Hadoop configuration state. No request is sent.

    Raises:
        SettingsError: The Hadoop configuration cannot be read, and is needed.
    """
    from submit_tf_job.plan.site import Names, Site

    staging = staging_root(settings)
    return Site(
        user=settings.user,
        domain=settings.dns.domain,
        dns_server=settings.dns.server,
        gpu_resource=settings.gpu_resource,
        port_range=settings.ports.range,
        staging=staging,
        secure=settings.secure,
        token_life_s=_token_life_s(settings),
        trusted_registries=settings.docker.registries,
        networks=settings.docker.networks,
        ro_mounts=settings.docker.ro_mounts,
        rw_mounts=settings.docker.rw_mounts,
        runtimes=settings.docker.runtimes,
        caps=tuple(caps_of(settings)),
        names=Names(settings.names),
        web_hdfs=_web_hdfs(settings, staging),
    )


def caps_of(settings: Settings) -> Iterator[Cap]:
    """Yield the limits that the settings `caps` set for one job."""
    from submit_tf_job.plan.site import Cap

    caps = settings.caps
    memory_mib = None if caps.memory is None else caps.memory // 1024**2
    for name, most in (
        ("tasks", caps.tasks),
        ("gpus", caps.gpus),
        ("memory", memory_mib),
        ("lifetime", caps.lifetime_s),
    ):
        if most is not None:
            yield Cap(name, int(most), settings.origins[f"caps.{name}"])


def _web_hdfs(settings: Settings, staging: str | None) -> WebStaging | None:
    """Return the staging directory as the job's tasks reach it over HTTP (WebHDFS). None if there
    is no staging directory, if it is not on HDFS, or if no WebHDFS address of it is known.

    Raises:
        SettingsError: The Hadoop configuration cannot be read, and the tasks may need the directory
            to find one another (`names` is not `dns`).
    """
    if staging is None:
        return None
    from submit_tf_job.container.hadoop import default_file_system, resolve_viewfs, web_addresses
    from submit_tf_job.plan.site import WebStaging
    from submit_tf_job.storage import hadoop_properties, uri_parts

    try:
        conf = hadoop_properties(settings.hadoop_conf)
    except SettingsError:
        if settings.names != "dns":
            raise
        return None
    parts = uri_parts(staging)
    if not parts.netloc:
        parts = untrusted.url_parts(default_file_system(conf))._replace(path=parts.path)
    if parts.scheme == "viewfs":
        parts = untrusted.url_parts(resolve_viewfs(parts.netloc, parts.path, conf) or "")
    if parts.scheme != "hdfs":
        return None
    protocol, addresses = web_addresses(parts.netloc, conf)
    return WebStaging(protocol, tuple(addresses), parts.path) if addresses else None


def _token_life_s(settings: Settings) -> int:
    """Return for how long HDFS renews a delegation token, in seconds
    (DFSConfigKeys.DFS_NAMENODE_DELEGATION_TOKEN_MAX_LIFETIME_KEY), as this host's configuration
    states it; else Hadoop's default of 7 days.
    """
    from submit_tf_job.plan.site import TOKEN_LIFE_S

    conf = settings.hadoop_conf
    if conf is None or settings.auth == "simple":
        return TOKEN_LIFE_S
    from submit_tf_job.host.hadoopconf import HDFS, configuration

    told = configuration(conf, HDFS).get("dfs.namenode.delegation.token.max-lifetime", "")
    return int(told) // 1000 if told.isdigit() else TOKEN_LIFE_S


def home_on_hdfs(settings: Settings) -> str | None:
    """Return the URI of the user's home without a host, as job specs have it; None without a Hadoop
    configuration.
    """
    if settings.hadoop_conf is None:
        return None
    from submit_tf_job.storage import home_of

    with suppress(SettingsError):
        parts = untrusted.url_parts(home_of(settings.hadoop_conf, settings.user))
        if parts.scheme in ("hdfs", "viewfs"):
            return f"{parts.scheme}://{parts.path}"
    return f"hdfs:///user/{settings.user}"


def staging_root(settings: Settings) -> str | None:
    """Return the staging directory: the setting `staging`, else a directory below the user's home
    on the default file system. None if that file system is not known, or is the local one of each
    node.
    """
    if settings.staging:
        return settings.staging.rstrip("/")
    conf = settings.hadoop_conf
    if conf is None:
        return None
    from submit_tf_job.storage import home_of

    try:
        home = home_of(conf, settings.user)
    except SettingsError:
        # for instance only yarn-site.xml exists: everything but staging works, and `check` reports
        # a job that needs staging
        return None
    # On file:// a path is another file on every node.
    if home.startswith("file:"):
        return None
    return f"{home}/.submit_tf_job/staging"
