"""What the pages for new users tell them to type, as it stands there: in a fresh directory, with the wheel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import clusters
from tests.clusters import ROOT, Cluster
from tests.pages import DOCS, blocks

pytestmark = pytest.mark.cluster

COMING_FROM = sorted(path for path in (DOCS / "coming-from").glob("*.md") if path.stem != "README")
PAGES = [
    pytest.param(ROOT / "README.md", id="README"),
    *(
        pytest.param(page, id=page.stem, marks=pytest.mark.long)
        for page in (DOCS / "quickstart.md", DOCS / "agents.md", *COMING_FROM)
    ),
]
# what has been done already: the installation, and the cluster
DONE = ("export ", "python3 -m venv ", "python3.11 -m venv ", "submit_tf_job sandbox ")
ELSEWHERE = "getent "  # on a node of a cluster with Registry DNS
COMMAND_S = 900


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_it_stands(
    page: Path, installed: Path, simple: Cluster, tmp_path: Path
) -> None:
    environ = {
        **clusters.environment(),
        "PATH": f"{tmp_path}/bin:{installed.parent}:/usr/bin:/bin",
        "SUBMIT_TF_JOB_PROFILE": simple.profile,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "HADOOP_CONF_DIR": str(simple.client_conf),
    }
    (tmp_path / "bin").mkdir()
    for name, module in {"submit_tf_job": "submit_tf_job", "hdfsn": "hdfs_native.cli"}.items():
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {installed} -m {module} "$@"\n')
        script.chmod(0o755)
    made = tmp_path / "project"
    made.mkdir()
    ran = 0
    for block in blocks(page):
        if block.mark.startswith("file "):
            (made / block.mark.split()[1]).write_text(block.text)
        lines = block.text.splitlines() if block.language == "console" else []
        for line in lines if block.mark != "example" else []:
            command = line.removeprefix("$ ").replace("~/tf", str(clusters.tensorflow()))
            if command == line or command.startswith((*DONE, ELSEWHERE)):
                continue
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=made,
                env=environ,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            ran += 1
    assert ran, "the page says nothing to type"
