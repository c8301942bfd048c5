"""Who the job is on a cluster with Kerberos: where its keytab lies, what travels into the containers, and when they log in themselves."""

from __future__ import annotations

import hashlib

from submit_tf_job import contract, keytab
from submit_tf_job.job import Job, Kerberos, OwnLogin, ShippedFile
from submit_tf_job.plan.site import Site
from submit_tf_job.yarn.records import ConfigFile

__all__ = ["config_files", "description", "files", "keytab_uri", "keytabs_of", "logs_in", "node_files"]

KEYTABS = "keytabs"  # below the staging directory; the others there are named by their content's hash
_FILE = "file://"


def logs_in(job: Job, site: Site) -> bool:
    """Say whether the tasks log in with the keytab, instead of living on delegation tokens.

    Those end with `token_life_s`, whoever renews them, and a running program never gets others (facts: verified-security-ha 4).
    """
    if job.kerberos is None or not job.bootstrap or job.kerberos.login is OwnLogin.NEVER:
        return False
    return job.kerberos.login is OwnLogin.ALWAYS or job.lifetime_s is None or job.lifetime_s > site.token_life_s


def keytabs_of(staging: str, job_name: str) -> str:
    """Return the directory of the keytabs that were staged for jobs of a name: a name is one job's at a time."""
    return f"{staging}/{KEYTABS}/{job_name}"


def keytab_uri(job: Job, kerberos: Kerberos, site: Site, submission: str) -> str:
    """Return where YARN finds the keytab."""
    if kerberos.secret is None:
        return kerberos.keytab
    return f"{keytabs_of(site.staging or '', job.name)}/{submission}-{_edition(kerberos.secret)}/{contract.KEYTAB_FILE}"


def _edition(content: bytes) -> str:
    """Tell one edition of a keytab from the next by what is no secret in it: a hash of keys that come from a password can be guessed."""
    told = [f"{entry.principal} {entry.version} {entry.kind} {entry.made}\n" for entry in keytab.read(content)]
    return hashlib.sha256("".join(told).encode()).hexdigest()[:8]


def description(job: Job, site: Site) -> dict[str, object] | None:
    """Build what the bootstrap needs to know, None for a job without Kerberos."""
    kerberos = job.kerberos
    if kerberos is None:
        return None
    krb5_conf = {"inline": contract.KRB5_CONF_FILE, "node": kerberos.krb5_conf.location, "image": None}[kerberos.krb5_conf.kind]
    if not logs_in(job, site):
        return {"krb5_conf": krb5_conf}
    path = kerberos.keytab.removeprefix(_FILE) if _on_nodes(kerberos) else contract.KEYTAB_FILE
    return {"krb5_conf": krb5_conf, "principal": kerberos.principal, "keytab": path, "login": kerberos.login.value}


def config_files(job: Job, site: Site, submission: str) -> list[ConfigFile]:
    """List what YARN puts into the working directory: the keytab, readable by its owner alone as it is on HDFS (seen)."""
    if job.kerberos is None or not logs_in(job, site) or _on_nodes(job.kerberos):
        return []
    return [ConfigFile("STATIC", contract.KEYTAB_FILE, keytab_uri(job, job.kerberos, site, submission))]


def files(job: Job) -> list[ShippedFile]:
    """List what travels with the role's files: krb5.conf."""
    if job.kerberos is None or job.kerberos.krb5_conf.kind != "inline":
        return []
    return [ShippedFile(contract.KRB5_CONF_FILE, job.kerberos.krb5_conf.content)]


def node_files(job: Job, site: Site) -> list[str]:
    """List files of the node that the container has to see."""
    kerberos = job.kerberos
    if kerberos is None:
        return []
    krb5_conf = [kerberos.krb5_conf.location] if kerberos.krb5_conf.kind == "node" else []
    return krb5_conf + ([kerberos.keytab.removeprefix(_FILE)] if logs_in(job, site) and _on_nodes(kerberos) else [])


def _on_nodes(kerberos: Kerberos) -> bool:
    return kerberos.secret is None and kerberos.keytab.startswith(_FILE)
