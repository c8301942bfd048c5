"""Checks of how tasks find one another: Registry DNS, or HDFS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job.doctor.findings import Check, Examined, Subject

if TYPE_CHECKING:
    from submit_tf_job.settings import Settings

__all__ = ["check_domain", "check_registry_dns"]

_DNS_S = 3.0
_LOST = "tasks do not find each other"


def check_domain(examined: Examined) -> Iterable[Check]:
    """Check that the settings and the cluster use the same domain for container names."""
    if examined.settings.names == "rendezvous":
        return ()
    ours = examined.settings.dns.domain
    theirs = examined.conf.get("hadoop.registry.dns.domain-name")
    about = Subject("dns-domain", settings=ours, cluster=theirs)
    fix = f"set dns.domain to {theirs or 'hadoop.registry.dns.domain-name of the cluster'}"
    if not ours:
        return (about.ok("dns.domain is not set; each task reads the domain in its container"),)
    if theirs and ours != theirs:
        said = f"dns.domain is {ours}, but {theirs} in the cluster's configuration"
        return (about.failure(said, _LOST, fix),)
    return (about.ok(f"container names end in {ours}"),)


def check_registry_dns(examined: Examined) -> Iterator[Check]:
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp
    from dns.rcode import NOERROR, to_text

    dns = examined.settings.dns
    if examined.settings.names != "dns":
        yield _meeting(examined.settings)
    if examined.settings.names == "rendezvous":
        return
    zone, server = dns.domain, dns.server or _announced(examined.conf)
    if not zone and examined.conf.get("hadoop.registry.dns.enabled", "false") != "true":
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
            _LOST,
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
