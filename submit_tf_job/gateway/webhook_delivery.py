"""Webhooks on their way: one gateway leads, sees which jobs are over, and delivers; when it dies another takes over.

A webhook is sent at least once: its receiver may have had it when this process dies before it could note that. An attempt is counted by
the leader's own connection before it is made, so whoever has lost the lead sends nothing more.
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

from submit_tf_job import api
from submit_tf_job.contract import PROPERTY_RERUN_OF
from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.fleet import Selection
from submit_tf_job.gateway.database import DatabaseTrouble, Lead
from submit_tf_job.gateway.store import Store, Webhook
from submit_tf_job.gateway.threads import Closed, breakable
from submit_tf_job.gateway.webhooks import ATTEMPTS, Allowed, Keyring, content, pause_s
from submit_tf_job.observation import JobState
from submit_tf_job.report.job import job_object

__all__ = ["Courier", "Webhooks", "sender"]

LOOK_S = 5.0  # how often the leader asks which jobs are over: one request for each caller who waits for some
_TICK_S = 1.0
_ANSWER_S = 15.0  # for which a receiver may take
_VERDICT_S = 120.0
_ALONE_S = 60.0  # after which a webhook without an application is one whose submission was cut off
_FORSAKEN_S = 900.0
_SWEEP_S = 3600.0
_TO_ONE_HOST = 4
_THREADS = 16

Post = Callable[[str, bytes, dict[str, str]], int]


@dataclass(frozen=True)
class Webhooks:
    """What a gateway needs for webhooks.

    Attributes:
        allowed: Where they may go.
        keyring: What they are signed with.
        post: Sends one, and returns the HTTP status that came back; raises OSError where none did.
    """

    allowed: Allowed
    keyring: Keyring
    post: Post


def sender(prefixes: Sequence[str], key: Path | None, ca_file: Path | None, *, kept: bool) -> Webhooks | None:
    """Prepare to send webhooks, None where there are to be none.

    Args:
        prefixes: Where they may go.
        key: File of the key that signs them.
        ca_file: CA certificates to check receivers against; those that requests brings where None.
        kept: Whether there is a database to keep them in.

    Raises:
        UsageError: Something is missing, or an address is none.
        SettingsError: The key's file is none.
    """
    if not prefixes and key is None:
        return None
    if not prefixes or key is None or not kept:
        raise UsageError(
            "webhooks want all three: --webhook-to URL, --webhook-key FILE and --state URL",
            hint='a key is made by: echo "whsec_$(openssl rand -base64 32)"',
        )
    return Webhooks(Allowed(prefixes), Keyring(key), poster(ca_file))


def poster(ca_file: Path | None) -> Post:
    """Return a way to send, with nothing of the gateway's own in it: no proxy, no .netrc, no cookie, no redirect."""
    from submit_tf_job.yarn.transport import DeadlineAdapter, Session, authorities, bound

    verify = authorities(ca_file) if ca_file else True

    def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        until = time.monotonic() + _ANSWER_S
        with Session() as session:
            session.trust_env = False
            for scheme in ("http://", "https://"):
                session.mount(scheme, DeadlineAdapter())
            bound(lambda: until - time.monotonic(), _ANSWER_S)
            with session.post(
                url, data=body, headers=headers, timeout=(5.0, _ANSWER_S), verify=verify, allow_redirects=False, stream=True
            ) as answer:
                return int(answer.status_code)

    return post


class Courier:
    """Delivers what is kept in a store, while it leads.

    Args:
        store: The state.
        webhooks: Addresses and keys.
        cluster: Opens the cluster as a caller.
        log: Takes one entry of the log.
        count: Counts an outcome.
        clock: Monotonic seconds; no wall clock decides anything here.
        wait: Waits for seconds, and says whether it is to end.
    """

    def __init__(
        self,
        store: Store,
        webhooks: Webhooks,
        cluster: Callable[[str], api.Cluster],
        log: Callable[[dict[str, Any]], None],
        *,
        count: Callable[[str], None] = lambda _outcome: None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._store, self._webhooks, self._cluster, self._log, self._count, self._clock = store, webhooks, cluster, log, count, clock
        self._over = threading.Event()
        self._wait = wait or self._over.wait
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._hosts: Counter[str] = Counter()
        self._due: dict[str, float] = {}  # webhook, or caller → not before
        self._since: dict[str, float] = {}  # webhooks without an application → first seen
        self._lead: Lead | None = None
        self._swept = float("-inf")
        self._told = ""

    def start(self) -> None:
        """Deliver from now on, in a thread."""
        threading.Thread(target=self._run, daemon=True, name="gateway webhooks").start()

    def end(self) -> None:
        """Deliver no more, when what is on its way has arrived; another gateway may from then on."""
        self._over.set()
        until = time.monotonic() + _ANSWER_S
        while any(self._hosts.values()) and time.monotonic() < until:
            time.sleep(0.02)
        self._abdicate()

    @property
    def leads(self) -> bool:
        """Whether it is this gateway that delivers."""
        return self._lead is not None

    def _run(self) -> None:
        while not self._over.is_set():
            self.tick()
            if self._wait(_TICK_S):
                return

    def tick(self) -> None:
        """Do what is due."""
        try:
            if self._lead is None:
                self._lead = self._store.database.lead()
                self._due, self._since = {}, {}
            if self._lead is not None:
                self._dispatch(self._lead)
            self._told = ""
        except DatabaseTrouble as error:
            if self._lead is not None and self._lead.is_lost:
                self._abdicate()
            self._complain(str(error))
        except Exception as error:  # noqa: BLE001 - a defect must not be the end of all webhooks
            self._complain(f"{type(error).__name__} in {__name__}")

    def _complain(self, why: str) -> None:
        if why != self._told:  # once, not every second
            self._told = why
            self._log({"event": "state", "why": why})

    def _abdicate(self) -> None:
        lead, self._lead = self._lead, None
        if lead is not None:
            with suppress(DatabaseTrouble):
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
                self._do(webhook.id, lambda webhook=webhook: self._send(webhook, lead), urlsplit(webhook.url).netloc)  # type: ignore[misc]
            elif webhook.application_id is not None:
                waiting.setdefault(webhook.caller, []).append(webhook)
            elif now - self._since.setdefault(webhook.id, now) >= _ALONE_S:
                self._do(webhook.id, lambda webhook=webhook: self._find(webhook, lead))  # type: ignore[misc]
        for caller, mine in waiting.items():
            self._do(f"of {caller}", lambda caller=caller, mine=mine: self._look(caller, mine, lead))  # type: ignore[misc]
        known = {webhook.id for webhook in kept} | {f"of {caller}" for caller in waiting}
        self._due = {name: at for name, at in self._due.items() if name in known}
        self._since = {name: at for name, at in self._since.items() if name in known}

    def _do(self, name: str, work: Callable[[], None], host: str = "") -> None:
        """Let a thread do something, once at a time, not before it is due, and not too much for one host."""
        with self._lock:
            full = len(self._busy) >= _THREADS or self._hosts[host] >= _TO_ONE_HOST
            if name in self._busy or full or self._clock() < self._due.get(name, float("-inf")):
                return
            self._busy.add(name)
            self._hosts[host] += bool(host)

        def run() -> None:
            try:
                work()
            except (SubmitTFJobError, DatabaseTrouble) as error:
                self._due[name] = self._clock() + LOOK_S
                self._log({"event": "webhooks", "what": name, "why": str(error)[:300]})
            except Closed:
                pass
            except Exception as error:  # noqa: BLE001 - one webhook's defect is not the others'
                self._due[name] = self._clock() + _SWEEP_S
                self._log({"event": "webhooks", "what": name, "why": type(error).__name__})
            finally:
                with self._lock:
                    self._busy.discard(name)
                    self._hosts[host] -= bool(host)

        threading.Thread(target=run, daemon=True, name="gateway webhook").start()

    # --- until the job is over ---

    def _look(self, caller: str, waiting: Iterable[Webhook], lead: Lead) -> None:
        """Ask with one request which of a caller's jobs go on: there may be thousands that are over."""
        self._due[f"of {caller}"] = self._clock() + LOOK_S
        going_on = Selection(user=caller, states=frozenset({JobState.PENDING, JobState.RUNNING}))
        listed = {job.application_id for job in api.list_jobs(self._cluster(caller), going_on)}
        for webhook in waiting:
            if webhook.application_id not in listed:
                self._do(webhook.id, lambda webhook=webhook: self._judge(webhook, lead))  # type: ignore[misc]

    def _judge(self, webhook: Webhook, lead: Lead) -> None:
        """Hear both witnesses, and keep what is to be said; a ResourceManager that recovers its state lists less for a moment."""
        mine = self._cluster(webhook.caller)
        with suppress(NoSuchJob):
            if not api.status(mine, str(webhook.application_id)).verdict.state.is_final:
                self._due[webhook.id] = self._clock() + LOOK_S
                return
        cluster = replace(mine, sleep=breakable(mine.sleep, self._over))
        look = api.follow(cluster, api.JobRef(webhook.name, webhook.application_id), timeout_s=_VERDICT_S)
        job = job_object(look, cause=api.diagnose(cluster, look).failure)
        self._store.over(webhook, content(job, datetime.now(timezone.utc).isoformat(timespec="seconds")), lead)

    def _find(self, webhook: Webhook, lead: Lead) -> None:
        """Look for the job of a webhook whose gateway died while it submitted."""
        self._due[webhook.id] = self._clock() + _ALONE_S
        try:
            seen = api.in_detail(self._cluster(webhook.caller), api.JobRef(webhook.name)).seen
        except NoSuchJob:
            seen = None
        service = seen.service if seen else None
        ids = {service.version, service.properties.get(PROPERTY_RERUN_OF)} if service else set()
        if seen is not None and seen.report is not None:
            ids.add(seen.report.submission)
        if seen is not None and seen.application_id and webhook.submission in ids:
            self._store.bind(webhook, seen.application_id, lead)
        elif self._clock() - self._since.get(webhook.id, self._clock()) >= _FORSAKEN_S:
            self._store.forget(webhook, lead)

    # --- and then ---

    def _send(self, webhook: Webhook, lead: Lead) -> None:
        attempt, body = self._store.begin(webhook, lead)
        state, said = self._attempt(webhook, body.encode())
        if state == "sending" and attempt >= ATTEMPTS:
            state = "given-up"
        self._due[webhook.id] = self._clock() + pause_s(attempt)
        self._store.settle(webhook, state, said, lead)
        self._count("failed" if state == "sending" else state)
        host = urlsplit(webhook.url).netloc  # the rest of an address may be a secret
        entry = {"event": "webhook", "webhook": webhook.id, "caller": webhook.caller, "host": host, "attempt": attempt}
        self._log({**entry, "state": state, "said": said})

    def _attempt(self, webhook: Webhook, body: bytes) -> tuple[str, str]:
        try:
            self._webhooks.allowed.check(webhook.url)  # the gateway may have been started with others since
        except UsageError as error:
            return "given-up", error.message
        proof = self._webhooks.keyring.headers(webhook.caller, webhook.id, int(time.time()), body)
        try:
            status = self._webhooks.post(webhook.url, body, {"Content-Type": "application/json", "User-Agent": "submit_tf_job", **proof})
        except OSError as error:
            return "sending", type(error).__name__
        if 200 <= status < 300:
            return "delivered", f"HTTP {status}"
        return ("given-up" if status == 410 else "sending"), f"HTTP {status}"  # 410: it will never be there again
