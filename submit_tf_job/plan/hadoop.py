"""Plan what a job needs from Hadoop: its configuration in containers; keytab, krb5.conf, and
whether the tasks log in themselves; and what tasks write to HDFS through its web addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from submit_tf_job.container import contract, keytab
from submit_tf_job.errors import Problem, SettingsError
from submit_tf_job.host.hadoopconf import sensitive_properties
from submit_tf_job.jobspec.job import HadoopConf, Job, Kerberos, Mount, OwnLogin, ShippedFile
from submit_tf_job.plan.delivery import Contribution, File, Stage
from submit_tf_job.plan.site import Names, Site
from submit_tf_job.yarn.run_names import job_of

_FILE = "file://"


def contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return the keytab, krb5.conf and their mounts, what the bootstrap has to do with them, and
    their problems. For a job without `kerberos`, only tell the bootstrap whether tasks get
    delegation tokens.

    The keytab is always among the files, because the ApplicationMaster needs it; the file's `roles`
    are the roles whose tasks also get it.
    """
    kerberos = job.kerberos
    if kerberos is None:
        return Contribution(task={"tokens": True} if site.secure else {})
    conf = kerberos.krb5_conf
    shipped, mounted = [], []
    task: dict[str, str | None] = {"krb5_conf": None}
    if conf.kind == "inline":
        task["krb5_conf"] = contract.KRB5_CONF_FILE
        shipped.append(ShippedFile(contract.KRB5_CONF_FILE, conf.content))
    elif conf.kind == "node":
        task["krb5_conf"] = conf.location
        mounted.append(conf.location)
    logs_in = _logs_in(job, kerberos, site)
    on_nodes = kerberos.secret is None and kerberos.keytab.startswith(_FILE)
    if logs_in:
        task["principal"] = kerberos.principal
        task["keytab"] = contract.KEYTAB_FILE
        task["login"] = kerberos.login.value
        if on_nodes:
            task["keytab"] = kerberos.keytab.removeprefix(_FILE)
            mounted.append(kerberos.keytab.removeprefix(_FILE))
    return Contribution(
        files=(_keytab_file(kerberos, stage, None if logs_in and not on_nodes else ()),),
        shipped=tuple(shipped),
        mounts=tuple(Mount(path, path) for path in mounted),
        task={"tokens": True, "kerberos": task},
        problems=tuple(_kerberos_problems(job, kerberos, site)),
    )


def _logs_in(job: Job, kerberos: Kerberos, site: Site) -> bool:
    """Return whether the tasks log in with the keytab instead of using delegation tokens.

    Tokens expire after `token_life_s` although they are renewed, and a running program never gets
    new tokens (hadoop-facts.md#delegation-tokens-in-containers).
    """
    if kerberos.login is OwnLogin.NEVER:
        return False
    return (
        kerberos.login is OwnLogin.ALWAYS
        or job.lifetime_s is None
        or job.lifetime_s > site.token_life_s
    )


def _keytab_file(kerberos: Kerberos, stage: Stage, roles: tuple[str, ...] | None) -> File:
    name, secret = contract.KEYTAB_FILE, kerberos.secret
    if secret is None:
        return File(name, (kerberos.keytab,), roles=roles)
    uri = (f"{stage.keytabs}/", f"-{_keytab_edition(secret)}/{name}")
    return File(name, uri, secret, secret=True, roles=roles)


def _keytab_edition(content: bytes) -> str:
    """Return a hash of a keytab's list of keys, which differs after each change of a key.

    The hash does not depend on the keys themselves: a key that is derived from a password could be
    guessed from such a hash.
    """
    entries = [
        f"{entry.principal} {entry.version} {entry.kind} {entry.made}\n"
        for entry in keytab.read(content)
    ]
    return hashlib.sha256("".join(entries).encode()).hexdigest()[:8]


def _kerberos_problems(job: Job, kerberos: Kerberos, site: Site) -> Iterator[Problem]:
    if kerberos.secret is not None and not (site.staging or "").startswith("hdfs://"):
        yield job.problem(
            "kerberos.keytab",
            "a keytab of this host is put on HDFS for the job, and no HDFS is configured; set "
            "hadoop_conf, or staging: hdfs://…",
        )
    elif kerberos.secret is not None and not site.secure:
        yield job.problem(
            "kerberos.keytab",
            "this cluster does not authenticate users (auth: simple), so that anyone "
            "could read a keytab on its HDFS; "
            "leave `kerberos` out, or set auth: kerberos",
        )


# --- the configuration ----------------------------------------------------------------------------

DIRECTORY = "hadoop-conf"


def configuration_contribution(job: Job, site: Site) -> Contribution:
    """Return how the Hadoop configuration reaches containers (files or a mount), and what the
    bootstrap has to do with it. Secrets in a configuration that travels inside the service are
    problems.
    """
    conf = job.hadoop
    if conf is None:
        return Contribution(task={"hadoop_conf": None})
    if conf.kind == "node":
        mount = Mount(conf.location, conf.location)
        return Contribution(mounts=(mount,), task={"hadoop_conf": conf.location})
    if conf.kind == "archive":
        name = contract.HADOOP_CONF_LINK
        return Contribution(
            files=(File(name, (conf.location,), type="ARCHIVE"),),
            task={"hadoop_conf": f"archive:{name}"},
        )
    return Contribution(
        shipped=tuple(ShippedFile(f"{DIRECTORY}/{file.name}", file.content) for file in conf.files),
        task={"hadoop_conf": "inline"},
        problems=() if site.staging else tuple(_sensitive_problems(job, conf)),
    )


def _sensitive_problems(job: Job, conf: HadoopConf) -> Iterator[Problem]:
    for file in conf.files:
        assert isinstance(file.content, bytes)
        try:
            found = sensitive_properties(file.name, file.content)
        except SettingsError as error:
            yield job.problem("hadoop.conf", str(error))
            continue
        for name in found:
            yield job.problem(
                "hadoop.conf",
                f"{name} in {file.name} is a secret to Hadoop, and without a staging directory "
                "anyone who can see the job could read it; set staging: hdfs://… in the settings, "
                "or name an archive on HDFS or a directory of the nodes",
            )


# --- where the deciding task is, without Registry DNS; its last report, beside the run's record ---


def meeting_contribution(job: Job, site: Site, stage: Stage) -> Contribution:
    """Return what the bootstrap has to do so that tasks find the deciding task by a directory of
    HDFS; empty if only DNS is used for that, or if HDFS has no web address: with
    `names: rendezvous`, that is a problem for a job of several tasks.
    """
    if site.names is Names.DNS:
        return Contribution()
    web = site.web_hdfs
    if web is None:
        found = []
        if site.names is Names.RENDEZVOUS and sum(job.counts.values()) > 1:
            message = (
                "with `names: rendezvous` of the settings the tasks find one another by a "
                "directory of HDFS, and none is configured; set hadoop_conf (or staging: "
                "hdfs://…), or use `names: dns`"
            )
            found = [job.problem("roles", message)]
        return Contribution(problems=tuple(found))
    place = web.below(stage.meeting.removeprefix(site.staging or ""), site.user)
    return Contribution(task={"meeting": {**place, "dns": site.names is Names.AUTO}})


def report_contribution(site: Site, run: str) -> Contribution:
    """Return what the bootstrap has to do to write the deciding task's last report beside the run's
    record; empty if HDFS has no web address.
    """
    web = site.web_hdfs
    if web is None:
        return Contribution()
    place = web.below(f"/records/{job_of(run)}/{run}.report", site.user)
    return Contribution(task={"record": place})
