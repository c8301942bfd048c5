"""`image check`: what is judged of what was seen, and what Docker's refusals become. A real Docker
answers in tests/docker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container.programs import imageprobe
from submit_tf_job.doctor.image_findings import TOOLS, EntryPointSeen, ImageSeen, judge_image
from submit_tf_job.doctor.images import _probe, _read, _secrets
from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused, SubmitTFJobError
from submit_tf_job.host.dockercli import Docker

PROBE: Mapping[str, Any] = {
    "python": [3, 11, 2],
    "modules": {"ssl": "", "zlib": ""},
    "tmp_mode": 0o1777,
    "krb5": True,
    "certificates": True,
    "locale_error": "",
    "hadoop": {
        "hdfs_native": "0.14.7",
        "hdfs_native_error": "",
        "libhdfs": "",
        "home": "",
        "java": "",
    },
    "tensorflow": {
        "version": "2.15.1",
        "is_cuda_build": "True",
        "cuda_version": "12.2",
        "cudnn_version": "8",
        "keras": "2.15.0",
        "tf_keras": "",
    },
    "cuda": {"libcudart.so.12": True, "libcudnn.so.8": True},
}
GOOD = ImageSeen(
    "ml/tf:2.15",
    {"Id": "sha256:1", "Size": 1_463_000_000, "Os": "linux", "Architecture": "amd64", "Config": {}},
    {name: f"/bin/{name}" for name in ("bash", "/bin/bash", *TOOLS)},
    "bash",
    "python3",
    "3.11.2",
    PROBE,
)


def configured(**config: Any) -> ImageSeen:
    return replace(GOOD, inspected={**GOOD.inspected, "Config": config})


def probed(**values: Any) -> ImageSeen:
    return replace(GOOD, probe={**PROBE, **values})


def findings(seen: ImageSeen) -> dict[str, tuple[str, str]]:
    """Return what is not ok."""
    return {
        found.id: (found.status, f"{found.checked}; {found.breaks}; {found.fix}")
        for found in judge_image(seen)
        if found.status != "ok"
    }


def test_judge_image_of_a_complete_image() -> None:
    assert findings(GOOD) == {}
    assert len(judge_image(GOOD)) == 15
    assert all(found.checked and not found.breaks and not found.fix for found in judge_image(GOOD))


def test_judge_image_of_keras_3_with_tf_keras() -> None:
    seen = probed(tensorflow={**KERAS_3, "tf_keras": "2.21.0"})
    (found,) = (check for check in judge_image(seen) if check.id == "image-keras")
    assert (found.status, found.checked) == (
        "ok",
        "tf.keras is Keras 3.15.1; `keras: legacy` makes it tf_keras 2.21.0",
    )


ENTRY = {"Entrypoint": ["/start.sh"]}
RAN = EntryPointSeen(ran=True, is_first=True, status=0)
NO_CUDA = {**PROBE["tensorflow"], "is_cuda_build": "False"}
KERAS_3 = {**NO_CUDA, "version": "2.21.0", "keras": "3.15.1"}
NO_HDFS = {"hdfs_native": "", "hdfs_native_error": "x", "libhdfs": "", "home": "", "java": ""}


@pytest.mark.parametrize(
    ("seen", "finding", "status", "words"),
    [
        (
            replace(GOOD, programs={**GOOD.programs, "bash": "", "/bin/bash": ""}),
            "image-bash",
            "failure",
            "there is no bash",
        ),
        (
            replace(GOOD, programs={**GOOD.programs, "/bin/bash": ""}),
            "image-bash",
            "failure",
            "there is no /bin/bash",
        ),
        (
            replace(GOOD, programs={**GOOD.programs, "find": ""}),
            "image-tools",
            "failure",
            "missing: find; every container",
        ),
        (
            replace(GOOD, python_said="", probe=None),
            "image-python",
            "failure",
            "there is no python3",
        ),
        (
            replace(GOOD, python_said="Permission denied", probe=None),
            "image-python",
            "failure",
            "cannot be run by any user: Permission",
        ),
        (
            replace(GOOD, python_said="3.4.9", probe=None),
            "image-python",
            "failure",
            "is Python 3.4.9",
        ),
        (probed(modules={"zlib": "ImportError"}), "image-python", "failure", "without zlib"),
        (probed(modules={"ssl": "ImportError"}), "image-python", "warning", "without ssl"),
        (
            replace(configured(**ENTRY), entry_point=replace(RAN, ran=False)),
            "image-entrypoint",
            "failure",
            "YARN reports the job as SUCCEEDED",
        ),
        (
            replace(configured(**ENTRY), entry_point=EntryPointSeen(False, False, None)),
            "image-entrypoint",
            "failure",
            "did not end",
        ),
        (
            replace(configured(**ENTRY), entry_point=replace(RAN, is_first=False)),
            "image-entrypoint",
            "warning",
            "as a child",
        ),
        (configured(**ENTRY), "image-entrypoint", "warning", "not tested"),
        (
            configured(StopSignal="SIGRTMIN+3"),
            "image-stopsignal",
            "failure",
            "never ends such a container",
        ),
        (configured(StopSignal="9"), "image-stopsignal", "failure", "STOPSIGNAL 9"),
        (
            configured(Env=["NVIDIA_VISIBLE_DEVICES=all"]),
            "image-environment",
            "warning",
            "NVIDIA_VISIBLE_DEVICES=all",
        ),
        (configured(Env=["TF_CONFIG={}"]), "image-environment", "warning", "TF_CONFIG"),
        (
            replace(GOOD, secrets=("API_KEY looks",)),
            "image-environment",
            "failure",
            "API_KEY looks",
        ),
        (
            replace(GOOD, inspected={**GOOD.inspected, "Size": 2 * 10**10}),
            "image-size",
            "warning",
            "20,000 MB",
        ),
        (replace(GOOD, trusted=("local", "library")), "image-trust", "failure", "local, library"),
        (probed(tmp_mode=0o755), "image-tmp", "warning", "755"),
        (probed(tmp_mode=-1), "image-tmp", "warning", "there is no /tmp"),
        (probed(certificates=False), "image-ca-certs", "warning", "https"),
        (probed(krb5=False), "image-kerberos", "warning", "libgssapi_krb5.so.2"),
        (probed(hadoop=NO_HDFS), "image-hdfs", "warning", "neither hdfs-native nor"),
        (
            probed(hadoop={**NO_HDFS, "hdfs_native": "1", "hdfs_native_error": "boom"}),
            "image-hdfs",
            "warning",
            "cannot be imported: boom",
        ),
        (
            probed(hadoop={**NO_HDFS, "libhdfs": "/opt/hadoop/libhdfs.so"}),
            "image-hdfs",
            "warning",
            "without JAVA_HOME",
        ),
        (probed(tensorflow={}), "image-tensorflow", "warning", "there is no TensorFlow"),
        (
            probed(tensorflow=KERAS_3),
            "image-keras",
            "warning",
            "tf.keras is Keras 3.15.1, and there is no tf_keras; model.fit under",
        ),
        (
            probed(cuda={"libcudart.so.12": True}),
            "image-gpu",
            "warning",
            "libcudnn.so.8 is missing",
        ),
        (
            replace(GOOD, driver="470.82.01"),
            "image-gpu",
            "failure",
            "driver is 470.82.01; GPUs; nodes need driver 525.60 or later",
        ),
    ],
)
def test_judge_image_reports_what_is_missing(
    seen: ImageSeen, finding: str, status: str, words: str
) -> None:
    found = findings(seen)
    assert finding in found, found
    assert found[finding][0] == status
    assert words in found[finding][1]


@pytest.mark.parametrize(
    "seen",
    [
        configured(StopSignal="SIGTERM"),
        replace(configured(**ENTRY), entry_point=RAN),
        replace(
            configured(Entrypoint=["/usr/bin/tini", "--"]), entry_point=replace(RAN, is_first=False)
        ),
        probed(tensorflow=NO_CUDA, cuda={}),
        probed(hadoop={**NO_HDFS, "libhdfs": "/opt/hadoop/libhdfs.so", "java": "/usr/lib/jvm"}),
        probed(locale_error="unsupported locale setting"),
        replace(GOOD, driver="535.104.05"),
        replace(GOOD, trusted=("ml",)),
    ],
)
def test_judge_image_ignores_harmless_settings(seen: ImageSeen) -> None:
    assert findings(seen) == {}


def test_probe_sends_its_source_to_the_shell_of_the_image(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1" = run ] && printf "%s\\n" "$@"\nexit 0\n')
    docker.chmod(0o755)
    engine = Docker({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    shell, lines = _probe(engine, "ml/tf:2.15", "python3", ("bash",))
    assert (shell, lines[-1]) == ("bash", "bash")
    assert f'MARK = "{imageprobe.MARK}"' in lines


def test_read_parses_the_output_of_the_probe() -> None:
    lines = [
        "program bash /bin/bash",
        "program find ",
        "python 3.11.2",
        'submit_tf_job-image {"krb5": true}',
        "noise",
    ]
    assert _read(lines) == {
        "programs": {"bash": "/bin/bash", "find": ""},
        "python": "3.11.2",
        "probe": {"krb5": True},
    }
    assert _read(["python bash: line 6: python3: command not found"])["python"] == ""
    assert list(_secrets({"Env": ["PATH=/bin", "AWS_SECRET_ACCESS_KEY=abcdefgh", "A"]})) == [
        "AWS_SECRET_ACCESS_KEY in the image's environment looks like a secret"
    ]


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            ClusterUnavailable,
            "does not answer",
        ),
        (
            'error during connect: Get "http://x": dial tcp: lookup x: no such host',
            ClusterUnavailable,
            "does not answer",
        ),
        (
            "permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock",
            AuthError,
            "socket",
        ),
        (
            'Error response from daemon: Get "https://r.test/v2/": dial tcp: lookup '
            "r.test: no such host",
            Refused,
            "cannot be pulled: Get",
        ),
        (
            "Error response from daemon: manifest for tf:9 not found: manifest unknown",
            Refused,
            "manifest for tf:9 not found",
        ),
    ],
)
def test_docker_errors_become_one_message(
    said: str, kind: type[SubmitTFJobError], words: str, tmp_path: Path
) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(kind, match=words) as error:
        Docker({"PATH": f"{tmp_path}:{os.defpath}"}).pull("tf:9")
    assert error.value.hint
    assert type(error.value) is kind


def test_docker_not_installed(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="there is no `docker`") as error:
        Docker({"PATH": str(tmp_path)}).image("x")
    assert error.value.exit_status == 7


# --- the probe that runs inside: what TensorFlow's own files look like ---


@pytest.mark.parametrize(
    "written",
    [
        "collections.OrderedDict([('cuda_version', '12.2'), ('cudnn_version', '8'), "
        "('is_cuda_build', True), ('is_rocm_build', False)])",
        '{"cuda_version": "12.2", "cudnn_version": "8", "is_cuda_build": True}',
    ],
)
def test_imageprobe_reads_the_build_of_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """As 2.15.1 writes it, and as a plain dict."""
    (tmp_path / "tensorflow/python/platform").mkdir(parents=True)
    (tmp_path / "tensorflow/__init__.py").write_text(
        "raise AssertionError('importing it takes ten seconds')\n"
    )
    (tmp_path / "tensorflow/python/platform/build_info.py").write_text(f"build_info = {written}\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = imageprobe.tensorflow()
    assert {key: seen[key] for key in ("is_cuda_build", "cuda_version", "cudnn_version")} == {
        key: str(PROBE["tensorflow"][key])
        for key in ("is_cuda_build", "cuda_version", "cudnn_version")
    }
