"""Good job specs, and the Job that each means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.host.located.nodes import Location
from submit_tf_job.jobspec import Defaults, example, load, loads
from submit_tf_job.jobspec.job import (
    AUTO_PORT,
    Command,
    HadoopConf,
    Job,
    Kerberos,
    Mount,
    Placement,
    Strategy,
    TFConfigMode,
)
from tests.unit.jobspec.full_job import FULL


def read(text: str, **more: Any) -> Job:
    return loads(text, source="train.yaml", base=None, **more)


def small(
    lines: str = "", *, strategy: str = "single", roles: str = "{chief: {memory: 4Gi}}", **more: Any
) -> Job:
    head = {"name": "t", "image": "tf", "command": "x", "strategy": strategy, "roles": roles}
    stated = {line.split(":")[0] for line in lines.splitlines()}
    return read(
        lines + "".join(f"{key}: {value}\n" for key, value in head.items() if key not in stated),
        **more,
    )


def test_loads_reads_every_key_of_a_job() -> None:
    job = read(FULL)
    assert (job.name, job.description, job.strategy, job.queue) == (
        "mnist",
        "Nightly training",
        Strategy.PARAMETER_SERVER,
        "root.ml",
    )
    assert list(job.roles) == ["chief", "worker", "ps", "evaluator", "tensorboard"]
    assert job.counts == {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1, "tensorboard": 1}
    assert (job.network, job.hadoop) == ("overlay_1", HadoopConf("node", "/etc/hadoop/conf"))
    assert job.kerberos == Kerberos("svc/_HOST@EXAMPLE.COM", "hdfs:///user/svc/svc.keytab")
    assert (job.lifetime_s, job.start_timeout_s, job.finish_timeout_s, job.grace_s) == (
        129_600,
        5_400,
        90,
        120,
    )
    assert (job.tf_config, job.python, job.deciding_role) == (
        TFConfigMode.LITERAL,
        "/opt/conda/bin/python",
        "chief",
    )
    assert (job.legacy_master, job.bootstrap, job.docker_client_config) == (
        False,
        True,
        "hdfs:///user/me/config.json",
    )


def test_loads_reads_every_key_of_a_role() -> None:
    worker = read(FULL).roles["worker"]
    assert (worker.instances, worker.cpus, worker.memory_mib, worker.gpus) == (4, 4, 16_384, 1)
    assert worker.image == "registry.example.com/ml/tf-gpu:2.15"
    assert worker.command == Command(script="python train.py --epochs 3")
    assert worker.env == {"TF_CPP_MIN_LOG_LEVEL": "0", "EMPTY": "", "XLA": "on"}
    assert worker.mounts == (
        Mount("/scratch", "/data", read_only=False),
        Mount("/models", "/models/", read_only=False),
    )
    assert worker.placement == Placement(
        "node", "rack", "gpu", {"model": ("a100", "h100"), "os": ("rhel8",)}
    )
    assert (worker.restart, worker.max_restarts, worker.tolerate) == ("on-failure", 5, 1)


def test_roles_inherit_shared_keys_of_the_job() -> None:
    roles = read(FULL).roles
    assert roles["ps"].command == Command(argv=("python", "ps.py", "--port", "0"))
    assert roles["ps"].image == roles["tensorboard"].image == "registry.example.com/ml/tf:2.15"
    assert roles["tensorboard"].command == Command(script="tensorboard --logdir /logs")
    assert roles["tensorboard"].env == {"TF_CPP_MIN_LOG_LEVEL": "1", "EMPTY": ""}
    assert roles["tensorboard"].mounts == (
        Mount("/data", "/data"),
        Mount("/models", "/models/", read_only=False),
    )
    assert roles["tensorboard"].ports == {"http": 6006, "grpc": 6007}
    assert (
        roles["evaluator"].memory_mib,
        roles["evaluator"].max_restarts,
        roles["ps"].memory_mib,
    ) == (1_048_576, 3, 8_192)


def test_ports_take_auto() -> None:
    roles = read(
        FULL.replace("{http: 6006, grpc: 6007}", "{http: auto, api: auto, grpc: 6007}")
    ).roles
    assert roles["tensorboard"].ports == {"http": AUTO_PORT, "api": AUTO_PORT, "grpc": 6007}


@pytest.mark.parametrize("key", ["docker", "env", "inputs", "outputs", "python", "retries"])
def test_mapping_that_states_nothing_is_the_default(key: str) -> None:
    default = small("retries: 3\n") if key == "retries" else small()
    assert small(f"{key}: {{}}\n") == default


def test_whole_numbers_may_have_a_fraction_of_zero() -> None:
    """As in JSON Schema: 2.0 is a whole number."""
    roles = "{worker: {memory: 4Gi, instances: 2.0, ports: {http: 80.0}}}"
    worker = small(strategy="multi-worker", roles=roles).roles["worker"]
    assert repr((worker.instances, dict(worker.ports))) == "(2, {'http': 80})"


def test_loads_uses_the_defaults_of_the_value_classes() -> None:
    job = small()
    bare = Job(name="t", strategy=Strategy.SINGLE, roles=job.roles, deciding_role="chief")
    assert job == bare
    chief = job.roles["chief"]
    assert (
        chief.instances,
        chief.cpus,
        chief.gpus,
        chief.restart,
        chief.max_restarts,
        chief.tolerate,
    ) == (1, 1, 0, "never", 0, 0)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_examples_load(strategy: Strategy) -> None:
    assert read(example(strategy)).strategy is strategy


@pytest.mark.parametrize(
    ("strategy", "roles", "deciding"),
    [
        ("single", "{chief: {memory: 1Gi}}", "chief"),
        ("single", "{worker: {memory: 1Gi}, tb: {memory: 1Gi, command: tb}}", "worker"),
        ("single", "{worker: {memory: 1Gi, restart: never}}", "worker"),
        ("multi-worker", "{worker: {memory: 1Gi}}", "worker"),
        ("multi-worker", "{worker: {memory: 1Gi, instances: 4}, chief: {memory: 1Gi}}", "chief"),
        (
            "multi-worker",
            "{worker: {memory: 1Gi, instances: 4}, evaluator: {memory: 1Gi, restart: on-failure}}",
            "worker",
        ),
        (
            "parameter-server",
            "{chief: {memory: 1Gi}, worker: {memory: 1Gi}, ps: {memory: 1Gi}}",
            "chief",
        ),
        (
            "parameter-server",
            "{ps: {memory: 1Gi}, master: {memory: 1Gi}, worker: {memory: 1Gi}, evaluator: "
            "{memory: 1Gi}}",
            "chief",
        ),
        ("estimator", "{chief: {memory: 1Gi}}", "chief"),
        ("estimator", "{chief: {memory: 1Gi}, evaluator: {memory: 1Gi}}", "chief"),
        (
            "estimator",
            "{chief: {memory: 1Gi}, worker: {memory: 1Gi, restart: on-failure}, ps: {memory: 1Gi}}",
            "chief",
        ),
        ("custom", "{trainer: {memory: 1Gi, instances: 3}}", "trainer"),
        ("custom", "{worker: {memory: 1Gi}, ps: {memory: 1Gi, restart: on-failure}}", "worker"),
        ("custom", "{chief: {memory: 1Gi}, workers: {memory: 1Gi, command: x}}", "chief"),
    ],
)
def test_loads_accepts_roles_of_a_strategy(strategy: str, roles: str, deciding: str) -> None:
    job = small(strategy=strategy, roles=roles)
    assert job.deciding_role == deciding
    assert job.tf_config is (TFConfigMode.NONE if strategy == "custom" else TFConfigMode.COUNTS)


def test_custom_deciding_role_runs_the_jobs_command() -> None:
    job = small(
        "deciding_role: a\n",
        strategy="custom",
        roles="{a: {memory: 1Gi}, b: {memory: 1Gi, command: y}}",
    )
    assert (str(job.roles["a"].command), str(job.roles["b"].command)) == ("x", "y")


def test_deciding_role_may_be_worker_with_a_chief() -> None:
    job = small(
        "deciding_role: worker\n",
        strategy="multi-worker",
        roles="{chief: {memory: 1Gi}, worker: {memory: 1Gi}}",
    )
    assert job.deciding_task == "worker-0"


def test_loads_reads_master_as_chief() -> None:
    job = small(
        "deciding_role: master\nlegacy_master: true\n",
        strategy="estimator",
        roles="{master: {memory: 1Gi, cpus: 2}}",
    )
    assert list(job.roles) == ["chief"]
    assert (job.deciding_role, job.legacy_master) == ("chief", True)
    assert (
        job.places["roles.chief.cpus"]
        == job.places["roles.master.cpus"]
        == Location("train.yaml", 7, 31)
    )


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ('command: [a, "", "3", \'yes\', "b c", "$HOME"]\n', ("a", "", "3", "yes", "b c", "$HOME")),
        ('command:\n  - a\n  - "line\\nbreak\\ttab"\n', ("a", "line\nbreak\ttab")),
        ('command: ["\\U0001F600"]\n', ("\U0001f600",)),
    ],
)
def test_command_list_is_kept_as_written(text: str, argv: tuple[str, ...]) -> None:
    assert small(text).roles["chief"].command == Command(argv=argv)


def test_command_text_keeps_its_lines() -> None:
    assert small("command: |\n  set -e\n  cat <<X\n  \ttab: yes\n  X\n").roles[
        "chief"
    ].command == Command(script="set -e\ncat <<X\n\ttab: yes\nX\n")


def test_loads_accepts_a_few_aliases() -> None:
    job = small(strategy="multi-worker", roles="{chief: &r {memory: 1Gi}, worker: *r}")
    assert job.roles["worker"].memory_mib == 1024


@pytest.mark.parametrize("source", ["train.json", "train.yaml", "<stdin>"])
def test_loads_reads_json(source: str) -> None:
    text = """{
\t"$schema": "./job.schema.json",
\t"name": "t", "image": "tf", "strategy": "single",
\t"command": ["echo", "\\ud83d\\ude00", "a\\/b"],
\t"roles": {"chief": {"memory": "4Gi", "gpus": 1}}
}"""
    job = loads(text, source=source, base=None)
    assert job.roles["chief"].command == Command(argv=("echo", "\U0001f600", "a/b"))
    assert job.places["roles.chief.gpus"] == Location(source, 5, 39)


def test_loads_accepts_a_byte_order_mark_and_windows_line_ends() -> None:
    text = (
        "\ufeff"
        + "name: t\nimage: tf\ncommand: x\nstrategy: single\nroles: {chief: {memory: "
        "4Gi}}\n".replace("\n", "\r\n")
    )
    assert loads(text.encode(), source="x", base=None).name == "t"


def test_loads_accepts_document_marks() -> None:
    assert (
        small().name
        == read(
            "---\nname: t\nimage: tf\ncommand: x\nstrategy: single\nroles: {chief: "
            "{memory: 4Gi}}\n...\n# end\n"
        ).name
    )


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(FULL)
    assert load(path, name="other", overrides=["roles.worker.instances=8"]).counts["worker"] == 8
    assert load(path, name="other").places["name"] == Location("--name")


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ("/etc/hadoop/conf", HadoopConf("node", "/etc/hadoop/conf")),
        ('"hdfs:///apps/conf.zip"', HadoopConf("archive", "hdfs:///apps/conf.zip")),
        (
            '"hdfs://nn:8020/apps/conf.tar.gz"',
            HadoopConf("archive", "hdfs://nn:8020/apps/conf.tar.gz"),
        ),
        ('"hdfs:///apps/conf.tgz"', HadoopConf("archive", "hdfs:///apps/conf.tgz")),
    ],
)
def test_hadoop_conf_may_be_an_archive_or_a_node_directory(conf: str, expected: HadoopConf) -> None:
    assert small(f"hadoop: {{conf: {conf}}}\n").hadoop == expected


def test_hadoop_conf_inline_takes_the_files_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_bytes(b"<configuration/>")
    (tmp_path / "yarn-site.xml").write_bytes(b"<configuration></configuration>")
    (tmp_path / "ssl-server.xml").write_bytes(b"secret")
    conf = small("hadoop: {conf: inline}\n", hadoop_conf=tmp_path).hadoop
    assert conf is not None
    assert [(file.name, file.content) for file in conf.files] == [
        ("core-site.xml", b"<configuration/>"),
        ("yarn-site.xml", b"<configuration></configuration>"),
    ]


SITE = Defaults(
    job={
        "image": "site/tf:2",
        "queue": "default",
        "network": "bridge",
        "env": {"http_proxy": "", "SHARED": "site"},
        "mounts": ["/etc/krb5.conf:/etc/krb5.conf", "/site:/data"],
        "lifetime": "1d",
        "bootstrap": True,
        "hadoop": {"conf": "/etc/hadoop/conf"},
    },
    shapes={"big": {"cpus": 8, "memory": "32Gi", "gpus": 1}},
    source="settings.yaml",
)


def test_site_fills_keys_that_the_job_does_not_state() -> None:
    job = read(
        "name: t\ncommand: x\nstrategy: single\nqueue: ml\nenv: {SHARED: job, OWN: "
        "a}\nmounts: ['/mine:/data']\n"
        "roles: {chief: {memory: 4Gi}}\n",
        defaults=SITE,
    )
    chief = job.roles["chief"]
    assert (chief.image, job.queue, job.network, job.lifetime_s) == (
        "site/tf:2",
        "ml",
        "bridge",
        86_400,
    )
    assert chief.env == {"http_proxy": "", "SHARED": "job", "OWN": "a"}
    assert chief.mounts == (Mount("/etc/krb5.conf", "/etc/krb5.conf"), Mount("/mine", "/data"))
    assert job.hadoop == HadoopConf("node", "/etc/hadoop/conf")


def test_shape_fills_keys_that_the_role_does_not_state() -> None:
    chief = small(roles="{chief: {shape: big, cpus: 2}}", defaults=SITE).roles["chief"]
    assert (chief.cpus, chief.memory_mib, chief.gpus) == (2, 32_768, 1)


def test_locations_name_the_source_of_each_value() -> None:
    job = small(
        "env: {A: b}\nlifetime: 2h\n",
        roles="{chief: {shape: big, gpus: 0, env: {C: d}}}",
        defaults=SITE,
        overrides=["grace=1m"],
    )
    expected = {
        "name": Location("train.yaml", 3, 1),
        "env.A": Location("train.yaml", 1, 7),
        "env.SHARED": Location("settings.yaml"),
        "network": Location("settings.yaml"),
        "lifetime": Location("train.yaml", 2, 1),
        "grace": Location("--set"),
        "start_timeout": Location("default"),
        "deciding_role": Location("default"),
        "roles.chief.memory": Location("settings.yaml, shape big"),
        "roles.chief.gpus": Location("train.yaml", 7, 29),
        "roles.chief.instances": Location("default"),
        "roles.chief.env.C": Location("train.yaml", 7, 44),
        "roles.chief.mounts[0]": Location("settings.yaml"),
    }
    assert {path: job.places.get(path) for path in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keras: legacy\n", {"A": "b", "TF_USE_LEGACY_KERAS": "1"}),
        ("keras: installed\n", {"A": "b"}),
        ("", {"A": "b"}),
    ],
)
def test_keras_legacy_sets_its_variable_for_all_roles(text: str, expected: dict[str, str]) -> None:
    job = small(
        f"{text}env: {{A: b}}\n",
        roles="{chief: {memory: 1Gi}, tensorboard: {memory: 1Gi, command: x}}",
    )
    assert [dict(role.env) for role in job.roles.values()] == [expected, expected]


def test_workdir_of_a_role_replaces_the_jobs() -> None:
    job = loads(
        "name: t\nimage: none\ncommand: x\nstrategy: multi-worker\nworkdir: src\n"
        "roles: {chief: {memory: 1Gi}, worker: {memory: 1Gi, workdir: /opt/app}}\n",
        source="train.yaml",
        base=None,
    )
    assert [role.workdir for role in job.roles.values()] == ["src", "/opt/app"]
    assert not job.roles["chief"].in_container


def test_python_of_a_role_takes_the_interpreter_of_the_job() -> None:
    job = loads(
        "name: t\nimage: tf:2\ncommand: x\nstrategy: multi-worker\npython: python3.9\n"
        "roles: {chief: {memory: 1Gi}, worker: {memory: 1Gi, python: {}},"
        " board: {memory: 1Gi, command: b, python: python3.11}}\n",
        source="train.yaml",
        base=None,
    )
    found = {name: job.python_of(role).interpreter for name, role in job.roles.items()}
    assert found == {"chief": "python3.9", "worker": "python3.9", "board": "python3.11"}
