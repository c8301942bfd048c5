"""`image check` with a `docker` that answers from files: what is judged, and what Docker's refusals
become. A real Docker Engine answers in tests/docker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.command_line import Cli, Done

IMAGEPROBE = Path(__file__).parents[2] / "submit_tf_job/doctor/imageprobe.py"
# The shell is asked with --entrypoint; without it the image's own ENTRYPOINT runs.
DOCKER = """#!/bin/sh
here=$(dirname "$0")
case "$1" in
image) cat "$here/inspected.json" ;;
run) case "$*" in
  *"--entrypoint bash"*) [ -e "$here/no-bash" ] || exec cat "$here/probed"
    echo 'exec: "bash": executable file not found in $PATH' >&2; exit 127 ;;
  *--entrypoint*) cat "$here/probed" ;;
  *) cat "$here/entered" ;;
  esac ;;
esac
"""
PROGRAMS = ("bash", "/bin/bash", "ls", "find", "cp", "chmod", "mkdir", "ln")
NO_HDFS = {"hdfs_native": "", "hdfs_native_error": "x", "libhdfs": "", "home": "", "java": ""}
TENSORFLOW = {"version": "2.15.1", "keras": "2.15.0", "tf_keras": "", "is_cuda_build": "True"}
TENSORFLOW |= {"cuda_version": "12.2", "cudnn_version": "8"}
NO_CUDA = {**TENSORFLOW, "is_cuda_build": "False"}
KERAS_3 = {**NO_CUDA, "version": "2.21.0", "keras": "3.15.1"}
PROBE = {
    "python": [3, 11, 2],
    "modules": {"ssl": "", "zlib": ""},
    "tmp_mode": 0o1777,
    "krb5": True,
    "certificates": True,
    "locale_error": "",
    "hadoop": {**NO_HDFS, "hdfs_native": "0.14.7", "hdfs_native_error": ""},
    "tensorflow": TENSORFLOW,
    "cuda": {"libcudart.so.12": True, "libcudnn.so.8": True},
}
IMAGE = {"Id": "sha256:1", "Size": 1_463_000_000, "Os": "linux", "Architecture": "amd64"}


class Engine:
    """What the image of a test looks like."""

    def __init__(self, cli: Cli, directory: Path) -> None:
        self.cli, self.directory = cli, directory
        self.programs = {name: f"/bin/{name.rpartition('/')[2]}" for name in PROGRAMS}
        self.config: dict[str, Any] = {}
        self.image, self.probe = dict(IMAGE), dict[str, Any](PROBE)
        self.python, self.entered = "3.11.2", "submit_tf_job-ran 1"
        self.says(DOCKER)

    def says(self, script: str) -> None:
        (self.directory / "docker").write_text(script)
        (self.directory / "docker").chmod(0o755)

    def check(self, *words: str) -> Done:
        lines = [f"program {name} {path}" for name, path in self.programs.items()]
        lines += [f"python {self.python}", "noise"]
        if self.python == "3.11.2":
            lines.append(f"submit_tf_job-image {json.dumps(self.probe)}")
        inspected = [{**self.image, "Config": self.config}]
        said = {"probed": "\n".join(lines), "inspected.json": json.dumps(inspected)}
        for name, text in {**said, "entered": self.entered}.items():
            (self.directory / name).write_text(text + "\n")
        return self.cli("image", "check", "ml/tf:2.15", *words)

    def finds(self) -> dict[str, tuple[str, str]]:
        """Return what is not ok."""
        done = self.check("-o", "json")
        found = {
            one["id"]: (one["status"], f"{one['checked']}; {one['breaks']}; {one['fix']}")
            for one in done.json["findings"]
            if one["status"] != "ok"
        }
        assert done.status == any(status == "failure" for status, _ in found.values()), done
        return found


@pytest.fixture
def engine(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.defpath}")
    return Engine(cli, directory)


Change = Callable[[Engine], Any]


def config(**values: Any) -> Change:
    return lambda engine: engine.config.update(values)


def probed(**values: Any) -> Change:
    return lambda engine: engine.probe.update(values)


def without(*programs: str) -> Change:
    return lambda engine: engine.programs.update(dict.fromkeys(programs, ""))


def is_(**values: Any) -> Change:
    def change(engine: Engine) -> None:
        engine.config["Entrypoint"] = ["/start.sh"] if "entered" in values else None
        engine.image.update(values.pop("image", {}))
        for name, value in values.items():
            setattr(engine, name, value)

    return change


def test_image_check_of_a_complete_image(engine: Engine) -> None:
    assert engine.finds() == {}
    done = engine.check()
    assert (done.status, done.err) == (0, "15 checks: 15 passed\n"), done
    engine.probe["tensorflow"] = {**KERAS_3, "tf_keras": "2.21.0"}
    assert "tf.keras is Keras 3.15.1; `keras: legacy` makes it tf_keras 2.21" in engine.check().out


@pytest.mark.parametrize(
    ("change", "finding", "status", "words"),
    [
        (without("bash", "/bin/bash"), "image-bash", "failure", "there is no bash"),
        (without("/bin/bash"), "image-bash", "failure", "there is no /bin/bash"),
        (without("find"), "image-tools", "failure", "missing: find; every container"),
        (is_(python="bash: line 6: python3: command not found"), "image-python", "failure",
         "there is no python3"),
        (is_(python="Permission denied"), "image-python", "failure",
         "cannot be run by any user: Permission"),
        (is_(python="3.4.9"), "image-python", "failure", "is Python 3.4.9"),
        (probed(modules={"zlib": "ImportError"}), "image-python", "failure", "without zlib"),
        (probed(modules={"ssl": "ImportError"}), "image-python", "warning", "without ssl"),
        (is_(entered="hello"), "image-entrypoint", "failure", "YARN reports the job as SUCCEEDED"),
        (is_(entered="submit_tf_job-ran 7"), "image-entrypoint", "warning", "as a child"),
        (config(StopSignal="SIGRTMIN+3"), "image-stopsignal", "failure",
         "never ends such a container"),
        (config(StopSignal="9"), "image-stopsignal", "failure", "STOPSIGNAL 9"),
        (config(Env=["NVIDIA_VISIBLE_DEVICES=all"]), "image-environment", "warning",
         "NVIDIA_VISIBLE_DEVICES=all"),
        (config(Env=["TF_CONFIG={}"]), "image-environment", "warning", "TF_CONFIG"),
        (config(Env=["PATH=/bin", "AWS_SECRET_ACCESS_KEY=abcdefgh", "A"]), "image-environment",
         "failure", "AWS_SECRET_ACCESS_KEY in the image's environment looks like a secret"),
        (is_(image={"Size": 2 * 10**10}), "image-size", "warning", "20,000 MB"),
        (probed(tmp_mode=0o755), "image-tmp", "warning", "755"),
        (probed(tmp_mode=-1), "image-tmp", "warning", "there is no /tmp"),
        (probed(certificates=False), "image-ca-certs", "warning", "https"),
        (probed(krb5=False), "image-kerberos", "warning", "libgssapi_krb5.so.2"),
        (probed(hadoop=NO_HDFS), "image-hdfs", "warning", "neither hdfs-native nor"),
        (probed(hadoop={**NO_HDFS, "hdfs_native": "1", "hdfs_native_error": "boom"}),
         "image-hdfs", "warning", "cannot be imported: boom"),
        (probed(hadoop={**NO_HDFS, "libhdfs": "/opt/hadoop/libhdfs.so"}), "image-hdfs", "warning",
         "without JAVA_HOME"),
        (probed(tensorflow={}), "image-tensorflow", "warning", "there is no TensorFlow"),
        (probed(tensorflow=KERAS_3), "image-keras", "warning",
         "tf.keras is Keras 3.15.1, and there is no tf_keras; model.fit under"),
        (probed(cuda={"libcudart.so.12": True}), "image-gpu", "warning",
         "libcudnn.so.8 is missing"),
    ],
)  # fmt: skip
def test_image_check_reports_what_is_missing(
    engine: Engine, change: Change, finding: str, status: str, words: str
) -> None:
    change(engine)
    found = engine.finds()
    assert finding in found, found
    assert found[finding][0] == status
    assert words in found[finding][1]


@pytest.mark.parametrize(
    "change",
    [
        config(StopSignal="SIGTERM"),
        is_(entered="submit_tf_job-ran 1"),
        probed(tensorflow=NO_CUDA, cuda={}),
        probed(hadoop={**NO_HDFS, "libhdfs": "/opt/libhdfs.so", "java": "/usr/lib/jvm"}),
        probed(locale_error="unsupported locale setting"),
    ],
)
def test_image_check_ignores_harmless_settings(engine: Engine, change: Change) -> None:
    change(engine)
    assert engine.finds() == {}


def test_image_check_of_an_entry_point_that_starts_the_command_as_its_child(engine: Engine) -> None:
    engine.config["Entrypoint"] = ["/usr/bin/tini", "--"]
    engine.entered = "submit_tf_job-ran 7"
    assert engine.finds() == {}


@pytest.mark.parametrize(("registry", "status"), [("local", 1), ("ml", 0)])
def test_image_check_of_a_registry(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, registry: str, status: int
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_DOCKER_REGISTRIES", registry)
    assert ("image-trust" in engine.finds()) is bool(status)


def test_image_check_without_bash_asks_sh(engine: Engine) -> None:
    (engine.directory / "no-bash").touch()
    without("bash", "/bin/bash")(engine)
    assert set(engine.finds()) == {"image-bash"}


def test_check_of_a_driver(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "version"
    monkeypatch.setattr("submit_tf_job.doctor.images.DRIVER_FILE", said)
    for version, wrong in (("470.82.01", {"image-gpu"}), ("535.104.05", set())):
        said.write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Wed\n")
        found = engine.finds()
        assert set(found) == wrong
        if wrong:
            assert "driver is 470.82.01; GPUs; nodes need driver 525.60" in found["image-gpu"][1]


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", 2,
         "Docker does not answer"),
        ('error during connect: Get "http://x": dial tcp: lookup x: no such host', 2,
         "Docker does not answer"),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///x", 4,
         "you may not use Docker's socket"),
        ("Error response from daemon: boom", 9, "Docker refused: boom"),
        ("Error: No such image: ml/tf:2.15", 9, "this machine has no image ml/tf:2.15"),
    ],
)  # fmt: skip
def test_image_check_gives_a_refusal(engine: Engine, said: str, status: int, words: str) -> None:
    engine.says(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    done = engine.check()
    assert (done.status, done.out) == (status, "")
    assert words in done.err


def test_image_check_without_docker(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = engine.check()
    assert (done.status, "there is no `docker` on this machine's PATH" in done.err) == (2, True)


@pytest.mark.parametrize(
    "written",
    [
        "collections.OrderedDict([('cuda_version', '12.2'), ('cudnn_version', '8'), "
        "('is_cuda_build', True), ('is_rocm_build', False)])",  # as 2.15.1 writes it
        '{"cuda_version": "12.2", "cudnn_version": "8", "is_cuda_build": True}',
    ],
)
def test_imageprobe_reads_the_build_of_tensorflow(tmp_path: Path, written: str) -> None:
    package = tmp_path / "tensorflow/python/platform"
    package.mkdir(parents=True)
    (tmp_path / "tensorflow/__init__.py").write_text("raise AssertionError('ten seconds')\n")
    (package / "build_info.py").write_text(f"build_info = {written}\n")
    done = subprocess.run(
        [sys.executable, IMAGEPROBE],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    said = json.loads(done.stdout.partition("submit_tf_job-image ")[2])["tensorflow"]
    kept = ("is_cuda_build", "cuda_version", "cudnn_version")
    assert {key: said[key] for key in kept} == {key: TENSORFLOW[key] for key in kept}


OF_A_JOB = """\
{name: own, image: "a:1", strategy: custom, command: [x], python: /opt/bin/python, roles: {worker:
{memory: 1Gi}, other: {memory: 1Gi}, board: {memory: 1Gi, image: "b:1", python: python3.9}, plain:
{memory: 1Gi, image: none}}}
"""


@pytest.mark.parametrize("python", ["", "python3.8"])
def test_image_check_of_a_job_checks_each_image_once_with_its_role_s_python(
    engine: Engine, home: Path, python: str
) -> None:
    (home / "own.yaml").write_text(OF_A_JOB)
    asked = engine.directory / "asked"
    engine.check()
    engine.says(DOCKER.replace("case", f'echo "$*" >> {asked}\ncase', 1))
    words = ["--python", python] if python else []
    done = engine.cli("image", "check", "-f", "own.yaml", *words, "-o", "json")
    assert [image["image"] for image in done.json["images"]] == ["a:1", "b:1"], done.err
    runs = asked.read_text().split("run --rm")[1:]
    for image, own in (("a:1", "/opt/bin/python"), ("b:1", "python3.9")):
        [probe] = [text for text in runs if f"--entrypoint bash {image}" in text]
        assert (python or own) in probe
