"""Authentication: what a refusal means for each method, who gets to see a secret, and standbys that
cannot know a token.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter

from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.sdk.client import Client as UserClient
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.auth import (
    Auth,
    DelegationTokenAuth,
    GatewayAuth,
    SimpleAuth,
    check_protected,
)
from submit_tf_job.yarn.credentials import Credentials
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.fakes.clock import FakeClock
from tests.fakes.transport import Answer, FakeNetwork

SECRET = "canary-3e1f"


def secret_file(tmp_path: Path, text: str = SECRET) -> Path:
    path = tmp_path / "secret"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


NO_TOKEN = {
    "RemoteException": {
        "exception": "AuthenticationException",
        "message": "Token for real user: , can't be found in cache",
        "javaClassName": "org.apache.hadoop.security.authentication.client.AuthenticationException",
    }
}


@pytest.mark.parametrize("url", ["http://knox.example.com:8443/gateway/x", "http://10.0.0.1:8088"])
def test_a_secret_does_not_travel_unencrypted(url: str) -> None:
    with pytest.raises(SettingsError, match="would travel unencrypted"):
        check_protected(url, "password")


@pytest.mark.parametrize(
    "url",
    ["https://knox.example.com:8443/gateway/x", "http://localhost:8088", "http://127.0.0.1:8088"],
)
def test_where_a_secret_may_go(url: str) -> None:
    check_protected(url, "password")


# --- where secrets come from ----------------------------------------------------------------------


def test_a_secret_is_nowhere_or_in_two_places(tmp_path: Path) -> None:
    for file, command in ((None, None), (tmp_path / "x", ("cat", "x"))):
        with pytest.raises(SettingsError, match=r"nowhere|two places"):
            Credentials("password", file, command)


def test_a_program_gives_its_secret_itself(tmp_path: Path) -> None:
    given = Credentials("password", None, None, given=f" {SECRET}\n")
    assert given.secret == SECRET
    assert given.renewed(SECRET) is None, "there is no other"
    assert SECRET not in repr(given)
    for wrong in ("", "a\nb"):
        with pytest.raises(SettingsError, match="the password: "):
            Credentials("password", None, None, given=wrong)
    with pytest.raises(SettingsError, match="in two places"):
        Credentials("password", secret_file(tmp_path), None, given=SECRET)
    overrides = {"resource_managers": ["https://rm:8090"], "user": "alice", "auth": "bearer"}
    client = UserClient(
        settings=load_settings(arguments=overrides, environ={"HOME": str(tmp_path)}, cwd=tmp_path),
        secret=SECRET,
    )
    auth = client.cluster.client.auth
    assert isinstance(auth, GatewayAuth)
    assert SECRET not in f"{client!r} {auth!r} {client.settings!r}"


def test_a_command_that_prints_a_secret(tmp_path: Path) -> None:
    found = Credentials("password", None, ("cat", str(secret_file(tmp_path))))
    assert found.secret == SECRET
    assert SECRET not in repr(found)
    secret_file(tmp_path, "another")
    assert found.secret == SECRET, "it is kept"
    assert found.renewed(SECRET) == "another"
    assert found.renewed(SECRET) == "another", "somebody else had it refused meanwhile"
    assert found.renewed("another") is None, "there is no newer one"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("false",), "credentials.command 'false' exited with status 1"),
        (
            ("sh", "-c", "echo the vault is sealed >&2; exit 2"),
            "exited with status 2: the vault is sealed",
        ),
        (
            ("/nowhere/x",),
            "credentials.command '/nowhere/x' cannot be run: No such file or directory",
        ),
    ],
)
def test_a_command_that_fails(command: tuple[str, ...], message: str) -> None:
    with pytest.raises(AuthError, match=r"credentials\.command") as caught:
        _ = Credentials("password", None, command).secret
    assert message in caught.value.message


def test_a_command_that_prints_no_secret() -> None:
    with pytest.raises(SettingsError, match="it is empty"):
        _ = Credentials("password", None, ("true",)).secret
    with pytest.raises(SettingsError, match="more than one line"):
        _ = Credentials("password", None, ("printf", "a\\r\\nX-Evil: 1")).secret


# --- what is sent to whom -------------------------------------------------------------------------


class Recorder(BaseAdapter):
    """Answers by address, and remembers the requests."""

    def __init__(self, answers: Mapping[str, Callable[[requests.PreparedRequest], Answer]]) -> None:
        super().__init__()
        self.answers = answers
        self.seen: list[requests.PreparedRequest] = []

    def send(
        self, request: requests.PreparedRequest, *_args: Any, **_named: Any
    ) -> requests.Response:
        self.seen.append(request)
        host = str(request.url).split("/")[2]
        response = FakeNetwork._response(request, self.answers[host](request))
        response.connection = self  # type: ignore[assignment]
        return response

    def close(self) -> None:
        """There is nothing to close."""


INFO = {"clusterInfo": {"haState": "ACTIVE", "state": "STARTED"}}


def ok(_request: requests.PreparedRequest) -> Answer:
    return Answer.json(INFO)


def client_of(auth: Auth, network: Recorder, *hosts: str) -> ResourceManager:
    clock = FakeClock()
    return ResourceManager(
        [f"http://{host}" for host in hosts],
        auth,
        adapter=network,
        clock=clock,
        sleep=clock.sleep,
        resolve=lambda host: frozenset({host}),
    )


def secrets_in(request: requests.PreparedRequest) -> str:
    return f"{request.url} {dict(request.headers)}"


@pytest.mark.parametrize("kind", ["delegation-token", "Basic", "Bearer"])
def test_a_node_never_sees_the_secret(tmp_path: Path, kind: str) -> None:
    credentials = Credentials(kind, secret_file(tmp_path), None)
    auth = (
        DelegationTokenAuth("alice", credentials)
        if kind == "delegation-token"
        else GatewayAuth(kind, "alice", credentials)
    )
    network = Recorder({"rm:8088": ok, "node:8042": ok})
    client = client_of(auth, network, "rm:8088")
    client.cluster_info()
    client.http.fetch("http://node:8042", "/ws/v1/node/info")
    to_rm, to_node = network.seen
    encoded = base64.b64encode(f"alice:{SECRET}".encode()).decode()
    assert SECRET in secrets_in(to_rm) or encoded in secrets_in(to_rm)
    assert SECRET not in secrets_in(to_node)
    assert encoded not in secrets_in(to_node)
    assert SECRET not in str(to_rm.url)


def test_a_lapsed_token_is_read_again_once(tmp_path: Path) -> None:
    auth = GatewayAuth(
        "Bearer", "alice", Credentials("bearer token", secret_file(tmp_path, "old"), None)
    )

    def gateway(request: requests.PreparedRequest) -> Answer:
        return (
            ok(request)
            if request.headers["Authorization"] == "Bearer new"
            else Answer(401, headers={"WWW-Authenticate": "Bearer"})
        )

    network = Recorder({"rm:8088": gateway})
    client = client_of(auth, network, "rm:8088")
    with pytest.raises(AuthError, match="does not accept the bearer token"):
        client.cluster_info()
    assert len(network.seen) == 1, "the file holds no other"
    secret_file(tmp_path, "new")
    client.cluster_info()
    client.cluster_info()
    assert [request.headers["Authorization"] for request in network.seen[1:]] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


def test_a_standby_that_cannot_know_a_token_is_passed_over(tmp_path: Path) -> None:
    """It answers 403 instead of redirecting: docs/hadoop-facts.md#tokens-and-a-standby."""
    auth = DelegationTokenAuth(
        "alice", Credentials("delegation token", secret_file(tmp_path), None)
    )
    network = Recorder({"rm1:8088": lambda _request: Answer.json(NO_TOKEN, 403), "rm2:8088": ok})
    client_of(auth, network, "rm1:8088", "rm2:8088").cluster_info()
    assert [str(request.url).split("/")[2] for request in network.seen] == ["rm1:8088", "rm2:8088"]


def test_a_token_that_no_resource_manager_knows_is_refused_at_once(tmp_path: Path) -> None:
    auth = DelegationTokenAuth(
        "alice", Credentials("delegation token", secret_file(tmp_path), None)
    )
    unknown = {f"rm{number}:8088": lambda _request: Answer.json(NO_TOKEN, 403) for number in (1, 2)}
    network = Recorder(unknown)
    with pytest.raises(AuthError, match="does not accept the delegation token") as caught:
        client_of(auth, network, *unknown).cluster_info()
    assert len(network.seen) == 2
    assert SECRET not in str(caught.value.to_json())


def test_a_proxy_user_is_named_to_the_resource_manager_only() -> None:
    network = Recorder({"rm:8088": ok, "node:8042": ok})
    client = client_of(SimpleAuth("gw", "alice"), network, "rm:8088")
    client.cluster_info()
    client.http.fetch("http://node:8042", "/ws/v1/node/info")
    assert ["user.name=gw" in str(request.url) for request in network.seen] == [True, True]
    assert ["doAs=alice" in str(request.url) for request in network.seen] == [True, False]
    assert client.auth.user == "alice"
