"""The images of docker/ on a real Docker Engine, and `image check` on good ones and bad ones."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.conftest import DockerHost
from tests.tool import Result, Tool

pytestmark = pytest.mark.cluster

BUILD = Path(__file__).parents[2] / "docker/build"


def checked(done: Result) -> dict[str, tuple[str, str]]:
    assert done.json["kind"] == "Image"
    return {found["id"]: (found["status"], found["checked"]) for found in done.json["findings"]}


def test_the_images_of_this_project(tool: Tool, docker: DockerHost) -> None:
    text = tool("image", "check", "submit_tf_job/base:1")
    assert text.status == 0, text
    assert text.stderr == "13 checks: 12 passed, 1 warning\n"
    base = checked(tool("image", "check", "submit_tf_job/base:1", "-o", "json"))
    not_ok = {name for name, (status, _) in base.items() if status != "ok"}
    assert not_ok == {"image-tensorflow"}, base
    assert base["image-hdfs"][1].startswith("hdfs-native 0.")
    assert "it has the locale en_US.UTF-8" in base["image-locale"][1]
    good = checked(tool("image", "check", "submit_tf_job/entrypoint:1", "-o", "json"))
    assert good["image-entrypoint"] == (
        "ok",
        "ENTRYPOINT /usr/local/bin/entrypoint.sh runs its arguments",
    )
    done = tool("image", "check", "submit_tf_job/no-exec:1")
    assert done.status == 1
    assert "FAILURE  image-entrypoint" in done.stdout
    assert "does not run its arguments; it exited with status 0" in done.stdout
    assert "YARN reports the job as SUCCEEDED" in done.stdout
    images = {"Chief": "submit_tf_job/base:1", "Worker": "submit_tf_job/no-exec:1"}
    container = {"name": "tensorflow", "command": ["python3", "t.py"]}
    container |= {"resources": {"limits": {"memory": "1Gi"}}}  # type: ignore[dict-item]
    replicas = {
        role: {"template": {"spec": {"containers": [{**container, "image": image}]}}}
        for role, image in images.items()
    }
    tfjob = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "theirs"}}
    tfjob |= {"spec": {"tfReplicaSpecs": replicas}}
    (tool.cwd / "tfjob.json").write_text(json.dumps(tfjob))
    done = tool("image", "check", "--file", "tfjob.json", "-o", "json")
    assert done.status == 1
    assert {image["image"]: image["ok"] for image in done.json["images"]} == {
        "submit_tf_job/base:1": True,
        "submit_tf_job/no-exec:1": False,
    }
    docker.is_clean()


def test_one_s_own_image_is_built_offline_and_then_taken_from_its_tar(
    tmp_path: Path, docker: DockerHost
) -> None:
    """Base is made of packages here; a container of this engine has no way out."""
    mine = tmp_path / "mine"
    (mine / "src/bin").mkdir(parents=True)
    (mine / "src/bin/hello").write_text("#!/bin/sh\necho hello\n")
    (mine / "src/bin/hello").chmod(0o755)
    (mine / "Dockerfile").write_text(
        "FROM submit_tf_job/base:1\nCOPY src /opt/mine\nENV PATH=/opt/mine/bin:$PATH\n"
        "RUN hello && /opt/python/bin/pip install --no-cache-dir six==1.16.0\n"
        f"LABEL made-by={uuid.uuid4().hex}\n"
    )
    environ = {**os.environ, "DOCKER_HOST": docker.host}
    argv = [BUILD, mine]
    said = []
    for _ in range(2):
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stdout) == (0, "submit_tf_job/mine:1\n"), done.stderr
        show = 'hello; python -c "import six; print(six.__version__)"'
        run = ("run", "--rm", "--network", "none", "submit_tf_job/mine:1", "sh", "-c", show)
        assert docker(*run) == "hello\n1.16.0\n"
        docker("rmi", "submit_tf_job/mine:1")
        said.append(done.stderr.splitlines())
    assert [line[:10] for line in said[0][1:]] == ["RUN hello ", "importing "]  # base is there
    assert said[1] == ["importing submit_tf_job/mine:1"]  # its tar
    Path(subprocess.check_output([BUILD, "--tar", mine], text=True).strip()).unlink()


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("tensorflow-cpu", "TensorFlow without GPU support: roles with `gpus` would use the CPU"),
        ("tensorflow-gpu", "TensorFlow is built for CUDA 12.2 and cuDNN 8, which it has"),
    ],
)
def test_tensorflow_in_its_own_image(tool: Tool, docker: DockerHost, name: str, gpus: str) -> None:
    """Built of packages, without a registry; it trains on four tasks as it is, on the CPU where
    there is no GPU.
    """
    env = {**tool.environ, "DOCKER_HOST": docker.host}
    subprocess.run([BUILD, "--packages", name], env=env, check=True)
    found = checked(tool("image", "check", f"submit_tf_job/{name}:1", "-o", "json"))
    assert {status for status, _ in found.values()} == {"ok"}, found
    assert found["image-gpu"][1].startswith(gpus), found
    specs = Path(__file__).parents[2] / "specs"
    image = ("--set", f"image=submit_tf_job/{name}:1")
    done = tool("local", specs / "parameter-server.yaml", "--docker", *image)
    assert done.status == 0, done
    docker("image", "rm", "--force", f"submit_tf_job/{name}:1")  # gigabytes
