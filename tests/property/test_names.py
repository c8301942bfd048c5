"""Names that a job spec and the plan accept are names that YARN accepts; names that they refuse
break one of YARN's rules.

YARN's rules are written here once more, from Hadoop's own classes and not from ours
(hadoop-facts.md#names).
"""

from __future__ import annotations

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.plan import Site, plan
from submit_tf_job.yarn.run_names import host_name, registry_user

MAX_LONG_DIGITS = len(str(2**63 - 1))
letters = "abz019-_.A é"
name = st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
valid = r"[a-z]([a-z0-9-]{0,70}[a-z0-9])?"
label = st.text(letters, max_size=20) | st.from_regex(valid, fullmatch=True)


def registry_user_of_hadoop(user: str) -> str:
    """RegistryUtils.registryUser: KerberosName.getShortName's simple case, lower case, `_` to
    `-`.
    """
    short = re.split(r"[/@]", user, maxsplit=1)[0]
    return short.lower().replace("_", "-")


def yarn_refuses(
    service: str, role: str, instances: int, user: str, domain: str | None
) -> list[str]:
    """ServiceApiUtil.validateAndResolveService with hadoop.registry.dns.enabled, and
    DockerLinuxContainerRuntime.validateHostname.
    """
    mapped = registry_user_of_hadoop(user)
    wrong = []
    if len(mapped) > 63 or not re.fullmatch(r"[a-z][a-z0-9-.]*", mapped):
        wrong.append("user")
    if "_" in service or len(service) > 63 or not re.fullmatch(r"[a-z][a-z0-9-]*", service):
        wrong.append("service")
    if (
        "_" in role
        or len(role) > 63 - MAX_LONG_DIGITS
        or not re.fullmatch(r"[a-z][a-z0-9-]*", role)
    ):
        wrong.append("component")
    if role == service:
        wrong.append("equal")
    for index in (0, instances - 1):
        hostname = f"{role}-{index}.{service}.{mapped}" + (f".{domain}" if domain else "")
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", hostname) or len(hostname) > 64:
            wrong.append("hostname")
    return wrong


SUFFIX = "-4k3f7qa2"


@given(
    service=name,
    role=name,
    instances=st.sampled_from([1, 2, 10, 11, 1000, 10_000]),
    user=label | st.sampled_from(["alice", "Al_Ice", "alice/host@REALM", "alice@REALM", "@", "/"]),
    domain=st.none() | st.sampled_from(["example.com", "x", "hadoop.dc1.corp.example.com"]),
)
@example(service="a" * 36, role="worker", instances=11, user="alice", domain="example.com")
@example(service="version", role="worker", instances=1, user="alice", domain=None)
@example(service="a", role="a", instances=1, user="alice", domain=None)
@example(service="a", role="b" * 44, instances=1, user="c", domain=None)
@example(service="a", role="b" * 45, instances=1, user="c", domain=None)
def test_what_yarn_refuses_is_refused_before(
    service: str, role: str, instances: int, user: str, domain: str | None
) -> None:
    """Names of jobs and roles whose letters the job spec's reader accepts."""
    one = {"memory": "1Gi", "instances": instances}
    spec = {"name": service, "image": "i", "command": "c", "strategy": "custom"}
    text = json.dumps({**spec, "roles": {role: one}})
    run = error = None
    try:
        run = plan(loads(text, source="job.json", base=None), Site(user, domain=domain)).run
    except JobSpecError as refusal:
        error = refusal
    if run is not None:
        assert yarn_refuses(run, role, instances, user, domain) == []
        assert len(host_name(role, instances - 1, run, registry_user(user), domain)) <= 64
        return
    shortest = min(len(service), 4) * "a" + SUFFIX
    refused = yarn_refuses(shortest, role, instances, user, domain)
    assert refused or len(service) > 4 or re.fullmatch(r".*-[0-9][a-z2-7]{7}", service), error
