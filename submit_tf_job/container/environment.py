"""The environment variables of the training program: home directory, Hadoop, proxies, GPUs."""

from __future__ import annotations

import glob
import os
import pathlib
import shutil
import socket
import zipfile
from collections.abc import Mapping

from submit_tf_job.container import contract, task_files
from submit_tf_job.container.info import BootstrapProblem, Info, log

# The NodeManager exports its own paths into every container, even if the image lacks them
# (hadoop-facts.md#environment-of-a-container).
LEAKED = (
    "JAVA_HOME",
    "HADOOP_HOME",
    "HADOOP_COMMON_HOME",
    "HADOOP_HDFS_HOME",
    "HADOOP_YARN_HOME",
    "HADOOP_MAPRED_HOME",
    "HADOOP_CONF_DIR",
)
CACHES = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "KERAS_HOME", "TMPDIR")
# the parts of `hadoop classpath --glob` that libhdfs needs
JARS = ("common/lib", "common", "hdfs", "hdfs/lib")
ONE_VARIABLE = 120000
CLASS_PATH_JAR = ".tfjob-class-path.jar"
JAVA_KRB5_CONF = "java.security.krb5.conf"
JAVA_OPTIONS = ("HADOOP_OPTS", "LIBHDFS_OPTS")  # read by Hadoop's scripts, and by libhdfs
SITE_FOLDER = ".tfjob-site"
# the image's own sitecustomize, if any, is the next on the path
SITE = """import os, sys
try:
    import faulthandler
    faulthandler.register(%(signal)d, os.open(%(stacks)r, os.O_WRONLY | os.O_APPEND))
except Exception:
    pass
if %(variable)r in os.environ:
    with open(os.environ[%(variable)r]) as file:
        os.environ["TF_CONFIG"] = file.read()
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = own
"""
PROXIES = ("http_proxy", "https_proxy", "grpc_proxy")


def prepare(info: Info, env: dict[str, str]) -> list[str]:
    """Turn `env`, a copy of the container's variables, into the environment of the program; return
    warnings. What depends on the other tasks is set later (`TaskCommand.set_variables`).

    Raises:
        BootstrapProblem: No directory can be written.
        OSError: The jar with the class path of libhdfs cannot be written.
    """
    warnings: list[str] = []
    role = info.roles[info.role]
    for name in LEAKED:
        if name in env and not os.path.exists(env[name]):
            del env[name]
    _set_homes(info, env)
    env.update({name: str(value) for name, value in role.get("env", {}).items()})
    _hadoop_conf(info, env, warnings)
    _krb5_conf(info, env, warnings)
    _set_libhdfs(info, env)
    no_proxy(env, [info.suffix.split(".", 2)[-1]] if info.suffix else [])
    env.setdefault("PYTHONUNBUFFERED", "1")  # without it a log stays empty for minutes
    _customize_python(info, env)
    env.update(own_variables(info))
    return warnings


def own_variables(info: Info) -> dict[str, str]:
    """Return the variables that describe this task: job, role, index, count, port, run, progress
    file. A role without GPUs also sees no GPU, unless its `env` sets CUDA_VISIBLE_DEVICES.

    They are computed anew at each start, because tasks may be left out, and the port may change.
    """
    role = info.roles[info.role]
    hidden = not role.get("gpus") and "CUDA_VISIBLE_DEVICES" not in role.get("env", {})
    return {
        **({"CUDA_VISIBLE_DEVICES": ""} if hidden else {}),
        contract.ENV_JOB: str(info.task["job"]),
        contract.ENV_ROLE: info.role,
        contract.ENV_INDEX: str(info.position),
        contract.ENV_COUNT: str(info.sizes[info.role]),
        contract.ENV_PORT: str(info.port(info.role, info.index)),
        contract.ENV_RUN: info.run,
        contract.ENV_PROGRESS: os.path.join(info.cwd, "tfjob-progress.json"),
    }


def ignored_image(
    env: Mapping[str, str], mountinfo: str = "/proc/self/mountinfo", hostname: str | None = None
) -> str:
    """Return the image that the NodeManager ignored; "" if the task runs in its image, or if that
    cannot be determined.

    A NodeManager without the Docker runtime starts the command as a plain process and reports no
    error. With the runtime it mounts the container's log directory and the application's directory
    (DockerLinuxContainerRuntime since 3.1.0, on every network), and Docker sets the container's
    registry name as host name. /.dockerenv and control groups prove nothing, because a NodeManager
    may itself run in a container.
    """
    image, name = env.get(contract.ENV_IMAGE, ""), env.get(contract.ENV_HOSTNAME, "")
    if env.get(contract.ENV_RUNTIME, "").lower() != "docker" or not image:
        return ""
    if name and (hostname or socket.gethostname()).lower() == name.lower():
        return ""
    listed = f"{env.get('LOG_DIRS', '')},{env.get('LOCAL_DIRS', '')}"
    own = list(filter(None, listed.split(",")))
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
            # The fifth field is the mount point, blanks in it as \040 (proc(5)).
            points = {line.split(" ")[4].replace("\\040", " ") for line in file}
    except (OSError, IndexError):
        return ""
    if not own or any(path in points or os.path.realpath(path) in points for path in own):
        return ""
    return image


def require_image(info: Info) -> None:
    """Check that this task runs in its image, unless `image_policy` allows it to run without.

    Raises:
        BootstrapProblem: The NodeManager ignored the image.
    """
    policy = info.task.get("image_policy", contract.IMAGE_REQUIRED)
    if info.ignored_image and policy == contract.IMAGE_REQUIRED:
        text = "the NodeManager did not run the image %s, but a plain process of its node"
        raise BootstrapProblem(text % info.ignored_image[:255], "image-ignored")


def _customize_python(info: Info, env: dict[str, str]) -> None:
    """Make the Python processes of the program write their stacks at a signal (`stacks`), and read
    a TF_CONFIG that is too long for a variable. If the files cannot be written, only log that.
    """
    stacks, folder = task_files.stacks_path(info), os.path.join(info.cwd, SITE_FOLDER)
    names = {"signal": contract.STACKS_SIGNAL, "stacks": os.path.realpath(stacks)}
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "sitecustomize.py"), "w") as out:
            out.write(SITE % dict(names, variable=contract.ENV_TF_CONFIG_FILE))
        os.close(task_files.open_regular(stacks, os.O_WRONLY | os.O_CREAT))
    except OSError as err:
        log(f"the stacks of Python processes cannot be taken here: {err}")
        return
    env["PYTHONPATH"] = _join_given(os.pathsep, folder, env.get("PYTHONPATH"))


def set_tf_config(env: dict[str, str], value: str, cwd: str) -> None:
    """Set TF_CONFIG; if it is too long for a variable, write it to a file, which may raise
    `OSError`.

    The kernel accepts 128 KiB for one variable, which is 2,694 workers with usual names. A longer
    value is set by a `sitecustomize` from a file inside the Python process, where the limit does
    not apply; other programs find the file by `contract.ENV_TF_CONFIG_FILE`.
    """
    if len(value) <= ONE_VARIABLE:
        env[contract.ENV_TF_CONFIG] = value
        return
    path = os.path.join(cwd, SITE_FOLDER, "tf_config.json")
    with open(path, "w") as out:
        out.write(value)
    env[contract.ENV_TF_CONFIG_FILE] = path


def _join_given(separator: str, *parts: str | None) -> str:
    return separator.join(filter(None, parts))


def _is_writable(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


def _set_homes(info: Info, env: dict[str, str]) -> None:
    """Set HOME and the cache directories that cannot be written to directories that can.

    YARN sets HOME to a path of the host or to `/home/`
    (hadoop-facts.md#environment-of-a-container).

    Raises:
        BootstrapProblem: No directory can be written.
    """
    try:
        base = info.cwd
        if not _is_writable(base):
            import tempfile  # 8 ms, and the working directory is nearly always writable

            base = tempfile.mkdtemp(prefix="tfjob-")
        moved = not _is_writable(env.get("HOME", ""))
        if moved:
            env["HOME"] = os.path.join(base, "home")
        env.setdefault("TMPDIR", "/tmp")  # noqa: S108  (every program's default, written out because it is checked below)
        for name in CACHES:
            if (name in env and not _is_writable(env[name])) or (name not in env and moved):
                env[name] = os.path.join(base, "home", "." + name.lower())
        for name in ("HOME",) + CACHES:
            if name in env:
                os.makedirs(env[name], exist_ok=True)
    except OSError as err:
        raise BootstrapProblem(f"no directory can be written here: {err}") from err


def _hadoop_conf(info: Info, env: dict[str, str], warnings: list[str]) -> None:
    conf = info.task.get("hadoop_conf")
    if not conf:
        return
    path = conf
    if conf == "inline":
        path = os.path.join(info.cwd, "hadoop-conf")
    elif conf.startswith("archive:"):
        path = os.path.join(info.cwd, conf[len("archive:") :])
        inner = glob.glob(os.path.join(path, "*", "core-site.xml"))
        if inner and not os.path.exists(os.path.join(path, "core-site.xml")):
            path = os.path.dirname(inner[0])  # the archive holds one directory
    if not os.path.isdir(path):
        warnings.append(f"the Hadoop configuration {path} does not exist in this container")
    env["HADOOP_CONF_DIR"] = path


def _krb5_conf(info: Info, env: dict[str, str], warnings: list[str]) -> None:
    """Set the path of krb5.conf for MIT's libraries and for Java, which does not read KRB5_CONFIG.

    Without a default realm Java's HDFS client fails even with a token
    (hadoop-facts.md#default-realm). JAVA_TOOL_OPTIONS would apply to every Java program, but
    each would log a line to stderr.
    """
    path = (info.task.get("kerberos") or {}).get("krb5_conf")
    if not path:
        return
    path = os.path.join(info.cwd, path)
    if not os.path.isfile(path):
        warnings.append(f"the file {path} (krb5.conf) does not exist in this container")
    path = env.setdefault("KRB5_CONFIG", path)
    for name in JAVA_OPTIONS:
        if JAVA_KRB5_CONF not in env.get(name, "") and ":" not in path:
            env[name] = _join_given(" ", env.get(name), f"-D{JAVA_KRB5_CONF}={path}")


def _set_libhdfs(info: Info, env: dict[str, str]) -> None:
    """Set CLASSPATH (without wildcards) and the library paths for libhdfs, if the image contains
    it.

    Linux limits the length of a variable. A longer class path is written to the manifest of one jar
    (a "pathing jar"), as YARN does.
    """
    homes = [env[name] for name in ("HADOOP_HDFS_HOME", "HADOOP_HOME") if name in env]
    homes = [h for h in homes if os.path.exists(os.path.join(h, "lib/native/libhdfs.so"))]
    if not homes:
        return
    home = homes[0]
    java = shutil.which("java", path=env.get("PATH"))
    if "JAVA_HOME" not in env and java:
        env["JAVA_HOME"] = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    env["HADOOP_HDFS_HOME"] = home
    paths = [env.get("HADOOP_CONF_DIR", "")]
    jars = [os.path.join(home, "share/hadoop", part, "*") for part in JARS]
    for entry in env.get("CLASSPATH", "").split(":") + jars:
        paths += sorted(glob.glob(entry[:-1] + "*.jar")) if entry.endswith("/*") else [entry]
    env["CLASSPATH"] = _join_given(":", *paths)
    if len(env["CLASSPATH"]) > ONE_VARIABLE:
        jar = os.path.join(info.cwd, CLASS_PATH_JAR)
        _write_pathing_jar(jar, [path for path in paths[1:] if path])
        env["CLASSPATH"] = _join_given(":", paths[0], jar)
    libraries = [os.path.join(home, "lib/native")]
    if "JAVA_HOME" in env:
        for pattern in ("lib/server", "jre/lib/*/server", "lib/*/server"):
            found = glob.glob(os.path.join(env["JAVA_HOME"], pattern, "libjvm.so"))
            libraries += [os.path.dirname(library) for library in found[:1]]
    env["LD_LIBRARY_PATH"] = _join_given(":", env.get("LD_LIBRARY_PATH"), *libraries)


def _write_pathing_jar(jar: str, paths: list[str]) -> None:
    """Write a jar without classes whose manifest names the entries of a class path.

    A line of a manifest has at most 72 bytes; a next line that begins with a blank continues it
    (JAR File Specification).
    """
    urls = (
        pathlib.Path(path).as_uri() + ("/" if os.path.isdir(path) else "")
        for path in map(os.path.abspath, paths)
    )
    text = f"Class-Path: {' '.join(urls)}"
    lines = [text[:70]] + [" " + text[start : start + 69] for start in range(70, len(text), 69)]
    manifest = "\r\n".join(["Manifest-Version: 1.0", *lines, "", ""])
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", manifest)


def no_proxy(env: dict[str, str], hosts: list[str]) -> None:
    """Exclude `hosts`, the addresses of the other tasks or their DNS domain, from the proxy.

    If http_proxy is set, gRPC sends the traffic between tasks to the proxy, and the training hangs
    without an error.
    """
    known = (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")
    value = _join_given(",", *dict.fromkeys(known + hosts))
    if value:
        env["no_proxy"] = env["NO_PROXY"] = value


def has_proxy(env: dict[str, str]) -> bool:
    """Return whether a proxy for HTTP, HTTPS or gRPC is set."""
    return any(env.get(name) or env.get(name.upper()) for name in PROXIES)
