"""The settings profile through which the rest of the package finds a sandbox."""

from __future__ import annotations

from pathlib import Path

import yaml

from submit_tf_job.sandbox.docker import NETWORKS, allowed_mounts, runtimes
from submit_tf_job.sandbox.kdc import principal_of, service_of
from submit_tf_job.sandbox.model import DOMAIN
from submit_tf_job.sandbox.state import Layout, State

__all__ = ["profile_text", "remove_profile", "write_profile"]


def profile_text(state: State, layout: Layout) -> str:
    """Write the profile of a sandbox as YAML."""
    dns = {"domain": DOMAIN}
    if state.resolver == "direct":
        dns["server"] = f"{state.dns_address}:{state.dns_port}"
    settings = {
        "resource_managers": list(state.rm_urls),
        "user": state.user,
        **({"ca_file": str(layout.ca_file)} if state.tls else {}),
        **(_kerberos(state, layout) if state.secure else {}),
        "hadoop_conf": str(layout.client_conf),
        "dns": dns,
        **({"docker": _docker(state, layout)} if state.docker else {}),
        "sandbox": True,
    }
    head = f"# Written by `sandbox up`, removed by `sandbox down` (sandbox {state.name}).\n"
    return head + yaml.safe_dump(settings, sort_keys=False)


def _docker(state: State, layout: Layout) -> dict[str, object]:
    """Say where images are, and what the node allows, so that anything else is refused before a job is submitted."""
    read_only, writable = allowed_mounts(state, layout)
    allowed = {"networks": list(NETWORKS), "runtimes": runtimes(state), "ro_mounts": read_only, "rw_mounts": writable}
    return {"host": state.engine.host, **allowed}


def _kerberos(state: State, layout: Layout) -> dict[str, object]:
    """Say how to log in without kinit, and as whom YARN runs jobs: it wants a principal with a host, and a keytab on the node."""
    principal, service = principal_of(state.user), service_of(state.user)
    login = {"principal": principal, "keytab": str(layout.keytab(principal)), "krb5_conf": str(layout.krb5_conf)}
    job = {"principal": service, "keytab": layout.keytab(service).as_uri()}
    return {"auth": "kerberos", "kerberos": login, "job": {"kerberos": job}}


def write_profile(state: State, layout: Layout) -> None:
    """Write the profile, unless it already stands there as it should."""
    path = Path(state.profile_path)
    text = profile_text(state, layout)
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def remove_profile(path: Path) -> None:
    """Remove the profile; it is fine if it is gone."""
    path.unlink(missing_ok=True)
