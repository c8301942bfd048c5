"""Checks of this machine, of the user's home on HDFS, and of how names are found: by DNS on this
machine, and by Registry DNS or HDFS between tasks.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.doctor.findings import Check, Examined, Subject
from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import configuration, is_true
from submit_tf_job.operations.cluster import storage_of
from submit_tf_job.settings import Settings
from submit_tf_job.storage import NoSuchPath


def check_settings(examined: Examined) -> Iterator[Check]:
    settings = examined.settings
    profile = clause("profile {}", settings.profile) or "no profile"
    origins = {key: settings.origins[key] for key in ("resource_managers", "user", "hadoop_conf")}
    about = Subject("settings", profile=settings.profile, origins=origins)
    try:
        urls = settings.resource_managers
    except SettingsError as error:
        yield about.failure(
            f"{profile}: {error.message}", "every command that needs the cluster", error.hint
        )
        return
    yield about.ok(f"{profile}; {', '.join(urls)} from {settings.origins['resource_managers']}")
    conf, about = settings.hadoop_conf, Subject("hadoop-conf")
    if conf is None:
        yield about.warning(
            "no Hadoop configuration is known",
            "reading logs and outcomes of jobs that are over, staging of files, "
            "`hadoop.conf: inline`",
            "set hadoop_conf, or HADOOP_CONF_DIR",
        )
        return
    names = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
    files = [name for name in names if (conf / name).is_file()]
    if "core-site.xml" not in files:
        said = f"{conf} holds no core-site.xml"
        yield about.failure(said, "HDFS, and logs in it", "correct hadoop_conf")
        return
    examined.conf_dir = conf
    yield Subject("hadoop-conf", files=files).ok(f"{conf}: {', '.join(files)}")


def check_dns(examined: Examined) -> Iterator[Check]:
    about = Subject("dns")
    from submit_tf_job.yarn.ha import addresses_of

    hosts = {urlsplit(url).hostname or "" for url in examined.settings.resource_manager_urls}
    if examined.conf_dir is not None:
        from submit_tf_job.storage import default_fs

        name_node = urlsplit(default_fs(examined.conf_dir))
        if name_node.hostname and name_node.port:  # without a port it is a nameservice, not a host
            hosts.add(name_node.hostname)
    unknown = sorted(host for host in hosts if not addresses_of(host))
    if unknown:
        said = f"no address for {', '.join(unknown)}"
        yield about.failure(said, "whatever lives there", "correct the name, or this host's DNS")
    elif hosts:
        yield about.ok(f"addresses are known for {', '.join(sorted(hosts))}")


def check_hdfs(examined: Examined) -> Iterator[Check]:
    """Check HDFS: write, read and remove a small file in the user's home, where YARN keeps
    services. Without a Hadoop configuration there is no result.
    """
    about = Subject("hdfs")
    if examined.conf_dir is None:
        return
    user = examined.settings.user
    storage = storage_of(examined.settings, timeout_s=8)
    home = storage.home(user)
    if not storage.exists(home):
        fix = f"an administrator creates it: hdfs dfs -mkdir -p {home} and -chown {user}"
        yield about.failure(
            f"{storage.url(home)} does not exist", "every job: YARN keeps services there", fix
        )
        return
    path = f"{home}/.submit_tf_job-doctor-{secrets.token_hex(4)}"
    content = secrets.token_bytes(16)
    storage.write(path, content)
    same = storage.read(path) == content
    storage.remove(path)
    if same:
        yield about.ok(f"a file was written, read and removed in {storage.url(home)}")
    else:
        said = f"{storage.url(path)} has other content than was written"
        yield about.failure(said, "staging, logs", "check HDFS itself")


def check_services_directory(examined: Examined) -> Iterator[Check]:
    """Check whether this user may write to the directory where ApplicationMasters keep the files of
    a service. There is no result if it does not exist yet, or each user has one. It is on HDFS
    below `hadoop.tmp.dir`, which all users share unless its name contains the user's
    (ServiceScheduler).
    """
    if examined.conf_dir is None:
        return
    about, user = Subject("services-directory"), examined.settings.user
    base = configuration(examined.conf_dir).raw.get("hadoop.tmp.dir", "${user.name}")
    if "${user.name}" in base:
        return
    storage = storage_of(examined.settings, timeout_s=8)
    path = f"{base}/.yarn/services"
    try:
        found = storage.stat(path)
    except NoSuchPath:
        return
    if found.mode is None or found.mode & 0o002 or found.owner == user:
        yield about.ok(f"{user} may write to {storage.url(path)}")
        return
    said = f"{storage.url(path)} belongs to {found.owner}, and {user} may not write there"
    fix = f"an administrator lets all users write there: hdfs dfs -chmod 1777 {path}"
    yield about.warning(said, f"every job of {user}, if the nodes have this hadoop.tmp.dir", fix)


# --- how tasks find one another -------------------------------------------------------------------

_DNS_S = 3.0
_LOST = "tasks do not find each other"


def check_domain(examined: Examined) -> Iterator[Check]:
    """Check that the settings and the cluster use the same domain for container names; no result
    with `names: rendezvous`, which needs no names.
    """
    if examined.settings.names == "rendezvous":
        return
    ours = examined.settings.dns.domain
    theirs = examined.conf.get("hadoop.registry.dns.domain-name")
    about = Subject("dns-domain", settings=ours, cluster=theirs)
    if not ours:
        yield about.ok("dns.domain is not set; each task reads the domain in its container")
    elif theirs and ours != theirs:
        said = f"dns.domain is {ours}, but {theirs} in the cluster's configuration"
        yield about.failure(said, _LOST, f"set dns.domain to {theirs}")
    else:
        yield about.ok(f"container names end in {ours}")


def check_registry_dns(examined: Examined) -> Iterator[Check]:
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp
    from dns.rcode import NOERROR, to_text

    dns = examined.settings.dns
    if examined.settings.names != "dns":
        yield _check_meeting_place(examined.settings)
    if examined.settings.names == "rendezvous":
        return
    zone, server = dns.domain, dns.server or _announced_dns(examined.conf)
    if not zone and not is_true(examined.conf, "hadoop.registry.dns.enabled"):
        about = Subject("registry-dns")
        yield about.warning("nothing here mentions Registry DNS", _LOST, _WAY_OUT)
        return
    if not zone or not server:
        yield Subject("registry-dns").warning(
            "the address of Registry DNS is not known here: containers use their own resolver",
            "",
            "doctor --deep checks it from inside a container; or set dns.domain and dns.server",
        )
        return
    host, _, port = server.rpartition(":")
    about = Subject("registry-dns", server=server, zone=zone)
    try:
        answer = udp(make_query(zone, "SOA"), host, timeout=_DNS_S, port=int(port))
    except (DNSException, OSError) as error:
        # the cluster's own configuration may have an internal address
        needed = dns.server and examined.settings.names == "dns"
        judge = about.failure if needed else about.warning
        said = f"Registry DNS at {server} does not answer: {error}"
        yield judge(said, _LOST, f"start Registry DNS, or correct dns.server; {_WAY_OUT}")
        return
    if answer.rcode() == NOERROR and answer.answer:
        yield about.ok(f"Registry DNS at {server} serves the zone {zone}")
        return
    said = f"{server} answers, but does not serve {zone} ({to_text(answer.rcode())})"
    yield about.failure(said, _LOST, "correct dns.domain or dns.server")


_WAY_OUT = (
    "without Registry DNS set names: rendezvous: tasks meet on HDFS, and host names of tasks, as "
    "in quick links, do not work"
)


def _check_meeting_place(settings: Settings) -> Check:
    """Check that HDFS is configured and that its WebHDFS port accepts connections: without Registry
    DNS, tasks find one another by files on HDFS.
    """
    from submit_tf_job.operations.cluster import site_of

    web, names = site_of(settings).web_hdfs, f"names: {settings.names}"
    about = Subject("meeting", names=settings.names)
    if web is None:
        return about.failure(
            f"{names} needs HDFS for staging, and none is configured",
            "jobs of several tasks",
            "set hadoop_conf (or staging: hdfs://…), or use names: dns",
        )
    addresses = ", ".join(web.addresses)
    about = Subject("meeting", names=settings.names, addresses=list(web.addresses))
    if not any(map(_accepts_connections, web.addresses)):
        return about.failure(
            f"tasks meet on HDFS ({names}), and WebHDFS at {addresses} does not answer",
            _LOST,
            "correct dfs.namenode.http-address in hadoop_conf, or open that port",
        )
    return about.ok(f"tasks find one another by WebHDFS at {addresses} ({names})")


def _accepts_connections(address: str) -> bool:
    """Return whether something accepts connections at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_DNS_S).close()
    except (OSError, ValueError):
        return False
    return True


def _announced_dns(conf: Mapping[str, str]) -> str | None:
    """Return the address of Registry DNS, `host:port`, in the cluster's configuration; None if
    there is none, or a wildcard address.
    """
    address = conf.get("hadoop.registry.dns.bind-address", "")
    port = conf.get("hadoop.registry.dns.bind-port", "5335")
    if address in ("", "0.0.0.0") or not port.isdigit():  # noqa: S104
        return None
    return f"{address}:{port}"
