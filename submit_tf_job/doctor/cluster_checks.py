"""Checks of the cluster: each sends its requests, and judges the responses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import listed, plural, resource, seconds
from submit_tf_job.diagnose.capacity import ways_out, why_no_images
from submit_tf_job.diagnose.situation import total_of
from submit_tf_job.doctor.findings import FAILURE, Check, Examined, Subject
from submit_tf_job.errors import AuthError, SubmitTFJobError
from submit_tf_job.operations.cluster import authenticate
from submit_tf_job.yarn.inspection import QueueResources, all_nodes, configuration, scheduler
from submit_tf_job.yarn.observed_cluster import ClusterInfo, Node

if TYPE_CHECKING:
    from submit_tf_job.yarn.resource_manager import ResourceManager

TICKET_WARNING_S = 3600.0
# Kerberos rejects clocks that differ by more than five minutes
CLOCK_WARNING_S, CLOCK_FAILURE_S = 30.0, 300.0
_CONFIGURATIONS = 3  # NodeManagers whose configuration is read


def check_resource_managers(examined: Examined) -> Iterator[Check]:
    from submit_tf_job.yarn.resource_manager import ResourceManager, Timeouts

    settings, about = examined.settings, Subject("authentication")
    try:
        auth = authenticate(settings)
    except SubmitTFJobError as error:
        yield about.failure(error.message, "every command", error.hint)
        return
    limits = Timeouts(connect_s=3, read_s=8, total_s=8)
    client = ResourceManager(
        settings.resource_managers, auth, timeouts=limits, ca_file=settings.ca_file
    )
    answers = {url: _ask_cluster_info(client, url) for url in settings.resource_managers}
    refused = next((seen for seen in answers.values() if isinstance(seen, AuthError)), None)
    if refused is not None:
        yield about.failure(refused.message, "every command", refused.hint)
    answering = _check_answers(answers)
    yield answering
    if answering.status == FAILURE:
        return
    examined.client = client
    yield from _check_versions(answers)
    times = [seen.sent_s for seen in answers.values() if isinstance(seen, ClusterInfo)]
    known = [sent_s for sent_s in times if sent_s is not None]
    if known:
        yield _check_clock(time.time() - known[-1])


def _ask_cluster_info(client: ResourceManager, url: str) -> ClusterInfo | AuthError | str:
    """Return what one ResourceManager reports about the cluster; if that fails, a refused login as
    `AuthError`, and any other error as a sentence.
    """
    from submit_tf_job.yarn.response import TransportError

    try:
        outcome = client.fetch(url, "/ws/v1/cluster/info", deadline=client.deadline(5))
        if isinstance(outcome, TransportError):
            return outcome.why
        info = outcome.json_object().get("clusterInfo")
    except AuthError as error:
        return error
    except SubmitTFJobError as error:
        return error.message
    if not isinstance(info, Mapping):
        info = {}
    return ClusterInfo.from_json(info, outcome.sent_s)


def _check_answers(answers: Mapping[str, ClusterInfo | AuthError | str]) -> Check:
    states = {url: _state_words(seen) for url, seen in answers.items()}
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


def _state_words(seen: ClusterInfo | AuthError | str) -> str:
    if isinstance(seen, ClusterInfo):
        return seen.ha_state or seen.state or "UNKNOWN"
    return str(seen)


def _check_versions(answers: Mapping[str, ClusterInfo | AuthError | str]) -> Iterator[Check]:
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


def _check_clock(offset_s: float) -> Check:
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


def check_services_api(examined: Examined) -> Check:
    """Check that the services API answers; nothing is submitted."""
    version = examined.cluster.services_version()
    about = Subject("services-api", version=version)
    return about.ok(f"the services API answers (Hadoop {version})")


def check_authentication(examined: Examined) -> Check:
    """Check that the cluster knows this client as the user of the settings, and how long the
    Kerberos ticket is valid. The ResourceManager's configuration is read here, for later checks.
    """
    from submit_tf_job.host.kerberos import ticket

    settings, method, user = examined.settings, examined.settings.auth, examined.settings.user
    examined.conf = configuration(examined.cluster)
    cluster = examined.conf.get("hadoop.security.authentication", "simple").lower()
    known_as, ticket_s = examined.cluster.who_am_i(), None
    if method == "kerberos" and (known := ticket()) and known.ends:
        ticket_s = known.ends - time.time()
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
    seen = f"{method}: jobs run as {user} ({settings.origins['user']})"
    if method == "simple" and cluster == "kerberos":
        return about.warning(
            f"{seen}; the cluster uses Kerberos", "HDFS, and logs on nodes", "use --auth kerberos"
        )
    if method != "kerberos" or settings.kerberos.keytab is not None or ticket_s is None:
        return about.ok(seen)
    seen += f"; the ticket lasts {seconds(ticket_s)}"
    if ticket_s < TICKET_WARNING_S:
        return about.warning(seen, "watching a job for longer", "kinit, or kerberos.keytab")
    return about.ok(seen)


def check_queue(examined: Examined) -> Check:
    """Check that the queue exists and is open, and that the user may submit to it."""
    name, user, known = examined.queue, examined.settings.user, scheduler(examined.cluster)
    found = known.find(name) if known else None
    access = examined.cluster.queue_access(name, user)
    allowed, said = (access.allowed, access.diagnostics) if access else (None, "")
    about = Subject("queue", queue=name, allowed=allowed, state=found and found.state)
    broken = f"jobs for queue {name}"
    if known is not None and found is None:
        leaves = listed([item.name for item in known.queues if item.is_leaf], limit=8)
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


def check_nodes(examined: Examined) -> Iterator[Check]:
    """Check that nodes are in service, and how many GPUs they have under each name in the settings.
    The nodes are kept for later checks.
    """
    examined.nodes = all_nodes(examined.cluster)
    yield _in_service(examined.nodes)
    names = [examined.settings.gpu_resource]
    shapes = examined.settings.shapes.values()
    names += [shape["gpu_resource"] for shape in shapes if shape.get("gpu_resource")]
    for name in dict.fromkeys(names):
        yield _check_gpus(examined.nodes, name)


def _in_service(nodes: tuple[Node, ...]) -> Check:
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


def _check_gpus(nodes: tuple[Node, ...], name: str) -> Check:
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


def check_limits(examined: Examined) -> Check:
    """Return the largest container that the cluster allows; the result is always `ok`."""
    most = examined.cluster.maximum_resources()
    largest = QueueResources(
        most.memory_mib or 0,
        most.vcores or 0,
        {name: value for name, value in most.additional.items() if value < 2**31},
    )
    about = Subject("limits", **largest.to_json())
    return about.ok(f"one container may have at most {resource(largest)}")


_NETWORKS = "yarn.nodemanager.runtime.linux.docker.allowed-container-networks"


def check_docker(examined: Examined) -> Check:
    """Check in the configurations of at most 3 NodeManagers whether they run images with Docker; a
    sandbox need not.
    """
    client = examined.cluster
    scheme = client.node_scheme
    running = [node for node in examined.nodes if node.state == "RUNNING" and node.http_address]
    confs = {}
    for node in running[:_CONFIGURATIONS]:
        url = f"{scheme}://{node.http_address}"
        if conf := configuration(client, url, deadline=client.deadline(4)):
            confs[str(node.host)] = conf
    if not confs:
        said = "no NodeManager returns its configuration"
        return Subject("docker").warning(said, "", "doctor --deep checks whether containers run")
    plain = {host: why for host, conf in confs.items() if (why := why_no_images(conf.get))}
    lists = [conf.get(_NETWORKS, "") for conf in confs.values()]
    networks = sorted({item.strip() for item in ",".join(lists).split(",")} - {""})
    about = Subject("docker", asked=sorted(confs), networks=networks)
    if plain and examined.settings.sandbox:
        return about.ok("sandbox: no Docker; images are not used")
    if plain:
        why = next(iter(plain.values()))
        said = f"{listed(sorted(plain))} cannot run images: {why}"
        policy = examined.settings.job.get("image_policy")
        if policy in ("warn", "allow"):
            without = f"jobs run there without their image (job.image_policy: {policy})"
            return about.warning(said, without)
        return about.failure(said, "every job with an image fails there", ways_out(why))
    return about.ok(
        f"Docker is allowed on {listed(sorted(confs))}, with the networks {listed(networks, 8)}"
    )


def check_log_aggregation(examined: Examined) -> Check:
    """Check whether logs are collected."""
    conf, about = examined.conf, Subject("log-aggregation")
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


def check_placement(examined: Examined) -> Check:
    """Check whether the cluster accepts `placement`."""
    handler = examined.conf.get("yarn.resourcemanager.placement-constraints.handler")
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
