"""The connection's form: which fields it has, and how their values become settings; without Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import SettingsError

__all__ = ["FIELDS", "HIDDEN", "PLACEHOLDERS", "RELABELED", "Given", "read_connection"]

# Field of the form → its label. The names are those of settings, with `_` for `.`; any other setting may stand in the extra, too.
FIELDS: Mapping[str, str] = {
    "auth": "Authentication",
    "as_user": "Submit as (doAs)",
    "hadoop_conf": "Hadoop configuration directory",
    "kerberos_principal": "Kerberos principal",
    "kerberos_keytab": "Keytab file",
    "kerberos_krb5_conf": "krb5.conf file",
    "credentials_file": "Credentials file",
    "ca_file": "CA file",
    "profile": "Settings profile",
}
HIDDEN = ("schema", "port")
RELABELED: Mapping[str, str] = {"host": "ResourceManagers", "login": "User", "password": "Password or token"}
PLACEHOLDERS: Mapping[str, str] = {
    "host": "http://rm1.example.com:8088,http://rm2.example.com:8088",
    "login": "who the jobs belong to",
    "auth": "simple, kerberos, delegation-token, basic or bearer",
    "hadoop_conf": "/etc/hadoop/conf",
    "kerberos_keytab": "/etc/security/keytabs/airflow.keytab",
}
_PORT = 8088


@dataclass(frozen=True)
class Given:
    """What a connection says.

    Attributes:
        settings: Settings, by name.
        profile: The settings profile that it builds on.
        secret: A password or token.
    """

    settings: Mapping[str, Any]
    profile: str | None = None
    secret: str | None = field(default=None, repr=False)


def read_connection(
    *, host: str | None, port: int | None, schema: str | None, login: str | None, password: str | None, extra: str | None
) -> Given:
    """Read the fields of a connection.

    Raises:
        SettingsError: It has an unknown setting, or its extra is no JSON object.
    """
    settings = dict(_settings(_extra(extra)))
    profile = settings.pop("profile", None)
    if host:
        settings["resource_managers"] = _urls(host, port, schema)
    if login:
        settings["user"] = login
    secret = password or None
    if secret and settings.get("auth") == "basic":
        if not login:
            raise SettingsError("it has a password and no user", hint="fill in User")
        secret = f"{login}:{secret}"
    return Given(settings, profile, secret)


def _extra(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise SettingsError(f"its extra is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError("its extra is no JSON object")
    return found


def _settings(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give settings by their names; a group may be an object of its own, and an empty field of the form says nothing."""
    from submit_tf_job.settings import KEYS

    names = {"profile": "profile", **{spelling: name for name in KEYS for spelling in (name, name.replace(".", "_"))}}
    groups = {name.partition(".")[0] for name in KEYS if "." in name}
    for spelling, value in extra.items():
        if spelling in groups and isinstance(value, dict):
            yield from _settings({f"{spelling}.{key}": inner for key, inner in value.items()})
        elif spelling not in names:
            raise SettingsError(f"{spelling}: unknown setting", hint=f"known are {', '.join(sorted(names))}")
        elif value not in (None, ""):
            yield names[spelling], value


def _urls(host: str, port: int | None, schema: str | None) -> list[str]:
    """Read addresses as they stand; one host alone gets its scheme and port from their fields."""
    hosts = [part.strip() for part in host.split(",") if part.strip()]
    return [part if "://" in part else f"{schema or 'http'}://{part if ':' in part else f'{part}:{port or _PORT}'}" for part in hosts]
