"""Load a job spec file, plan its submission, and submit it: load_job, make_plan, submit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    DeadlinePassed,
    InternalError,
    JobSpecError,
    KeyReused,
    NameTaken,
    Problem,
    SubmitTFJobError,
)
from submit_tf_job.operations import resubmission, retention, run_again, run_records
from submit_tf_job.operations.cluster import (
    Cluster,
    JobRef,
    check_identity,
    site_of,
)
from submit_tf_job.operations.key_runs import is_of_content
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.run_values import values_of_job
from submit_tf_job.operations.staging import Staging, own_directories
from submit_tf_job.operations.stop import FAILED_BEFORE, stop_run
from submit_tf_job.operations.stored_services import StoredServices, stored_services
from submit_tf_job.operations.submit_checks import (
    DataCheck,
    check_capacity,
    check_client_config,
    check_keytab,
)
from submit_tf_job.settings import Settings, directories, krb5_conf_files
from submit_tf_job.yarn.run_names import Again

if TYPE_CHECKING:
    from submit_tf_job.dialects.conversion import Conversion
    from submit_tf_job.jobspec import Defaults
    from submit_tf_job.jobspec.files import Host
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.plan import Plan
    from submit_tf_job.storage.staging import Sent
    from submit_tf_job.yarn.exactly_once import KeyedSubmission


@dataclass(frozen=True)
class Submission:
    """The result of a submission.

    Attributes:
        ref: The job, with its run and application.
        adopted: Whether the run existed already, from an earlier identical submission.
        plan: The run's plan.
        warnings: What the cluster does differently from what the job spec says, though the job
            runs.
        after: The earlier run of the same idempotency key, which has ended; "" if there was none.
    """

    ref: JobRef
    adopted: bool
    plan: Plan
    warnings: tuple[str, ...] = ()
    after: str = ""


def load_job(
    path: Path,
    settings: Settings,
    *,
    overrides: Sequence[str] = (),
    name: str | None = None,
    text: bytes | None = None,
    base: Path | None = None,
    host_files: bool = True,
    uploads: Path | None = None,
    has_ended: Callable[[], bool] = lambda: False,
    dialect: str | None = None,
) -> Job:
    """Read a job spec file.

    Args:
        path: The file; `files` are relative to its directory.
        overrides: `path=value` texts, as for `--set`.
        name: Another name for the job.
        text: The content, if it was read already (standard input).
        base: The directory for `files` of `text`; default: the working directory.
        host_files: Whether `text` may name files of this host; False for the text of another user,
            for which the work of reading is limited (`jobspec.reading_budget`).
        uploads: The directory of the files that were sent with `text`, which it may name.
        has_ended: Returns whether the client that sent the text has left, so that the reading can
            stop; for another user's text.
        dialect: The file's format; "jobspec" for a job spec of this package; None to recognise the
            format.

    Raises:
        JobSpecError: Every problem of the file at once.
        UsageError: Without `host_files`: to read the text takes too much CPU time, or `has_ended`
            returned True.
    """
    from submit_tf_job import jobspec
    from submit_tf_job.jobspec.job import Given
    from submit_tf_job.jobspec.reading_budget import ReadingBudget

    where: Path | None = path.parent
    if text is None:
        text = jobspec.read_file(path)
    else:
        where = (base or Path.cwd()) if host_files else None
    host = _host_of(where, settings, uploads)
    if not host_files:
        host = replace(host, cache=None, budget=ReadingBudget.of_others(has_ended))
    found = jobspec.read(
        text,
        source=str(path),
        host=host,
        defaults=_spec_defaults(settings),
        overrides=overrides,
        name=name,
        dialect=dialect,
    )
    return replace(found.job, given=Given(text.decode(errors="replace"), tuple(overrides)))


def _host_of(base: Path | None, settings: Settings, uploads: Path | None = None) -> Host:
    from submit_tf_job.jobspec.files import Host

    cache = directories().cache
    return Host(base, settings.hadoop_conf, krb5_conf_files(settings), cache, uploads)


def _spec_defaults(settings: Settings) -> Defaults:
    from submit_tf_job.jobspec import Defaults

    job = dict(settings.job)
    if isinstance(job.get("kerberos"), dict):  # a gateway's defaults are for all its callers
        job["kerberos"] = {
            key: value.replace("{user}", settings.user) if isinstance(value, str) else value
            for key, value in job["kerberos"].items()
        }
    return Defaults(job, settings.shapes, settings.origins, settings.task_memory)


def convert(
    content: str | bytes | Sequence[str],
    settings: Settings,
    *,
    source: str,
    base: Path,
    dialect: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    strict: bool = False,
) -> Conversion:
    """Convert a job file or a command line of another system to a job spec.

    Args:
        content: The file, or the words of a command line.
        settings: The settings, with the site's defaults for jobs.
        source: The name of the file or command line in messages.
        base: The directory of relative `files`.
        dialect: The name of the format; None to recognise it.
        overrides: `path=value` texts, as for `--set`.
        name: Another name for the job.
        strict: Refuse a job with parts that cannot be converted.

    Raises:
        JobSpecError: The error has every problem found.
    """
    from submit_tf_job import jobspec
    from submit_tf_job.dialects import conversion

    made = conversion.convert(
        jobspec.read(
            content,
            source=source,
            host=_host_of(base, settings),
            defaults=_spec_defaults(settings),
            overrides=overrides,
            name=name,
            dialect=dialect,
        )
    )
    lost = [remark for remark in made.remarks if remark.level == "warning"]
    if strict and lost:
        raise JobSpecError(
            Problem(r.place.line, r.place.column, r.path, r.text, r.place.source) for r in lost
        )
    return made


def make_plan(
    job: Job,
    settings: Settings,
    *,
    key: str | None = None,
    again: Again | None = None,
    detached: bool = False,
) -> Plan:
    """Return the plan of a submission; sends no request.

    Args:
        job: The job.
        settings: The settings.
        key: The idempotency key of the submission; None for a hash of the job and its files.
        again: Whether the key is run again after its run has ended; None for never if a key is
            given, and always if not.
        detached: Whether nobody follows the job. If it has no lifetime it then gets that of the
            settings (`detached_lifetime`): nothing on the cluster ends a job whose
            ApplicationMaster never gets a container (docs/internals/endings.md). The key does not
            depend on that lifetime.

    Raises:
        JobSpecError: YARN or a NodeManager would refuse the job; or, for Hadoop 3.1 and 3.2, the
            job has `retries` and no `lifetime`.
        UsageError: The key is not valid.
        Refused: Hadoop 3.1 or 3.2 (`hadoop_version`) could not read the service again; `submit`
            checks more.
    """
    from submit_tf_job.plan import plan
    from submit_tf_job.plan.check import check_old_hadoop

    planned = plan(
        job,
        site_of(settings),
        key=key,
        again=again,
        lifetime_s=int(settings.detached_lifetime_s) if detached else 0,
    )
    version = settings.hadoop_version
    if not version:
        return planned
    check_old_hadoop(planned, version)
    return planned.for_hadoop(version)


def submit(
    planned: Plan,
    cluster: Cluster,
    *,
    on_upload: Callable[[Sent], None] = lambda _sent: None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> Submission:
    """Submit a plan exactly once, even if a response is lost, and return its run.

    The plan has an idempotency key. If a run with this key is alive, that run is returned. If a run
    with the key has ended, the plan's `again` decides whether the key is run again, as a run with
    the next number. If it may be run again, a run that has failed and whose container is still held
    (`hold_on_failure`) is stopped first.

    Args:
        planned: The plan of the first run with the key (number 0).
        cluster: The cluster.
        on_upload: Called with the progress of the upload, from any thread, one call at a time.
        on_wait: Called with one line when the submission has to wait.

    Returns:
        The run, new or adopted.

    Raises:
        JobSpecError: An input, output or keytab does not exist, or cannot be read or written; no
            node can run the job's image; or, on Hadoop 3.1 and 3.2, the job has `retries` and no
            `lifetime`.
        UsageError: A file of this host was deleted or changed after the job spec was read.
        AuthError: The ResourceManager sees another user (`check_identity`), or the user may not
            write to the staging directory or submit to the queue.
        NameTaken: Another run of the job, with another key, is alive.
        KeyReused: The key that the caller gave was used before, for other settings or files.
        Refused: The cluster refuses the job, or its version of Hadoop cannot run the job.
        ClusterUnavailable: The cluster failed, and the job may or may not run; the same call again
            determines it.
        DeadlinePassed: `timeouts.submit` passed.
    """
    from submit_tf_job.yarn import exactly_once

    check_identity(cluster)
    planned = _for_version(planned, cluster)
    for_caller = cluster.own_jobs_only
    if planned.job.kerberos:
        check_keytab(planned.job, cluster.settings, for_caller=for_caller)
    if for_caller:
        check_client_config(planned.job, cluster.settings)
    stored = stored_services(cluster)
    preparation = _Preparation(planned, cluster, stored, on_upload)
    try:
        done = exactly_once.submit(
            cluster.client,
            _keyed_submission(planned, cluster, preparation),
            stored=stored,
            deadline=cluster.client.deadline(cluster.settings.timeouts.submit_s),
            on_wait=on_wait,
        )
    except NameTaken as error:
        preparation.undo()
        raise _with_other_name(cluster, planned, error) from None
    except (AuthError, ClusterUnavailable, DeadlinePassed, InternalError):
        raise  # this process or a second one may have posted the run, which would need its keytab
    except SubmitTFJobError:
        preparation.undo()
        raise
    if done.alone:
        preparation.forget_and_retire_earlier(done.run)
    ref = JobRef(planned.job.name, done.application_id, done.run)
    runs_again = done.adopted and planned.again is not Again.NEVER
    if runs_again and planned.job.hold_s and read_status(cluster, ref).held:
        # it is over, and only its container still stays
        stop_run(cluster, ref, reason=FAILED_BEFORE, on_wait=on_wait)
        return submit(planned, cluster, on_upload=on_upload, on_wait=on_wait)
    # a run that `retries.memory` has begun has more memory; the first one has what was submitted
    first = planned.run_of(done.number)
    if done.adopted and planned.given_key and not is_of_content(cluster, planned, first):
        raise _key_reused(ref)
    warnings = [] if done.adopted else [*preparation.capacity_warnings]
    if planned.job.priority is not None:
        from submit_tf_job.operations.change import apply_priority  # few jobs have one

        warnings.append(apply_priority(cluster, ref, planned.job.priority))
    if done.live:
        warnings.append(_several_runs_warning(planned.job.name, ref, done.live))
    made = Submission(
        ref,
        done.adopted,
        planned.at(done.number),
        tuple(filter(None, warnings)),
        done.after,
    )
    run_records.begin(cluster, made)
    return made


def _with_other_name(cluster: Cluster, planned: Plan, error: NameTaken) -> NameTaken:
    """Return the error that the job's name is taken, with a hint that suggests another name, made
    from what differs from the run that is alive. The error is returned unchanged if that run has no
    record, or if nothing differs.
    """
    from submit_tf_job.operations.run_differences import differences, name_of_differences

    record = None
    with suppress(SubmitTFJobError):
        record = run_records.read(cluster, str(error.details.get("run")))
    if record is None:
        return error
    job = planned.job
    mine = {"submission": {"values": values_of_job(job)}}
    name = name_of_differences(job.name, differences([record, mine]))
    if not name:
        return error
    hint = error.hint.replace("choose another name.", f"give this one another name: --name {name}")
    return NameTaken(error.message, hint=hint, details={**error.details, "other_name": name})


def stage(planned: Plan, settings: Settings) -> None:
    """Upload what the service of a plan refers to, as `submit` does before its POST.

    Raises:
        JobSpecError: An input, file or keytab does not exist, or cannot be read; or an output
            cannot be written, or is there already without `overwrite`.
        UsageError: A file of this host was deleted or changed after the job spec was read.
        AuthError: The staging directory cannot be written.
        Refused: The disk or the quota is full.
        ClusterUnavailable: HDFS cannot be reached.
    """
    if planned.job.kerberos:
        check_keytab(planned.job, settings, for_caller=False)
    data = DataCheck(planned.job, settings)
    data.check()
    Staging(settings, planned.site.staging).stage(planned, data.lists, lambda _sent: None)


def _keyed_submission(
    planned: Plan, cluster: Cluster, preparation: _Preparation
) -> KeyedSubmission:
    """Return what `exactly_once.submit` needs. The records of runs are read only for an idempotency
    key that is not always run again (`Again`).
    """
    from submit_tf_job.yarn.exactly_once import KeyedSubmission

    keyed = KeyedSubmission(
        job=planned.job.name,
        user=planned.site.user,
        key=planned.key,
        name_of=planned.run_of,
        body_of=lambda number: planned.at(number).body,
        has_several_runs=planned.again is not Again.NEVER,
        runs_again_after=partial(run_again.is_run_again, cluster, planned.again),
        resubmissions_of=partial(resubmission.possible_later_runs, planned),
        prepare=preparation.prepare,
    )
    if planned.again is Again.AFTER_FAILURE:
        keyed = replace(
            keyed,
            runs_again_after_forgotten=lambda run, app_id: not run_again.has_succeeded(
                cluster, run, app_id
            ),
        )
    if planned.again is Again.ALWAYS:
        return keyed
    return replace(
        keyed,
        record_of=partial(run_records.stored_run, cluster),
        names_with_records=partial(run_records.names, cluster, planned.job.name),
    )


class _Preparation:
    """The checks and uploads before a POST: files, lists and the keytab of one run."""

    def __init__(
        self,
        planned: Plan,
        cluster: Cluster,
        stored: StoredServices | None,
        on_upload: Callable[[Sent], None],
    ) -> None:
        self._cluster, self._stored, self._on_upload = cluster, stored, on_upload
        self._planned = planned
        self._staging = Staging(cluster.settings, planned.site.staging)
        self._data = DataCheck(planned.job, cluster.settings, for_caller=cluster.own_jobs_only)
        self.capacity_warnings: tuple[str, ...] = ()  # what the job may meet on this cluster

    def prepare(self, number: int) -> None:
        """Make the checks that may refuse the job, and stage its files, for the run with this
        number.
        """
        from submit_tf_job.diagnose.fit import check_largest

        cluster = self._cluster
        planned = self._planned = self._planned.at(number)
        # Only for a job that is about to be posted: a running one takes room itself, and its
        # cluster may have changed since.
        check_largest(planned.job, planned.site, cluster.client.maximum_resources())
        self.capacity_warnings = check_capacity(planned, cluster)
        self._data.check()
        self._staging.stage(planned, self._data.lists, self._on_upload)

    def undo(self) -> None:
        """Remove the staged files of a submission that was refused. Do nothing if YARN has a stored
        copy of the run, or if that is not known: another process may be about to start the run.
        """
        try:
            # another process with the same submission may be about to start this run
            if self._stored is None or self._stored.copy_of(self._planned.run) is not None:
                return
        except SubmitTFJobError:
            return
        self._staging.forget_staged()

    def forget_and_retire_earlier(self, run: str) -> None:
        """Remove what earlier runs of the job have left: staged files that this run does not use,
        and the oldest runs beyond those that are kept.
        """
        used = own_directories(self._planned.uploads)
        if self._data.lists:
            used.append(self._planned.lists)
        self._staging.forget_others(used)
        if self._stored is not None:
            retention.retire(self._cluster, self._stored, self._planned.job.name, run)


def _key_reused(ref: JobRef) -> KeyReused:
    return KeyReused(
        f"{ref.run} ({ref.application_id}) has this submission's id already, with other settings "
        f"or files; nothing was submitted.",
        hint="Give each run an id of its own: the same id is the same run of the same job. Follow "
        f"that one: submit_tf_job wait {ref.run}.",
        details={"run": ref.run, "application_id": ref.application_id},
    )


def _several_runs_warning(job: str, ref: JobRef, others: tuple[str, ...]) -> str:
    """Return the warning about several live runs of a job: a client died while it submitted one of
    them.
    """
    runs = ", ".join([ref.run, *others])
    return f"{len(others) + 1} runs of {job} are live: {runs}; stop one: submit_tf_job stop RUN"


def _for_version(planned: Plan, cluster: Cluster) -> Plan:
    """Return the plan for the cluster's version of Hadoop, if that version can run the job; raise
    an error if not. The request for the version is the first of a submission: if no ResourceManager
    answers it, `submit` gives up after `timeouts.failover`, not after `timeouts.submit`.
    """
    from submit_tf_job.plan.check import check_old_hadoop, check_version

    found = cluster.client.recent_info().hadoop_version
    version = cluster.settings.hadoop_version or found or ""
    check_version(planned.body, version)
    check_old_hadoop(planned, version)
    return planned.for_hadoop(version)
