"""What a gateway keeps: webhooks that are still to be delivered, and what idempotency keys were used for.

Both are beside the point of a submission: the cluster itself tells whether a job was submitted (submission.py).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.database import Database, DatabaseTrouble, Exists, Lead, open_database

__all__ = ["STATES", "Store", "Webhook", "open_store"]

STATES = ("waiting", "sending", "delivered", "given-up")

_KEPT_S = 7 * 24 * 3600.0
_KEYS_S = 30 * 24 * 3600.0

_TABLES = (
    "CREATE TABLE IF NOT EXISTS submit_tf_job_webhooks (id TEXT PRIMARY KEY, caller TEXT NOT NULL, url TEXT NOT NULL, name TEXT NOT NULL,"
    " submission TEXT NOT NULL, application_id TEXT, state TEXT NOT NULL, attempts INTEGER NOT NULL, body TEXT, said TEXT NOT NULL,"
    " changed DOUBLE PRECISION NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS submit_tf_job_webhooks_once ON submit_tf_job_webhooks (application_id, url)",
    "CREATE INDEX IF NOT EXISTS submit_tf_job_webhooks_open ON submit_tf_job_webhooks (state)",
    "CREATE TABLE IF NOT EXISTS submit_tf_job_keys (of_key TEXT PRIMARY KEY, submission TEXT NOT NULL, changed DOUBLE PRECISION NOT NULL)",
)
_FIELDS = "id, caller, url, name, submission, application_id, state, attempts, said"


@dataclass(frozen=True)
class Webhook:
    """A webhook, without what it will say.

    Attributes:
        id: Its own; the receiver knows by it what it has had already.
        submission: Of the job that it is about; what finds the job where the gateway died before it knew the application.
        application_id: None until the job was submitted.
        state: `waiting` for the end of the job, `sending`, `delivered`, `given-up`.
        attempts: How often it was sent.
        said: How the last attempt ended.
    """

    id: str
    caller: str
    url: str
    name: str
    submission: str
    application_id: str | None = None
    state: str = "waiting"
    attempts: int = 0
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what its caller is told of it."""
        return {"id": self.id, "url": self.url, "state": self.state, "attempts": self.attempts, "said": self.said}


class Store:
    """The state of a gateway, or of several.

    Args:
        database: Where it is.
        now: The wall clock, which decides only when old rows are forgotten.

    Raises:
        DatabaseTrouble: The tables cannot be made.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self.database, self._now = database, now
        for statement in _TABLES * 2:  # PostgreSQL: at the first time another gateway may make the same table at this moment
            with suppress(Exists):
                database.run(statement)

    # --- what requests do ---

    def announce(self, caller: str, url: str, name: str, submission: str) -> Webhook:
        """Keep a webhook, before its job is submitted: so it is not lost whatever happens then."""
        made = Webhook(secrets.token_hex(16), caller, url, name, submission)
        self.database.run(
            "INSERT INTO submit_tf_job_webhooks VALUES (:id, :caller, :url, :name, :submission, NULL, 'waiting', 0, NULL, '', :now)"
            " ON CONFLICT (id) DO NOTHING",
            id=made.id, caller=caller, url=url, name=name, submission=submission, now=self._now(),
        )  # fmt: skip
        return made

    def bind(self, webhook: Webhook, application_id: str, lead: Lead | None = None) -> None:
        """Note which application a webhook is about; one that tells the same to the same address is enough."""
        run = lead.run if lead else self.database.run
        try:
            run(
                "UPDATE submit_tf_job_webhooks SET application_id = :app WHERE id = :id AND application_id IS NULL",
                app=application_id, id=webhook.id,
            )  # fmt: skip
        except Exists:
            self.forget(webhook, lead)

    def forget(self, webhook: Webhook, lead: Lead | None = None) -> None:
        """Drop a webhook whose job was not submitted."""
        run = lead.run if lead else self.database.run
        run("DELETE FROM submit_tf_job_webhooks WHERE id = :id AND application_id IS NULL", id=webhook.id)

    def webhooks(self, caller: str, application_id: str) -> list[Webhook]:
        """List a caller's webhooks of one application."""
        rows = self.database.run(
            f"SELECT {_FIELDS} FROM submit_tf_job_webhooks WHERE caller = :caller AND application_id = :app ORDER BY url",  # noqa: S608
            caller=caller, app=application_id,
        )  # fmt: skip
        return [Webhook(*row) for row in rows]

    def used(self, of_key: str) -> str:
        """Say which submission a key was used for, "" where none is known."""
        rows = self.database.run("SELECT submission FROM submit_tf_job_keys WHERE of_key = :key", key=of_key)
        return str(rows[0][0]) if rows else ""

    def remember(self, of_key: str, submission: str) -> None:
        """Note what a key was used for."""
        self.database.run(
            "INSERT INTO submit_tf_job_keys VALUES (:key, :submission, :now)"
            " ON CONFLICT (of_key) DO UPDATE SET submission = excluded.submission, changed = excluded.changed",
            key=of_key, submission=submission, now=self._now(),
        )  # fmt: skip

    # --- what the leader does ---

    def open(self, lead: Lead) -> list[Webhook]:
        """List the webhooks that are not over."""
        return [
            Webhook(*row)
            for row in lead.run(f"SELECT {_FIELDS} FROM submit_tf_job_webhooks WHERE state IN ('waiting', 'sending')")  # noqa: S608
        ]

    def over(self, webhook: Webhook, body: str, lead: Lead) -> None:
        """Keep what a webhook will say: its job is over. Once kept it is what every attempt sends."""
        lead.run(
            "UPDATE submit_tf_job_webhooks SET state = 'sending', body = :body, changed = :now WHERE id = :id AND state = 'waiting'",
            body=body, id=webhook.id, now=self._now(),
        )  # fmt: skip

    def begin(self, webhook: Webhook, lead: Lead) -> tuple[int, str]:
        """Count an attempt before it is made, and return its number and what is to be sent."""
        lead.run("UPDATE submit_tf_job_webhooks SET attempts = attempts + 1, changed = :now WHERE id = :id", id=webhook.id, now=self._now())
        ((attempts, body),) = lead.run("SELECT attempts, body FROM submit_tf_job_webhooks WHERE id = :id", id=webhook.id)
        return int(attempts), str(body)

    def settle(self, webhook: Webhook, state: str, said: str, lead: Lead) -> None:
        """Note how an attempt has ended."""
        lead.run(
            "UPDATE submit_tf_job_webhooks SET state = :state, said = :said, changed = :now WHERE id = :id",
            state=state, said=said[:500], id=webhook.id, now=self._now(),
        )  # fmt: skip

    def sweep(self, lead: Lead) -> None:
        """Forget what has been over for long."""
        for statement, age_s in (
            ("DELETE FROM submit_tf_job_webhooks WHERE state IN ('delivered', 'given-up') AND changed < :before", _KEPT_S),
            ("DELETE FROM submit_tf_job_keys WHERE changed < :before", _KEYS_S),
        ):
            lead.run(statement, before=self._now() - age_s)


def open_store(url: str) -> Store:
    """Open the state at the URL of a database, and make its tables where there are none.

    Raises:
        UsageError: It is no such URL.
        SettingsError: The database cannot be used.
    """
    try:
        return Store(open_database(url))
    except DatabaseTrouble as error:
        raise SettingsError(f"--state: {error}") from None
