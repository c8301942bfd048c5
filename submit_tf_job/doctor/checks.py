"""doctor: check everything that a job needs, from this machine, each check with a time limit."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from submit_tf_job.diagnose.amounts import clause, resource
from submit_tf_job.doctor import findings
from submit_tf_job.doctor.findings import Check, Examination, Subject
from submit_tf_job.errors import AuthError, SettingsError, SubmitTFJobError
from submit_tf_job.operations.cluster import authenticate, storage_of
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.inspection import all_nodes, configuration, scheduler
from submit_tf_job.yarn.observed import ClusterInfo, Node
from submit_tf_job.yarn.queues import QueueResources

if TYPE_CHECKING:
    from submit_tf_job.yarn.resource_manager import ResourceManager

__all__ = ["doctor"]

CHECK_S = 15.0  # limit of one check
_CONFIGURATIONS = 3  # NodeManagers whose configuration is read


@dataclass
class _Examined:
    """Values that the checks share."""

    settings: Settings
    queue: str
    wall: Callable[[], float]
    client: ResourceManager | None = None
    nodes: tuple[Node, ...] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    conf_dir: Path | None = None


# What does not work when a check itself fails.
_BREAKS = {
    "services-api": "submitting, and finding a job by its name",
    "queue": "checking whether a job is accepted",
    "nodes": "checking the cluster's resources",
    "limits": "submitting: every job is compared with them",
    "hdfs": "every job: YARN keeps services there",
}
_DNS_S = 3.0


_Check = Callable[[_Examined], "Iterator[Check]"]


def doctor(
    settings: Settings,
    *,
    queue: str | None = None,
    on_finding: Callable[[Check], None] = lambda _finding: None,
    wall: Callable[[], float] = time.time,
    only: Collection[str] | None = None,
    client: ResourceManager | None = None,
) -> Examination:
    """Check everything that a job needs.

    Args:
        settings: The settings.
        queue: The queue to check; default: that of the settings' `job`, or `default`.
        on_finding: Called with each finding.
        wall: Seconds since the epoch.
        only: Names of the checks to do; default: all.
        client: A working connection; with it, the check of the ResourceManagers may be left out.

    Returns:
        The findings; a check that fails does not stop the others.

    Example:
        >>> [finding.checked for finding in doctor(load_settings()).findings if finding.status == "failure"]  # doctest: +SKIP
    """  # noqa: E501
    queue = queue or str(settings.job.get("queue") or "default")
    patient = _Examined(settings, queue, wall, client)
    found: list[Check] = []
    skipped: list[str] = []
    for name, check, needs_cluster in _CHECKS:
        if only is not None and name not in only:
            continue
        if needs_cluster and patient.client is None:
            skipped.append(name)
            continue
        for finding in _bounded(name, check, patient):
            found.append(finding)
            on_finding(finding)
    return Examination(tuple(found), tuple(skipped))


def _bounded(name: str, check: _Check, patient: _Examined) -> list[Check]:
    """Call one check; an error or a timeout becomes a finding."""
    import threading

    found: list[Check] = []
    about, breaks = Subject(name), _BREAKS.get(name, "what needs it")

    def call() -> None:
        try:
            found.extend(check(patient))
        except SubmitTFJobError as error:
            found.append(about.failure(error.message, breaks, error.hint))
        except Exception as error:  # noqa: BLE001 - a defect in one check must not hide other findings
            found.append(about.warning(f"could not be checked: {type(error).__name__}: {error}"))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CHECK_S)
    if not thread.is_alive():
        return found
    said, fix = f"no answer within {CHECK_S:g} s", "check whether it is slow, or behind a firewall"
    return [*found, about.failure(said, breaks, fix)]


# --- this machine ---------------------------------------------------------------------------------


def _settings(patient: _Examined) -> Iterator[Check]:
    from submit_tf_job.host.hadoopconf import read_xml

    settings = patient.settings
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
    files = [name for name in names if read_xml(conf / name)]
    if "core-site.xml" not in files:
        said = f"{conf} holds no core-site.xml"
        yield about.failure(said, "HDFS, and logs in it", "correct hadoop_conf")
        return
    patient.conf_dir = conf
    yield Subject("hadoop-conf", files=files).ok(f"{conf}: {', '.join(files)}")


def _dns(patient: _Examined) -> Iterator[Check]:
    about = Subject("dns")
    from submit_tf_job.yarn.ha import addresses_of

    hosts = {urlsplit(url).hostname or "" for url in patient.settings.resource_manager_urls}
    if patient.conf_dir is not None:
        from submit_tf_job.storage import default_fs

        name_node = urlsplit(default_fs(patient.conf_dir))
        if name_node.hostname and name_node.port:  # without a port it is a nameservice, not a host
            hosts.add(name_node.hostname)
    unknown = sorted(host for host in hosts if not addresses_of(host))
    if unknown:
        said = f"no address for {', '.join(unknown)}"
        yield about.failure(said, "whatever lives there", "correct the name, or this host's DNS")
    elif hosts:
        yield about.ok(f"addresses are known for {', '.join(sorted(hosts))}")


def _resource_managers(patient: _Examined) -> Iterator[Check]:
    from submit_tf_job.yarn.resource_manager import ResourceManager, Timeouts

    settings, about = patient.settings, Subject("authentication")
    try:
        auth = authenticate(settings)
    except SubmitTFJobError as error:
        yield about.failure(error.message, "every command", error.hint)
        return
    limits = Timeouts(connect_s=3, read_s=8, total_s=8)
    client = ResourceManager(
        settings.resource_managers, auth, timeouts=limits, ca_file=settings.ca_file
    )
    asked = {url: _asked(client, url) for url in settings.resource_managers}
    refused = next((seen for seen, _ in asked.values() if isinstance(seen, AuthError)), None)
    if refused is not None:
        yield about.failure(refused.message, "every command", refused.hint)
    answers = {url: seen for url, (seen, _) in asked.items()}
    judged = findings.resource_managers(answers)
    yield judged
    if judged.status == findings.FAILURE:
        return
    patient.client = client
    yield from _version(answers)
    dates = [date for _, date in asked.values() if date]
    if dates:
        yield findings.clock(patient.wall() - parsedate_to_datetime(dates[-1]).timestamp())


def _asked(client: ResourceManager, url: str) -> tuple[ClusterInfo | AuthError | str, str]:
    """Return the information, or the error, of one ResourceManager, and its `Date` header."""
    from submit_tf_job.yarn.transport_errors import TransportError

    try:
        outcome = client.http.fetch(url, "/ws/v1/cluster/info", deadline=client.deadline(5))
        if isinstance(outcome, TransportError):
            return outcome.why, ""
        info = outcome.json_object().get("clusterInfo")
    except AuthError as error:
        return error, ""
    except SubmitTFJobError as error:
        return error.message, ""
    if not isinstance(info, Mapping):
        info = {}
    return ClusterInfo.from_json(info), outcome.headers.get("date", "")


def _version(answers: Mapping[str, ClusterInfo | AuthError | str]) -> Iterator[Check]:
    versions = {
        seen.hadoop_version: seen.version
        for seen in answers.values()
        if isinstance(seen, ClusterInfo) and seen.hadoop_version
    }
    for text, numbers in versions.items():
        about = Subject("hadoop-version", version=text)
        if numbers < (3, 1, 1):
            yield about.failure(f"Hadoop {text}", "every job", "Hadoop 3.1.1 or later is needed")
        else:
            yield about.ok(f"Hadoop {text}")


# --- the cluster ----------------------------------------------------------------------------------


def _of(patient: _Examined) -> ResourceManager:
    if patient.client is None:
        raise SettingsError("no ResourceManager answers")
    return patient.client


def _services(patient: _Examined) -> Iterator[Check]:
    version = _of(patient).services_version()
    about = Subject("services-api", version=version)
    yield about.ok(f"the services API answers (Hadoop {version})")


def _authentication(patient: _Examined) -> Iterator[Check]:
    from submit_tf_job.host.kerberos import ticket

    client, settings = _of(patient), patient.settings
    patient.conf = configuration(client)
    left_s = None
    if settings.auth == "kerberos" and (known := ticket()) and known.ends:
        left_s = known.ends - patient.wall()
    yield findings.authentication(
        settings.auth,
        cluster=patient.conf.get("hadoop.security.authentication", "simple").lower(),
        user=settings.user,
        origin=settings.origins["user"],
        known_as=client.who_am_i(),
        ticket_s=left_s,
        renews=settings.kerberos.keytab is not None,
    )


def _queue(patient: _Examined) -> Iterator[Check]:
    client, user = _of(patient), patient.settings.user
    found = scheduler(client)
    allowed, said = None, ""
    if access := client.queue_access(patient.queue, user):
        allowed, said = access.allowed, access.diagnostics
    yield findings.queue(patient.queue, found, allowed=allowed, said=said, user=user)


def _nodes(patient: _Examined) -> Iterator[Check]:
    patient.nodes = all_nodes(_of(patient))
    yield findings.nodes_in_service(patient.nodes)
    names = [patient.settings.gpu_resource]
    shapes = patient.settings.shapes.values()
    names += [shape["gpu_resource"] for shape in shapes if shape.get("gpu_resource")]
    for name in dict.fromkeys(names):
        yield findings.gpus(patient.nodes, name)


def _limits(patient: _Examined) -> Iterator[Check]:
    most = _of(patient).maximum_resources()
    largest = QueueResources(
        most.memory_mib or 0,
        most.vcores or 0,
        {name: value for name, value in most.additional.items() if value < 2**31},
    )
    about = Subject("limits", **largest.to_json())
    yield about.ok(f"one container may have at most {resource(largest)}")


def _runtime(patient: _Examined) -> Iterator[Check]:
    client = _of(patient)
    scheme = client.http.rms.urls[0].partition("://")[0]
    running = [
        node for node in patient.nodes or () if node.state == "RUNNING" and node.http_address
    ][:_CONFIGURATIONS]
    confs = {}
    for node in running:
        url = f"{scheme}://{node.http_address}"
        if conf := configuration(client, url, deadline=client.deadline(4)):
            confs[str(node.host)] = conf
    yield findings.runtime(confs, sandbox=bool(patient.settings.sandbox))


def _configured(patient: _Examined) -> Iterator[Check]:
    yield findings.log_aggregation(patient.conf)
    yield findings.placement(patient.conf)
    if patient.settings.names != "rendezvous":
        yield findings.domain(patient.conf, patient.settings.dns.domain)


def _registry_dns(patient: _Examined) -> Iterator[Check]:
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp
    from dns.rcode import NOERROR, to_text

    dns, breaks = patient.settings.dns, "tasks do not find each other"
    if patient.settings.names != "dns":
        yield _meeting(patient.settings)
    if patient.settings.names == "rendezvous":
        return
    zone, server = dns.domain, dns.server or _announced(patient.conf)
    if not zone and patient.conf.get("hadoop.registry.dns.enabled", "false") != "true":
        about = Subject("registry-dns")
        yield about.warning("nothing here mentions Registry DNS", breaks, _WAY_OUT)
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
        needed = dns.server and patient.settings.names == "dns"
        judge = about.failure if needed else about.warning
        said = f"Registry DNS at {server} does not answer: {error}"
        yield judge(said, breaks, f"start Registry DNS, or correct dns.server; {_WAY_OUT}")
        return
    if answer.rcode() == NOERROR and answer.answer:
        yield about.ok(f"Registry DNS at {server} serves the zone {zone}")
        return
    said = f"{server} answers, but does not serve {zone} ({to_text(answer.rcode())})"
    yield about.failure(said, breaks, "correct dns.domain or dns.server")


_WAY_OUT = (
    "without Registry DNS set names: rendezvous: tasks meet on HDFS, and host names of tasks, as "
    "in quick links, do not work"
)


def _meeting(settings: Settings) -> Check:
    """Check what tasks need to find one another without Registry DNS."""
    from submit_tf_job.operations.site_facts import site_of

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
    if not any(map(_accepts, web.addresses)):
        return about.failure(
            f"tasks meet on HDFS ({names}), and WebHDFS at {addresses} does not answer",
            "tasks do not find each other",
            "correct dfs.namenode.http-address in hadoop_conf, or open that port",
        )
    return about.ok(f"tasks find one another by WebHDFS at {addresses} ({names})")


def _accepts(address: str) -> bool:
    """Return whether something accepts connections at `host:port`."""
    import socket

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_DNS_S).close()
    except (OSError, ValueError):
        return False
    return True


def _announced(conf: Mapping[str, str]) -> str | None:
    """Return the address of Registry DNS in the cluster's configuration, None for a wildcard."""
    address = conf.get("hadoop.registry.dns.bind-address", "")
    port = conf.get("hadoop.registry.dns.bind-port", "5335")
    if address in ("", "0.0.0.0") or not port.isdigit():  # noqa: S104
        return None
    return f"{address}:{port}"


# --- HDFS -----------------------------------------------------------------------------------------


def _hdfs(patient: _Examined) -> Iterator[Check]:
    """Write, read and remove a small file in the user's home, where YARN keeps services."""
    about = Subject("hdfs")
    if patient.conf_dir is None:
        return
    user = patient.settings.user
    storage = storage_of(patient.settings, timeout_s=8)
    home = storage.home(user)
    if not storage.exists(home):
        fix = f"an administrator creates it: hdfs dfs -mkdir -p {home} and -chown {user}"
        yield about.failure(f"{storage.url(home)} does not exist", _BREAKS["hdfs"], fix)
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


_CHECKS: tuple[tuple[str, _Check, bool], ...] = (
    ("settings", _settings, False),
    ("dns", _dns, False),
    ("resource-manager", _resource_managers, False),
    ("services-api", _services, True),
    ("authentication", _authentication, True),
    ("queue", _queue, True),
    ("nodes", _nodes, True),
    ("limits", _limits, True),
    ("docker", _runtime, True),
    ("configuration", _configured, True),
    ("registry-dns", _registry_dns, False),
    ("hdfs", _hdfs, False),
)
