"""Credentials of a gateway or a token: where they come from, and who gets to see them."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import submit_tf_job
from submit_tf_job import AuthError, SettingsError
from submit_tf_job.airflow.provider import read_connection
from tests.builders.command_line import Cli, Done
from tests.hostile.conftest import Serve
from tests.hostile.server import Answering, Asked, HostileServer, always, raw

pytestmark = pytest.mark.usefixtures("patient")

SECRET = "canary-3e1f"
HEADERS = {
    "delegation-token": f"X-Hadoop-Delegation-Token: {SECRET}",
    "basic": f"Authorization: Basic {base64.b64encode(f'alice:{SECRET}'.encode()).decode()}",
    "bearer": f"Authorization: Bearer {SECRET}",
}
INFO = raw(200, b'{"clusterInfo": {"haState": "ACTIVE", "state": "STARTED"}}')
JOB = raw(200, b'{"apps": {}}')  # `status` exits with 5 then
NO_TOKEN = {
    "exception": "AuthenticationException",
    "message": "Token for real user: , can't be found in cache",
    "javaClassName": "org.apache.hadoop.security.authentication.client.AuthenticationException",
}
UNKNOWN = raw(403, json.dumps({"RemoteException": NO_TOKEN}).encode())
LAPSED = raw(401, b"", "text/html", "WWW-Authenticate: Bearer")


@pytest.fixture
def secret(home: Path) -> Callable[[str], Path]:
    """Write the secret's file."""
    path = home / "secret"

    def write(text: str) -> Path:
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    write(SECRET)
    return write


def settle(home: Path, auth: str, **credentials: object) -> None:
    """Write the user's settings."""
    path = home / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"auth": auth, "credentials": credentials}))
    path.chmod(0o600)


def status(cli: Cli, *servers: HostileServer) -> Done:
    return cli("status", "mnist", *(word for each in servers for word in ("--rm", each.url())))


def bearer(expected: str) -> Answering:
    """Answer as a gateway that takes one token."""

    def answer(asked: Asked, stream: socket.socket) -> None:
        takes = f"Authorization: Bearer {expected}" in asked.head.splitlines()
        stream.sendall(JOB if takes else LAPSED)

    return answer


def manager_and_node(serve: Serve) -> tuple[HostileServer, HostileServer]:
    """Start a ResourceManager that lists a node, and the node."""
    node = serve(always(raw(200, b"{}")))
    listed = {"state": "RUNNING", "nodeHostName": "n", "nodeHTTPAddress": f"localhost:{node.port}"}
    nodes = raw(200, json.dumps({"nodes": {"node": [listed]}}).encode())
    answers = {"/ws/v1/cluster/info": INFO, "/ws/v1/cluster/nodes": nodes}
    return serve(lambda asked, stream: stream.sendall(answers.get(asked.path, JOB))), node


@pytest.mark.parametrize("auth", HEADERS)
def test_node_never_sees_the_secret(
    cli: Cli, serve: Serve, home: Path, secret: Callable[[str], Path], auth: str
) -> None:
    rm, node = manager_and_node(serve)
    settle(home, auth, file=str(secret(SECRET)))
    done = cli("doctor", "--rm", rm.url())
    assert all(HEADERS[auth] in asked.head for asked in rm.asked), done
    assert node.asked
    for asked in node.asked:
        assert SECRET not in asked.head
        assert HEADERS["basic"] not in asked.head
    assert not any(SECRET in asked.target for asked in rm.asked)


def test_proxy_user_is_named_to_the_resource_manager_only(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_AS_USER", "bob")
    rm, node = manager_and_node(serve)
    cli("doctor", "--rm", rm.url())
    assert all("user.name=alice&doAs=bob" in asked.target for asked in rm.asked)
    assert node.asked
    assert not [asked for asked in node.asked if "doAs" in asked.target]


@pytest.mark.parametrize("url", ["http://knox.example.com:8443/gateway/x", "http://10.0.0.1:8088"])
@pytest.mark.parametrize("auth", HEADERS)
def test_secret_does_not_travel_unencrypted(
    cli: Cli, home: Path, secret: Callable[[str], Path], auth: str, url: str
) -> None:
    settle(home, auth, file=str(secret(SECRET)))
    done = cli("status", "mnist", "--rm", url)
    assert (done.status, "would travel unencrypted" in done.err) == (2, True), done


def test_lapsed_token_is_read_again_once(
    cli: Cli, serve: Serve, home: Path, secret: Callable[[str], Path]
) -> None:
    settle(home, "bearer", command=["sh", "-c", f"cat {home}/secret; echo new > {home}/secret"])
    server = serve(bearer("new"))
    assert status(cli, server).status == 5
    tokens = [asked.head.partition("Bearer ")[2].partition("\r")[0] for asked in server.asked]
    assert tokens[:2] == [SECRET, "new"]
    assert set(tokens[1:]) == {"new"}
    settle(home, "bearer", file=str(secret("old")))
    refused = serve(bearer("another"))
    assert status(cli, refused).status == 4
    assert len(refused.asked) == 1, "the file holds no other"


def test_standby_that_cannot_know_a_token_is_passed_over(
    cli: Cli, serve: Serve, home: Path, secret: Callable[[str], Path]
) -> None:
    """It answers 403 instead of redirecting: hadoop-facts.md#tokens-and-a-standby."""
    settle(home, "delegation-token", file=str(secret(SECRET)))
    standby, active = serve(always(UNKNOWN)), serve(always(JOB))
    assert status(cli, standby, active).status == 5
    assert len(standby.asked) == 1, "from then on the active one is asked first"
    assert standby.asked[0].path == active.asked[0].path
    done = status(cli, standby, serve(always(UNKNOWN)))
    assert (done.status, "does not accept the delegation token" in done.err) == (4, True), done
    assert len(standby.asked) == 2, "what nobody knows was asked again"
    assert SECRET not in done.err


@pytest.mark.parametrize(
    ("credentials", "status_", "message"),
    [
        ({}, 2, "nowhere"),
        ({"file": "/x", "command": ["cat", "x"]}, 2, "two places"),
        ({"command": ["false"]}, 4, "credentials.command 'false' exited with status 1"),
        ({"command": ["sh", "-c", "echo sealed >&2; exit 2"]}, 4, "exited with status 2: sealed"),
        ({"command": ["/nowhere/x"]}, 4, "'/nowhere/x' cannot be run: No such file or directory"),
        ({"command": ["true"]}, 2, "it is empty"),
        ({"command": ["printf", "a\\r\\nX-Evil: 1"]}, 2, "more than one line"),
    ],
)
def test_no_secret(
    cli: Cli, serve: Serve, home: Path, credentials: dict[str, object], status_: int, message: str
) -> None:
    settle(home, "basic", **credentials)
    server = serve(always(JOB))
    done = status(cli, server)
    assert (done.status, message in done.err) == (status_, True), done
    assert not server.asked


@pytest.mark.usefixtures("home")
def test_password_of_an_airflow_connection(serve: Serve) -> None:
    class Connection:
        host, port, schema = "", None, None
        login, password, extra = "alice", SECRET, json.dumps({"auth": "basic"})

    server, given = serve(always(JOB)), read_connection(Connection)
    named = {**given.settings, "resource_managers": [server.url()]}
    with (
        submit_tf_job.Client(secret=given.secret, **named) as client,
        pytest.raises(submit_tf_job.NoSuchJob),
    ):
        client.attach("mnist").status()
    assert server.asked
    assert all(HEADERS["basic"] in asked.head for asked in server.asked)


def test_program_gives_its_secret_itself(home: Path, serve: Serve) -> None:
    server = serve(bearer(SECRET))
    given: dict[str, Any] = {"resource_managers": [server.url()], "user": "alice", "auth": "bearer"}
    with submit_tf_job.Client(secret=f" {SECRET}\n", **given) as client:
        with pytest.raises(submit_tf_job.NoSuchJob):
            client.attach("mnist").status()
        assert SECRET not in f"{client!r} {client.settings!r} {client.cluster.client.auth!r}"
    for wrong, kind, words in (
        ("", SettingsError, "the bearer token: "),
        ("a\nb", SettingsError, "the bearer token: "),
        ("x", AuthError, "does not accept the bearer token"),
    ):
        client = submit_tf_job.Client(secret=wrong, **given)
        with client, pytest.raises(kind, match=words):
            client.attach("mnist").status()
