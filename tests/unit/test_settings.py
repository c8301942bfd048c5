"""Settings: what each key takes, and which layer wins."""

from __future__ import annotations

import ast
import re
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
        "http://a:8088, https://b http://c",
        ("http://a:8088", "https://b", "http://c"),
    ),
    ("resource_managers", ["http://a:8088/"], ("http://a:8088",)),
    ("resource_managers", ["http://[::1]:8088"], ("http://[::1]:8088",)),
    ("user", " alice ", "alice"),
    ("user", "svc_Etl-1.x$", "svc_Etl-1.x$"),
    ("ca_file", "/etc/ca.pem", Path("/etc/ca.pem")),
    ("hadoop_version", "3.1.1.7.1.9.0-387", "3.1.1.7.1.9.0-387"),
    ("dns.server", "10.0.0.1:5353", "10.0.0.1:5353"),
    ("gpu_resource", "nvidia.com/gpu", "nvidia.com/gpu"),
    ("ports.range", "1024-65535", (1024, 65535)),
    ("timeouts.read", "500ms", 0.5),
    ("timeouts.read", "1h30m", 5400.0),
    ("poll.max", " 2m ", 120.0),
    ("sandbox", True, True),
    ("sandbox", "false", False),
]


@pytest.mark.parametrize(("name", "raw", "value"), GOOD)
def test_settings_accept_valid_values(host: Host, name: str, raw: object, value: object) -> None:
    assert keys()[name].value_of(host.load(arguments={name: raw})) == value


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
    """And what runs in containers, or on a NodeManager."""
    free = ("settings.py", "container/", "compat/in_task.py", "sandbox/executor.py")
    programs = ("doctor/imageprobe.py", "doctor/probe.py", "sdk/callee.py")
    # hdfs-native takes the user, and MIT Kerberos its files, from nowhere but these variables
    lines = {"storage/hdfs.py": "HADOOP_USER_NAME", "host/kerberos.py": "KRB5"}
    lines |= {"sandbox/web.py": "KRB5_CONFIG", "sandbox/engine.py": "path_with_sbin"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")
        if name.startswith((*free, *programs)) or not re.search(
            "environ|getenv|putenv|unsetenv", text
        ):
            continue
        for node in ast.walk(ast.parse(text)):
            word = getattr(node, "attr", "") or (node.name if isinstance(node, ast.alias) else "")
            if re.fullmatch("environb?|getenvb?|putenv|unsetenv", word):
                line = text.splitlines()[getattr(node, "lineno", 1) - 1].strip()
                if lines.get(name, "\0") not in line:
                    found.append(f"{name}: {line}")
    assert found == []
