"""Findings of `doctor`, and the pure functions that derive them from collected data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.diagnose.amounts import listed, plural, seconds
from submit_tf_job.diagnose.image_support import ways_out, why_no_images
from submit_tf_job.diagnose.situation import total_of
from submit_tf_job.errors import AuthError
from submit_tf_job.yarn.observed import ClusterInfo, Node
from submit_tf_job.yarn.queues import Scheduler

__all__ = [
    "FAILURE",
    "OK",
    "WARNING",
    "Check",
    "Examination",
    "Subject",
    "authentication",
    "clock",
    "domain",
    "gpus",
    "inside",
    "log_aggregation",
    "nodes_in_service",
    "placement",
    "queue",
    "resource_managers",
    "runtime",
]

OK, WARNING, FAILURE = "ok", "warning", "failure"
TICKET_WARNING_S = 3600.0
# Kerberos rejects clocks that differ by more than five minutes
CLOCK_WARNING_S, CLOCK_FAILURE_S = 30.0, 300.0


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        id: Stable identifier for programs, documented in docs/doctor.md.
        status: `ok`, `warning` or `failure`.
        checked: The observation.
        breaks: The features that do not work because of it, or "".
        fix: The next step for the user, or "".
        facts: The values that the sentences contain.
    """

    id: str
    status: str
    checked: str
    breaks: str = ""
    fix: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Subject:
    """What one check is about; makes its result.

    Args:
        name: The check's `id`.
        facts: The values that the sentences contain.
    """

    def __init__(self, name: str, /, **facts: Any) -> None:
        self._name, self._facts = name, facts

    def ok(self, checked: str) -> Check:
        return Check(self._name, OK, checked, facts=self._facts)

    def warning(self, checked: str, breaks: str = "", fix: str = "") -> Check:
        return Check(self._name, WARNING, checked, breaks, fix, self._facts)

    def failure(self, checked: str, breaks: str, fix: str) -> Check:
        return Check(self._name, FAILURE, checked, breaks, fix, self._facts)


@dataclass(frozen=True)
class Examination:
    """The results of all checks.

    Attributes:
        findings: In the order of the checks.
        skipped: Checks that were left out because an earlier one failed.
    """

    findings: tuple[Check, ...]
    skipped: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(finding.status == "failure" for finding in self.findings)


def resource_managers(answers: Mapping[str, ClusterInfo | AuthError | str]) -> Check:
    """Check the responses of the configured ResourceManagers; a text is an error message."""
    states = {url: _state(seen) for url, seen in answers.items()}
    about = Subject("resource-manager", resource_managers=states)
    said = listed([f"{url} {state}" for url, state in states.items()], limit=4)
    active = [
        url
        for url, seen in answers.items()
        if isinstance(seen, ClusterInfo) and (seen.ha_state or "ACTIVE") == "ACTIVE"
    ]
    if not active:
        return about.failure(
            said, "every command that needs the cluster", "check --rm and resource_managers"
        )
    if not all(isinstance(seen, ClusterInfo) for seen in answers.values()):
        return about.warning(
            said, "a failover to the one that does not answer", "start it, or correct it"
        )
    return about.ok(said)


def _state(seen: ClusterInfo | AuthError | str) -> str:
    if isinstance(seen, ClusterInfo):
        return seen.ha_state or seen.state or "UNKNOWN"
    return str(seen)


def clock(offset_s: float) -> Check:
    """Check the offset of this machine's clock from the ResourceManager's."""
    about = Subject("clock", offset_s=round(offset_s, 1))
    if abs(offset_s) < CLOCK_WARNING_S:
        return about.ok("this machine's clock and the ResourceManager's agree")
    way = "ahead of" if offset_s > 0 else "behind"
    judge = about.failure if abs(offset_s) >= CLOCK_FAILURE_S else about.warning
    return judge(
        f"this machine's clock is {seconds(abs(offset_s))} {way} the ResourceManager's",
        "times shown for jobs and logs; Kerberos from 5 min on",
        "synchronise both by NTP",
    )


def authentication(
    method: str,
    *,
    cluster: str,
    user: str,
    origin: str,
    known_as: str | None,
    ticket_s: float | None,
    renews: bool,
) -> Check:
    """Check that the cluster authenticates this user as the jobs' user.

    Args:
        method: Method of authentication.
        cluster: `hadoop.security.authentication` of the ResourceManager.
        user: The jobs' user.
        origin: The source of that setting.
        known_as: The user that the ResourceManager reports, None where unknown.
        ticket_s: Remaining seconds of the Kerberos ticket, None without one.
        renews: Whether a keytab renews it.
    """
    about = Subject(
        "authentication",
        user=user,
        method=method,
        cluster=cluster,
        known_as=known_as,
        ticket_s=ticket_s and round(ticket_s),
    )
    if known_as is not None and method != "simple" and known_as != user:
        fix = f"use --user {known_as}, or set `user`"
        breaks = "host names of tasks, and HDFS directories"
        return about.failure(f"jobs are to run as {user}, and you are {known_as}", breaks, fix)
    seen = f"{method}: jobs run as {user} ({origin})"
    if method == "simple" and cluster == "kerberos":
        return about.warning(
            f"{seen}; the cluster uses Kerberos", "HDFS, and logs on nodes", "use --auth kerberos"
        )
    if method != "kerberos" or renews:
        return about.ok(seen)
    if ticket_s is None:
        return about.ok(seen)
    seen += f"; the ticket lasts {seconds(ticket_s)}"
    if ticket_s < TICKET_WARNING_S:
        return about.warning(seen, "watching a job for longer", "kinit, or kerberos.keytab")
    return about.ok(seen)


def queue(
    name: str, scheduler: Scheduler | None, *, allowed: bool | None, said: str, user: str
) -> Check:
    """Check whether a user may submit to a queue; `allowed` is None where unknown."""
    found = scheduler.find(name) if scheduler else None
    about = Subject("queue", queue=name, allowed=allowed, state=found and found.state)
    broken = f"jobs for queue {name}"
    if scheduler is not None and found is None:
        leaves = listed([item.name for item in scheduler.queues if item.is_leaf], limit=8)
        return about.failure(
            f"there is no queue {name}; there are {leaves}", broken, "correct `queue`"
        )
    if allowed is False:
        return about.failure(
            f"user {user} may not submit to queue {name}: {said or 'its access list'}",
            broken,
            "choose another",
        )
    if found is not None and found.state not in (None, "RUNNING"):
        return about.failure(
            f"queue {found.path} is {found.state}", broken, "choose another, or have it started"
        )
    if allowed is None:
        return about.warning(
            f"whether user {user} may submit to queue {name} is unknown", "", "submit reports it"
        )
    return about.ok(f"user {user} may submit to queue {name}")


def nodes_in_service(nodes: tuple[Node, ...]) -> Check:
    """Check that NodeManagers are in service."""
    counts = Counter(node.state or "UNKNOWN" for node in nodes)
    said = (
        listed([f"{count} {state}" for state, count in counts.most_common()], limit=8)
        or "none are known"
    )
    sick = next((node for node in nodes if node.state == "UNHEALTHY"), None)
    said = f"NodeManagers: {said}"
    if sick:
        said += f"; {sick.host} says: {' '.join((sick.health_report or '').split())[:200]}"
    about = Subject("nodes", nodes=dict(counts))
    if not counts["RUNNING"]:
        return about.failure(said, "every job: it stays PENDING", "start or repair NodeManagers")
    if counts["UNHEALTHY"] or counts["LOST"]:
        return about.warning(said, "jobs that need many nodes", "repair those nodes")
    return about.ok(said)


def gpus(nodes: tuple[Node, ...], name: str) -> Check:
    """Check whether nodes have GPUs."""
    amounts = [total_of(node).amount(name) for node in nodes if node.state == "RUNNING"]
    having = [amount for amount in amounts if amount]
    most = max(amounts, default=0)
    others = sorted({other for node in nodes for other in total_of(node).additional})
    about = Subject(
        "gpu", resource=name, total=sum(amounts), nodes=len(having), most_on_one_node=most
    )
    if having:
        return about.ok(
            f"{sum(having)} {name} on {plural(len(having), 'node')}, at most {most} on one"
        )
    return about.warning(
        f"no node has any {name}",
        "jobs with gpus are refused",
        f"set gpu_resource; nodes offer {listed(others)}"
        if others
        else "set gpu_resource if it has another name here",
    )


_RUNTIME = "yarn.nodemanager.runtime.linux"


def runtime(confs: Mapping[str, Mapping[str, str]], *, sandbox: bool) -> Check:
    """Check, from the NodeManagers' configurations, whether images are run by Docker.

    Args:
        confs: Configurations by host; empty where none could be read.
        sandbox: Whether the cluster is a sandbox, which runs plain processes by design.
    """
    if not confs:
        said = "no NodeManager returns its configuration"
        return Subject("docker").warning(said, "", "doctor --deep checks whether containers run")
    plain = {host: why for host, conf in confs.items() if (why := why_no_images(conf))}
    networks = sorted(
        {
            item
            for conf in confs.values()
            for item in _split(conf.get(f"{_RUNTIME}.docker.allowed-container-networks", ""))
        }
    )
    about = Subject("docker", asked=sorted(confs), networks=networks)
    if plain and sandbox:
        return about.ok("sandbox: no Docker; images are not used")
    if plain:
        why = next(iter(plain.values()))
        said = f"{listed(sorted(plain))} cannot run images: {why}"
        return about.failure(said, "every job with an image fails there", ways_out(why))
    return about.ok(
        f"Docker is allowed on {listed(sorted(confs))}, with the networks {listed(networks, 8)}"
    )


def _split(text: str) -> Iterable[str]:
    return (item.strip() for item in text.split(",") if item.strip())


def log_aggregation(conf: Mapping[str, str]) -> Check:
    """Check whether logs are collected."""
    about = Subject("log-aggregation")
    if not conf:
        return about.warning("the ResourceManager does not return its configuration")
    if conf.get("yarn.log-aggregation-enable", "false").lower() == "true":
        return about.ok(
            f"logs are collected to {conf.get('yarn.nodemanager.remote-app-log-dir', 'HDFS')}"
        )
    return about.warning(
        "logs are not collected",
        "logs of ended jobs, and the confirmation of their verdicts",
        "yarn.log-aggregation-enable: true, in yarn-site.xml of all nodes",
    )


def placement(conf: Mapping[str, str]) -> Check:
    """Check whether the cluster accepts `placement`."""
    handler = conf.get("yarn.resourcemanager.placement-constraints.handler")
    about = Subject("placement", handler=handler)
    if handler == "disabled":
        return about.warning(
            "placement constraints are disabled",
            "jobs with `placement` never get a container",
            "leave placement out; or yarn.resourcemanager.placement-constraints.handler: scheduler",
        )
    if not handler:
        return about.warning("how placement is handled is unknown")
    return about.ok(f"placement constraints are handled by the {handler}")


def domain(conf: Mapping[str, str], ours: str | None) -> Check:
    """Check that the settings and the cluster use the same domain for container names."""
    theirs = conf.get("hadoop.registry.dns.domain-name")
    about = Subject("dns-domain", settings=ours, cluster=theirs)
    fix = f"set dns.domain to {theirs or 'hadoop.registry.dns.domain-name of the cluster'}"
    if not ours:
        return about.warning("dns.domain is not set", "jobs without the bootstrap", fix)
    if theirs and ours != theirs:
        said = f"dns.domain is {ours}, but {theirs} in the cluster's configuration"
        return about.failure(said, _LOST, fix)
    return about.ok(f"container names end in {ours}")


_LOST = "tasks do not find each other"
_MISSING = "see missing tasks in: submit_tf_job help troubleshooting"
_INSIDE = {
    "resolver": (
        "containers' resolver",
        _LOST,
        "point the nodes' resolv.conf to Registry DNS, or set dns.server",
    ),
    "own-name": ("a task's own name", _LOST, _MISSING),
    "peer-name": ("a peer's name", _LOST, _MISSING),
    "hdfs": (
        "HDFS from a container",
        "programs that read or write HDFS",
        "open the NameNode's port to the nodes' containers",
    ),
    "tokens": (
        "delegation tokens",
        "nothing under simple authentication; HDFS with Kerberos",
        "see: submit_tf_job help kerberos",
    ),
    "gpu": ("GPUs that a task sees", "training on GPUs", "only a job with gpus gets one"),
    "disk": (
        "free disk in the working directory",
        "checkpoints and caches",
        "free space in yarn.nodemanager.local-dirs",
    ),
    "python": ("Python", "the bootstrap needs 3.5 or later", "use an image with a newer Python"),
    "tensorflow": ("TensorFlow", "training with this image", "use an image that has TensorFlow"),
    "keras": (
        "Keras",
        "model.fit under the strategies multi-worker and parameter-server",
        "see: submit_tf_job help frameworks",
    ),
}


_NAMES = ("own-name", "peer-name")
_NAMELESS = "quick links, and programs that look for the names of tasks"


def inside(answers: Mapping[str, Mapping[str, Any]], *, by_name: bool = True) -> tuple[Check, ...]:
    """Return the findings from the probe's results inside a container: `{id: {status, said}}`.

    Args:
        answers: The results.
        by_name: Whether tasks find one another only by the names of Registry DNS.
    """
    found = []
    for name, (what, breaks, fix) in _INSIDE.items():
        answer = answers.get(name, {})
        said = f"{what}: {answer.get('said', 'the probe has no answer')}"
        about = Subject(f"inside-{name}")
        if answer.get("status") == OK:
            found.append(about.ok(said))
        elif name in _NAMES and not by_name:
            found.append(about.warning(said, _NAMELESS))
        elif answer.get("status") == FAILURE:
            found.append(about.failure(said, breaks, fix))
        else:
            found.append(about.warning(said, breaks, fix))
    return tuple(found)
