"""The two databases that a gateway may keep its state in: SQLite in a file of this machine, or PostgreSQL, which several gateways share.

Both speak the same SQL here, with parameters written `:name`. Which gateway *leads* (looks after what is kept) is a lock that its database
or this machine's kernel takes away from whoever dies, so no clock has a say in it.
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
from submit_tf_job.secretfile import refuse_if_others_can_read

if TYPE_CHECKING:
    import psycopg

__all__ = ["Database", "DatabaseTrouble", "Exists", "Lead", "open_database"]

Row = tuple[Any, ...]
_BUSY_S = 5.0  # SQLite: for which another process may hold the file
_SILENT_S = 60  # PostgreSQL: after which a leader that says nothing is one no more
_LOCK = 1_937_008_998
_KNOWN = "sqlite:///absolute/path, or postgresql://user@host/database"


class DatabaseTrouble(Exception):
    """The database cannot be used now: it is away, its disk is full, another holds it for too long."""


class Exists(Exception):
    """A row like this one is there already."""


class Lead(ABC):
    """The right to look after what is kept, while `run` works."""

    @abstractmethod
    def run(self, sql: str, **values: object) -> list[Row]:
        """Run one statement as the leader.

        Raises:
            DatabaseTrouble: It cannot be done; with PostgreSQL the lead may be lost with that.
        """

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Whether another may lead."""

    @abstractmethod
    def end(self) -> None:
        """Give it up."""


class Database(ABC):
    """Where state is kept."""

    @abstractmethod
    def run(self, sql: str, **values: object) -> list[Row]:
        """Run one statement, which takes effect whole or not at all.

        Raises:
            DatabaseTrouble: It cannot be done.
            Exists: A row like this one is there.
        """

    @abstractmethod
    def lead(self) -> Lead | None:
        """Become the leader, None where another one is.

        Raises:
            DatabaseTrouble: The database cannot be asked.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


def open_database(url: str) -> Database:
    """Open the database of a URL.

    Args:
        url: `sqlite:///absolute/path` or `postgresql://…`, as libpq reads it; its password is in ~/.pgpass, not here.

    Raises:
        UsageError: It is none, or holds a password.
        SettingsError: A package is missing, or the database cannot be opened.
    """
    parts = urlsplit(url)
    try:
        if parts.scheme == "sqlite" and not parts.netloc and parts.path.startswith("/") and not parts.query:
            return _SQLite(Path(unquote(parts.path)))
        if parts.scheme in ("postgresql", "postgres"):
            if parts.password is not None or re.search(r"(^|&)(ssl)?password=", parts.query):
                raise UsageError(
                    "--state: a password in a command line is seen by everybody on this machine",
                    hint="put it into ~/.pgpass, or let the gateway come in by a certificate or Kerberos",
                )
            return _PostgreSQL(url)
    except DatabaseTrouble as error:
        raise SettingsError(f"--state: cannot be opened: {error}") from None
    raise UsageError(f"--state: {parts.scheme or 'this'} is no database that is known here", hint=f"give {_KNOWN}")


class _SQLite(Database):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _sqlite_trouble():
            path.touch(0o600)
            refuse_if_others_can_read(path, "the gateway's state")  # addresses of webhooks may hold secrets
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=FULL")  # what was promised survives a power failure, too
            except sqlite3.Error:
                self._connection.close()
                raise

    def run(self, sql: str, **values: object) -> list[Row]:
        with self._lock, _sqlite_trouble():
            return self._connection.execute(sql, values).fetchall()

    def lead(self) -> Lead | None:
        try:
            file = self._path.with_name(f"{self._path.name}-lead").open("a")
        except OSError as error:
            raise DatabaseTrouble(str(error)) from None
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
def _sqlite_trouble() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError:
        raise Exists from None
    except (sqlite3.Error, OSError) as error:
        raise DatabaseTrouble(f"SQLite: {error}") from None


class _FileLead(Lead):
    """The lock that the kernel keeps on a file beside the database."""

    def __init__(self, database: Database, file: IO[str]) -> None:
        self._database, self._file = database, file

    def run(self, sql: str, **values: object) -> list[Row]:
        if self.is_lost:
            raise DatabaseTrouble("this gateway does not lead any more")
        return self._database.run(sql, **values)

    @property
    def is_lost(self) -> bool:
        return self._file.closed

    def end(self) -> None:
        self._file.close()


class _PostgreSQL(Database):
    def __init__(self, url: str) -> None:
        if find_spec("psycopg") is None:
            raise SettingsError("--state: PostgreSQL needs the package psycopg", hint="pip install 'submit_tf_job[gateway]'")
        self._url = url
        self._lock = threading.Lock()
        self._session: _Session | None = _Session(url)
        self._candidate: _Session | None = None  # asks again and again for the lead

    def run(self, sql: str, **values: object) -> list[Row]:
        with self._lock:
            if self._session is not None and self._session.is_open:
                try:
                    return self._session.run(sql, values)
                except DatabaseTrouble:
                    if self._session.is_open:
                        raise
            # The server was started again, or the network was away: every statement here may be run twice.
            self._session = _Session(self._url)
            return self._session.run(sql, values)

    def lead(self) -> Lead | None:
        session = self._candidate
        if session is None or not session.is_open:
            session = self._candidate = _Session(self._url)
        ((mine,),) = session.run("SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))", {"lock": _LOCK})
        if not mine:
            return None
        self._candidate = None
        session.let_go_when_silent()
        return _SessionLead(session)

    def close(self) -> None:
        with self._lock:
            for session in (self._session, self._candidate):
                if session is not None:
                    session.close()


class _SessionLead(Lead):
    """The lock that PostgreSQL keeps for a session: it ends with its connection, and what is written by it is written by the leader."""

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
    """One connection to PostgreSQL; psycopg lets one thread at a time use it."""

    def __init__(self, url: str) -> None:
        import psycopg

        keepalive: dict[str, Any] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
        with self._trouble():
            self._connection: psycopg.Connection = psycopg.connect(
                url, autocommit=True, prepare_threshold=None, connect_timeout=5, application_name="submit_tf_job gateway", **keepalive
            )
            self._connection.execute("SET statement_timeout = '10s'")

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    def run(self, sql: str, values: Mapping[str, object]) -> list[Row]:
        with self._trouble():
            done = self._connection.execute(re.sub(r":(\w+)", r"%(\1)s", sql).encode(), values)
            return done.fetchall() if done.description else []

    def let_go_when_silent(self) -> None:
        """Let the server end this session, and with it the lead, where its gateway is stopped or cut off (PostgreSQL 14 and later)."""
        if self._connection.info.server_version >= 140_000:
            self.run(f"SET idle_session_timeout = '{_SILENT_S}s'", {})

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    @contextmanager
    def _trouble() -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.UniqueViolation:
            raise Exists from None
        except (psycopg.Error, OSError) as error:
            words = " ".join(str(error).split())
            raise DatabaseTrouble(f"PostgreSQL: {words or type(error).__name__}") from None
