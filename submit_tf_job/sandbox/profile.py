"""The settings profile through which the rest of the package finds a sandbox."""

from __future__ import annotations

from pathlib import Path

import yaml

from submit_tf_job.sandbox.model import DOMAIN
from submit_tf_job.sandbox.state import Layout, State

__all__ = ["profile_text", "remove_profile", "write_profile"]


def profile_text(state: State, layout: Layout) -> str:
    """Write the profile of a sandbox as YAML."""
    dns = {"domain": DOMAIN}
    if state.resolver == "direct":
        dns["server"] = f"{state.dns_address}:{state.dns_port}"
    settings = {
        "resource_managers": [f"http://localhost:{state.ports['rm_http']}"],
        "user": state.user,
        "hadoop_conf": str(layout.client_conf),
        "dns": dns,
        "sandbox": True,
    }
    head = f"# Written by `sandbox up`, removed by `sandbox down` (sandbox {state.name}).\n"
    return head + yaml.safe_dump(settings, sort_keys=False)


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
