"""Settings: what each key takes, and which layer wins."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import submit_tf_job
from submit_tf_job.errors import SettingsError
from submit_tf_job.settings import (
    directories,
    keys,
)
from tests.builders.host import Host

PACKAGE = Path(submit_tf_job.__file__).parent


def nested(name: str, value: object) -> dict[str, object]:
    first, dot, rest = name.partition(".")
    return {first: {rest: value}} if dot else {name: value}


# --- which layer wins -----------------------------------------------------------------------------

# a key that every layer may set, one that no variable sets, and one that no project's file sets
RAW: dict[str, Callable[[int], Any]] = {
    "staging": lambda n: f"hdfs://nn{n}/staging",
    "job": lambda n: {"image": f"image{n}"},
    "user": lambda n: f"user{n}",
}


@pytest.mark.parametrize("name", RAW)
def test_settings_precedence(host: Host, name: str) -> None:
    key, raw = keys()[name], RAW[name]
    arguments: dict[str, Any] = {name: raw(0)}
    env = {key.variable: str(raw(1))} if key.env else {}
    if key.project:
        host.write(host.project_file, nested(name, raw(2)))
    host.write(host.user_file, {"profiles": {"p": nested(name, raw(3))}, **nested(name, raw(4))})
    host.write(host.home / ".config/submit_tf_job/profiles.d/p.yaml", nested(name, raw(5)))
    host.write(host.system_file, {"profiles": {"p": nested(name, raw(6))}, **nested(name, raw(7))})

    def expect(number: int, origin: str) -> None:
        found = host.load(arguments=arguments, env=env, profile="p")
        assert (key.value_of(found), found.origins[name].startswith(origin)) == (
            key.parse(raw(number)),
            True,
        ), found.origins[name]
        assert found.profile == "p"

    expect(0, "argument")
    arguments.clear()
    if key.env:
        expect(1, f"environment variable {key.variable}")
        env.clear()
    if key.project:
        expect(2, f"{host.project_file}:1:")
        host.project_file.unlink()
    expect(3, f"{host.user_file}:1:")
    host.write(host.user_file, {"profiles": {"p": {}}, **nested(name, raw(4))})
    expect(4, f"{host.user_file}:1:")
    host.user_file.unlink()
    expect(5, f"{host.home}/.config/submit_tf_job/profiles.d/p.yaml:1:")
    (host.home / ".config/submit_tf_job/profiles.d/p.yaml").unlink()
    expect(6, f"{host.system_file}:1:")
    host.write(host.system_file, {"profiles": {"p": {}}, **nested(name, raw(7))})
    expect(7, f"{host.system_file}:1:")
    host.write(host.system_file, {"profiles": {"p": {}}})
    found = host.load(profile="p")
    if name == "user":
        assert found.origins[name] == "who you are on this machine"
    else:
        assert (key.value_of(found), found.origins[name]) == (key.default, "default")


@pytest.mark.parametrize("nothing", [None, (), []])
def test_settings_ignore_absent_arguments(host: Host, nothing: object) -> None:
    found = host.load(
        arguments={"resource_managers": nothing, "user": None}, env={"SUBMIT_TF_JOB_USER": "alice"}
    )
    assert (found.resource_manager_urls, found.user) == ((), "alice")


def test_settings_without_a_resource_manager(host: Host) -> None:
    with pytest.raises(SettingsError) as error:
        _ = host.load().resource_managers
    assert (
        error.value.message
        == "no ResourceManager is known: neither settings, environment nor HADOOP_CONF_DIR "
        "names one"
    )
    assert error.value.hint == (
        f"give --rm http://host:8088, or set resource_managers in {host.user_file}, "
        "or start one on this machine with `submit_tf_job sandbox up`"
    )


def test_settings_user_without_a_passwd_entry(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    with pytest.raises(SettingsError) as error:
        host.load()
    assert (error.value.message, error.value.hint) == (
        "the user running this has no name on this machine",
        "give --user NAME, or set `user`",
    )
    assert host.load(arguments={"user": "alice"}).user == "alice"


# --- what a key takes -----------------------------------------------------------------------------

GOOD: list[tuple[str, Any, Any]] = [
    (
        "resource_managers",
        "http://a:8088, https://b:8090 http://c",
        ("http://a:8088", "https://b:8090", "http://c"),
    ),
    ("resource_managers", ["http://a:8088/"], ("http://a:8088",)),
    ("resource_managers", ["http://[::1]:8088"], ("http://[::1]:8088",)),
    ("user", " alice ", "alice"),
    ("user", "svc_Etl-1.x$", "svc_Etl-1.x$"),
    ("ca_file", "/etc/ca.pem", Path("/etc/ca.pem")),
    ("hadoop_version", "3.1.1.7.1.9.0-387", "3.1.1.7.1.9.0-387"),
    ("dns.domain", "hadoop.example.com", "hadoop.example.com"),
    ("dns.server", "10.0.0.1:5353", "10.0.0.1:5353"),
    ("gpu_resource", "nvidia.com/gpu", "nvidia.com/gpu"),
    ("ports.range", "1024-65535", (1024, 65535)),
    ("timeouts.read", "500ms", 0.5),
    ("timeouts.read", "1h30m", 5400.0),
    ("poll.max", " 2m ", 120.0),
    ("job", {"image": "x"}, {"image": "x"}),
    ("sandbox", True, True),
    ("sandbox", "false", False),
]
NO_DURATION = "is not a duration; write whole numbers with d, h, m and s in that order, as in 1h30m"
ADDRESS = "is not the address of a ResourceManager; write it as http://rm.example.com:8088"
BAD: list[tuple[str, Any, str]] = [
    ("resource_managers", {"a": 1}, "expected one or more URLs, found {'a': 1}"),
    ("resource_managers", " ,", "expected one or more URLs, found ' ,'"),
    ("resource_managers", ["http://a", 5], "expected a text, found 5"),
    ("resource_managers", "rm:8088", f"'rm:8088' {ADDRESS}"),
    ("resource_managers", "ftp://rm", f"'ftp://rm' {ADDRESS}"),
    ("resource_managers", "http://", f"'http://' {ADDRESS}"),
    ("resource_managers", "http://[::1", f"'http://[::1' {ADDRESS}"),
    ("resource_managers", "http://rm:abc", f"'http://rm:abc' {ADDRESS}"),
    ("resource_managers", "http://rm:99999", f"'http://rm:99999' {ADDRESS}"),
    ("resource_managers", "http://rm:0", f"'http://rm:0' {ADDRESS}"),
    (
        "resource_managers",
        "http://al:pw@rm:1",
        "a ResourceManager's address must not hold a user or a password",
    ),
    (
        "resource_managers",
        "http://rm:1/cluster",
        "'http://rm:1/cluster' is one of its pages; write only scheme, host and port: http://rm:1",
    ),
    (
        "resource_managers",
        "http://rm:1?a=b",
        "'http://rm:1?a=b' has a query; write only the address: http://rm:1",
    ),
    ("user", 5, "expected a text, found 5"),
    ("user", "", "expected a text, found ''"),
    ("user", "al ice", "'al ice' is not a valid user name"),
    ("user", "-alice", "'-alice' is not a valid user name"),
    ("gateway.upload_size", "1", "'1' has no unit; say Mi or Gi, as in 1Gi"),
    ("gateway.upload_size", "0Mi", "'0Mi' is no memory; ask for 1Mi to 999999999Ti"),
    ("gateway.upload_files", 0, "0 is not a number from 1 to 999999"),
    ("gateway.upload_files", True, "True is not a number from 1 to 999999"),
    ("caps.gpus", -1, "-1 is not a number from 0 to 999999"),
    ("caps.lifetime", "0s", "'0s' leaves no time; use 90s, 15m or 2h"),
    (
        "ca_file",
        "~nobody-of-that-name/ca",
        "'~nobody-of-that-name/ca' is in the home directory of an unknown user",
    ),
    (
        "hadoop_conf",
        "~nobody-of-that-name",
        "'~nobody-of-that-name' is in the home directory of an unknown user",
    ),
    ("hadoop_version", 3.4, "expected a text, found 3.4"),
    ("hadoop_version", "3.4", "'3.4' is not a valid Hadoop version"),
    ("dns.domain", "Example.com", "'Example.com' is not a valid DNS domain"),
    ("dns.domain", "example.com.", "'example.com.' is not a valid DNS domain"),
    ("dns.server", "dns", "'dns' is not a valid address; write host:port"),
    ("dns.server", "dns:0", "'dns:0' is not a valid address; write host:port"),
    ("dns.server", "dns:65536", "'dns:65536' is not a valid address; write host:port"),
    ("names", "consul", "must be one of dns, rendezvous, auto, not 'consul'"),
    ("gpu_resource", "1/gpu:x", "'1/gpu:x' is not a valid resource name"),
    ("ports.range", "20000", "'20000' is not a valid port range; write 20000-32767"),
    ("ports.range", "30000-20000", "'30000-20000' is not a valid port range; write 20000-32767"),
    ("ports.range", "80-90", "'80-90' is not a valid port range; write 20000-32767"),
    ("ports.range", "20000-70000", "'20000-70000' is not a valid port range; write 20000-32767"),
    ("staging", ["a"], "expected a text, found ['a']"),
    ("timeouts.submit", 30, "'30' has no unit; say s, m, h or d, as in 30s"),
    ("timeouts.submit", "30", "'30' has no unit; say s, m, h or d, as in 30s"),
    ("poll.min", "-1s", f"'-1s' {NO_DURATION}"),
    ("job", "x", "expected a mapping, found 'x'"),
    ("shapes", [1], "expected a mapping, found [1]"),
    ("sandbox", 1, "expected true or false, found 1"),
    ("sandbox", "yes", "expected true or false, found 'yes'"),
]


@pytest.mark.parametrize(("name", "raw", "value"), GOOD)
def test_settings_accept_valid_values(host: Host, name: str, raw: object, value: object) -> None:
    assert keys()[name].value_of(host.load(arguments={name: raw})) == value


@pytest.mark.parametrize(("name", "raw", "message"), BAD)
def test_settings_refuse_invalid_values(host: Host, name: str, raw: object, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        host.load(arguments={name: raw})
    assert error.value.message == f"{name}: {message}"


def test_settings_errors_give_the_place(host: Host) -> None:
    host.write(host.user_file, "user: alice\nprofiles:\n  prod:\n    poll:\n      min: 1x\n")
    assert host.load().user == "alice"
    with pytest.raises(SettingsError) as error:
        host.load(profile="prod")
    assert error.value.message == (
        f"{host.user_file}:5:7, profile prod: poll.min: '1x' {NO_DURATION}"
    )


@pytest.mark.parametrize("text", ["s", "1 s", "1w", "", "1e3s", ".5s", "1.5h", "1s2m"])
def test_settings_refuse_what_is_no_duration(host: Host, text: str) -> None:
    host.write(host.user_file, {"poll": {"min": text}})
    with pytest.raises(SettingsError, match="is not a duration"):
        host.load()


# --- variables ------------------------------------------------------------------------------------


def test_settings_refuse_unknown_variables(host: Host) -> None:
    with pytest.raises(SettingsError) as error:
        host.load(env={"SUBMIT_TF_JOB_POLLMIN": "1s"})
    assert error.value.message == (
        "the environment variable SUBMIT_TF_JOB_POLLMIN is not a setting; did you mean "
        "SUBMIT_TF_JOB_POLL_MIN?"
    )


@pytest.mark.parametrize("name", ["job", "shapes", "sandbox"])
def test_settings_refuse_variables_of_mappings(host: Host, name: str) -> None:
    with pytest.raises(
        SettingsError,
        match=f"the environment variable SUBMIT_TF_JOB_{name.upper()} is not a setting",
    ):
        host.load(env={f"SUBMIT_TF_JOB_{name.upper()}": "x"})


def test_settings_ignore_variables_of_the_tests(host: Host) -> None:
    assert (
        host.load(
            env={"SUBMIT_TF_JOB_TEST_TENSORFLOW": "/venv", "SUBMIT_TF_JOB_TEST_ANYTHING": ""}
        ).profile
        is None
    )


# --- directories ----------------------------------------------------------------------------------


def test_settings_directories() -> None:
    here = directories({"HOME": "/home/alice"})
    assert (here.config, here.state, here.cache) == (
        Path("/home/alice/.config/submit_tf_job"),
        Path("/home/alice/.local/state/submit_tf_job"),
        Path("/home/alice/.cache/submit_tf_job"),
    )
    there = directories(
        {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "relative", "XDG_CACHE_HOME": ""}
    )
    assert (there.config, there.state, there.cache) == (
        Path("/c/submit_tf_job"),
        Path("/h/.local/state/submit_tf_job"),
        Path("/h/.cache/submit_tf_job"),
    )


def test_only_settings_read_the_environment() -> None:
    """Only settings, what runs in containers, and what a NodeManager runs may look at the process's
    environment.
    """
    in_containers = ("container/", "compat/in_task.py", "sdk/callee.py", "doctor/imageprobe.py")
    allowed = ("settings.py", "sandbox/executor.py", "doctor/probe.py", *in_containers)
    names = ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv")
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")
        if name.startswith(allowed) or not any(word in text for word in names):
            continue
        for node in ast.walk(ast.parse(text)):
            asked = (
                node.attr
                if isinstance(node, ast.Attribute)
                else node.name
                if isinstance(node, ast.alias)
                else ""
            )
            if asked in names:
                line = (
                    text.splitlines()[node.lineno - 1].strip()
                    if isinstance(node, ast.expr)
                    else "import"
                )
                # hdfs-native takes the user, and MIT Kerberos its files, from nowhere but these
                # variables.
                allowed_here = {
                    "storage/hdfs.py": "HADOOP_USER_NAME",
                    "host/kerberos.py": "KRB5",
                    "sandbox/web.py": "KRB5_CONFIG",
                    "sandbox/engine.py": "path_with_sbin",
                }
                if name not in allowed_here or allowed_here[name] not in line:
                    found.append(f"{name}: {line}")
    assert found == []
