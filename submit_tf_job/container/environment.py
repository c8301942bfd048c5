"""The environment of the training program: writable homes, Hadoop, proxies, GPUs."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from submit_tf_job.bootstrap.info import Info

# The NodeManager exports its own paths into every container, also where the image has none of them (seen).
LEAKED = ("JAVA_HOME", "HADOOP_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_YARN_HOME", "HADOOP_MAPRED_HOME", "HADOOP_CONF_DIR")
CACHES = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "KERAS_HOME", "TMPDIR")
JARS = ("common/lib", "common", "hdfs", "hdfs/lib")  # what libhdfs needs of `hadoop classpath --glob`; one variable holds 128 KiB
ONE_VARIABLE = 120000
JAVA_KRB5_CONF = "java.security.krb5.conf"
JAVA_OPTIONS = ("HADOOP_OPTS", "LIBHDFS_OPTS")  # Hadoop's own scripts, and libhdfs
SITE = (
    """import os, sys
with open(os.environ["%s"]) as file:
    os.environ["TF_CONFIG"] = file.read()
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    pass
"""
    % contract.ENV_TF_CONFIG_FILE
)  # the image may have a sitecustomize of its own, which is then the next on the path
PROXIES = ("http_proxy", "https_proxy", "grpc_proxy")


def prepare(info: Info, env: dict[str, str]) -> list[str]:
    """Change `env`, a copy of the container's, into the program's; return warnings."""
    warnings: list[str] = []
    role = info.roles[info.role]
    for name in LEAKED:
        if name in env and not os.path.exists(env[name]):
            del env[name]
    _homes(info, env)
    env.update({name: str(value) for name, value in role.get("env", {}).items()})
    _hadoop_conf(info, env, warnings)
    _krb5_conf(info, env, warnings)
    _libhdfs(env)
    no_proxy(env, [info.suffix.split(".", 2)[-1]] if info.suffix else [])
    if not role.get("gpus") and "CUDA_VISIBLE_DEVICES" not in role.get("env", {}):
        env["CUDA_VISIBLE_DEVICES"] = ""
    env.setdefault("PYTHONUNBUFFERED", "1")  # else a log shows nothing for minutes
    env.update(
        {
            contract.ENV_JOB: str(info.task["job"]),
            contract.ENV_ROLE: info.role,
            contract.ENV_INDEX: str(info.index),
            contract.ENV_COUNT: str(info.counts[info.role]),
            contract.ENV_PORT: str(info.port(info.role, info.index)),
            contract.ENV_SUBMISSION: info.submission,
            contract.ENV_PROGRESS: os.path.join(info.cwd, "tfjob-progress.json"),
        }
    )
    return warnings


def give_tf_config(env: dict[str, str], value: str, cwd: str) -> None:
    """Put TF_CONFIG where the program finds it.

    The kernel takes 128 KiB for one variable (measured: 2,694 workers of usual names). Beyond that a `sitecustomize` sets it from a file,
    inside the Python process, where no such limit applies; other programs find the file by `contract.ENV_TF_CONFIG_FILE`.
    """
    if len(value) <= ONE_VARIABLE:
        env[contract.ENV_TF_CONFIG] = value
        return
    directory = os.path.join(cwd, ".tfjob-site")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "tf_config.json")
    with open(path, "w") as out:
        out.write(value)
    with open(os.path.join(directory, "sitecustomize.py"), "w") as out:
        out.write(SITE)
    env[contract.ENV_TF_CONFIG_FILE] = path
    env["PYTHONPATH"] = os.pathsep.join([directory] + [part for part in [env.get("PYTHONPATH")] if part])


def _writable(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _homes(info: Info, env: dict[str, str]) -> None:
    """Give HOME, and caches that are named but cannot be written, a place: YARN's HOME is a host path or `/home/` (seen)."""
    try:
        room = info.cwd if _writable(info.cwd) else tempfile.mkdtemp(prefix="tfjob-")
        moved = not _writable(env.get("HOME", ""))
        if moved:
            env["HOME"] = os.path.join(room, "home")
        env.setdefault("TMPDIR", "/tmp")  # noqa: S108  (the default of every program, spelt out to be checked below)
        for name in CACHES:
            if (name in env and not _writable(env[name])) or (name not in env and moved):
                env[name] = os.path.join(room, "home", "." + name.lower())
        for name in ("HOME",) + CACHES:
            if name in env:
                os.makedirs(env[name], exist_ok=True)
    except OSError as err:
        raise Problem(contract.EXIT_BOOTSTRAP_ERROR, "bootstrap-error", "no directory can be written here: %s" % err) from err


def _hadoop_conf(info: Info, env: dict[str, str], warnings: list[str]) -> None:
    conf = info.task.get("hadoop_conf")
    if not conf:
        return
    path = os.path.join(info.cwd, "hadoop-conf") if conf == "inline" else conf
    if conf.startswith("archive:"):
        path = os.path.join(info.cwd, conf[len("archive:") :])
        inner = glob.glob(os.path.join(path, "*", "core-site.xml"))
        if inner and not os.path.exists(os.path.join(path, "core-site.xml")):
            path = os.path.dirname(inner[0])  # the archive holds one directory
    if not os.path.isdir(path):
        warnings.append("the Hadoop configuration %s does not exist in this container" % path)
    env["HADOOP_CONF_DIR"] = path


def _krb5_conf(info: Info, env: dict[str, str], warnings: list[str]) -> None:
    """Say where krb5.conf is, to MIT's libraries and to Java, which does not read KRB5_CONFIG.

    Without a default realm Java's HDFS client fails also with a token (seen). JAVA_TOOL_OPTIONS would reach every Java, but each of them
    then writes a line about it to stderr.
    """
    path = (info.task.get("kerberos") or {}).get("krb5_conf")
    if not path:
        return
    path = os.path.join(info.cwd, path)
    if not os.path.isfile(path):
        warnings.append("the file %s (krb5.conf) does not exist in this container" % path)
    path = env.setdefault("KRB5_CONFIG", path)
    for name in JAVA_OPTIONS:
        if JAVA_KRB5_CONF not in env.get(name, "") and ":" not in path:
            env[name] = " ".join([part for part in [env.get(name)] if part] + ["-D%s=%s" % (JAVA_KRB5_CONF, path)])


def _libhdfs(env: dict[str, str]) -> None:
    """Set what libhdfs needs, where the image has it: CLASSPATH without wildcards, and the ways to libhdfs and libjvm."""
    homes = [env[name] for name in ("HADOOP_HDFS_HOME", "HADOOP_HOME") if name in env]
    home = next((h for h in homes if os.path.exists(os.path.join(h, "lib/native/libhdfs.so"))), None)
    if not home:
        return
    java = shutil.which("java", path=env.get("PATH"))
    if "JAVA_HOME" not in env and java:
        env["JAVA_HOME"] = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    env["HADOOP_HDFS_HOME"] = home
    paths = [env["HADOOP_CONF_DIR"]] if "HADOOP_CONF_DIR" in env else []
    for entry in env.get("CLASSPATH", "").split(":") + [os.path.join(home, "share/hadoop", part, "*") for part in JARS]:
        paths += sorted(glob.glob(entry[:-1] + "*.jar")) if entry.endswith("/*") else [entry] if entry else []
    env["CLASSPATH"] = ":".join(paths)
    libraries = [os.path.join(home, "lib/native")]
    for pattern in ("lib/server", "jre/lib/*/server", "lib/*/server") if "JAVA_HOME" in env else ():
        libraries += [os.path.dirname(lib) for lib in glob.glob(os.path.join(env["JAVA_HOME"], pattern, "libjvm.so"))][:1]
    env["LD_LIBRARY_PATH"] = ":".join([p for p in [env.get("LD_LIBRARY_PATH", "")] if p] + libraries)


def no_proxy(env: dict[str, str], hosts: list[str]) -> None:
    """Keep peers off the proxy: with http_proxy set, gRPC sends peer traffic there and training hangs in silence (measured)."""
    known = [part for part in (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",") if part]
    value = ",".join(dict.fromkeys(known + hosts))
    if value:
        env["no_proxy"] = env["NO_PROXY"] = value


def has_proxy(env: dict[str, str]) -> bool:
    """Say whether any proxy is set."""
    return any(env.get(name) or env.get(name.upper()) for name in PROXIES)
