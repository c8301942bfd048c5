"""The settings of one user on one cluster, and the origin of each value.

The sources in order, from the highest precedence to the lowest: arguments, environment
(`SUBMIT_TF_JOB_<KEY>`), project file (`submit_tf_job.yaml` in the working directory or a parent),
user file (`~/.config/submit_tf_job/settings.yaml`), system file
(`/etc/submit_tf_job/settings.yaml`), the Hadoop configuration that the setting `hadoop_conf` or
else HADOOP_CONF_DIR names, defaults. Inside one file, the chosen profile takes precedence over the
top level of the file. Unknown names are refused.

No other module reads settings from the environment of the process; `host` also reads Hadoop's and
Kerberos's own variables.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoop_user import HADOOP_USER_NAME, PROXY_USER
from submit_tf_job.host.hadoop_user import USER_NAME as USER_NAME_VARIABLE
from submit_tf_job.host.hadoopconf import configuration
from submit_tf_job.host.units import duration_s, memory
from submit_tf_job.host.user_files import reason
from submit_tf_job.settings_sources import (
    ENV_PREFIX,
    Setting,
    SettingsLayer,
    Sources,
    Values,
    did_you_mean,
    hadoop_layer,
    merge_keys,
    single_keys,
)

SYSTEM_FILE = Path("/etc/submit_tf_job/settings.yaml")
SANDBOX_PROFILE = "sandbox"
AUTH_METHODS = ("simple", "kerberos", "delegation-token", "basic", "bearer")
# names of labels of up to 63 characters (RFC 1123), or an IPv6 address, which urlsplit has checked
_HOST = re.compile(r"(?!.{254})([\w-]{1,63}\.)*[\w-]{1,63}\.?|[^:]*:.*")
_PAGES = frozenset({"cluster", "ws", "app", "proxy", "ui2"})  # of a ResourceManager
# Hadoop takes any name; these can be part of a path of HDFS and of a URL (OS users with digits
# alone, and principals as user names, are common on clusters that are joined to a directory)
USER_NAME = r"[A-Za-z0-9_][A-Za-z0-9@._-]*\$?"


# --- the keys -------------------------------------------------------------------------------------


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a text, found {value!r}")
    return value.strip()


def _text_matching(pattern: str, what: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = _parse_text(value)
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not a valid {what}")
        return text

    return parse


def _split_text(value: Any) -> Any:
    """Split a text at commas and blanks; return any other value as it is."""
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    return value


def _parse_urls(value: Any) -> tuple[str, ...]:
    items = _split_text(value)
    if not isinstance(items, list) or not items:
        raise ValueError(f"expected one or more URLs, found {value!r}")
    return tuple(map(_parse_url, items))


def _parse_url(value: Any) -> str:
    text = _parse_text(value)
    try:
        parts = urlsplit(text)
        host = _HOST.fullmatch(parts.hostname or "")
        known = parts.scheme in ("http", "https") and "//" not in parts.path
        usable = known and host and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is not a number
        usable = False
    if not usable:
        raise ValueError(
            f"{value!r} is not the address of a ResourceManager; write it as "
            f"http://rm.example.com:8088"
        )
    if "@" in parts.netloc:
        raise ValueError("a ResourceManager's address must not hold a user or a password")
    if parts.query or parts.fragment:
        raise ValueError(
            f"{value!r} has a query; write only the address: {parts.scheme}://{parts.netloc}"
        )
    path = parts.path.rstrip("/")
    # copied from a browser; other paths are allowed, as a gateway has one
    if path.removeprefix("/").partition("/")[0] in _PAGES:
        raise ValueError(
            f"{value!r} is one of its pages; write only scheme, host and port: "
            f"{parts.scheme}://{parts.netloc}"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _parse_path(value: Any) -> Path:
    try:
        return Path(_parse_text(value)).expanduser()
    except RuntimeError:
        raise ValueError(f"{value!r} is in the home directory of an unknown user") from None


def _host_port(value: Any) -> str:
    text = _parse_text(value)
    match = re.fullmatch(r"([\w.-]+):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError(f"{text!r} is not a valid address; write host:port")
    return text


def _port_range(value: Any) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", _parse_text(value))
    if not match or not 1024 <= int(match[1]) < int(match[2]) <= 65535:
        raise ValueError(f"{value!r} is not a valid port range; write 20000-32767")
    return int(match[1]), int(match[2])


def _parse_duration(value: Any) -> float:
    return duration_s(str(value).strip())


def _some_time(value: Any) -> float:
    seconds = _parse_duration(value)
    if not seconds:
        raise ValueError(f"{value!r} leaves no time; use 90s, 15m or 2h")
    return seconds


def _parse_size(value: Any) -> int:
    return memory(str(value).strip()) * 1024**2


def _memory_text(value: Any) -> str:
    """Check an amount of memory and keep it as text, which the job spec's reader parses later."""
    memory(_parse_text(value))
    return _parse_text(value)


def _number_from(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        text = str(value).strip()
        known = re.fullmatch(r"0|[1-9]\d{0,5}", text) and not isinstance(value, bool)
        if not known or int(text) < least:
            raise ValueError(f"{value!r} is not a number from {least} to 999999")
        return int(text)

    return parse


def _parse_bool(value: Any) -> bool:
    known = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, (bool, str)) or value not in known:
        raise ValueError(f"expected true or false, found {value!r}")
    return known[value]


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {value!r}")
        return str(value)

    return parse


def _parse_command(value: Any) -> tuple[str, ...]:
    """Parse a command: a list of words, or a text that is split like a shell's command line; no
    shell runs it.
    """
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"{value!r}: {error}") from None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"expected a command, found {value!r}")
    return tuple(words)


def _parse_words(value: Any) -> tuple[str, ...]:
    """Parse a list of words, or a text in which commas or blanks separate the words; it may be
    empty.
    """
    words = _split_text(value)
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f"expected a list of words, found {value!r}")
    return tuple(words)


def _parse_paths(value: Any) -> tuple[str, ...]:
    paths = _parse_words(value)
    relative = next((path for path in paths if not path.startswith("/")), None)
    if relative is not None:
        raise ValueError(f"{relative!r} is not an absolute path of the nodes")
    return paths


def _parse_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, found {value!r}")
    return value


def setting(parse: Callable[[Any], Any], about: str, default: Any = None, *, name: str = "") -> Any:
    """Declare one setting as a field of a dataclass.

    Args:
        parse: Converts the value from a file or a variable; raises ValueError with a sentence if
            the value is not valid.
        about: The help text.
        default: The value if no source sets it.
        name: The key in files; default: the field's name, without the unit of a duration.
    """
    metadata = {"parse": parse, "default": default, "about": about, "name": name}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class KerberosSettings:
    """Settings of the Kerberos login."""

    principal: str | None = setting(
        _text_matching("[^\\s@]+(@[^\\s@]+)?", "Kerberos principal"),
        "who to log in as; default: the ticket's",
    )
    keytab: Path | None = setting(
        _parse_path, "keytab to log in with, instead of a ticket from kinit"
    )
    krb5_conf: Path | None = setting(_parse_path, "krb5.conf to use instead of this machine's")


@dataclass(frozen=True)
class CredentialSettings:
    """Sources of a token or a password."""

    file: Path | None = setting(
        _parse_path, "file with the delegation token, the bearer token, or the password of `user`"
    )
    command: tuple[str, ...] | None = setting(
        _parse_command, "command that prints what credentials.file would hold"
    )


@dataclass(frozen=True)
class DnsSettings:
    """Settings of the cluster's Registry DNS."""

    domain: str | None = setting(
        _text_matching("[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "DNS domain"),
        "hadoop.registry.dns.domain-name of the cluster",
    )
    server: str | None = setting(
        _host_port, "Registry DNS, host:port, where the containers' resolver does not know it"
    )


@dataclass(frozen=True)
class PortSettings:
    """Range of ports for tasks on the host network."""

    range: tuple[int, int] = setting(
        _port_range,
        "ports that tasks on the host network use; below the ephemeral range",
        (20000, 32767),
    )


@dataclass(frozen=True)
class DockerSettings:
    """Settings of Docker on this machine, and limits of Docker on the cluster."""

    host: str | None = setting(
        _parse_text,
        "Docker Engine of this machine: unix:///path; default: DOCKER_HOST or Docker's socket",
    )
    networks: tuple[str, ...] | None = setting(
        _parse_words, "networks that the cluster allows (docker.allowed.networks)"
    )
    ro_mounts: tuple[str, ...] | None = setting(
        _parse_paths, "paths of the nodes that may be mounted to be read (docker.allowed.ro-mounts)"
    )
    rw_mounts: tuple[str, ...] | None = setting(
        _parse_paths,
        "paths of the nodes that may be mounted to be written to (docker.allowed.rw-mounts)",
    )
    registries: tuple[str, ...] | None = setting(
        _parse_words, "registries whose images get mounts (docker.trusted.registries)"
    )
    runtimes: tuple[str, ...] | None = setting(
        _parse_words, "OCI runtimes that the cluster allows (docker.allowed.runtimes)"
    )


@dataclass(frozen=True)
class TimeoutSettings:
    """Time-outs, in seconds."""

    connect_s: float = setting(_parse_duration, "to connect to a ResourceManager", 5.0)
    read_s: float = setting(_parse_duration, "to wait for a response", 30.0)
    failover_s: float = setting(
        _parse_duration, "to find a ResourceManager that answers, before a command gives up", 30.0
    )
    submit_s: float = setting(
        _parse_duration, "for a whole submission, failovers and lost answers included", 300.0
    )
    unreachable_s: float = setting(
        _parse_duration, "how long a watch retries an unreachable cluster before it gives up", 900.0
    )


@dataclass(frozen=True)
class PollSettings:
    """Intervals of polls, in seconds."""

    min_s: float = setting(_parse_duration, "minimum interval between status requests", 1.0)
    max_s: float = setting(_parse_duration, "maximum interval between status requests", 15.0)


@dataclass(frozen=True)
class GatewaySettings:
    """Limits of uploads to the gateway, and of its metrics for Prometheus."""

    uploads: Path | None = setting(
        _parse_path,
        "directory for files that callers of a gateway send, until their job is submitted",
    )
    upload_size: int = setting(
        _parse_size, "size of all files of one request to a gateway", 256 * 1024**2
    )
    upload_files: int = setting(
        _number_from(1), "number of files of one request to a gateway", 1000
    )
    upload_time_s: float = setting(
        _parse_duration, "time in which the files of one request to a gateway must arrive", 600.0
    )
    job_series: int = setting(
        _number_from(0), "most series of /metrics of a gateway that name a job; 0 for none", 0
    )


@dataclass(frozen=True)
class CapSettings:
    """The largest amounts that one job may ask for; None for no limit."""

    tasks: int | None = setting(_number_from(1), "most tasks of a job")
    gpus: int | None = setting(_number_from(0), "most GPUs of all tasks of a job together")
    memory: int | None = setting(_parse_size, "most memory of all tasks of a job together")
    lifetime_s: float | None = setting(
        _some_time, "longest lifetime of a job; one without lifetime is refused"
    )


# --- the settings ---------------------------------------------------------------------------------


class Directories(NamedTuple):
    """The directories of this program for configuration, state and caches (XDG base
    directories).
    """

    config: Path
    state: Path
    cache: Path


@dataclass(frozen=True)
class Settings:
    """The settings of one invocation, created once.

    Attributes:
        profile: Name of the active profile, or None.
        origins: Name of a setting → the source of its value.
        directories: The directories of this program.
        login: The authenticated user; differs from `user` if `as_user` is set.
        user: User that jobs belong to.
    """

    profile: str | None
    origins: Mapping[str, str]
    directories: Directories
    login: str = ""
    resource_manager_urls: tuple[str, ...] = setting(
        _parse_urls,
        "addresses of the ResourceManagers' web interfaces, http://host:8088",
        (),
        name="resource_managers",
    )
    user: str = setting(
        _text_matching(USER_NAME, "user name"),
        "user to submit as; default: HADOOP_USER_NAME without security, else who you are here",
        "",
    )
    auth: str = setting(
        _one_of(*AUTH_METHODS),
        "how to prove who you are; default: what the Hadoop configuration says",
        "simple",
    )
    as_user: str | None = setting(
        _text_matching(USER_NAME, "user name"),
        "submit as this user instead, where the ResourceManager lets you (doAs)",
    )
    kerberos: KerberosSettings = field(default_factory=KerberosSettings)
    credentials: CredentialSettings = field(default_factory=CredentialSettings)
    ca_file: Path | None = setting(
        _parse_path, "CA certificates that https ResourceManagers are checked against"
    )
    hadoop_conf: Path | None = setting(
        _parse_path, "directory with the cluster's core-site.xml, hdfs-site.xml and yarn-site.xml"
    )
    hadoop_version: str | None = setting(
        _text_matching("\\d+\\.\\d+\\.\\d+\\S*", "Hadoop version"),
        "Hadoop version, where the cluster is not to be asked",
    )
    dns: DnsSettings = field(default_factory=DnsSettings)
    names: str = setting(
        _one_of("dns", "rendezvous", "auto"),
        "how tasks find one another: by Registry DNS, by a directory of HDFS, or by what answers",
        "dns",
    )
    gpu_resource: str = setting(
        # as YARN's ResourceUtils has it
        _text_matching(r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*/)?[A-Za-z][\w.-]*", "resource name"),
        "YARN's name for a GPU, where a role says no other",
        "yarn.io/gpu",
    )
    ports: PortSettings = field(default_factory=PortSettings)
    staging: str | None = setting(
        _parse_text,
        "directory for files that do not fit into the service; default <HDFS "
        "home>/.submit_tf_job/staging",
    )
    docker: DockerSettings = field(default_factory=DockerSettings)
    caps: CapSettings = field(default_factory=CapSettings)
    capacity_check: str = setting(
        _one_of("refuse", "warn", "off"),
        "what happens to a job whose tasks cannot all run at once on the nodes of the cluster",
        "refuse",
    )
    detached_lifetime_s: float = setting(
        _parse_duration,
        "lifetime of a job without one that is submitted and not followed",
        30 * 86400.0,
    )
    keep_runs: int = setting(
        _number_from(1),
        "runs of a job that YARN keeps: each submission deletes some of the oldest beyond",
        5,
    )
    keep_records: int = setting(
        _number_from(1),
        "records of a job's runs that `history` keeps in the staging directory",
        1000,
    )
    timeouts: TimeoutSettings = field(default_factory=TimeoutSettings)
    poll: PollSettings = field(default_factory=PollSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    job: Mapping[str, Any] = setting(
        _parse_mapping, "a partial job spec: what jobs get where they are silent", {}
    )
    shapes: Mapping[str, Any] = setting(
        _parse_mapping, "named resource shapes: {big: {cpus: 8, memory: 32Gi, gpus: 1}}", {}
    )
    task_memory: str | None = setting(
        _memory_text,
        "memory of a task where `run`, a function or a job file of another system states none; "
        "default: it is asked for",
    )
    sandbox: bool = setting(_parse_bool, "whether this profile is a sandbox of this machine", False)

    @property
    def secure(self) -> bool:
        """Whether the cluster requires authentication, so that containers get delegation tokens.

        With `auth` basic or bearer, which is for a proxy such as Apache Knox in front of the
        cluster, the Hadoop configuration decides; without one the cluster counts as not secure.

        Raises:
            SettingsError: The Hadoop configuration cannot be read; only with basic and bearer.
        """
        if self.auth in ("basic", "bearer"):
            conf = self.hadoop_conf
            core = {} if conf is None else configuration(conf)
            return core.get("hadoop.security.authentication", "simple").lower() == "kerberos"
        return self.auth != "simple"

    @property
    def as_proxy(self) -> bool:
        """Whether a proxy user sends requests on behalf of `user` (`as_user` is set)."""
        return self.as_user is not None

    def acting_for(self, user: str) -> Settings:
        """Return these settings with `user` as `as_user`; if the settings' user is `user` already,
        return them unchanged.
        """
        if user == self.user:
            return self
        origins = {**self.origins, "user": "as_user, who is calling", "as_user": "who is calling"}
        return replace(self, user=user, as_user=user, origins=origins)

    @property
    def resource_managers(self) -> tuple[str, ...]:
        """Addresses of the ResourceManagers.

        Raises:
            SettingsError: No setting contains an address.
        """
        urls = self.resource_manager_urls
        if not urls:
            origin = self.origins.get("resource_managers", "default")
            nor = "neither settings, environment nor HADOOP_CONF_DIR names one"
            raise SettingsError(
                f"no ResourceManager is known: {nor if origin == 'default' else origin}",
                hint="give --rm http://host:8088, or set resource_managers in "
                f"{self.directories.config / 'settings.yaml'}, or start one on this "
                f"machine with `submit_tf_job sandbox up`",
            )
        return urls


_GROUPS: Mapping[str, Any] = {
    item.name: item.default_factory
    for item in fields(Settings)
    if is_dataclass(item.default_factory)
}
# What a project's file may not set: a checkout must not redirect the jobs of its users.
_NOT_IN_PROJECTS = frozenset(
    {"as_user", "auth", "ca_file", "caps", "credentials", "docker.host", "gateway", "hadoop_conf"}
    | {"kerberos", "resource_managers", "sandbox", "user"}
)
_NOT_IN_VARIABLES = frozenset({"job", "sandbox", "shapes"})


def _key_of(item: Field[Any], *group: str) -> Setting:
    given, short = item.metadata, item.name
    if given["parse"] in (_parse_duration, _some_time):
        short = short.removesuffix("_s")
    name = ".".join((*group, given["name"] or short))
    return Setting(
        name=name,
        path=(*group, item.name),
        parse=given["parse"],
        default=given["default"],
        about=given["about"],
        merged=given["parse"] is _parse_mapping,
        project=_NOT_IN_PROJECTS.isdisjoint((name, *group)),
        env=name not in _NOT_IN_VARIABLES,
    )


@cache
def keys() -> Mapping[str, Setting]:
    """Return every setting by its name, in the order of `config show`."""
    found = []
    for item in fields(Settings):
        if item.metadata:
            found.append(_key_of(item))
        if item.name in _GROUPS:
            found += [_key_of(inner, item.name) for inner in fields(_GROUPS[item.name])]
    return {key.name: key for key in found}


def process_environment() -> dict[str, str]:
    """Return a copy of the process's environment, for child processes."""
    return dict(os.environ)


def krb5_conf_files(settings: Settings) -> tuple[Path, ...]:
    """Return the krb5.conf files: that of the setting `kerberos.krb5_conf`; else those of
    KRB5_CONFIG, which may name several and need not exist; else this machine's file, if it exists.
    """
    if settings.kerberos.krb5_conf:
        return (settings.kerberos.krb5_conf,)
    named = os.environ.get("KRB5_CONFIG", "")
    found = [Path(part) for part in named.split(":") if part] or [Path("/etc/krb5.conf")]
    return tuple(path for path in found if named or path.is_file())


def directories(environ: Mapping[str, str] | None = None) -> Directories:
    """Return the directories of this user's configuration, state and caches.

    Args:
        environ: The environment; default: that of the process. Variables of the XDG specification
            with a relative path are ignored.

    Raises:
        SettingsError: HOME, or a variable of the XDG specification, names a file; or HOME is not
            set, and the user has no home directory.
    """
    env = os.environ if environ is None else environ
    try:
        home = Path(env.get("HOME") or Path.home())
    except RuntimeError:
        raise SettingsError(
            "HOME is not set, and the user running this has no home directory on this machine",
            hint="set HOME to a directory",
        ) from None

    def base(variable: str, fallback: str) -> Path:
        value = env.get(variable, "")
        root, named, place = home, "HOME", home / fallback
        if value.startswith("/"):
            root, named, place = Path(value), variable, Path(value)
        if os.path.exists(root) and not os.path.isdir(root):  # noqa: PTH110, PTH112 - long names
            raise SettingsError(
                f"{named} is {root}, which is not a directory", hint=f"set {named} to a directory"
            )
        return place / "submit_tf_job"

    return Directories(
        config=base("XDG_CONFIG_HOME", ".config"),
        state=base("XDG_STATE_HOME", ".local/state"),
        cache=base("XDG_CACHE_HOME", ".cache"),
    )


_ARGUMENT = "argument"  # the origin of what a caller gives

# --- which layer wins -----------------------------------------------------------------------------


def load_settings(
    *,
    arguments: Mapping[str, Any] | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    system_file: Path = SYSTEM_FILE,
) -> Settings:
    """Read all sources and return the settings.

    Args:
        arguments: Name → raw value, from the command line or a call; None and empty lists are
            ignored.
        profile: Profile to use; default: SUBMIT_TF_JOB_PROFILE, then the files' `default_profile`,
            then that of the sandbox, if it exists and no source names a ResourceManager.
        environ: The environment; default: that of the process.
        cwd: The directory from which the project's file is searched; default: the working
            directory.
        system_file: The settings file for all users of this machine.

    Raises:
        SettingsError: A file cannot be read, a name is unknown, a value is wrong, or the profile
            does not exist.
    """
    for name in arguments or ():
        if name not in keys():
            raise SettingsError(f"there is no setting {name!r}{did_you_mean(name, keys())}")
    env = os.environ if environ is None else environ
    dirs = directories(env)
    here = _working_directory() if cwd is None else cwd
    sources = Sources(keys())
    files = sources.files(env, dirs.config, here, system_file)
    strongest = [
        {
            key: (value, _ARGUMENT)
            for name, given in (arguments or {}).items()
            if given not in (None, (), [])
            for key, value, _ in single_keys(name, given)
        },
        sources.variables(env),
    ]
    chosen = _choose_profile(profile, env, files)
    stack = _stack_layers(strongest, files, chosen, env)
    if (
        chosen is None
        and any(SANDBOX_PROFILE in layer.profiles for layer in files)
        and not any("resource_managers" in v for v in stack)
    ):
        chosen = SANDBOX_PROFILE
        stack = _stack_layers(strongest, files, chosen, env)
    return _decide_values(chosen, stack, dirs, env)


def known_profiles() -> list[str]:
    """Return the names of the profiles in all files.

    Raises:
        SettingsError: A file cannot be read.
    """
    config = directories().config
    files = Sources(keys()).files(os.environ, config, _working_directory(), SYSTEM_FILE)
    return sorted({name for layer in files for name in layer.profiles})


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError(
            f"the working directory cannot be used: {reason(error)}",
            hint="change to a directory that exists",
        ) from None


def _stack_layers(
    strongest: list[Values], files: list[SettingsLayer], profile: str | None, env: Mapping[str, str]
) -> list[Values]:
    """Return all layers in order of precedence; the last layer is the Hadoop configuration that the
    other layers name.
    """
    stack = [*strongest]
    for layer in files:
        stack += [layer.profiles.get(profile or "", {}), layer.values]
    directory, origin = ChainMap(*map(dict, stack)).get("hadoop_conf", (None, ""))
    if directory is None:
        directory = env.get("HADOOP_CONF_DIR")
        return [*stack, hadoop_layer(directory, "HADOOP_CONF_DIR")] if directory else stack
    try:
        return [*stack, hadoop_layer(str(_parse_path(directory)), "hadoop_conf")]
    except ValueError as error:
        raise SettingsError(f"{_message_prefix(origin)}hadoop_conf: {error}") from None


def _message_prefix(origin: str) -> str:
    """Return the prefix of a message about a setting: the position where it is set; "" for an
    argument.
    """
    return "" if origin == _ARGUMENT else f"{origin}: "


def _decide_values(
    profile: str | None, stack: list[Values], dirs: Directories, env: Mapping[str, str]
) -> Settings:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    stated = ChainMap(*map(dict, stack))
    for name, key in keys().items():
        raw, origin = stated.get(name, (key.default, "default"))
        if key.merged and name in stated:
            raw, of_keys = merge_keys(name, stack)
            origin = of_keys[name]
            origins |= of_keys
        try:
            values[name] = raw if origin == "default" or raw == () else key.parse(raw)
        except ValueError as error:
            raise SettingsError(f"{_message_prefix(origin)}{name}: {error}") from None
        origins[name] = origin
    if values["poll.min"] > values["poll.max"]:
        origin = next(
            origins[name] for name in ("poll.min", "poll.max") if origins[name] != "default"
        )
        pauses = f"poll.min ({values['poll.min']:g} s) is longer than poll.max"
        raise SettingsError(f"{_message_prefix(origin)}{pauses} ({values['poll.max']:g} s)")
    if not values["user"]:
        values["user"], origins["user"] = _default_user(values, env)
    if values["as_user"] is None and env.get(PROXY_USER):
        values["as_user"], origins["as_user"] = _user_of(PROXY_USER, env[PROXY_USER]), PROXY_USER
    login = values["user"]
    if values["as_user"] is not None:
        values["user"], origins["user"] = values["as_user"], f"as_user, {origins['as_user']}"
    top: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    for name, value in values.items():
        *group, leaf = keys()[name].path
        (groups[group[0]] if group else top)[leaf] = value
    made = {name: of_group(**groups[name]) for name, of_group in _GROUPS.items()}
    return Settings(profile, origins, dirs, login, **top, **made)


def _user_of(variable: str, value: str) -> str:
    """Return the user that one of Hadoop's own environment variables names.

    Raises:
        SettingsError: The value is not a valid user name.
    """
    try:
        return str(keys()["user"].parse(value))
    except ValueError as error:
        raise SettingsError(f"{variable}: {error}", hint=f"unset {variable}") from None


def _default_user(values: Mapping[str, Any], env: Mapping[str, str]) -> tuple[str, str]:
    """Return the submitting user if no setting names one. With Kerberos it is the first part of the
    principal of the setting, the keytab or the ticket (Hadoop's default auth_to_local), if there
    is one.
    Without security it is HADOOP_USER_NAME (UserGroupInformation.HadoopLoginModule), if it is set.
    In all other cases it is the user of this process.
    """
    named = HADOOP_USER_NAME.of_caller(env)
    if values["auth"] == "simple" and named:
        return _user_of(USER_NAME_VARIABLE, named), USER_NAME_VARIABLE
    if values["auth"] == "kerberos":
        from submit_tf_job.host import kerberos

        if values["kerberos.principal"]:
            return kerberos.short_name(values["kerberos.principal"]), "kerberos.principal"
        if values["kerberos.keytab"]:
            first = kerberos.first_principal(values["kerberos.keytab"])
            if first:
                return kerberos.short_name(first), f"the first principal of the keytab, {first}"
        ticket = kerberos.ticket(values["kerberos.krb5_conf"])
        if ticket is not None:
            return kerberos.short_name(
                ticket.principal
            ), f"your Kerberos ticket, {ticket.principal}"
    return _os_user(), "who you are on this machine"


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise SettingsError(
            "the user running this has no name on this machine",
            hint="give --user NAME, or set `user`",
        ) from None


def _choose_profile(
    argument: str | None, env: Mapping[str, str], files: list[SettingsLayer]
) -> str | None:
    wanted = (
        argument
        or env.get(ENV_PREFIX + "PROFILE")
        or next((layer.default_profile for layer in files if layer.default_profile), None)
    )
    if wanted is None:
        return None
    known = sorted({name for layer in files for name in layer.profiles})
    if wanted not in known:
        hint = f"known profiles: {', '.join(known) or 'none'}"
        if wanted.startswith(SANDBOX_PROFILE):
            hint = "is it up? `submit_tf_job sandbox up`"
        raise SettingsError(f"there is no profile {wanted!r}", hint=hint)
    return wanted
