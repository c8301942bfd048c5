"""The gateway on a fake cluster: every route, authentication, refusals, and the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from submit_tf_job import Client
from submit_tf_job.errors import (
    AuthError,
    SettingsError,
    UsageError,
)
from submit_tf_job.gateway.app import document, served
from submit_tf_job.gateway.callers import CallerClients, CallersFile, line_of
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.runtime import Gateway, Limits, Slots
from tests.builders.held_job import HELD, hold
from tests.builders.records import write_record
from tests.world.gateway import JOB, World, is_a, refused

# a gateway of its own for each test: seconds in all
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    text = json.dumps(made.entries)
    assert not [token for token in made.tokens.values() if token in text], "a token is in it"


# --- a job's life ---


def test_post_dialect_takes_the_body_for_that_format(world: World) -> None:
    xml = "<configuration><property><name>tony.worker.instances</name><value>1</value></property></configuration>"
    typed = {"content-type": "application/xml"}
    for name in (None, "tony"):
        parameters = {"dialect": name} if name else {}
        answer = world.ask("POST", "/v1/jobs", params=parameters, content=xml, headers=typed)
        assert answer.status_code == 422, answer.text
        assert "there is no tony.application.name" in answer.text
    answer = world.ask("POST", "/v1/jobs?dialect=nothing", "alice", json={"name": "a"})
    assert "there is no format 'nothing'" in answer.text


def test_a_job_from_post_to_delete(world: World) -> None:
    posted = world.post()
    assert is_a("Submission", posted.json())
    run = posted.json()["run"]
    assert (posted.status_code, posted.headers["location"]) == (201, f"/v1/jobs/{run}")
    assert world.apps == [("alice", run)], "it is the caller's, not the gateway's"
    again = world.post()
    assert (again.status_code, again.json()["run"]) == (200, run), "it is pending"

    world.fake.clock.sleep(10)
    seen = world.ask("GET", "/v1/jobs/mnist")
    assert is_a("Job", seen.json())
    assert (seen.json()["state"], seen.json()["user"]) == ("STARTING", "alice")
    assert (
        world.ask(
            "GET", "/v1/jobs/mnist", headers={"If-None-Match": seen.headers["etag"]}
        ).status_code
        == 304
    )
    for name in (run, posted.json()["application_id"]):
        seen = world.ask("GET", f"/v1/jobs/{name}").json()
        assert (seen["name"], seen["run"]) == ("mnist", run)

    refused(world.ask("DELETE", "/v1/jobs/mnist"), 409, "name-taken")
    stopped = world.ask("POST", "/v1/jobs/mnist/stop")
    assert (stopped.status_code, is_a("Job", stopped.json())) == (202, True)
    assert world.ask("POST", "/v1/jobs/mnist/stop?wait=true").json()["state"] == "STOPPED"
    second = world.post()
    assert (second.status_code, second.json()["adopted"]) == (201, False), "it is run again"
    assert world.ask("POST", "/v1/jobs/mnist/stop?wait=true").json()["run"] == second.json()["run"]
    deleted = world.ask("DELETE", f"/v1/jobs/{run}").json()
    assert is_a("Deletion", deleted)
    assert deleted["runs"] == [run]


def test_failed_job_has_its_root_cause_everywhere(world: World) -> None:
    app = world.fake.yarn.apps[world.post().json()["application_id"]]
    world.fake.yarn.end(app, "FAILED", "FAILED", "AM Container exited with  exitCode: -104")
    job = world.ask("GET", "/v1/jobs/mnist").json()
    assert is_a("Job", job)
    assert (job["state"], job["root_cause"]["status"]) == ("FAILED", -104)
    assert job["hint"] == job["root_cause"]["hint"] != ""

    app.words = ""  # what was found is kept
    for path in ("", "/description"):
        seen = world.ask("GET", f"/v1/jobs/mnist{path}").json()
        assert seen["root_cause"] == job["root_cause"], path
    assert world.ask("POST", "/v1/jobs/mnist/stop").json()["root_cause"] == job["root_cause"]
    [(kind, event)] = events_of(world.ask("GET", "/v1/jobs/mnist/events").text)
    assert (kind, event["root_cause"]) == ("job", job["root_cause"])


def test_held_job_is_failed_at_once_and_is_released(world: World) -> None:
    app = world.fake.yarn.apps[world.post(hold_on_failure="30m").json()["application_id"]]
    world.fake.clock.sleep(10)
    refused(world.ask("POST", "/v1/jobs/mnist/release"), 422, "refused")
    deciding = hold(world.fake, app)
    begun = world.fake.clock()
    job = world.ask("GET", "/v1/jobs/mnist").json()
    assert is_a("Job", job)
    assert (job["state"], job["held"], job["root_cause"]["status"]) == ("FAILED", HELD, 7)
    [(kind, event)] = events_of(world.ask("GET", "/v1/jobs/mnist/events").text)
    assert (kind, event["state"]) == ("job", "FAILED")
    said = refused(world.ask("DELETE", "/v1/jobs/mnist"), 409, "name-taken")
    assert "the container of worker-1 is held" in said
    assert world.fake.clock() - begun < 60
    world.fake.clock.after(5, lambda: world.fake.yarn.end(app, "FINISHED", "FAILED"))
    released = world.ask("POST", "/v1/jobs/mnist/release")
    assert (released.status_code, is_a("Job", released.json())) == (200, True)
    assert (released.json()["state"], released.json()["held"]) == ("FAILED", None)
    assert world.fake.yarn.signals == [(deciding, "GRACEFUL_SHUTDOWN")]
    refused(world.ask("POST", "/v1/jobs/mnist/release"), 422, "refused")
    told = [entry.get("result") for entry in world.entries if entry.get("action") == "release"]
    assert told == ["refused", "FAILED", "refused"]


@pytest.mark.parametrize("path", ["release", "stop", "stop?wait=true"])
def test_held_job_stays_failed_however_it_is_ended(world: World, path: str) -> None:
    app = world.fake.yarn.apps[world.post(hold_on_failure="30m").json()["application_id"]]
    world.fake.clock.sleep(10)
    hold(world.fake, app)
    world.fake.yarn.site.version = (3, 1, 3)  # without signals
    assert world.ask("POST", f"/v1/jobs/mnist/{path}").json()["state"] == "FAILED"
    world.fake.clock.sleep(10)
    [listed] = world.ask("GET", "/v1/jobs").json()["jobs"]
    assert listed["state"] == "FAILED"


def test_callers_have_clusters_of_their_own(world: World) -> None:
    for caller in ("alice", "bob", "etl", "alice"):
        world.post(caller)
    assert [user for user, _run in world.apps] == ["alice", "bob", "etl"]
    assert len({run for _user, run in world.apps}) == 3
    acting = {settings.user: settings.as_user for settings in world.connected}
    assert acting == {"alice": "alice", "bob": "bob", "etl": None}, (
        "doAs for everybody but the gateway's own user"
    )
    assert {settings.login for settings in world.connected} == {"etl"}


OF_A_JOB = [
    (method.upper(), path)
    for path, methods in document()["paths"].items()
    for method in methods
    if "{name}" in path
]


@pytest.mark.parametrize(("method", "path"), OF_A_JOB)
def test_every_route_hides_the_jobs_of_others(world: World, method: str, path: str) -> None:
    theirs = world.post("bob").json()["application_id"]
    world.runs_and_writes()
    unknown = "application_1700000000000_9999"

    def answer(name: str) -> dict[str, Any]:
        found = world.ask(method, path.format(name=name))
        refused(found, 404, "no-such-job")
        return {
            key: value.replace(name, "ID")
            for key, value in found.json().items()
            if key in ("detail", "hint")
        }

    assert answer(theirs) == answer(unknown), "the answer does not tell that the job exists"
    assert "bob" not in str(answer("mnist")), "nor by its name"
    assert not world.fake.yarn.apps[theirs].over
    assert world.ask("GET", f"/v1/jobs/{theirs}", "bob").status_code == 200


def test_history_has_the_callers_runs_alone(world: World, tmp_path: Path) -> None:
    refused(world.ask("GET", "/v1/history"), 500, "settings")  # there is no staging directory
    world = World(tmp_path, staging=(tmp_path / "staging").as_uri())
    for at_s, (caller, run) in enumerate(
        [("alice", "first-4aaaaaaa"), ("bob", "theirs-4aaaaaaa"), ("alice", "second-4aaaaaaa")]
    ):
        write_record(tmp_path / "staging", run, user=caller, at_s=at_s)
    for query, names in (
        ("", ["second", "first"]),
        ("?limit=1", ["second"]),
        ("?name=first", ["first"]),
    ):
        found = world.ask("GET", f"/v1/history{query}").json()
        assert is_a("RunHistory", found)
        assert [run["name"] for run in found["runs"]] == names
    refused(world.ask("GET", "/v1/history?name=theirs"), 404, "no-such-job")
    found = world.ask("GET", "/v1/comparison?run=first&run=second").json()
    assert is_a("Comparison", found)
    assert [run["name"] for run in found["runs"]] == ["first", "second"]
    patterns = world.ask("GET", "/v1/comparison?run=*").json()
    assert [run["name"] for run in patterns["runs"]] == ["second", "first"]
    refused(world.ask("GET", "/v1/comparison?run=theirs"), 404, "no-such-job")
    refused(world.ask("GET", "/v1/comparison?run=first&sort=loss"), 400, "usage")
    refused(world.ask("GET", "/v1/comparison"), 400, "usage")


def test_top_tells_whether_a_job_would_start(world: World) -> None:
    found = world.ask("GET", "/v1/top").json()
    assert is_a("ClusterRoom", found)
    assert found["start"] is None
    world.policy.write_text('"*": {role: read, queues: [ml], registries: [docker.io]}')
    answer = world.post(path="/v1/top", queue="ml")
    assert is_a("ClusterRoom", answer.json())
    assert answer.json()["start"]["sentence"] == "it waits for 2 GiB of memory", answer.text
    said = refused(world.post(path="/v1/top"), 403, "policy")
    assert "queue default is not one of ml" in said
    invalid = world.post(path="/v1/top", queue="ml", roles={})
    assert invalid.status_code == 422, invalid.text
    here = world.post(path="/v1/top", queue="ml", files=["/etc/passwd"])
    assert here.status_code == 422, "it uses no files of the gateway's host"
    refused(world.post(path="/v1/jobs", queue="ml"), 403, "policy")
    assert world.apps == [], "nothing is submitted"


def test_usage_of_a_job(world: World) -> None:
    run = world.post().json()["run"]
    world.runs_and_writes()
    found = world.ask("GET", "/v1/jobs/mnist/usage").json()
    assert (is_a("Usage", found), found["series"]) == (True, [])
    [(container, _)] = world.fake.node.logs
    curve = {"name": "loss", "kind": "metric", "points": [[1, 1, 0.5], [2, 2, "NaN"]]}
    usage = {"version": 1, "run": run, "roles": {"worker": {"tasks": 1}}, "series": [curve]}
    world.fake.node.logs[container, "job-usage.json"] = json.dumps(usage).encode()
    found = world.ask("GET", "/v1/jobs/mnist/usage").json()
    assert is_a("Usage", found)
    assert found["asked"]["worker"]["memory_mib"] == 256
    assert found["series"][0]["points"] == curve["points"]
    refused(world.ask("GET", "/v1/jobs/other/usage"), 404, "no-such-job")


def test_lists_pages_and_filters(world: World) -> None:
    for number in range(5):
        world.post(name=f"job-{number}")
        world.fake.clock.sleep(1)
    world.post("bob")
    world.ask("POST", "/v1/jobs/job-2/stop?wait=true")
    found: list[str] = []
    cursor: Any = ""
    while cursor is not None:
        answer = world.ask("GET", f"/v1/jobs?limit=2{cursor and f'&cursor={cursor}'}").json()
        assert is_a("JobList", answer)
        found += [job["name"] for job in answer["jobs"]]
        cursor = answer["next_cursor"]
    assert found == [f"job-{number}" for number in (4, 3, 2, 1, 0)]

    def names(query: str) -> list[str]:
        return [job["name"] for job in world.ask("GET", f"/v1/jobs?{query}").json()["jobs"]]

    assert names("state=STOPPED") == ["job-2"]
    assert len(names("state=RUNNING&state=PENDING")) == 4
    assert names("user=bob") == ["mnist"]
    assert len(names("user=*")) == 6
    assert names("queue=ml") == []
    assert names("name=job-3") == ["job-3"]
    assert names("name=job-*&state=STOPPED") == ["job-2"]
    listed = world.ask("GET", "/v1/jobs").json()["jobs"]
    by_time = {job["name"]: job["submitted_at"] for job in listed}
    interval = f"since={by_time['job-1']}&until={by_time['job-3']}".replace("+00:00", "Z")
    assert names(interval) == ["job-2", "job-1"]
    assert names("since=1s") == [], "the fake cluster's clock is years behind"
    for query in (
        *(
            "since=yesterday",
            "since=%D9%A3h",
            "until=1.5h",
            "since=2026-02-30T00:00:00Z",
            "until=1",
            "name=a%20b",
            "cursor=",
        ),
        *("limit=0", "limit=1001", "cursor=x", "state=DREAMING", "user=a%20b", "stat=RUNNING"),
    ):
        refused(world.ask("GET", f"/v1/jobs?{query}"), 400, "usage")


# --- once ---


def test_submit_same_key_finds_its_run_on_any_gateway(world: World, tmp_path: Path) -> None:
    first = world.post(key="run-1").json()
    other = World(tmp_path, fake=world.fake)  # the gateway is gone, and another takes its place
    again = other.post(key="run-1")
    assert (again.status_code, again.json()) == (200, {**first, "adopted": True})
    world.fake.clock.sleep(10)
    reformatted = json.dumps({**JOB, "network": "host"}, indent=8)
    same = {"Idempotency-Key": "run-1", "Content-Type": "application/yaml"}
    assert other.ask("POST", "/v1/jobs", content=reformatted, headers=same).status_code == 200
    long = "a-job-whose-name-leaves-no-room-for-the-name-of-a-run-in-yarn"
    assert other.post("bob", key="run-1", name=long).status_code == 201, "a key is a caller's"
    other.fake.clock.sleep(10)
    refused(other.post("bob", key="run-1"), 422, "key-reused")
    for changes in ({"command": "sleep 61"}, {"name": "other"}):
        said = refused(other.post(key="run-1", **changes), 422, "key-reused")
        assert said.startswith("this Idempotency-Key was used before with ")
    assert len(world.apps) == 2
    refused(other.post(key="run-2"), 409, "name-taken")
    refused(other.post(key="a b"), 400, "usage")


def test_submit_refused_does_not_use_its_key(world: World) -> None:
    refused(world.post(key="run-1", rolse={}), 422, "job-spec")
    refused(world.post(key="run-1", queue="nowhere"), 422, "refused")
    assert world.post(key="run-1").status_code == 201


# --- who is calling ---


def test_requests_without_a_token_are_refused(world: World) -> None:
    right = f"Bearer {world.tokens['alice']}".encode()
    paths = "GET /jobs,POST /jobs,DELETE /jobs/x,GET /schema,GET /jobs/x/logs"
    for method, _, path in (row.partition(" ") for row in paths.split(",")):
        wrong: list[list[bytes]] = [[], [b"Bearer wrong"], [b"Basic YTpi"], ["Bearer é".encode()]]
        for given in (*wrong, [b"Bearer"], [right, b"Bearer wrong"]):
            headers = [(b"Authorization", value) for value in given]
            answer = world.http.request(method, f"/v1{path}", headers=headers)
            refused(answer, 401, "not-authenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert world.connected == []


def test_query_cannot_set_the_caller(world: World) -> None:
    for query in ("doAs=bob", "user.name=bob", "DOAS=bob", "doAs"):
        refused(world.ask("GET", f"/v1/jobs?{query}"), 400, "usage")
    assert world.connected == []


def test_callers_file_withdrawn_token_and_damaged_file(world: World) -> None:
    assert world.ask("GET", "/v1/jobs").status_code == 200
    world.file.write_text(line_of("bob", world.tokens["bob"]))
    refused(world.ask("GET", "/v1/jobs"), 401, "not-authenticated")
    assert world.ask("GET", "/v1/jobs", "bob").status_code == 200
    world.file.write_text("bob " + world.tokens["bob"])
    assert str(world.file) not in refused(world.ask("GET", "/v1/jobs", "bob"), 500, "settings")
    assert str(world.file) in world.entries[-1]["why"]
    assert world.http.get("/readyz").json() == {
        "ready": False,
        "why": "the file of callers or the policy cannot be read",
    }


@pytest.mark.parametrize(
    "text",
    ["", "# nobody", "alice", "alice sha256:12", "a b sha256:{0}", "a sha256:{0}\nb sha256:{0}"],
)
def test_callers_file_invalid(tmp_path: Path, text: str) -> None:
    path = tmp_path / "callers"
    path.write_text(text.format("0" * 64))
    with pytest.raises(SettingsError):
        CallersFile(path)
    path.write_text(line_of("alice", "x"))
    path.chmod(0o666)
    with pytest.raises(SettingsError, match="others can change it"):
        CallersFile(path)
    with pytest.raises(SettingsError):
        CallersFile(tmp_path / "none")
    with pytest.raises(UsageError):
        line_of("a b", "x")


def test_clusters_refuse_a_resource_manager_that_ignores_doas(world: World) -> None:
    class Impostor:
        auth = type("Auth", (), {"as_user": "alice"})()

        def __init__(self, says: str | None) -> None:
            self._says = says

        def who_am_i(self) -> str | None:
            return self._says

    for says, sentence in (("etl", "ignores as_user alice"), (None, "does not return the user")):
        impostor: Any = Impostor(says)
        clients = CallerClients(
            world.settings,
            lambda settings, rm=impostor: world.connect(settings, rm),  # type: ignore[misc]
        )
        for _ in range(2):
            with pytest.raises(AuthError, match=sentence):
                clients.client_of("alice")
    with pytest.raises(SettingsError, match="as_user does not work with a gateway"):
        CallerClients(world.settings.acting_for("bob"))
    bearer = replace(world.settings, auth="bearer")
    with pytest.raises(SettingsError, match="can act for etl only, not for alice, bob"):
        Gateway(CallerClients(bearer), CallersFile(world.file), print)


def test_open_gateway_serves_only_this_machine(world: World) -> None:
    open_ = Gateway(CallerClients(world.settings, world.connect), None, world.entries.append)
    here = TestClient(served(open_), base_url="http://localhost:8090")
    assert here.post("/v1/jobs", json=JOB).status_code == 201
    assert [user for user, _run in world.apps] == ["etl"]
    evil = ("https://evil.example", "http://localhost:8091", "http://localhost:8090.evil.example")
    for origin in (*evil, "null", "http://[", ""):
        answer = here.post("/v1/jobs/mnist/stop", headers={"Origin": origin})
        refused(answer, 403, "forbidden-origin")
    assert here.get("/v1/jobs", headers={"Origin": "http://localhost:8090"}).status_code == 200, (
        "its own page"
    )
    refused(here.get("/v1/jobs", headers={"Host": "evil.example"}), 403, "forbidden-origin")


# --- what is refused ---

DEEP = b"[" * 100_000
HOSTILE: list[tuple[str, bytes, str, int]] = [
    ("application/json", b"", "job-spec", 422),
    ("application/json", b"{", "job-spec", 422),
    ("application/json", b"[]", "job-spec", 422),
    ("application/json", b'"text"', "job-spec", 422),
    ("application/json", DEEP, "job-spec", 422),
    ("application/json", b'{"a":' * 100_000, "job-spec", 422),
    ("application/json", b'{"name": NaN}', "job-spec", 422),
    ("application/json", b'{"name": "a", "name": "b"}', "job-spec", 422),
    ("application/json", b"\xff\xfe{\x00}\x00", "job-spec", 422),
    ("application/json", b'{"name": "\xed\xa0\x80"}', "job-spec", 422),
    ("application/json", b"name: yaml", "job-spec", 422),
    ("application/yaml", b"a: !!python/object/apply:os.system [id]", "job-spec", 422),
    ("application/yaml", b"a: &a [x]\n" + b"".join(b"b%d: [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" % n for n in range(40)), "job-spec", 422),
    ("application/yaml", DEEP, "job-spec", 422),
    ("application/yaml", b"\x00", "job-spec", 422),
    ("application/yaml", b"a" * (1024 * 1024 + 1), "too-large", 413),
    ("text/plain", b"name: a", "media-type", 415),
    ("", b"name: a", "media-type", 415),
    ("application/json; charset=utf-16", b"{}", "media-type", 415),
    ("multipart/form-data; boundary=x", b"--x--", "usage", 400),
    ("multipart/mixed; boundary=x", b"--x--", "media-type", 415),
]  # fmt: skip


@pytest.mark.parametrize(("media", "body", "code", "status"), HOSTILE, ids=lambda it: str(it)[:20])
def test_hostile_bodies(world: World, media: str, body: bytes, code: str, status: int) -> None:
    answer = world.ask("POST", "/v1/jobs", content=body, headers={"Content-Type": media})
    refused(answer, status, code)
    assert world.apps == []


def test_submit_bodies_without_length_are_bounded(world: World) -> None:
    pieces = (b"x" * 65536 for _ in range(40))
    refused(
        world.ask("POST", "/v1/jobs", content=pieces, headers={"Content-Type": "application/yaml"}),
        413,
        "too-large",
    )
    typed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    packed = world.ask("POST", "/v1/jobs", content=b"x", headers=typed)
    refused(packed, 415, "media-type")


@pytest.mark.parametrize(
    "changes",
    [
        {"files": ["/etc/passwd"]},
        {"files": [{"src": "/etc/passwd", "dst": "a"}]},
        {"roles": {"worker": {"memory": "1Gi", "files": ["/etc/passwd"]}}},
        {"kerberos": {"principal": "a/_HOST@R", "keytab": "/etc/krb5.keytab"}},
        {"kerberos": {"principal": "a/_HOST@R", "keytab": "hdfs:///k", "krb5_conf": "inline"}},
        {"docker_client_config": "file:///etc/shadow"},
        {"docker_client_config": "har://file-localhost/etc/x.har/a"},
    ],
)
def test_submit_reads_no_file_of_the_host(world: World, changes: dict[str, Any]) -> None:
    refused(world.post(**changes), 422, "job-spec")
    assert world.apps == []


@pytest.mark.parametrize(
    "path",
    ["..%2f..%2fetc", "%00", "a%0d%0ab", "é", "a" * 101],
)
def test_invalid_job_names(world: World, path: str) -> None:
    assert world.ask("GET", f"/v1/jobs/{path}").status_code in (400, 404)
    assert world.connected == []


def test_unknown_pages_and_methods(world: World) -> None:
    refused(world.ask("GET", "/v2/jobs"), 404, "no-such-page")
    refused(world.ask("PUT", "/v1/jobs"), 405, "method-not-allowed")
    assert "GET" in world.ask("PUT", "/v1/schema").headers["allow"]


def test_requests_are_limited_per_caller() -> None:
    slots = Slots("requests", (2, 3))
    with slots.take("alice"), slots.take("alice"):
        with (
            pytest.raises(RequestRefused, match="alice has too many requests"),
            slots.take("alice"),
        ):
            pass
        with (
            slots.take("bob"),
            pytest.raises(RequestRefused, match="all callers"),
            slots.take("bob"),
        ):
            pass
    assert slots.taken == 0


# --- errors ---


def test_defect_is_logged_and_not_returned(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise ZeroDivisionError("secret-in-the-text")

    monkeypatch.setattr(Client, "attach", broken)
    app = served(world.gateway)
    client = TestClient(app, base_url="http://gateway", raise_server_exceptions=False)
    answer = client.get(
        "/v1/jobs/mnist",
        headers={"Authorization": f"Bearer {world.tokens['alice']}", "X-Request-Id": "r-77"},
    )
    refused(answer, 500, "internal")
    entry = world.entries[-1]
    assert (entry["request"], entry["status"], entry["caller"]) == ("r-77", 500, "alice")
    assert entry["why"].startswith("ZeroDivisionError at ")
    assert "secret" not in json.dumps(world.entries) + answer.text


def test_unreachable_cluster(world: World) -> None:
    world.post()
    world.fake.yarn.crash(world.fake.yarn.servers[0], 1e6)
    answer = world.ask("GET", "/v1/jobs/mnist")
    refused(answer, 503, "cluster-unavailable")
    assert answer.headers["retry-after"] == "5"
    assert world.http.get("/readyz").status_code == 503
    assert world.http.get("/healthz").json()["alive"] is True


# --- streams ---


def events_of(text: str) -> list[tuple[str, Any]]:
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("event: ")]
    return [
        (block[0].removeprefix("event: "), json.loads(block[-1].removeprefix("data: ")))
        for block in blocks
    ]


def test_events_until_the_end(world: World) -> None:
    world.fake.yarn.site.job_s = (30, 30)
    world.post()
    answer = world.ask("GET", "/v1/jobs/mnist/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events_of(answer.text)
    assert [kind for kind, _ in found] == ["job"] * len(found)
    assert all(is_a("Job", job) for _, job in found)
    states = [job["state"] for _, job in found]
    assert (states[0], states[-1]) == ("PENDING", "SUCCEEDED")
    assert "STARTING" in states
    last = answer.text.rstrip().rpartition("id: ")[2].splitlines()[0]
    assert (
        world.ask("GET", "/v1/jobs/mnist/events", headers={"Last-Event-ID": last}).status_code
        == 204
    )
    assert [
        job["state"] for _, job in events_of(world.ask("GET", "/v1/jobs/mnist/events").text)
    ] == ["SUCCEEDED"]
    refused(world.ask("GET", "/v1/jobs/other/events"), 404, "no-such-job")
    assert (world.gateway.listeners.taken, len(world.gateway.watches)) == (0, 0)


def test_logs_as_text_and_as_json(world: World) -> None:
    world.post()
    world.runs_and_writes()
    text = world.ask("GET", "/v1/jobs/mnist/logs?tail=5")
    assert (text.text, text.headers["content-type"]) == (
        "one\ntwo\\x1b[2J\n",
        "text/plain; charset=utf-8",
    )
    lines = world.ask(
        "GET", "/v1/jobs/mnist/logs?task=worker-0", headers={"Accept": "application/x-ndjson"}
    ).text.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["one", "two\x1b[31m\x1b[2J"]
    refused(world.ask("GET", "/v1/jobs/mnist/logs?task=ps-7"), 400, "usage")
    for text in ("904.5h", "٣h", "1h\n", "-1h", "1e3s", "yesterday"):
        wrong = world.ask("GET", "/v1/jobs/mnist/logs", params={"since": text})
        refused(wrong, 400, "usage")
    assert world.ask("GET", "/v1/jobs/mnist/logs?since=999999d").status_code == 200
    said = "query.since: not in this form: Only lines of the last 90s, 15m, 2h."
    assert wrong.json()["detail"] == said
    refused(world.ask("GET", "/v1/jobs/mnist/logs?grep=a"), 400, "usage")
    refused(world.ask("GET", "/v1/jobs/none/logs"), 404, "no-such-job")
    assert world.gateway.streams.taken == 0


def test_streams_are_bounded_and_end_with_the_gateway(tmp_path: Path) -> None:
    world = World(tmp_path, Limits(streams=(1, 1), listeners=(1, 1)))
    world.post()
    ended: list[Callable[[], None]] = []
    slots = world.gateway.streams
    with (
        world.gateway.stream(slots, "alice", lambda: ended.append(print)),
        world.gateway.listeners.take("alice"),
    ):
        refused(world.ask("GET", "/v1/jobs/mnist/events"), 429, "too-many")
        refused(world.ask("GET", "/v1/jobs/mnist/logs"), 429, "too-many")
        world.gateway.drain()
        assert ended == [print]
    assert world.http.get("/readyz").json() == {"ready": False, "why": "draining"}


def test_requests_that_the_end_of_the_gateway_cuts_off_may_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.post()

    def end(*_args: object) -> None:
        world.gateway.drain()
        raise CancelledError  # as what waits in a call does within a second

    with monkeypatch.context() as ending:
        ending.setattr(Client, "attach", end)
        refused(world.ask("GET", "/v1/jobs/mnist/logs"), 503, "cluster-unavailable")
    late = world.ask("GET", "/v1/jobs/mnist")
    refused(late, 503, "cluster-unavailable")
    assert (late.json()["retryable"], late.headers["retry-after"]) == (True, "5")
    assert world.http.get("/healthz").status_code == 200


# --- what it says of itself ---


def test_metrics_have_no_job_names(world: World) -> None:
    world.post()
    world.ask("GET", "/v1/jobs/mnist")
    world.ask("GET", "/v1/nothing")
    world.http.request("EVIL", "/v1/jobs")
    text = world.http.get("/metrics").text
    assert 'requests_total{method="POST",route="/v1/jobs",status="201"} 1' in text
    assert 'requests_total{method="GET",route="/v1/jobs/{name}",status="200"} 1' in text
    assert 'submissions_total{outcome="new"} 1' in text
    assert 'method="other"' in text
    assert "alice" not in text
    assert "mnist" not in text
    for line in text.splitlines():
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_every_request_is_logged(world: World) -> None:
    answer = world.ask("GET", "/v1/jobs?user=bob", headers={"X-Request-Id": "bad id\x01"})
    [entry] = world.entries
    assert entry["request"] == answer.headers["x-request-id"] != "bad id\x01"
    assert (entry["caller"], entry["method"], entry["path"], entry["status"]) == (
        "alice",
        "GET",
        "/v1/jobs",
        200,
    )
    assert "bob" not in json.dumps(entry), "a query stays out of the log"
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == (
        "no-store",
        "nosniff",
    )


def test_openapi_document_is_current(world: World) -> None:
    served_document = world.http.get("/openapi.json").json()
    assert served_document == document()
    assert served_document["openapi"].startswith("3.1")
    written = json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8"))
    assert written == served_document, "python -m tests.unit.gateway.test_app writes it anew"


def test_openapi_examples_are_accepted_and_links_lead_to_the_job(world: World) -> None:
    operations = {
        operation["operationId"]: (method, path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    _, _, submit = operations["submit_job"]
    bodies = submit["requestBody"]["content"]
    posted = world.ask("POST", "/v1/jobs", json=bodies["application/json"]["example"])
    assert posted.status_code == 201, posted.text
    form = bodies["multipart/form-data"]["example"]
    part = ("job.json", json.dumps(form["job"]), "application/json")
    assert world.ask("POST", "/v1/jobs", files={"job": part}).status_code == 200
    for source, answer in (("submit_job", posted), ("list_jobs", world.ask("GET", "/v1/jobs"))):
        declared = operations[source][2]["responses"][str(answer.status_code)]["links"]
        linked = {row["operationId"] for row in declared.values()}
        assert linked >= {"get_job", "describe_job", "read_logs", "follow_job", "stop_job"}
        for row in declared.values():
            _, path, _ = operations[row["operationId"]]
            [(name, expression)] = row["parameters"].items()
            value = answer.json()
            for key in expression.removeprefix("$response.body#/").split("/"):
                value = value[int(key) if key.isdigit() else key]
            if name == "name":
                assert "{name}" in path
                assert world.ask("GET", f"/v1/jobs/{value}").json()["name"] == "mnist"


def test_openapi_job_spec_agrees_with_the_schema() -> None:
    assert is_a("JobSpec", JOB)
    wrong: list[dict[str, Any]] = [
        {"rolse": 1},
        {"command": []},
        {"command": ["", "a"]},
        {"name": 1},
    ]
    for bad in wrong:
        with pytest.raises(jsonschema.ValidationError):
            is_a("JobSpec", {**JOB, **bad})
    assert is_a("JobSpec", {**JOB, "command": ["python3", ""]})


def test_the_schema_of_job_specs(world: World) -> None:
    assert world.ask("GET", "/v1/schema").json()["title"] == "submit_tf_job job spec"


if __name__ == "__main__":
    (ROOT / "docs" / "openapi.json").write_text(
        json.dumps(document(), indent=1, sort_keys=True) + "\n", "utf-8"
    )
