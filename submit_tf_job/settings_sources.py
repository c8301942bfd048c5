"""The sources of settings: files with profiles, environment variables, the Hadoop configuration.

Each source is read as a layer: a mapping from the name of a setting to its raw value and the place
where it is set. `settings.py` has the settings, and decides which layer takes precedence.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import (
    YARN,
    configuration,
    resource_managers,
    why_none,
)
from submit_tf_job.host.user_files import (
    read_input,
    reason,
    refuse_if_others_can_change,
    refuse_if_others_can_read,
)

ENV_PREFIX = "SUBMIT_TF_JOB_"
TEST_PREFIX = ENV_PREFIX + "TEST_"  # the test suite's own variables are not settings
PROJECT_FILE = "submit_tf_job.yaml"
SETTINGS_FILE_MAX = 1024 * 1024

# Mappings of which a stronger source replaces single keys, as a job spec does with the settings'
# `job`. Mounts are a list, merged by their targets. Other mappings are replaced as a whole.
_MOUNTS = "job.mounts"
_MERGED = ("job.env", "job.docker", _MOUNTS, "job", "shapes")

# The name of a setting → its raw value, and its position. A mapping of `_MERGED` is {} itself, and
# each of its keys is an entry of its own: `job.env.LR`.
Values: TypeAlias = Mapping[str, tuple[Any, str]]
# the name of a setting → its position: file:line:column
_At: TypeAlias = Callable[[str], str]


class Setting(NamedTuple):
    """One setting, with its name in files and variables.

    Attributes:
        name: The dotted name, such as `poll.min`.
        path: The names of the attributes of `Settings` that lead to the value.
        parse: Converts the raw value; raises ValueError if it is not valid.
        about: The help text.
        merged: Whether it is a mapping of which a stronger source replaces single keys.
        project: Whether a project's file may set it.
        env: Whether an environment variable may set it.
    """

    name: str
    path: tuple[str, ...]
    parse: Callable[[Any], Any]
    default: Any
    about: str
    merged: bool
    project: bool
    env: bool

    @property
    def variable(self) -> str:
        """The environment variable that sets this setting."""
        return ENV_PREFIX + self.name.upper().replace(".", "_")

    def value_of(self, settings: object) -> object:
        """Return the value of this setting in an object of `Settings`."""
        return reduce(getattr, self.path, settings)


class SettingsLayer(NamedTuple):
    """The settings of one file: the values at its top level, the name of its default profile, and
    its profiles.
    """

    values: Values
    default_profile: str | None = None
    profiles: Mapping[str, Values] = MappingProxyType({})


class Sources(NamedTuple):
    """Reads the sources of the given settings.

    Attributes:
        keys: Every setting by its name.
    """

    keys: Mapping[str, Setting]

    def files(
        self, env: Mapping[str, str], config: Path, here: Path, system_file: Path
    ) -> list[SettingsLayer]:
        """Return the layers of all files, the layer with the highest precedence first.

        Args:
            env: The environment, for HOME.
            config: The user's directory of this program, with `settings.yaml` and `profiles.d`.
            here: The directory from which the project's file is searched, upwards to HOME or a Git
                repository.
            system_file: The file for all users of this machine.

        Raises:
            SettingsError: A file cannot be read, or contains something other than settings.
        """
        return [
            self._project_layer(here, Path(env.get("HOME") or "/")),
            self._file_layer(config / "settings.yaml"),
            self._profiles_d(config / "profiles.d"),
            self._file_layer(system_file, shared=True),
        ]

    def variables(self, env: Mapping[str, str]) -> Values:
        """Return the layer of the environment variables. The variables of the profile and of the
        test suite are not settings.

        Raises:
            SettingsError: Any other variable with the prefix is not a setting.
        """
        own = [name for name in env if name.startswith(ENV_PREFIX)]
        if not own:
            return {}
        values: dict[str, tuple[Any, str]] = {}
        known = {key.variable: key.name for key in self.keys.values() if key.env}
        for variable in own:
            if variable == ENV_PREFIX + "PROFILE" or variable.startswith(TEST_PREFIX):
                continue
            if variable not in known:
                raise SettingsError(
                    f"the environment variable {variable} is not a "
                    f"setting{did_you_mean(variable, known)}"
                )
            values[known[variable]] = (env[variable], f"environment variable {variable}")
        return values

    def _project_layer(self, cwd: Path, home: Path) -> SettingsLayer:
        for directory in (cwd, *cwd.parents):
            if (directory / PROJECT_FILE).is_file():
                _refuse_planted_file(directory / PROJECT_FILE)
                return self._file_layer(directory / PROJECT_FILE, project=True)
            if directory == home or (directory / ".git").exists():
                break
        return SettingsLayer({})

    def _file_layer(
        self, path: Path, *, project: bool = False, shared: bool = False
    ) -> SettingsLayer:
        content, at = _read_yaml(path)
        if not content:
            return SettingsLayer({})
        profiles = content.pop("profiles", None) or {}
        default_profile = content.pop("default_profile", None)
        if not isinstance(profiles, dict) or not all(
            isinstance(body, dict) for body in profiles.values()
        ):
            raise SettingsError(
                f"{at('profiles')}: profiles: expected a mapping of profile names to settings"
            )
        if default_profile is not None and not isinstance(default_profile, str):
            raise SettingsError(
                f"{at('default_profile')}: default_profile: expected the name of a profile, "
                f"found {default_profile!r}"
            )
        if project and profiles:
            raise SettingsError(
                f"{at('profiles')}: profiles: a project's file cannot define profiles",
                hint="put them into your own settings.yaml",
            )
        if project and default_profile is not None:
            raise _no_key_of_projects(at("default_profile"), "default_profile")
        values = self._values_by_name(content, at, project=project)
        of_profiles = {
            str(name): self._values_by_name(body, partial(_in_profile, at, str(name)))
            for name, body in profiles.items()
        }
        _check_rights(path, (values, *of_profiles.values()), shared=shared)
        return SettingsLayer(values, default_profile, of_profiles)

    def _profiles_d(self, directory: Path) -> SettingsLayer:
        """Read the profiles that programs write as one file each, such as the profile of the
        sandbox.
        """
        profiles: dict[str, Values] = {}
        for path in sorted(directory.glob("*.yaml")) if directory.is_dir() else []:
            profiles[path.stem] = self._values_by_name(*_read_yaml(path))
            _check_rights(path, (profiles[path.stem],))
        return SettingsLayer({}, None, profiles)

    def _values_by_name(
        self, content: Mapping[str, Any], at: _At, *, project: bool = False
    ) -> Values:
        out: dict[str, tuple[Any, str]] = {}
        for name, value in self._dotted_names(content):
            if name not in self.keys:
                raise SettingsError(
                    f"{at(name)}: {name}: unknown setting{did_you_mean(name, self.keys)}"
                )
            if project and not self.keys[name].project:
                raise _no_key_of_projects(at(name), name)
            if name in out:
                raise SettingsError(f"{at(name)}: {name}: is stated twice")
            for path, one, place in single_keys(name, value):
                if path in out:
                    raise SettingsError(f"{at(place)}: {path}: is stated twice")
                out[path] = (one, at(place))
        return out

    def _dotted_names(
        self, content: Mapping[str, Any], prefix: str = ""
    ) -> Iterator[tuple[str, Any]]:
        for name, value in content.items():
            full = f"{prefix}{name}"
            is_group = any(key.startswith(full + ".") for key in self.keys)
            if is_group and isinstance(value, dict):
                yield from self._dotted_names(value, full + ".")
            elif value is not None:
                yield full, value


def single_keys(path: str, value: Any, place: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield a setting as entries of a layer: its path, its raw value, and its path in the file.

    A mapping that is merged key by key (`_MERGED`) becomes an entry with the value {}, followed by
    one entry for each of its keys.

    Args:
        path: The name of the setting.
        value: Its raw value.
        place: Its path in the file; default: `path`.
    """
    place = place or path
    if path == _MOUNTS and isinstance(value, list):
        yield path, {}, place
        for item in value:  # a file's positions are of keys
            # by its target; the job spec's reader has the message for what is not a mount
            source, _, rest = str(item).partition(":")
            yield f"{path}.{rest.partition(':')[0] or source}", item, place
    elif path in _MERGED and path != _MOUNTS and isinstance(value, dict):
        yield path, {}, place
        for key, inner in value.items():
            yield from single_keys(f"{path}.{key}", inner, f"{place}.{key}")
    else:
        yield path, value, place


def merge_keys(name: str, stack: Sequence[Values]) -> tuple[Any, dict[str, str]]:
    """Return the value of a setting whose mappings are merged, and the origins of its keys by their
    paths (`job.env.LR`, `job.mounts[0]`). A key for which a stronger source has null is not set.

    Args:
        name: `job` or `shapes`.
        stack: The layers of all sources, the strongest first; one of them has the setting.
    """
    found: dict[str, tuple[Any, str]] = {}
    for layer in reversed(stack):
        for path, stated in layer.items():
            if path != name and not path.startswith(f"{name}."):
                continue
            if not _is_merged(path, stated[0]):
                found = {old: it for old, it in found.items() if not old.startswith(f"{path}.")}
            found[path] = stated
    if not _is_merged(name, found[name][0]):
        return found[name][0], {name: found[name][1]}
    value: dict[str, Any] = {}
    origins = {name: ", ".join(layer[name][1] for layer in stack if name in layer)}
    for path, (raw, origin) in found.items():
        if path == name or raw is None or _is_merged(path, raw):
            continue
        parent = next(known for known in _MERGED if path.startswith(f"{known}."))
        group = value
        for part in parent.split(".")[1:]:
            group = group.setdefault(part, {})
        group[path.removeprefix(f"{parent}.")] = raw
        origins[path] = origin
    if _is_merged(_MOUNTS, found.get(_MOUNTS, (None,))[0]) and "mounts" in value:
        value["mounts"], targets = list(value["mounts"].values()), list(value["mounts"])
        for index, target in enumerate(targets):
            origins[f"{_MOUNTS}[{index}]"] = origins.pop(f"{_MOUNTS}.{target}")
    return value, origins


def _is_merged(path: str, raw: object) -> bool:
    """Return whether an entry of a layer stands for a mapping whose keys are entries of their
    own.
    """
    return path in _MERGED and raw == {}


def _no_key_of_projects(place: str, name: str) -> SettingsError:
    return SettingsError(
        f"{place}: {name}: a project's file cannot say where jobs go or as whom",
        hint="put it into your own settings.yaml",
    )


def _refuse_planted_file(path: Path) -> None:
    """Refuse a project's file that another user has put into a directory where everybody may, such
    as /tmp: it decides what jobs run.
    """
    is_everybodys = path.parent.stat().st_mode & 0o002
    if is_everybodys and path.lstat().st_uid not in (0, os.geteuid()):
        raise SettingsError(
            f"{path}: another user has put it into a directory where everybody may write",
            hint="work in a directory of your own: below your home, or in a Git repository",
        )


def _check_rights(path: Path, layers: Iterable[Values], *, shared: bool = False) -> None:
    """Refuse a file with a credentials command if other users can change it; unless `shared`, also
    if they can read it.
    """
    if any("credentials.command" in values for values in layers):
        check = refuse_if_others_can_change if shared else refuse_if_others_can_read
        check(path, "a settings file with a credentials.command:")


def _in_profile(at: _At, profile: str, key: str) -> str:
    return f"{at(f'profiles.{profile}.{key}')}, profile {profile}"


def _read_yaml(path: Path) -> tuple[dict[str, Any], _At]:
    """Read a file. Return its content, and a function that returns the position of a key; a missing
    file counts as empty.

    Raises:
        SettingsError: The file cannot be read, is too large, or is not a mapping in YAML.
    """
    try:
        raw = read_input(path, SETTINGS_FILE_MAX + 1)
        text = raw.decode("utf-8")
    except FileNotFoundError:
        return {}, str
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {reason(error)}") from None
    if len(raw) > SETTINGS_FILE_MAX:
        raise SettingsError(f"{path}: larger than {SETTINGS_FILE_MAX // 1024} KiB")
    if not text:
        return {}, str
    # imported here: mostly there is no such file
    from submit_tf_job.host.located.text_source import read_mapping
    from submit_tf_job.host.located.tree import Location, Unreadable

    try:
        content, places = read_mapping(text, str(path))
    except Unreadable as problem:
        raise SettingsError(f"{problem.place}: {problem}") from None

    def at(key: str) -> str:
        return str(places.get(key, Location(str(path), 1, 1)))

    return content, at


def did_you_mean(name: str, known: Mapping[str, object]) -> str:
    """Return the end of a message about an unknown name: the similar known name that was probably
    meant, or else all known names.
    """
    for close in difflib.get_close_matches(name, list(known), n=1, cutoff=0.6):
        return f"; did you mean {close}?"
    return f"; known are {', '.join(sorted(known))}"


def hadoop_layer(directory: str, origin: str) -> Values:
    """Return the layer of the settings that a Hadoop configuration contains.

    Args:
        directory: The directory of the configuration.
        origin: What named the directory. If HADOOP_CONF_DIR did, and no ResourceManager is found
            there, the layer has an empty list of them, so that the sandbox is not used instead.

    Raises:
        SettingsError: A file of the configuration cannot be read.
    """
    conf = Path(directory)
    found = configuration(conf, YARN)
    values: dict[str, tuple[Any, str]] = {}
    urls, source = resource_managers(found), f"{origin}: {conf / 'yarn-site.xml'}"
    if urls:
        values["resource_managers"] = (urls, source)
    elif origin == "HADOOP_CONF_DIR":  # says which cluster is meant, so the sandbox is not used
        why = why_none(found) if (conf / "yarn-site.xml").is_file() else "is not there"
        values["resource_managers"] = ((), f"{source} {why}")
    if domain := found.get("hadoop.registry.dns.domain-name"):
        source = found.origins["hadoop.registry.dns.domain-name"]
        values["dns.domain"] = (domain, f"{origin}: {source}")
    method = found.get("hadoop.security.authentication", "").lower()
    if method in ("simple", "kerberos"):
        values["auth"] = (method, f"{origin}: {found.origins['hadoop.security.authentication']}")
    if found:
        values["hadoop_conf"] = (directory, origin)
    return values
