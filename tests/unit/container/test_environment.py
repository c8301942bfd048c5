"""The environment variables that the bootstrap sets for the training program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract, environment
from submit_tf_job.container.info import BootstrapProblem, Info


def prepared(
    cwd: Path, env: dict[str, str] | None = None, role: dict[str, Any] | None = None, **task: Any
) -> tuple[dict[str, str], list[str]]:
    roles = {
        "my-worker": {
            "count": 3,
            "kind": "trains",
            "command": ["true"],
            "max_restarts": 0,
            **(role or {}),
        }
    }
    description = {
        "version": 1,
        "job": "mnist",
        "submission": "abc",
        "deciding": "my-worker",
        "cluster_roles": [],
        "ports": {"mode": "own-address"},
        "roles": roles,
        **task,
    }
    found = {
        contract.ENV_INSTANCE: "my-worker-2",
        contract.ENV_HOSTNAME: "my-worker-2.mnist.alice.sandbox.test",
        "HOME": str(cwd),
        **(env or {}),
    }
    changed = dict(found)
    warnings = environment.prepare(Info(description, found, str(cwd)), changed)
    return changed, warnings


def test_prepare_sets_the_task_variables(tmp_path: Path) -> None:
    env, warnings = prepared(tmp_path)
    assert warnings == []
    assert {name: env[name] for name in contract.TASK_ENV if name in env} == {
        "TFJOB_NAME": "mnist",
        "TFJOB_ROLE": "my-worker",
        "TFJOB_INDEX": "2",
        "TFJOB_COUNT": "3",
        "TFJOB_PORT": "2222",
        "TFJOB_SUBMISSION_ID": "abc",
        "TFJOB_PROGRESS_FILE": f"{tmp_path}/tfjob-progress.json",
    }
    assert env["PYTHONUNBUFFERED"] == "1"


MOUNTED = """\
22 1 0:21 / / rw,relatime - overlay overlay rw
30 22 8:1 /local/app {app} rw,relatime - ext4 /dev/sda1 rw
31 22 8:1 /log/app/c {logs} rw,relatime - ext4 /dev/sda1 rw
"""
ASKED = {
    contract.ENV_RUNTIME: "docker",
    contract.ENV_IMAGE: "company/tf:2.15",
    contract.ENV_HOSTNAME: "chief-0.mnist.alice.sandbox.test",
    "LOG_DIRS": "/var/log/yarn/app/c,/data/log/app/c",
    "LOCAL_DIRS": "/data/usercache/alice/appcache/app",
}
PLAIN = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:2 / /data rw - ext4 /dev/sdb1 rw\n"


@pytest.mark.parametrize(
    ("env", "mounts", "hostname", "image"),
    [
        ({}, PLAIN, "node7", "company/tf:2.15"),
        ({}, PLAIN, "Chief-0.mnist.alice.sandbox.test", ""),
        ({}, MOUNTED.format(app="/x", logs="/data/log/app/c"), "node7", ""),
        ({}, MOUNTED.format(app="/data/usercache/alice/appcache/app", logs="/x"), "node7", ""),
        ({}, MOUNTED.format(app="/", logs="/data"), "node7", "company/tf:2.15"),
        (
            {"LOG_DIRS": "/logs of/c", "LOCAL_DIRS": ""},
            MOUNTED.format(app="/x", logs="/logs\\040of/c"),
            "node7",
            "",
        ),
        ({contract.ENV_RUNTIME: "default"}, PLAIN, "node7", ""),
        ({contract.ENV_RUNTIME: ""}, PLAIN, "node7", ""),
        ({contract.ENV_IMAGE: ""}, PLAIN, "node7", ""),
        ({"LOG_DIRS": "", "LOCAL_DIRS": ""}, PLAIN, "node7", ""),
        ({}, "garbage\n", "node7", ""),
        ({contract.ENV_HOSTNAME: ""}, PLAIN, "", "company/tf:2.15"),
    ],
)
def test_ignored_image_by_host_name_and_mounts(
    tmp_path: Path, env: dict[str, str], mounts: str, hostname: str, image: str
) -> None:
    file = tmp_path / "mountinfo"
    file.write_text(mounts)
    assert environment.ignored_image({**ASKED, **env}, str(file), hostname or "node7") == image


def test_ignored_image_where_mounts_cannot_be_read(tmp_path: Path) -> None:
    assert environment.ignored_image(ASKED, str(tmp_path / "none"), "node7") == ""


def test_prepare_role_env_overrides_all_but_the_contract(tmp_path: Path) -> None:
    role = {"env": {"A": 1, "PYTHONUNBUFFERED": "", "TFJOB_ROLE": "boss"}}
    env, _ = prepared(tmp_path, {"A": "0"}, role)
    assert (env["A"], env["PYTHONUNBUFFERED"], env["TFJOB_ROLE"]) == ("1", "", "my-worker")


# --- homes ----------------------------------------------------------------------------------------
def test_prepare_keeps_a_writable_home(tmp_path: Path) -> None:
    env, _ = prepared(tmp_path)
    assert env["HOME"] == str(tmp_path)
    assert "XDG_CACHE_HOME" not in env
    assert "KERAS_HOME" not in env


@pytest.mark.parametrize("home", ["/no/such/home", ""])
def test_prepare_replaces_an_unwritable_home(tmp_path: Path, home: str) -> None:
    env, _ = prepared(tmp_path, {"HOME": home})
    assert env["HOME"] == f"{tmp_path}/home"
    for name in ("HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR", "KERAS_HOME", "TMPDIR"):
        assert os.access(env[name], os.W_OK)


def test_prepare_replaces_only_an_unwritable_cache(tmp_path: Path) -> None:
    env, _ = prepared(tmp_path, {"KERAS_HOME": "/no/such/keras", "TMPDIR": "/no/such/tmp"})
    assert env["KERAS_HOME"] == f"{tmp_path}/home/.keras_home"
    assert Path(env["TMPDIR"]).is_dir()
    assert "MPLCONFIGDIR" not in env


def test_prepare_without_a_writable_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_args: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", nothing)
    with pytest.raises(
        BootstrapProblem, match=r"no directory can be written here: .*Permission denied"
    ):
        prepared(tmp_path / "missing", {"HOME": "/no/such/home"})


# --- GPUs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ({"gpus": 0}, ""),
        ({}, ""),
        ({"gpus": 1}, None),
        ({"gpus": 0, "env": {"CUDA_VISIBLE_DEVICES": "3"}}, "3"),
        ({"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "0"}}, "0"),
    ],
)
def test_prepare_hides_gpus_from_roles_without(
    tmp_path: Path, role: dict[str, Any], expected: str | None
) -> None:
    assert prepared(tmp_path, role=role)[0].get("CUDA_VISIBLE_DEVICES") == expected


# --- Hadoop ---------------------------------------------------------------------------------------
def test_prepare_removes_leaked_host_paths(tmp_path: Path) -> None:
    env, _ = prepared(
        tmp_path,
        {
            "JAVA_HOME": "/no/jdk",
            "HADOOP_HOME": "/no/hadoop",
            "HADOOP_CONF_DIR": str(tmp_path),
            "HADOOP_USER_NAME": "alice",
        },
    )
    assert "JAVA_HOME" not in env
    assert "HADOOP_HOME" not in env
    assert env["HADOOP_CONF_DIR"] == str(tmp_path)
    assert env["HADOOP_USER_NAME"] == "alice"


def test_prepare_with_inline_hadoop_conf(tmp_path: Path) -> None:
    (tmp_path / "hadoop-conf").mkdir()
    env, warnings = prepared(tmp_path, {"HADOOP_CONF_DIR": "/etc"}, hadoop_conf="inline")
    assert (env["HADOOP_CONF_DIR"], warnings) == (f"{tmp_path}/hadoop-conf", [])


def test_prepare_with_the_nodes_hadoop_conf(tmp_path: Path) -> None:
    env, warnings = prepared(tmp_path, hadoop_conf="/no/conf")
    assert env["HADOOP_CONF_DIR"] == "/no/conf"
    assert warnings == ["the Hadoop configuration /no/conf does not exist in this container"]


@pytest.mark.parametrize("inner", ["", "conf"])
def test_prepare_with_a_hadoop_conf_archive(tmp_path: Path, inner: str) -> None:
    where = tmp_path / "tfjob-hadoop-conf" / inner
    where.mkdir(parents=True)
    (where / "core-site.xml").touch()
    env, warnings = prepared(tmp_path, hadoop_conf="archive:tfjob-hadoop-conf")
    assert (Path(env["HADOOP_CONF_DIR"]), warnings) == (where, [])


def hadoop_home(root: Path) -> Path:
    for name in (
        "lib/native/libhdfs.so",
        "share/hadoop/common/c.jar",
        "share/hadoop/common/lib/l.jar",
        "share/hadoop/hdfs/h.jar",
        "share/hadoop/hdfs/lib/n.jar",
        "share/hadoop/yarn/y.jar",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_prepare_sets_class_path_without_wildcards_for_libhdfs(tmp_path: Path) -> None:
    home = hadoop_home(tmp_path / "hadoop")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/m.jar").touch()
    jdk = tmp_path / "jdk/lib/server"
    jdk.mkdir(parents=True)
    (jdk / "libjvm.so").touch()
    given = {
        "HADOOP_HOME": str(home),
        "JAVA_HOME": str(tmp_path / "jdk"),
        "CLASSPATH": f"{tmp_path}/mine/*:/x.jar",
        "LD_LIBRARY_PATH": "/opt/lib",
    }
    env, _ = prepared(tmp_path, {**given, "HADOOP_CONF_DIR": "/etc"})
    jars = [
        f"{home}/share/hadoop/{name}.jar"
        for name in ("common/lib/l", "common/c", "hdfs/h", "hdfs/lib/n")
    ]
    assert env["CLASSPATH"].split(":") == ["/etc", f"{tmp_path}/mine/m.jar", "/x.jar", *jars]
    assert env["LD_LIBRARY_PATH"] == f"/opt/lib:{home}/lib/native:{jdk}"
    assert env["HADOOP_HDFS_HOME"] == str(home)


def test_prepare_finds_java_home_by_the_java_in_the_path(tmp_path: Path) -> None:
    java = tmp_path / "jdk8/jre/bin/java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (tmp_path / "jdk8/jre/lib/amd64/server").mkdir(parents=True)
    (tmp_path / "jdk8/jre/lib/amd64/server/libjvm.so").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(java)
    env, _ = prepared(
        tmp_path,
        {
            "HADOOP_HDFS_HOME": str(hadoop_home(tmp_path / "h")),
            "PATH": f"{tmp_path}/bin",
            "JAVA_HOME": "/no/jdk",
        },
    )
    assert env["JAVA_HOME"] == f"{tmp_path}/jdk8/jre"
    assert env["LD_LIBRARY_PATH"].endswith("/jdk8/jre/lib/amd64/server")


def test_prepare_without_libhdfs_sets_no_class_path(tmp_path: Path) -> None:
    (tmp_path / "hadoop").mkdir()
    env, _ = prepared(tmp_path, {"HADOOP_HOME": str(tmp_path / "hadoop")})
    assert "CLASSPATH" not in env
    assert "LD_LIBRARY_PATH" not in env


# --- proxies --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "sandbox.test"),
        ({"no_proxy": "localhost"}, "localhost,sandbox.test"),
        ({"NO_PROXY": "localhost,sandbox.test"}, "localhost,sandbox.test"),
    ],
)
def test_prepare_excludes_peers_from_the_proxy(
    tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    env, _ = prepared(tmp_path, given)
    assert env["no_proxy"] == env["NO_PROXY"] == expected


def test_prepare_without_a_registry_domain_keeps_no_proxy(tmp_path: Path) -> None:
    assert "no_proxy" not in prepared(tmp_path, {contract.ENV_HOSTNAME: ""})[0]


def test_has_proxy_in_both_spellings() -> None:
    assert environment.has_proxy({"HTTPS_PROXY": "http://p:3128"})
    assert environment.has_proxy({"http_proxy": "http://p:3128"})
    assert not environment.has_proxy({"http_proxy": "", "no_proxy": "x"})


# --- krb5.conf ------------------------------------------------------------------------------------
def test_prepare_sets_krb5_conf_for_every_kind_of_client(tmp_path: Path) -> None:
    (tmp_path / "tfjob-krb5.conf").touch()
    path = f"{tmp_path}/tfjob-krb5.conf"
    env, warnings = prepared(
        tmp_path, {"HADOOP_OPTS": "-Xmx1g"}, kerberos={"krb5_conf": "tfjob-krb5.conf"}
    )
    assert warnings == []
    assert (env["KRB5_CONFIG"], env["LIBHDFS_OPTS"]) == (path, f"-Djava.security.krb5.conf={path}")
    assert env["HADOOP_OPTS"] == f"-Xmx1g -Djava.security.krb5.conf={path}"
    assert "JAVA_TOOL_OPTIONS" not in env


def test_prepare_prefers_the_roles_krb5_conf(tmp_path: Path) -> None:
    role = {"env": {"KRB5_CONFIG": "/own", "HADOOP_OPTS": "-Djava.security.krb5.conf=/other"}}
    env, warnings = prepared(tmp_path, None, role, kerberos={"krb5_conf": "/none/krb5.conf"})
    assert (env["KRB5_CONFIG"], env["HADOOP_OPTS"]) == ("/own", "-Djava.security.krb5.conf=/other")
    assert env["LIBHDFS_OPTS"] == "-Djava.security.krb5.conf=/own"
    assert warnings == ["the file /none/krb5.conf (krb5.conf) does not exist in this container"]


@pytest.mark.parametrize("task", [{}, {"kerberos": {"krb5_conf": None}}])
def test_prepare_without_krb5_conf_sets_nothing(tmp_path: Path, task: dict[str, Any]) -> None:
    env, _ = prepared(tmp_path, **task)
    assert not {"KRB5_CONFIG", "HADOOP_OPTS", "LIBHDFS_OPTS"} & set(env)
