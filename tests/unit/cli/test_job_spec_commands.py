"""The commands that need no cluster: validate, render, schema, init."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from submit_tf_job import jobspec
from submit_tf_job.plan import Site, plan
from tests.builders.command_line import GOOD, Cli, Done, planned
from tests.builders.host import hadoop_xml

TYPO = GOOD.replace("instances: 2", "instancez: 2")


# --- render ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_render_default_principal_contains_the_user(cli: Cli, home: Path, spec: Path) -> None:
    (home / "submit_tf_job.yaml").write_text(
        'job: {kerberos: {principal: "{user}/_HOST@R.TEST", keytab: "hdfs:///user/{user}/k"}}\n'
    )
    done = cli("render", "train.yaml", "--user", "carol")
    assert json.loads(done.out)["kerberos_principal"] == {
        "principal_name": "carol/_HOST@R.TEST",
        "keytab": "hdfs:///user/carol/k",
    }, done.err


def test_render_from_standard_input(cli: Cli) -> None:
    assert cli("render", "-", stdin=GOOD.encode()) == Done(0, planned(), "")
    done = cli("render", "-", stdin=TYPO.encode())
    assert (done.status, done.out) == (2, "")
    assert done.err == "-:7:25: roles.worker: unknown key 'instancez'; did you mean 'instances'?\n"


def test_render_limits_standard_input(cli: Cli) -> None:
    done = cli("render", "-", stdin=b"#" * (2 << 20))
    assert (done.status, done.out) == (2, "")
    assert "larger than 1 MiB" in done.err


def test_render_standard_input_resolves_files_here(cli: Cli, home: Path) -> None:
    (home / "t.py").write_text("print()\n")
    assert cli("render", "-", stdin=GOOD.encode() + b"files: [t.py]\n").status == 0


def test_render_with_overrides(cli: Cli, spec: Path) -> None:
    sets = ("--set", "roles.worker.instances=8", "--set", "queue=ml")
    done = cli("render", "train.yaml", *sets, "--name", "other", "--submission-id", "run-7")
    service = json.loads(done.out)
    assert re.fullmatch(r"other-[0-9][a-z2-7]{7}", service["name"])
    assert (service["version"], service["queue"]) == ("run-7", "ml")
    assert [c["number_of_containers"] for c in service["components"]] == [1, 8]
    same = GOOD.replace("mnist", "other").replace("instances: 2", "instances: 8")
    assert done.out == planned(f"{same}queue: ml\n", key="run-7")


@pytest.mark.parametrize("default", ["", "file:///", "hdfs://nn:8020"])
def test_render_shows_no_secret_of_the_hadoop_configuration(
    cli: Cli, home: Path, default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a staging directory the configuration is a part of the service."""
    values = {"fs.s3a.secret.key": "hush", "io.file.buffer.size": 1, "fs.defaultFS": default}
    conf = home / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text(hadoop_xml(values))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    done = cli("render", "-", stdin=f"{GOOD}hadoop: {{conf: inline}}\n".encode())
    refused = "-:8:10: hadoop.conf: fs.s3a.secret.key in core-site.xml is a secret"
    assert (done.status, refused in done.err) == ((0, False) if "nn" in default else (2, True))
    assert "hush" not in done.out + done.err
    (conf / "hdfs-site.xml").write_text("<configuration>")
    done = cli("render", "-", stdin=f"{GOOD}hadoop: {{conf: inline}}\n".encode())
    assert done.status == 2
    assert "hadoop.conf: hdfs-site.xml: cannot be read: no element found" in done.err


def test_render_uses_the_settings(cli: Cli, home: Path, spec: Path) -> None:
    (home / "submit_tf_job.yaml").write_text("job: {queue: site}\ndns.domain: example.com\n")
    service = json.loads(cli("render", "train.yaml").out)
    assert service["queue"] == "site"
    assert f"{service['name']}.alice.example.com" in json.dumps(service)
    (home / "submit_tf_job.yaml").write_text("\njob: {colour: red}\n")
    done = cli("render", "train.yaml")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"{home}/submit_tf_job.yaml:2:7: unknown key 'colour'")


# --- render --explain -----------------------------------------------------------------------------


def test_render_explain_shows_origins(cli: Cli, home: Path, spec: Path) -> None:
    (home / "t.py").write_text("print()\n")
    spec.write_text(GOOD + "files: [t.py]\n")
    done = cli("render", "train.yaml", "--explain", "--set", "queue=ml")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    job = jobspec.loads(spec.read_text(), source="x", base=home, overrides=["queue=ml"])
    made = plan(job, Site("alice"))
    wanted = f"{made.run}, submission {made.key}, {len(made.body)} bytes, decided by chief-0"
    assert lines[0] == wanted
    places = {line.split()[0]: line.split()[1] for line in lines[1:] if len(line.split()) == 2}
    assert places["name"] == "train.yaml:1:1"
    assert places["roles.worker.instances"] == "train.yaml:7:25"
    assert places["queue"] == "--set"
    assert places["network"] == "default"
    assert "file for worker: t.py, 8 bytes" in lines
    found = cli("render", "train.yaml", "--explain", "--set", "queue=ml", "-o", "json").json
    head = {"kind": "Plan", "run": made.run, "submission": made.key, "bytes": len(made.body)}
    assert head.items() <= found.items()
    assert found["deciding_task"] == "chief-0"
    assert found["origins"]["roles.worker.instances"] == {
        "source": "train.yaml",
        "line": 7,
        "column": 25,
    }
    assert found["files"] == {
        "chief": [{"name": "t.py", "bytes": 8}],
        "worker": [{"name": "t.py", "bytes": 8}],
    }
    assert found["uploads"] == []


def test_render_explain_shows_files(cli: Cli, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", "hdfs://nn/staging/")
    found = cli("render", "train.yaml", "--explain", "-o", "json").json
    [upload] = found["uploads"]
    assert upload["uri"].startswith("hdfs://nn/staging/")
    text = f"will be uploaded: {upload['uri']}, {upload['bytes']} bytes"
    assert cli("render", "train.yaml", "--explain").out.splitlines()[-1] == text


# --- schema, init ---------------------------------------------------------------------------------


def test_schema(cli: Cli) -> None:
    done = cli("schema")
    assert (done.status, done.err) == (0, "")
    assert done.json == jobspec.schema()


STRATEGIES = ["single", "multi-worker", "parameter-server", "estimator", "custom"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_init_prints_a_valid_job_spec(cli: Cli, home: Path, strategy: str) -> None:
    done = cli("init", "--strategy", strategy)
    assert (done.status, done.err) == (0, "")
    assert done.out == jobspec.example(strategy)
    assert cli("init", "--strategy", strategy, "-o", "json").json["text"] == done.out
    (home / "made.yaml").write_text(done.out)
    found = cli("validate", "made.yaml")
    problems = [line for line in found.out.splitlines() if line != "made.yaml: ok"]
    assert all("no such file" in line for line in problems), found.out
