"""`submit` on a simulated YARN: what it posts, prints and returns."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.host import hadoop_xml
from tests.world import World
from tests.world.transport import Answer
from tests.world.weather import Fault

SPEC = "mnist.yaml"


def test_submit_posts_what_render_prints_and_follows_to_the_end(world: World) -> None:
    world.spec()
    world.cluster.yarn.site.job_s = (30, 30)
    rendered = world("render", SPEC)
    done = world("submit", SPEC, "--timeout", "15m")
    posted = world.service
    assert posted == json.loads(rendered.out)
    [app] = world.cluster.yarn.apps.values()
    assert done.err.splitlines()[:3] == [
        f"Submitted mnist as {posted['name']} ({app.id})",
        "  submit_tf_job watch mnist    submit_tf_job logs mnist -f",
        f"  http://rm1:8088/cluster/app/{app.id}",
    ]
    assert done.out.splitlines()[0].startswith("mnist  SUCCEEDED after ")


def test_submit_tells_a_host_from_a_path(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    world.spec(inputs={"data": "hdfs://models/x"}, outputs={"model": "hdfs://models/y"})
    done = world("submit", SPEC)
    assert done.status == 2, done
    for key, line in (("inputs.data", 14), ("outputs.model", 16)):
        assert (
            f"mnist.yaml:{line}:3: {key}: hdfs://models: models was read as a NameNode, and none "
            "answers (models:8020: Name or service not known); for a path on the cluster's own "
            "HDFS write three slashes: hdfs:///models/…"
        ) in done.err, done.err
    world.spec(inputs={"data": "hdfs://models.example.com/x"})
    assert world("submit", SPEC).status == 7, "a host, which may come back"


def refused(*_address: object, **_options: object) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def busy(*_address: object, **_options: object) -> None:
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def unknown(*_address: object, **_options: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


NO_HDFS = [
    # a NameNode may come back, a name server may answer
    ("hdfs://nn:8020", refused, 7, 300, "no NameNode answers (nn:8020: Connection refused)"),
    ("hdfs://nn:8020", busy, 7, 300, "(nn:8020: Temporary failure in name resolution)"),
    # what no attempt can mend
    ("hdfs://nn:8020", unknown, 7, 0, "no NameNode answers (nn:8020: Name or service not known)"),
    (
        "hdfs://nn:port",
        refused,
        2,
        0,
        "'hdfs://nn:port', which is not the address of a file system",
    ),
    ("hdfs://${env.NN_OF_NOBODY}", refused, 2, 0, "${env.NN_OF_NOBODY}, which is not set here"),
    ("nosuch://nn:8020", refused, 2, 0, "nosuch"),
]


@pytest.mark.parametrize(("default_fs", "connects", "status", "waits_s", "said"), NO_HDFS)
def test_submit_ends_with_the_reason_where_hdfs_cannot_be_read(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    default_fs: str,
    connects: Callable[..., None],
    status: int,
    waits_s: int,
    said: str,
) -> None:
    (world.home / "core-site.xml").write_text(hadoop_xml({"fs.defaultFS": default_fs}))
    monkeypatch.setenv("SUBMIT_TF_JOB_HADOOP_CONF", str(world.home))
    monkeypatch.setattr(socket, "create_connection", connects)
    world.spec(start_timeout="60s")
    begun = world.cluster.clock()
    done = world("submit", SPEC, "-d")
    assert (done.status, said in done.err) == (status, True), done
    assert waits_s <= world.cluster.clock() - begun <= waits_s + 20
    assert "Without hadoop_conf, the ResourceManager is asked" in done.err, "the way round"
    waiting = [line for line in done.err.splitlines() if "waiting for mnist-" in line]
    assert [said in line for line in waiting] == ([True] if waits_s else [])
    assert POST not in world.asked()


def requests_without_names(world: World) -> list[tuple[str, str]]:
    return [(method, re.sub(r"(mnist|later)-\w+", "RUN", path)) for method, path in world.asked()]


@pytest.mark.parametrize(("are_over", "long_answers"), [(True, 0), (False, 2)])
def test_submit_asks_no_more_where_a_user_has_a_thousand_applications(
    world: World, monkeypatch: pytest.MonkeyPatch, are_over: bool, long_answers: int
) -> None:
    """Only live ones are listed, which may be of the same job: once before the POST, once after."""
    network, sizes = world.cluster.network, list[int]()
    ask = network.ask

    def ask_and_measure(*arguments: Any) -> Answer:
        answer = ask(*arguments)
        sizes.append(len(answer.body))
        return answer

    monkeypatch.setattr(network, "ask", ask_and_measure)
    world.spec()
    assert world("submit", SPEC, "-d").status == 0
    alone = requests_without_names(world)
    for number in range(1000):
        app = world.yarn.submit_app("alice", {"name": f"other-{number}"})
        if are_over:
            world.yarn.end(app, "FINISHED", "SUCCEEDED")
    world.spec("later")
    sizes.clear()
    assert world("submit", "later.yaml", "-d").status == 0
    assert requests_without_names(world) == alone
    assert sum(size > 2000 for size in sizes) == long_answers


def test_submit_detached(world: World) -> None:
    world.spec()
    done = world("submit", SPEC, "--detach", "-v", "--submission-id", "run-7")
    [app] = world.cluster.yarn.apps.values()
    assert (done.status, done.out) == (0, f"{app.id}\n")
    assert ", submission run-7" in done.err.splitlines()[0]
    assert world.service["version"] == "run-7"
    again = world("submit", SPEC, "-d", "-q", "--submission-id", "run-7", "-o", "json")
    assert (again.status, again.err) == (0, "")
    told = {
        "kind": "Submission",
        "name": "mnist",
        "run": world.service["name"],
        "application_id": app.id,
        "submission": "run-7",
        "adopted": True,
        "warnings": [],
    }
    assert told.items() <= again.json.items()
    assert len(world.cluster.yarn.apps) == 1


def test_submit_again_follows_the_live_run_or_runs_the_job_again(world: World) -> None:
    first = world.submitted()
    run = world.name
    world.cluster.clock.after(20, world.ends)
    done = world("submit", SPEC)
    assert f"mnist was submitted already, as {run} ({first})" in done.err.splitlines()
    once = world("submit", SPEC, "--once", "-d", "-o", "json").json
    assert (once["adopted"], once["run"], once["application_id"]) == (True, run, first)
    again = world("submit", SPEC, "-d")
    assert again.err.startswith(f"mnist runs again ({run} has ended), as mnist-"), again.err
    assert len(world.cluster.yarn.apps) == 2
    world.passes(10)
    third = world("submit", SPEC, "-d", "-o", "json").json
    assert (third["adopted"], third["application_id"]) == (True, again.out.strip())


def test_a_deleted_key_is_used_as_long_as_yarn_remembers_a_number_of_it(world: World) -> None:
    world.submitted()
    world.ends("FAILED")
    world.submitted()
    first, second = world.yarn.apps
    world.ends()
    del world.yarn.apps[first]
    assert world("delete", "mnist").status == 0
    done = world("submit", SPEC, "--once", "-d")
    assert (done.status, done.out.strip(), list(world.yarn.apps)) == (0, second, [second]), done


def test_a_name_is_its_newest_run_and_a_run_is_itself(world: World) -> None:
    world.submitted()
    first, run = world.application, world.name
    world.ends("FAILED")
    world.submitted()
    for words, found in (("mnist", world.application), (run, first), (first, first)):
        assert world("status", words, "-o", "json").json["application_id"] == found
    listed = world("list", "-o", "json").json["jobs"]
    assert [job["application_id"] for job in listed] == [world.application]
    every = world("list", "--runs", "-o", "json").json["jobs"]
    assert [job["run"] for job in every] == [world.name, run]
    assert world("delete", run).out == f"deleted: {run}\n"
    assert world("status", "mnist", "-o", "json").json["run"] == world.name


def test_a_submission_with_an_id_is_never_run_again(world: World) -> None:
    world.spec()
    first = world("submit", SPEC, "-d", "--submission-id", "nightly-7").out
    world.passes(10)
    world.ends("FAILED")
    done = world("submit", SPEC, "--submission-id", "nightly-7")
    assert (done.status, first.strip() in done.err) == (1, True), done
    assert len(world.yarn.apps) == 1


def test_two_users_run_jobs_of_one_name_at_the_same_time(world: World) -> None:
    first = world.submitted()
    other = world("submit", SPEC, "-d", "--user", "bob", "-o", "json").json
    assert (other["adopted"], other["application_id"] != first) == (False, True)
    assert other["run"] != world.name
    assert world("status", "mnist", "--user", "bob", "-o", "json").json["user"] == "bob"


def test_submit_of_another_job_of_a_living_name_is_refused(world: World) -> None:
    world.submitted()
    world.spec(command=["python", "other.py"])
    done = world("submit", SPEC)
    assert (done.status, done.out) == (6, "")
    assert world.application in done.err
    assert len(world.cluster.yarn.apps) == 1


def test_submit_of_an_invalid_job_spec_sends_no_request(world: World) -> None:
    world.spec(image="Library/TF:2")
    done = world("submit", SPEC)
    assert (done.status, done.out, world.cluster.yarn.apps) == (2, "", {})
    assert done.err.startswith("mnist.yaml:2:1: image: 'Library/TF:2' is not an image name")
    assert world.cluster.yarn.serial == 0


def test_submit_with_logs_shows_the_output(world: World) -> None:
    chief = world.running()["chief-0"]
    text = b"Epoch 1/3\n1/2 [=>]\r2/2 [==] FAILED \x1b[1mtests\x1b[0m\n"
    place = "/nm/usercache/alice/appcache/application_1_1/container_1_1_01_000002/train.py"
    text += f'  File "{place}", line 4\n'.encode()
    world.cluster.clock.after(20, lambda: world.writes(chief, "stdout.txt", text))
    world.cluster.clock.after(90, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    world.cluster.clock.after(91, world.ends)
    done = world("submit", SPEC, "--logs")
    lines = [line for line in done.err.splitlines() if line.startswith("chief-0 | ")]
    shown = ["Epoch 1/3", "2/2 [==] FAILED tests", '  File "train.py", line 4']
    assert lines == [f"chief-0 | {line}" for line in shown], done.err


# --- what is asked before the POST, and what is refused there -------------------------------------

CLUSTER, SERVICES = "/ws/v1/cluster", "/app/v1/services"
POST = ("POST", SERVICES)


def test_each_request_before_a_post_has_its_reason(world: World) -> None:
    """docs/verdict.md#lost-answers has the reasons."""
    world.spec()
    assert world("submit", SPEC, "-d").status == 0
    asked = world.asked()
    assert asked[: asked.index(POST)] == [
        ("GET", f"{CLUSTER}/info"),
        ("GET", f"{CLUSTER}/apps"),
        ("GET", f"{CLUSTER}/apps"),
        ("GET", f"{SERVICES}/{world.service['name']}"),
        ("POST", f"{CLUSTER}/apps/new-application"),
        ("GET", f"{CLUSTER}/nodes"),
        ("GET", "/conf"),  # its executor
        ("GET", "/conf"),  # and the runtimes that this one allows
    ]


def too_large(world: World) -> None:
    world.yarn.site.max_mb = 512


def too_many(world: World) -> None:
    world.yarn.site.node_mb = world.yarn.site.free_mb = 2048


def plain_processes(world: World) -> None:
    executor = "org.apache.hadoop.DefaultContainerExecutor"
    world.cluster.node.conf["yarn.nodemanager.container-executor.class"] = executor


def no_docker(world: World) -> None:
    world.cluster.node.conf["yarn.nodemanager.runtime.linux.allowed-runtimes"] = "default"


REFUSALS = [
    (too_large, 9, "roles.worker.memory"),
    (too_many, 9, "roles.worker.memory: the job needs 3 GiB at once (chief 1 x 1 GiB and worker 2"),
    (plain_processes, 2, "mnist.yaml:2:1: image: node1 runs no images: containers are plain proc"),
    (no_docker, 2, "image: node1 runs no images: the Docker runtime is not allowed"),
]


@pytest.mark.parametrize(("trouble", "status", "said"), REFUSALS)
def test_nothing_is_posted_where_the_cluster_cannot_run_the_job(
    world: World, trouble: Callable[[World], None], status: int, said: str
) -> None:
    first = world.submitted()
    trouble(world)
    again = world("submit", SPEC, "-d", "-o", "json").json
    assert again["application_id"] == first, "as a scheduler that starts again asks for its own"
    world.ends("FAILED")
    world.asked()
    done = world("submit", SPEC, "-d")
    assert (done.status, done.out, said in done.err) == (status, "", True), done.err
    assert POST not in world.asked()
    assert world("status", "mnist", "-o", "json").json["application_id"] == first


DIGEST = {"image": "library/python@sha256:" + "0" * 64}
NO_DIGEST = "does not support images by digest (3.2.5 and 3.3.5 are the first), and every container"
BOTH = {"chief": {"memory": "1Gi"}, "worker": {"memory": "1Gi"}}
LONG = {"env": {"A": "x" * 25_000}, "roles": BOTH}
NO_RESTART = "does not support restart_policy (YARN-8080), and would start"
GPU = {"strategy": "single", "roles": {"chief": {"memory": "1Gi", "gpus": 1}}}


@pytest.mark.parametrize(
    ("version", "changes", "said"),
    [
        ((3, 0, 3), {}, f"Hadoop 3.0.3 {NO_RESTART}"),
        ((3, 1, 0), {}, f"Hadoop 3.1.0 {NO_RESTART}"),
        ((3, 1, 1), {}, ""),
        ((3, 1, 4), DIGEST, NO_DIGEST),
        ((3, 2, 4), DIGEST, NO_DIGEST),
        ((3, 3, 4), DIGEST, NO_DIGEST),
        ((3, 2, 5), DIGEST, ""),
        ((3, 3, 5), DIGEST, ""),
        ((3, 1, 3), {"retries": 1}, "a job with `retries` needs a `lifetime` on Hadoop"),
        ((3, 1, 3), {"retries": 1, "lifetime": "1m"}, ""),
        ((3, 2, 4), LONG, "put long commands into scripts, and long values into files"),
        ((3, 3, 0), LONG, ""),
        ((3, 4, 2), GPU, "this cluster offers no yarn.io/gpu; leave gpus out, or set gpu_resource"),
    ],
)
def test_nothing_is_posted_that_the_version_or_the_cluster_cannot_run(
    kept: World, version: tuple[int, ...], changes: dict[str, Any], said: str
) -> None:
    kept.yarn.site.version, kept.yarn.site.job_s = version, (20, 20)
    kept.spec(**changes)
    done = kept("submit", SPEC)
    assert said in done.err
    assert (done.status in (2, 9), POST in kept.asked()) == (bool(said), not said), done.err


@pytest.mark.parametrize(
    ("version", "ends"),
    [((3, 1, 3), False), ((3, 2, 4), False), ((3, 3, 0), True), ((3, 4, 2), True)],
)
@pytest.mark.parametrize(
    ("changes", "marked"), [({}, "chief"), ({"retries": 1, "lifetime": "1h"}, "witness")]
)
def test_yarn_ends_a_job_without_a_container_where_the_end_of_one_component_is_the_job_s(
    kept: World, version: tuple[int, ...], ends: bool, changes: dict[str, Any], marked: str
) -> None:
    """Elsewhere a task that has ended would count as missing, and be run again."""
    kept.yarn.site.version = version
    kept.spec(start_timeout="20m", **changes)
    for _ in range(2):  # a later run of the same key is planned by itself
        assert kept("submit", SPEC, "-d").status == 0
        wanted = {
            "yarn.service.container-health-threshold.percent": "100",
            "yarn.service.container-health-threshold.window-secs": "1380",
            "yarn.service.container-health-threshold.init-delay-secs": "0",
            "yarn.service.default-readiness-check.enabled": "false",
        }
        for component in kept.service["components"]:
            found = component["configuration"].get("properties", {})
            own = {name: text for name, text in found.items() if name in wanted}
            assert own == (wanted if ends and component["name"] == marked else {}), component
        for app in kept.yarn.apps.values():
            if not app.over:
                kept.yarn.end(app, "FINISHED", "FAILED")


def test_all_that_is_larger_than_a_container_may_be_is_said_at_once(world: World) -> None:
    world.yarn.site.max_gpus = 2
    worker = {"memory": "1Gi", "cpus": 9, "gpus": 3}
    world.spec(roles={"chief": {"memory": "9000Mi"}, "worker": worker})
    done = world("submit", SPEC, "-d")
    assert [line.partition(" roles.")[2] for line in done.err.splitlines()[:3]] == [
        "chief.memory: 9000Mi is more than the 8Gi one container may have here",
        "worker.cpus: 9 is more than the 8 cores one container may have here",
        "worker.gpus: 3 is more than the 2 yarn.io/gpu one container may have here",
    ]
    gpus = {"resourceInformation": [{"name": "nvidia.com/gpu", "value": 8}]}
    most = {"memory": 9000, "vCores": 9, "resourceInformations": gpus}
    new = {"application-id": "application_1_0001", "maximum-resource-capability": most}
    world.fails(1, "POST", "new-application", Answer.json(new))
    said = "offers no yarn.io/gpu, but nvidia.com/gpu; set gpu_resource"
    assert said in world("submit", SPEC, "-d").err
    assert world.yarn.apps == {}


def test_an_old_hadoop_needs_a_staging_directory(world: World) -> None:
    world.yarn.site.version = (3, 1, 4)
    world.spec()
    done = world("submit", SPEC)
    assert "Hadoop 3.1.4 cannot read back a service of more than 60000 bytes, and" in done.err
    assert "set hadoop_conf, or staging: hdfs://" in done.err


def test_submit_of_an_image_to_plain_processes_if_the_job_spec_allows_it(world: World) -> None:
    plain_processes(world)
    world.spec(image_policy="warn")
    assert world("submit", SPEC, "-d").status == 0


@pytest.mark.parametrize(
    ("check", "free_mb", "said"),
    [
        ("refuse", 4096, "it cannot start now, and waits: the job needs 3 GiB at once"),
        ("warn", 0, "it cannot start before the cluster grows: the job needs 3 GiB at once"),
        ("off", 0, ""),
    ],
)
def test_submit_says_what_keeps_a_job_from_starting(
    world: World, monkeypatch: pytest.MonkeyPatch, check: str, free_mb: int, said: str
) -> None:
    world.yarn.site.node_mb, world.yarn.site.free_mb = max(2048, free_mb), 1024
    monkeypatch.setenv("SUBMIT_TF_JOB_CAPACITY_CHECK", check)
    world.spec()
    done = world("submit", SPEC, "-d", "-o", "json")
    warnings = done.json["warnings"]
    assert (done.status, [line[: len(said)] for line in warnings]) == (0, [said] if said else [])
    assert ((("GET", f"{CLUSTER}/nodes")) in world.asked()) is (check != "off")


@pytest.mark.parametrize("status", [403, 503])
def test_submit_leaves_an_unreadable_cluster_to_the_post(world: World, status: int) -> None:
    world.spec(queue="ml")
    world.fails(99, "GET", f"{CLUSTER}/(nodes|scheduler)$", Answer.text("no", status))
    assert world("submit", SPEC, "-d").status == 0


def test_nothing_is_sent_where_the_resource_manager_ignores_doas(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job would be the gateway's own (hadoop-facts.md#doas)."""
    world.spec()
    monkeypatch.delenv("SUBMIT_TF_JOB_USER")
    done = world("submit", SPEC, "-d", "--user", "gw", "--as-user", "bob")
    assert (done.status, done.out) == (4, "")
    assert "the ResourceManager ignores as_user bob: to it you are gw" in done.err
    assert "delegation-token-auth-filter" in done.err
    assert POST not in world.asked()


@pytest.mark.parametrize(
    "answer",
    [
        Answer.text("<html><title>Sign in</title></html>"),
        Answer.json([]),
        Answer(202, b'{"diagnostics": "Application ID: '),
        Answer(200, b"\0" * 40),
    ],
)
def test_a_post_whose_answer_says_nothing_is_looked_up(world: World, answer: Answer) -> None:
    world.spec()
    world.cluster.network.faults.append(Fault("over", "POST", f"{SERVICES}$", answer))
    done = world("submit", SPEC, "-d", "-o", "json")
    assert (done.status, done.json["adopted"], len(world.yarn.apps)) == (0, True, 1), done
    assert done.json["application_id"] in world.yarn.apps


FAIR = "Reject application application_1_1 submitted by user alice application rejected by"
REJECTIONS = [
    # FairScheduler.addApplication, QueuePlacementPolicy
    (f"{FAIR} placement rules.", 9, "place the job in no queue: Reject application"),
    ("Application rejected by queue placement policy", 9, "place the job in no queue"),
    ("root is not a leaf queue", 9, "The queue root takes no jobs itself."),
    (
        "User alice does not have permission to submit application_1_1 to queue root.ml",
        4,
        "The user alice may not submit to the queue root.ml.",
    ),
    (
        "Cannot submit application application_1_1 to queue root.ml because it has zero amount of "
        "resource for a requested resource! Invalid requested AM resources: [], maximum queue "
        "resources: <memory:0, vCores:0>",
        9,
        "The queue root.ml has none of a resource",
    ),
    # CapacityScheduler
    (
        "Application application_1_1 submitted by user alice to non-leaf queue : root.ml",
        9,
        "The queue root.ml takes no jobs itself.",
    ),
    # of a scheduler that nobody has seen
    ("rejected: no queue of tenant 7 has a share", 9, "YARN rejected the job"),
]


@pytest.mark.parametrize("answer", [None, Answer(200, b"\0" * 40)], ids=["heard", "lost"])
@pytest.mark.parametrize(("words", "status", "said"), REJECTIONS)
def test_submit_fails_with_the_words_of_a_scheduler_that_rejects(
    world: World, words: str, status: int, said: str, answer: Answer | None
) -> None:
    world.spec()
    world.yarn.rejection = words
    if answer is not None:
        world.cluster.network.faults.append(Fault("over", "POST", f"{SERVICES}$", answer))
    done = world("submit", SPEC, "-o", "json")
    error = json.loads(done.err[done.err.index("{") :])
    assert (done.status, done.out, said in error["message"]) == (status, "", True), done
    assert error["retryable"] is False
    assert "already" not in done.err
    assert len(world.yarn.apps) == 1
    world.yarn.rejection = ""
    assert world("submit", SPEC, "-d").status == 0, "the key is not used up"


# --- what a queue limits --------------------------------------------------------------------------

SMALL = {"memory": 1024, "vCores": 1}


@pytest.mark.parametrize("key", ["maximumAllocation", "maxContainerAllocation"])
def test_submit_refuses_what_the_queue_never_grants(
    world: World, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """Of the CapacityScheduler, and of FairScheduler: one task, so that nothing else is asked."""
    world.yarn.queue_limits = {key: SMALL}
    world.spec(
        queue="ml",
        strategy="custom",
        deciding_role="chief",
        roles={"chief": {"memory": "2Gi", "cpus": 2}},
    )
    done = world("submit", SPEC, "-d")
    said = [line.partition(" roles.")[2] for line in done.err.splitlines()]
    assert done.status == 9, done
    assert said[:2] == [
        "chief.memory: 2Gi is more than the 1Gi one container may have in queue root.ml",
        "chief.cpus: 2 is more than the 1 cores one container may have in queue root.ml",
    ]
    assert "choose another `queue`" in done.err
    assert POST not in world.asked()
    monkeypatch.setenv("SUBMIT_TF_JOB_CAPACITY_CHECK", "warn")
    assert "warning: " in (warned := world("submit", SPEC, "-d")).err
    assert (warned.status, said[0] in warned.err) == (0, True)
    world.spec(queue="ml", roles={"chief": {"memory": "1Gi"}})
    assert world("submit", SPEC, "-d").status != 9


@pytest.mark.parametrize(
    ("longest", "default", "asked", "said"),
    [
        (
            50,
            40,
            "10m",
            "lifetime: 10m00s is more than queue root.ml allows: it ends every job after 50s",
        ),
        (50, 40, None, "lifetime: 30d00h is more than queue root.ml allows"),  # --detach
        (50, 40, "30s", ""),
        (-1, -1, "10m", ""),
        (-1, 40, "10m", ""),
    ],
)
def test_submit_warns_of_a_lifetime_that_the_queue_cuts(
    world: World, longest: int, default: int, asked: str | None, said: str
) -> None:
    limits = {"maxApplicationLifetime": longest, "defaultApplicationLifetime": default}
    world.yarn.queue_limits = limits
    world.spec(queue="ml", **({"lifetime": asked} if asked else {}))
    warnings = world("submit", SPEC, "-d", "-o", "json").json["warnings"]
    assert [said in line for line in warnings] == ([True] if said else []), warnings


def test_submit_warns_of_the_lifetime_that_a_queue_gives(world: World) -> None:
    world.yarn.site.job_s = (5, 5)
    for longest, told in ((-1, "ask for one here"), (40, "choose another `queue`")):
        limits = {"maxApplicationLifetime": longest, "defaultApplicationLifetime": 40}
        world.yarn.queue_limits = limits
        world.spec(queue="ml")
        done = world("submit", SPEC)
        assert "lifetime: none, and queue root.ml ends every such job after 40s" in done.err
        assert told in done.err


@pytest.mark.parametrize(
    ("asked", "ran_s", "reason", "hint"),
    [
        (
            600,
            50,
            "killed it: queue ml ended it after 50 s, and it asked for 600 s",
            "choose another `queue`",
        ),
        (
            None,
            40,
            "killed it: queue ml ended it after 40 s, and it asked for none",
            "ask for a `lifetime`;",
        ),
        (50, 52, "killed it", "ask for a longer `lifetime`"),
        (50, 3000, "killed it", "ask for a longer `lifetime`"),  # it was extended
    ],
)
def test_the_end_of_a_lifetime_names_who_set_it(
    world: World, asked: int | None, ran_s: int, reason: str, hint: str
) -> None:
    world.submitted(**({"lifetime": f"{asked}s"} if asked else {}), queue="ml")
    spec = world.yarn.directories["alice", world.name].spec or {}
    if asked is None:
        spec["lifetime"] = -1  # as YARN stores it for none
    world.hdfs()
    app = world.yarn.apps[world.application]
    words = (
        f"Application {app.id} is killed by ResourceManager as it has exceeded the lifetime period."
    )
    world.passes(ran_s - 10)
    world.yarn.end(app, "KILLED", "KILLED", words)
    done = world("status", "mnist", "-o", "json").json
    assert (done["state"], done["reason"].endswith(reason), done["hint"].startswith(hint)) == (
        "STOPPED",
        True,
        True,
    ), done


# --- a deciding task that gets no container -------------------------------------------------------


def test_submit_ends_a_job_whose_deciding_task_gets_no_container(world: World) -> None:
    world.spec(start_timeout="2m")
    done = world("submit", SPEC)
    assert done.status == 1, done
    said = "chief-0 has had no container for longer than start_timeout (120 s)"
    assert said in done.out
    [app] = world.yarn.apps.values()
    assert app.state == "KILLED"
    shown = world("status", "mnist", "-o", "json").json
    assert (shown["state"], shown["reason"].startswith(said)) == ("FAILED", True)


def test_a_job_that_is_given_up_keeps_what_it_waited_for(world: World) -> None:
    refused = (
        "Invalid resource request! Cannot allocate containers as requested resource is too much"
    )
    world.yarn.site.node_mb = world.yarn.site.free_mb = 8192
    world.spec(start_timeout="2m")
    world.cluster.clock.after(
        60, lambda: setattr(next(iter(world.yarn.apps.values())), "words", refused)
    )
    ends = [world("submit", SPEC).out, world("status", "mnist").out]
    for out in ends:
        assert "so the job was stopped; it waited because the ResourceManager refuses" in out, out
        assert refused in out
        assert "ask for less in memory, cpus or gpus of the role" in out
        assert "wait longer" not in out


def restarted(world: World) -> None:
    world.yarn.apps[world.application].attempts = 2


def unreadable(world: World) -> None:
    world.yarn.site.am_answers = False


def has_a_container(world: World) -> None:
    world.runs("chief-0")


def was_queued(world: World) -> None:
    app = world.yarn.apps[world.application]
    app.launched_ms = app.started_ms + 100_000


@pytest.mark.parametrize("why", [restarted, unreadable, has_a_container, was_queued])
def test_status_does_not_call_a_start_overdue_where_it_is_not_certain(
    world: World, why: Callable[[World], None]
) -> None:
    world.submitted(start_timeout="2m")
    world.passes(140)
    sentence = "has had no container for longer than start_timeout"
    assert sentence in world("status", "mnist").out
    why(world)
    assert sentence not in world("status", "mnist").out


@pytest.mark.parametrize("end", ["", "SUCCEEDED", "FAILED"])
def test_an_id_that_was_used_for_another_content_is_refused(world: World, end: str) -> None:
    world.spec()
    first = world("submit", SPEC, "-d", "--submission-id", "7", "-o", "json").json
    world.passes(10)
    if end:
        world.name, world.application = first["run"], first["application_id"]
        world.hdfs()  # YARN's copy tells the content of a run that has ended
        world.ends(end)
    done = world("submit", SPEC, "--submission-id", "7", "--set", "env.LR=0.1", "-o", "json")
    told = json.loads(done.err)
    assert (done.status, told["code"], told["retryable"]) == (6, "key-reused", False)
    assert told["details"]["run"] == first["run"]
    assert len(world.yarn.apps) == 1
    again = world("submit", SPEC, "-d", "--submission-id", "7", "-o", "json").json
    assert (again["run"], again["adopted"]) == (first["run"], True)
