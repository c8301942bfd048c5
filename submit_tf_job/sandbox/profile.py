"""Write the settings profile that makes the rest of the package use a sandbox."""

from __future__ import annotations

from pathlib import Path

import yaml

from submit_tf_job.sandbox.docker import NETWORKS, allowed_mounts, runtimes
from submit_tf_job.sandbox.hardening import job_keytab, principal_of, service_of
from submit_tf_job.sandbox.options import DOMAIN
from submit_tf_job.sandbox.saved_state import SandboxState

__all__ = ["write_profile"]


def _profile_text(state: SandboxState) -> str:
    job: dict[str, object] = {}
    if state.secure:
        # YARN requires a principal with a host, and a keytab on the node. Containers of images have
        # the submitter's only.
        user = state.submitter if state.docker else "{user}"
        keytab = f"file://{job_keytab(state, user)}"
        job["kerberos"] = {"principal": service_of(user), "keytab": keytab}
    if not state.docker:
        # without Docker it runs plain processes on purpose
        job["image_policy"] = "warn"
    settings: dict[str, object] = {
        "resource_managers": list(state.rm_urls),
        "user": state.submitter,
    }
    if state.tls:
        settings["ca_file"] = str(state.layout.ca_file)
    if state.secure:
        settings |= _kerberos(state)
    settings |= {"hadoop_conf": str(state.layout.client_conf), **_names(state)}
    if state.docker:
        settings["docker"] = _docker(state)
    if job:
        settings["job"] = job
    settings["sandbox"] = True
    head = f"# Written by `sandbox up`, removed by `sandbox down` (sandbox {state.name}).\n"
    return head + yaml.safe_dump(settings, sort_keys=False)


def _names(state: SandboxState) -> dict[str, object]:
    if not state.dns:
        return {"names": "rendezvous"}
    dns = {"domain": DOMAIN}
    if state.resolver == "direct":
        dns["server"] = str(state.dns_server)
    return {"dns": dns}


def _docker(state: SandboxState) -> dict[str, object]:
    """Return the settings for images and for what the node allows, so that other job specs are
    refused before submission.
    """
    read_only, writable = allowed_mounts(state)
    allowed = {
        "networks": list(NETWORKS),
        "runtimes": runtimes(state),
        "ro_mounts": read_only,
        "rw_mounts": writable,
    }
    return {"host": state.engine.host, **allowed}


def _kerberos(state: SandboxState) -> dict[str, object]:
    principal = principal_of(state.submitter)
    login = {
        "principal": principal,
        "keytab": str(state.layout.keytab(principal)),
        "krb5_conf": str(state.layout.krb5_conf),
    }
    return {"auth": "kerberos", "kerberos": login}


def write_profile(state: SandboxState) -> None:
    """Write the profile, unless the file has this content already."""
    path = Path(state.profile_path)
    text = _profile_text(state)
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)
