"""doctor: look at everything that a job needs, from this machine; each check by itself, each within its time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from submit_tf_job.api.cluster import authenticate, storage_of
from submit_tf_job.errors import AuthError, SettingsError, SubmitTFJobError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.diagnose.findings import Examination, Finding
    from submit_tf_job.yarn.client import Client
    from submit_tf_job.yarn.observed import ClusterInfo, Node

__all__ = ["doctor"]

CHECK_S = 15.0  # for one check, whatever hangs
_CONFIGURATIONS = 3  # NodeManagers whose configuration is read


@dataclass
class _Patient:
    """What the checks share."""

    settings: Settings
    queue: str
    wall: Callable[[], float]
    client: Client | None = None
    nodes: tuple[Node, ...] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    conf_dir: Path | None = None


# What does not work when a check itself fails.
_BREAKS = {
    "services-api": "submitting, and finding a job by its name",
    "queue": "knowing beforehand whether a job is let in",
    "nodes": "knowing what the cluster has",
    "limits": "submitting: every job is compared with them",
    "hdfs": "every job: YARN keeps services there",
}


_Check = Callable[[_Patient], "Iterator[Finding]"]


def doctor(
    settings: Settings,
    *,
    queue: str | None = None,
    on_finding: Callable[[Finding], None] = lambda _finding: None,
    wall: Callable[[], float] = time.time,
) -> Examination:
    """Look at all that a job needs.

    Args:
        settings: The settings.
        queue: The queue to ask about; default: that of the settings' `job`, or `default`.
        on_finding: Told of each finding as soon as it is there.
        wall: Seconds since the epoch.

    Returns:
        The findings; a check that fails never stops the others.

    Example:
        >>> [finding.checked for finding in doctor(load_settings()).findings if finding.status == "failure"]  # doctest: +SKIP
    """
    from submit_tf_job.diagnose.findings import Examination

    patient = _Patient(settings, queue or str(settings["job"].get("queue") or "default"), wall)
    found: list[Finding] = []
    skipped: list[str] = []
    for name, check, needs_cluster in _CHECKS:
        if needs_cluster and patient.client is None:
            skipped.append(name)
            continue
        for finding in _bounded(name, check, patient):
            found.append(finding)
            on_finding(finding)
    return Examination(tuple(found), tuple(skipped))


def _bounded(name: str, check: _Check, patient: _Patient) -> list[Finding]:
    """Call one check: what goes wrong in it, or never ends, is a finding like any other."""
    import threading

    from submit_tf_job.diagnose.findings import FAILURE, WARNING, Finding

    found: list[Finding] = []

    def call() -> None:
        try:
            found.extend(check(patient))
        except SubmitTFJobError as error:
            found.append(Finding(name, FAILURE, error.message, _BREAKS.get(name, "what needs it"), error.hint))
        except Exception as error:  # noqa: BLE001 - a defect in one check must not hide what the others see
            found.append(Finding(name, WARNING, f"could not be checked: {type(error).__name__}: {error}"))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CHECK_S)
    if not thread.is_alive():
        return found
    return [
        *found,
        Finding(name, FAILURE, f"no answer within {CHECK_S:g} s", _BREAKS.get(name, "what needs it"), "is it slow, or behind a firewall?"),
    ]


# --- this machine ---------------------------------------------------------------------------------------------------------


def _settings(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import FAILURE, OK, WARNING, Finding

    settings = patient.settings
    profile = f"profile {settings.profile}" if settings.profile else "no profile"
    facts = {"profile": settings.profile, "origins": {key: settings.origins[key] for key in ("resource_managers", "user", "hadoop_conf")}}
    try:
        urls = settings.resource_managers
    except SettingsError as error:
        yield Finding("settings", FAILURE, f"{profile}: {error.message}", "every command that needs the cluster", error.hint, facts)
        return
    yield Finding("settings", OK, f"{profile}; {', '.join(urls)} from {settings.origins['resource_managers']}", facts=facts)
    conf: Path | None = settings["hadoop_conf"]
    if conf is None:
        breaks = "reading logs and outcomes of jobs that are over, staging of files, `hadoop.conf: inline`"
        yield Finding("hadoop-conf", WARNING, "no Hadoop configuration is known", breaks, "set hadoop_conf, or HADOOP_CONF_DIR")
        return
    from submit_tf_job.hadoopconf import read_xml

    files = [name for name in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml") if read_xml(conf / name)]
    if "core-site.xml" not in files:
        yield Finding("hadoop-conf", FAILURE, f"{conf} holds no core-site.xml", "HDFS, and logs in it", "correct hadoop_conf")
        return
    patient.conf_dir = conf
    yield Finding("hadoop-conf", OK, f"{conf}: {', '.join(files)}", facts={"files": files})


def _dns(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import FAILURE, OK, Finding
    from submit_tf_job.yarn.ha import addresses_of

    hosts = {urlsplit(url).hostname or "" for url in patient.settings["resource_managers"]}
    if patient.conf_dir is not None:
        from submit_tf_job.storage import default_fs

        name_node = urlsplit(default_fs(patient.conf_dir))
        hosts |= {name_node.hostname} if name_node.hostname and name_node.port else set()  # without a port it is a nameservice, no host
    unknown = sorted(host for host in hosts if not addresses_of(host))
    if unknown:
        yield Finding(
            "dns", FAILURE, f"no address for {', '.join(unknown)}", "whatever lives there", "correct the name, or this host's DNS"
        )
    elif hosts:
        yield Finding("dns", OK, f"addresses are known for {', '.join(sorted(hosts))}")


def _resource_managers(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose import findings
    from submit_tf_job.yarn.client import Client, Timeouts

    settings = patient.settings
    try:
        auth = authenticate(settings)
    except SubmitTFJobError as error:
        yield findings.Finding("authentication", findings.FAILURE, error.message, "every command", error.hint)
        return
    limits = Timeouts(connect_s=3, read_s=8, total_s=8)
    client = Client(settings.resource_managers, auth, timeouts=limits, ca_file=settings["ca_file"])
    answers: dict[str, ClusterInfo | AuthError | str] = {}
    date = ""
    for url in settings.resource_managers:
        answers[url], seen = _asked(client, url)
        date = seen or date
    refused = next((answer for answer in answers.values() if isinstance(answer, AuthError)), None)
    if refused is not None:
        yield findings.Finding("authentication", findings.FAILURE, refused.message, "every command", refused.hint)
    judged = findings.resource_managers({url: str(seen) if isinstance(seen, AuthError) else seen for url, seen in answers.items()})
    yield judged
    if judged.status == findings.FAILURE:
        return
    patient.client = client
    yield from _version(answers)
    if date:
        yield findings.clock(patient.wall() - parsedate_to_datetime(date).timestamp())


def _asked(client: Client, url: str) -> tuple[ClusterInfo | AuthError | str, str]:
    """Ask one ResourceManager about itself; with its answer comes its time."""
    from submit_tf_job.yarn.observed import ClusterInfo
    from submit_tf_job.yarn.trouble import Trouble

    try:
        outcome = client.funnel.fetch(url, "/ws/v1/cluster/info", deadline=client.deadline(5))
        if isinstance(outcome, Trouble):
            return outcome.why, ""
        info = outcome.json_object().get("clusterInfo")
    except AuthError as error:
        return error, ""
    except SubmitTFJobError as error:
        return error.message, ""
    return ClusterInfo.from_json(info if isinstance(info, Mapping) else {}), outcome.headers.get("date", "")


def _version(answers: Mapping[str, ClusterInfo | AuthError | str]) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import FAILURE, OK, Finding
    from submit_tf_job.yarn.observed import ClusterInfo

    versions = {seen.hadoop_version: seen.version for seen in answers.values() if isinstance(seen, ClusterInfo) and seen.hadoop_version}
    for text, numbers in versions.items():
        old = numbers < (3, 1, 1)
        fix = "Hadoop 3.1.1 or later is needed" if old else ""
        yield Finding("hadoop-version", FAILURE if old else OK, f"Hadoop {text}", "every job" if old else "", fix, {"version": text})


# --- the cluster ----------------------------------------------------------------------------------------------------------


def _of(patient: _Patient) -> Client:
    if patient.client is None:
        raise SettingsError("no ResourceManager answers")
    return patient.client


def _services(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import OK, Finding

    version = _of(patient).services_version()
    yield Finding("services-api", OK, f"the services API answers (Hadoop {version})", facts={"version": version})


def _authentication(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import authentication
    from submit_tf_job.kerberos import ticket
    from submit_tf_job.yarn.inspection import configuration

    client, settings = _of(patient), patient.settings
    patient.conf = configuration(client)
    known = ticket() if settings["auth"] == "kerberos" else None
    yield authentication(
        settings["auth"],
        cluster=patient.conf.get("hadoop.security.authentication", "simple").lower(),
        user=settings.user,
        origin=settings.origins["user"],
        known_as=client.who_am_i(),
        ticket_s=known.ends - patient.wall() if known and known.ends else None,
        renews=settings["kerberos.keytab"] is not None,
    )


def _queue(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import queue
    from submit_tf_job.yarn.inspection import scheduler

    client, user = _of(patient), patient.settings.user
    found = scheduler(client)
    access = client.queue_access(patient.queue, user)
    yield queue(patient.queue, found, allowed=access.allowed if access else None, said=access.diagnostics if access else "", user=user)


def _nodes(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import gpus, nodes_in_service
    from submit_tf_job.yarn.inspection import all_nodes

    patient.nodes = all_nodes(_of(patient))
    yield nodes_in_service(patient.nodes)
    yield gpus(patient.nodes, patient.settings["gpu_resource"])


def _limits(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import OK, Finding
    from submit_tf_job.diagnose.words import resource
    from submit_tf_job.yarn.queues import Resource

    most = _of(patient).maximum_resources()
    largest = Resource(most.memory_mib or 0, most.vcores or 0, {name: value for name, value in most.additional.items() if value < 2**31})
    yield Finding("limits", OK, f"one container may have at most {resource(largest)}", facts=largest.to_json())


def _runtime(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import runtime
    from submit_tf_job.yarn.inspection import configuration

    client = _of(patient)
    scheme = client.funnel.rms.urls[0].partition("://")[0]
    running = [node for node in patient.nodes or () if node.state == "RUNNING" and node.http_address][:_CONFIGURATIONS]
    confs = {str(node.host): configuration(client, f"{scheme}://{node.http_address}", deadline=client.deadline(4)) for node in running}
    yield runtime({host: conf for host, conf in confs.items() if conf}, sandbox=bool(patient.settings["sandbox"]))


def _configured(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import domain, log_aggregation, placement

    yield log_aggregation(patient.conf)
    yield placement(patient.conf)
    yield domain(patient.conf, patient.settings["dns.domain"])


def _registry_dns(patient: _Patient) -> Iterator[Finding]:
    from submit_tf_job.diagnose.findings import FAILURE, OK, WARNING, Finding
    from submit_tf_job.yarn.registrydns import ask

    zone, server = patient.settings["dns.domain"], patient.settings["dns.server"] or _announced(patient.conf)
    if not zone or not server:
        said = "where Registry DNS listens is not known here: containers ask their own resolver"
        yield Finding("registry-dns", WARNING, said, "", "doctor --deep asks from inside a container; or set dns.domain and dns.server")
        return
    host, _, port = server.rpartition(":")
    facts = {"server": server, "zone": zone}
    try:
        answer = ask(host, int(port), zone, "SOA")
    except OSError as error:
        status = FAILURE if patient.settings["dns.server"] else WARNING  # the cluster's own word may be an inside address
        said = f"Registry DNS at {server} does not answer: {error}"
        yield Finding("registry-dns", status, said, "tasks do not find each other", "start Registry DNS, or correct dns.server", facts)
        return
    if answer.code == 0 and answer.count:
        yield Finding("registry-dns", OK, f"Registry DNS at {server} knows its zone {zone}", facts=facts)
        return
    said = f"{server} answers, and does not know {zone} (code {answer.code})"
    yield Finding("registry-dns", FAILURE, said, "tasks do not find each other", "correct dns.domain or dns.server", facts)


def _announced(conf: Mapping[str, str]) -> str | None:
    """Return where the cluster says that Registry DNS listens, None where that is every address of some host."""
    address, port = conf.get("hadoop.registry.dns.bind-address", "0.0.0.0"), conf.get("hadoop.registry.dns.bind-port", "5335")  # noqa: S104 - Hadoop's default
    return f"{address}:{port}" if address not in ("", "0.0.0.0") and port.isdigit() else None  # noqa: S104 - see above


# --- HDFS -----------------------------------------------------------------------------------------------------------------


def _hdfs(patient: _Patient) -> Iterator[Finding]:
    """Write, read and remove a tiny file in the user's home: YARN keeps services there, and files are staged there."""
    from submit_tf_job.diagnose.findings import FAILURE, OK, Finding

    if patient.conf_dir is None:
        return
    user = patient.settings.user
    storage = storage_of(patient.settings, timeout_s=8)
    home = storage.home(user)
    if not storage.exists(home):
        fix = f"an administrator creates it: hdfs dfs -mkdir -p {home} and -chown {user}"
        yield Finding("hdfs", FAILURE, f"{storage.url(home)} does not exist", "every job: YARN keeps services there", fix)
        return
    path = f"{home}/.submit_tf_job-doctor-{secrets.token_hex(4)}"
    content = secrets.token_bytes(16)
    storage.write(path, content)
    same = storage.read(path) == content
    storage.remove(path)
    if same:
        yield Finding("hdfs", OK, f"a file was written, read and removed in {storage.url(home)}")
    else:
        yield Finding("hdfs", FAILURE, f"{storage.url(path)} came back changed", "staging, logs", "look at HDFS itself")


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
