"""Whatever happens to uploads: what is told as stored stands there, and nothing is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from submit_tf_job.container.data import webhdfs_client
from tests.unit.container.upload_world import play
from tests.world.hdfs_rules import check_rules
from tests.world.web_hdfs import WebNameNode


def test_rules_of_the_hdfs_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same checks run on a real HDFS: tests/promises/test_hdfs.py."""
    node = WebNameNode()
    monkeypatch.setattr(webhdfs_client, "_connect", lambda *_: node.connection())
    check_rules(webhdfs_client.WebHdfs("http", ["nn"], {"HADOOP_USER_NAME": "alice"}), "/tmp/rules")


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_uploads_lose_nothing(monkeypatch: pytest.MonkeyPatch, seeds: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(seeds):
        world = play(seed, monkeypatch.setattr)
        for writer in world.writers:
            found[writer.end if writer.end in ("done", "lost") else "aside"] += 1
    assert min(found[end] for end in ("done", "lost", "aside")) > 10, found
