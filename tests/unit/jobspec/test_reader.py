"""How a job spec is read: its bytes, its files, where its values stand; what it means is shown by
the goldens (every key) and by same_specs.txt.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.container import hadoop_configuration
from submit_tf_job.jobspec import example, loads
from submit_tf_job.jobspec.files import Host
from tests.unit.messages import completed

STRATEGIES = ("single", "multi-worker", "parameter-server", "estimator", "torch", "jax", "custom")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_examples_load(strategy: str) -> None:
    assert loads(example(strategy), source="x", base=None).strategy == strategy


@pytest.mark.parametrize(
    ("strategy", "roles", "deciding"),
    [
        ("single", "{worker: {memory: 1Gi, restart: never}}", "worker-0"),
        ("multi-worker", "{worker: {memory: 1Gi, instances: 4}, chief: {memory: 1Gi}}", "chief-0"),
        ("multi-worker", "{worker: {memory: 1Gi}, evaluator: {memory: 1Gi}}", "worker-0"),
        ("parameter-server", "{ps: {memory: 1Gi}, worker: {memory: 1Gi}}", "worker-0"),
        ("parameter-server", "{ps: &of {memory: 1Gi}, master: *of, worker: *of}", "chief-0"),
        ("estimator", "{chief: {memory: 1Gi}, evaluator: {memory: 1Gi}}", "chief-0"),
        ("custom", "{trainer: {memory: 1Gi, instances: 3}}", "trainer-0"),
        ("custom", "{chief: {memory: 1Gi}, workers: {memory: 1Gi, command: x}}", "chief-0"),
    ],
)
def test_deciding_task_by_strategy_and_roles(strategy: str, roles: str, deciding: str) -> None:
    text = completed([f"strategy: {strategy}", f"roles: {roles}"])
    assert loads(text, source="x", base=None).deciding_task == deciding


def test_loads_accepts_a_byte_order_mark_windows_line_ends_and_document_marks() -> None:
    plain = completed([])
    windows = ("\ufeff" + plain.replace("\n", "\r\n")).encode()
    for text in (windows, f"---\n{plain}...\n# end\n"):
        assert loads(text, source="x", base=None) == loads(plain, source="x", base=None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_hadoop_conf_inline_is_complete_and_has_no_secrets_for_a_gateway_s_caller(
    tmp_path: Path, encoding: str
) -> None:
    secrets = ("fs.s3a.secret.key", "fs.s3a.bucket.b.secret.key", "ssl.client.truststore.password")
    more = "".join(f'<property name="{name}" value="planted"/>' for name in secrets)
    inner = f"<configuration><property name='a' value='1'/>{more}</configuration>"
    (tmp_path / "inner.xml").write_bytes(inner.encode(encoding))
    outer = '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="inner.xml"'
    (tmp_path / "core-site.xml").write_bytes(f"{outer}/></configuration>".encode(encoding))
    (tmp_path / "hdfs-site.xml").write_bytes(inner.encode(encoding))
    text = completed(["hadoop: {conf: inline}"])
    for base in (None, tmp_path):
        conf = loads(text, source="x", base=None, host=Host(base, tmp_path)).hadoop
        assert conf is not None
        for file in conf.files:
            assert isinstance(file.content, bytes)
            (tmp_path / "out.xml").write_bytes(file.content)
            found = {
                name: value
                for name, value, _ in hadoop_configuration.read_file("/", f"{tmp_path}/out.xml")
            }
            planted = {} if base is None else dict.fromkeys(secrets, "planted")
            assert found == {"a": "1", **planted}


def test_hadoop_conf_inline_takes_the_files_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_bytes(b"<configuration/>")
    (tmp_path / "yarn-site.xml").write_bytes(b"<configuration></configuration>")
    (tmp_path / "ssl-server.xml").write_bytes(b"secret")
    text = completed(["hadoop: {conf: inline}"])
    conf = loads(text, source="x", base=None, host=Host(None, tmp_path)).hadoop
    assert conf is not None
    assert [(file.name, file.content) for file in conf.files] == [
        ("core-site.xml", b"<configuration/>"),
        ("yarn-site.xml", b"<configuration></configuration>"),
    ]
