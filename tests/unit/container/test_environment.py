"""The environment variables that the bootstrap sets for the training program; as processes see them:
tests/bootstrap/test_variables.
"""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from submit_tf_job.container import contract, environment, program_variables
from submit_tf_job.container.info import BootstrapProblem, Info
from tests.unit.container.descriptions import description
from tests.unit.container.descriptions import role as role_of


def prepared(
    cwd: Path, env: dict[str, str] | None = None, role: dict[str, Any] | None = None, **task: Any
) -> tuple[dict[str, str], list[str]]:
    found = {
        contract.ENV_INSTANCE: "my-worker-2",
        contract.ENV_HOSTNAME: "my-worker-2.mnist.alice.sandbox.test",
        "HOME": str(cwd),
        **(env or {}),
    }
    changed = dict(found)
    told = description({"my-worker": role_of(3, "trains", **(role or {}))}, **task)
    warnings = environment.prepare(Info(told, found, str(cwd)), changed)
    return changed, warnings


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
APP = "/data/usercache/alice/appcache/app"


@pytest.mark.parametrize(
    ("env", "mounts", "hostname", "image"),
    [
        ({}, PLAIN, "node7", "company/tf:2.15"),
        ({}, PLAIN, "Chief-0.mnist.alice.sandbox.test", ""),
        ({}, MOUNTED.format(app="/x", logs="/data/log/app/c"), "node7", ""),
        ({}, MOUNTED.format(app=APP, logs="/x"), "node7", ""),
        ({}, MOUNTED.format(app="/", logs="/data"), "node7", "company/tf:2.15"),
        ({"LOG_DIRS": "/logs of/c", "LOCAL_DIRS": ""}, MOUNTED.format(app="/x", logs="/logs\\040of/c"), "node7", ""),
        ({contract.ENV_RUNTIME: "default"}, PLAIN, "node7", ""),
        ({contract.ENV_RUNTIME: ""}, PLAIN, "node7", ""),
        ({contract.ENV_IMAGE: ""}, PLAIN, "node7", ""),
        ({"LOG_DIRS": "", "LOCAL_DIRS": ""}, PLAIN, "node7", ""),
        ({}, "garbage\n", "node7", ""),
        ({contract.ENV_HOSTNAME: ""}, PLAIN, "", "company/tf:2.15"),
    ],
)  # fmt: skip
def test_ignored_image_by_host_name_and_mounts(
    tmp_path: Path, env: dict[str, str], mounts: str, hostname: str, image: str
) -> None:
    file = tmp_path / "mountinfo"
    file.write_text(mounts)
    assert environment.ignored_image({**ASKED, **env}, str(file), hostname or "node7") == image


HOMES = ("HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR", "KERAS_HOME", "TMPDIR")
KRB5 = "-Djava.security.krb5.conf="
PROXY = "sandbox.test"

# what YARN and the image give, the role, the job; what the program gets (None: nothing)
Case = tuple[dict[str, str], dict[str, Any], dict[str, Any], dict[str, "str | None"]]
CASES: dict[str, Case] = {
    "role's env overrides all but the contract": ({"A": "0"}, {"env": {"A": 1, "PYTHONUNBUFFERED": "", "TFJOB_ROLE": "boss"}}, {}, {"A": "1", "PYTHONUNBUFFERED": "", "TFJOB_ROLE": "my-worker"}),
    "a writable home": ({}, {}, {}, {"HOME": "{cwd}", "XDG_CACHE_HOME": None, "KERAS_HOME": None}),
    "an unwritable home": ({"HOME": "/no/such/home"}, {}, {}, {"HOME": "{cwd}/home"}),
    "no home": ({"HOME": ""}, {}, {}, {"HOME": "{cwd}/home"}),
    "an unwritable cache": ({"KERAS_HOME": "/no/such/keras"}, {}, {}, {"KERAS_HOME": "{cwd}/home/.keras_home", "MPLCONFIGDIR": None}),
    "no GPU": ({}, {"gpus": 0}, {}, {"CUDA_VISIBLE_DEVICES": ""}),
    "a GPU": ({}, {"gpus": 1}, {}, {"CUDA_VISIBLE_DEVICES": None}),
    "no GPU, and the role's own": ({}, {"gpus": 0, "env": {"CUDA_VISIBLE_DEVICES": "3"}}, {}, {"CUDA_VISIBLE_DEVICES": "3"}),
    "GPUs, and the role's own": ({}, {"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "0"}}, {}, {"CUDA_VISIBLE_DEVICES": "0"}),
    "paths of the host": ({"JAVA_HOME": "/no/jdk", "HADOOP_HOME": "/no/hadoop", "HADOOP_CONF_DIR": "/etc", "HADOOP_USER_NAME": "alice"}, {}, {}, {"JAVA_HOME": None, "HADOOP_HOME": None, "HADOOP_CONF_DIR": "/etc", "HADOOP_USER_NAME": "alice"}),
    "no proxy": ({}, {}, {}, {"no_proxy": PROXY, "NO_PROXY": PROXY}),
    "no_proxy": ({"no_proxy": "localhost"}, {}, {}, {"no_proxy": "localhost,sandbox.test", "NO_PROXY": "localhost,sandbox.test"}),
    "NO_PROXY": ({"NO_PROXY": "localhost,sandbox.test"}, {}, {}, {"no_proxy": "localhost,sandbox.test"}),
    "no domain": ({contract.ENV_HOSTNAME: ""}, {}, {}, {"no_proxy": None}),
    "krb5.conf": ({"HADOOP_OPTS": "-Xmx1g"}, {}, {"kerberos": {"krb5_conf": "/etc/hosts"}}, {"KRB5_CONFIG": "/etc/hosts", "LIBHDFS_OPTS": f"{KRB5}/etc/hosts", "HADOOP_OPTS": f"-Xmx1g {KRB5}/etc/hosts", "JAVA_TOOL_OPTIONS": None}),
    "the role's own krb5.conf": ({}, {"env": {"KRB5_CONFIG": "/own", "HADOOP_OPTS": f"{KRB5}/other"}}, {"kerberos": {"krb5_conf": "/etc/hosts"}}, {"KRB5_CONFIG": "/own", "HADOOP_OPTS": f"{KRB5}/other", "LIBHDFS_OPTS": f"{KRB5}/own"}),
    "no krb5.conf": ({}, {}, {"kerberos": {"krb5_conf": None}}, {"KRB5_CONFIG": None, "HADOOP_OPTS": None, "LIBHDFS_OPTS": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_environment_of_the_program(tmp_path: Path, name: str) -> None:
    given, role, task, expected = CASES[name]
    env, warnings = prepared(tmp_path, given, role, **task)
    assert warnings == []
    assert {name: env.get(name) for name in expected} == {
        name: value and value.format(cwd=tmp_path) for name, value in expected.items()
    }
    if env["HOME"] != str(tmp_path):
        assert all(os.access(env[name], os.W_OK) for name in HOMES)


@pytest.mark.parametrize(
    ("task", "warning"),
    [
        ({"hadoop_conf": "/no/conf"}, "the Hadoop configuration /no/conf does not exist in this container"),
        ({"kerberos": {"krb5_conf": "/no/krb5.conf"}}, "the file /no/krb5.conf (krb5.conf) does not exist in this container"),
    ],
)  # fmt: skip
def test_file_of_the_image_that_is_not_there_is_a_warning(
    tmp_path: Path, task: dict[str, Any], warning: str
) -> None:
    assert prepared(tmp_path, **task)[1] == [warning]


def test_no_directory_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_args: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", nothing)
    words = r"no directory can be written here: .*Permission denied"
    with pytest.raises(BootstrapProblem, match=words):
        prepared(tmp_path / "missing", {"HOME": "/no/such/home"})


# --- Hadoop ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("inner", ["", "conf"])
def test_hadoop_conf_of_an_archive(tmp_path: Path, inner: str) -> None:
    where = tmp_path / "tfjob-hadoop-conf" / inner
    where.mkdir(parents=True)
    (where / "core-site.xml").touch()
    env, warnings = prepared(tmp_path, hadoop_conf="archive:tfjob-hadoop-conf")
    assert (Path(env["HADOOP_CONF_DIR"]), warnings) == (where, [])


def touched(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch(0o755)
    return root


def hadoop_home(root: Path) -> Path:
    jars = ("common/c", "common/lib/l", "hdfs/h", "hdfs/lib/n", "yarn/y")
    return touched(root, "lib/native/libhdfs.so", *(f"share/hadoop/{jar}.jar" for jar in jars))


def test_class_path_without_wildcards_for_libhdfs(tmp_path: Path) -> None:
    home = hadoop_home(tmp_path / "hadoop")
    touched(tmp_path, "mine/m.jar", "jdk/lib/server/libjvm.so")
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
    assert env["LD_LIBRARY_PATH"] == f"/opt/lib:{home}/lib/native:{tmp_path}/jdk/lib/server"
    assert env["HADOOP_HDFS_HOME"] == str(home)
    long = [f"{tmp_path}/{'é' * 40} {number}/l.jar" for number in range(2000)]
    env, _ = prepared(tmp_path, {**given, "CLASSPATH": ":".join(long), "HADOOP_CONF_DIR": "/etc"})
    conf, jar = env["CLASSPATH"].split(":")
    with zipfile.ZipFile(jar) as file:
        lines = file.read("META-INF/MANIFEST.MF").decode().split("\r\n")
    assert max(map(len, lines)) < 72, "a longer line of a manifest is refused by Java"
    text = "".join(line[1:] if line.startswith(" ") else f"\n{line}" for line in lines)
    urls = re.search("Class-Path: (.*)", text)[1].split(" ")  # type: ignore[index]
    assert (conf, [unquote(urlsplit(url).path) for url in urls]) == ("/etc", [*long, *jars])
    (tmp_path / "none").mkdir()
    env, _ = prepared(tmp_path, {"HADOOP_HOME": str(tmp_path / "none")})
    assert not {"CLASSPATH", "LD_LIBRARY_PATH"} & set(env), "there is no libhdfs"


def test_java_home_by_the_java_in_the_path(tmp_path: Path) -> None:
    touched(tmp_path / "jdk8/jre", "bin/java", "lib/amd64/server/libjvm.so")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(tmp_path / "jdk8/jre/bin/java")
    given = {"HADOOP_HDFS_HOME": str(hadoop_home(tmp_path / "h")), "PATH": f"{tmp_path}/bin"}
    env, _ = prepared(tmp_path, {**given, "JAVA_HOME": "/no/jdk"})
    assert env["JAVA_HOME"] == f"{tmp_path}/jdk8/jre"
    assert env["LD_LIBRARY_PATH"].endswith("/jdk8/jre/lib/amd64/server")


def test_long_lists_of_hosts_are_files(tmp_path: Path) -> None:
    roles = {"chief": role_of(1, "trains"), "my-worker": role_of(5000, "trains")}
    given = {contract.ENV_INSTANCE: "chief-0", contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan"}
    env, files = program_variables.all_variables(Info(description(roles), given, str(tmp_path)))
    assert "TFJOB_HOSTS_MY_WORKER" not in env
    lines = files[env["TFJOB_HOSTFILE_MY_WORKER"]].splitlines()
    assert (len(lines), lines[4999]) == (5000, "my-worker-4999.mnist.alice.lan:2222")
    assert env["TFJOB_HOSTS_CHIEF"] == "chief-0.mnist.alice.lan:2222"
