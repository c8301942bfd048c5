"""Check a job's keytab before the POST, and stage it; return the warnings of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    JobSpecError,
    SubmitTFJobError,
)
from submit_tf_job.host.kerberos import short_name
from submit_tf_job.operations.cluster import site_of, storage_of
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job, Kerberos
    from submit_tf_job.plan import Plan

__all__ = ["check_keytab", "stage_keytab", "warnings"]


def warnings(job: Job, settings: Settings) -> list[str]:
    """Return a warning with its solution for each problem that YARN does not detect at the POST."""
    return [
        *_without_chief(job),
        *_without_shell(job),
        *_without_configuration(job),
        *_of_kerberos(job, settings),
    ]


def _without_chief(job: Job) -> list[str]:
    from submit_tf_job.host.located.diagnostics import BUILT_IN
    from submit_tf_job.jobspec.job import Strategy

    stated = job.places.get("deciding_role", BUILT_IN) != BUILT_IN
    if job.strategy is not Strategy.PARAMETER_SERVER or "chief" in job.roles or stated:
        return []
    return [
        "roles: without a chief worker-0 decides, as in TensorFlow 1's replicated training: say so "
        "by deciding_role: worker. ParameterServerStrategy of TensorFlow 2 needs a chief: add "
        "chief: {memory: 4Gi}"
    ]


def _without_shell(job: Job) -> list[str]:
    words = [word for role in job.roles.values() for word in role.command.argv or ()]
    return [
        f"command: {word} stays as it is in a list, which no shell reads; write the command as "
        f"text, or the directory tfjob-outputs/NAME or tfjob-inputs/NAME"
        for word in dict.fromkeys(words)
        if word.startswith("$TFJOB_")
    ]


def _without_configuration(job: Job) -> list[str]:
    if job.hadoop is not None:
        return []
    copied = [(f"inputs.{item.name}", item.uri) for item in job.inputs if item.download]
    copied += [(f"outputs.{output.name}", output.uri) for output in job.outputs if output.upload]
    return [
        f"{path}: {uri} names no NameNode, and the job sends no Hadoop configuration: the "
        f"image needs one; or say hadoop: {{conf: inline}}"
        for path, uri in copied
        if uri.startswith(("hdfs:///", "viewfs:"))
    ]


def _of_kerberos(job: Job, settings: Settings) -> list[str]:
    from submit_tf_job.container.login import keytab

    if not settings.secure:
        return []
    if job.kerberos is None:
        return [_without_kerberos(settings)]
    found = []
    first = short_name(job.kerberos.principal)
    # by Hadoop's default auth_to_local; a cluster may have other rules
    if first != settings.user:
        found.append(
            f"the principal {job.kerberos.principal} is {first} to Hadoop, unless the "
            f"cluster maps it to {settings.user}, who submits; "
            f"the ApplicationMaster would not be let to {settings.user}'s files"
        )
    weak = (
        keytab.weakness(job.kerberos.secret, job.kerberos.principal) if job.kerberos.secret else ""
    )
    return [*found, f"the keytab {job.kerberos.keytab}: {weak}"] if weak else found


def _without_kerberos(settings: Settings) -> str:
    """Return the warning about a job without a Kerberos principal
    (hadoop-facts.md#kerberos-principal-of-a-service).
    """
    days = site_of(settings).token_life_s / 86400
    return (
        f"the cluster uses Kerberos and the job names no principal: it will run, but "
        f"status, scale and a stop in good order need one, and "
        f"HDFS shuts it out when its delegation tokens end, after {days:g} days at most; "
        f"write kerberos: {{principal: {settings.user}/_HOST@REALM, keytab: <path of its keytab>}}"
    )


# --- before the POST ---


def check_keytab(planned: Plan, settings: Settings) -> None:
    """Check a keytab on HDFS, if this host can read HDFS.

    Raises:
        JobSpecError: It does not exist, cannot be read, is readable for every user, or belongs to
            another principal.
    """
    kerberos = planned.job.kerberos
    if kerberos is None or kerberos.secret is not None or not kerberos.keytab.startswith("hdfs://"):
        return
    why = _trouble_on_hdfs(kerberos, settings)
    if why:
        raise JobSpecError([planned.job.problem("kerberos.keytab", f"{kerberos.keytab} {why}")])


def _trouble_on_hdfs(kerberos: Kerberos, settings: Settings) -> str:
    from submit_tf_job.container.login import keytab
    from submit_tf_job.storage import NoSuchPath

    try:
        storage = storage_of(settings, kerberos.keytab)
        found = storage.stat(kerberos.keytab)
        if found.is_dir:
            return "is a directory; name the keytab in it"
        if found.mode is not None and found.mode & 0o004:
            return (
                f"can be read by everybody (mode {found.mode & 0o777:03o}); hdfs dfs -chmod "
                f"400 {storage.path(kerberos.keytab)}"
            )
        if found.size > keytab.LONGEST:
            return f"has {found.size} bytes; no keytab is so large"
        why = keytab.find_problem(storage.read(kerberos.keytab), kerberos.principal)
        return f"cannot be used: {why}" if why else ""
    except NoSuchPath:
        return (
            f"is not there (as {settings.user} sees HDFS); YARN would run the job without it, "
            f"and only its log would say so"
        )
    except AuthError as error:
        if "Permission denied" in error.message or "AccessControlException" in error.message:
            return f"is not readable for {settings.user}, as whom YARN fetches it: {error.message}"
        return ""  # this host has no credentials, but YARN has
    except SubmitTFJobError:
        return ""  # this host cannot reach HDFS


def stage_keytab(planned: Plan, settings: Settings) -> bool:
    """Upload a keytab of this host to the directory where YARN reads it; return whether it is new.

    Raises:
        AuthError: The directory cannot be written, or belongs to another user.
    """
    secret = planned.keytab
    if secret is None or not isinstance(secret.content, bytes):
        return False
    from submit_tf_job.storage.staging import stage_secret

    return stage_secret(
        storage_of(settings, secret.uri), secret.uri, secret.content, user=settings.user, levels=3
    )
