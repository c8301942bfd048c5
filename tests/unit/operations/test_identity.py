"""The check of the user that the ResourceManager takes this client for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.errors import AuthError
from submit_tf_job.operations.cluster import Cluster, check_identity
from submit_tf_job.settings import load_settings


def cluster_of(known_as: str | None, **arguments: Any) -> Cluster:
    given = {"resource_managers": ["http://rm:8088"], "user": "alice", **arguments}
    settings = load_settings(arguments=given, environ={"HOME": "/nonexistent"}, cwd=Path("/"))

    def who_am_i() -> str | None:
        return known_as

    client: Any = SimpleNamespace(auth=SimpleNamespace(as_user=settings.as_user), who_am_i=who_am_i)
    return Cluster(settings, client, None, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("known_as", ["alice", None])
def test_check_identity_accepts_the_matching_user(known_as: str | None) -> None:
    check_identity(cluster_of(known_as, auth="kerberos"))


def test_check_identity_sends_nothing_under_simple_authentication() -> None:
    check_identity(cluster_of("somebody-else"))


def test_check_identity_where_doas_is_ignored() -> None:
    """Without doAs the job would be the gateway's own (docs/hadoop-facts.md#doas)."""
    for auth in ("simple", "kerberos"):
        with pytest.raises(AuthError, match="ignores as_user bob: to it you are alice") as caught:
            check_identity(cluster_of("alice", auth=auth, as_user="bob"))
        assert "delegation-token-auth-filter" in caught.value.hint


def test_check_identity_where_the_cluster_maps_another_name() -> None:
    with pytest.raises(AuthError, match=r"you are svc-etl, not alice \(argument\)") as caught:
        check_identity(cluster_of("svc-etl", auth="kerberos"))
    assert "--user svc-etl" in caught.value.hint
