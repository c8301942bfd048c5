"""What is true of one user on one cluster: ResourceManagers, site facts, time-outs, defaults; and where each value came from.

The order, strongest first: arguments, environment (`SUBMIT_TF_JOB_<KEY>`), project file (`submit_tf_job.yaml` in the working directory or a
parent), user file (`~/.config/submit_tf_job/settings.yaml`), system file (`/etc/submit_tf_job/settings.yaml`), the Hadoop configuration
that HADOOP_CONF_DIR names, defaults. Inside one file the chosen profile beats the file's own top level. Unknown names are refused.

This module alone reads the process's environment.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from submit_tf_job import kerberos
from submit_tf_job.errors import SettingsError
from submit_tf_job.hadoopconf import read_xml, resource_managers
from submit_tf_job.secretfile import refuse_if_others_can_change, refuse_if_others_can_read

__all__ = [
    "KEYS",
    "USER_NAME",
    "Directories",
    "Key",
    "Settings",
    "directories",
    "duration_s",
    "krb5_conf_files",
    "load_settings",
    "process_environment",
]

ENV_PREFIX = "SUBMIT_TF_JOB_"
TEST_PREFIX = ENV_PREFIX + "TEST_"  # the test suite's own variables are no settings
PROJECT_FILE = "submit_tf_job.yaml"
SYSTEM_FILE = Path("/etc/submit_tf_job/settings.yaml")
SANDBOX_PROFILE = "sandbox"
AUTH_METHODS = ("simple", "kerberos", "delegation-token", "basic", "bearer")
USER_NAME = r"[A-Za-z_][A-Za-z0-9._-]*\$?"


# --- the keys --------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a text, found {value!r}")
    return value.strip()


def _name(pattern: str, what: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = _text(value)
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is no {what}")
        return text

    return parse


def _urls(value: Any) -> tuple[str, ...]:
    items = [item for item in re.split(r"[,\s]+", value) if item] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError(f"expected one or more URLs, found {value!r}")
    return tuple(_url(item) for item in items)


def _url(value: Any) -> str:
    text = _text(value)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is no number
        usable = False
    if not usable:
        raise ValueError(f"{value!r} is no address of a ResourceManager; write it as http://rm.example.com:8088")
    if parts.username or parts.password:
        raise ValueError("a ResourceManager's address must not hold a user or a password")
    if parts.query or parts.fragment:
        raise ValueError(f"{value!r} has a query; write only the address: {parts.scheme}://{parts.netloc}")
    path = parts.path.rstrip("/")
    if re.match(r"/(cluster|ws|app|proxy|ui2)(/|$)", path):  # copied from a browser; a path of its own is a gateway's
        raise ValueError(f"{value!r} is one of its pages; write only scheme, host and port: {parts.scheme}://{parts.netloc}")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _path(value: Any) -> Path:
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError:
        raise ValueError(f"{value!r} begins with the home directory of somebody who is not known here") from None


def _host_port(value: Any) -> str:
    text = _text(value)
    match = re.fullmatch(r"([\w.-]+):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError(f"{text!r} is no address; write host:port")
    return text


def _port_range(value: Any) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", _text(value))
    if not match or not 1024 <= int(match[1]) < int(match[2]) <= 65535:
        raise ValueError(f"{value!r} is no range of ports; write 20000-32767")
    return int(match[1]), int(match[2])


def duration_s(value: Any) -> float:
    """Read a duration such as 500ms, 30s, 5m or 1h, in seconds; ValueError where it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value.strip()) if isinstance(value, str) else None
    if not match:
        raise ValueError(f"{value!r} is no duration; write 500ms, 30s, 5m or 1h")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[match[2]]


def _bool(value: Any) -> bool:
    known = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, (bool, str)) or value not in known:
        raise ValueError(f"expected true or false, found {value!r}")
    return known[value]


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}")
        return str(value)

    return parse


def _command(value: Any) -> tuple[str, ...]:
    """Read a command as a list of words, or as a text with a shell's quoting; no shell runs it."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"{value!r}: {error}") from None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"expected a command, found {value!r}")
    return tuple(words)


def _words(value: Any) -> tuple[str, ...]:
    """Read a list of words, or a text that has them between commas or blanks; an empty list is one, too."""
    words = [item for item in re.split(r"[,\s]+", value) if item] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f"expected a list of words, found {value!r}")
    return tuple(words)


def _paths(value: Any) -> tuple[str, ...]:
    paths = _words(value)
    relative = next((path for path in paths if not path.startswith("/")), None)
    if relative is not None:
        raise ValueError(f"{relative!r} is no absolute path of the nodes")
    return paths


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, found {value!r}")
    return value


@dataclass(frozen=True)
class Key:
    """One setting.

    Attributes:
        parse: Turns what a file or a variable holds into the value; ValueError with a sentence where it cannot.
        project: Whether a project's file may set it. It may not say where jobs go or as whom: a checkout must not redirect its reader.
        env: Whether an environment variable can hold it.
    """

    name: str
    parse: Callable[[Any], Any]
    default: Any
    about: str
    project: bool = True
    env: bool = True

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENV_PREFIX + self.name.upper().replace(".", "_")


def _keys(*keys: Key) -> Mapping[str, Key]:
    return {key.name: key for key in keys}


KEYS = _keys(
    Key("resource_managers", _urls, (), "addresses of the ResourceManagers' web interfaces, http://host:8088", project=False),
    Key("user", _name(USER_NAME, "user name"), None, "user to submit as; default: who you are here", project=False),
    Key("auth", _one_of(*AUTH_METHODS), "simple", "how to prove who you are; default: what the Hadoop configuration says", project=False),
    Key(
        "as_user",
        _name(USER_NAME, "user name"),
        None,
        "submit as this user instead, where the ResourceManager lets you (doAs)",
        project=False,
    ),
    Key(
        "kerberos.principal",
        _name(r"[^\s@]+(@[^\s@]+)?", "Kerberos principal"),
        None,
        "who to log in as; default: the ticket's",
        project=False,
    ),
    Key("kerberos.keytab", _path, None, "keytab to log in with, instead of a ticket from kinit", project=False),
    Key("kerberos.krb5_conf", _path, None, "krb5.conf to use instead of this machine's", project=False),
    Key("credentials.file", _path, None, "file with the delegation token, the bearer token, or user:password", project=False),
    Key("credentials.command", _command, None, "command that prints what credentials.file would hold", project=False),
    Key("ca_file", _path, None, "CA certificates that https ResourceManagers are checked against", project=False),
    Key("hadoop_conf", _path, None, "directory with the cluster's core-site.xml, hdfs-site.xml and yarn-site.xml", project=False),
    Key("hadoop_version", _name(r"\d+\.\d+\.\d+\S*", "Hadoop version"), None, "Hadoop version, where the cluster is not to be asked"),
    Key("dns.domain", _name(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "DNS domain"), None, "hadoop.registry.dns.domain-name of the cluster"),
    Key("dns.server", _host_port, None, "Registry DNS, host:port, where the containers' resolver does not know it"),
    Key("gpu_resource", _name(r"[a-z0-9.-]+/[a-z0-9.-]+", "resource name"), "yarn.io/gpu", "YARN's name for a GPU"),
    Key("ports.range", _port_range, (20000, 32767), "ports that tasks on the host network use; below the ephemeral range"),
    Key("staging", _text, None, "directory for files that do not fit into the service; default <HDFS home>/.submit_tf_job/staging"),
    Key("docker.host", _text, None, "Docker Engine of this machine: unix:///path; default: what Docker itself takes", project=False),
    Key("docker.networks", _words, None, "networks that the cluster allows (docker.allowed.networks)"),
    Key("docker.ro_mounts", _paths, None, "paths of the nodes that may be mounted to be read (docker.allowed.ro-mounts)"),
    Key("docker.rw_mounts", _paths, None, "paths of the nodes that may be mounted to be written to (docker.allowed.rw-mounts)"),
    Key("docker.registries", _words, None, "registries whose images get mounts (docker.trusted.registries)"),
    Key("docker.runtimes", _words, None, "OCI runtimes that the cluster allows (docker.allowed.runtimes)"),
    Key("timeouts.connect", duration_s, 5.0, "to connect to a ResourceManager"),
    Key("timeouts.read", duration_s, 30.0, "to wait for an answer to a question"),
    Key("timeouts.failover", duration_s, 30.0, "to find a ResourceManager that answers, before a command gives up"),
    Key("timeouts.submit", duration_s, 300.0, "for a whole submission, failovers and lost answers included"),
    Key("timeouts.unreachable", duration_s, 900.0, "for which a watch bears an unreachable cluster before it gives up"),
    Key("poll.min", duration_s, 1.0, "shortest pause between two looks at a job"),
    Key("poll.max", duration_s, 15.0, "longest pause between two looks at a job"),
    Key("job", _mapping, {}, "a partial job spec: what jobs get where they are silent", env=False),
    Key("shapes", _mapping, {}, "named resource shapes: {big: {cpus: 8, memory: 32Gi, gpus: 1}}", env=False),
    Key("sandbox", _bool, False, "whether this profile is a sandbox of this machine", project=False, env=False),
)


# --- what comes out --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Directories:
    """Where this program keeps what (XDG base directories)."""

    config: Path
    state: Path
    cache: Path


@dataclass(frozen=True)
class Settings:
    """The settings of one invocation, made once.

    Attributes:
        profile: Name of the profile in force, or None.
        values: Key to value, for every key of `KEYS`.
        origins: Key to the place its value came from.
        login: Who we say we are; another than `user` where `as_user` is set.
    """

    profile: str | None
    values: Mapping[str, Any]
    origins: Mapping[str, str]
    directories: Directories
    login: str = ""
    hints: tuple[str, ...] = field(default=())

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def user(self) -> str:
        """User that jobs belong to."""
        return str(self.values["user"])

    @property
    def secure(self) -> bool:
        """Whether the cluster makes its users prove who they are: its containers get delegation tokens then.

        Behind a gateway only the Hadoop configuration tells.
        """
        if self.values["auth"] in ("basic", "bearer"):
            conf: Path | None = self.values["hadoop_conf"]
            core = read_xml(conf / "core-site.xml") if conf is not None else {}
            return core.get("hadoop.security.authentication", "simple").lower() == "kerberos"
        return bool(self.values["auth"] != "simple")

    @property
    def as_proxy(self) -> bool:
        """Whether we act for `user` as a proxy user."""
        return self.values["as_user"] is not None

    def acting_for(self, user: str) -> Settings:
        """Return these settings with `user` as `as_user`; the same where that is who we are anyway."""
        if user == self.user:
            return self
        values = {**self.values, "user": user, "as_user": user}
        return replace(self, values=values, origins={**self.origins, "user": "as_user, who is calling", "as_user": "who is calling"})

    @property
    def resource_managers(self) -> tuple[str, ...]:
        """Addresses of the ResourceManagers.

        Raises:
            SettingsError: None is known.
        """
        urls: tuple[str, ...] = self.values["resource_managers"]
        if not urls:
            raise SettingsError(
                "no ResourceManager is known: neither settings, environment nor HADOOP_CONF_DIR names one",
                hint="give --rm http://host:8088, or set resource_managers in "
                f"{self.directories.config / 'settings.yaml'}, or start one on this machine with `submit_tf_job sandbox up`",
            )
        return urls


def process_environment() -> dict[str, str]:
    """Return a copy of the process's environment, for programs that we start."""
    return dict(os.environ)


def krb5_conf_files(settings: Settings, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Find what krb5.conf is here: the setting's, else KRB5_CONFIG's (which may name several), else this machine's if it has one."""
    if settings["kerberos.krb5_conf"]:
        return (settings["kerberos.krb5_conf"],)
    named = (os.environ if environ is None else environ).get("KRB5_CONFIG", "")
    found = [Path(part) for part in named.split(":") if part] or [Path("/etc/krb5.conf")]
    return tuple(path for path in found if named or path.is_file())


def directories(environ: Mapping[str, str] | None = None) -> Directories:
    """Find where this user's configuration, state and caches live."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())

    def base(variable: str, fallback: str) -> Path:
        value = env.get(variable, "")
        return (Path(value) if value.startswith("/") else home / fallback) / "submit_tf_job"

    return Directories(
        config=base("XDG_CONFIG_HOME", ".config"), state=base("XDG_STATE_HOME", ".local/state"), cache=base("XDG_CACHE_HOME", ".cache")
    )


# --- layers ----------------------------------------------------------------------------------------------------------


# Dotted key → the raw value, and the text that says where it stands.
_Values: TypeAlias = Mapping[str, tuple[Any, str]]
# Dotted key → the text that says where it stands: file:line:column.
_At: TypeAlias = Callable[[str], str]


@dataclass(frozen=True)
class _Layer:
    """What one file says."""

    values: _Values
    default_profile: str | None = None
    profiles: Mapping[str, _Values] = field(default_factory=dict)


def load_settings(
    *,
    arguments: Mapping[str, Any] | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    system_file: Path = SYSTEM_FILE,
) -> Settings:
    """Read all layers and decide every setting.

    Args:
        arguments: Key to raw value, from the command line or a call; None values count as not given.
        profile: Profile to use; default: SUBMIT_TF_JOB_PROFILE, then the files' `default_profile`, then a sandbox that is up.

    Raises:
        SettingsError: A file cannot be read, a name is unknown, a value is wrong, or the profile does not exist.
    """
    env = os.environ if environ is None else environ
    dirs = directories(env)
    here = Path.cwd() if cwd is None else cwd
    files = [
        _project_layer(here, Path(env.get("HOME") or "/")),
        _file_layer(dirs.config / "settings.yaml"),
        _profiles_d(dirs.config / "profiles.d"),
        _file_layer(system_file, shared=True),
    ]
    strongest = [{key: (value, "argument") for key, value in (arguments or {}).items() if value not in (None, (), [])}, _env_layer(env)]
    chosen = _choose_profile(profile, env, files)
    stack = _stack(strongest, files, chosen, env)
    if chosen is None and any(SANDBOX_PROFILE in layer.profiles for layer in files) and not any("resource_managers" in v for v in stack):
        chosen = SANDBOX_PROFILE
        stack = _stack(strongest, files, chosen, env)
    return _decide(chosen, stack, dirs)


def _stack(strongest: list[_Values], files: list[_Layer], profile: str | None, env: Mapping[str, str]) -> list[_Values]:
    """Order all layers, the strongest first; the last is the Hadoop configuration that they name."""
    stack = [*strongest]
    for layer in files:
        stack += [layer.profiles.get(profile or "", {}), layer.values]
    directory, origin = next((values["hadoop_conf"] for values in stack if "hadoop_conf" in values), (None, ""))
    if directory is None:
        return [*stack, _hadoop_layer(env.get("HADOOP_CONF_DIR", ""), "HADOOP_CONF_DIR")]
    try:
        return [*stack, _hadoop_layer(str(_path(directory)), "hadoop_conf")]
    except ValueError as error:
        raise SettingsError(f"{origin}: hadoop_conf: {error}") from None


def _decide(profile: str | None, stack: list[_Values], dirs: Directories) -> Settings:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, key in KEYS.items():
        raw, origin = next((layer[name] for layer in stack if name in layer), (key.default, "default"))
        try:
            values[name] = raw if origin == "default" else key.parse(raw)
        except ValueError as error:
            raise SettingsError(f"{origin}: {name}: {error}") from None
        origins[name] = origin
    if values["user"] is None:
        values["user"], origins["user"] = _who(values)
    login = values["user"]
    if values["as_user"] is not None:
        values["user"], origins["user"] = values["as_user"], f"as_user, {origins['as_user']}"
    return Settings(profile, values, origins, dirs, login)


def _who(values: Mapping[str, Any]) -> tuple[str, str]:
    """Find out who submits, where no setting says so: with Kerberos the first part of the principal (Hadoop's default auth_to_local)."""
    if values["auth"] == "kerberos":
        if values["kerberos.principal"]:
            return kerberos.short_name(values["kerberos.principal"]), "kerberos.principal"
        ticket = kerberos.ticket(values["kerberos.krb5_conf"])
        if ticket is not None:
            return kerberos.short_name(ticket.principal), f"your Kerberos ticket, {ticket.principal}"
    return _os_user(), "who you are on this machine"


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise SettingsError("the user running this has no name on this machine", hint="give --user NAME, or set `user`") from None


def _choose_profile(argument: str | None, env: Mapping[str, str], files: list[_Layer]) -> str | None:
    known = sorted({name for layer in files for name in layer.profiles})
    wanted = argument or env.get(ENV_PREFIX + "PROFILE") or next((layer.default_profile for layer in files if layer.default_profile), None)
    if wanted is None:
        return None
    if wanted not in known:
        hint = (
            "is it up? `submit_tf_job sandbox up`"
            if wanted.startswith(SANDBOX_PROFILE)
            else f"known profiles: {', '.join(known) or 'none'}"
        )
        raise SettingsError(f"there is no profile {wanted!r}", hint=hint)
    return wanted


def _env_layer(env: Mapping[str, str]) -> _Values:
    variables = {key.variable: key.name for key in KEYS.values() if key.env}
    values: dict[str, tuple[Any, str]] = {}
    for variable, value in env.items():
        if not variable.startswith(ENV_PREFIX) or variable == ENV_PREFIX + "PROFILE" or variable.startswith(TEST_PREFIX):
            continue
        if variable not in variables:
            raise SettingsError(f"the environment variable {variable} is no setting{_did_you_mean(variable, variables)}")
        values[variables[variable]] = (value, f"environment variable {variable}")
    return values


def _project_layer(cwd: Path, home: Path) -> _Layer:
    for directory in (cwd, *cwd.parents):
        if (directory / PROJECT_FILE).is_file():
            return _file_layer(directory / PROJECT_FILE, project=True)
        if directory == home or (directory / ".git").exists():
            break
    return _Layer({})


def _file_layer(path: Path, *, project: bool = False, shared: bool = False) -> _Layer:
    content, at = _read_yaml(path)
    profiles = content.pop("profiles", None) or {}
    default_profile = content.pop("default_profile", None)
    if not isinstance(profiles, dict) or not all(isinstance(body, dict) for body in profiles.values()):
        raise SettingsError(f"{at('profiles')}: profiles: expected a mapping of profile names to settings")
    if default_profile is not None and not isinstance(default_profile, str):
        raise SettingsError(f"{at('default_profile')}: default_profile: expected the name of a profile, found {default_profile!r}")
    if project and profiles:
        raise SettingsError(
            f"{at('profiles')}: profiles: a project's file cannot define profiles", hint="put them into your own settings.yaml"
        )
    values = _flatten(content, at, project=project)
    of_profiles = {str(name): _flatten(body, partial(_in_profile, at, str(name))) for name, body in profiles.items()}
    _check_rights(path, (values, *of_profiles.values()), shared=shared)
    return _Layer(values, default_profile, of_profiles)


def _check_rights(path: Path, layers: Iterable[_Values], *, shared: bool = False) -> None:
    """Refuse a file whose words are run, where others could change them or (a secret may be among them) read them."""
    if any("credentials.command" in values for values in layers):
        check = refuse_if_others_can_change if shared else refuse_if_others_can_read
        check(path, "a settings file with a credentials.command:")


def _in_profile(at: _At, profile: str, key: str) -> str:
    return f"{at(f'profiles.{profile}.{key}')}, profile {profile}"


def _profiles_d(directory: Path) -> _Layer:
    """Read profiles that programs keep, one file each; the sandbox writes its own here and takes it away."""
    profiles: dict[str, _Values] = {}
    for path in sorted(directory.glob("*.yaml")) if directory.is_dir() else []:
        profiles[path.stem] = _flatten(*_read_yaml(path))
        _check_rights(path, (profiles[path.stem],))
    return _Layer({}, None, profiles)


def _read_yaml(path: Path) -> tuple[dict[str, Any], _At]:
    """Read a file, and how to say where one of its keys stands; a file that is not there is empty."""
    from submit_tf_job.yamlfile import YamlProblem, read_mapping

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    if not text:
        return {}, str  # and without PyYAML
    try:
        content, places = read_mapping(text)
    except YamlProblem as problem:
        raise SettingsError(f"{path}:{problem.line}:{problem.column}: {problem.message}") from None

    def at(key: str) -> str:
        line, column = places.get(key, (1, 1))
        return f"{path}:{line}:{column}"

    return content, at


def _flatten(content: Mapping[str, Any], at: _At, *, project: bool = False) -> _Values:
    out: dict[str, tuple[Any, str]] = {}
    for name, value in _dotted(content):
        if name not in KEYS:
            raise SettingsError(f"{at(name)}: {name}: unknown setting{_did_you_mean(name, KEYS)}")
        if project and not KEYS[name].project:
            raise SettingsError(
                f"{at(name)}: {name}: a project's file cannot say where jobs go or as whom", hint="put it into your own settings.yaml"
            )
        if name in out:
            raise SettingsError(f"{at(name)}: {name}: stands here twice")
        out[name] = (value, at(name))
    return out


def _dotted(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        full = f"{prefix}{name}"
        is_group = any(key.startswith(full + ".") for key in KEYS)
        if is_group and isinstance(value, dict):
            yield from _dotted(value, full + ".")
        elif value is not None:
            yield full, value


def _did_you_mean(name: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"


# --- HADOOP_CONF_DIR -------------------------------------------------------------------------------------------------


def _hadoop_layer(directory: str, origin: str) -> _Values:
    if not directory:
        return {}
    conf = Path(directory)
    yarn, core = read_xml(conf / "yarn-site.xml"), read_xml(conf / "core-site.xml")
    values: dict[str, tuple[Any, str]] = {}
    urls = resource_managers(yarn)
    if urls:
        values["resource_managers"] = (urls, f"{origin}: {conf / 'yarn-site.xml'}")
    domain = core.get("hadoop.registry.dns.domain-name")
    if domain:
        values["dns.domain"] = (domain, f"{origin}: {conf / 'core-site.xml'}")
    method = core.get("hadoop.security.authentication", "").lower()
    if method in ("simple", "kerberos"):
        values["auth"] = (method, f"{origin}: {conf / 'core-site.xml'}")
    if yarn or core:
        values["hadoop_conf"] = (directory, origin)
    return values
