"""What the sandbox writes: Hadoop's files, the profile, the daemons' command lines, the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import daemons, namenode, web
from submit_tf_job.sandbox.access import Access
from submit_tf_job.sandbox.hadoop_config import client_files, daemon_files, resolv_conf
from submit_tf_job.sandbox.options import ALL_DAEMONS, DAEMONS, MODES, daemons_of
from submit_tf_job.sandbox.port_blocks import PORT_NAMES
from submit_tf_job.sandbox.processes import Process, marker
from submit_tf_job.sandbox.profile import profile_text, remove_profile, write_profile
from submit_tf_job.sandbox.saved_state import Layout, SandboxState, load_state, save_state
from submit_tf_job.sandbox.versions import MAVEN_VERSIONS
from submit_tf_job.sandbox.web import NotWell
from submit_tf_job.settings import load_settings
from tests.fakes.sandbox import state_of

LAYOUT = Layout(Path("/state/one"))
ENVIRON = {
    "PATH": "/usr/bin",
    "HOME": "/home/ann",
    "HADOOP_USER_NAME": "eve",
    "CLASSPATH": "/evil",
    "JAVA_TOOL_OPTIONS": "-Devil",
}


@pytest.fixture
def state() -> SandboxState:
    return state_of(
        jars="/cache/hadoop-3.4.2/jars",
        resolver="system",
        dns_address="127.83.0.4",
        dns_port=53,
        container_path=("/venv/bin",),
        memory_mib=12288,
        vcores=16,
        profile_path="/config/profiles.d/sandbox-one.yaml",
    )


def _properties(text: str) -> dict[str, str]:
    found = ET.fromstring(text.encode()).findall("property")
    names = [str(p.findtext("name")) for p in found]
    assert len(names) == len(set(names))
    return {str(p.findtext("name")): p.findtext("value") or "" for p in found}


def _yarn(state: SandboxState) -> dict[str, str]:
    return _properties(daemon_files(state, LAYOUT)["yarn-site.xml"])


_QUICK = {
    "hadoop.service.shutdown.timeout",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
}


@pytest.mark.parametrize("default_timeouts", [False, True])
def test_default_timeouts_leave_out_what_makes_jobs_quick(
    state: SandboxState, default_timeouts: bool
) -> None:
    files = daemon_files(replace(state, default_timeouts=default_timeouts), LAYOUT)
    names = {
        name for file in ("core-site.xml", "yarn-site.xml") for name in _properties(files[file])
    }
    assert names & _QUICK == (set() if default_timeouts else _QUICK)


def test_every_setting_is_documented(state: SandboxState) -> None:
    text = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()
    files = daemon_files(state, LAYOUT)
    names = {
        name
        for file, content in files.items()
        if file.endswith(".xml")
        for name in _properties(content)
    }
    of_queues = {
        name
        for name in names
        if name.startswith("yarn.scheduler.capacity.root.") and name.count(".") > 4
    }
    assert [name for name in sorted(names - of_queues) if f"`{name}`" not in text] == []


def test_every_address_is_on_loopback_and_below_the_ports_of_tasks(state: SandboxState) -> None:
    files = daemon_files(state, LAYOUT)
    addresses = [
        value
        for name in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
        for key, value in _properties(files[name]).items()
        if key.endswith(("address", "quorum", "defaultFS")) and "dns" not in key
    ]
    ports = [int(value.removeprefix("hdfs://").removeprefix("localhost:")) for value in addresses]
    others = {
        state.ports[name]
        for name in ("dns", "kdc", "rm2", "rm2_scheduler", "rm2_tracker", "rm2_admin", "rm2_http")
    }
    assert set(ports) == set(state.ports.values()) - others
    assert all(10000 <= port < 20000 for port in ports)
    assert f"clientPort={state.ports['zookeeper']}\n" in files["zoo.cfg"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("yarn.nodemanager.resource.memory.enforced", "false"),
        ("yarn.nodemanager.pmem-check-enabled", "true"),
        ("yarn.nodemanager.vmem-check-enabled", "false"),
        ("yarn.am.liveness-monitor.expiry-interval-ms", "120000"),
        ("yarn.nodemanager.user-home-dir", "/tmp"),
        ("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "200"),
        ("yarn.service.readiness-check-interval.seconds", "1"),
        ("yarn.log-aggregation-enable", "true"),
        ("yarn.nodemanager.disk-health-checker.enable", "false"),
        ("yarn.resourcemanager.recovery.enabled", "true"),
        ("yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms", "0"),
        ("yarn.nodemanager.recovery.enabled", "true"),
        ("yarn.nodemanager.resource.memory-mb", "12288"),
        ("yarn.scheduler.maximum-allocation-vcores", "16"),
    ],
)
def test_yarn_is_set_as_real_runs_asked_for(state: SandboxState, key: str, value: str) -> None:
    assert _yarn(state)[key] == value


def test_core_is_set_as_real_runs_asked_for(state: SandboxState) -> None:
    core = _properties(daemon_files(state, LAYOUT)["core-site.xml"])
    assert core["hadoop.service.shutdown.timeout"] == "3s"
    assert core["hadoop.http.staticuser.user"] == "ann"
    assert core["hadoop.proxyuser.ann.hosts"] == "*"
    assert core["hadoop.registry.dns.bind-address"] == "127.83.0.4"
    assert core["hadoop.registry.dns.bind-port"] == "53"


def test_the_queues_are_default_and_ml(state: SandboxState) -> None:
    scheduler = _properties(daemon_files(state, LAYOUT)["capacity-scheduler.xml"])
    root = "yarn.scheduler.capacity.root"
    queues = scheduler[f"{root}.queues"].split(",")
    assert queues == ["default", "ml"]
    assert sum(int(scheduler[f"{root}.{queue}.capacity"]) for queue in queues) == 100
    assert scheduler["yarn.scheduler.capacity.maximum-am-resource-percent"] == "1.0"


@pytest.mark.parametrize("version", MAVEN_VERSIONS)
def test_how_the_service_am_gets_its_classes_and_options(state: SandboxState, version: str) -> None:
    state = replace(state, hadoop_version=version)
    yarn = _yarn(state)
    environment = daemons.environment(state, LAYOUT, ENVIRON)
    new = version not in ("3.2.1", "3.1.3")
    assert ("yarn.service.classpath" in yarn) is new
    # 3.2 refuses a slash in the AM's options, so the options of old lines have none and come
    # through the environment.
    assert ("/" in yarn["yarn.service.am.java.opts"]) is new
    assert ("JDK_JAVA_OPTIONS" in environment) is not new
    assert "JDK_JAVA_OPTIONS" in yarn["yarn.nodemanager.env-whitelist"].split(",")


def test_clients_get_no_more_than_they_need(state: SandboxState) -> None:
    files = client_files(state)
    assert sorted(files) == ["core-site.xml", "hdfs-site.xml", "yarn-site.xml"]
    assert sum(map(len, files.values())) < 4096
    assert not [
        line for text in files.values() for line in text.splitlines() if "/state/one" in line
    ]
    assert (
        _properties(files["core-site.xml"])["fs.defaultFS"]
        == f"hdfs://localhost:{state.ports['namenode']}"
    )


def test_names_are_asked_of_registry_dns_and_the_search_list_stays(state: SandboxState) -> None:
    host = "# x\nnameserver 10.0.0.2\nsearch example.com\noptions ndots:2\n\n"
    assert (
        resolv_conf(state, host) == "nameserver 127.83.0.4\nsearch example.com\noptions ndots:2\n"
    )


def test_the_profile_is_one_that_the_settings_read(state: SandboxState, tmp_path: Path) -> None:
    state = replace(state, resolver="direct", dns_address="127.0.0.1", dns_port=10074)
    state = replace(
        state,
        profile_path=str(
            tmp_path / ".config" / "submit_tf_job" / "profiles.d" / "sandbox-one.yaml"
        ),
    )
    layout = Layout(tmp_path / "one")
    layout.make()
    write_profile(state, layout)
    for name, text in client_files(state).items():
        (layout.client_conf / name).write_text(text)
    settings = load_settings(profile="sandbox-one", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert settings.resource_managers == (f"http://localhost:{state.ports['rm_http']}",)
    assert settings.user == "ann"
    assert settings.dns.domain == "sandbox.test"
    assert settings.dns.server == "127.0.0.1:10074"
    assert settings.sandbox is True
    assert settings.hadoop_conf == layout.client_conf
    remove_profile(Path(state.profile_path))
    remove_profile(Path(state.profile_path))
    assert not Path(state.profile_path).exists()


def test_the_profile_tells_no_dns_server_where_the_systems_resolver_knows_it(
    state: SandboxState,
) -> None:
    assert "server" not in profile_text(state, LAYOUT)


def test_an_unchanged_profile_is_not_written_again(state: SandboxState, tmp_path: Path) -> None:
    state = replace(state, profile_path=str(tmp_path / "sandbox-one.yaml"))
    write_profile(state, LAYOUT)
    before = Path(state.profile_path).stat().st_mtime_ns
    write_profile(state, LAYOUT)
    assert Path(state.profile_path).stat().st_mtime_ns == before


def test_hdfs_has_a_home_for_each_user_and_room_for_every_am(state: SandboxState) -> None:
    found = {path: (mode, owner) for path, mode, owner in namenode.directories(state, LAYOUT)}
    assert found["/tmp"] == found["/tmp/logs"] == ("1777", None)
    assert found["/user/ann"] == ("755", "ann")
    assert found["/user/alice"] == ("755", "alice")
    assert found["/state/one/run/tmp/.yarn/services"] == ("1777", None)
    assert found["/state/one/run/tmp/.yarn"] == ("755", None)
    assert list(found).index("/state") < list(found).index("/state/one")


def test_a_sandbox_below_tmp_does_not_close_tmp(state: SandboxState) -> None:
    found = {path: mode for path, mode, _ in namenode.directories(state, Layout(Path("/tmp/x")))}
    assert found["/tmp"] == "1777"
    assert found["/tmp/x"] == "755"


def test_hdfs_is_prepared_through_webhdfs(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[str] = []

    def send(
        method: str,
        url: str,
        timeout_s: float = 5,
        body: Path | None = None,
        access: Access | None = None,
    ) -> tuple[int, bytes]:
        sent.append(
            f"{method} "
            f"{url.partition(str(state.ports['namenode_http']))[2]}{' + file' if body else ''}"
        )
        return (201, b"") if body else (200, b'{"Location": "http://localhost:10063/webhdfs/v1/x"}')

    monkeypatch.setattr(namenode, "send", send)
    tarball = tmp_path / "service-dep.tar.gz"
    tarball.write_bytes(b"x")
    namenode.prepare_hdfs(replace(state, hadoop_version="3.2.1", tarball=str(tarball)), LAYOUT)
    assert "PUT /webhdfs/v1/user/alice?op=SETOWNER&owner=alice&user.name=ann" in sent
    assert "PUT /webhdfs/v1/tmp?op=SETPERMISSION&permission=1777&user.name=ann" in sent
    assert sent[-2].startswith(
        "PUT "
        "/webhdfs/v1/yarn-services/3.2.1/service-dep.tar.gz?op=CREATE&overwrite=true&permission=755"
    )
    assert sent[-1].endswith(" + file")


def test_a_refusal_of_hdfs_is_told(state: SandboxState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namenode, "send", lambda *_, **__: (403, b"Permission denied: user=x"))
    with pytest.raises(
        SandboxError, match="could not prepare HDFS: MKDIRS /tmp: 403 Permission denied"
    ):
        namenode.prepare_hdfs(state, LAYOUT)


def test_every_daemon_is_in_the_table_and_every_port_has_one_owner() -> None:
    assert tuple(daemons.TABLE) == ALL_DAEMONS
    owned = [port for name in daemons_of(MODES) for port in daemons.TABLE[name].ports]
    assert sorted(owned) == sorted(PORT_NAMES)


def test_nothing_of_the_users_shell_reaches_the_daemons(state: SandboxState) -> None:
    environment = daemons.environment(state, LAYOUT, ENVIRON)
    assert not {"HADOOP_USER_NAME", "CLASSPATH", "JAVA_TOOL_OPTIONS"} & environment.keys()
    assert environment["PATH"] == "/venv/bin:/usr/bin"
    assert environment["HADOOP_CONF_DIR"] == "/state/one/conf"


def _started(state: SandboxState, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[list[str]] = []

    def launch(argv: list[str], environ: Mapping[str, str], cwd: Path, log: Path) -> Process:
        calls.append(argv)
        return Process(1, 1)

    monkeypatch.setattr(daemons, "launch", launch)
    daemons.start(name, state, LAYOUT, ENVIRON)
    return calls[0]


@pytest.mark.parametrize("name", DAEMONS)
def test_every_daemon_is_one_jvm_with_the_sandboxs_mark(
    state: SandboxState, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = _started(replace(state, resolver="direct"), name, monkeypatch)
    assert argv[0] == "/jvm/bin/java"
    assert marker(LAYOUT.home) in argv
    assert (
        argv[argv.index("-cp") + 1]
        == "/state/one/conf:/state/one/webroot:/cache/hadoop-3.4.2/jars/*"
    )
    assert daemons.TABLE[name].main in argv
    assert "-Djdk.net.hosts.file=/state/one/conf/hosts" not in argv


def test_a_machine_without_a_name_gets_a_hosts_file(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "-Djdk.net.hosts.file=/state/one/conf/hosts" in _started(
        replace(state, hosts_file=True), "namenode", monkeypatch
    )


def test_the_nodemanager_gets_its_own_resolver(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = _started(state, "nodemanager", monkeypatch)
    assert argv[:2] == ["unshare", "-m"]
    assert argv[argv.index("sh") + 1] == "/state/one/conf/resolv.conf"
    assert 'exec "$@"' in argv[argv.index("-c") + 1]
    assert _started(state, "datanode", monkeypatch)[0] == "/jvm/bin/java"


def test_the_state_survives_being_written(state: SandboxState, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert load_state(layout) is None
    full = replace(state, ready=True).with_daemon("namenode", Process(12, 34))
    save_state(layout, full)
    assert load_state(layout) == full
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 99}', '{"format": 1, "name": "x"}'])
def test_a_state_of_another_version_is_one_of_our_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(SandboxError, match=r"state\.json cannot be read"):
        load_state(Layout(tmp_path))


def _answers(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> None:
    """Let daemons answer by the end of the URL's path; anything else fails the test."""

    def get_json(url: str, timeout_s: float = 5, access: Access | None = None) -> Any:
        port, _, path = url.partition("//localhost:")[2].partition("/")
        if path not in answers and f"{port} {path}" not in answers:
            pytest.fail(f"asked for {path} of {port}")
        answer = answers.get(path, answers.get(f"{port} {path}"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(daemons, "get_json", get_json)
    monkeypatch.setattr(daemons, "is_alive", lambda _: True)
    monkeypatch.setattr(daemons, "listens", lambda *_: True)


def test_a_dead_daemon_is_not_asked(state: SandboxState) -> None:
    with pytest.raises(NotWell, match="it is not running"):
        daemons.check("namenode", state)


def test_a_resourcemanager_must_be_active_and_serve_services(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state.with_daemon("resourcemanager", Process(1, 1))
    info = {"clusterInfo": {"state": "STARTED", "haState": "ACTIVE"}}
    _answers(
        monkeypatch,
        {"ws/v1/cluster/info": info, "app/v1/services/version": {"hadoop_version": "3.4.2"}},
    )
    daemons.check("resourcemanager", state)
    _answers(
        monkeypatch,
        {"ws/v1/cluster/info": {"clusterInfo": {"state": "INITED", "haState": "STANDBY"}}},
    )
    with pytest.raises(NotWell, match="it is INITED, STANDBY"):
        daemons.check("resourcemanager", state)
    _answers(monkeypatch, {"ws/v1/cluster/info": {}})
    with pytest.raises(NotWell, match="it answers something unexpected"):
        daemons.check("resourcemanager", state)


def test_an_answer_from_somebody_elses_port_does_not_count(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state.with_daemon("nodemanager", Process(1, 1))
    _answers(monkeypatch, {"ws/v1/node/info": {"nodeInfo": {"nodeHealthy": True}}})
    daemons.check("nodemanager", state)
    monkeypatch.setattr(daemons, "listens", lambda process, port: port != state.ports["nm"])
    with pytest.raises(NotWell, match=f"another process listens on its port {state.ports['nm']}"):
        daemons.check("nodemanager", state)


def test_a_datanode_is_well_once_it_is_registered(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state.with_daemon("datanode", Process(1, 1))
    path = "jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo"
    _answers(
        monkeypatch,
        {
            path: {
                "beans": [{"BPServiceActorInfo": '[{"ActorState":"RUNNING","LastHeartbeat":"0"}]'}]
            }
        },
    )
    daemons.check("datanode", state)
    for actors in (
        '[{"ActorState":"CONNECTING","LastHeartbeat":"0"}]',
        "[]",
        '[{"ActorState":"RUNNING","LastHeartbeat":"30"}]',
    ):
        _answers(monkeypatch, {path: {"beans": [{"BPServiceActorInfo": actors}]}})
        with pytest.raises(NotWell, match="not registered with the NameNode"):
            daemons.check("datanode", state)


def test_the_node_must_be_ours_and_alone(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"id": f"localhost:{state.ports['nm']}", "state": "RUNNING"}
    foreign = {"id": "localhost:10011", "state": "RUNNING"}
    lost = {"id": "localhost:10011", "state": "LOST"}
    for nodes, problem in (
        ([ours], ""),
        ([ours, lost], ""),
        ([], "is not registered"),
        ([foreign], "is not registered"),
        ([ours, foreign], "a foreign NodeManager, localhost:10011"),
    ):
        _answers(
            monkeypatch, {"ws/v1/cluster/nodes": {"nodes": {"node": nodes} if nodes else None}}
        )
        if problem:
            with pytest.raises(NotWell, match=problem):
                daemons.check_registered("nodemanager", state)
        else:
            daemons.check_registered("nodemanager", state)


def test_every_node_must_be_registered(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = replace(state, nodes=2)
    first, second = ({"id": node, "state": "RUNNING"} for node in state.node_ids)
    assert second["id"] == f"127.0.0.2:{state.ports['nm']}"
    _answers(monkeypatch, {"ws/v1/cluster/nodes": {"nodes": {"node": [first]}}})
    daemons.check_registered("nodemanager", state)
    with pytest.raises(NotWell, match="is not registered"):
        daemons.check_registered("nodemanager2", state)
    _answers(monkeypatch, {"ws/v1/cluster/nodes": {"nodes": {"node": [first, second]}}})
    daemons.check_registered("nodemanager2", state)


def test_nodes_share_no_directory_and_no_address(state: SandboxState) -> None:
    state = replace(state, nodes=2)
    one, two = (
        _properties(daemon_files(state, LAYOUT, node=node)["yarn-site.xml"]) for node in (1, 2)
    )
    differing = {name for name in one if one[name] != two[name]}
    assert differing == {
        f"yarn.nodemanager.{name}"
        for name in (
            "hostname",
            "address",
            "localizer.address",
            "webapp.address",
            "local-dirs",
            "log-dirs",
            "recovery.dir",
        )
    }
    assert two["yarn.nodemanager.local-dirs"] == "/state/one/run/nm-local2"
    assert two["yarn.nodemanager.webapp.address"] == f"127.0.0.2:{state.ports['nm_http']}"


def test_several_nodes_spread_jobs_and_accept_placement(state: SandboxState) -> None:
    placement = "yarn.resourcemanager.placement-constraints.handler"
    spreading = "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled"
    three = daemon_files(replace(state, nodes=3), LAYOUT)
    assert _properties(three["yarn-site.xml"])[placement] == "scheduler"
    assert _properties(three["capacity-scheduler.xml"])[spreading] == "false"
    one = daemon_files(state, LAYOUT)
    assert placement not in _properties(one["yarn-site.xml"])
    assert _properties(one["capacity-scheduler.xml"])[spreading] == "true"


def test_the_second_nodemanager_reads_its_own_directory(
    state: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = _started(replace(state, resolver="direct", nodes=2), "nodemanager2", monkeypatch)
    assert argv[argv.index("-cp") + 1].startswith("/state/one/conf-nm2:")


def test_a_failures_cause_is_shown_although_the_log_went_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "\n".join(
            [
                "x",
                "2026 ERROR a.B: boom",
                "Caused by: java.net.BindException",
                *(f"line {n}" for n in range(100)),
            ]
        )
    )
    shown = daemons.failure_excerpt(log).splitlines()
    assert shown[:3] == ["2026 ERROR a.B: boom", "Caused by: java.net.BindException", "..."]
    assert shown[-1] == "line 99"
    assert len(shown) == 28
    assert daemons.log_tail(log, 2) == "line 98\nline 99"
    assert daemons.log_tail(log, 0) == ""
    assert daemons.log_tail(tmp_path / "none") == ""


@pytest.mark.parametrize(("status", "body"), [(503, b"{}"), (200, b"<html>"), (200, b"[1]")])
def test_only_a_json_object_is_a_good_answer(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    monkeypatch.setattr(web, "send", lambda *_, **__: (status, body))
    with pytest.raises(NotWell, match=f"http://localhost:1/x answers {status}"):
        web.get_json("http://localhost:1/x?a=b")


def test_what_a_resourcemanager_keeps_in_files_is_the_sandboxs_own(state: SandboxState) -> None:
    """Two that start at one moment would meet in Hadoop's default, /tmp/hadoop-yarn-USER."""
    kept = {
        name: value for name, value in _yarn(state).items() if name.endswith("fs-store.root-dir")
    }
    assert set(kept) == {
        "yarn.node-labels.fs-store.root-dir",
        "yarn.node-attribute.fs-store.root-dir",
    }
    assert all(value.startswith(f"file://{LAYOUT.run}/") for value in kept.values())
