"""The databases for a gateway's state: SQLite in a local file, or PostgreSQL shared by gateways.

Both get the same SQL, with parameters written `:name`. The *leader*, the gateway that delivers
webhooks, holds a lock that the database or the kernel releases when its process dies, so no clock
is involved.
"""

from __future__ import annotations

import fcntl
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.host.secretfile import refuse_if_others_can_read

if TYPE_CHECKING:
    import psycopg

__all__ = ["Database", "DatabaseFailure", "Exists", "Lead", "open_database"]

Row = tuple[Any, ...]
_BUSY_S = 5.0  # SQLite: how long to wait while another process holds the file
_IDLE_SESSION_S = 60  # PostgreSQL: seconds of silence after which a leader loses the lead
_LOCK = 1_937_008_998
_KNOWN = "sqlite:///absolute/path, or postgresql://user@host/database"


class DatabaseFailure(Exception):
    """The database is unavailable: unreachable, disk full, or locked for too long."""


class Exists(Exception):
    """A row with this key exists already."""


class Lead(ABC):
    """The right to run statements as the leader."""

    @abstractmethod
    def run(self, sql: str, **values: object) -> list[Row]:
        """Run one statement as the leader.

        Raises:
            DatabaseFailure: The statement failed; with PostgreSQL the lead may be lost.
        """

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Whether another gateway may lead."""

    @abstractmethod
    def end(self) -> None:
        """Give up the lead."""


class Database(ABC):
    """A database that stores a gateway's state."""

    @abstractmethod
    def run(self, sql: str, **values: object) -> list[Row]:
        """Run one statement, which takes effect completely or not at all.

        Raises:
            DatabaseFailure: The statement failed.
            Exists: A row with this key exists.
        """

    @abstractmethod
    def lead(self) -> Lead | None:
        """Become the leader; None if another gateway leads.

        Raises:
            DatabaseFailure: The database is unavailable.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


def open_database(url: str) -> Database:
    """Open the database of a URL.

    Args:
        url: `sqlite:///absolute/path`, or `postgresql://…` in libpq's format; its password belongs
            in ~/.pgpass.

    Raises:
        UsageError: The URL is invalid, or contains a password.
        SettingsError: A package is missing, or the database cannot be opened.
    """
    parts = urlsplit(url)
    try:
        if (
            parts.scheme == "sqlite"
            and not parts.netloc
            and parts.path.startswith("/")
            and not parts.query
        ):
            return _SQLite(Path(unquote(parts.path)))
        if parts.scheme in ("postgresql", "postgres"):
            if parts.password is not None or re.search(r"(^|&)(ssl)?password=", parts.query):
                raise UsageError(
                    "--state: a password in a command line is visible to all users of this machine",
                    hint="put it into ~/.pgpass, or authenticate by a certificate or Kerberos",
                )
            return _PostgreSQL(url)
    except DatabaseFailure as error:
        raise SettingsError(f"--state: cannot be opened: {error}") from None
    raise UsageError(
        f"--state: {parts.scheme or 'this'} is not a supported database", hint=f"give {_KNOWN}"
    )


class _SQLite(Database):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _sqlite_errors():
            path.touch(0o600)
            # addresses of webhooks may contain secrets
            refuse_if_others_can_read(path, "the gateway's state")
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                # accepted webhooks survive a power failure, too
                self._connection.execute("PRAGMA synchronous=FULL")
            except sqlite3.Error:
                self._connection.close()
                raise

    def run(self, sql: str, **values: object) -> list[Row]:
        with self._lock, _sqlite_errors():
            return self._connection.execute(sql, values).fetchall()

    def lead(self) -> Lead | None:
        try:
            file = self._path.with_name(f"{self._path.name}-lead").open("a")
        except OSError as error:
            raise DatabaseFailure(str(error)) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return _FileLead(self, file)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError:
        raise Exists from None
    except (sqlite3.Error, OSError) as error:
        raise DatabaseFailure(f"SQLite: {error}") from None


class _FileLead(Lead):
    """A lock of the kernel on a file beside the database."""

    def __init__(self, database: Database, file: IO[str]) -> None:
        self._database, self._file = database, file

    def run(self, sql: str, **values: object) -> list[Row]:
        if self.is_lost:
            raise DatabaseFailure("this gateway no longer leads")
        return self._database.run(sql, **values)

    @property
    def is_lost(self) -> bool:
        return self._file.closed

    def end(self) -> None:
        self._file.close()


class _PostgreSQL(Database):
    def __init__(self, url: str) -> None:
        if find_spec("psycopg") is None:
            raise SettingsError(
                "--state: PostgreSQL needs the package psycopg",
                hint="pip install 'psycopg[binary]>=3.2'",
            )
        self._url = url
        self._lock = threading.Lock()
        self._session: _Session | None = _Session(url)
        self._candidate: _Session | None = None  # tries repeatedly to become the leader

    def run(self, sql: str, **values: object) -> list[Row]:
        with self._lock:
            if self._session is not None and self._session.is_open:
                try:
                    return self._session.run(sql, values)
                except DatabaseFailure:
                    if self._session.is_open:
                        raise
            # The server was restarted, or the network was interrupted: every statement here may run
            # twice.
            self._session = _Session(self._url)
            return self._session.run(sql, values)

    def lead(self) -> Lead | None:
        session = self._candidate
        if session is None or not session.is_open:
            session = self._candidate = _Session(self._url)
        ((mine,),) = session.run(
            "SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))", {"lock": _LOCK}
        )
        if not mine:
            return None
        self._candidate = None
        session.end_when_idle()
        return _SessionLead(session)

    def close(self) -> None:
        with self._lock:
            for session in (self._session, self._candidate):
                if session is not None:
                    session.close()


class _SessionLead(Lead):
    """An advisory lock of a PostgreSQL session.

    It ends with its connection, so only the leader can write over it.
    """

    def __init__(self, session: _Session) -> None:
        self._session = session

    def run(self, sql: str, **values: object) -> list[Row]:
        return self._session.run(sql, values)

    @property
    def is_lost(self) -> bool:
        return not self._session.is_open

    def end(self) -> None:
        self._session.close()


class _Session:
    """One connection to PostgreSQL, which psycopg lets one thread at a time use."""

    def __init__(self, url: str) -> None:
        import psycopg

        keepalive: dict[str, Any] = {
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        }
        with self._errors():
            self._connection: psycopg.Connection = psycopg.connect(
                url,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=5,
                application_name="submit_tf_job gateway",
                **keepalive,
            )
            self._connection.execute("SET statement_timeout = '10s'")

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    def run(self, sql: str, values: Mapping[str, object]) -> list[Row]:
        with self._errors():
            done = self._connection.execute(re.sub(r":(\w+)", r"%(\1)s", sql).encode(), values)
            return done.fetchall() if done.description else []

    def end_when_idle(self) -> None:
        """Make the server end this session and its lead if the gateway is suspended or cut off.

        PostgreSQL 14 and later only.
        """
        if self._connection.info.server_version >= 140_000:
            self.run(f"SET idle_session_timeout = '{_IDLE_SESSION_S}s'", {})

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    @contextmanager
    def _errors() -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.UniqueViolation:
            raise Exists from None
        except (psycopg.Error, OSError) as error:
            words = " ".join(str(error).split())
            raise DatabaseFailure(f"PostgreSQL: {words or type(error).__name__}") from None
