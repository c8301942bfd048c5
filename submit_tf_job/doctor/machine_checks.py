"""Checks of this machine: settings, names, and the user's home in HDFS."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.doctor.findings import Check, Examined, Subject
from submit_tf_job.errors import SettingsError
from submit_tf_job.host.hadoopconf import read_xml
from submit_tf_job.operations.cluster import storage_of
from submit_tf_job.storage import NoSuchPath

__all__ = ["check_dns", "check_hdfs", "check_services_directory", "check_settings"]


def check_settings(examined: Examined) -> Iterator[Check]:
    from submit_tf_job.host.hadoopconf import read_xml

    settings = examined.settings
    profile = clause("profile {}", settings.profile) or "no profile"
    origins = {key: settings.origins[key] for key in ("resource_managers", "user", "hadoop_conf")}
    about = Subject("settings", profile=settings.profile, origins=origins)
    try:
        urls = settings.resource_managers
    except SettingsError as error:
        yield about.failure(
            f"{profile}: {error.message}", "every command that needs the cluster", error.hint
        )
        return
    yield about.ok(f"{profile}; {', '.join(urls)} from {settings.origins['resource_managers']}")
    conf, about = settings.hadoop_conf, Subject("hadoop-conf")
    if conf is None:
        yield about.warning(
            "no Hadoop configuration is known",
            "reading logs and outcomes of jobs that are over, staging of files, "
            "`hadoop.conf: inline`",
            "set hadoop_conf, or HADOOP_CONF_DIR",
        )
        return
    names = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
    files = [name for name in names if read_xml(conf / name)]
    if "core-site.xml" not in files:
        said = f"{conf} holds no core-site.xml"
        yield about.failure(said, "HDFS, and logs in it", "correct hadoop_conf")
        return
    examined.conf_dir = conf
    yield Subject("hadoop-conf", files=files).ok(f"{conf}: {', '.join(files)}")


def check_dns(examined: Examined) -> Iterator[Check]:
    about = Subject("dns")
    from submit_tf_job.yarn.ha import addresses_of

    hosts = {urlsplit(url).hostname or "" for url in examined.settings.resource_manager_urls}
    if examined.conf_dir is not None:
        from submit_tf_job.storage import default_fs

        name_node = urlsplit(default_fs(examined.conf_dir))
        if name_node.hostname and name_node.port:  # without a port it is a nameservice, not a host
            hosts.add(name_node.hostname)
    unknown = sorted(host for host in hosts if not addresses_of(host))
    if unknown:
        said = f"no address for {', '.join(unknown)}"
        yield about.failure(said, "whatever lives there", "correct the name, or this host's DNS")
    elif hosts:
        yield about.ok(f"addresses are known for {', '.join(sorted(hosts))}")


def check_hdfs(examined: Examined) -> Iterator[Check]:
    """Write, read and remove a small file in the user's home, where YARN keeps services."""
    about = Subject("hdfs")
    if examined.conf_dir is None:
        return
    user = examined.settings.user
    storage = storage_of(examined.settings, timeout_s=8)
    home = storage.home(user)
    if not storage.exists(home):
        fix = f"an administrator creates it: hdfs dfs -mkdir -p {home} and -chown {user}"
        yield about.failure(
            f"{storage.url(home)} does not exist", "every job: YARN keeps services there", fix
        )
        return
    path = f"{home}/.submit_tf_job-doctor-{secrets.token_hex(4)}"
    content = secrets.token_bytes(16)
    storage.write(path, content)
    same = storage.read(path) == content
    storage.remove(path)
    if same:
        yield about.ok(f"a file was written, read and removed in {storage.url(home)}")
    else:
        said = f"{storage.url(path)} has other content than was written"
        yield about.failure(said, "staging, logs", "check HDFS itself")


def check_services_directory(examined: Examined) -> Iterator[Check]:
    """Find whether this user may write where ApplicationMasters keep what belongs to a service: in
    HDFS below `hadoop.tmp.dir`, which all users share unless it names the user (ServiceScheduler).
    """
    if examined.conf_dir is None:
        return
    about, user = Subject("services-directory"), examined.settings.user
    base = read_xml(examined.conf_dir / "core-site.xml").get("hadoop.tmp.dir", "${user.name}")
    if "${user.name}" in base:
        return
    storage = storage_of(examined.settings, timeout_s=8)
    path = f"{base}/.yarn/services"
    try:
        found = storage.stat(path)
    except NoSuchPath:
        return
    if found.mode is None or found.mode & 0o002 or found.owner == user:
        yield about.ok(f"{user} may write to {storage.url(path)}")
        return
    said = f"{storage.url(path)} belongs to {found.owner}, and {user} may not write there"
    fix = f"an administrator lets all users write there: hdfs dfs -chmod 1777 {path}"
    yield about.warning(said, f"every job of {user}, if the nodes have this hadoop.tmp.dir", fix)
