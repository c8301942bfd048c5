"""What `doctor` finds: values, and the judgements that need nothing but what was read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.diagnose.situation import total_of
from submit_tf_job.diagnose.words import listed, plural, seconds
from submit_tf_job.yarn.observed import ClusterInfo, Node
from submit_tf_job.yarn.queues import Scheduler

__all__ = [
    "FAILURE",
    "OK",
    "WARNING",
    "Examination",
    "Finding",
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
CLOCK_WARNING_S, CLOCK_FAILURE_S = 30.0, 300.0  # Kerberos refuses what is off by more than five minutes


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        id: A word for programs; documented in docs/doctor.md, never changes its meaning.
        status: `ok`, `warning` or `failure`.
        checked: What was seen.
        breaks: What does not work because of it, "" where all is well.
        fix: What to do, "" where there is nothing to do.
        facts: What the sentences are made of.
    """

    id: str
    status: str
    checked: str
    breaks: str = ""
    fix: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Examination:
    """What a doctor found.

    Attributes:
        findings: In the order in which they were looked at.
        skipped: What could not be looked at because something before it failed.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything is broken."""
        return any(finding.status == "failure" for finding in self.findings)


def resource_managers(answers: Mapping[str, ClusterInfo | str]) -> Finding:
    """Judge what each configured ResourceManager answered: its own account, or why there was none."""
    states = {url: seen if isinstance(seen, str) else (seen.ha_state or seen.state or "UNKNOWN") for url, seen in answers.items()}
    facts = {"resource_managers": dict(states)}
    said = listed([f"{url} {state}" for url, state in states.items()], limit=4)
    active = [url for url, seen in answers.items() if isinstance(seen, ClusterInfo) and (seen.ha_state or "ACTIVE") == "ACTIVE"]
    if not active:
        return Finding("resource-manager", FAILURE, said, "every command that needs the cluster", "check --rm and resource_managers", facts)
    silent = [url for url, seen in answers.items() if isinstance(seen, str)]
    if silent:
        return Finding("resource-manager", WARNING, said, "a failover to the one that does not answer", "start it, or correct it", facts)
    return Finding("resource-manager", OK, said, facts=facts)


def clock(offset_s: float) -> Finding:
    """Judge how far this machine's clock is ahead of the ResourceManager's."""
    facts = {"offset_s": round(offset_s, 1)}
    off = f"this machine's clock is {seconds(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} the ResourceManager's"
    if abs(offset_s) < CLOCK_WARNING_S:
        return Finding("clock", OK, "this machine's clock and the ResourceManager's agree", facts=facts)
    status = FAILURE if abs(offset_s) >= CLOCK_FAILURE_S else WARNING
    return Finding("clock", status, off, "times shown for jobs and logs; Kerberos from 5 min on", "synchronise both by NTP", facts)


def authentication(
    method: str, *, cluster: str, user: str, origin: str, known_as: str | None, ticket_s: float | None, renews: bool
) -> Finding:
    """Judge whether the cluster takes us for who we are.

    Args:
        method: How we prove who we are.
        cluster: `hadoop.security.authentication` as the ResourceManager tells it.
        user: Whose jobs they will be.
        origin: Where that comes from.
        known_as: Who we are to the ResourceManager, None where it does not say.
        ticket_s: Seconds for which the Kerberos ticket lasts, None where there is none to see.
        renews: Whether a keytab gets the next ticket.
    """
    facts = {"user": user, "method": method, "cluster": cluster, "known_as": known_as, "ticket_s": round(ticket_s) if ticket_s else None}
    if known_as is not None and method != "simple" and known_as != user:
        fix = f"say --user {known_as}, or set `user`"
        breaks = "host names of tasks, and HDFS directories"
        return Finding("authentication", FAILURE, f"jobs are to run as {user}, and you are {known_as}", breaks, fix, facts)
    seen = f"{method}: jobs run as {user} ({origin})"
    if method == "simple" and cluster == "kerberos":
        return Finding(
            "authentication", WARNING, f"{seen}; the cluster is a Kerberos one", "HDFS, and logs on nodes", "say --auth kerberos", facts
        )
    if method != "kerberos" or renews:
        return Finding("authentication", OK, seen, facts=facts)
    if ticket_s is not None and ticket_s < TICKET_WARNING_S:
        breaks = "watching a job for longer"
        return Finding(
            "authentication", WARNING, f"{seen}; the ticket lasts {seconds(ticket_s)}", breaks, "kinit, or kerberos.keytab", facts
        )
    return Finding("authentication", OK, f"{seen}{f'; the ticket lasts {seconds(ticket_s)}' if ticket_s else ''}", facts=facts)


def queue(name: str, scheduler: Scheduler | None, *, allowed: bool | None, said: str, user: str) -> Finding:
    """Judge whether a user may submit to a queue; `allowed` is None where the scheduler does not say."""
    found = scheduler.find(name) if scheduler else None
    facts = {"queue": name, "allowed": allowed, "state": found.state if found else None}
    broken = f"jobs for queue {name}"
    if scheduler is not None and found is None:
        leaves = listed([item.name for item in scheduler.queues if item.is_leaf], limit=8)
        return Finding("queue", FAILURE, f"there is no queue {name}; there are {leaves}", broken, "correct `queue`", facts)
    if allowed is False:
        return Finding(
            "queue", FAILURE, f"user {user} may not submit to queue {name}: {said or 'its access list'}", broken, "choose another", facts
        )
    if found is not None and found.state not in (None, "RUNNING"):
        return Finding("queue", FAILURE, f"queue {found.path} is {found.state}", broken, "choose another, or have it started", facts)
    if allowed is None:
        return Finding("queue", WARNING, f"whether user {user} may submit to queue {name} was not to be had", "", "submit tells", facts)
    return Finding("queue", OK, f"user {user} may submit to queue {name}", facts=facts)


def nodes_in_service(nodes: tuple[Node, ...]) -> Finding:
    """Judge the NodeManagers."""
    counts = Counter(node.state or "UNKNOWN" for node in nodes)
    said = listed([f"{count} {state}" for state, count in counts.most_common()], limit=8) or "none are known"
    sick = next((node for node in nodes if node.state == "UNHEALTHY"), None)
    words = f"; {sick.host} says: {' '.join((sick.health_report or '').split())[:200]}" if sick else ""
    facts = {"nodes": dict(counts)}
    if not counts["RUNNING"]:
        return Finding("nodes", FAILURE, f"NodeManagers: {said}{words}", "every job: it stays PENDING", "start or mend NodeManagers", facts)
    if counts["UNHEALTHY"] or counts["LOST"]:
        return Finding("nodes", WARNING, f"NodeManagers: {said}{words}", "jobs that need many nodes", "mend those nodes", facts)
    return Finding("nodes", OK, f"NodeManagers: {said}", facts=facts)


def gpus(nodes: tuple[Node, ...], name: str) -> Finding:
    """Judge whether there are GPUs."""
    amounts = [total_of(node).amount(name) for node in nodes if node.state == "RUNNING"]
    having = [amount for amount in amounts if amount]
    facts = {"resource": name, "total": sum(amounts), "nodes": len(having), "most_on_one_node": max(amounts, default=0)}
    if having:
        return Finding("gpu", OK, f"{sum(having)} {name} on {plural(len(having), 'node')}, at most {max(having)} on one", facts=facts)
    return Finding(
        "gpu", WARNING, f"no node has any {name}", "jobs with gpus are refused", "set gpu_resource if it has another name here", facts
    )


_RUNTIME = "yarn.nodemanager.runtime.linux"


def runtime(confs: Mapping[str, Mapping[str, str]], *, sandbox: bool) -> Finding:
    """Judge, from the NodeManagers' own configurations, whether images are run by Docker.

    Args:
        confs: Host to configuration; empty where none was to be had.
        sandbox: Whether the cluster is a sandbox, which runs plain processes on purpose.
    """
    if not confs:
        return Finding("docker", WARNING, "no NodeManager tells its configuration", "", "doctor --deep tells whether containers run")
    plain = [host for host, conf in confs.items() if "Linux" not in conf.get("yarn.nodemanager.container-executor.class", "")]
    without = [host for host, conf in confs.items() if "docker" not in conf.get(f"{_RUNTIME}.allowed-runtimes", "")]
    networks = sorted({item for conf in confs.values() for item in _split(conf.get(f"{_RUNTIME}.docker.allowed-container-networks", ""))})
    facts = {"asked": sorted(confs), "networks": networks}
    if plain and sandbox:
        return Finding("docker", OK, "a sandbox: containers are plain processes, images are names only", facts=facts)
    if plain:
        return Finding(
            "docker",
            FAILURE,
            f"{listed(plain)} {'runs' if len(plain) == 1 else 'run'} containers as plain processes (DefaultContainerExecutor)",
            "images are ignored there: programs meet the node's own Python",
            "yarn.nodemanager.container-executor.class: org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
            facts,
        )
    if without:
        fix = f"add docker to {_RUNTIME}.allowed-runtimes, and [docker] to container-executor.cfg"
        return Finding("docker", FAILURE, f"{listed(without)}: the Docker runtime is not allowed", "every job with an image", fix, facts)
    return Finding("docker", OK, f"Docker is allowed on {listed(sorted(confs))}, with the networks {listed(networks, 8)}", facts=facts)


def _split(text: str) -> Iterable[str]:
    return (item.strip() for item in text.split(",") if item.strip())


def log_aggregation(conf: Mapping[str, str]) -> Finding:
    """Judge whether logs survive their job."""
    if not conf:
        return Finding("log-aggregation", WARNING, "the ResourceManager does not tell its configuration", "", "")
    if conf.get("yarn.log-aggregation-enable", "false").lower() == "true":
        return Finding("log-aggregation", OK, f"logs are collected to {conf.get('yarn.nodemanager.remote-app-log-dir', 'HDFS')}")
    return Finding(
        "log-aggregation",
        WARNING,
        "logs are not collected",
        "logs of a job that is over, and the second witness of its verdict",
        "yarn.log-aggregation-enable: true, in yarn-site.xml of all nodes",
    )


def placement(conf: Mapping[str, str]) -> Finding:
    """Judge whether roles may ask for placement."""
    handler = conf.get("yarn.resourcemanager.placement-constraints.handler")
    facts = {"handler": handler}
    if handler == "disabled":
        return Finding(
            "placement",
            WARNING,
            "placement constraints are disabled",
            "jobs with `placement` never get a container",
            "leave placement out; or yarn.resourcemanager.placement-constraints.handler: scheduler",
            facts,
        )
    said = f"placement constraints are handled by the {handler}" if handler else "how placement is handled was not to be had"
    return Finding("placement", OK if handler else WARNING, said, facts=facts)


def domain(conf: Mapping[str, str], ours: str | None) -> Finding:
    """Judge whether the settings and the cluster agree on the domain of container names."""
    theirs = conf.get("hadoop.registry.dns.domain-name")
    facts = {"settings": ours, "cluster": theirs}
    if ours and theirs and ours != theirs:
        fix = f"set dns.domain to {theirs}"
        return Finding(
            "dns-domain", FAILURE, f"dns.domain is {ours}, the cluster says {theirs}", "tasks do not find each other", fix, facts
        )
    if not ours:
        fix = f"set dns.domain to {theirs}" if theirs else "set dns.domain to hadoop.registry.dns.domain-name of the cluster"
        return Finding("dns-domain", WARNING, "dns.domain is not set", "jobs without the bootstrap", fix, facts)
    return Finding("dns-domain", OK, f"container names end in {ours}", facts=facts)


_INSIDE = {
    "resolver": ("containers' resolver", "tasks do not find each other", "point the nodes' resolv.conf to Registry DNS, or set dns.server"),
    "own-name": ("a task's own name", "tasks do not find each other", "see docs/troubleshooting.md: missing tasks"),
    "peer-name": ("a peer's name", "tasks do not find each other", "see docs/troubleshooting.md: missing tasks"),
    "hdfs": ("HDFS from a container", "programs that read or write HDFS", "open the NameNode's port to the nodes' containers"),
    "tokens": ("delegation tokens", "nothing under simple authentication; HDFS with Kerberos", "see docs/kerberos.md: in the job"),
    "gpu": ("GPUs that a task sees", "training on GPUs", "only a job with gpus gets one"),
    "disk": ("free disk in the working directory", "checkpoints and caches", "free space in yarn.nodemanager.local-dirs"),
    "python": ("Python", "the bootstrap needs 3.7 or later", "use an image with a newer Python"),
    "tensorflow": ("TensorFlow", "training with this image", "use an image that has TensorFlow"),
}


def inside(answers: Mapping[str, Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Judge what the probe said of each thing, from inside a container: `{id: {status, said}}`."""
    found = []
    for name, (what, breaks, fix) in _INSIDE.items():
        answer = answers.get(name, {})
        status = answer.get("status") if answer.get("status") in (OK, WARNING, FAILURE) else WARNING
        said = f"{what}: {answer.get('said', 'the probe did not say')}"
        found.append(Finding(f"inside-{name}", str(status), said, "" if status == OK else breaks, "" if status == OK else fix))
    return tuple(found)
