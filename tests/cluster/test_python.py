"""The Python interface: the examples of docs/python.md as they stand there, and what they do not
show.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from submit_tf_job import Client, NoSuchJob

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
TRAIN = """
name: train
image: library/python:3.11
strategy: multi-worker
command: echo 'TFJOB_PROGRESS {"step":1,"total":1}'; echo done
roles:
  worker: {instances: 1, memory: 128Mi}
"""


@pytest.mark.long
def test_the_examples_of_the_page(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(TRAIN)
    try:
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), {"__name__": "example"})
    finally:
        for name in ("train", "twice", "inline"):
            with contextlib.suppress(NoSuchJob):
                client.attach(name).delete(force=True)
    said = capsys.readouterr().out
    assert "train application_" in said
    assert "SUCCEEDED" in said
    assert "worker-0 done" in said
    assert re.search(r"inline failed: .*3.* 1\n", said), said
