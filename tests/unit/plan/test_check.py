"""Problems that are found before the POST: their messages and their lines."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job import jobspec
from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.jobspec.job import (
    Command,
    HadoopConf,
    Job,
    Kerberos,
    Location,
    Mount,
    Restart,
    ShippedFile,
    TFConfigMode,
)
from submit_tf_job.plan import Site, check, plan, planner
from submit_tf_job.plan.delivery import Stage
from submit_tf_job.plan.planner import Planner, fits
from submit_tf_job.yarn.records import dumps
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, make_job, make_role

NONE, LITERAL = TFConfigMode.NONE, TFConfigMode.LITERAL
BARE: dict[str, Any] = {"bootstrap": False, "tf_config": NONE}
SET_BY_YARN = (
    "is set by YARN or by this tool, and a value from here would be lost or break the task"
)
NO_NAME = (
    "is not a valid service name; use at most 63 lower-case letters, digits, hyphens; a "
    "letter first"
)
NO_ROLE = (
    "is not a valid role name; use at most 44 lower-case letters, digits, hyphens; a letter first"
)
NO_IMAGE = "is not an image name that YARN accepts: [host[:port]/]lower-case/path[:tag]"
NO_NETWORK = "is not a valid Docker network; use host, bridge, or the name of an allowed network"
NO_KEYTAB = (
    "is not a URI that YARN fetches; use hdfs:///path (fetched as you) or file:///path "
    "(present on every node)"
)
COMMA = "contains a comma or a colon, which YARN's mount list does not support"


def problems(job: Job, site: Site = SITE) -> list[str]:
    return [str(problem) for problem in found(job, site)]


def found(job: Job, site: Site = SITE) -> list[Problem]:
    try:
        Planner.of(job, site)
    except JobSpecError as error:
        return list(error.problems)
    return []


def one(**values: Any) -> Job:
    return make_job(make_role("chief", **values))


def test_problems_of_plain_jobs() -> None:
    assert problems(make_job()) == []
    assert problems(make_job(tf_config=LITERAL, bootstrap=False)) == []
    assert problems(one(), Site("alice")) == []


# --- names ----------------------------------------------------------------------------------------

NAMES = [
    *(
        (name, f"name: {name!r} {NO_NAME}")
        for name in ("", "Mnist", "1job", "-job", "job-", "a_b", "a.b", "a b", "é", "a\n", "a" * 64)
    ),
    (
        "version",
        "name: 'version' conflicts with YARN's endpoint GET services/version; choose another name",
    ),
]


@pytest.mark.parametrize(("name", "message"), NAMES)
def test_names_of_jobs(name: str, message: str) -> None:
    assert problems(make_job(name=name), Site("alice"))[0] == message


@pytest.mark.parametrize("name", ["", "Worker", "1", "a-", "a_b", "a.b", "a" * 45])
def test_names_of_roles(name: str) -> None:
    assert problems(make_job(make_role(name)), Site("alice")) == [
        f"roles.{name}: {name!r} {NO_ROLE}"
    ]


def test_role_with_the_name_of_its_job() -> None:
    assert problems(make_job(make_role("mnist"))) == [
        "roles.mnist: a role must not have the job's own name 'mnist'; YARN refuses it"
    ]


def test_host_name_longer_than_64() -> None:
    room = 64 - len("worker-1..alice.example.com")
    assert problems(make_job(name="a" * room)) == []
    assert problems(make_job(name="a" * (room + 1))) == [
        f"name: the host name worker-1.{'a' * (room + 1)}.alice.example.com has 65 "
        f"characters and YARN takes 64; shorten the job's name"
    ]
    tight = make_job(make_role("worker", instances=10), name="a" * room)
    assert problems(tight) == []
    assert (
        len(problems(replace(tight, roles={"worker": make_role("worker", instances=11)}))) == 1
    ), "worker-10 is one longer"


@pytest.mark.parametrize("user", ["1alice", "al ice", "ALICE!", "a" * 64, "-a", "_alice"])
def test_user_invalid_in_host_name(user: str) -> None:
    mapped = user.lower().replace("_", "-")
    message = (
        f"user {user!r} is not valid in a host name (as {mapped!r}), which YARN's registry requires"
    )
    assert message in problems(make_job(), Site(user))


@pytest.mark.parametrize("user", ["alice", "Al_Ice", "alice/host@REALM", "a.b-c"])
def test_user_valid_in_host_name(user: str) -> None:
    assert problems(make_job(), Site(user)) == []


# --- network, ports -------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["", "-a", "a b", "host,bridge", "$x", "a/b"])
def test_networks(network: str) -> None:
    assert problems(make_job(network=network)) == [f"network: {network!r} {NO_NETWORK}"]


def test_network_none_with_several_tasks() -> None:
    message = (
        "network: without a network the tasks cannot find one another; use host, bridge, or "
        "the name of a network"
    )
    assert problems(make_job(network="none")) == [message]
    assert problems(one()) == problems(make_job(make_role(), network="none")) == []


@pytest.mark.parametrize("workers", [4, 20_000, 100_000])
def test_tasks_of_the_host_network_may_be_more_than_ports(workers: int) -> None:
    narrow = replace(SITE, port_range=(20000, 20003))
    job = make_job(make_role("worker", instances=workers))
    assert problems(job, narrow) == problems(job) == []


# --- TF_CONFIG ------------------------------------------------------------------------------------


def test_tf_config_counts_without_bootstrap() -> None:
    assert problems(make_job(bootstrap=False)) == [
        "tf_config: without the bootstrap TF_CONFIG is not built in the container; use "
        "`tf_config: literal` or none"
    ]


def test_tf_config_literal_without_domain() -> None:
    assert problems(make_job(tf_config=LITERAL), Site("alice")) == [
        "tf_config: literal needs the domain of Registry DNS; set dns.domain in the settings"
    ]
    assert problems(make_job(tf_config=LITERAL), replace(SITE, dns_server="dns:53")) == [
        "tf_config: literal writes host names, and with dns.server the containers cannot "
        "resolve them; use counts"
    ]


def test_tf_config_literal_with_fewer_ports_than_tasks() -> None:
    narrow = replace(SITE, port_range=(20000, 20003))
    few, many = (
        make_job(make_role("worker", instances=count), tf_config=LITERAL) for count in (3, 4)
    )
    assert problems(few, narrow) == []
    assert problems(many, narrow) == [
        "tf_config: literal fixes the ports of 4 tasks on the host network, and 20000-20003 has 3 "
        "for them; use counts, or widen ports.range in the settings"
    ]
    assert problems(replace(many, network="bridge"), narrow) == []


def literal(name: str, user: str, domain: str, count: int) -> tuple[Job, Site]:
    job = make_job(
        make_role("chief"),
        make_role("worker", instances=count),
        name=name,
        tf_config=LITERAL,
        network="bridge",
    )
    return job, Site(user, domain=domain)


def size(name: str, user: str, domain: str, count: int) -> int:
    job, site = literal(name, user, domain, count)
    stage, ports = Stage.of(None, name), {"mode": "own-address"}
    return len(Planner(job, site, stage, ports, ("chief", "worker"), ()).tf_configs["worker"])


# Measured: the most workers whose TF_CONFIG fits into one line of Docker's env file:
# docs/hadoop-facts.md#sizes
@pytest.mark.parametrize(
    ("names", "most"), [(("my-long-job", "user", "example.com"), 1385), (("j", "u", "lan"), 2464)]
)
def test_tf_config_literal_too_long_for_docker(names: tuple[str, str, str], most: int) -> None:
    assert (
        len("TF_CONFIG=") + size(*names, most)
        <= 65_535
        < len("TF_CONFIG=") + size(*names, most + 1)
    )
    ours = most
    while size(*names, ours) > 60_000:
        ours -= max(1, (size(*names, ours) - 60_000) // 60)
    assert 0.9 * most < ours < most
    assert problems(*literal(*names, ours)) == []
    # The chief comes first, and its role's name is one letter shorter.
    told = size(*names, ours + 1) - 1
    assert problems(*literal(*names, ours + 1)) == [
        f"tf_config: literal would put {told} bytes into the environment, and Docker takes "
        f"60000; use `tf_config: counts`"
    ]


# --- identity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("python", ["", "python 3", "$PYTHON", "a;b", "~/python"])
def test_interpreters(python: str) -> None:
    assert problems(make_job(python=python)) == [
        f"python: {python!r} is not a valid path of an interpreter"
    ]


def test_principals_and_keytabs() -> None:
    assert problems(make_job(kerberos=Kerberos("alice@REALM", "hdfs:///k"))) == [
        "kerberos.principal: 'alice@REALM' has no '/'; YARN takes service principals "
        "only: user/_HOST@REALM"
    ]
    for keytab in ("/etc/k", "k", "http://x/k", "hdfs:k", "s3a://b/k", "viewfs:///k"):
        assert problems(make_job(kerberos=Kerberos("a/b@R", keytab))) == [
            f"kerberos.keytab: {keytab!r} {NO_KEYTAB}"
        ]
    for keytab in ("hdfs:///k", "hdfs://nn:8020/k", "file:///k"):
        assert problems(make_job(kerberos=Kerberos("a/b@R", keytab))) == []


# --- roles ----------------------------------------------------------------------------------------

DIGEST = "@sha256:" + "0" * 64
IMAGES = [
    ("python", True),
    ("library/python:3.11", True),
    ("tensorflow/tensorflow:2.15.0-gpu", True),
    ("registry.example.com/ml/tf", True),
    ("registry.example.com:5000/ml/tf:2.15_x.y-z", True),
    ("UPPER.example.com:5000/ml", True),
    (f"python{DIGEST}", True),
    (f"r.example.com/ml/tf:1{DIGEST}", True),
    ("", False),
    ("Python", False),
    ("ml/Tf", False),
    ("tf:", False),
    ("tf:a b", False),
    ("tf:a/b", False),
    ("tf@sha256:abc", False),
    ("tf@sha512:" + "0" * 64, False),
    ("http://r/tf", False),
    ("r:port/tf", False),
    ("tf latest", False),
    ("tf\n", False),
    ("$(x)", False),
    ("tf;x", False),
    ("-tf -v", False),
]
# OCIContainerRuntime's pattern up to 3.3.4, and the digests that 3.3.5 added.
HOST = r"(([a-zA-Z0-9.-]+)(:\d+)?/)?"
NM_IMAGE = re.compile(rf"^{HOST}([a-z0-9_./-]+)(:[\w.-]+)?$", re.ASCII)
NM_DIGEST = re.compile(rf"^{HOST}([a-z0-9_./-]+)(:[\w.-]+)?@sha256:[a-f0-9]{{64}}$", re.ASCII)


@pytest.mark.parametrize(("image", "good"), IMAGES)
def test_images(image: str, good: bool) -> None:
    found = problems(one(image=image))
    assert found == [] if good else len(found) == 1 and found[0].startswith("roles.chief.image: ")
    if not good and "@" not in image:
        assert found == [f"roles.chief.image: {image!r} {NO_IMAGE}"]
    assert (
        bool((NM_IMAGE.search(image) or NM_DIGEST.search(image)) and not image.endswith("\n"))
        is good
    )


def test_long_commands() -> None:
    assert problems(one(command=Command(script="x" * 100_000))) == []
    message = (
        "roles.chief.command: the command has {} bytes; put it into a script and list it in `files`"
    )
    assert problems(one(command=Command(script="x" * 100_001))) == [message.format(100_001)]
    assert problems(one(command=Command(script="é" * 50_001))) == [message.format(100_002)]
    assert problems(one(command=Command(argv=("x", "y" * 100_000)))) == [message.format(100_002)]


def test_keys_that_need_the_bootstrap() -> None:
    role = make_role("chief", files=(ShippedFile("a", b""),))
    assert problems(make_job(role, **BARE)) == [
        "roles.chief.files: without the bootstrap no files are unpacked in the "
        "container; put them into the image"
    ]
    for values in ({"restart": Restart.ON_FAILURE, "max_restarts": 1}, {"tolerate": 1}):
        assert problems(make_job(make_role("chief", **values), **BARE)) == [
            "roles.chief: restart and tolerate need the bootstrap, which counts failures"
        ]


# --- environment ----------------------------------------------------------------------------------

BY_YARN = [
    "WORK_DIR",
    "LOG_DIR",
    "LANG",
    "LC_ALL",
    "LANGUAGE",
    "HADOOP_USER_NAME",
    "CONTAINER_ID",
    "NM_HOST",
    "NM_PORT",
    "NM_HTTP_PORT",
    "LOCAL_DIRS",
    "LOCAL_USER_DIRS",
    "LOG_DIRS",
    "USER",
    "LOGNAME",
    "HOME",
    "PWD",
    "LOCALIZATION_COUNTERS",
    "JVM_PID",
    "HADOOP_TOKEN_FILE_LOCATION",
]
ALWAYS = ["CONTAINER_ID", "LOG_DIR", "LOG_DIRS", "LOCAL_DIRS", "PWD", "HADOOP_TOKEN_FILE_LOCATION"]
OURS = ["TFJOB_INSTANCE", "TFJOB_NAME", "TFJOB_ANYTHING", "TFJOB_"]


def in_env(name: str, value: str = "x", **values: Any) -> list[str]:
    return problems(make_job(make_role("chief", env={name: value}), **values))


def test_reserved_names_are_complete() -> None:
    assert sorted(check.RESERVED_ENV) == sorted(BY_YARN)
    assert sorted(check.RESERVED_WITH_BOOTSTRAP) == sorted(ALWAYS)


@pytest.mark.parametrize("name", BY_YARN)
def test_env_set_by_yarn(name: str) -> None:
    message = f"roles.chief.env.{name}: {name} {SET_BY_YARN}"
    assert in_env(name, **BARE) == [message]
    assert in_env(name) == ([message] if name in ALWAYS else [])


@pytest.mark.parametrize("name", OURS)
def test_env_set_by_bootstrap(name: str) -> None:
    assert in_env(name) == in_env(name, **BARE) == [f"roles.chief.env.{name}: {name} {SET_BY_YARN}"]


def test_env_tf_config() -> None:
    assert (
        in_env("TF_CONFIG")
        == in_env("TF_CONFIG", tf_config=LITERAL)
        == [f"roles.chief.env.TF_CONFIG: TF_CONFIG {SET_BY_YARN}"]
    )
    assert in_env("TF_CONFIG", tf_config=NONE) == in_env("TF_CONFIG", **BARE) == []


@pytest.mark.parametrize("name", sorted(check.BASH_ENV_NAMES))
def test_env_names_of_bash(name: str) -> None:
    assert in_env(name) == []
    assert in_env(name, **BARE) == [
        f"roles.chief.env.{name}: {name} is bash's own, and without the bootstrap a value "
        f"from here would be lost or break the task"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "YARN_CONTAINER_RUNTIME_TYPE",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE",
        "YARN_CONTAINER_RUNTIME_",
    ],
)
def test_env_runtime_variables(name: str) -> None:
    assert (
        in_env(name)
        == in_env(name, **BARE)
        == [
            f"roles.chief.env.{name}: YARN's runtime variables are this tool's to set; use "
            f"image, network, mounts and docker"
        ]
    )


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "A=B", "é", "A\n", "$A"])
def test_env_invalid_name(name: str) -> None:
    assert in_env(name) == [
        f"roles.chief.env.{name}: {name!r} is not a valid name of an environment variable"
    ]


def test_env_invalid_value() -> None:
    assert in_env("A", "x\0y") == [
        "roles.chief.env.A: the value contains a NUL byte, which no environment supports"
    ]
    assert in_env("A", "x" * 99_998) == []
    message = (
        "roles.chief.env.A: the value has {} bytes; over 100000 a node may not start the "
        "task; put it into a file"
    )
    assert in_env("A", "x" * 99_999) == [message.format(100_001)]
    assert in_env("A", "é" * 50_000) == [message.format(100_002)]


def test_env_too_large() -> None:
    env = {f"V{number}": "x" * 90_000 for number in range(17)}
    total = sum(len(name) + 1 + 90_000 for name in env)
    assert problems(one(env=env)) == [
        f"roles.chief.env: the environment has {total} bytes; 1500000 is the most a task "
        f"can be given"
    ]
    assert problems(one(env=dict(list(env.items())[:16]))) == []


# --- mounts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mount", "messages"),
    [
        (Mount("/a", "/b"), []),
        (Mount("/a b", "/ü"), []),
        (Mount("/a,b", "/c"), [f"'/a,b' {COMMA}"]),
        (Mount("/a", "/b:c"), [f"'/b:c' {COMMA}"]),
        (Mount("/a\0", "/b"), [f"'/a\\x00' {COMMA}"]),
        (Mount("/a", "b"), ["'b' is not an absolute path in the container"]),
        (Mount("/a", "/b/../c"), ["'/b/../c' is not an absolute path in the container"]),
        (Mount("/a/..", "/b"), ["'/a/..' contains '..'; write the path without it"]),
        (Mount("/a..b", "/c..d"), []),
    ],
)
def test_mounts(mount: Mount, messages: list[str]) -> None:
    assert problems(one(mounts=(Mount("/x", "/y"), mount))) == [
        f"roles.chief.mounts[1]: {message}" for message in messages
    ]
    written = f"/x:/y:ro,{mount}"
    pattern = r"(?<=^|,)([^:\0]+):([^:\0]+)(:(r[ow]|(r[ow][+])?(r?shared|r?slave|r?private)))?(?:,|$)".replace(
        "(?<=^|,)", "(?:(?<=^)|(?<=,))"
    )
    assert messages or len(re.findall(pattern, written)) == written.count(",") + 1, (
        "OCIContainerRuntime.USER_MOUNT_PATTERN"
    )


# --- size -----------------------------------------------------------------------------------------


def test_plan_refuses_a_service_too_large() -> None:
    def told(job: Job, site: Site) -> str:
        with pytest.raises(JobSpecError) as error:
            plan(job, site)
        return str(error.value)

    def large(roles: int, **values: Any) -> Job:
        env = {"A": "x" * 90_000}
        return make_job(
            *(make_role(f"r{n}", env=env) for n in range(roles)), deciding_role="r0", **values
        )

    tail = "bytes, and Hadoop 3.1 and 3.2 corrupt more than 60000; "
    assert re.fullmatch(
        rf"the service would have \d+ {tail}put long commands into scripts",
        told(large(1, **BARE), SITE),
    )
    assert plan(large(1, **BARE), SITE_WITHOUT_STAGING).body
    way_out = re.escape("set hadoop_conf (or staging) in the settings: files then go to HDFS")
    assert re.fullmatch(
        rf"the service would have \d+ {tail}{way_out}", told(large(4), SITE_WITHOUT_STAGING)
    )
    many = make_job(
        make_role("chief"), make_role("worker", instances=1100), tf_config=LITERAL, bootstrap=False
    )
    assert re.fullmatch(
        rf"the service would have \d+ {tail}use `tf_config: counts`", told(many, SITE)
    )


def test_fits_at_the_limit() -> None:
    empty = plan(make_job(), SITE_WITHOUT_STAGING).service
    exact = replace(empty, description="x" * 60_000, components=())
    spare = len(dumps(exact)) - 60_000
    assert fits(replace(exact, description="x" * (60_000 - spare)))
    assert not fits(replace(exact, description="x" * (60_001 - spare)))


def test_limits_of_sizes() -> None:
    assert (planner.MAX_SERVICE_BYTES, planner.MAX_UNSTAGED_BYTES, check.MAX_ENV_ENTRY) == (
        60_000,
        1_000_000,
        100_000,
    )
    assert len(dumps(plan(make_job(), SITE).service)) <= planner.MAX_SERVICE_BYTES


# --- places ---------------------------------------------------------------------------------------

SPEC = """\
name: version
image: Bad
strategy: multi-worker
command: [python, t.py]
mounts: ["/a:/b", "/c,d:/e"]
env: {LOG_DIR: x}
roles:
  chief: {memory: 1Gi}
  worker:
    memory: 1Gi
    image: ALSO BAD
    mounts: ["/f,g:/h"]
    env: {TFJOB_X: "1"}
"""


def test_problems_have_lines_of_the_job_spec() -> None:
    spec = SPEC.replace("ALSO BAD", "ALSO_BAD")
    defaults = jobspec.Defaults({"mounts": ["/site:/site"]}, {}, "settings.yaml")
    job = jobspec.loads(spec, source="train.yaml", base=None, defaults=defaults)
    assert problems(job) == [
        "train.yaml:1:1: name: 'version' conflicts with YARN's endpoint GET "
        "services/version; choose another name",
        f"train.yaml:2:1: image: 'Bad' {NO_IMAGE}",
        f"train.yaml:5:19: mounts[1]: '/c,d' {COMMA}",
        f"train.yaml:6:7: env.LOG_DIR: LOG_DIR {SET_BY_YARN}",
        f"train.yaml:11:5: roles.worker.image: 'ALSO_BAD' {NO_IMAGE}",
        f"train.yaml:12:14: roles.worker.mounts: '/f,g' {COMMA}",
        f"train.yaml:13:11: roles.worker.env.TFJOB_X: TFJOB_X {SET_BY_YARN}",
    ]


def test_problem_without_a_line() -> None:
    [problem] = found(make_job(places={"name": Location("t.yaml", 1, 1)}), Site("1"))
    assert problem == Problem(
        0, 0, "", "user '1' is not valid in a host name (as '1'), which YARN's registry requires"
    )


def test_hadoop_conf_of_node() -> None:
    assert problems(make_job(hadoop=HadoopConf("node", "/etc/hadoop/conf"))) == []
