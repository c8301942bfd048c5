"""Settings: which layer wins, what each key takes, files, profiles, the Hadoop configuration.

What is wrong in a file, and where, is in tests/unit/messages/settings.txt.
"""

from __future__ import annotations

import ast
import os
import pwd
import re
from pathlib import Path

import pytest
import yaml

import submit_tf_job
from submit_tf_job.jobspec.keys import SITE
from tests.builders.host import Host
from tests.builders.keytabs import keytab

PACKAGE = Path(submit_tf_job.__file__).parent


# --- which layer wins -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["staging", "user"])
def test_settings_precedence(host: Host, key: str) -> None:
    raw = {"staging": "hdfs://nn{}/staging", "user": "user{}"}[key].format
    variable, profile = f"SUBMIT_TF_JOB_{key.upper()}", host.profiles / "p.yaml"
    origins = ["argument", f"environment variable {variable}", f"{host.project}:1:1"]
    origins += [f"{host.user}:1:16, profile p", f"{host.user}:2:1", f"{profile}:1:1"]
    origins += [f"{host.system}:1:16, profile p", f"{host.system}:2:1"]
    layers = [1, *range(3, 8)] if key == "staging" else [0, 1, *range(3, 8)]
    layers += [2] if key == "staging" else []  # a project's file says nothing of a user
    for layer in sorted(layers):

        def line(number: int) -> str:
            return f"{key}: {raw(number)}" if number >= layer else ""  # noqa: B023

        host.write(host.project, line(2) if key == "staging" else "")
        host.write(host.user, f"profiles: {{p: {{{line(3)}}}}}\n{line(4)}\n")
        host.write(profile, line(5))
        host.write(host.system, f"profiles: {{p: {{{line(6)}}}}}\n{line(7)}\n")
        words = ["--user", raw(0)] if layer == 0 else []
        env = {variable: raw(1)} if layer <= 1 else {}
        found = host.value(key, "-p", "p", *words, **env)
        assert found == (raw(layer), origins[layer])
    for path in (host.project, host.user, host.system):
        path.unlink()
    profile.write_text("")
    last = "default" if key == "staging" else "who you are on this machine"
    assert host.value(key, "-p", "p")[1] == last


def test_settings_user_without_a_passwd_entry(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    words = "the user running this has no name on this machine", "give --user NAME, or set `user`"
    assert host.refused() == words
    assert host.value("user", "--user", "alice") == ("alice", "argument")


def test_settings_without_a_home_directory(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    words = "HOME is not set, and the user running this has no home directory on this machine"
    assert host.refused() == (words, "set HOME to a directory")


# --- what a key takes -----------------------------------------------------------------------------

GOOD = """\
resource_managers: "http://a:8088, https://b http://c" -> [http://a:8088, https://b, http://c]
resource_managers: ["http://a:8088/"] -> [http://a:8088]
resource_managers: ["http://[::1]:8088"] -> ["http://[::1]:8088"]
user: " alice " -> alice
user: svc_Etl-1.x$ -> svc_Etl-1.x$
ca_file: /etc/ca.pem -> /etc/ca.pem
hadoop_version: 3.1.1.7.1.9.0-387 -> 3.1.1.7.1.9.0-387
dns.server: 10.0.0.1:5353 -> 10.0.0.1:5353
gpu_resource: nvidia.com/gpu -> nvidia.com/gpu
ports.range: 1024-65535 -> [1024, 65535]
timeouts.read: 500ms -> 0.5
timeouts.read: 1h30m -> 5400
poll.max: " 2m " -> 120
sandbox: true -> true
sandbox: "false" -> false
"""


def test_settings_accept_valid_values(host: Host) -> None:
    for row in GOOD.splitlines():
        text, _, value = row.partition(" -> ")
        host.write(host.user, text)
        assert host.value(text.partition(":")[0])[0] == yaml.safe_load(value), row


# --- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["POLLMIN", "JOB", "SHAPES", "SANDBOX"])
def test_settings_refuse_unknown_variables(host: Host, name: str) -> None:
    said, _ = host.refused(**{f"SUBMIT_TF_JOB_{name}": "1s"})
    assert said.startswith(f"the environment variable SUBMIT_TF_JOB_{name} is not a setting")
    assert ("did you mean SUBMIT_TF_JOB_POLL_MIN?" in said) is (name == "POLLMIN")


def test_directories_follow_xdg_where_it_is_absolute(host: Host, tmp_path: Path) -> None:
    host.write(tmp_path / "c/submit_tf_job/settings.yaml", "user: there\n")
    host.write(host.user, "user: here\n")
    for where, user in ((str(tmp_path / "c"), "there"), ("relative", "here"), ("", "here")):
        assert host.value("user", XDG_CONFIG_HOME=where)[0] == user
    said, _ = host.refused(XDG_CONFIG_HOME="/" + "a" * 300)
    assert "cannot be read: file name too long" in said


@pytest.mark.slow
def test_only_settings_read_the_environment() -> None:
    """And what runs in containers, or on a NodeManager."""
    free = ("settings.py", "container/", "compat/in_task.py", "sandbox/executor.py")
    programs = ("doctor/imageprobe.py", "doctor/probe.py", "sdk/callee.py")
    # hdfs-native takes the user, and MIT Kerberos its files, from nowhere but these variables
    lines = {"host/hadoop_user.py": "os.environ", "host/kerberos.py": "KRB5"}
    lines["host/hadoopconf.py"] = "os.environ"  # configuration files refer to variables
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


# --- files ----------------------------------------------------------------------------------------


def test_settings_files_that_cannot_be_read(host: Host) -> None:
    host.user.mkdir(parents=True)
    assert host.refused()[0] == f"{host.user}: cannot be read: is a directory; name a file in it"
    host.user.rmdir()
    host.user.write_bytes(b"user: \xff\n")
    assert host.refused()[0].startswith(f"{host.user}: cannot be read: 'utf-8' codec can't decode")


def test_settings_files_without_content(host: Host) -> None:
    for text in ("", "# nothing\n", "---\n", "user:\n", "{}\n"):
        host.write(host.user, text)
        assert host.value("user", "--user", "alice")[1] == "argument"


def test_settings_file_with_a_command_must_be_private(host: Host) -> None:
    text = "credentials.command: print-token --key s3cret\n"
    in_a_profile = "profiles:\n  prod: {credentials.command: print-token}\n"
    what = "a settings file with a credentials.command: "
    profile = host.profiles / "prod.yaml"
    for path, content in ((host.user, text), (host.user, in_a_profile), (profile, text)):
        host.write(path, content).chmod(0o644)
        said = f"{what}{path}: others can read it (mode 0644)", f"chmod 600 {path}"
        assert host.refused() == said
        path.chmod(0o600)
        assert host.show().status == 0
        path.unlink()
    host.write(host.system, text).chmod(0o644)
    assert host.value("credentials.command")[1] == f"{host.system}:1:1"
    host.system.chmod(0o664)
    assert host.refused()[0] == f"{what}{host.system}: others can change it (mode 0664)"
    host.system.unlink()
    host.write(host.user, "user: alice\ncredentials.file: /secrets/alice\n").chmod(0o644)
    assert host.show().status == 0, "the place of a secret is none"


@pytest.mark.parametrize(
    ("content", "user", "origin"),
    [
        (keytab("etl/host.example.com@EXAMPLE.COM", "alice@EXAMPLE.COM"), "etl", "the first principal of the keytab, etl/host.example.com@EXAMPLE.COM"),
        (b"\5\2", None, "who you are on this machine"),
        (b"none", None, "who you are on this machine"),
    ],
)  # fmt: skip
def test_user_of_a_keytab_without_a_principal(
    host: Host, monkeypatch: pytest.MonkeyPatch, content: bytes, user: str | None, origin: str
) -> None:
    path = host.home / "etl.keytab"
    path.write_bytes(content)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{host.home}/no-ticket")
    host.write(host.user, f"auth: kerberos\nkerberos: {{keytab: {path}}}\n")
    assert host.value("user") == (user or host.value("user")[0], origin)


def test_project_settings_that_another_user_planted_are_refused(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "scratch"
    planted = host.write(shared / "submit_tf_job.yaml", "task_memory: 3Gi\n")
    (shared / "mine").mkdir()
    where = os.path.relpath(shared / "mine", host.home)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    if os.getuid() == 0:
        os.chown(planted, 12345, 12345)
    assert host.value("task_memory", cwd=where)[0] == "3Gi"  # of a team's directory
    shared.chmod(0o1777)
    said, hint = host.refused(cwd=where)
    assert said == f"{planted}: another user has put it into a directory where everybody may write"
    assert "in a directory of your own" in hint
    monkeypatch.setattr("os.geteuid", lambda: planted.stat().st_uid)
    assert host.value("task_memory", cwd=where)[0] == "3Gi"


@pytest.mark.parametrize(
    "key",
    ["resource_managers", "user", "ca_file", "hadoop_conf", "sandbox", "default_profile"],
)
def test_project_settings_refuse_cluster_keys(host: Host, key: str) -> None:
    path = host.write(host.project, f"{key}: x\n")
    said = f"{path}:1:1: {key}: a project's file cannot say where jobs go or as whom"
    assert host.refused() == (said, "put it into your own settings.yaml")
    host.write(path, "poll.min: 1s\nprofiles: {x: {}}\n")
    said = f"{path}:2:1: profiles: a project's file cannot define profiles"
    assert host.refused() == (said, "put them into your own settings.yaml")


def test_project_settings_are_found_in_parent_directories(host: Host) -> None:
    host.write(host.project, "poll.min: 3s\n")

    def seen() -> float:
        value: float = host.value("poll.min", cwd="work/a/b")[0]
        return value

    assert seen() == 3
    (host.home / "work/a/.git").mkdir()
    assert seen() == 1, "a repository's root ends the search"
    (host.home / "work/a/.git").rmdir()
    host.project.rename(host.home.parent / "submit_tf_job.yaml")
    assert seen() == 1, "so does the user's home"


# --- profiles -------------------------------------------------------------------------------------


def test_profile_precedence(host: Host) -> None:
    profiles = "profiles: {a: {user: a}, b: {user: b}, c: {user: c}}"
    host.write(host.user, f"{profiles}\ndefault_profile: b")
    env = {"SUBMIT_TF_JOB_PROFILE": "c"}
    assert host.value("user", "-p", "a", **env)[0] == "a"
    assert host.value("user", **env)[0] == "c"
    assert host.value("user", SUBMIT_TF_JOB_PROFILE="")[0] == "b"
    assert host.value("user") == ("b", f"{host.user}:1:30, profile b")


def test_profile_that_does_not_exist(host: Host) -> None:
    assert host.refused("-p", "prd") == ("there is no profile 'prd'", "known profiles: none")
    host.write(host.user, "profiles: {prod: {}, env: {}}\ndefault_profile: gone\n")
    known = "known profiles: env, prod"
    assert host.refused("-p", "prd") == ("there is no profile 'prd'", known)
    assert host.refused() == ("there is no profile 'gone'", known)
    assert host.refused("-p", "sandbox-old")[1] == "is it up? `submit_tf_job sandbox up`"


def test_sandbox_is_used_unless_another_cluster_is_known(host: Host) -> None:
    path = host.profiles / "sandbox.yaml"
    host.write(path, "resource_managers: http://127.0.0.1:1\nsandbox: true\n")
    found = host.show().json
    rms = found["settings"]["resource_managers"]
    assert (found["profile"], rms["value"]) == ("sandbox", ["http://127.0.0.1:1"])
    assert (rms["origin"], found["settings"]["sandbox"]["value"]) == (f"{path}:1:1", True)
    conf, real = host.hadoop("rm"), ["http://rm:8088"]
    assert host.rms("--rm", real[0]) == real
    for name in ("SUBMIT_TF_JOB_HADOOP_CONF", "HADOOP_CONF_DIR"):
        assert host.rms(**{name: conf}) == real
    assert host.rms("-p", "sandbox", HADOOP_CONF_DIR=conf) == ["http://127.0.0.1:1"]
    assert host.rms(SUBMIT_TF_JOB_RESOURCE_MANAGERS=real[0]) == real
    for text in (f"resource_managers: {real[0]}\n", f"hadoop_conf: {conf}\n"):
        for path in (host.user, host.system):
            host.write(path, text)
            assert (host.rms(), host.value("sandbox")[0]) == (real, False)
            path.unlink()


# --- settings that are mappings: each key has a source of its own ----------------------------------

EXAMPLES = {row.name: row.examples[0] for row in SITE.rows.values()}


@pytest.mark.parametrize("key", EXAMPLES)
def test_project_that_states_another_key_of_job_leaves_this_one(host: Host, key: str) -> None:
    other = "env" if key != "env" else "queue"
    host.write(host.user, yaml.safe_dump({"profiles": {"p": {"job": {key: EXAMPLES[key]}}}}))
    host.write(host.project, yaml.safe_dump({"job": {other: EXAMPLES[other]}}))
    value, origin = host.value("job", "-p", "p")
    assert value == {key: EXAMPLES[key], other: EXAMPLES[other]}
    assert origin == f"{host.project}:1:1, {host.user}:3:5, profile p"


def test_keys_of_mappings_have_the_nearest_source(host: Host) -> None:
    near = """\
job:
  env: {LR: "2", C: near}
  mounts: ["/near:/data:ro"]
  docker: {init: true}
  retries: 3
  queue: null
shapes: {big: {memory: 8Gi}}
"""
    far = """\
job:
  env: {LR: "1", A: far}
  mounts: ["/far:/data", "/krb5.conf:/krb5.conf:ro"]
  docker: {tmpfs: [/scratch]}
  retries: {max: 1, memory: 2}
  queue: ml
shapes: {big: {memory: 4Gi, gpus: 1}, small: {memory: 1Gi}}
"""
    host.write(host.project, near)
    host.write(host.user, far)
    found = host.show().json["settings"]
    assert found["job"]["value"] == {
        "env": {"LR": "2", "A": "far", "C": "near"},
        "mounts": ["/near:/data:ro", "/krb5.conf:/krb5.conf:ro"],
        "docker": {"tmpfs": ["/scratch"], "init": True},
        "retries": 3,
    }
    assert found["shapes"]["value"] == {"big": {"memory": "8Gi"}, "small": {"memory": "1Gi"}}
    assert {**found["job"]["origins"], **found["shapes"]["origins"]} == {
        "job.env.LR": f"{host.project}:2:9",
        "job.env.A": f"{host.user}:2:18",
        "job.env.C": f"{host.project}:2:18",
        "job.mounts[0]": f"{host.project}:3:3",
        "job.mounts[1]": f"{host.user}:3:3",
        "job.docker.init": f"{host.project}:4:12",
        "job.docker.tmpfs": f"{host.user}:4:12",
        "job.retries": f"{host.project}:5:3",
        "shapes.big": f"{host.project}:7:10",
        "shapes.small": f"{host.user}:7:39",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(host.project.parent)
        shown = [line.split() for line in host.cli("config", "show").out.splitlines()]
    rows = {words[0]: words[1:] for words in shown if words[0].startswith(("job", "shapes"))}
    assert (rows["job.env.A"], rows["job.mounts[0]"]) == (
        ["far", f"{host.user}:2:18"],
        ["/near:/data:ro", f"{host.project}:3:3"],
    )
    assert "job" not in rows


@pytest.mark.parametrize(
    ("near", "far", "value"),
    [
        ("{env: null}", "{env: {A: x}, queue: a}", {"queue": "a"}),
        ("{mounts: null}", "{mounts: [/a:/a], queue: a}", {"queue": "a"}),
        ("{}", "{env: {A: x}}", {"env": {"A": "x"}}),
        ("{env: {}}", "{env: {A: x}}", {"env": {"A": "x"}}),
        ("{env: {A: null}}", "{env: {A: x, B: y}}", {"env": {"B": "y"}}),
        ("{env: {a.b: x}}", "{env: {a.b: y, a: z}}", {"env": {"a.b": "x", "a": "z"}}),
        ("{env: {B: x}}", "{env: 5}", {"env": {"B": "x"}}),
        ("{env: 5}", "{env: {B: x}}", {"env": 5}),
        ("{mounts: [/a]}", "{mounts: 5}", {"mounts": ["/a"]}),
        ("{mounts: {a: b}}", "{mounts: [/a:/b]}", {"mounts": {"a": "b"}}),
    ],
)
def test_mappings_that_are_odd(host: Host, near: str, far: str, value: object) -> None:
    host.write(host.project, f"job: {near}\n")
    host.write(host.user, f"job: {far}\n")
    assert host.value("job")[0] == value


def test_jobs_get_the_keys_of_all_sources(host: Host) -> None:
    """A sandbox's `image: none` stays beside a project's `env`, and a mistake has its own place."""
    host.write(
        host.profiles / "sandbox.yaml",
        "resource_managers: http://127.0.0.1:1\nsandbox: true\ntask_memory: 1Gi\n"
        "job: {image: none, image_policy: allow}\n",
    )
    host.write(host.project, "job: {env: {LR: '0.1'}}\n")
    assert host.show().status == 0  # makes ~/work
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(host.project.parent)
        Path("train.py").write_text("print(1)\n")
        made = host.cli("run", "--print", "--", "python3", "train.py")
        assert (made.status, "image: none" in made.out) == (0, True), made.err
        kept = [line for line in made.out.splitlines() if not line.startswith("image:")]
        Path("job.yaml").write_text("\n".join(kept))
        explained = host.cli("render", "job.yaml", "--explain").out.splitlines()
        places = {line.split()[0]: line.split()[1] for line in explained if line.count(" ") > 1}
        assert places["image"] == f"{host.profiles}/sandbox.yaml:4:7"
        assert places["env.LR"] == f"{host.project}:1:13"
        host.write(host.project, "job:\n  env: {LR: '0.1'}\n  queue: 'a b'\n")
        assert f"{host.project}:3:3: queue: " in host.cli("validate", "job.yaml").out
        host.write(host.project, "job: {mounts: ['/a:/b', '/c:/b:ro']}\n")
    said = f"{host.project}:1:7: job.mounts./b: is stated twice"
    assert host.refused()[0] == said


# --- the Hadoop configuration ---------------------------------------------------------------------


def test_hadoop_conf_dir_has_the_lowest_precedence(host: Host) -> None:
    conf = host.hadoop("rm")
    host.hadoop("rm", "core-site.xml", **{"hadoop.registry.dns.domain-name": "h.example.com"})
    said = f"HADOOP_CONF_DIR: {conf}"
    for key, found in {
        "resource_managers": (["http://rm:8088"], f"{said}/yarn-site.xml"),
        "dns.domain": ("h.example.com", f"{said}/core-site.xml"),
        "hadoop_conf": (conf, "HADOOP_CONF_DIR"),
    }.items():
        assert host.value(key, HADOOP_CONF_DIR=conf) == found
    host.write(host.system, "dns.domain: other.example.com\n")
    assert host.value("dns.domain", HADOOP_CONF_DIR=conf)[0] == "other.example.com"


def test_hadoop_conf_setting_replaces_the_variable(host: Host) -> None:
    one, other = host.hadoop("a"), host.hadoop("b")
    for written in (other, "~/b"):
        host.write(host.user, f"hadoop_conf: {written}\n")
        found = host.value("resource_managers", HADOOP_CONF_DIR=one)
        assert found == (["http://b:8088"], f"hadoop_conf: {other}/yarn-site.xml")
    assert host.value("hadoop_conf", HADOOP_CONF_DIR=one) == (other, f"{host.user}:1:1")


def test_hadoop_conf_dir_without_resource_managers(host: Host) -> None:
    for directory in ("", str(host.home / "missing"), str(host.home)):
        assert host.rms(HADOOP_CONF_DIR=directory) == []
        assert host.value("hadoop_conf", HADOOP_CONF_DIR=directory)[0] is None


RM = "yarn.resourcemanager."
XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'
INNER = f'<property name="{RM}hostname" value="rm1"/>'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<xi:include href="inner.xml"/>', "http://rm1:8088"),
        (
            '<xi:include href="gone.xml"><xi:fallback>INNER</xi:fallback></xi:include>',
            "http://rm1:8088",
        ),
        (f'{INNER}<property name="{RM}ha.rm-ids" value="a,b"/>', "http://rm1:8088"),
        (
            f'{INNER}<property name="{RM}ha.rm-ids" value="a,b"/><property name="{RM}hostname.a" value="x"/>',
            "http://rm1:8088",
        ),
        (f'<property name="{RM}hostname" value="${{env.RM_HOST:-rm9}}"/>', "http://rm9:8088"),
        (f'<property name="{RM}hostname" value="${{env.RM_SET}}"/>', "http://rm-set:8088"),
        (f'<property name="{RM}webapp.address" value="0.0.0.0:80"/>{INNER}', "http://rm1:80"),
        (
            f"<property><name> {RM}hostname </name><value>\nrm1\n</value></property>",
            "http://rm1:8088",
        ),
        (f'{INNER}<property name="yarn.http.policy" value="https_only"/>', "https://rm1:8090"),
    ],
)
def test_hadoop_configuration_is_read_by_hadoops_rules(host: Host, text: str, found: str) -> None:
    host.write(host.home / "conf/inner.xml", f"<configuration>{INNER}</configuration>")
    text = f"<configuration {XI}>{text.replace('INNER', INNER)}</configuration>"
    path = host.write(host.home / "conf/yarn-site.xml", text)
    assert host.rms(HADOOP_CONF_DIR=str(path.parent), RM_SET="rm-set") == [found]


def test_hadoop_configuration_may_have_an_encoding_that_expat_does_not_know(host: Host) -> None:
    text = f'<?xml version="1.0" encoding="GBK"?><configuration><!-- \u8282\u70b9 -->{INNER}'
    path = host.home / "conf/yarn-site.xml"
    path.parent.mkdir()
    path.write_bytes(f"{text}</configuration>".encode("gbk"))
    assert host.rms(HADOOP_CONF_DIR=str(path.parent)) == ["http://rm1:8088"]
    path.write_bytes(f"{text.replace('GBK', 'nosuch')}</configuration>".encode("gbk"))
    assert "unknown encoding" in host.refused(HADOOP_CONF_DIR=str(path.parent))[0]


def test_hadoop_configuration_says_what_it_lacks(host: Host) -> None:
    text = f'<property name="{RM}hostname" value="${{env.NOSUCH}}"/>'
    path = host.write(host.home / "conf/yarn-site.xml", f"<configuration>{text}</configuration>")
    _, origin = host.value("resource_managers", HADOOP_CONF_DIR=str(path.parent))
    assert origin.endswith(f"{path} {RM}hostname has ${{env.NOSUCH}}, which is not set here")
    host.write(path, f'<configuration {XI}><xi:include href="gone.xml"/></configuration>')
    said = f"{path}: includes gone.xml, which is not there"
    assert host.refused(HADOOP_CONF_DIR=str(path.parent))[0] == said
    host.write(path, f'<configuration {XI}><xi:include href="file://[x/y"/></configuration>')
    said = f"{path}: includes file://[x/y, which is not a valid URL"
    assert host.refused(HADOOP_CONF_DIR=str(path.parent))[0] == said


def test_hadoops_own_variables_name_the_user(host: Host) -> None:
    assert host.value("user", HADOOP_USER_NAME="alice") == ("alice", "HADOOP_USER_NAME")
    assert host.value("user", "--user", "bob", HADOOP_USER_NAME="alice")[0] == "bob"
    host.write(host.system, "user: carol\n")
    assert host.value("user", HADOOP_USER_NAME="alice")[0] == "carol"
    assert host.value("as_user", HADOOP_PROXY_USER="dave") == ("dave", "HADOOP_PROXY_USER")
    said, hint = host.refused(HADOOP_PROXY_USER="no user")
    assert (said.partition(":")[0], hint) == ("HADOOP_PROXY_USER", "unset HADOOP_PROXY_USER")


def test_hadoop_conf_dir_that_cannot_be_read(host: Host) -> None:
    path = host.write(host.home / "conf/yarn-site.xml", "<configuration>")
    said = f"{path}: cannot be read: no element found: line 1, column 15"
    assert host.refused(HADOOP_CONF_DIR=str(path.parent))[0] == said
    host.write(host.user, f"hadoop_conf: {host.home}\n")
    assert host.rms(HADOOP_CONF_DIR=str(path.parent)) == []


def test_loading_settings_writes_no_file(host: Host) -> None:
    host.write(host.user, "user: alice\n")
    host.show()

    def files() -> dict[Path, tuple[int, int]]:
        root = host.home.parent
        return {p: (p.stat().st_mtime_ns, p.stat().st_mode) for p in root.rglob("*")}

    before = files()
    host.show(HADOOP_CONF_DIR="/nowhere")
    assert files() == before
