"""The facts of a cluster that come from the settings and the Hadoop configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.operations import cluster
from submit_tf_job.plan.site import Names, WebStaging
from submit_tf_job.settings import load_settings
from tests.builders.host import hadoop_xml

HA = {
    "dfs.nameservices": "ns1",
    "dfs.ha.namenodes.ns1": "a,b",
    "dfs.namenode.http-address.ns1.a": "nn1:50070",
    "dfs.namenode.http-address.ns1.b": "nn2:50070",
}
TLS = {"dfs.http.policy": "HTTPS_ONLY"}
VIEW = {"fs.viewfs.mounttable.v.link./user": "hdfs://one:8020/home"}
HOMES = {"dfs.user.home.dir.prefix": "/home/"}
VIEW_HOMES = {
    "fs.viewfs.mounttable.v.link./homes": "hdfs://one:8020/h",
    "fs.viewfs.mounttable.v.homedir": "/homes",
}


def web_hdfs(
    tmp_path: Path, default_fs: str, values: dict[str, str], **settings: str
) -> tuple[Names, WebStaging | None]:
    hdfs = {key: value for key, value in values.items() if key.startswith("dfs.")}
    core = {"fs.defaultFS": default_fs, **{key: values[key] for key in values.keys() - hdfs.keys()}}
    (tmp_path / "core-site.xml").write_text(hadoop_xml(core))
    # hdfs-default.xml outranks what core-site.xml says of `dfs.*`
    (tmp_path / "hdfs-site.xml").write_text(hadoop_xml(hdfs))
    given = {"hadoop_conf": str(tmp_path), "user": "alice", **settings}
    environ = {f"SUBMIT_TF_JOB_{name.upper()}": value for name, value in given.items()}
    site = cluster.site_of(load_settings(environ={"HOME": str(tmp_path), **environ}, cwd=tmp_path))
    return site.names, site.web_hdfs


@pytest.mark.parametrize(
    ("default_fs", "values", "staging", "found"),
    [
        ("hdfs://nn:9000", {}, "", ("http", ("nn:9870",), None)),
        ("hdfs://nn", TLS, "hdfs:///s/", ("https", ("nn:9871",), "/s")),
        ("hdfs://ns1", HA, "", ("http", ("nn1:50070", "nn2:50070"), None)),
        ("s3a://bucket", HA, "hdfs://ns1/s", ("http", ("nn1:50070", "nn2:50070"), "/s")),
        ("viewfs://v", VIEW, "", ("http", ("one:9870",), "/home/alice/.submit_tf_job/staging")),
        ("hdfs://nn/x", HOMES, "", ("http", ("nn:9870",), "/home/alice/.submit_tf_job/staging")),
        ("viewfs://v", VIEW_HOMES, "", ("http", ("one:9870",), "/h/alice/.submit_tf_job/staging")),
        ("s3a://bucket", {}, "", None),
        ("viewfs://v", {}, "", None),
    ],
)
def test_where_tasks_meet_is_the_staging_directory_over_http(
    tmp_path: Path,
    default_fs: str,
    values: dict[str, str],
    staging: str,
    found: tuple[str, tuple[str, ...], str | None] | None,
) -> None:
    more = {"staging": staging} if staging else {}
    names, web = web_hdfs(tmp_path, default_fs, values, names="rendezvous", **more)
    expected = None
    if found:
        path = found[2] or "/user/alice/.submit_tf_job/staging"
        expected = WebStaging(found[0], found[1], path)
    assert (names, web) == (Names.RENDEZVOUS, expected)
