"""What a NodeManager calls instead of Hadoop's container-executor, where the machine has none: the same command line, for one user.

`sandbox up --profile docker` copies this file beside its settings. It keeps to the protocol of container-executor (facts:
verified-executor 3), so that a NodeManager launches, signals, inspects and removes real Docker containers by the code that it runs in
production. It is no security boundary: plain processes read whatever root may read, and nobody is banned.

Standard library alone; it is started anew for every call, in the NodeManager's hands, with an environment that may be a user's.
"""

import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

OK, FAILED, NO_SIGNAL, NO_PROCESS, NOT_YET, NOT_BUILT, DISABLED, CRASHED = 0, 7, 8, 9, 18, 29, 32, 255
# Of a launch these two would make the NodeManager declare its node unusable, for good; also where a program chose them.
POISON = (22, 24)
CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")
# What a command file may hold of `docker run`'s options; each with its values apart.
LISTS = ("cap-add", "group-add", "tmpfs")
SINGLE = ("name", "user", "workdir", "net", "hostname", "runtime", "cgroup-parent")


class Refused(Exception):
    """A call ends with an exit status, and with a line that the NodeManager keeps."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Settings:
    """What stands in the file beside this one."""

    def __init__(self, values: dict[str, object]) -> None:
        self.docker = [str(word) for word in _list(values["docker"])]
        self.setpriv = str(values["setpriv"])
        self.group = int(str(values["group"]))
        self.roots = [str(path) for path in _list(values["roots"])]
        self.read_only = [str(path) for path in _list(values["read_only"])]
        self.writable = [str(path) for path in _list(values["writable"])]
        self.untrusted = [str(name) for name in _list(values["untrusted"])]
        self.gpus = bool(values["gpus"])


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


class Docker:
    """The CLI of one engine, with an environment of its own: a service's env may hold DOCKER_HOST, and is ours on a kill."""

    def __init__(self, settings: Settings) -> None:
        self.argv = settings.docker

    def call(self, *words: str) -> tuple[int, str, str]:
        """Run it to its end."""
        done = subprocess.run(
            [*self.argv, *words], env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, errors="replace"
        )
        return done.returncode, done.stdout, done.stderr

    def become(self, *words: str) -> NoReturn:
        """Let it take this process's place: its output is the NodeManager's to read."""
        os.execve(self.argv[0], [*self.argv, *words], {})

    def field(self, name: str, template: str) -> str | None:
        """Ask for one field of a container, None where there is no such container."""
        status, out, _ = self.call("inspect", "--type=container", f"--format={template}", name)
        return out.strip() if status == 0 else None


# --- places ---


class Places:
    """Where a NodeManager's files are, for one application of one user."""

    def __init__(self, settings: Settings, run_as: str, user: str) -> None:
        self.settings = settings
        self.uid, self.gid = _ids(run_as)
        self.user = user

    def make(self, path: str, mode: int) -> None:
        """Make one directory of the run-as user's; it is fine if it is there."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        os.chown(path, self.uid, self.settings.group, follow_symlinks=False)
        os.chmod(path, mode)

    def user_dirs(self, local: str, app: str) -> str:
        """Make the directories of a user and an application in one local directory, and return the latter."""
        base = f"{local}/usercache/{self.user}"
        for path in (base, f"{base}/appcache", f"{base}/appcache/{app}"):
            self.make(path, 0o2750)
        self.make(f"{base}/filecache", 0o2710)
        return f"{base}/appcache/{app}"

    def log_dirs(self, logs: list[str], app: str, container: str) -> None:
        """Make the directories of a container's logs."""
        for root in logs:
            self.make(f"{root}/{app}", 0o2750)
            self.make(f"{root}/{app}/{container}", 0o2750)

    def copy(self, source: str, target: str, mode: int) -> None:
        """Copy a file for the run-as user; never over, or through, one that is there."""
        content = Path(source).read_bytes()
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as handle:
            handle.write(content)
            os.fchown(handle.fileno(), self.uid, self.settings.group)
            os.fchmod(handle.fileno(), mode)


def _ids(name: str) -> tuple[int, int]:
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Refused(CRASHED, f"User {name} not found") from None
    if entry.pw_uid == 0:
        raise Refused(CRASHED, "Requested user root is banned")
    return entry.pw_uid, entry.pw_gid


def _write(path: str, text: str) -> None:
    """Write a file so that the NodeManager sees all of it or none."""
    part = f"{path}.tmp"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w") as handle:
        handle.write(text)
    os.replace(part, path)


# --- plain processes ---


def as_user(places: Places) -> list[str]:
    """Begin a command line that becomes the run-as user; he may read what is in directories that only root may enter."""
    return [
        places.settings.setpriv,
        f"--reuid={places.uid}",
        f"--regid={places.gid}",
        "--clear-groups",
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=-all,+dac_read_search",
        # Without it access(2), which Java asks before it reads, leaves capabilities out.
        "--securebits=+no_setuid_fixup",
    ]


def localize(places: Places, rest: list[str]) -> NoReturn:
    """Operation 0: make an application's directories, and become the localizer."""
    app, container, tokens, locals_, logs, *command = rest
    directories = [places.user_dirs(local, app) for local in locals_.split("%")]
    places.log_dirs(logs.split("%"), app, container)
    target = f"{directories[0]}/{os.path.basename(tokens)}"
    if not os.path.exists(target):
        places.copy(tokens, target, 0o600)
    os.chdir(directories[0])
    environ = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}  # Python's own
    os.execve(places.settings.setpriv, [*as_user(places), *command], environ)


def prepare(places: Places, rest: list[str]) -> str:
    """Make what every launch needs; return the working directory."""
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
    """Operation 1: run a launch script as a plain process, and wait for it."""
    work, pid_file, groups = prepare(places, rest), rest[-4], rest[-1].partition("=")[2]
    child = os.fork()
    if child == 0:
        _become_script(places, work, pid_file, groups)
    _, status = os.waitpid(child, 0)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return report(code, pid_file)


def _become_script(places: Places, work: str, pid_file: str, groups: str) -> NoReturn:
    """Be the container: the NodeManager must have its number before it runs."""
    try:
        os.setsid()
        _write(pid_file, str(os.getpid()))
        for path in groups.split("%") if groups not in ("", "none") else ():
            Path(path).write_text(str(os.getpid()))
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.umask(0o027)
        os.chdir(work)
        os.execve(places.settings.setpriv, [*as_user(places), f"{work}/launch_container.sh"], {})
    except BaseException as problem:
        os.write(2, f"could not start the launch script: {problem}\n".encode())
    os._exit(CRASHED)


def report(code: int, pid_file: str) -> int:
    """Leave the exit status where a restarted NodeManager looks for it, and return what it can bear."""
    if code in POISON:
        print(f"Exit code {code} is reported as {code + 100}: it would make the NodeManager give up its node", file=sys.stderr)
        code += 100
    _write(f"{pid_file}.exitcode", str(code))
    return code


def send_signal(places: Places, rest: list[str]) -> int:
    """Operation 2: signal a process group, of the run-as user's only."""
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


def delete(settings: Settings, rest: list[str]) -> int:
    """Operation 3: remove files and directories, below the NodeManager's own directories only, and through no link."""
    path, *bases = rest
    targets = [os.path.join(base, path) if path else base for base in bases] or [path]
    return max([_delete(settings, target) for target in targets], default=OK)


def _delete(settings: Settings, target: str) -> int:
    import shutil

    target = target.rstrip("/")
    parent = os.path.realpath(os.path.dirname(target))
    if os.path.basename(target) in ("", ".", "..") or not any(parent == root or parent.startswith(f"{root}/") for root in settings.roots):
        print(f"{target} is not below the NodeManager's directories and is not removed", file=sys.stderr)
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


def sync_sysfs(places: Places, rest: list[str]) -> int:
    """Operation 6: bring app.json to the containers that asked for it."""
    app, locals_ = rest[0], rest[1].split("%")
    found = [
        (source, directory)
        for local in locals_
        if os.path.isfile(source := f"{local}/nmPrivate/{app}/sysfs/app.json")
        for directory in Path(f"{local}/usercache/{places.user}/appcache/{app}/filecache").glob("*/sysfs.tar/sysfs")
    ]
    for source, directory in found:
        part = f"{directory}/.app.json"
        if os.path.lexists(part):
            os.unlink(part)
        places.copy(source, part, 0o750)
        os.replace(part, f"{directory}/app.json")
    return OK if found else NOT_YET


# --- Docker ---


def read_command(path: str) -> dict[str, str]:
    """Read a NodeManager's command file: `key=value`, split at the first sign, with no escapes."""
    lines = Path(path).read_text(errors="surrogateescape").splitlines()
    if lines[:1] != ["[docker-command-execution]"]:
        raise Refused(NOT_BUILT, f"{path} is no Docker command")
    pairs = (line.strip().partition("=") for line in lines[1:])
    return {key: value for key, sign, value in pairs if sign}


def _words(value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def refuse_mount(error: int, name: str, text: str) -> Refused:
    """Say it as container-executor does."""
    return Refused(NOT_BUILT, f"{text}\nError constructing docker command, docker error code={error}, error message='{name}'")


def check_mount(settings: Settings, mount: str) -> str:
    """Return a mount as `docker run` takes it, if it may be."""
    source, target, options = [*mount.split(":"), "ro"][:3]
    if not os.path.lexists(source):
        raise refuse_mount(49, "Invalid mount", f"Could not determine real path of mount '{source}'")
    real = os.path.realpath(source)
    writable = "rw" in options.split("+")
    allowed = settings.writable if writable else [*settings.read_only, *settings.writable]
    if not any(real == root or real.startswith(f"{root}/") for root in allowed):
        what = f"Configuration does not allow mount src='{source}', dest='{target}'"
        raise refuse_mount(51 if writable else 50, f"Invalid read-{'write' if writable else 'only'} mount", what)
    return f"{source}:{target}:{options.replace('+', ',')}"


def ports_of(docker: Docker, command: dict[str, str]) -> list[str]:
    """Return the options for ports; on networks that have none of their own, there are none."""
    network = command.get("net", "bridge")
    status, out, words = docker.call("network", "inspect", "--format={{.Driver}}", network)
    if status != 0:
        what = f"Could not inspect docker network to get type docker network inspect {network} --format='{{{{.Driver}}}}'."
        raise Refused(NOT_BUILT, f"{words.strip()}\n{what}")
    if out.strip() != "bridge":
        return []
    return [word for port in _words(command.get("ports-mapping", "")) for word in ("-p", port)] or ["-P"]


def run_words(settings: Settings, docker: Docker, command: dict[str, str]) -> list[str]:
    """Build `docker run` out of a command file; what it may not hold is left out, privileges first of all."""
    image = command["image"]
    trusted = image.partition("/")[0] not in settings.untrusted
    words = ["run", *(["-d"] if command.get("detach", "true") == "true" else [])]
    words += [f"--{key}={command[key]}" for key in SINGLE if command.get(key)]
    words += ports_of(docker, command)
    if trusted:
        words += [word for mount in _words(command.get("mounts", "")) for word in ("-v", check_mount(settings, mount))]
    else:
        # As container-executor: the container starts, and does not find its launch script.
        print(f"image: {image} is not trusted.\nDisable mount volume for untrusted image", file=sys.stderr)
    if command.get("cap-drop"):
        words.append(f"--cap-drop={command['cap-drop']}")
    words += [f"--{key}={value}" for key in LISTS for value in _words(command.get(key, "")) if trusted or key != "cap-add"]
    words += ["--env-file", command["environ"]] if command.get("environ") else []
    return [*words, image, *_words(command.get("launch-command", ""))]


def launch_docker(places: Places, rest: list[str]) -> int:
    """Operation 4: run, or start again, a container, and wait for its end."""
    docker, command, pid_file = Docker(places.settings), read_command(rest[-1]), rest[-4]
    name = container_name(command.get("name", ""))
    prepare(places, rest)
    outputs = [f"{rest[-2].split('%')[0]}/{rest[0]}/{rest[1]}/{stream}.txt" for stream in ("stdout", "stderr")]
    for path in outputs:
        if not os.path.lexists(path):
            places.copy(os.devnull, path, 0o640)
    if command.get("docker-command") == "start":
        return report(watch(docker, name, pid_file, docker.call("start", name)), pid_file)
    words = run_words(places.settings, docker, command)
    if command.get("detach", "true") == "true":
        return report(watch(docker, name, pid_file, docker.call(*words)), pid_file)
    return report(attach(docker, name, pid_file, words, outputs), pid_file)


def container_name(name: str) -> str:
    """Return the name of a NodeManager's container; Docker's other containers are none of ours."""
    if not CONTAINER.fullmatch(name):
        raise Refused(NOT_BUILT, f"{name!r} is no container of YARN")
    return name


def watch(docker: Docker, name: str, pid_file: str, started: tuple[int, str, str]) -> int:
    """Follow a container that was started in the background to its end, and return its exit status."""
    status, _, words = started
    if status != 0:
        print(words, file=sys.stderr)
        return FAILED
    pid = docker.field(name, "{{.State.Pid}}")
    if pid and pid != "0":
        # Until the NodeManager has it there is no address, no host name, no memory check and no kill.
        _write(pid_file, pid)
    status, out, words = docker.call("wait", name)
    if status == 0:
        return _told(out)
    # dockerd has gone; its containers may live on.
    while pid and pid != "0" and os.path.exists(f"/proc/{pid}"):
        time.sleep(1)
    code = docker.field(name, "{{.State.ExitCode}}")
    if code is None:
        raise Refused(CRASHED, f"nobody can say how {name} ended: {words.strip()}")
    return _told(code)


def _told(code: str) -> int:
    if code.strip() != "0":
        print(f"Exit code from docker inspect: {code.strip()}", file=sys.stderr)
    return int(code)


def attach(docker: Docker, name: str, pid_file: str, words: list[str], outputs: list[str]) -> int:
    """Run a container whose own entry point runs: nothing in it redirects its output, so that is done here."""
    with open(outputs[0], "ab") as out, open(outputs[1], "ab") as err:
        shown = " ".join([*docker.argv, *words])
        out.write(f"Launching docker container...\nDocker run command: {shown}\n".encode(errors="surrogateescape"))
        out.flush()
        client = subprocess.Popen([*docker.argv, *words], env={}, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        while client.poll() is None:
            pid = docker.field(name, "{{.State.Pid}}")
            if pid and pid != "0":
                _write(pid_file, pid)
                break
            time.sleep(0.1)
        client.wait()
    # The client ends with 125 to 127 for reasons of its own.
    code = docker.field(name, "{{.State.ExitCode}} {{.State.StartedAt}}")
    if code is None or code.endswith(" 0001-01-01T00:00:00Z"):
        print(Path(outputs[1]).read_text(errors="replace")[-4096:], file=sys.stderr)
        return FAILED
    return _told(code.partition(" ")[0])


def run_docker(settings: Settings, path: str) -> NoReturn:
    """Inspect or kill a container."""
    command = read_command(path)
    what, name = command.get("docker-command"), container_name(command.get("name", ""))
    if what == "inspect":
        Docker(settings).become("inspect", "--type=container", f"--format={command['format']}", name)
    if what == "kill":
        Docker(settings).become("kill", f"--signal={command['signal']}", name)
    raise Refused(NOT_BUILT, f"docker {what} is not known here")


# --- the command line ---


def options(settings: Settings, argv: list[str]) -> int:
    """Carry out what is asked for by an option."""
    docker = Docker(settings)
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
        return OK  # the devices do not exist, so there is nothing to keep a process away from
    raise Refused(DISABLED, f"Feature disabled: {argv[0]}")


def operation(settings: Settings, argv: list[str]) -> int:
    """Carry out one of the numbered operations."""
    run_as, user, number, *rest = argv
    if number == "3":
        return delete(settings, rest)
    places = Places(settings, run_as, user)
    if number == "0":
        localize(places, rest)
    calls = {"1": launch, "2": send_signal, "4": launch_docker, "6": sync_sysfs}
    if number not in calls:
        raise Refused(DISABLED, f"Feature disabled: operation {number}")
    return calls[number](places, rest)


def main(argv: list[str], settings_file: Path) -> int:
    """Do what a NodeManager asks for; whatever goes wrong becomes one line and an exit status."""
    try:
        settings = Settings(json.loads(settings_file.read_text()))
        return options(settings, argv) if argv[0].startswith("--") else operation(settings, argv)
    except Refused as problem:
        print(problem, file=sys.stderr)
        return problem.status
    except (OSError, ValueError, KeyError, IndexError) as problem:
        print(f"container-executor: {type(problem).__name__}: {problem}", file=sys.stderr)
        return CRASHED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).with_name("container-executor.json")))
