"""A KDC of the sandbox's own: MIT's from the distribution, with database, configuration and keytabs in the sandbox's directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.model import REALM
from submit_tf_job.sandbox.state import Layout, State

__all__ = [
    "GATEWAY",
    "KDC_MAIN",
    "USERS",
    "find_programs",
    "kdc_argv",
    "kdc_environment",
    "kdc_path",
    "make_kdc",
    "principal_of",
    "principals",
    "service_of",
]

KDC_MAIN = "krb5kdc"

# Alice and bob are nobody on this machine; the gateway may act for whoever is in the group `users`.
USERS = ("alice", "bob")
GATEWAY = "gw"

_DAEMONS = ("nn", "dn", "rm", "nm", "HTTP")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/mit/sbin")
_TIMEOUT_S = 60.0


def principal_of(user: str) -> str:
    """Return the principal that a user logs in as."""
    return f"{user}@{REALM}"


def service_of(name: str) -> str:
    """Return the principal of a daemon, or of a user's jobs: YARN wants one with a host."""
    return f"{name}/localhost@{REALM}"


def principals(user: str) -> tuple[str, ...]:
    """Return every principal of a sandbox that `user` runs."""
    users = tuple(dict.fromkeys((user, *USERS, GATEWAY)))
    return (*map(service_of, _DAEMONS), *map(principal_of, users), *map(service_of, users))


def find_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Find the programs of a KDC; distributions put them where users' PATH does not lead.

    Raises:
        SandboxError: when one is missing.
    """
    path = os.pathsep.join([environ.get("PATH") or os.defpath, *_SBIN])
    found = {name: shutil.which(name, path=path) for name in (KDC_MAIN, "kdb5_util", "kadmin.local")}
    missing = [name for name, where in found.items() if where is None]
    if missing:
        raise SandboxError(
            f"{missing[0]} was not found; a sandbox with Kerberos runs a KDC of its own",
            hint="install MIT Kerberos (Debian, Ubuntu: apt-get install krb5-kdc krb5-admin-server)",
        )
    return {name: where for name, where in found.items() if where is not None}


def make_kdc(state: State, layout: Layout, environ: Mapping[str, str]) -> None:
    """Write the configuration, make the database, and put every principal's keys into a keytab of its own.

    Raises:
        SandboxError: when a program of MIT Kerberos is missing or fails.
    """
    programs = find_programs(environ)
    for directory in (layout.kdc, layout.keytabs):
        directory.mkdir(mode=0o700, exist_ok=True)
    layout.krb5_conf.write_text(_krb5_conf(state))
    (layout.kdc / "kdc.conf").write_text(_kdc_conf(state, layout))
    layout.http_secret.touch(0o600)
    layout.http_secret.write_text(os.urandom(32).hex())
    own = {**environ, **kdc_environment(layout)}
    # The master key is stashed beside the database: whoever can read the one can read the other.
    _run([programs["kdb5_util"], "create", "-s", "-r", REALM, "-P", os.urandom(16).hex()], own)
    _run([programs["kadmin.local"], "-r", REALM], own, _orders(principals(state.user), layout))
    absent = [principal for principal in principals(state.user) if not layout.keytab(principal).is_file()]
    if absent:
        raise SandboxError(f"kadmin.local made no keytab for {', '.join(absent)}")


def kdc_environment(layout: Layout) -> dict[str, str]:
    """Return the variables that keep MIT Kerberos away from the system's files."""
    return {"KRB5_CONFIG": str(layout.krb5_conf), "KRB5_KDC_PROFILE": str(layout.kdc / "kdc.conf")}


def kdc_argv(layout: Layout, marker: str, environ: Mapping[str, str]) -> list[str]:
    """Return the KDC's command line; it takes no notice of what stands after `--`."""
    find_programs(environ)
    return [KDC_MAIN, "-n", "-r", REALM, "-P", str(layout.kdc / "pid"), "--", marker]


def kdc_path(path: str) -> str:
    """Return a PATH on which the KDC is found under its plain name, by which `down` knows it again."""
    return os.pathsep.join([path, *_SBIN])


def _orders(names: Iterable[str], layout: Layout) -> str:
    return "".join(f"addprinc -randkey {name}\nktadd -norandkey -k {layout.keytab(name)} {name}\n" for name in names)


def _run(argv: list[str], environ: Mapping[str, str], orders: str = "") -> None:
    try:
        done = subprocess.run(argv, env=dict(environ), input=orders, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{argv[0]} could not be run: {error}") from None
    if done.returncode != 0:
        raise SandboxError(f"{argv[0]} failed (exit status {done.returncode}): {done.stderr.strip()}")


def _krb5_conf(state: State) -> str:
    # Names are taken as they are written: no DNS decides what `localhost` is called. TCP, because UDP answers are cut at 1,465 bytes.
    return f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  forwardable = true
  udp_preference_limit = 1

[realms]
  {REALM} = {{
    kdc = 127.0.0.1:{state.ports["kdc"]}
  }}

[domain_realm]
  localhost = {REALM}
"""


def _kdc_conf(state: State, layout: Layout) -> str:
    address = f"127.0.0.1:{state.ports['kdc']}"
    return f"""[kdcdefaults]
  kdc_listen = {address}
  kdc_tcp_listen = {address}

[realms]
  {REALM} = {{
    database_name = {layout.kdc / "principal"}
    key_stash_file = {layout.kdc / "stash"}
    acl_file = {layout.kdc / "kadm5.acl"}
    max_life = 1d
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}

[logging]
  kdc = STDERR
"""
