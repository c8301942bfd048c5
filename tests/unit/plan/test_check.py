"""Problems that are found before the POST: their messages and their lines.

tests/property/test_names.py compares names with YARN's own rules.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job import jobspec
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec.job import Command, TFConfigMode
from submit_tf_job.plan import Site, plan
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, make_job, make_role

NONE, LITERAL = TFConfigMode.NONE, TFConfigMode.LITERAL
BARE: dict[str, Any] = {"bootstrap": False, "tf_config": NONE}
SET_BY_YARN = (
    "is set by YARN or by this tool, and a value from here would be lost or break the task"
)
NO_IMAGE = "is not an image name that YARN accepts: [host[:port]/]lower-case/path[:tag]"
PORTS = "literal fixes the ports of 4 tasks on the host network, and 20000-20003 has 3 for them"


def problems(job: Any, site: Site = SITE) -> list[str]:
    try:
        plan(job, site)
    except JobSpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def one(**values: Any) -> Any:
    return make_job(make_role("chief", **values))


# --- the whole job --------------------------------------------------------------------------------

NARROW = replace(SITE, port_range=(20000, 20003))
MANY = make_job(make_role("worker", instances=4), tf_config=LITERAL)
GOOD: list[tuple[Any, Site]] = [
    (make_job(), SITE),
    (make_job(tf_config=LITERAL, bootstrap=False), SITE),
    (one(), Site("alice")),
    *((make_job(), Site(user)) for user in ("alice", "Al_Ice", "alice/host@REALM", "a.b-c")),
    (make_job(make_role(), network="none"), SITE),
    (make_job(make_role("worker", instances=20_000)), NARROW),  # each node has its own ports
    (make_job(make_role("worker", instances=3), tf_config=LITERAL), NARROW),
    (replace(MANY, network="bridge"), NARROW),
]


def test_good_jobs_have_no_problems() -> None:
    assert [problems(job, site) for job, site in GOOD] == [[]] * len(GOOD)


BAD: list[tuple[Any, Site, str]] = [
    (
        make_job(name="mnist-4k3f7qa2"),
        SITE,
        "name: 'mnist-4k3f7qa2' ends as the name of a run does (a digit and seven characters); "
        "choose another name",
    ),
    (
        make_job(make_role("a" * 45)),
        Site("alice"),
        f"roles.{'a' * 45}: '{'a' * 45}' has 45 characters, and YARN takes 44; shorten the role's "
        "name",
    ),
    (
        make_job(),
        Site("al ice"),
        "user 'al ice' is not valid in a host name (as 'al ice'), which YARN's registry requires",
    ),
    (
        make_job(tf_config=LITERAL),
        Site("alice"),
        "tf_config: literal needs the domain of Registry DNS; set dns.domain in the settings",
    ),
    (
        make_job(tf_config=LITERAL),
        replace(SITE, dns_server="dns:53"),
        "tf_config: literal writes host names, and with dns.server the containers cannot resolve "
        "them; use counts",
    ),
    (
        MANY,
        NARROW,
        f"tf_config: {PORTS}; use counts, or widen ports.range in the settings",
    ),
]


@pytest.mark.parametrize(("job", "site", "message"), BAD, ids=lambda value: str(value)[:30])
def test_problems_of_a_job(job: Any, site: Site, message: str) -> None:
    assert problems(job, site) == [message]


def test_names_without_room_for_a_run_are_shortened_or_refused() -> None:
    room = 64 - len("worker-1.-4k3f7qa2.alice.example.com")
    whole, long, other = ("a" * room, "a" * (room + 1), "a" * room + "b")
    runs = [plan(make_job(name=name), SITE).run for name in (whole, long, other)]
    assert runs[0][:-9] == whole
    assert re.fullmatch(r"aaaaa[a-z2-7]{3}-[0-9][a-z2-7]{7}", runs[1])
    assert runs[1][:-9] != runs[2][:-9], "the rule depends on the whole name"
    site = Site("alice", domain="hadoop.research.dept.example.com")
    assert problems(make_job(name="abcdefg"), site) == []
    assert problems(make_job(name="abcdefgh"), site) == [
        "name: host names such as worker-1.RUN.alice.hadoop.research.dept.example.com may have 64 "
        "characters, of which the suffix of a run takes 9: a name of at most 7 characters fits, or "
        "shorten the names of the roles"
    ]
    [said] = problems(make_job(), Site("a" * 40, domain="example.com"))
    assert said.endswith("takes 9: no name fits; shorten the names of the roles")


def test_tf_config_literal_too_long_for_docker() -> None:
    """The most workers whose TF_CONFIG fits into one line of Docker's env file are 1385 with these
    names: hadoop-facts.md#sizes
    """

    def told(count: int) -> list[str]:
        roles = make_role("chief"), make_role("worker", instances=count)
        job = make_job(*roles, name="my", tf_config=LITERAL, network="bridge")
        return problems(job, Site("user", domain="example.com"))

    assert told(1246) == []
    [said] = told(1385)
    assert re.sub(r"\d+", "N", said) == (
        "tf_config: literal would put N bytes into the environment, and Docker takes N; "
        "use `tf_config: counts`"
    )


# --- images, commands -----------------------------------------------------------------------------

DIGEST = "@sha256:" + "0" * 64
GOOD_IMAGES = [
    *("python", "library/python:3.11", "tensorflow/tensorflow:2.15.0-gpu"),
    *("registry.example.com:5000/ml/tf:2.15_x.y-z", "UPPER.example.com:5000/ml"),
    *(f"python{DIGEST}", f"r.example.com/ml/tf:1{DIGEST}"),
]
BAD_IMAGES = [
    *("", "Python", "ml/Tf", "tf:", "tf:a b", "tf:a/b", "tf@sha256:abc", "tf@sha512:" + "0" * 64),
    *("http://r/tf", "r:port/tf", "tf latest", "tf\n", "$(x)", "tf;x", "-tf -v"),
]
# OCIContainerRuntime's pattern up to 3.3.4, and the digests that 3.3.5 added.
NM_IMAGE = re.compile(
    r"^(([a-zA-Z0-9.-]+)(:\d+)?/)?([a-z0-9_./-]+)((:[\w.-]+)?|(:[\w.-]+)?@sha256:[a-f0-9]{64})\Z",
    re.ASCII,
)


@pytest.mark.slow
@pytest.mark.parametrize("image", GOOD_IMAGES + BAD_IMAGES)
def test_images(image: str) -> None:
    found, good = problems(one(image=image)), image in GOOD_IMAGES
    assert bool(NM_IMAGE.search(image)) is good
    if good or "@" in image:
        assert [text[:19] for text in found] == ([] if good else ["roles.chief.image: "])
    else:
        assert found == [f"roles.chief.image: {image!r} {NO_IMAGE}"]


def test_long_commands() -> None:
    assert problems(one(command=Command(script="x" * 100_000))) == []
    for command, size in (
        (Command(script="x" * 100_001), 100_001),
        (Command(script="é" * 50_001), 100_002),
        (Command(argv=("x", "y" * 100_000)), 100_002),
    ):
        assert problems(one(command=command)) == [
            f"roles.chief.command: the command has {size} bytes; put it into a script and list it "
            "in `files`"
        ]


# --- environment ----------------------------------------------------------------------------------

ALWAYS = ["CONTAINER_ID", "LOG_DIR", "LOG_DIRS", "LOCAL_DIRS", "PWD", "HADOOP_TOKEN_FILE_LOCATION"]
BY_YARN = [
    "WORK_DIR",
    "LANG",
    "LC_ALL",
    "LANGUAGE",
    "HADOOP_USER_NAME",
    "NM_HOST",
    "NM_PORT",
    "NM_HTTP_PORT",
    "LOCAL_USER_DIRS",
    "USER",
    "LOGNAME",
    "HOME",
    "LOCALIZATION_COUNTERS",
    "JVM_PID",
]
OURS = ["TFJOB_INSTANCE", "TFJOB_ANYTHING", "TFJOB_"]


def in_env(name: str, value: str = "x", **values: Any) -> list[str]:
    found = problems(make_job(make_role("chief", env={name: value}), **values))
    return [text.removeprefix(f"roles.chief.env.{name}: ") for text in found]


def test_env_names_of_yarn_and_of_the_bootstrap() -> None:
    for name in (*ALWAYS, *BY_YARN, *OURS):
        assert in_env(name, **BARE) == [f"{name} {SET_BY_YARN}"], name
        assert in_env(name) == ([] if name in BY_YARN else [f"{name} {SET_BY_YARN}"]), name
    for mode, refused in ((LITERAL, True), (NONE, False)):
        assert bool(in_env("TF_CONFIG", tf_config=mode)) is refused


def test_env_names_of_bash() -> None:
    """tests/property/test_shell.py proves that all others arrive."""
    for name in ("BASH_VERSION", "RANDOM", "SHELLOPTS"):
        assert in_env(name) == []
        assert in_env(name, **BARE) == [
            f"{name} is bash's own, and without the bootstrap a value from here would be lost or "
            "break the task"
        ]


@pytest.mark.parametrize("name", ["TYPE", "DOCKER_IMAGE", ""])
def test_env_runtime_variables(name: str) -> None:
    name = f"YARN_CONTAINER_RUNTIME_{name}"
    said = "YARN's runtime variables are this tool's to set; use image, network, mounts and docker"
    assert in_env(name) == in_env(name, **BARE) == [said]


def test_env_sizes() -> None:
    assert in_env("A", "x" * 99_998) == []
    assert in_env("A", "é" * 50_000) == [
        "the value has 100002 bytes; over 100000 a node may not start the task; put it into a file"
    ]
    env = {f"V{number}": "x" * 90_000 for number in range(17)}
    total = sum(len(name) + 1 + 90_000 for name in env)
    assert problems(one(env=env)) == [
        f"roles.chief.env: the environment has {total} bytes; 1500000 is the most a task "
        f"can be given"
    ]
    assert problems(one(env=dict(list(env.items())[:16]))) == []


# --- size -----------------------------------------------------------------------------------------


def test_plan_refuses_a_service_too_large() -> None:
    env = {f"V{n}": "x" * 90_000 for n in range(12)}
    roles = [make_role(f"r{n}", env=env) for n in range(2)]
    large = make_job(*roles, deciding_role="r0")
    for site, way_out in (
        (SITE, "put long commands into scripts, and long values into files"),
        (
            SITE_WITHOUT_STAGING,
            "set hadoop_conf (or staging) in the settings: files then go to HDFS",
        ),
    ):
        [told] = problems(large, site)
        assert re.sub(r"\d{7}", "N", told) == (
            f"the service would have N bytes, and at most N are sent; {way_out}"
        )


# --- places ---------------------------------------------------------------------------------------

SPEC = """\
name: a-4k3f7qa2
image: Bad
strategy: multi-worker
command: [python, t.py]
mounts: ["/site/a:/b", "/c:/e"]
env: {LOG_DIR: x}
roles:
  chief: {memory: 1Gi}
  worker:
    memory: 1Gi
    image: ALSO_BAD
    mounts: ["/f:/h"]
    env: {TFJOB_X: "1"}
"""


def test_problems_have_lines_of_the_job_spec() -> None:
    defaults = jobspec.Defaults({"mounts": ["/site:/site"]}, {}, "settings.yaml")
    job = jobspec.loads(SPEC, source="train.yaml", base=None, defaults=defaults)
    not_allowed = "read-only; it allows /site"
    assert problems(job, Site("1", ro_mounts=("/site",), rw_mounts=())) == [
        "train.yaml:1:1: user '1' is not valid in a host name (as '1'), which YARN's registry "
        "requires",
        "train.yaml:1:1: name: 'a-4k3f7qa2' ends as the name of a run does (a digit and seven "
        "characters); choose another name",
        f"train.yaml:2:1: image: 'Bad' {NO_IMAGE}",
        f"train.yaml:5:24: mounts[1]: this site does not allow mounting '/c' {not_allowed}",
        f"train.yaml:6:7: env.LOG_DIR: LOG_DIR {SET_BY_YARN}",
        f"train.yaml:11:5: roles.worker.image: 'ALSO_BAD' {NO_IMAGE}",
        "train.yaml:12:14: roles.worker.mounts: this site does not allow mounting '/f' "
        f"{not_allowed}",
        f"train.yaml:13:11: roles.worker.env.TFJOB_X: TFJOB_X {SET_BY_YARN}",
    ]
