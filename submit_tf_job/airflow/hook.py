"""The hook: a client with a connection's settings, and the operations of the operator.

The module also converts errors to Airflow's exceptions, and to the JSON in a trigger's event and
back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from submit_tf_job.airflow.airflow_names import AirflowException, AirflowFailException, BaseHook
from submit_tf_job.airflow.provider import ConnectionValues, read_connection, with_form_labels
from submit_tf_job.errors import (
    TABLE,
    ClusterUnavailable,
    InternalError,
    JobSpecError,
    NoSuchJob,
    Problem,
    SettingsError,
    SubmitTFJobError,
    error_class,
)

if TYPE_CHECKING:
    from submit_tf_job.airflow.task_run import TaskRun
    from submit_tf_job.sdk.client import Check, Client, JobHandle, Plan

T = TypeVar("T")
_REACHED_S, _CHECKED_S = 4.5, 20.0  # time limits of the button "Test"
_NEEDED = ("services-api", "authentication")  # checks that must pass before a job can be submitted


def _result_within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a call, if it comes within a time limit, so that a KDC or name server
    that does not respond delays no other call.

    Raises:
        ClusterUnavailable: The call took longer.
        Exception: The error of the call.
    """
    from threading import Thread

    outcome: list[T | Exception] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 - raised in the caller's thread
            outcome.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise ClusterUnavailable(
            f"no answer within {seconds:g} s",
            hint="check resource_managers, and that this host may connect to them",
        )
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _with_hint(text: str, hint: str) -> str:
    return f"{text} ({hint})" if hint else text


def _finding_sentences(findings: Iterable[Check]) -> str:
    return with_form_labels("; ".join(_with_hint(found.checked, found.fix) for found in findings))


class SubmitTFJobHook(BaseHook):
    """Returns a `Client` for the cluster and the user of a connection.

    Args:
        submit_tf_job_conn_id: The connection; None for the settings of the commands on this host.

    Example:
        >>> with SubmitTFJobHook().get_conn() as client:  # doctest: +SKIP
        ...     print([job.name for job in client.jobs()])
    """

    conn_name_attr = "submit_tf_job_conn_id"
    default_conn_name = "submit_tf_job_default"
    conn_type = "submit_tf_job"
    hook_name = "YARN (submit_tf_job)"

    def __init__(
        self, submit_tf_job_conn_id: str | None = default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.submit_tf_job_conn_id = submit_tf_job_conn_id

    @cached_property
    def given(self) -> ConnectionValues:
        """The content of the connection.

        Raises:
            SettingsError: The content is not valid.
            AirflowNotFoundException: Airflow has no connection of that name.
        """
        if self.submit_tf_job_conn_id is None:
            return ConnectionValues({})
        try:
            return read_connection(self.get_connection(self.submit_tf_job_conn_id))
        except SettingsError as error:
            raise self._of_connection(error) from None

    def _of_connection(self, error: SettingsError) -> SettingsError:
        where = f"connection {self.submit_tf_job_conn_id}: " if self.submit_tf_job_conn_id else ""
        return SettingsError(f"{where}{error.message}", hint=error.hint)

    def get_conn(self) -> Client:
        """Return a client; no request is sent yet.

        Raises:
            SettingsError: The connection, or the settings of this host, are not valid.
        """
        return self._connected_client

    @cached_property
    def _connected_client(self) -> Client:
        return self._new_client()

    def _new_client(self) -> Client:
        from submit_tf_job.sdk.client import Client

        given = self.given
        named = {name.replace(".", "__"): value for name, value in given.settings.items()}
        try:
            return Client(given.profile, secret=given.secret, **named)
        except SettingsError as error:
            raise self._of_connection(error) from None

    def test_connection(self) -> tuple[bool, str]:
        """Check the connection, for Airflow's button "Test": version, identity, and the checks of
        doctor. Return whether it works, and a sentence.

        A cluster that does not respond is reported within 5 s. Findings that affect only some jobs,
        such as nodes without Docker, are warnings in the sentence.
        """
        try:
            # The connection is read here: Airflow's session belongs to this thread.
            client = self.get_conn()
            version = _result_within(_REACHED_S, lambda: client.hadoop_version(_REACHED_S - 1))
            found = _result_within(_CHECKED_S, lambda: client.check(*_NEEDED, "nodes", "docker"))
        except SubmitTFJobError as error:
            return False, with_form_labels(_with_hint(error.message, error.hint))
        failed = [
            finding for finding in found if finding.status == "failure" and finding.id in _NEEDED
        ]
        if failed:
            return False, _finding_sentences(failed)
        settings, hadoop = client.settings, version or "unknown"
        warnings = _finding_sentences([finding for finding in found if finding.status != "ok"])
        text = f"{settings.user} can use {settings.resource_managers[0]} (Hadoop {hadoop})."
        if warnings:
            text += f" Warning: {warnings}"
        return True, text

    # --- for the operator -------------------------------------------------------------------------

    def plan(
        self,
        job: str | Mapping[str, Any],
        run: TaskRun,
        *,
        name: str | None = None,
        detached: bool = False,
        **reading: Any,
    ) -> Plan:
        """Plan the job of a task instance; sends no request.

        Args:
            job: The path of a job spec file, or its content.
            run: The task instance, from which the job's name and its idempotency key are made.
            name: The readable part of the job's name; default: the task's id.
            detached: Whether no Airflow task follows the job; then it gets a lifetime
                (`detached_lifetime`).
            reading: The other arguments of `Client.load`.

        Raises:
            JobSpecError: The job spec is invalid; the error has all problems.
            SubmitTFJobError: Another error of `Client.plan`, or the settings are not valid.
        """
        client = self.get_conn()
        loaded = client.load(job, name=run.job_name(name), **reading)
        for remark in loaded.remarks:
            self.log.info("%s", remark)
        return client.plan(loaded, submission_id=run.key, again="after-failure", detached=detached)

    def submit(self, planned: Plan, run: TaskRun) -> JobHandle:
        """Submit the job of a task instance once, in any try.

        A run of an earlier try is adopted if it is still alive or has succeeded meanwhile; if it
        failed or was stopped, the job is run again. Runs from the time before the task was cleared
        are stopped.

        Raises:
            SubmitTFJobError: As `Client.submit`; or as `JobHandle.stop`, for an earlier run.
        """
        client = self.get_conn()
        if run.cleared_at:
            for live in client.live(planned.job.name):
                if live.run not in client.runs_of(planned):
                    self.log.info("stopping %s, which ran before the task was cleared", live.run)
                    live.stop()
        handle = client.submit(planned)
        if handle.adopted:
            seen = handle.status()
            what = "has succeeded" if seen.is_over else "runs"
            self.log.info("%s %s already: an earlier try submitted it", handle.run, what)
        return handle

    def kill(self, name: str, application_id: str | None) -> None:
        """Stop the job of a killed task at once, without waiting for its end; do nothing if there
        is no such job. A new connection is used, because the interrupted call may be in the middle
        of a request on the old one.

        Args:
            name: The job's name.
            application_id: The id of the job's application; None if the application may not exist
                yet, which is then awaited for up to 20 s.
        """
        with self._new_client() as client, contextlib.suppress(NoSuchJob):
            found = client.attach(application_id) if application_id else client.starting(name)
            if found is not None:
                found.stop(wait=False)


# --- errors ---


def as_airflow(error: SubmitTFJobError) -> AirflowException:
    """Return the exception that makes Airflow retry the task or fail it at once.

    For a failed job, the first cause decides whether a retry may help; for other errors,
    `errors.TABLE` decides.
    """
    kind = AirflowException if error.retryable else AirflowFailException
    text = error.message
    if error.hint:
        text += f"\nhint: {with_form_labels(error.hint)}"
    return kind(text)


@contextlib.contextmanager
def airflow_errors() -> Iterator[None]:
    """Convert SubmitTFJobError of the block to Airflow's exceptions."""
    try:
        yield
    except SubmitTFJobError as error:
        raise as_airflow(error) from error


def error_object(error: SubmitTFJobError | None) -> dict[str, Any] | None:
    """Return an error as the JSON of a trigger's event; None for None."""
    if error is None:
        return None
    return {
        "code": error_class(error).code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
    }


def error_in(event: Mapping[str, Any]) -> SubmitTFJobError | None:
    """Return the error that a trigger's event contains; None if it contains none.

    An error of an unknown kind, such as one of a later version, becomes an InternalError.
    """
    error = event.get("error")
    if not isinstance(error, Mapping):
        return None
    kinds = {row.code: kind for kind, row in TABLE.items()}
    kind = kinds.get(str(error.get("code")), InternalError)
    message, hint = str(error.get("message", "")), str(error.get("hint") or "")
    if kind is JobSpecError:
        return JobSpecError([Problem(0, 0, "", message)], hint=hint)
    return kind(message, hint=hint, retryable=error.get("retryable"))
