"""Deliver webhooks: one gateway leads, detects which jobs are over, and sends; when it dies another
takes over.

A webhook is sent at least once: the gateway may die after its receiver got it, before the gateway
records that. The leader's own database connection counts an attempt before it is made, so a gateway
that has lost the lead sends no more webhooks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submit_tf_job import operations
from submit_tf_job.container.contract import PROPERTY_RERUN_OF
from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.gateway.database import DatabaseFailure, Lead
from submit_tf_job.gateway.state import State, Webhook
from submit_tf_job.gateway.threads import Closed, breakable
from submit_tf_job.gateway.webhooks import ATTEMPTS, Allowed, Keyring, content, pause_s
from submit_tf_job.observation import JobState
from submit_tf_job.operations.listing import JobSelection
from submit_tf_job.report.job_text import job_object

__all__ = ["WebhookDelivery", "Webhooks", "sender"]

# interval at which the leader lists jobs: one request for each caller with open webhooks
CHECK_S = 5.0
_TICK_S = 1.0
_ANSWER_S = 15.0  # time limit for a receiver
_VERDICT_S = 120.0
# age after which a webhook without an application counts as one whose submission was cut off
_UNBOUND_S = 60.0
_ABANDONED_S = 900.0
_SWEEP_S = 3600.0
_TO_ONE_HOST = 4
_THREADS = 16

Post = Callable[[str, bytes, dict[str, str]], int]


@dataclass(frozen=True)
class Webhooks:
    """The configuration for sending webhooks.

    Attributes:
        allowed: The addresses to which webhooks may be sent.
        keyring: The keys that sign them.
        post: Sends one and returns the HTTP status of the response; raises OSError without one.
    """

    allowed: Allowed
    keyring: Keyring
    post: Post


def sender(
    prefixes: Sequence[str], key: Path | None, ca_file: Path | None, *, kept: bool
) -> Webhooks | None:
    """Return the configuration for sending webhooks, or None if none are configured.

    Args:
        prefixes: URLs to which webhooks may be sent.
        key: File of the key that signs them.
        ca_file: CA certificates to verify receivers; None for those of requests.
        kept: Whether a database is configured.

    Raises:
        UsageError: An option is missing, or an address is invalid.
        SettingsError: The key's file is invalid.
    """
    if not prefixes and key is None:
        return None
    if not prefixes or key is None or not kept:
        raise UsageError(
            "webhooks need all three: --webhook-to URL, --webhook-key FILE and --state URL",
            hint='a key is made by: echo "whsec_$(openssl rand -base64 32)"',
        )
    return Webhooks(Allowed(prefixes), Keyring(key), poster(ca_file))


def poster(ca_file: Path | None) -> Post:
    """Return a function that sends one webhook without the gateway's own configuration.

    It uses no proxy, .netrc, cookie or redirect.
    """
    from submit_tf_job.yarn.deadlines import bound
    from submit_tf_job.yarn.transport import DeadlineAdapter, Session, authorities

    verify = authorities(ca_file) if ca_file else True

    def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        until = time.monotonic() + _ANSWER_S
        with Session() as session:
            session.trust_env = False
            for scheme in ("http://", "https://"):
                session.mount(scheme, DeadlineAdapter())
            bound(lambda: until - time.monotonic(), _ANSWER_S)
            with session.post(
                url,
                data=body,
                headers=headers,
                timeout=(5.0, _ANSWER_S),
                verify=verify,
                allow_redirects=False,
                stream=True,
            ) as answer:
                return int(answer.status_code)

    return post


class WebhookDelivery:
    """Delivers the webhooks of a state while it leads.

    Args:
        store: The state.
        webhooks: Addresses and keys.
        cluster: Returns the cluster with a caller's identity.
        log: Takes one entry of the log.
        count: Counts an outcome.
        clock: Monotonic seconds; nothing here depends on a wall clock.
        wait: Waits for a number of seconds, and returns whether to end.
    """

    def __init__(
        self,
        store: State,
        webhooks: Webhooks,
        cluster: Callable[[str], operations.Cluster],
        log: Callable[[dict[str, Any]], None],
        *,
        count: Callable[[str], None] = lambda _outcome: None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._store, self._webhooks, self._cluster = store, webhooks, cluster
        self._log, self._count, self._clock = log, count, clock
        self._over = threading.Event()
        self._wait = wait or self._over.wait
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._hosts: Counter[str] = Counter()
        self._due: dict[str, float] = {}  # webhook, or caller → not before
        self._since: dict[str, float] = {}  # webhooks without an application → first seen
        self._lead: Lead | None = None
        self._swept = float("-inf")
        self._logged = ""

    def start(self) -> None:
        """Start the thread that delivers webhooks."""
        threading.Thread(target=self._run, daemon=True, name="gateway webhooks").start()

    def end(self) -> None:
        """Stop after the webhooks being sent have arrived, and give up the lead."""
        self._over.set()
        until = time.monotonic() + _ANSWER_S
        while any(self._hosts.values()) and time.monotonic() < until:
            time.sleep(0.02)
        self._give_up_lead()

    @property
    def leads(self) -> bool:
        """Whether this gateway delivers webhooks."""
        return self._lead is not None

    def _run(self) -> None:
        while not self._over.is_set():
            self.tick()
            if self._wait(_TICK_S):
                return

    def tick(self) -> None:
        """Run the work that is due: check jobs, send webhooks, delete old rows."""
        try:
            if self._lead is None:
                self._lead = self._store.database.lead()
                self._due, self._since = {}, {}
            if self._lead is not None:
                self._dispatch(self._lead)
            self._logged = ""
        except DatabaseFailure as error:
            if self._lead is not None and self._lead.is_lost:
                self._give_up_lead()
            self._log_error(str(error))
        except Exception as error:  # noqa: BLE001 - a defect must not end all webhooks
            self._log_error(f"{type(error).__name__} in {__name__}")

    def _log_error(self, why: str) -> None:
        if why != self._logged:  # once, not every second
            self._logged = why
            self._log({"event": "state", "why": why})

    def _give_up_lead(self) -> None:
        lead, self._lead = self._lead, None
        if lead is not None:
            with suppress(DatabaseFailure):
                lead.end()

    def _dispatch(self, lead: Lead) -> None:
        now = self._clock()
        if now - self._swept >= _SWEEP_S:
            self._store.sweep(lead)
            self._swept = now
        kept = self._store.open(lead)
        waiting: dict[str, list[Webhook]] = {}
        for webhook in kept:
            if webhook.state == "sending":
                self._do(
                    webhook.id,
                    lambda webhook=webhook: self._send(webhook, lead),  # type: ignore[misc]
                    urlsplit(webhook.url).netloc,
                )
            elif webhook.application_id is not None:
                waiting.setdefault(webhook.caller, []).append(webhook)
            elif now - self._since.setdefault(webhook.id, now) >= _UNBOUND_S:
                self._do(webhook.id, lambda webhook=webhook: self._find(webhook, lead))  # type: ignore[misc]
        for caller, mine in waiting.items():
            self._do(
                f"of {caller}",
                lambda caller=caller, mine=mine: self._check_jobs(caller, mine, lead),  # type: ignore[misc]
            )
        known = {webhook.id for webhook in kept} | {f"of {caller}" for caller in waiting}
        self._due = {name: at for name, at in self._due.items() if name in known}
        self._since = {name: at for name, at in self._since.items() if name in known}

    def _do(self, name: str, work: Callable[[], None], host: str = "") -> None:
        """Run work in a thread when it is due, once at a time and within the limit of its host."""
        with self._lock:
            full = len(self._busy) >= _THREADS or self._hosts[host] >= _TO_ONE_HOST
            if name in self._busy or full or self._clock() < self._due.get(name, float("-inf")):
                return
            self._busy.add(name)
            self._hosts[host] += bool(host)

        def run() -> None:
            try:
                work()
            except (SubmitTFJobError, DatabaseFailure) as error:
                self._due[name] = self._clock() + CHECK_S
                self._log({"event": "webhooks", "what": name, "why": str(error)[:300]})
            except Closed:
                pass
            except Exception as error:  # noqa: BLE001 - a defect of one webhook must not affect others
                self._due[name] = self._clock() + _SWEEP_S
                self._log({"event": "webhooks", "what": name, "why": type(error).__name__})
            finally:
                with self._lock:
                    self._busy.discard(name)
                    self._hosts[host] -= bool(host)

        threading.Thread(target=run, daemon=True, name="gateway webhook").start()

    # --- until the job is over ---

    def _check_jobs(self, caller: str, waiting: Iterable[Webhook], lead: Lead) -> None:
        """List a caller's running jobs with one request, and check those that are no longer listed.

        Finished jobs are not listed, because there may be thousands.
        """
        self._due[f"of {caller}"] = self._clock() + CHECK_S
        going_on = JobSelection(user=caller, states=frozenset({JobState.PENDING, JobState.RUNNING}))
        listed = {
            job.application_id for job in operations.list_jobs(self._cluster(caller), going_on)
        }
        for webhook in waiting:
            if webhook.application_id not in listed:
                self._do(webhook.id, lambda webhook=webhook: self._record_end(webhook, lead))  # type: ignore[misc]

    def _record_end(self, webhook: Webhook, lead: Lead) -> None:
        """Determine how a job ended, and store the webhook's body.

        A ResourceManager that recovers its state lists less for a moment, so the job's status is
        checked first.
        """
        mine = self._cluster(webhook.caller)
        with suppress(NoSuchJob):
            if not operations.status(mine, str(webhook.application_id)).verdict.state.is_final:
                self._due[webhook.id] = self._clock() + CHECK_S
                return
        cluster = replace(mine, sleep=breakable(mine.sleep, self._over))
        status = operations.follow(
            cluster, operations.JobRef(webhook.name, webhook.application_id), timeout_s=_VERDICT_S
        )
        job = job_object(status, cause=operations.diagnose(cluster, status).failure)
        self._store.over(
            webhook, content(job, datetime.now(timezone.utc).isoformat(timespec="seconds")), lead
        )

    def _find(self, webhook: Webhook, lead: Lead) -> None:
        """Find the job of a webhook whose gateway died during the submission."""
        self._due[webhook.id] = self._clock() + _UNBOUND_S
        try:
            seen = operations.status_of(
                self._cluster(webhook.caller), operations.JobRef(webhook.name)
            )
        except NoSuchJob:
            seen = None
        ids: set[str | None] = set()
        if seen is not None and seen.service is not None:
            ids = {seen.service.version, seen.service.properties.get(PROPERTY_RERUN_OF)}
        if seen is not None and seen.report is not None:
            ids.add(seen.report.submission)
        if seen is not None and seen.application_id and webhook.submission in ids:
            self._store.bind(webhook, seen.application_id, lead)
        elif self._clock() - self._since.get(webhook.id, self._clock()) >= _ABANDONED_S:
            self._store.forget(webhook, lead)

    # --- delivery ---------------------------------------------------------------------------------

    def _send(self, webhook: Webhook, lead: Lead) -> None:
        attempt, body = self._store.begin(webhook, lead)
        state, said = self._attempt(webhook, body.encode())
        if state == "sending" and attempt >= ATTEMPTS:
            state = "given-up"
        self._due[webhook.id] = self._clock() + pause_s(attempt)
        self._store.settle(webhook, state, said, lead)
        self._count("failed" if state == "sending" else state)
        host = urlsplit(webhook.url).netloc  # the rest of the URL may be a secret
        entry = {
            "event": "webhook",
            "webhook": webhook.id,
            "caller": webhook.caller,
            "host": host,
            "attempt": attempt,
        }
        self._log({**entry, "state": state, "said": said})

    def _attempt(self, webhook: Webhook, body: bytes) -> tuple[str, str]:
        try:
            # the gateway may have been restarted with other addresses
            self._webhooks.allowed.check(webhook.url)
        except UsageError as error:
            return "given-up", error.message
        proof = self._webhooks.keyring.headers(webhook.caller, webhook.id, int(time.time()), body)
        try:
            status = self._webhooks.post(
                webhook.url,
                body,
                {"Content-Type": "application/json", "User-Agent": "submit_tf_job", **proof},
            )
        except OSError as error:
            return "sending", type(error).__name__
        if 200 <= status < 300:
            return "delivered", f"HTTP {status}"
        # 410 Gone: the receiver was removed permanently
        return {410: "given-up"}.get(status, "sending"), f"HTTP {status}"
