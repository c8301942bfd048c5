"""What several dialects read alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job import operations
from submit_tf_job.jobspec.dialects import common
from submit_tf_job.settings import load_settings

SUBMARINE = (
    "job run --name a --docker_image i --num_workers 1 --worker_resources memory=1G,vcores=1 "
    "--worker_launch_cmd ./t --localization hdfs:///data/mnist:./data/in/mnist"
)
TONY = (
    "java com.linkedin.tony.cli.ClusterSubmitter --executes ./t --conf tony.worker.instances=1 "
    "--conf tony.application.name=a --conf tony.docker.containers.image=i "
    "--conf tony.containers.resources=hdfs:///data/mnist::data/in/mnist"
)
HBOX = (
    "hbox-submit --app-name a --app-type tensorflow --conf hbox.docker.image=i "
    "--cacheFile hdfs:///data/mnist#data/in/mnist ./t"
)


@pytest.mark.parametrize("command", [SUBMARINE, TONY, HBOX])
def test_a_fetched_file_below_a_directory_has_that_directory(command: str) -> None:
    settings = load_settings(environ={"HOME": "/nowhere"}, cwd=Path("/"))
    made = operations.convert(command.split(), settings, source="a command", base=Path("/"))
    text = made.text
    link = 'ln -sfn "$TFJOB_INPUT_DATA_IN_MNIST" data/in/mnist'
    assert 0 < text.index("mkdir -p data/in") < text.index(link)


def test_link_of_an_archive_unpacks_it() -> None:
    words = common.link("TFJOB_INPUT_A", "my data", unpack=True)
    assert words.startswith("python3 -c 'import shutil, sys; shutil.unpack_archive(")
    assert words.endswith(""" "$TFJOB_INPUT_A" 'my data'""")


@pytest.mark.parametrize(
    ("number", "unit", "mib"), [("2", "g", 2048), ("2", "G", 2048), ("512", "m", 512), ("8", "", 8)]
)
def test_mebibytes_of_a_unit(number: str, unit: str, mib: int) -> None:
    assert common.mebibytes(number, unit) == mib


@pytest.mark.parametrize(
    ("source", "path"), [("file:///a/b", "/a/b"), ("file:/a/b", "/a/b"), ("a/b", "a/b")]
)
def test_local_path_of_a_file_of_this_host(source: str, path: str) -> None:
    assert common.is_local(source)
    assert common.local_path(source) == path
    assert not common.is_local(f"hdfs://{path}")
