"""The gateway's state: webhooks to deliver, and idempotency keys that were used.

Submissions do not depend on it: the service on the cluster has the submission's id (submission.py).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from submit_tf_job.errors import SettingsError
from submit_tf_job.gateway.database import Database, DatabaseFailure, Exists, Lead, open_database

__all__ = ["STATES", "State", "Webhook", "open_state"]

STATES = ("waiting", "sending", "delivered", "given-up")

_KEPT_S = 7 * 24 * 3600.0
_KEYS_S = 30 * 24 * 3600.0

_TABLES = (
    "CREATE TABLE IF NOT EXISTS submit_tf_job_webhooks (id TEXT PRIMARY KEY, caller TEXT "
    "NOT NULL, url TEXT NOT NULL, name TEXT NOT NULL,"
    " submission TEXT NOT NULL, application_id TEXT, state TEXT NOT NULL, attempts "
    "INTEGER NOT NULL, body TEXT, said TEXT NOT NULL,"
    " changed DOUBLE PRECISION NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS submit_tf_job_webhooks_once ON "
    "submit_tf_job_webhooks (application_id, url)",
    "CREATE INDEX IF NOT EXISTS submit_tf_job_webhooks_open ON submit_tf_job_webhooks (state)",
    "CREATE TABLE IF NOT EXISTS submit_tf_job_keys (of_key TEXT PRIMARY KEY, submission "
    "TEXT NOT NULL, changed DOUBLE PRECISION NOT NULL)",
)
_FIELDS = "id, caller, url, name, submission, application_id, state, attempts, said"


@dataclass(frozen=True)
class Webhook:
    """A webhook, without its body.

    Attributes:
        id: Its id, by which the receiver detects repeated deliveries.
        submission: The submission of its job; finds the job if the gateway died before it recorded
            the application.
        application_id: None until the job is submitted.
        state: `waiting` for the end of the job, `sending`, `delivered`, `given-up`.
        attempts: The number of attempts to send it.
        said: The result of the last attempt.
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
        """Return the fields for the response to the caller."""
        return {
            "id": self.id,
            "url": self.url,
            "state": self.state,
            "attempts": self.attempts,
            "said": self.said,
        }


class State:
    """The state of one gateway, or shared by several.

    Args:
        database: The database that stores it.
        now: The wall clock, which decides only when old rows are deleted.

    Raises:
        DatabaseFailure: The tables cannot be created.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self.database, self._now = database, now
        # PostgreSQL: another gateway may create the same table at the same time, so try twice
        for statement in _TABLES * 2:
            with suppress(Exists):
                database.run(statement)

    # --- for requests -----------------------------------------------------------------------------

    def announce(self, caller: str, url: str, name: str, submission: str) -> Webhook:
        """Store a webhook before its job is submitted, so that no failure loses it."""
        made = Webhook(secrets.token_hex(16), caller, url, name, submission)
        self.database.run(
            "INSERT INTO submit_tf_job_webhooks VALUES (:id, :caller, :url, :name, "
                ":submission, NULL, 'waiting', 0, NULL, '', :now)"
            " ON CONFLICT (id) DO NOTHING",
            id=made.id, caller=caller, url=url, name=name, submission=submission, now=self._now(),
        )  # fmt: skip
        return made

    def bind(self, webhook: Webhook, application_id: str, lead: Lead | None = None) -> None:
        """Store the application of a webhook.

        A webhook with the same application and address exists at most once.
        """
        try:
            (lead or self.database).run(
                "UPDATE submit_tf_job_webhooks SET application_id = :app WHERE id = :id "
                    "AND application_id IS NULL",
                app=application_id, id=webhook.id,
            )  # fmt: skip
        except Exists:
            self.forget(webhook, lead)

    def forget(self, webhook: Webhook, lead: Lead | None = None) -> None:
        """Delete a webhook whose job was not submitted."""
        (lead or self.database).run(
            "DELETE FROM submit_tf_job_webhooks WHERE id = :id AND application_id IS NULL",
            id=webhook.id,
        )

    def webhooks(self, caller: str, application_id: str) -> list[Webhook]:
        """List a caller's webhooks of one application."""
        rows = self.database.run(
            f"SELECT {_FIELDS} FROM submit_tf_job_webhooks WHERE caller = :caller AND "  # noqa: S608
                f"application_id = :app ORDER BY url",
            caller=caller, app=application_id,
        )  # fmt: skip
        return [Webhook(*row) for row in rows]

    def used(self, of_key: str) -> str:
        """Return the submission that a key was used for, or ""."""
        rows = self.database.run(
            "SELECT submission FROM submit_tf_job_keys WHERE of_key = :key", key=of_key
        )
        return "".join(submission for (submission,) in rows)

    def remember(self, of_key: str, submission: str) -> None:
        """Store the submission that a key was used for."""
        self.database.run(
            "INSERT INTO submit_tf_job_keys VALUES (:key, :submission, :now)"
            " ON CONFLICT (of_key) DO UPDATE SET submission = excluded.submission, "
                "changed = excluded.changed",
            key=of_key, submission=submission, now=self._now(),
        )  # fmt: skip

    # --- for the leader ---------------------------------------------------------------------------

    def open(self, lead: Lead) -> list[Webhook]:
        """List the webhooks that are waiting or being sent."""
        return [
            Webhook(*row)
            for row in lead.run(
                f"SELECT {_FIELDS} FROM submit_tf_job_webhooks WHERE state IN ('waiting', "  # noqa: S608
                f"'sending')"
            )
        ]

    def over(self, webhook: Webhook, body: str, lead: Lead) -> None:
        """Store the body of a webhook whose job is over; every attempt sends this body."""
        lead.run(
            "UPDATE submit_tf_job_webhooks SET state = 'sending', body = :body, changed = "
                ":now WHERE id = :id AND state = 'waiting'",
            body=body, id=webhook.id, now=self._now(),
        )  # fmt: skip

    def begin(self, webhook: Webhook, lead: Lead) -> tuple[int, str]:
        """Count an attempt before it is made; return its number and the body to send."""
        lead.run(
            "UPDATE submit_tf_job_webhooks SET attempts = attempts + 1, changed = :now "
            "WHERE id = :id",
            id=webhook.id,
            now=self._now(),
        )
        ((attempts, body),) = lead.run(
            "SELECT attempts, body FROM submit_tf_job_webhooks WHERE id = :id", id=webhook.id
        )
        return int(attempts), str(body)

    def settle(self, webhook: Webhook, state: str, said: str, lead: Lead) -> None:
        """Store the result of an attempt."""
        lead.run(
            "UPDATE submit_tf_job_webhooks SET state = :state, said = :said, changed = "
                ":now WHERE id = :id",
            state=state, said=said[:500], id=webhook.id, now=self._now(),
        )  # fmt: skip

    def sweep(self, lead: Lead) -> None:
        """Delete old rows of delivered webhooks and used keys."""
        for statement, age_s in (
            (
                "DELETE FROM submit_tf_job_webhooks WHERE state IN ('delivered', "
                "'given-up') AND changed < :before",
                _KEPT_S,
            ),
            ("DELETE FROM submit_tf_job_keys WHERE changed < :before", _KEYS_S),
        ):
            lead.run(statement, before=self._now() - age_s)


def open_state(url: str) -> State:
    """Open the state at the URL of a database, and create missing tables.

    Raises:
        UsageError: The URL is invalid.
        SettingsError: The database cannot be used.
    """
    try:
        return State(open_database(url))
    except DatabaseFailure as error:
        raise SettingsError(f"--state: {error}") from None
