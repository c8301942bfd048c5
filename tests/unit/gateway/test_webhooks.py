"""Webhooks on a fake cluster and a real SQLite: addresses, signatures, retries."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway import webhook_delivery as delivery
from submit_tf_job.gateway.database import DatabaseFailure, open_database
from submit_tf_job.gateway.state import State, open_state
from submit_tf_job.gateway.webhook_delivery import Webhooks, sender
from submit_tf_job.gateway.webhooks import ATTEMPTS, Allowed, Keyring, pause_s
from tests.fakes.gateway import JOB, World, is_a, refused
from tests.fakes.transport import Fault
from tests.fakes.webhooks import HOOK, Hooked, a_key

DAY_S = 24 * 3600


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Hooked]:
    made = Hooked(tmp_path)
    made.fake.yarn.job_s = 30
    yield made
    made.end()
    assert "secret-in-the-url" not in json.dumps(made.entries), "an address may hold a secret"
    assert not [entry for entry in made.entries if entry.get("event") == "webhooks"], (
        "something failed that nobody expected"
    )


def test_webhook_is_sent_once_and_signed(world: Hooked) -> None:
    assert world.hook().status_code == 201
    assert world.hook().status_code == 200, "the same again is the same webhook"
    world.pass_(20)
    assert (world.received, world.kept()[0]["state"]) == ([], "waiting")
    world.pass_(60)
    [(url, body, headers)] = world.received
    said = json.loads(body)
    assert (url, said["type"], said["data"]["state"], is_a("Job", said["data"])) == (
        HOOK,
        "job.ended",
        "SUCCEEDED",
        True,
    )
    # As a receiver does it: https://www.standardwebhooks.com
    key = base64.b64decode(world.ask("GET", "/v1/webhook-key").json()["key"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    assert (
        headers["webhook-signature"]
        == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    )
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert (
        world.ask("GET", "/v1/webhook-key", "bob").json()["key"]
        != world.ask("GET", "/v1/webhook-key").json()["key"]
    )
    [kept] = world.kept()
    assert kept == {
        "id": headers["webhook-id"],
        "url": HOOK,
        "state": "delivered",
        "attempts": 1,
        "said": "HTTP 204",
    }
    assert is_a(
        "WebhookList",
        world.ask("GET", f"/v1/jobs/{next(iter(world.fake.yarn.apps))}/webhooks").json(),
    )
    app = next(iter(world.fake.yarn.apps))
    for theirs in ("mnist", app):
        assert world.ask("GET", f"/v1/jobs/{theirs}/webhooks", "bob").status_code == 404
    del world.fake.yarn.apps[app]  # YARN forgets finished applications
    assert world.ask("GET", f"/v1/jobs/{app}/webhooks").json()["webhooks"] == [kept]
    assert world.ask("GET", f"/v1/jobs/{app}/webhooks", "bob").status_code == 404
    world.pass_(600)
    assert world.hook().status_code in (200, 409)
    world.pass_(60)
    assert len(world.received) == 1
    assert 'webhooks_total{outcome="delivered"} 1' in world.http.get("/metrics").text


def test_webhook_retries_for_a_day_and_by_the_next_gateway(world: Hooked) -> None:
    assert DAY_S * 0.9 < sum(pause_s(n) for n in range(1, ATTEMPTS)) < DAY_S * 1.1
    assert [pause_s(n) for n in (1, 2, 3, 8, 100)] == [5, 10, 20, 600, 600]
    world.answers = [500, TimeoutError(), 302, 200]
    world.hook()
    world.pass_(45)
    while not world.received:
        world.pass_(5)
    assert world.kept()[0]["state"] == "sending"
    before = world.delivery
    world.begin()
    world.tick()
    assert (len(world.received), world.delivery.leads) == (1, False), "one leads at a time"
    before.end()
    world.tick()
    assert (len(world.received), world.delivery.leads) == (2, True), "the next one tries at once"
    world.pass_(9, 1)
    assert len(world.received) == 2
    world.pass_(3, 1)
    assert len(world.received) == 3
    assert world.kept()[0] | {"id": ""} == {
        "id": "",
        "url": HOOK,
        "state": "sending",
        "attempts": 3,
        "said": "HTTP 302",
    }
    world.pass_(25, 5)
    assert world.kept()[0]["state"] == "delivered"
    assert len({headers["webhook-id"] for _, _, headers in world.received}) == 1, (
        "the receiver knows it again"
    )
    assert len({body for _, body, _ in world.received}) == 1


def test_webhook_gives_up_after_410_and_all_attempts(
    world: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ATTEMPTS", 3)
    world.answers = [410, *[503] * 9]
    world.hook("gone")
    world.pass_(120)
    assert (len(world.received), world.kept()[0]["state"]) == (1, "given-up")
    world.hook("deaf")
    world.pass_(300)
    assert len(world.received) == 1 + 3
    world.hook("elsewhere")
    world.delivery._webhooks = Webhooks(
        Allowed(["https://other.example.com"]), world.keyring, world._receive
    )
    world.pass_(120)
    assert len(world.received) == 4, "the gateway was started with other addresses since"


@pytest.mark.parametrize("kind", ["reset", "silent", "lost"])
def test_webhook_of_an_interrupted_submission_is_kept(world: Hooked, kind: str) -> None:
    """The gateway dies between the POST and its note of the application; whoever comes next finds
    that out.
    """
    world.fake.yarn.job_s = 600
    bind = State.bind
    try:
        State.bind = lambda *_arguments: None  # type: ignore[method-assign]
        world.fake.network.faults.append(Fault(kind, "POST", "/app/v1/services$"))
        world.hook()
    finally:
        State.bind = bind  # type: ignore[method-assign]
    if not world.apps:
        world.pass_(2000, 50)
        assert world.gateway.store is not None
        assert world.gateway.store.database.run("SELECT * FROM submit_tf_job_webhooks") == [], (
            "of a job that never was"
        )
        return
    world.pass_(120)
    assert [hook["state"] for hook in world.kept()] == ["waiting"]
    world.pass_(900, 20)
    assert [json.loads(body)["data"]["name"] for _, body, _ in world.received] == ["mnist"]


def test_webhook_job_missing_from_a_list_is_checked(
    world: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fake.yarn.job_s = 600
    world.hook()
    with monkeypatch.context() as patched:
        # as a ResourceManager that recovers its state
        patched.setattr(operations, "list_jobs", lambda *_arguments: ())
        world.pass_(60)
    assert (world.received, world.kept()[0]["state"]) == ([], "waiting")
    world.fake.yarn.apps.clear()
    world.fake.yarn.services.clear()
    world.pass_(120)
    assert [json.loads(body)["data"]["state"] for _, body, _ in world.received] == ["UNKNOWN"]


def test_webhook_of_a_refused_submission_is_deleted(world: Hooked) -> None:
    assert world.gateway.store is not None
    refused(
        world.ask(
            "POST", "/v1/jobs", json={**JOB, "queue": "nowhere"}, headers={"Webhook-Url": HOOK}
        ),
        422,
        "refused",
    )
    refused(
        world.ask("POST", "/v1/jobs", json={**JOB, "rolse": 1}, headers={"Webhook-Url": HOOK}),
        422,
        "job-spec",
    )
    assert world.gateway.store.database.run("SELECT * FROM submit_tf_job_webhooks") == []


NOT_ALLOWED = [
    "https://hooks.example.com/airflowx", "https://hooks.example.com/", "https://hooks.example.com:8443/airflow/x",
    "http://hooks.example.com/airflow/x", "https://hooks.example.com.evil.example/airflow/x", "https://evil.example/airflow/x",
    "https://hooks.example.com@evil.example/airflow/x", "https://a:b@hooks.example.com/airflow/x", "https://169.254.169.254/latest",
    "https://hooks.example.com/airflow/../admin", "https://hooks.example.com/airflow/%2e%2e/admin", "https://hooks.example.com//airflow/x",
    "https://hooks.example.com/airflow/x#y", "https://hooks.example.com\\@evil.example/airflow/x", "file:///etc/passwd",
    "https://hooks.example.com/airflow/a%2Fb", "gopher://hooks.example.com/airflow/", "https://hooks.example.com:x/airflow", "x",
    "https://[::ffff:127.0.0.1]/airflow", "//hooks.example.com/airflow/x", "https://hooks.example.com/airflow/{x}", "https:///airflow/x",
]  # fmt: skip


@pytest.mark.parametrize("url", NOT_ALLOWED)
def test_webhook_goes_only_to_allowed_addresses(world: Hooked, url: str) -> None:
    refused(world.hook(url=url), 400, "usage")
    assert world.apps == []


def test_allowed_check() -> None:
    for prefix, url in [
        ("https://a.example/x", "https://a.example/x"),
        ("https://a.example/x", "https://A.example:443/x/y?q=1"),
        ("https://a.example", "https://a.example/anything"),
        ("http://10.0.0.7:8080/x/", "http://10.0.0.7:8080/x/y"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]/x"),
    ]:
        assert Allowed([prefix]).check(url) == url
    with pytest.raises(UsageError):
        Allowed(["ftp://a"])


def test_webhook_header_without_webhooks_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    refused(world.ask("POST", "/v1/jobs", json=JOB, headers={"Webhook-Url": HOOK}), 400, "usage")
    refused(world.ask("GET", "/v1/webhook-key"), 404, "no-such-page")
    world.post()
    assert world.ask("GET", "/v1/jobs/mnist/webhooks").json()["webhooks"] == []


def test_used_keys_are_shared_by_a_database(world: Hooked) -> None:
    assert world.post(key="run-1").status_code == 201
    world.begin()
    assert "another body" in refused(world.post(key="run-1", name="mnist-2"), 422, "key-reused")
    assert world.post(key="run-1").status_code == 200


@contextlib.contextmanager
def disk_full(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size (Python ignores SIGXFSZ, so writes fail with
    EFBIG).
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_webhook_on_a_full_disk_submits_nothing(world: Hooked) -> None:
    world.hook("first")
    with disk_full(1):
        answer = world.hook("second")
        refused(answer, 503, "state-unavailable")
        assert (answer.json()["retryable"], [name for _, name in world.apps]) == (True, ["first"])
        assert world.post(key="run-1", name="third").status_code == 201, (
            "the cluster itself remembers submissions"
        )
        world.pass_(60)
        assert world.received == [], "what cannot be counted is not sent"
    world.pass_(60)
    assert len(world.received) == 1
    assert world.hook("second").status_code == 201
    assert [entry for entry in world.entries if entry.get("event") == "state"]
    world.entries[:] = [entry for entry in world.entries if entry.get("event") != "webhooks"]


def test_state_two_writers_and_sweep(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    one, other = (
        State(open_database(f"sqlite://{tmp_path}/s.db"), lambda: now[0]) for _ in range(2)
    )
    lead = one.database.lead()
    assert lead is not None
    assert other.database.lead() is None
    made = other.announce("alice", HOOK, "mnist", "k1")
    other.bind(made, "application_1_1")
    again = one.announce("alice", HOOK, "mnist", "k1")
    one.bind(again, "application_1_1")
    assert [hook.id for hook in one.webhooks("alice", "application_1_1")] == [made.id], (
        "one address is told once"
    )
    one.over(made, "{}", lead)
    assert one.begin(made, lead) == (1, "{}")
    one.settle(made, "delivered", "HTTP 200", lead)
    now[0] -= 10 * DAY_S  # a clock that is put back
    one.sweep(lead)
    assert one.webhooks("alice", "application_1_1")
    now[0] += 20 * DAY_S
    one.sweep(lead)
    assert one.webhooks("alice", "application_1_1") == []
    lead.end()
    with pytest.raises(DatabaseFailure):
        lead.run("SELECT 1")
    next_one = other.database.lead()
    assert next_one is not None
    next_one.end()
    for store in (one, other):
        store.database.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://x/y", "mysql is not a supported database"),
        ("state.db", "this is not a supported database"),
        ("sqlite://relative.db", "sqlite is not a supported database"),
        ("postgresql://alice:secret@db/x", "a password in a command line"),
        ("postgresql://db/x?password=secret", "a password in a command line"),
    ],
)
def test_open_database_refuses_other_urls(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        open_state(url)
    assert "secret" not in str(caught.value)


def test_sender_refuses_missing_options_and_invalid_keys(tmp_path: Path) -> None:
    for text in (
        "",
        "whsec_",
        "whsec_c2hvcnQ=",
        "no base64!",
        base64.b64encode(bytes(32)).decode(),
    ):
        path = a_key(tmp_path)
        path.write_text(text)
        with pytest.raises(SettingsError):
            Keyring(path)
    a_key(tmp_path).chmod(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        Keyring(tmp_path / "webhook-key")
    with pytest.raises(SettingsError, match="cannot be opened"):
        open_state("sqlite:///nowhere/at/all.db")
    (tmp_path / "open.db").touch(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        open_state(f"sqlite://{tmp_path}/open.db")
    (tmp_path / "text.db").write_text("this is no database, however long one may look at it" * 100)
    (tmp_path / "text.db").chmod(0o600)
    with pytest.raises(SettingsError, match="not a database"):
        open_state(f"sqlite://{tmp_path}/text.db")
    key = a_key(tmp_path)
    key.chmod(0o600)
    missing: list[Callable[[], Any]] = [
        lambda: sender(["https://a.example"], None, None, kept=True),
        lambda: sender([], key, None, kept=True),
        lambda: sender(["https://a.example"], key, None, kept=False),
    ]
    for call in missing:
        with pytest.raises(UsageError, match="webhooks need all three"):
            call()
    assert sender([], None, None, kept=True) is None
    assert sender(["https://a.example"], key, None, kept=True) is not None
