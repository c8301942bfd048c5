"""The hook: a client with the settings of a connection, and the few things that an operator does with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.form import FIELDS, HIDDEN, PLACEHOLDERS, RELABELED, Given, read_connection
from submit_tf_job.airflow.versions import BaseHook
from submit_tf_job.errors import NameTaken, SettingsError, SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.airflow.identity import TaskRun
    from submit_tf_job.plan import Plan
    from submit_tf_job.sdk import Client, JobHandle

__all__ = ["SubmitTFJobHook"]

_STARTING_S = 20.0  # a POST shows its application some seconds after it stored the service


class SubmitTFJobHook(BaseHook):
    """One cluster, as one user.

    Args:
        submit_tf_job_conn_id: The connection; None for the settings that the commands would use on this host.

    Example:
        >>> with SubmitTFJobHook().get_conn() as client:  # doctest: +SKIP
        ...     print([job.name for job in client.jobs()])
    """

    conn_name_attr = "submit_tf_job_conn_id"
    default_conn_name = "submit_tf_job_default"
    conn_type = "submit_tf_job"
    hook_name = "YARN (submit_tf_job)"

    def __init__(self, submit_tf_job_conn_id: str | None = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.submit_tf_job_conn_id = submit_tf_job_conn_id

    # Airflow before 3.2 asks the hook for its form, later ones read provider.py.
    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the fields of the connection's form."""
        from importlib import import_module  # what Airflow 2's web server is made of

        field = import_module("wtforms").StringField
        widget = import_module("flask_appbuilder.fieldwidgets").BS3TextFieldWidget
        return {name: field(label, widget=widget()) for name, label in FIELDS.items()}

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return how the standard fields of the form look."""
        return {"hidden_fields": list(HIDDEN), "relabeling": dict(RELABELED), "placeholders": dict(PLACEHOLDERS)}

    @cached_property
    def given(self) -> Given:
        """What the connection says.

        Raises:
            SettingsError: It is not valid.
        """
        if self.submit_tf_job_conn_id is None:
            return Given({})
        found = self.get_connection(self.submit_tf_job_conn_id)
        try:
            return read_connection(
                host=found.host, port=found.port, schema=found.schema, login=found.login, password=found.password, extra=found.extra
            )
        except SettingsError as error:
            raise self._of_connection(error) from None

    def _of_connection(self, error: SettingsError) -> SettingsError:
        where = f"connection {self.submit_tf_job_conn_id}: " if self.submit_tf_job_conn_id else ""
        return SettingsError(f"{where}{error.message.removeprefix('argument: ')}", hint=error.hint)

    def get_conn(self) -> Client:
        """Return a client; nothing is sent yet.

        Raises:
            SettingsError: The connection, or the settings of this host, are not valid.
        """
        return self._client

    @cached_property
    def _client(self) -> Client:
        return self._new_client()

    def _new_client(self) -> Client:
        from submit_tf_job.sdk import Client
        from submit_tf_job.settings import load_settings

        given = self.given
        try:
            settings = load_settings(arguments=given.settings, profile=given.profile)
        except SettingsError as error:
            raise self._of_connection(error) from None
        return Client(settings=settings, secret=given.secret)

    def test_connection(self) -> tuple[bool, str]:
        """Look at all that a job needs, as `submit_tf_job doctor` does; what Airflow's button "Test" calls."""
        from submit_tf_job.api.cluster import check_identity
        from submit_tf_job.api.doctoring import doctor

        try:
            client = self.get_conn()
            check_identity(client.cluster)
            client.cluster.client.cluster_info()
            found = () if self.given.secret else doctor(client.settings).findings  # the doctor opens connections of its own
        except SubmitTFJobError as error:
            return False, f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        bad = [f"{finding.checked}{f': {finding.fix}' if finding.fix else ''}" for finding in found if finding.status == "failure"]
        return (False, "; ".join(bad)) if bad else (True, f"{client.settings.user} may use {client.settings.resource_managers[0]}")

    # --- what the operator does ------------------------------------------------------------------------------------------

    def plan(
        self,
        job: str | Mapping[str, Any],
        run: TaskRun,
        *,
        base: Path,
        name: str | None = None,
        overrides: Sequence[str] = (),
        text: bytes | None = None,
    ) -> Plan:
        """Plan the job of a task instance.

        Args:
            job: A path, for messages, or the content.
            run: The task instance.
            base: Where `files` are looked for.
            name: What people shall read in the job's name.
            overrides: As `--set` takes them.
            text: The content of the file.

        Raises:
            JobSpecError: Every problem at once.
        """
        from submit_tf_job import api

        source = job if isinstance(job, str) else "<job>"
        if not isinstance(job, str):
            text = json.dumps(dict(job), default=str).encode()
        settings = self.get_conn().settings
        loaded = api.load_job(Path(source), settings, overrides=overrides, name=run.job_name(name), text=text, base=base)
        return api.make_plan(loaded, settings, submission=run.submission_id)

    def submit(self, planned: Plan, run: TaskRun, *, name: str | None = None) -> JobHandle:
        """Submit the job of a task instance once, whichever try this is.

        A job of an earlier try that still runs, or that succeeded while nobody looked, is taken over; after one that failed or was
        stopped there is a new one. Jobs from before the task was cleared are stopped: nobody waits for them any more.

        Raises:
            SubmitTFJobError: As `Client.submit`.
        """
        self._stop_earlier(run, name)
        try:
            handle = self._submitted(planned)
        except NameTaken as error:
            handle = self._of_that_name(planned, error)
        if handle.submission is not None and not handle.adopted:
            return handle
        seen = handle.status()
        if not seen.is_over:
            self.log.info("%s runs already, as %s: an earlier try submitted it", handle.name, handle.application_id)
            return handle
        if handle.wait().error is None:
            self.log.info("%s succeeded already, as %s: an earlier try submitted it", handle.name, handle.application_id)
            return handle
        return self._submitted(planned, replace=True)

    def _submitted(self, planned: Plan, *, replace: bool = False) -> JobHandle:
        from submit_tf_job import api
        from submit_tf_job.sdk import JobHandle

        client = self.get_conn()
        done = api.submit(planned, client.cluster, replace=replace)
        return JobHandle(client, done.ref.name, done.ref.application_id, submission=done)

    def _of_that_name(self, planned: Plan, error: NameTaken) -> JobHandle:
        """Find what holds the name, where the cluster does not say whose it is: nobody else makes such names, so it is an earlier try's."""
        from submit_tf_job.sdk import JobHandle

        client = self.get_conn()
        if "application_id" not in error.details:  # a worker that died a moment ago may have left a POST that is still at work
            client.cluster.sleep(_STARTING_S)
        newest = next(iter(client.cluster.client.apps(user=client.settings.user, name=planned.job.name)), None)
        if newest is None:
            return self._submitted(planned, replace=True)
        if not newest.ended:
            raise error
        return JobHandle(client, planned.job.name, newest.id)

    def _stop_earlier(self, run: TaskRun, name: str | None) -> None:
        if not run.cleared_at:
            return
        client = self.get_conn()
        live = [app for app in client.cluster.client.apps(user=client.settings.user) if not app.ended and app.name]
        for earlier in run.earlier([app.name or "" for app in live], name):
            self.log.info("stopping %s, which ran for this task before it was cleared", earlier)
            client.attach(earlier).stop()

    def kill(self, name: str, application_id: str | None) -> None:
        """Stop the job of a task that was killed, over connections of its own: what it interrupts may be in the middle of a request.

        Args:
            name: The job.
            application_id: Its application; None where it is not known whether there is one yet.
        """
        from submit_tf_job.errors import NoSuchJob
        from submit_tf_job.sdk import JobHandle

        with self._new_client() as client:
            cluster, user = client.cluster, client.settings.user
            give_up_at = cluster.clock() + _STARTING_S
            while application_id is None:
                live = [app for app in cluster.client.apps(user=user, name=name) if not app.ended]
                application_id = live[0].id if live else None
                if application_id is None and cluster.clock() > give_up_at:
                    return
                cluster.sleep(1.0)
            with contextlib.suppress(NoSuchJob):
                JobHandle(client, name, application_id).stop(wait=False)
