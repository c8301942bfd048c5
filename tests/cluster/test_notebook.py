"""In a notebook: a real kernel runs cells against the real cluster, and the live view is what the
last one left below its cell.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from submit_tf_job import Client, NoSuchJob
from tests.tool import SUBMIT_S

FOLLOWED = """
from submit_tf_job import Client
job = {
    "name": "in-a-notebook", "image": "library/python:3.11", "strategy": "multi-worker",
    "command": "echo 'TFJOB_PROGRESS {\\"step\\": 3, \\"total\\": 4}'; echo -e '<b>&\\\\033[31m'; sleep 4",
    "roles": {"worker": {"instances": 2, "memory": "128Mi"}},
}
client = Client()
handle = client.submit(job)
status = handle.watch(SUBMIT_S, lines=True)
"""
CALLED = """
from submit_tf_job import run
def double(number):
    import os
    return 2 * number, os.environ["TFJOB_ROLE"]
run(double, 21, job={"image": "library/python:3.11", "roles": {"worker": {"memory": "256Mi"}}})
"""


@pytest.fixture
def environment(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    # the kernel of this very Python
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix, "share/jupyter")))


def outputs(cell: Any, kind: str) -> list[Any]:
    return [output for output in cell.outputs if output.output_type == kind]


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.usefixtures("environment")
@pytest.mark.filterwarnings("default")  # of the kernel's client, which is not ours
def test_a_job_and_a_call_are_shown_live(client: Client, tmp_path: Path) -> None:
    v4: Any = nbformat.v4
    book = v4.new_notebook(
        cells=[
            v4.new_code_cell(text)
            for text in (
                FOLLOWED.replace("SUBMIT_S", str(SUBMIT_S)),
                "print(status)",
                CALLED,
                "client.jobs()",
            )
        ]
    )
    try:
        NotebookClient(
            book,
            timeout=2 * SUBMIT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
    finally:
        with contextlib.suppress(NoSuchJob):
            client.attach("in-a-notebook").delete(force=True)
    followed, said, called, listed = book.cells
    (picture,) = outputs(followed, "display_data")
    assert "in-a-notebook  SUCCEEDED" in picture.data["text/plain"]
    assert "step 3/4" in picture.data["text/plain"]
    assert "the job keeps running" not in picture.data["text/plain"], "it is over"
    assert picture.data["text/html"].startswith("<pre ")
    assert "<b>" not in picture.data["text/html"]
    assert "\x1b" not in "".join(picture.data.values())
    assert "SUCCEEDED" in outputs(said, "stream")[0].text
    (shown,) = outputs(called, "display_data")
    assert "SUCCEEDED" in shown.data["text/plain"]
    assert "font-family: monospace" in picture.data["text/html"]
    assert "<td " in outputs(listed, "execute_result")[0].data["text/html"]
    assert "in-a-notebook" in outputs(listed, "execute_result")[0].data["text/plain"]
    assert outputs(called, "execute_result")[0].data["text/plain"] == "(42, 'worker')"
