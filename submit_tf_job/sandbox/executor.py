"""Replacement for Hadoop's container-executor on machines that have none: the same command line,
for one user.

`sandbox up --profile docker` copies this file beside its settings. The program implements the
protocol of container-executor (hadoop-facts.md#container-executor), so a NodeManager uses the same
code as in production to launch, signal, inspect and remove real Docker containers. The program is
not a security boundary: plain processes can read everything that root can read, and no user is
banned.

The program uses only the standard library. The NodeManager starts it for each call, with an
environment that a user may control.
"""

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

OK, FAILED, NO_SIGNAL, NO_PROCESS, NOT_BUILT, DISABLED, CRASHED = 0, 7, 8, 9, 29, 32, 255
# Sources of mounts that container-executor accepts besides paths (docker-util.c:
# validate_volume_name, is_regex).
VOLUME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,63}|regex:.*")
CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")
# Options of `docker run` that a command file may contain: with several values, with one value.
LISTS = ("cap-add", "group-add", "tmpfs")
SINGLE = ("name", "user", "workdir", "net", "hostname", "runtime", "cgroup-parent")


class ExecutorRefused(Exception):
    """An error that ends the call with an exit status and a message on stderr for the
    NodeManager.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ExecutorSettings:
    """The settings in the JSON file beside this program, and those that it uses of
    container-executor.cfg.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.docker: list[str] = values["docker"]
        self.setpriv: str = values["setpriv"]
        self.group: int = values["group"]
        self.roots: list[str] = values["roots"]
        self.untrusted: list[str] = values["untrusted"]
        self.gpus: bool = values["gpus"]
        site = read_configuration(values["configuration"])
        self.read_only = _listed_words(site.get("docker.allowed.ro-mounts", ""))
        self.writable = _listed_words(site.get("docker.allowed.rw-mounts", ""))
        self.retries = int(site.get("docker.inspect.max.retries", "10"))


def read_configuration(path: str) -> dict[str, str]:
    """Parse container-executor.cfg: `key=value`, in any section."""
    lines = Path(path).read_text().splitlines()
    return _pairs_of_lines(line for line in lines if not line.lstrip().startswith("#"))


def _pairs_of_lines(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.strip().partition("=") for line in lines)
    return {key: value for key, sign, value in pairs if sign}


class DockerCli:
    """The CLI of one engine. It is run with an empty environment, because the env of a service may
    set DOCKER_HOST, and a kill inherits that env.
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        self.argv = settings.docker

    def call(self, *words: str) -> tuple[int, str, str]:
        """Run the CLI; return exit status, output and errors."""
        done = subprocess.run(
            [*self.argv, *words],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
        )
        return done.returncode, done.stdout, done.stderr

    def become(self, *words: str) -> NoReturn:
        """Replace this process by the command (exec), so that the NodeManager reads the command's
        output.
        """
        os.execve(self.argv[0], [*self.argv, *words], {})

    def field(self, name: str, template: str) -> str | None:
        """Return one field of a container from Docker; None if the container does not exist."""
        status, out, _ = self.call("inspect", "--type=container", f"--format={template}", name)
        return out.strip() if status == 0 else None


# --- directories ---


class Places:
    """Creates the directories and files of a user's containers.

    Args:
        settings: The settings.
        run_as: The user of this machine that containers run as, and that owns the files.
        user: The user who submitted the application.

    Raises:
        ExecutorRefused: The run-as user does not exist, or is root.
    """

    def __init__(self, settings: ExecutorSettings, run_as: str, user: str) -> None:
        self.settings = settings
        self.uid, self.gid = _user_and_group(run_as)
        self.user = user

    def make(self, path: str, mode: int) -> None:
        """Create one directory that the run-as user owns, unless it exists."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        os.chown(path, self.uid, self.settings.group, follow_symlinks=False)
        os.chmod(path, mode)

    def user_dirs(self, local: str, app: str) -> str:
        """In a local directory, create the directories of a user and of an application; return the
        application's directory.
        """
        base = f"{local}/usercache/{self.user}"
        for path in (base, f"{base}/appcache", f"{base}/appcache/{app}"):
            self.make(path, 0o2750)
        self.make(f"{base}/filecache", 0o2710)
        return f"{base}/appcache/{app}"

    def log_dirs(self, logs: list[str], app: str, container: str) -> None:
        """Create the directories of a container's logs."""
        for root in logs:
            self.make(f"{root}/{app}", 0o2750)
            self.make(f"{root}/{app}/{container}", 0o2750)

    def copy(self, source: str, target: str, mode: int) -> None:
        """Copy a file for the run-as user. An existing file is never overwritten or followed: it is
        a FileExistsError.
        """
        content = Path(source).read_bytes()
        with open(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
        ) as handle:
            handle.write(content)
            os.fchown(handle.fileno(), self.uid, self.settings.group)
            os.fchmod(handle.fileno(), mode)


def _user_and_group(name: str) -> tuple[int, int]:
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        # on stdout, which the NodeManager quotes when a localization fails
        print(f"User {name} not found")
        raise ExecutorRefused(CRASHED, "") from None
    if entry.pw_uid == 0:
        print(f"Requested user {name} is banned")
        raise ExecutorRefused(CRASHED, "")
    return entry.pw_uid, entry.pw_gid


def _write_atomically(path: str, text: str) -> None:
    """Write a file atomically, so that the NodeManager never reads half of it."""
    part = f"{path}.tmp"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as handle:
        handle.write(text)
    os.replace(part, path)


# --- plain processes ---


def as_user(places: Places) -> list[str]:
    """Return the beginning of a command line that switches to the run-as user. The user may then
    read directories which only root can enter.
    """
    return [
        places.settings.setpriv,
        f"--reuid={places.uid}",
        f"--regid={places.gid}",
        "--clear-groups",
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=-all,+dac_read_search",
        # Without it access(2), which Java calls before it reads, ignores capabilities.
        "--securebits=+no_setuid_fixup",
    ]


def localize(places: Places, rest: list[str]) -> NoReturn:
    """Operation 0 (initialize a container): create an application's directories, and replace this
    process by the localizer (exec). `rest` are the operation's arguments.
    """
    app, container, tokens, locals_, logs, *command = rest
    directories = [places.user_dirs(local, app) for local in locals_.split("%")]
    places.log_dirs(logs.split("%"), app, container)
    target = f"{directories[0]}/{os.path.basename(tokens)}"
    if not os.path.exists(target):
        places.copy(tokens, target, 0o600)
    os.chdir(directories[0])
    # Python itself sets LC_CTYPE (PEP 538).
    environ = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
    os.execve(places.settings.setpriv, [*as_user(places), *command], environ)


def prepare(places: Places, rest: list[str]) -> str:
    """Create the directories and copy the files of a launch; return the working directory. `rest`
    are the arguments of operation 1 or 4.
    """
    app, container, work, script, tokens = rest[:5]
    locals_, logs = rest[-3].split("%"), rest[-2].split("%")
    for local in locals_:
        places.user_dirs(local, app)
    places.log_dirs(logs, app, container)
    for name in ("", "tmp", "private_slash_tmp", "private_var_slash_tmp", "sysfs"):
        places.make(os.path.join(work, name).rstrip("/"), 0o2710)
    places.copy(script, f"{work}/launch_container.sh", 0o700)
    places.copy(tokens, f"{work}/container_tokens", 0o600)
    return work


def launch(places: Places, rest: list[str]) -> int:
    """Operation 1 (launch a container): run a launch script as a plain process, write its PID to
    the PID file, wait for it, and return its exit status (128 + N after signal N). `rest` are the
    operation's arguments.
    """
    work, pid_file, groups = prepare(places, rest), rest[-4], rest[-1].partition("=")[2]
    environ = {}
    if places.settings.gpus:  # the nvidia-smi of the simulated ones; then bash's own default
        own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu")
        environ["PATH"] = f"{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def enter_groups() -> None:
        for path in groups.split("%") if groups not in ("", "none") else ():
            Path(path).write_text(str(os.getpid()))

    script = subprocess.Popen(
        [*as_user(places), f"{work}/launch_container.sh"],
        cwd=work,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        umask=0o027,
        start_new_session=True,
        preexec_fn=enter_groups,
    )
    _write_atomically(pid_file, str(script.pid))
    code = script.wait()
    return report(128 - code if code < 0 else code, pid_file)


def report(code: int, pid_file: str) -> int:
    """Write the exit status to the file from which a restarted NodeManager reads it, and return the
    status.

    The statuses 22 and 24 make the NodeManager report its node as unhealthy until it is restarted,
    even if they come from the task's program. Hadoop's container-executor has the same effect (seen
    on 3.4.2).
    """
    _write_atomically(f"{pid_file}.exitcode", str(code))
    return code


def send_signal(places: Places, rest: list[str]) -> int:
    """Operation 2 (signal a container): send a signal to a process group of the run-as user. Return
    OK, NO_PROCESS, or NO_SIGNAL for another user's process. `rest` are PID and signal number.
    """
    pid, number = int(rest[0]), int(rest[1])
    if pid <= 1:
        return NO_PROCESS
    try:
        if os.stat(f"/proc/{pid}").st_uid != places.uid:
            return NO_SIGNAL
        os.killpg(pid, number)
    except (FileNotFoundError, ProcessLookupError):
        return NO_PROCESS
    except PermissionError:
        return NO_SIGNAL
    return OK


def delete(settings: ExecutorSettings, rest: list[str]) -> int:
    """Operation 3 (delete as user): remove files and directories, without following links. Return
    OK, or CRASHED for a path that is not below the NodeManager's own directories or cannot be
    removed. `rest` are a path, and the directories in which it is relative.
    """
    path, *bases = rest
    targets = [os.path.join(base, path) if path else base for base in bases] or [path]
    return max([_delete_files(settings, target) for target in targets], default=OK)


def _delete_files(settings: ExecutorSettings, target: str) -> int:
    import shutil

    target = target.rstrip("/")
    parent = os.path.realpath(os.path.dirname(target))
    if os.path.basename(target) in ("", ".", "..") or not any(
        parent == root or parent.startswith(f"{root}/") for root in settings.roots
    ):
        print(
            f"{target} is not below the NodeManager's directories and is not removed",
            file=sys.stderr,
        )
        return CRASHED
    try:
        if stat.S_ISDIR(os.lstat(target).st_mode):
            shutil.rmtree(target)
        else:
            os.unlink(target)
    except FileNotFoundError:
        return OK
    except OSError as problem:
        print(f"could not remove {target}: {problem}", file=sys.stderr)
        return CRASHED
    return OK


# --- Docker ---


def read_command(path: str) -> dict[str, str]:
    """Parse a NodeManager's command file: `key=value`, split at the first sign, without escapes.

    Raises:
        ExecutorRefused: The file is not one.
    """
    lines = Path(path).read_text(errors="surrogateescape").splitlines()
    if lines[:1] != ["[docker-command-execution]"]:
        raise ExecutorRefused(NOT_BUILT, f"{path} is not a Docker command")
    return _pairs_of_lines(lines[1:])


def _listed_words(value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def refuse_command(error: int, name: str, text: str) -> ExecutorRefused:
    """Return ExecutorRefused with the message of container-executor."""
    return ExecutorRefused(
        NOT_BUILT,
        f"{text}\nError constructing docker command, docker error code={error}, error "
        f"message='{name}'",
    )


def check_allowed(settings: ExecutorSettings) -> None:
    """Refuse every mount as long as a path that the site allows does not exist (docker-util.c,
    add_mounts).

    Raises:
        ExecutorRefused: Such a path does not exist.
    """
    lines = []
    for paths in (settings.read_only, settings.writable):  # the first one of each is named
        absent = [path for path in paths if not (os.path.exists(path) or VOLUME.fullmatch(path))]
        lines += [f"Could not determine real path of mount '{path}'" for path in absent[:1]]
    if lines:
        text = "\n".join([*lines, "Unable to find permitted docker mounts on disk"])
        raise refuse_command(52, "Mount access error", text)


def check_mount(settings: ExecutorSettings, mount: str) -> str:
    """Return a mount in the syntax of `docker run`.

    Raises:
        ExecutorRefused: The mount is not allowed, or its source does not exist.
    """
    source, target, options = [*mount.split(":"), "ro"][:3]
    if not os.path.lexists(source):
        text = (
            f"Could not determine real path of mount '{source}'\nInvalid docker mount "
            f"'{mount}', realpath={source}"
        )
        raise refuse_command(49, "Invalid mount", text)
    real = os.path.realpath(source)
    writable = "rw" in options.split("+")
    allowed = settings.writable if writable else [*settings.read_only, *settings.writable]
    if not any(real == root or real.startswith(f"{root}/") for root in allowed):
        what = f"Configuration does not allow mount src='{source}', dest='{target}'"
        raise refuse_command(
            51 if writable else 50, f"Invalid read-{'write' if writable else 'only'} mount", what
        )
    return f"{source}:{target}:{options.replace('+', ',')}"


def ports_of(docker: DockerCli, command: dict[str, str]) -> list[str]:
    """Return the options of `docker run` for published ports: those of the command, or `-P` if it
    has none; [] unless the network's driver is `bridge`.

    Raises:
        ExecutorRefused: Docker cannot inspect the network.
    """
    network = command.get("net", "bridge")
    status, out, words = docker.call("network", "inspect", "--format={{.Driver}}", network)
    if status != 0:
        what = (
            f"Could not inspect docker network to get type docker network inspect {network} "
            f"--format='{{{{.Driver}}}}'."
        )
        raise ExecutorRefused(NOT_BUILT, f"{words.strip()}\n{what}")
    if out.strip() != "bridge":
        return []
    return [
        word for port in _listed_words(command.get("ports-mapping", "")) for word in ("-p", port)
    ] or ["-P"]


def run_words(settings: ExecutorSettings, docker: DockerCli, command: dict[str, str]) -> list[str]:
    """Build the command line of `docker run` from a command file. All other options, such as
    `privileged`, are dropped. Entry-point mode, which this package never requests, is refused.
    """
    if command.get("detach") == "false":
        raise ExecutorRefused(DISABLED, "Feature disabled: entry-point mode")
    image = command["image"]
    trusted = image.partition("/")[0] not in settings.untrusted
    words = ["run", "-d"]
    words += [f"--{key}={command[key]}" for key in SINGLE if command.get(key)]
    words += ports_of(docker, command)
    if trusted:
        check_allowed(settings)
        words += [
            word
            for mount in _listed_words(command.get("mounts", ""))
            for word in ("-v", check_mount(settings, mount))
        ]
    else:
        # As container-executor does: the container starts without its launch script, and fails.
        print(
            f"image: {image} is not trusted.\nDisable mount volume for untrusted image",
            file=sys.stderr,
        )
    if command.get("cap-drop"):
        words.append(f"--cap-drop={command['cap-drop']}")
    words += [
        f"--{key}={value}"
        for key in LISTS
        for value in _listed_words(command.get(key, ""))
        if trusted or key != "cap-add"
    ]
    # NVIDIA_VISIBLE_DEVICES, by the plug-in of GPUs
    words += ["--env-file", command["environ"]] if command.get("environ") else []
    return [*words, image, *_listed_words(command.get("launch-command", ""))]


def launch_docker(places: Places, rest: list[str]) -> int:
    """Operation 4 (launch a Docker container): run or restart a container, wait for its end, and
    return its exit status, or FAILED if Docker refuses it. `rest` are the operation's arguments.
    """
    settings, command, pid_file = places.settings, read_command(rest[-1]), rest[-4]
    docker, name = DockerCli(settings), container_name(command.get("name", ""))
    prepare(places, rest)
    for stream in ("stdout", "stderr"):
        path = f"{rest[-2].split('%')[0]}/{rest[0]}/{rest[1]}/{stream}.txt"
        if not os.path.lexists(path):
            places.copy(os.devnull, path, 0o640)
    again = command.get("docker-command") == "start"
    words = ["start", name] if again else run_words(settings, docker, command)
    status, _, said = docker.call(*words)
    if status != 0:
        print(said, file=sys.stderr)
        return report(FAILED, pid_file)
    code = watch(docker, name, pid_file)
    if not settings.retries:
        # container-executor then never reads the status, and reports 0 (seen on 3.4.2).
        return report(OK, pid_file)
    if code:
        print(f"Exit code from docker inspect: {code}", file=sys.stderr)
    return report(code, pid_file)


def container_name(name: str) -> str:
    """Return the name of a container that belongs to a NodeManager; refuse other containers of
    Docker.
    """
    if not CONTAINER.fullmatch(name):
        raise ExecutorRefused(NOT_BUILT, f"{name!r} is not a YARN container")
    return name


def watch(docker: DockerCli, name: str, pid_file: str) -> int:
    """Write the PID of a container in the background to the PID file, wait until the container has
    ended, and return its exit status.

    Raises:
        ExecutorRefused: Docker does not return the exit status.
    """
    pid = docker.field(name, "{{.State.Pid}}")
    if pid and pid != "0":
        # Until the NodeManager reads the PID, it reports no address and no host name, and cannot
        # check memory or kill.
        _write_atomically(pid_file, pid)
    status, out, words = docker.call("wait", name)
    if status == 0:
        return int(out)
    # dockerd has ended; its containers may still run.
    while pid and pid != "0" and os.path.exists(f"/proc/{pid}"):
        time.sleep(1)
    code = docker.field(name, "{{.State.ExitCode}}")
    if code is None:
        raise ExecutorRefused(
            CRASHED, f"{words.strip()}\nCould not inspect docker to get exitcode of {name}"
        )
    return int(code)


def run_docker(settings: ExecutorSettings, path: str) -> NoReturn:
    """Replace this process by the `docker inspect` or `docker kill` that a NodeManager's command
    file requests (exec).

    Raises:
        ExecutorRefused: The file requests something else, or a container that is not YARN's.
    """
    command = read_command(path)
    what, name = command.get("docker-command"), container_name(command.get("name", ""))
    if what == "inspect":
        DockerCli(settings).become(
            "inspect", "--type=container", f"--format={command['format']}", name
        )
    if what == "kill":
        signal = command["signal"]
        if not re.fullmatch("[A-Z]+", signal):
            # An image's STOPSIGNAL with a digit: the NodeManager then stops trying, and the
            # container keeps running (seen on 3.4.2).
            text = f"Value for signal contains non-uppercase characters '{signal}'"
            raise refuse_command(66, "Invalid docker kill command", text)
        DockerCli(settings).become("kill", f"--signal={command['signal']}", name)
    raise ExecutorRefused(NOT_BUILT, f"docker {what} is not known here")


# --- the command line ---


def options(settings: ExecutorSettings, argv: list[str]) -> int:
    """Run the operation of a command-line option, such as `--run-docker`; return the exit
    status.

    Raises:
        ExecutorRefused: The option is not supported, or its operation is refused.
    """
    docker = DockerCli(settings)
    if argv[0] == "--checksetup":
        return OK
    if argv[0] == "--run-docker":
        run_docker(settings, argv[1])
    if argv[0] == "--inspect-docker-container":
        docker.become("inspect", "--type=container", argv[1], container_name(argv[-1]))
    if argv[0] == "--remove-docker-container":
        status, _, words = docker.call("rm", "--force", container_name(argv[-1]))
        print(words, end="", file=sys.stderr)
        return OK if status == 0 else NOT_BUILT
    if argv[0] == "--module-gpu" and settings.gpus:
        return OK  # the devices do not exist, so access needs no limit
    raise ExecutorRefused(DISABLED, f"Feature disabled: {argv[0]}")


def operation(settings: ExecutorSettings, argv: list[str]) -> int:
    """Run one of the numbered operations, and return the exit status.

    Args:
        settings: The settings.
        argv: The run-as user, the submitter, the operation's number, and its arguments.

    Raises:
        ExecutorRefused: The operation is not supported, or is refused.
    """
    run_as, user, number, *rest = argv
    if number == "3":
        return delete(settings, rest)
    # The first lines of container-executor's output; the NodeManager quotes them if a call fails.
    print(
        f"main : command provided {number}\nmain : run as user is {run_as}\nmain : "
        f"requested yarn user is {user}",
        flush=True,
    )
    places = Places(settings, run_as, user)
    if number == "0":
        localize(places, rest)
    calls = {"1": launch, "2": send_signal, "4": launch_docker}
    if number not in calls:
        raise ExecutorRefused(DISABLED, f"Feature disabled: operation {number}")
    return calls[number](places, rest)


def main(argv: list[str], settings_file: Path) -> int:
    """Run one call of a NodeManager, and return the exit status; an error becomes a message on
    stderr and an exit status.
    """
    try:
        settings = ExecutorSettings(json.loads(settings_file.read_text()))
        return options(settings, argv) if argv[0].startswith("--") else operation(settings, argv)
    except ExecutorRefused as problem:
        if str(problem):
            print(problem, file=sys.stderr)
        return problem.status
    except (OSError, ValueError, KeyError, IndexError) as problem:
        print(f"container-executor: {type(problem).__name__}: {problem}", file=sys.stderr)
        return CRASHED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).with_name("container-executor.json")))
