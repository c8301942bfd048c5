"""Settings: files, profiles and the Hadoop configuration, and the place of every mistake."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from submit_tf_job.errors import SettingsError
from submit_tf_job.settings import load_settings
from tests.builders.host import Host

XML = "<configuration>%s</configuration>"


def site(**values: str) -> str:
    return XML % "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )


def refused(host: Host, **given: object) -> SettingsError:
    with pytest.raises(SettingsError) as error:
        host.load(**given)  # type: ignore[arg-type]
    return error.value


# --- mistakes and their places --------------------------------------------------------------------


def test_settings_files_that_cannot_be_read(host: Host) -> None:
    host.user_file.mkdir(parents=True)
    assert refused(host).message == f"{host.user_file}: cannot be read: is a directory"
    host.user_file.rmdir()
    host.user_file.write_bytes(b"user: \xff\n")
    assert refused(host).message.startswith(
        f"{host.user_file}: cannot be read: 'utf-8' codec can't decode byte 0xff"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "user:\n", "{}\n"])
def test_settings_files_without_content(host: Host, text: str) -> None:
    host.write(host.user_file, text)
    assert host.load(arguments={"user": "alice"}).origins["user"] == "argument"


def test_settings_file_with_a_command_must_be_private(host: Host) -> None:
    text = "credentials.command: print-token --key s3cret\n"
    in_a_profile = "profiles:\n  prod: {credentials.command: print-token}\n"
    for path in (host.user_file, host.home / ".config/submit_tf_job/profiles.d/prod.yaml"):
        for content in (text, in_a_profile) if path == host.user_file else (text,):
            host.write(path, content).chmod(0o644)
            error = refused(host)
            assert (
                error.message
                == f"a settings file with a credentials.command: {path}: others can read it "
                f"(mode 0644)"
            )
            assert error.hint == f"chmod 600 {path}"
            path.chmod(0o600)
            host.load()
        path.unlink()
    host.write(host.system_file, text).chmod(0o644)
    assert host.load().credentials.command is not None
    host.system_file.chmod(0o664)
    assert (
        refused(host).message
        == f"a settings file with a credentials.command: {host.system_file}: others can "
        f"change it (mode 0664)"
    )
    host.system_file.unlink()
    host.write(host.user_file, "user: alice\ncredentials.file: /secrets/alice\n").chmod(0o644)
    host.load()  # the place of a secret is none


# --- the project's file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "resource_managers: http://evil",
        "user: root",
        "ca_file: /x",
        "hadoop_conf: /x",
        "sandbox: true",
    ],
)
def test_project_settings_refuse_cluster_keys(host: Host, text: str) -> None:
    path = host.write(host.project_file, text)
    error = refused(host)
    assert (
        error.message
        == f"{path}:1:1: {text.partition(':')[0]}: a project's file cannot say where jobs go "
        f"or as whom"
    )
    assert error.hint == "put it into your own settings.yaml"


def test_project_settings_refuse_profiles(host: Host) -> None:
    path = host.write(host.project_file, "poll.min: 1s\nprofiles: {x: {}}\n")
    error = refused(host)
    assert error.message == f"{path}:2:1: profiles: a project's file cannot define profiles"
    assert error.hint == "put them into your own settings.yaml"


def test_project_settings_are_found_in_parent_directories(host: Host) -> None:
    host.write(host.project_file, "poll.min: 3s\n")
    deep = host.project / "a/b"
    deep.mkdir(parents=True)

    def seen() -> float:
        value: float = load_settings(
            environ={"HOME": str(host.home)}, cwd=deep, system_file=host.system_file
        ).poll.min_s
        return value

    assert seen() == 3.0
    (host.project / "a/.git").mkdir()
    assert seen() == 1.0, "a repository's root ends the search"
    (host.project / "a/.git").rmdir()
    host.project_file.rename(host.home.parent / "submit_tf_job.yaml")
    assert seen() == 1.0, "so does the user's home"


# --- profiles -------------------------------------------------------------------------------------


@pytest.fixture
def profiles(host: Host) -> Host:
    host.write(
        host.user_file,
        "profiles: {prod: {user: prod}, test: {user: test}, env: {user: "
        "env}}\ndefault_profile: test\n",
    )
    return host


def test_profile_precedence(profiles: Host) -> None:
    assert profiles.load(profile="prod", env={"SUBMIT_TF_JOB_PROFILE": "env"}).user == "prod"
    assert profiles.load(env={"SUBMIT_TF_JOB_PROFILE": "env"}).user == "env"
    assert profiles.load(env={"SUBMIT_TF_JOB_PROFILE": ""}).user == "test"
    found = profiles.load()
    assert (found.profile, found.user, found.origins["user"]) == (
        "test",
        "test",
        f"{profiles.user_file}:1:39, profile test",
    )


def test_profile_that_does_not_exist(profiles: Host) -> None:
    error = refused(profiles, profile="prd")
    assert (error.message, error.hint) == (
        "there is no profile 'prd'",
        "known profiles: env, prod, test",
    )
    error = refused(profiles, profile="sandbox-old")
    assert (error.message, error.hint) == (
        "there is no profile 'sandbox-old'",
        "is it up? `submit_tf_job sandbox up`",
    )
    profiles.user_file.unlink()
    assert refused(profiles, profile="prd").hint == "known profiles: none"


def test_default_profile_that_does_not_exist(host: Host) -> None:
    host.write(host.user_file, "default_profile: gone\n")
    assert refused(host).message == "there is no profile 'gone'"


def sandbox(host: Host) -> Path:
    return host.write(
        host.home / ".config/submit_tf_job/profiles.d/sandbox.yaml",
        "resource_managers: http://127.0.0.1:1\nsandbox: true\n",
    )


def test_sandbox_is_used_without_another_cluster(host: Host) -> None:
    path = sandbox(host)
    found = host.load()
    assert (found.profile, found.resource_managers, found.sandbox) == (
        "sandbox",
        ("http://127.0.0.1:1",),
        True,
    )
    assert found.origins["resource_managers"] == f"{path}:1:1"


def test_sandbox_yields_to_any_other_cluster(host: Host) -> None:
    sandbox(host)
    conf = host.root / "conf"
    host.write(conf / "yarn-site.xml", site(**{"yarn.resourcemanager.hostname": "rm"}))
    real = ("http://rm:8088",)
    assert host.load(arguments={"resource_managers": ["http://rm:8088"]}).profile is None
    assert (
        host.load(env={"SUBMIT_TF_JOB_RESOURCE_MANAGERS": "http://rm:8088"}).resource_managers
        == real
    )
    assert host.load(env={"SUBMIT_TF_JOB_HADOOP_CONF": str(conf)}).resource_managers == real
    assert host.load(env={"HADOOP_CONF_DIR": str(conf)}).resource_managers == real
    for text in ("resource_managers: http://rm:8088\n", f"hadoop_conf: {conf}\n"):
        for path in (host.user_file, host.system_file):
            host.write(path, text)
            found = host.load()
            assert (found.profile, found.resource_managers, found.sandbox) == (None, real, False)
            path.unlink()
    assert host.load(profile="sandbox", env={"HADOOP_CONF_DIR": str(conf)}).resource_managers == (
        "http://127.0.0.1:1",
    )


# --- the Hadoop configuration ---------------------------------------------------------------------


def test_hadoop_conf_dir_has_the_lowest_precedence(host: Host) -> None:
    conf = host.root / "conf"
    host.write(conf / "yarn-site.xml", site(**{"yarn.resourcemanager.hostname": "rm"}))
    host.write(
        conf / "core-site.xml", site(**{"hadoop.registry.dns.domain-name": "hadoop.example.com"})
    )
    env = {"HADOOP_CONF_DIR": str(conf)}
    found = host.load(env=env)
    assert (found.resource_managers, found.dns.domain, found.hadoop_conf) == (
        ("http://rm:8088",),
        "hadoop.example.com",
        conf,
    )
    assert found.origins["resource_managers"] == f"HADOOP_CONF_DIR: {conf}/yarn-site.xml"
    assert found.origins["dns.domain"] == f"HADOOP_CONF_DIR: {conf}/core-site.xml"
    assert found.origins["hadoop_conf"] == "HADOOP_CONF_DIR"
    host.write(host.system_file, "dns.domain: other.example.com\n")
    assert host.load(env=env).dns.domain == "other.example.com"


def test_hadoop_conf_setting_replaces_the_variable(host: Host) -> None:
    host.write(host.root / "a/yarn-site.xml", site(**{"yarn.resourcemanager.hostname": "a"}))
    host.write(host.root / "b/yarn-site.xml", site(**{"yarn.resourcemanager.hostname": "b"}))
    host.write(host.user_file, f"hadoop_conf: {host.root}/b\n")
    found = host.load(env={"HADOOP_CONF_DIR": str(host.root / "a")})
    assert (found.resource_managers, found.hadoop_conf) == (("http://b:8088",), host.root / "b")
    assert found.origins["resource_managers"] == f"hadoop_conf: {host.root}/b/yarn-site.xml"
    assert found.origins["hadoop_conf"] == f"{host.user_file}:1:1"


def test_hadoop_conf_expands_the_home_directory(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(host.home))
    host.write(host.home / "conf/yarn-site.xml", site(**{"yarn.resourcemanager.hostname": "rm"}))
    host.write(host.user_file, "hadoop_conf: ~/conf\n")
    assert host.load().resource_managers == ("http://rm:8088",)


def test_hadoop_conf_dir_without_resource_managers(host: Host) -> None:
    for directory in ("", str(host.root / "missing"), str(host.root)):
        found = host.load(env={"HADOOP_CONF_DIR": directory})
        assert (found.resource_manager_urls, found.hadoop_conf, found.dns.domain) == (
            (),
            None,
            None,
        )


def test_hadoop_conf_dir_that_cannot_be_read(host: Host) -> None:
    path = host.write(host.root / "conf/yarn-site.xml", "<configuration>")
    assert refused(host, env={"HADOOP_CONF_DIR": str(path.parent)}).message == (
        f"{path}: cannot be read: no element found: line 1, column 15"
    )
    assert (
        host.load(
            env={"HADOOP_CONF_DIR": str(path.parent)}, arguments={"hadoop_conf": str(host.root)}
        ).hadoop_conf
        == host.root
    )


def test_loading_settings_writes_no_file(host: Host) -> None:
    host.write(host.user_file, "user: alice\n")
    before = {
        path: (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode))
        for path in host.root.rglob("*")
    }
    host.project.mkdir()
    host.load(env={"HADOOP_CONF_DIR": "/nowhere"})
    after = {
        path: (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode))
        for path in host.root.rglob("*")
    }
    assert {p for p in after if p not in before} == {host.project}
    assert all(after[path] == before[path] for path in before if path != host.home), os.fspath(
        host.root
    )
