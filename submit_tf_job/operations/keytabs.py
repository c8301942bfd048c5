"""The job's keytab: looked at before the job is posted, staged for it, removed with it; and what a job without one cannot do."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job import keytab
from submit_tf_job.api.cluster import storage_of
from submit_tf_job.api.site import site_of
from submit_tf_job.errors import AuthError, JobSpecError, Refused, SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.kerberos import short_name
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.job import Job, Kerberos
    from submit_tf_job.plan import Plan, Upload

__all__ = ["check_keytab", "forget_keytab", "forget_keytabs", "forget_other_keytabs", "stage_keytab", "warnings"]


def warnings(job: Job, settings: Settings) -> list[str]:
    """Say what will not work although YARN takes the job; one sentence each, with the way out."""
    return [*_without_configuration(job), *_of_kerberos(job, settings)]


def _without_configuration(job: Job) -> list[str]:
    if job.hadoop is not None:
        return []
    copied = [(f"inputs.{item.name}", item.uri) for item in job.inputs if item.download]
    copied += [(f"outputs.{output.name}", output.uri) for output in job.outputs if output.upload]
    return [
        f"{path}: {uri} names no NameNode, and the job sends no Hadoop configuration: the image needs one; or say hadoop: {{conf: inline}}"
        for path, uri in copied
        if uri.startswith(("hdfs:///", "viewfs:"))
    ]


def _of_kerberos(job: Job, settings: Settings) -> list[str]:
    if not settings.secure:
        return []
    if job.kerberos is None:
        return [_without_kerberos(settings)]
    found = []
    first = short_name(job.kerberos.principal)
    if first != settings.user:  # Hadoop's default auth_to_local; a cluster may have rules of its own
        found.append(
            f"the principal {job.kerberos.principal} is {first} to Hadoop, unless the cluster maps it to {settings.user}, who submits; "
            f"the ApplicationMaster would not be let to {settings.user}'s files"
        )
    weak = keytab.weakness(job.kerberos.secret, job.kerberos.principal) if job.kerberos.secret else ""
    return [*found, f"the keytab {job.kerberos.keytab}: {weak}"] if weak else found


def _without_kerberos(settings: Settings) -> str:
    """Name what was seen to fail (facts: verified-security-ha 3)."""
    days = site_of(settings).token_life_s / 86400
    return (
        f"the cluster uses Kerberos and the job names no principal: it will run, but status, scale and a stop in good order need one, and "
        f"HDFS shuts it out when its delegation tokens end, after {days:g} days at most; "
        f"write kerberos: {{principal: {settings.user}/_HOST@REALM, keytab: <path of its keytab>}}"
    )


# --- before the POST ---


def check_keytab(planned: Plan, settings: Settings) -> None:
    """Look at a keytab on HDFS, where HDFS can be looked at from here.

    Raises:
        JobSpecError: It is not there, cannot be read, is open to everybody, or is not the principal's.
    """
    kerberos = planned.job.kerberos
    if kerberos is None or kerberos.secret is not None or not kerberos.keytab.startswith("hdfs://"):
        return
    why = _trouble_on_hdfs(kerberos, settings)
    if why:
        raise JobSpecError([planned.job.problem("kerberos.keytab", f"{kerberos.keytab} {why}")])


def _trouble_on_hdfs(kerberos: Kerberos, settings: Settings) -> str:
    from submit_tf_job.storage import NoSuchPath

    try:
        storage = storage_of(settings, kerberos.keytab)
        found = storage.stat(kerberos.keytab)
        if found.is_dir:
            return "is a directory; name the keytab in it"
        if found.mode is not None and found.mode & 0o004:
            return f"can be read by everybody (mode {found.mode & 0o777:03o}); hdfs dfs -chmod 400 {storage.path(kerberos.keytab)}"
        if found.size > keytab.LONGEST:
            return f"has {found.size} bytes; no keytab is so large"
        why = keytab.trouble(storage.read(kerberos.keytab), kerberos.principal)
        return f"cannot be used: {why}" if why else ""
    except NoSuchPath:
        return f"is not there (as {settings.user} sees HDFS); YARN would run the job without it, and only its log would say so"
    except AuthError as error:
        if "Permission denied" in error.message or "AccessControlException" in error.message:
            return f"is not readable for {settings.user}, as whom YARN fetches it: {error.message}"
        return ""  # it is this host that cannot prove who it is; YARN can
    except SubmitTFJobError:
        return ""  # HDFS is not to be had from here


def secret_of(planned: Plan) -> Upload | None:
    """Return the keytab that a plan stages, if it does."""
    return next((upload for upload in planned.uploads if upload.secret), None)


def stage_keytab(planned: Plan, settings: Settings) -> bool:
    """Put a keytab of this host where YARN finds it; say whether it was not there before.

    Raises:
        AuthError: The directory may not be written, or is somebody else's.
    """
    secret = secret_of(planned)
    if secret is None or not isinstance(secret.content, bytes):
        return False
    from submit_tf_job.staging import stage_secret

    return stage_secret(storage_of(settings, secret.uri), secret.uri, secret.content, user=settings.user, levels=3)


# --- afterwards ---


def forget_keytab(planned: Plan, settings: Settings) -> None:
    """Remove the keytab of a submission that was refused; its refusal is what counts, whatever becomes of this."""
    secret = secret_of(planned)
    if secret is not None:
        with suppress(SubmitTFJobError):
            storage_of(settings, secret.uri).remove(secret.uri.rpartition("/")[0], recursive=True)


def forget_other_keytabs(planned: Plan, settings: Settings) -> None:
    """Remove keytabs that earlier jobs of the name left: this submission has the name now."""
    secret = secret_of(planned)
    if secret is None:
        return
    mine = secret.uri.rpartition("/")[0]
    with suppress(SubmitTFJobError):
        storage = storage_of(settings, secret.uri)
        for other in storage.list_dir(mine.rpartition("/")[0]):
            if other.path != storage.path(mine):
                storage.remove(other.path, recursive=True)


def forget_keytabs(name: str, settings: Settings) -> None:
    """Remove every keytab that was staged for jobs of a name.

    Raises:
        SubmitTFJobError: HDFS could be asked, and it cannot be done.
    """
    if not settings.secure:
        return  # no keytab is staged there
    from submit_tf_job.plan.identity import keytabs_of

    root = site_of(settings).staging or ""
    if not root.startswith("hdfs://"):
        return
    where = keytabs_of(root, name)
    try:
        storage = storage_of(settings, where)
    except (SettingsError, UsageError):
        return  # nor could one have been, from here
    try:
        storage.remove(where, recursive=True)
    except SubmitTFJobError as error:
        raise Refused(
            f"whether a keytab that was staged for {name} is left on HDFS is not certain: {error.message}",
            hint=f"remove {where}, or delete {name} again",
        ) from None
