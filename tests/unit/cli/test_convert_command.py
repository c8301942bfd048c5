"""convert and formats."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from submit_tf_job.cli import main

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a, namespace: b}
spec:
  runPolicy: {cleanPodPolicy: None}
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - {name: tensorflow, image: i, command: [x], resources: {limits: {memory: 1Gi}}}
"""
PATH = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
SUBMARINE = (
    "yarn jar submarine.jar job run --name a --docker_image i --num_workers 1 "
    "--worker_resources memory=1G,vcores=1 --worker_launch_cmd t"
)
LOST = (
    "theirs.yaml:3:21: metadata.namespace: YARN has no namespaces; choose a queue with "
    "--set queue=NAME"
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.yaml").write_text(TFJOB)

    def run(*argv: str) -> Done:
        capsys.readouterr()
        status = main(list(argv))
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return run


def test_convert_prints_a_job_spec_that_validates(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("convert", "theirs.yaml", "--set", "queue=ml", "--name", "c")
    assert done.status == 0
    assert done.out.startswith("# From theirs.yaml: TFJob (kubeflow.org/v1)\nname: c\n")
    assert "queue: ml\n" in done.out
    assert done.err.splitlines() == [f"warning: {LOST}", "3 keys mean nothing on YARN"]
    (tmp_path / "job.yaml").write_text(done.out)
    assert cli("validate", "job.yaml").out == "job.yaml: ok\n"
    assert cli("convert", "job.yaml").out == done.out


def test_convert_check_of_a_file_without_memory_says_what_is_lost_too(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    text = TFJOB.replace(", resources: {limits: {memory: 1Gi}}", "")
    (tmp_path / "theirs.yaml").write_text(text)
    done = cli("convert", "theirs.yaml", "--check")
    assert (done.status, done.out) == (2, "")
    lost, problem = done.err.splitlines()
    assert lost == f"warning: {LOST}"
    assert "add --set roles.worker.memory=4Gi" in problem


def test_convert_check_prints_only_what_does_not_carry_over(cli: Callable[..., Done]) -> None:
    done = cli("convert", "theirs.yaml", "--check", "-v")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"warning: {LOST}",
        "3 keys mean nothing on YARN: apiVersion, kind, spec.runPolicy.cleanPodPolicy",
    ]


def test_convert_strict_fails_where_something_does_not_carry_over(cli: Callable[..., Done]) -> None:
    done = cli("convert", "theirs.yaml", "--strict")
    assert (done.status, done.out, done.err) == (2, "", f"{LOST}\n")


def test_convert_as_json(cli: Callable[..., Done]) -> None:
    made = json.loads(cli("convert", "theirs.yaml", "-o", "json").out)
    assert (made["dialect"], made["version"]) == ("TFJob", "kubeflow.org/v1")
    assert made["remarks"][0]["path"] == "metadata.namespace"
    assert made["silent"] == ["apiVersion", "kind", "spec.runPolicy.cleanPodPolicy"]


def test_convert_from_forces_a_format(cli: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(TFJOB.replace("kubeflow.org/v1", "example.com/v1"))
    assert cli("convert", "own.yaml").status == 2
    assert cli("convert", "own.yaml", "--from", "tfjob").status == 0
    done = cli("convert", "own.yaml", "--from", "nosuch")
    assert (done.status, done.err.partition(";")[0]) == (2, "--from: there is no format 'nosuch'")


@pytest.mark.parametrize("command", ["validate", "render", "local"])
def test_from_forces_a_format_for_every_reader_of_a_job_spec(
    cli: Callable[..., Done], command: str
) -> None:
    done = cli(command, "theirs.yaml", "--from", "yarnfile")
    assert done.status == 2
    assert "Yarnfile has no key 'apiVersion'" in done.out + done.err
    done = cli(command, "theirs.yaml", "--from", "jobspec")
    assert "unknown key 'apiVersion'" in done.out + done.err


@pytest.mark.parametrize(
    ("script", "line", "way"),
    [
        ("#!/bin/sh\n# spark-submit it\nexec $SPARK/bin/spark-submit --a b.py\n", 3, "TFCluster"),
        ("export A=b\nspark-submit --master yarn train.py\n", 2, "TFCluster"),
        ("ydl-tf launch --num_worker 2 --num_ps 1\n", 1, "init --strategy parameter-server"),
    ],
)
def test_launcher_without_a_job_is_named_with_the_way_on(
    cli: Callable[..., Done], tmp_path: Path, script: str, line: int, way: str
) -> None:
    (tmp_path / "run.sh").write_text(script)
    of_file = cli("validate", "run.sh")
    of_command = cli("convert", "--", *shlex.split(script.splitlines()[line - 1]))
    assert (of_file.status, of_command.status) == (2, 2)
    assert of_file.out.startswith(f"run.sh:{line}:")
    place, _, message = of_command.err.strip().partition(": ")
    assert place.startswith("argument ")
    assert message in of_file.out
    assert way in message
    assert "convert --" not in message


def test_principal_without_a_host_is_asked_for_with_one(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    """YARN-8220's own example has such a principal."""
    part = {"number_of_containers": 1, "resource": {"memory": "256"}, "launch_command": "x"}
    tree = {
        "name": "distributed-tf",
        "components": [{"name": name, **part} for name in ("master", "worker", "ps")],
        "kerberos_principal": {"principal_name": "me@EXAMPLE.COM", "keytab": "file:///k"},
    }
    (tmp_path / "tf.json").write_text(json.dumps(tree, indent=1))
    line = ("submit_tf_job.py", "--input_spec", "tf.json", "--docker_image", "i", "--distributed")
    done = cli("convert", "--", *line)
    assert (done.status, done.out) == (2, "")
    assert "kerberos_principal.principal_name: 'me@EXAMPLE.COM' has no host" in done.err
    option = "kerberos.principal=me/_HOST@EXAMPLE.COM"
    assert f"add --set {option}\n" in done.err
    done = cli("convert", "--set", option, "--", *line)
    assert (done.status, "principal: me/_HOST@EXAMPLE.COM\n" in done.out) == (0, True)


def test_memory_comes_from_the_settings_where_the_file_states_none(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no.yaml").write_text(TFJOB.replace(", resources: {limits: {memory: 1Gi}}", ""))
    done = cli("convert", "no.yaml")
    assert done.status == 2
    assert "add --set roles.worker.memory=4Gi" in done.err
    monkeypatch.setenv("SUBMIT_TF_JOB_TASK_MEMORY", "3Gi")
    done = cli("convert", "no.yaml")
    assert done.status == 0
    said = "no memory is stated, and YARN needs an amount; 3Gi is the settings' task_memory"
    assert f"    memory: 3Gi  # {PATH}: {said}\n" in done.out
    assert f"note: no.yaml:11:15: {PATH}: {said}" in done.err
    assert "memory: 5Gi" in cli("convert", "no.yaml", "--set", "roles.worker.memory=5Gi").out


def test_image_of_the_settings_is_enough(cli: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "no.yaml").write_text(TFJOB.replace("image: i, ", ""))
    assert "add --set roles.worker.image=IMAGE" in cli("validate", "no.yaml").out
    path = Path(os.environ["HOME"]) / ".config/submit_tf_job/settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("job: {image: r/tf:1}\n")
    assert cli("validate", "no.yaml").out == "no.yaml: ok\n"


@pytest.mark.parametrize("what", ["nosuch.yaml", "."])
def test_convert_refuses_what_is_no_file(cli: Callable[..., Done], what: str) -> None:
    done = cli("convert", what)
    assert done.status == 2
    assert what in done.err


@pytest.mark.parametrize("command", ["validate", "render"])
def test_every_reader_of_a_job_spec_takes_a_tfjob_and_says_what_is_lost(
    cli: Callable[..., Done], command: str
) -> None:
    done = cli(command, "theirs.yaml")
    assert (done.status, done.err) == (0, f"warning: {LOST}\n")


def test_render_explain_says_where_the_value_stood(cli: Callable[..., Done]) -> None:
    lines = cli("render", "theirs.yaml", "--explain").out.splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown["roles.worker.memory"] == (
        "theirs.yaml:11:79 spec.tfReplicaSpecs.Worker.template.spec.containers[0].resources."
        "limits.memory"
    )


def test_formats_of_one_format_has_its_keys(cli: Callable[..., Done]) -> None:
    found = json.loads(cli("formats", "tfjob", "-o", "json").out)
    assert list(found["formats"]) == ["tfjob"]
    fates = {row["fate"] for row in found["keys"]}
    assert fates == {"mapped", "warning", "no meaning", "refused"}
    assert {row["key"] for row in found["keys"]} >= {"kind", "spec.successPolicy"}


@pytest.mark.parametrize(
    "command",
    [
        "hbox-submit --app-type tensorflow --worker-num 1 --files https://u:SECRET@h/x --hbox-cmd t",
        "hbox-submit --app-type tensorflow --worker-num 1 --files https://u:a@SECRET@h/x --hbox-cmd t",
        f"{SUBMARINE} --localization https://u:SECRET@h/d:./d:rw",
        f"{SUBMARINE} --input_path https://u:SECRET@h/d",
        "job run -f https://u:SECRET@h/job.yaml",
        "submit_tf_job.py --input_spec https://u:SECRET@h/job.json",
        "java com.linkedin.tony.cli.ClusterSubmitter --conf_file https://u:SECRET@h/tony.xml",
    ],
)
def test_messages_leave_the_password_of_a_url_out(cli: Callable[..., Done], command: str) -> None:
    done = cli("convert", "--", *command.split())
    assert done.status == 2
    assert "https://…@h/" in done.err
    assert "SECRET" not in done.err + done.out


def test_formats_lists_each_format(cli: Callable[..., Done]) -> None:
    assert "\ntfjob " in cli("formats").out
    listed = json.loads(cli("formats", "-o", "json").out)
    assert {"tfjob", "submarine", "hbox-flags"} <= set(listed["formats"])


def test_convert_takes_a_whole_command_line_and_says_what_to_run_next(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    line = "xl-submit --app-name one --worker-memory 2G --duration 1 --launch-cmd"
    done = cli("convert", "--set", "image=i", "--", *line.split(), "python t.py --steps 3")
    assert done.status == 0
    assert 'command: [python, t.py, "--steps", "3"]\n' in done.out
    last = "save it as one.yaml here, then: submit_tf_job submit one.yaml"
    assert done.err.splitlines()[-1] == last
    assert "warning: argument 6: --duration: " in done.err
    (tmp_path / "one.yaml").write_text(done.out)
    assert cli("validate", "one.yaml").status == 0


def test_convert_names_the_argument_of_a_problem(cli: Callable[..., Done]) -> None:
    done = cli("convert", "--", "hbox-submit", "--worker-nun", "2", "run")
    assert (done.status, done.out) == (2, "")
    assert "argument 2: --worker-nun: there is no flag '--worker-nun'; did you mean" in done.err


def test_convert_names_missing_files_beside_a_missing_image(cli: Callable[..., Done]) -> None:
    line = "hbox-submit --app-name a --worker-num 1 --files gone.py,gone2.py run"
    said = cli("convert", "--", *line.split()).err
    assert "there is no Docker image" in said
    assert "'gone.py': not found" in said
    assert "'gone2.py': not found" in said


def test_convert_from_forces_a_command_line(cli: Callable[..., Done]) -> None:
    words = ["--set", "image=i", "--", "my-hbox", "--app-name", "a", "--worker-num", "1", "run"]
    assert "argument 1: 'my-hbox' begins no command line" in cli("convert", *words).err
    assert cli("convert", "--from", "hbox-flags", *words).status == 0
