"""Create the sandbox's MIT KDC, with all its files in the sandbox's directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.options import REALM
from submit_tf_job.sandbox.processes import call, find_program
from submit_tf_job.sandbox.saved_state import Layout, SandboxState

__all__ = [
    "GATEWAY",
    "KDC_MAIN",
    "USERS",
    "datanode_of",
    "find_programs",
    "job_keytab",
    "kdc_argv",
    "kdc_environment",
    "make_kdc",
    "principal_of",
    "principals",
    "service_of",
]

KDC_MAIN = "krb5kdc"

# Alice and bob have no account on this machine; the gateway may act for the group `users`.
USERS = ("alice", "bob")
GATEWAY = "gw"

_DAEMONS = ("nn", "rm", "nm", "HTTP")


def principal_of(user: str) -> str:
    """Return the principal that a user logs in as."""
    return f"{user}@{REALM}"


def service_of(name: str, host: str = "localhost") -> str:
    """Return the principal of a daemon, or of a user's jobs: YARN requires one with a host."""
    return f"{name}/{host}@{REALM}"


def datanode_of(state: SandboxState) -> str:
    """Return the DataNode's principal.

    Hadoop's RPC client connects from the address of its principal's host (ipc.Client), and clients
    of HDFS are sent to the address from which the DataNode connected.
    """
    return service_of("dn", state.hdfs_host)


def principals(state: SandboxState) -> tuple[str, ...]:
    """Return all principals of a sandbox that have a separate keytab."""
    users = tuple(dict.fromkeys((state.user, state.submitter, *USERS, GATEWAY)))
    daemons = (*map(service_of, _DAEMONS), datanode_of(state))
    return (*daemons, *map(principal_of, users), *map(service_of, users))


def job_keytab(state: SandboxState, user: str) -> Path:
    """Return the keytab of a user's jobs, at the same path on the node and in containers."""
    path = state.layout.keytab(service_of(user))
    return state.layout.exposed / "keytabs" / path.name if state.docker else path


def find_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Find the programs of a KDC.

    Raises:
        SandboxError: One is missing.
    """
    why = "a sandbox with Kerberos runs a KDC of its own"
    hint = "install MIT Kerberos (Debian, Ubuntu: apt-get install krb5-kdc krb5-admin-server)"
    return {
        name: find_program(name, environ, why, hint)
        for name in (KDC_MAIN, "kdb5_util", "kadmin.local")
    }


def make_kdc(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Write the configuration, create the database, and write each principal's keys to a separate
    keytab.

    Raises:
        SandboxError: A program of MIT Kerberos is missing or fails.
    """
    layout = state.layout
    programs = find_programs(environ)
    for directory in (layout.kdc, layout.keytabs):
        directory.mkdir(mode=0o700, exist_ok=True)
    layout.krb5_conf.write_text(_krb5_conf(state))
    (layout.kdc / "kdc.conf").write_text(_kdc_conf(state))
    layout.http_secret.touch(0o600)
    layout.http_secret.write_text(os.urandom(32).hex())
    own = {**environ, **kdc_environment(layout)}
    # The master key may be stored beside the database: both have the same readers.
    call([programs["kdb5_util"], "create", "-s", "-r", REALM, "-P", os.urandom(16).hex()], own)
    names = principals(state)
    orders = "".join(_order(name, layout.keytab(name)) for name in names)
    if state.hdfs_host != "localhost":
        # Clients of WebHDFS request a ticket for the host that they call; one keytab has both
        # names.
        orders += _order(service_of("HTTP", state.hdfs_host), layout.keytab(service_of("HTTP")))
    call([programs["kadmin.local"], "-r", REALM], own, stdin=orders)
    absent = [principal for principal in names if not layout.keytab(principal).is_file()]
    if absent:
        raise SandboxError(f"kadmin.local made no keytab for {', '.join(absent)}")
    if state.docker:
        _give_keytab(state)


def _give_keytab(state: SandboxState) -> None:
    """Copy the keytab of the submitter's jobs to a directory that containers can access, readable
    by that user only.
    """
    state.layout.job_keytabs.mkdir(mode=0o755, exist_ok=True)
    source = state.layout.keytab(service_of(state.submitter))
    target = state.layout.job_keytabs / source.name
    shutil.copyfile(source, target)
    target.chmod(0o400)
    shutil.chown(target, state.submitter)


def kdc_environment(layout: Layout) -> dict[str, str]:
    """Return the variables that keep MIT Kerberos from reading the system's files."""
    return {"KRB5_CONFIG": str(layout.krb5_conf), "KRB5_KDC_PROFILE": str(layout.kdc / "kdc.conf")}


def kdc_argv(layout: Layout, marker: str) -> list[str]:
    """Return the KDC's command line, with the marker after `--`, where the KDC ignores it, and the
    program's plain name, by which `down` recognises it.
    """
    return [KDC_MAIN, "-n", "-r", REALM, "-P", str(layout.kdc / "pid"), "--", marker]


def _order(name: str, keytab: Path) -> str:
    return f"addprinc -randkey {name}\nktadd -norandkey -k {keytab} {name}\n"


def _krb5_conf(state: SandboxState) -> str:
    # Host names are used as written: without DNS canonicalization of `localhost`, and without a
    # container's domain, which MIT 1.20 appends in a container. TCP, because UDP responses are
    # truncated at 1,465 bytes.
    return f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  qualify_shortname = ""
  rdns = false
  forwardable = true
  udp_preference_limit = 1

[realms]
  {REALM} = {{
    kdc = {state.kdc_address}
  }}

[domain_realm]
  localhost = {REALM}
"""


def _kdc_conf(state: SandboxState) -> str:
    address = state.kdc_address
    return f"""[kdcdefaults]
  kdc_listen = {address}
  kdc_tcp_listen = {address}

[realms]
  {REALM} = {{
    database_name = {state.layout.kdc / "principal"}
    key_stash_file = {state.layout.kdc / "stash"}
    acl_file = {state.layout.kdc / "kadm5.acl"}
    max_life = 1d
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}

[logging]
  kdc = STDERR
"""
