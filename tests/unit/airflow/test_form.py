"""A connection becomes settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from submit_tf_job.airflow.form import FIELDS, PLACEHOLDERS, Given, read_connection
from submit_tf_job.airflow.provider import get_provider_info
from submit_tf_job.errors import SettingsError
from submit_tf_job.settings import KEYS


def read(extra: Any = None, **fields: Any) -> Given:
    text = extra if isinstance(extra, str) or extra is None else json.dumps(extra)
    return read_connection(**{"host": None, "port": None, "schema": None, "login": None, "password": None, "extra": text, **fields})


def test_fields_are_settings() -> None:
    spellings = {name.replace(".", "_") for name in KEYS}
    assert set(FIELDS) - {"profile"} <= spellings
    assert set(PLACEHOLDERS) - {"host", "login"} <= set(FIELDS)
    (kind,) = get_provider_info()["connection-types"]
    assert set(kind["conn-fields"]) == set(FIELDS)


@pytest.mark.parametrize(
    ("fields", "urls"),
    [
        ({"host": "http://rm1:8088, https://rm2:8090"}, ["http://rm1:8088", "https://rm2:8090"]),
        ({"host": "rm1,rm2:1234"}, ["http://rm1:8088", "http://rm2:1234"]),
        ({"host": "rm1", "port": 8090, "schema": "https"}, ["https://rm1:8090"]),
    ],
)
def test_addresses(fields: dict[str, Any], urls: list[str]) -> None:
    assert read(**fields).settings == {"resource_managers": urls}


def test_every_spelling_of_a_setting() -> None:
    given = read(
        {
            "auth": "kerberos",
            "kerberos_keytab": "/a.keytab",
            "kerberos": {"principal": "a@B"},
            "poll.max": "5s",
            "as_user": "",
            "ca_file": None,
        },
        login="alice",
    )
    assert given == Given(
        {"auth": "kerberos", "kerberos.keytab": "/a.keytab", "kerberos.principal": "a@B", "poll.max": "5s", "user": "alice"}
    )
    assert read({"profile": "prod", "job": {"queue": "ml"}}) == Given({"job": {"queue": "ml"}}, "prod")
    assert read("") == Given({})


def test_a_password_is_a_secret_and_nothing_else() -> None:
    given = read({"auth": "basic"}, login="alice", password="s3cret")
    assert given.secret == "alice:s3cret"
    assert "s3cret" not in repr(given)
    assert read({"auth": "bearer"}, password="token").secret == "token"
    assert read({"auth": "bearer"}, password="").secret is None


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("{", "its extra is no JSON: "),
        ("[]", "its extra is no JSON object"),
        ({"kerberos_keytap": "x"}, "kerberos_keytap: unknown setting"),
        ({"kerberos": {"keytap": "x"}}, "kerberos.keytap: unknown setting"),
    ],
)
def test_what_is_no_connection(extra: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(extra)
    with pytest.raises(SettingsError, match="it has a password and no user"):
        read({"auth": "basic"}, password="x")
