"""Kerberos, two ResourceManagers, TLS: what the sandbox writes, starts and asks for them. No daemon
runs here.
"""

from __future__ import annotations

import os
import ssl
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from submit_tf_job.container.login.keytab import read
from submit_tf_job.errors import SandboxError, UsageError
from submit_tf_job.host.hadoopconf import read_xml, resource_managers
from submit_tf_job.sandbox import access, daemons, docker, libhadoop, namenode, web
from submit_tf_job.sandbox.access import Access, NoTicket, SandboxLogin, access_of, require_gssapi
from submit_tf_job.sandbox.hadoop_config import client_files, daemon_files
from submit_tf_job.sandbox.kdc import find_programs, kdc_environment, make_kdc, principals
from submit_tf_job.sandbox.libhadoop import ensure_native
from submit_tf_job.sandbox.options import (
    ALL_DAEMONS,
    DAEMONS,
    MAX_NODES,
    MODES,
    Mode,
    daemons_of,
    parse_modes,
)
from submit_tf_job.sandbox.port_blocks import block_ports
from submit_tf_job.sandbox.processes import Process
from submit_tf_job.sandbox.profile import profile_text, write_profile
from submit_tf_job.sandbox.saved_state import Layout, SandboxState
from submit_tf_job.sandbox.tls import make_certificates
from submit_tf_job.sandbox.web import NotWell
from submit_tf_job.settings import load_settings
from tests.fakes.sandbox import state_of

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/home/ann"}
ALL: tuple[Mode, ...] = ("kerberos", "ha", "tls")
EVERY_SET = [tuple(found) for size in range(4) for found in combinations(ALL, size)]


def _state(*modes: Mode, home: Path = Path("/state/one")) -> SandboxState:
    return state_of(
        home=str(home), modes=modes, native="/cache/native" if "kerberos" in modes else None
    )


def _files(state: SandboxState, rm_id: str | None = None) -> dict[str, dict[str, str]]:
    found = {}
    for name, text in daemon_files(state, Layout(Path(state.home)), rm_id).items():
        if name.endswith(".xml"):
            found[name] = {
                str(p.findtext("name")): p.findtext("value") or ""
                for p in ET.fromstring(text.encode()).findall("property")
            }
    return found


# --- what is asked for


@pytest.mark.parametrize(
    ("words", "modes"),
    [
        (["simple"], ()),
        (["kerberos"], ("kerberos",)),
        (["tls", "ha"], ("ha", "tls")),
        (["kerberos+ha+tls"], ALL),
        (["docker+tls"], ("tls", "docker")),
        (["tls+kerberos", "kerberos"], ("kerberos", "tls")),
        (["docker+ha", "kerberos"], ("kerberos", "ha", "docker")),
        (["kerberos,docker"], ("kerberos", "docker")),
    ],
)
def test_profiles_may_be_combined_in_any_way(words: list[str], modes: tuple[Mode, ...]) -> None:
    assert parse_modes(words) == modes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["kerberos+knox"],
            r"takes simple, kerberos, ha, tls, docker, or several of the latter as kerberos\+ha\+tls, not 'knox'",
        ),
        (["simple+ha"], "--profile simple means without the others"),
        ([""], "not ''"),
        (["Kerberos"], "not 'Kerberos'"),
    ],
)
def test_what_is_no_profile_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_modes(words)


def test_the_daemons_of_each_profile() -> None:
    assert daemons_of(()) == daemons_of(["tls"]) == DAEMONS
    assert set(daemons_of(["kerberos"])) - set(DAEMONS) == {"kdc"}
    assert set(daemons_of(["ha"])) - set(DAEMONS) == {"resourcemanager2"}
    assert set(daemons_of(["docker"])) - set(DAEMONS) == {"dockerd"}
    assert daemons_of(MODES, MAX_NODES) == ALL_DAEMONS
    assert set(daemons_of((), 3)) - set(DAEMONS) == {"nodemanager2", "nodemanager3"}


# --- Hadoop's files


def test_a_simple_sandbox_has_nothing_of_it() -> None:
    files = _files(_state())
    every = [key for properties in files.values() for key in properties]
    assert not [
        key
        for key in every
        if "kerberos" in key
        or "keytab" in key
        or ".ha." in key
        or "https" in key
        or key.startswith("ssl.")
    ]
    assert files["core-site.xml"]["hadoop.security.authentication"] == "simple"
    assert not [name for name in files if name.startswith("ssl-")]


def test_with_kerberos_everybody_is_asked_who_he_is() -> None:
    files = _files(_state("kerberos"))
    core, hdfs_site, yarn = files["core-site.xml"], files["hdfs-site.xml"], files["yarn-site.xml"]
    assert (
        core["hadoop.security.authentication"]
        == core["hadoop.http.authentication.type"]
        == "kerberos"
    )
    assert (
        core["hadoop.http.filter.initializers"]
        == "org.apache.hadoop.security.AuthenticationFilterInitializer"
    )
    assert core["hadoop.http.authentication.simple.anonymous.allowed"] == "false"
    assert core["hadoop.proxyuser.gw.groups"] == "users"
    assert not [key for key in core if key.startswith("hadoop.proxyuser.ann.")], (
        "only the gateway may act for others"
    )
    groups = dict(
        entry.split("=")
        for entry in core["hadoop.user.group.static.mapping.overrides"].split(";")
        if entry
    )
    assert groups["alice"] == groups["bob"] == "users"
    assert groups["ann"] == "ann,supergroup,users", "HDFS superuser, as in a simple sandbox"
    assert (
        hdfs_site["dfs.block.access.token.enable"]
        == hdfs_site["ignore.secure.ports.for.testing"]
        == "true"
    )
    assert yarn["yarn.resourcemanager.principal"] == "rm/localhost@SANDBOX.TEST"
    assert yarn["yarn.log-aggregation-enable"] == "true"
    assert (
        "-Djava.security.krb5.conf=/state/one/kdc/krb5.conf"
        in yarn["yarn.service.am.java.opts"].split()
    )
    keytabs = {
        value
        for properties in files.values()
        for value in properties.values()
        if value.endswith(".keytab")
    }
    made = {
        str(Layout(Path("/state/one")).keytab(principal))
        for principal in principals(_state("kerberos"))
    }
    assert keytabs < made, "every keytab that is named is made"


def test_two_resourcemanagers_have_no_address_without_a_suffix() -> None:
    state = _state("ha")
    yarn = _files(state)["yarn-site.xml"]
    assert yarn["yarn.resourcemanager.ha.rm-ids"] == "rm1,rm2"
    assert "yarn.resourcemanager.ha.id" not in yarn
    addressed = [
        key
        for key in yarn
        if key.startswith("yarn.resourcemanager.") and ("address" in key or "hostname" in key)
    ]
    assert all(key.endswith((".rm1", ".rm2")) for key in addressed)
    assert len(addressed) == 12
    assert yarn["yarn.resourcemanager.webapp.address.rm2"] == f"localhost:{state.ports['rm2_http']}"
    assert [
        _files(state, rm_id)["yarn-site.xml"]["yarn.resourcemanager.ha.id"]
        for rm_id in ("rm1", "rm2")
    ] == ["rm1", "rm2"]
    assert _files(state)["core-site.xml"]["hadoop.zk.timeout-ms"] == "4000"


def test_with_tls_yarn_has_no_http() -> None:
    files = _files(_state("tls"))
    yarn = files["yarn-site.xml"]
    assert yarn["yarn.http.policy"] == "HTTPS_ONLY"
    assert {key for key in yarn if "webapp" in key and key.endswith("address")} == {
        "yarn.resourcemanager.webapp.https.address",
        "yarn.nodemanager.webapp.https.address",
    }
    assert files["ssl-server.xml"]["ssl.server.keystore.location"] == "/state/one/tls/keystore.p12"
    assert files["ssl-client.xml"]["ssl.client.truststore.type"] == "pkcs12"


@pytest.mark.parametrize("modes", EVERY_SET)
def test_every_port_that_is_written_belongs_to_a_daemon_that_is_there(
    modes: tuple[Mode, ...],
) -> None:
    state = _state(*modes)
    owned = {port for name in state.daemon_names for port in daemons.daemon_ports(name, state)}
    written = {
        int(value.rpartition(":")[2])
        for properties in _files(state).values()
        for key, value in properties.items()
        if value.removeprefix("hdfs://").startswith("localhost:")
        and key != "hadoop.registry.dns.bind-address"
    }
    assert (
        written | {state.ports["dns"]} | ({state.ports["kdc"]} if state.secure else set()) == owned
    )
    assert max(owned) < 20000


@pytest.mark.parametrize("modes", EVERY_SET)
def test_the_profile_and_the_client_files_lead_to_the_same_cluster(
    modes: tuple[Mode, ...], tmp_path: Path
) -> None:
    home = tmp_path / "one"
    state = replace(
        _state(*modes, home=home),
        profile_path=str(tmp_path / ".config/submit_tf_job/profiles.d/sandbox-one.yaml"),
    )
    layout = Layout(home)
    layout.make()
    for name, text in client_files(state).items():
        (layout.client_conf / name).write_text(text)
    write_profile(state, layout)
    settings = load_settings(profile="sandbox-one", environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    scheme = "https" if "tls" in modes else "http"
    purposes = ["rm_http", "rm2_http"] if "ha" in modes else ["rm_http"]
    assert settings.resource_managers == tuple(
        f"{scheme}://localhost:{state.ports[purpose]}" for purpose in purposes
    )
    assert (
        tuple(resource_managers(read_xml(layout.client_conf / "yarn-site.xml")))
        == settings.resource_managers
    )
    assert settings.ca_file == (layout.ca_file if "tls" in modes else None)
    assert settings.auth == ("kerberos" if "kerberos" in modes else "simple")
    # without Docker it runs plain processes on purpose
    assert settings.job.get("image_policy") == (None if "docker" in modes else "warn")
    if "kerberos" in modes:
        assert settings.kerberos.principal == "ann@SANDBOX.TEST"
        assert settings.kerberos.keytab == home / "keytabs" / "ann.keytab"
        assert settings.kerberos.krb5_conf == layout.krb5_conf
        keytab = f"file://{home}/keytabs/{{user}}.localhost.keytab"
        assert settings.job["kerberos"] == {
            "principal": "{user}/localhost@SANDBOX.TEST",
            "keytab": keytab,
        }
        core = read_xml(layout.client_conf / "core-site.xml")
        assert core["hadoop.security.authentication"] == "kerberos"
        assert "dfs.namenode.kerberos.principal" in read_xml(layout.client_conf / "hdfs-site.xml")


def test_a_simple_profile_says_nothing_of_kerberos() -> None:
    text = profile_text(_state(), Layout(Path("/state/one")))
    assert "kerberos" not in text
    assert "ca_file" not in text


# --- what is started


def _started(
    state: SandboxState, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], Mapping[str, str]]:
    calls: list[tuple[list[str], Mapping[str, str]]] = []

    def launch(argv: list[str], environ: Mapping[str, str], cwd: Path, log: Path) -> Process:
        calls.append((argv, environ))
        return Process(1, 1)

    monkeypatch.setattr(daemons, "launch", launch)
    daemons.start(name, state, Layout(Path(state.home)), ENVIRON)
    return calls[0]


def test_each_resourcemanager_reads_its_own_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, directory in (
        ("resourcemanager", "conf-rm1"),
        ("resourcemanager2", "conf-rm2"),
        ("nodemanager", "conf"),
    ):
        argv, environ = _started(_state("ha"), name, monkeypatch)
        assert argv[argv.index("-cp") + 1].startswith(f"/state/one/{directory}:")
        assert environ["HADOOP_CONF_DIR"] == f"/state/one/{directory}"
    argv, _ = _started(_state(), "resourcemanager", monkeypatch)
    assert argv[argv.index("-cp") + 1].startswith("/state/one/conf:")


def test_every_jvm_is_told_where_kerberos_is_and_the_nodemanager_has_native_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = _state("kerberos", "ha")
    for name in state.daemon_names[1:]:
        argv, environ = _started(state, name, monkeypatch)
        assert "-Djava.security.krb5.conf=/state/one/kdc/krb5.conf" in argv
        assert ("-Djava.library.path=/cache/native" in argv) is (name == "nodemanager")
        assert not [variable for variable in environ if variable.startswith("KRB5")]


def test_the_kdc_is_the_machines_and_its_files_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    argv, environ = _started(_state("kerberos"), "kdc", monkeypatch)
    assert argv[0] == daemons.TABLE["kdc"].main == "krb5kdc", (
        "so that `down` knows it by its name and by the mark"
    )
    assert argv[-2:] == ["--", "-Dsubmit_tf_job.sandbox=/state/one"]
    assert environ["KRB5_CONFIG"] == "/state/one/kdc/krb5.conf"
    assert environ["KRB5_KDC_PROFILE"] == "/state/one/kdc/kdc.conf"
    assert "/usr/sbin" in environ["PATH"].split(":")


# --- KDC, certificates, native code


def test_a_kdc_is_made_in_the_sandboxs_directory(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "one")
    layout.make()
    state = _state("kerberos", home=layout.home)
    make_kdc(state, layout, ENVIRON)
    for path in (
        layout.keytab("ann@SANDBOX.TEST"),
        layout.keytab("gw@SANDBOX.TEST"),
        layout.kdc / "stash",
        layout.http_secret,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE(layout.keytabs.stat().st_mode)
        == stat.S_IMODE(layout.kdc.stat().st_mode)
        == 0o700
    )
    environ = {**ENVIRON, **kdc_environment(layout)}
    listed = subprocess.run(
        [find_programs(ENVIRON)["kadmin.local"], "-q", "listprincs"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(principals(state)) <= set(listed.split())
    kept = subprocess.run(
        ["klist", "-k", str(layout.keytab("ann/localhost@SANDBOX.TEST"))],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ann/localhost@SANDBOX.TEST" in kept.stdout


def test_kerberos_and_docker_run_jobs_as_a_user_of_the_machine(tmp_path: Path) -> None:
    """LinuxContainerExecutor runs a secure container as its job's user, which must not be root."""
    state = state_of(
        home=str(tmp_path / "one"), modes=("kerberos", "docker"), network=5, resolver="system"
    )
    layout = Layout(tmp_path / "one")
    profile = yaml.safe_load(profile_text(state, layout))
    assert (profile["user"], profile["kerberos"]["principal"]) == ("nobody", "nobody@SANDBOX.TEST")
    keytab = f"file://{layout.exposed}/keytabs/nobody.localhost.keytab"
    assert profile["job"]["kerberos"] == {
        "principal": "nobody/localhost@SANDBOX.TEST",
        "keytab": keytab,
    }
    files = _files(state)
    assert ("nobody", "users") in {
        tuple(entry.split("="))
        for entry in files["core-site.xml"]["hadoop.user.group.static.mapping.overrides"].split(";")
        if entry
    }
    assert ("/user/nobody", "755", "nobody") in namenode.directories(state, layout)
    assert _state("kerberos").submitter == _state("docker").submitter == "ann"


def test_kerberos_and_docker_listen_where_containers_reach_them(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "one")
    layout.make()
    state = state_of(
        home=str(layout.home), modes=("kerberos", "docker"), network=5, resolver="system"
    )
    address = state.engine.address
    make_kdc(state, layout, ENVIRON)
    krb5_conf = layout.krb5_conf.read_text()
    assert f"kdc = {address}:{state.ports['kdc']}" in krb5_conf
    assert (
        f"kdc_tcp_listen = {address}:{state.ports['kdc']}" in (layout.kdc / "kdc.conf").read_text()
    )
    assert 'qualify_shortname = ""' in krb5_conf, (
        "else a container appends its own domain to localhost"
    )
    web = read(layout.keytab("HTTP/localhost@SANDBOX.TEST").read_bytes())
    assert {entry.principal for entry in web} == {
        f"HTTP/{host}@SANDBOX.TEST" for host in ("localhost", address)
    }
    core, hdfs_site = (_files(state)[f"{name}-site.xml"] for name in ("core", "hdfs"))
    assert core["hadoop.http.authentication.kerberos.principal"] == "*"
    assert hdfs_site["dfs.web.authentication.kerberos.principal"] == "*"
    assert hdfs_site["dfs.datanode.kerberos.principal"] == f"dn/{address}@SANDBOX.TEST", (
        "its RPC comes from there"
    )
    assert layout.keytab(hdfs_site["dfs.datanode.kerberos.principal"]).is_file()
    copy = layout.job_keytabs / "nobody.localhost.keytab"
    assert (copy.stat().st_mode & 0o777, copy.owner()) == (0o400, "nobody")
    assert "keytabs" in docker.exposed(state, layout)
    assert str(layout.exposed / "keytabs") in docker.allowed_mounts(state, layout)[0]


@pytest.mark.parametrize("name", ["krb5kdc", "kadmin.local"])
def test_a_missing_program_is_named_with_the_command_that_brings_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shutil.which", lambda program, path: None if program == name else f"/usr/sbin/{program}"
    )
    with pytest.raises(
        SandboxError, match=f"^{name} was not found; a sandbox with Kerberos runs a KDC of its own"
    ) as caught:
        find_programs(ENVIRON)
    assert "apt-get install krb5-kdc krb5-admin-server" in caught.value.hint


def test_a_kdc_program_that_fails_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    program.chmod(0o755)
    layout = Layout(tmp_path / "one")
    layout.make()
    monkeypatch.setattr(
        "submit_tf_job.sandbox.kdc.find_programs",
        lambda _: {"kdb5_util": str(program), "kadmin.local": "true"},
    )
    with pytest.raises(SandboxError, match=r"program failed \(exit status 3\): no room"):
        make_kdc(_state("kerberos"), layout, ENVIRON)
    monkeypatch.setattr(
        "submit_tf_job.sandbox.kdc.find_programs",
        lambda _: {"kdb5_util": "true", "kadmin.local": "true"},
    )
    with pytest.raises(SandboxError, match=r"made no keytab for nn/localhost@SANDBOX\.TEST"):
        make_kdc(_state("kerberos"), layout, ENVIRON)


def _java_home(tmp_path: Path) -> Path:
    (tmp_path / "jvm" / "bin").mkdir(parents=True)
    keytool = tmp_path / "jvm" / "bin" / "keytool"
    keytool.write_text(
        '#!/bin/sh\nwhile [ "$1" != -keystore ]; do shift; done\necho trusted > "$2"\n'
    )
    keytool.chmod(0o755)
    return tmp_path / "jvm"


def test_the_certificate_is_for_localhost_and_signed_by_the_ca(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "one")
    layout.make()
    state = replace(_state("tls", home=layout.home), java_home=str(_java_home(tmp_path)))
    make_certificates(state, layout, ENVIRON)
    verify = [
        "openssl",
        "verify",
        "-x509_strict",
        "-CAfile",
        str(layout.ca_file),
        "-verify_hostname",
        "localhost",
        str(layout.tls / "server.pem"),
    ]
    assert subprocess.run(verify, capture_output=True, text=True, check=True).stdout.endswith(
        ": OK\n"
    )
    assert {stat.S_IMODE(path.stat().st_mode) for path in layout.tls.iterdir()} == {0o600}
    assert (layout.tls / "truststore.p12").read_text() == "trusted\n"
    context = Access(layout.ca_file).context()
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert [
        dict(part[0] for part in ca["subject"])["commonName"]  # type: ignore[misc]
        for ca in context.get_ca_certs()
    ] == ["submit_tf_job sandbox CA"]
    with pytest.raises(SandboxError, match="openssl was not found"):
        make_certificates(state, layout, {"PATH": str(tmp_path)})
    (tmp_path / "jvm" / "bin" / "keytool").unlink()
    with pytest.raises(SandboxError, match="keytool could not be run"):
        make_certificates(state, layout, ENVIRON)


def _maven_with(tmp_path: Path, entry: str) -> dict[str, str]:
    jar = tmp_path / "made.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(entry, b"ELF")
    mvn = tmp_path / "bin" / "mvn"
    mvn.parent.mkdir()
    find_target = "for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done"
    mvn.write_text(
        f"#!/bin/sh\n{find_target}\nmkdir -p $out && cp {jar} $out/hadoop-apache-3.3.5-3.jar\n"
    )
    mvn.chmod(0o755)
    return {"PATH": f"{mvn.parent}:{os.environ['PATH']}"}


def test_native_code_comes_once_through_maven(tmp_path: Path) -> None:
    environ = _maven_with(tmp_path, "nativelib/Linux-aarch64/libhadoop.so")
    cache = tmp_path / "cache"
    cache.mkdir()
    said: list[str] = []
    home = ensure_native(None, cache, environ, said.append, machine="aarch64")
    assert (home / "libhadoop.so").read_bytes() == b"ELF"
    assert ensure_native(None, cache, {"PATH": ""}, said.append, machine="aarch64") == home
    assert said == ["fetching libhadoop.so through Maven (once; about 32 MB)"]
    assert sorted(path.name for path in cache.iterdir()) == [
        "native-3.3.5-3-aarch64",
        "native-3.3.5-3.lock",
    ], "the jar is not kept"
    with pytest.raises(SandboxError, match=r"holds no libhadoop\.so for amd64"):
        ensure_native(None, cache, environ, said.append, machine="x86_64")
    with pytest.raises(SandboxError, match=r"Maven has none for this processor \(riscv64\)"):
        ensure_native(None, cache, environ, said.append, machine="riscv64")


def test_an_unpacked_hadoop_brings_its_own_native_code(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "native" / "libhadoop.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"ELF")
    assert (
        ensure_native(tmp_path, tmp_path / "none", {}, pytest.fail, machine="riscv64")
        == library.parent
    )
    assert libhadoop.__all__ == ["ensure_native"]


# --- being let in


@pytest.fixture
def login(tmp_path: Path) -> SandboxLogin:
    """A keytab that is good, and a KDC that does not answer."""
    layout = Layout(tmp_path / "one")
    layout.make()
    state = replace(_state("kerberos", home=layout.home), ports={**block_ports(3), "kdc": 1})
    make_kdc(state, layout, ENVIRON)
    found = access_of(state).login
    assert found is not None
    return found


def test_a_kdc_that_does_not_answer_is_told_and_nothing_of_the_process_changes(
    login: SandboxLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/etc/mine")
    for ask in (login.ask_kdc, lambda: login.authorization("localhost")):
        with pytest.raises(
            NoTicket, match=r"^Kerberos: Cannot contact any KDC for realm 'SANDBOX\.TEST'$"
        ):
            ask()
        assert os.environ["KRB5_CONFIG"] == "/etc/mine"
    monkeypatch.delenv("KRB5_CONFIG")
    with pytest.raises(NoTicket, match="cannot be read"):
        replace(login, keytab=Path("/nowhere")).authorization("localhost")
    assert "KRB5_CONFIG" not in os.environ


def test_without_the_extra_it_is_said_what_to_install(
    login: SandboxLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_gssapi()
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(SandboxError, match="needs the extra `kerberos`") as caught:
        require_gssapi()
    assert "pip install 'requests-kerberos>=0.15'" in caught.value.hint
    with pytest.raises(NoTicket, match="the extra `kerberos` is not installed"):
        login.ask_kdc()


def test_who_asks_depends_on_the_profile() -> None:
    assert access_of(_state()) == Access(None, None)
    found = access_of(_state(*ALL))
    assert found.ca_file == Path("/state/one/tls/ca.pem")
    assert found.login == SandboxLogin(
        "ann@SANDBOX.TEST", Path("/state/one/keytabs/ann.keytab"), Path("/state/one/kdc/krb5.conf")
    )
    assert Access().headers("localhost") == {}
    assert Access().context() is None


class _Lends(Access):
    def headers(self, host: str) -> dict[str, str]:
        return {"Authorization": f"Negotiate {host}"}


def test_a_ticket_goes_along_and_no_redirect_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Mapping[str, str]] = []

    class Opener:
        def __init__(self, *handlers: object) -> None:
            assert any(isinstance(handler, web._NoRedirects) for handler in handlers)

        def open(self, request: Any, timeout: float) -> Any:
            sent.append(dict(request.header_items()))
            raise OSError("enough")

    monkeypatch.setattr("urllib.request.build_opener", Opener)
    with pytest.raises(NotWell, match="http://localhost:1/x does not answer: enough"):
        web.send("GET", "http://localhost:1/x?a=b", access=_Lends())
    assert sent == [{"Accept": "application/json", "Authorization": "Negotiate localhost"}]
    assert web._NoRedirects().redirect_request(None, None, 307, "", {}, "http://elsewhere") is None


def test_no_ticket_is_a_daemon_that_is_not_well(login: SandboxLogin) -> None:
    with pytest.raises(NotWell, match="Cannot contact any KDC"):
        web.send("GET", "http://localhost:1/x", access=Access(login=login))


# --- health


def _answers(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> None:
    """Let daemons answer by `port/path`; anything else fails the test."""

    def get_json(url: str, timeout_s: float = 5, access: Access | None = None) -> Any:
        answer = answers[url.partition("//localhost:")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(daemons, "get_json", get_json)
    monkeypatch.setattr(daemons, "is_alive", lambda _: True)
    monkeypatch.setattr(daemons, "listens", lambda *_: True)


def _info(role: str, state: str = "STARTED") -> dict[str, object]:
    return {"clusterInfo": {"state": state, "haState": role}}


@pytest.mark.parametrize(
    ("first", "second", "of_first", "of_second"),
    [
        ("ACTIVE", "STANDBY", "", ""),
        ("STANDBY", "ACTIVE", "", ""),
        (
            "STANDBY",
            "STANDBY",
            "it is standby, and the other one is not active",
            "it is standby, and the other one is not active",
        ),
        (
            "ACTIVE",
            "ACTIVE",
            "both ResourceManagers are active",
            "both ResourceManagers are active",
        ),
        ("ACTIVE", None, "", "does not answer"),
        ("STANDBY", None, "it is standby, and the other one is not active", "does not answer"),
        ("INITIALIZING", "ACTIVE", "it is STARTED, INITIALIZING", ""),
    ],
)
def test_of_two_resourcemanagers_one_leads_and_one_stands_by(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str | None, of_first: str, of_second: str
) -> None:
    state = (
        _state("ha")
        .with_daemon("resourcemanager", Process(1, 1))
        .with_daemon("resourcemanager2", Process(2, 1))
    )
    one, two = state.ports["rm_http"], state.ports["rm2_http"]
    answers = {
        f"{one}/ws/v1/cluster/info": _info(first),
        f"{two}/ws/v1/cluster/info": _info(second) if second else NotWell("does not answer"),
        f"{one}/app/v1/services/version": {},
        f"{two}/app/v1/services/version": {},
    }
    _answers(monkeypatch, answers)
    for name, problem in (("resourcemanager", of_first), ("resourcemanager2", of_second)):
        if problem:
            with pytest.raises(NotWell, match=problem):
                daemons.check(name, state)
        else:
            daemons.check(name, state)


def test_the_node_is_looked_for_at_the_active_one(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _state("ha")
    one, two = state.ports["rm_http"], state.ports["rm2_http"]
    node = {"id": f"localhost:{state.ports['nm']}", "state": "RUNNING"}
    answers = {
        f"{one}/ws/v1/cluster/info": _info("STANDBY"),
        f"{two}/ws/v1/cluster/info": _info("ACTIVE"),
        f"{two}/ws/v1/cluster/nodes": {"nodes": {"node": [node]}},
    }
    _answers(monkeypatch, answers)
    daemons.check_registered("nodemanager", state)
    _answers(monkeypatch, {**answers, f"{one}/ws/v1/cluster/info": NotWell("does not answer")})
    daemons.check_registered("nodemanager", state)


def test_the_kdc_is_asked_for_a_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _state("kerberos").with_daemon("kdc", Process(1, 1))
    _answers(monkeypatch, {})
    monkeypatch.setattr(access.SandboxLogin, "ask_kdc", lambda self: None)
    daemons.check("kdc", state)

    def refuse(_: SandboxLogin) -> None:
        raise NoTicket("Kerberos: Cannot contact any KDC")

    monkeypatch.setattr(access.SandboxLogin, "ask_kdc", refuse)
    with pytest.raises(NotWell, match="Cannot contact any KDC"):
        daemons.check("kdc", state)


def test_the_gateway_has_a_home_too() -> None:
    found = {
        path: owner
        for path, _, owner in namenode.directories(_state("kerberos"), Layout(Path("/state/one")))
    }
    assert {
        f"/user/{name}": name for name in ("ann", "alice", "bob", "gw")
    }.items() <= found.items()
