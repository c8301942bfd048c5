"""Before anything is done in somebody's name the ResourceManager is asked who we are to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.api.cluster import Cluster, check_identity
from submit_tf_job.errors import AuthError
from submit_tf_job.settings import load_settings


def cluster_of(known_as: str | None, **arguments: Any) -> Cluster:
    given = {"resource_managers": ["http://rm:8088"], "user": "alice", **arguments}
    settings = load_settings(arguments=given, environ={"HOME": "/nonexistent"}, cwd=Path("/"))

    def who_am_i() -> str | None:
        return known_as

    client: Any = SimpleNamespace(auth=SimpleNamespace(as_user=settings["as_user"]), who_am_i=who_am_i)
    return Cluster(settings, client, None, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("known_as", ["alice", None])
def test_who_is_taken_for_who_they_are(known_as: str | None) -> None:
    check_identity(cluster_of(known_as, auth="kerberos"))


def test_simple_authentication_believes_every_name_and_is_not_asked() -> None:
    check_identity(cluster_of("somebody-else"))


def test_a_resource_manager_that_ignores_doas() -> None:
    """Its filter does not know proxy users: the job would be the gateway's own (facts: verified-security-ha 6)."""
    for auth in ("simple", "kerberos"):
        with pytest.raises(AuthError, match="ignores as_user bob: to it you are alice") as caught:
            check_identity(cluster_of("alice", auth=auth, as_user="bob"))
        assert "delegation-token-auth-filter" in caught.value.hint


def test_a_name_that_the_cluster_maps_otherwise() -> None:
    with pytest.raises(AuthError, match=r"you are svc-etl, not alice \(argument\)") as caught:
        check_identity(cluster_of("svc-etl", auth="kerberos"))
    assert "--user svc-etl" in caught.value.hint
