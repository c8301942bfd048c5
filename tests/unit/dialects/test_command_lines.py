"""Command lines of other systems as jobs: each flag, the goldens, and what is said where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job.dialects import COMMANDS
from submit_tf_job.dialects.conversion import Conversion
from submit_tf_job.dialects.rows import ForeignKey
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import loads
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job, TFConfigMode
from submit_tf_job.plan import plan
from tests.golden.fixed import SITE
from tests.unit.dialects import eachkey

GOLDEN = Path(__file__).parent / "golden_commands"
FILES = GOLDEN / "files"
HOST = Host(FILES, None, (), None, None)


def converted(words: list[str], *sets: str, dialect: str | None = None) -> Conversion:
    return eachkey.Given(tuple(words), sets, "a command line", HOST).converted(dialect)


def job_of(line: str, *sets: str) -> Job:
    return converted(line.split(), *sets).job


def problems(line: str, *sets: str) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        converted(line.split(), *sets)
    return [str(problem) for problem in caught.value.problems]


# --- each flag ------------------------------------------------------------------------------------

SUBMARINE = (
    "yarn jar s.jar job run --name j --docker_image i --num_workers 2 "
    "--worker_resources memory=1G --worker_launch_cmd run --num_ps 1 --ps_resources memory=1G "
    "--ps_launch_cmd run --checkpoint_path hdfs:///c"
)
HBOX = "hbox-submit --app-name j --app-type tensorflow --worker-num 2 --worker-memory 1G"
TONY = (
    "java -cp tony.jar com.linkedin.tony.cli.ClusterSubmitter --executes t.py --conf_file tony.xml "
    "--conf tony.docker.containers.image=i"
)
BASES = {
    "tony-flags": TONY,
    "submarine-flags": SUBMARINE,
    "hbox-flags": HBOX,
    "yarn-8220-flags": "python submit_tf_job.py --input_spec yarn-8220.json --docker_image i",
}
# what a flag needs beside it, to have a meaning
WITH = {
    "--tensorboard_docker_image": "--tensorboard",
    "--tensorboard_resources": "--tensorboard",
    "--checkpoint_path": "--tensorboard",
    "--distribute_keytab": "--keytab /k --principal a/b@C",
    "--ps-memory": "--ps-num 1",
    "--ps-cores": "--ps-num 1",
    "--ps-gpus": "--ps-num 1",
    "--evaluatorworker-memory": "--tf-evaluator true",
    "--board-logdir": "--board-enable true",
    "--board-enable": "--board-logdir hdfs:///a",
    "--input-strategy": "--input /a#b",
    "--output-index": "--output /a#b",
    "--conf *.ps.memory": "--ps-num 1",
    "--conf *.ps.cores": "--ps-num 1",
    "--conf *.ps.gpus": "--ps-num 1",
    "--conf *.evaluator.worker.memory": "--tf-evaluator true",
    "--conf *.tf.board.enable": "--board-logdir hdfs:///a",
    "--conf *.tf.board.log.dir": "--board-enable true",
    "--conf *.ps.nodeLabelExpression": "--ps-num 1",
}


def without(words: list[str], flag: str) -> list[str]:
    return [
        word
        for word, before in zip(words, ["", *words], strict=False)
        if flag not in (word, before)
    ]


def words_of(flag: str, sample: str) -> tuple[list[str], str]:
    """Return the words of a flag with its sample, and its path in messages."""
    name, _, key = flag.partition(" ")
    if flag == "--command":
        return str(sample).split(), flag
    if not key:
        return [name, *([str(sample)] if sample is not None else [])], name
    value = str(sample)
    if key.endswith("**"):
        key, _, value = (key.removesuffix("**") + value).partition("=")
    key = re.sub(r"^\*", "hbox", key)
    return [name, f"{key}={value}"], f"{name} {key}"


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_each_flag_has_the_fate_of_the_table(name: str) -> None:
    rows = eachkey.keys_of(name)
    samples = eachkey.samples(name)
    assert sorted(samples) == sorted(row.path for row in rows)
    eachkey.each(rows, lambda row: flag_has_its_fate(name, row, samples[row.path]))


def flag_has_its_fate(name: str, row: ForeignKey, sample: Any) -> None:
    added, path = words_of(row.path, sample)
    base = without(BASES[name].split(), row.path) + WITH.get(row.path, "").split()
    sets = ("image=i",) if name == "hbox-flags" and "image" not in row.path else ()
    if row.path == "--saved_model_path":
        base = [*without(base, "--ps_launch_cmd"), "--ps_launch_cmd", "%saved_model_path%"]
    if row.path in ("--conf *.worker.num", "--conf *.worker.memory"):
        base = without(base, f"--{row.path[9:].replace('.', '-')}")
    if row.path == "--image_name":
        base = without(base, "--docker_image")
    if name == "submarine-flags" and row.path.startswith("--conf tony"):
        base.append("--insecure")
    command = ["run"] if name == "hbox-flags" and not row.path.endswith(("cmd", "command")) else []
    before, after = (
        eachkey.Given((*base, *more, *command), sets, "a command line", HOST)
        for more in ([], added)
    )
    eachkey.check(row, path, before, after)


_YAML = (FILES / "submarine.yaml").read_text("utf-8")


@pytest.mark.slow
def test_each_key_of_submarine_s_file_has_the_fate_of_the_table() -> None:
    eachkey.each(eachkey.keys_of("submarine"), key_has_its_fate)


def key_has_its_fate(key: ForeignKey) -> None:
    samples = eachkey.samples("submarine")
    names = {f"{where}envs.*": "B" for where in ("configs.", "roles.worker.", "roles.ps.")}
    path = eachkey.steps(key.path, names)
    snake = re.sub(r"(?<!tensor)([A-Z])", lambda match: "_" + match[1].lower(), key.path)
    tree = yaml.safe_load(_YAML)
    for spelling in (snake, key.path, key.path.replace("docker_image", "dockerImage")):
        tree = eachkey.left_out(tree, eachkey.steps(spelling, names))
    if "tensor" in key.path and "tensorBoard" not in key.path:
        del tree["tensorBoard"]
    sample = samples.get(snake.replace("tensorboard", "tensorBoard"), samples.get(key.path))
    assert sample is not None
    after = eachkey.Given(json.dumps(eachkey.with_value(tree, path, sample)))
    before = eachkey.Given(json.dumps(tree))
    eachkey.check(key, eachkey.shown(path), before, after)


# --- conversions ----------------------------------------------------------------------------------

_SETS = {
    "hbox": ["image=registry.example.com/tf:2", "roles.tensorboard.memory=2Gi"],
}
_THEIRS = sorted(GOLDEN.glob("*.txt"))


@pytest.mark.parametrize("path", _THEIRS, ids=lambda path: path.stem)
def test_convert_gives_the_golden_which_plans_to_the_same_service(path: Path) -> None:
    words = path.read_text("utf-8").removesuffix("\n").split("\n")
    made = converted(words, *_SETS.get(path.stem, []))
    assert made.text == (GOLDEN / f"{path.stem}.job.yaml").read_text("utf-8")
    own = loads(made.text, source="job.yaml", base=FILES)
    assert own == made.job
    assert plan(own, SITE).body == plan(made.job, SITE).body
    assert eachkey.Given(made.text, (), "job.yaml", HOST).converted().text == made.text


# --- meaning --------------------------------------------------------------------------------------


def test_problem_stands_at_its_argument() -> None:
    line = SUBMARINE.replace("memory=1G --worker_l", "memory=1T,cores=2 --worker_l")
    assert problems(line)[0] == (
        "argument 12: --worker_resources: 'memory=1T' is not an amount such as memory=4G, "
        "vcores=2 or gpu=1"
    )


def test_submarine_with_no_worker_is_tensorboard_alone() -> None:
    line = "job run --name t --docker_image i --num_workers 0 --tensorboard --checkpoint_path /c"
    job = job_of(line)
    assert (list(job.roles), job.deciding_role) == (["tensorboard"], "tensorboard")


def test_submarine_refuses_a_ps_beside_one_worker() -> None:
    (problem,) = problems(SUBMARINE.replace("--num_workers 2", "--num_workers 1"))
    assert "--num_ps: Submarine refuses parameter servers with one worker" in problem


def test_true_behind_a_switch_of_submarine_is_read_past() -> None:
    job = job_of(f"{SUBMARINE} --tensorboard true --verbose")
    assert "tensorboard" in job.roles


def test_events_on_hdfs_without_a_board_are_a_warning() -> None:
    given = f"{HBOX} --conf hbox.docker.image=i --board-logdir hdfs:///a run"
    said = converted(given.split()).remarks
    assert any("say --board-enable true" in str(remark) for remark in said)


def test_environment_that_is_given_twice_is_joined_as_in_submarine() -> None:
    job = job_of(f"{SUBMARINE} --env A=1 --env A=2 --env DOCKER_JAVA_HOME=/j")
    assert dict(job.roles["worker"].env) == {"A": "1:2", "JAVA_HOME": "/j"}


def test_localizations_of_submarine_with_similar_names_are_two_inputs() -> None:
    names = ["a-name-of-many-letters-for-part.a", "a-name-of-many-letters-for-part.b"]
    line = " ".join(f"--localization hdfs:///d/{name}:." for name in names)
    job = job_of(f"{SUBMARINE} {line}")
    assert [item.uri.rpartition("/")[2] for item in job.inputs] == names
    for item in job.inputs:
        variable, name = f'"$TFJOB_INPUT_{item.name.upper()}"', item.uri.rpartition("/")[2]
        assert f"ln -sfn {variable} {name}\n" in (job.roles["chief"].command.script or "")


def test_localization_of_submarine_does_not_replace_the_input_path() -> None:
    line = "--input_path hdfs:///in --localization hdfs:///other:input_path"
    job = job_of(f"{SUBMARINE} {line}")
    assert {item.uri for item in job.inputs} == {"hdfs:///in", "hdfs:///other"}


def test_distributed_keytab_is_a_file_of_this_host() -> None:
    more = "--keytab k.keytab --principal a/b@C --distribute_keytab"
    (problem,) = problems(f"{SUBMARINE} {more}")
    assert "--keytab" in problem
    assert "k.keytab" in problem
    job = job_of(f"{SUBMARINE} --keytab /k.keytab --principal a/b@C")
    assert job.kerberos is not None
    assert job.kerberos.keytab == "file:///k.keytab"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{SUBMARINE} --localization ./a:/b", "is absolute, and files go to the working"),
        (f"{SUBMARINE} --localization ./a:./b:ro", "no read-only localization"),
        (f"{SUBMARINE} --quicklink A=http://driver-0:1", "there is no role 'driver'"),
        (f"{SUBMARINE} --quicklink A", "expected LABEL=http://ROLE-0:PORT"),
        (f"{SUBMARINE} --worker_resource memory=1G", "did you mean '--worker_resources'?"),
        (f"{SUBMARINE} --name k", "given before, as argument 6, with another value"),
        (f"{SUBMARINE} word", "argument 24: 'word' belongs to no flag; put quotes"),
        (f"{SUBMARINE} --queue", "argument 24: --queue: a value is missing"),
        (f"{SUBMARINE} --f nosuch.yaml", "nosuch.yaml: cannot be read"),
        (f"{SUBMARINE} --f submarine.yaml", "spec.name in the file says it, too; leave one out"),
        (f"{TONY} --shell_env A", "argument 11: --shell_env: expected NAME=VALUE, found 'A'"),
        (f"{TONY} --conf tony.worker.memry=3g", "TonY's ClusterSubmitter has no property"),
        ("kubectl apply -f x.yaml", "argument 1: 'kubectl' begins no command line that is read"),
        (f"{HBOX} --output-index 3 run", "only task 0 of the deciding role can store"),
        (f"{HBOX} --worker-memory 1T run", "given before"),
        (f"{HBOX} --conf a run", "expected NAME=VALUE, found 'a'"),
        (f"{HBOX} --files hdfs:///a run", "say --cacheFile"),
        (f"{HBOX} --input /a,/b#c run", "'c' has several; say --input for each"),
        (f"{HBOX} --input /a#c --input /b#c run", "'c' has several; say --input for each"),
        ("hbox-submit --app-type pytorch run", "`submit_tf_job init --strategy torch`"),
        (f"{SUBMARINE} --framework pytorch", "PyTorch has no parameter servers; leave it out"),
        (f"{SUBMARINE} --framework mxnet", "`submit_tf_job init --strategy custom`"),
        (f"{HBOX} --cacheFile hdfs:///a#../b run", "'../b' does not lie in the task's working"),
        (f"{HBOX} --output /a#/etc/b run", "'/etc/b' does not lie in the task's working"),
        (f"{SUBMARINE} --localization hdfs:///a:../b", "'../b' does not lie in the task's working"),
        ("submit_tf_job.py --job_name a", "there is no --input_spec"),
        ("submit_tf_job.py --input_spec submarine.yaml", "has no key 'spec'"),
    ],
)
def test_wrong_command_line_is_refused(line: str, expected: str) -> None:
    assert any(expected in problem for problem in problems(line))


def test_command_line_without_a_program_is_read_by_its_forced_name() -> None:
    words = [*HBOX.split()[1:], "run", "--fast"]
    made = converted(words, "image=i", dialect="hbox-flags")
    assert made.job.roles["worker"].command.argv == ("run", "--fast")


def test_tony_s_command_is_put_together_from_its_flags() -> None:
    flags = "--task_params=--steps=3 --python_binary_path"
    script = job_of(f"{TONY} {flags} bin/python").roles["ps"].command.script or ""
    assert script == "bin/python t.py --steps=3"
    venv = "--python_venv hdfs:///v.zip"
    script = job_of(f"{TONY} {flags} bin/python {venv}").roles["worker"].command.script or ""
    assert script.endswith("\nvenv/bin/python t.py --steps=3")
    script = job_of(f"{TONY} {flags} /bin/python {venv}").roles["worker"].command.script or ""
    assert script.endswith("\n/bin/python t.py --steps=3")


def test_tony_s_properties_on_the_command_line_are_stronger_than_the_file_s() -> None:
    job = job_of(f"{TONY} --conf tony.worker.instances=5 --conf tony.ps.memory=3g")
    assert (job.counts["worker"], job.roles["ps"].memory_mib) == (5, 3 * 1024)
    assert job.places["roles.ps.memory"].source == "argument 13"
    assert job.places["roles.worker.memory"].source == "tony.xml"


@pytest.mark.parametrize("option", ["-cp", "-classpath", "--class-path"])
def test_tony_s_file_is_found_on_the_classpath(option: str) -> None:
    line = TONY.replace("-cp tony.jar", f"{option} /no/conf:*:tony.jar:.").replace(
        " --conf_file tony.xml", ""
    )
    job = job_of(line)
    assert job.counts == job_of(TONY).counts
    assert job.places["roles.worker.memory"].source == "./tony.xml"
    assert "there is no task" in "".join(problems(line.replace(":.", ":gone")))


def test_list_that_ends_with_a_comma_goes_on_in_the_next_word() -> None:
    lists = "--localization hdfs:///a:./a --conf tony.containers.resources=hdfs:///b#archive,"
    job = job_of(f"{SUBMARINE} {lists} hdfs:///c --insecure")
    assert {str(given.uri) for given in job.inputs} >= {"hdfs:///b", "hdfs:///c"}


def test_submarine_s_homes_are_not_given_twice() -> None:
    homes = "--env JAVA_HOME=/java --env DOCKER_JAVA_HOME=/java --env HADOOP_HDFS_HOME=/a"
    env = job_of(f"{SUBMARINE} {homes} --env DOCKER_HADOOP_HDFS_HOME=/b").roles["worker"].env
    assert (env["JAVA_HOME"], env["HADOOP_HDFS_HOME"]) == ("/java", "/a:/b")


def test_yarn_8220_flags_without_distributed_have_no_tf_config() -> None:
    line = "submit_tf_job.py --input_spec yarn-8220.json --docker_image i"
    assert job_of(line).tf_config is TFConfigMode.NONE
    assert job_of(f"{line} --distributed").tf_config is TFConfigMode.COUNTS


def test_yarn_8220_gpus_are_put_behind_each_command() -> None:
    job = job_of("submit_tf_job.py -input_spec=yarn-8220.json -image_name i --gpu 2")
    assert {role.gpus for role in job.roles.values()} == {2}
    scripts = [role.command.script or "" for role in job.roles.values()]
    assert all(script.endswith(" --num-gpus=2") for script in scripts)


@pytest.mark.parametrize(
    "command",
    [
        "job run --name a --docker_image i --num_workers 1 --worker_resources memory=1G,vcores=1 "
        "--worker_launch_cmd ./t --localization hdfs:///data/mnist:./data/in/mnist",
        "java com.linkedin.tony.cli.ClusterSubmitter --executes ./t --conf tony.worker.instances=1 "
        "--conf tony.application.name=a --conf tony.docker.containers.image=i "
        "--conf tony.containers.resources=hdfs:///data/mnist::data/in/mnist",
        "hbox-submit --app-name a --app-type tensorflow --conf hbox.docker.image=i "
        "--cacheFile hdfs:///data/mnist#data/in/mnist ./t",
    ],
)
def test_a_fetched_file_below_a_directory_has_that_directory(command: str) -> None:
    text = converted(command.split()).text
    link = 'ln -sfn "$TFJOB_INPUT_DATA_IN_MNIST" data/in/mnist'
    assert 0 < text.index("mkdir -p data/in") < text.index(link)


DEFAULT = "hdfs:///user/$USER/submarine/jobs/tf-job-001/staging/checkpoint_path"
GUIDE = (
    "yarn jar submarine.jar job run --name tf-job-001 --docker_image i --num_workers 1 "
    "--worker_resources memory=8G,vcores=2,gpu=1"
)


@pytest.mark.parametrize(
    ("line", "role", "command"),
    [
        (
            f"{GUIDE} --worker_launch_cmd --job-dir=%checkpoint_path%/%saved_model_path%",
            "worker",
            f"--job-dir={DEFAULT}/{DEFAULT}",
        ),
        (
            "job run --name tf-job-001 --docker_image i --num_workers 0 --tensorboard",
            "tensorboard",
            f"tensorboard --logdir {DEFAULT} --bind_all --port $TFJOB_PORT_HTTP",
        ),
    ],
)
def test_submarine_has_a_default_place_of_checkpoints(line: str, role: str, command: str) -> None:
    made = converted(line.split())
    assert (
        made.job.roles.get(role, made.job.roles[made.job.deciding_role]).command.script == command
    )
    told = [str(remark) for remark in made.remarks if remark.level == "warning"]
    assert any(DEFAULT in line and "say --checkpoint_path" in line for line in told)


@pytest.mark.parametrize(("workers", "strategy"), [(1, "single"), (3, "torch")])
def test_submarine_s_pytorch_is_read(workers: int, strategy: str) -> None:
    line = GUIDE.replace("num_workers 1", f"num_workers {workers}")
    job = job_of(f"{line} --framework PyTorch --worker_launch_cmd run")
    assert (job.strategy.value, sum(role.instances for role in job.roles.values())) == (
        strategy,
        workers,
    )
