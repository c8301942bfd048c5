"""Checks before the POST: whether a job's inputs, outputs and keytab exist and can be used, whether
a gateway's caller may name their URIs, and whether the containers fit the nodes and the queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    JobSpecError,
    Problem,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, none_on_error, storage_of
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Input, Job, Kerberos, Output, RemoteFile
    from submit_tf_job.plan import Plan
    from submit_tf_job.storage import Stat, Storage
    from submit_tf_job.yarn.inspection import Scheduler
    from submit_tf_job.yarn.observed_cluster import Node

Nodes = Callable[[], "tuple[Node, ...]"]
_ASKED = 8  # NodeManagers that are asked whether they run images, if the first one does not
_ASKED_S = 2.0
_MOST_LISTED = 100_000  # files and directories for one input of a gateway's caller


def check_capacity(planned: Plan, cluster: Cluster) -> tuple[str, ...]:
    """Check whether the nodes can run the images of a job, and whether all its containers fit on
    the cluster at the same time.

    Does nothing if `capacity_check` of the settings is `off`. Sends at most one request for the
    nodes, one for the queues if the job names one, and, for a job with images, some to
    NodeManagers. A cluster that does not answer is not an error.

    Returns:
        What may keep the job from starting, or from running in its image, or shortens its lifetime.

    Raises:
        JobSpecError: No node runs images, and the job requires its image (`image_policy`).
        Refused: The job can never start, or a container is larger than its queue's largest; and
            `capacity_check` of the settings is `refuse`.
    """
    from submit_tf_job.yarn import inspection

    if cluster.settings.capacity_check == "off":
        return ()
    scheduler = None
    if planned.job.queue:
        scheduler = none_on_error(lambda: inspection.scheduler(cluster.client))
    nodes = cache(lambda: none_on_error(cluster.client.nodes) or ())
    return tuple(
        filter(
            None,
            (
                *_limits_of_queue(planned, cluster, scheduler),
                _nodes_without_images(planned, cluster, nodes),
                _why_no_room(planned, cluster, nodes, scheduler),
            ),
        )
    )


def _limits_of_queue(
    planned: Plan, cluster: Cluster, scheduler: Scheduler | None
) -> tuple[str, ...]:
    """Return the warnings about the job's queue: the queue shortens the job's lifetime, or it never
    allocates a container of the job's size.

    Raises:
        Refused: A container is larger than the queue's largest, and `capacity_check` of the
            settings is `refuse`.
    """
    from submit_tf_job.diagnose import fit

    job = planned.job
    queue = scheduler.find(job.queue) if scheduler else None
    if queue is None:
        return ()
    larger = fit.larger_than_queue(job, planned.site, queue)
    told = [str(job.problem(found.path, found.sentence)) for found in larger]
    if told and cluster.settings.capacity_check == "refuse":
        raise Refused("\n".join(told), hint=larger[0].hint)
    cut = fit.cut_by_queue(planned.service.lifetime, queue)
    return (*told, str(job.problem("lifetime", cut)) if cut else "")


def _why_no_room(planned: Plan, cluster: Cluster, nodes: Nodes, scheduler: Scheduler | None) -> str:
    """Return why the job cannot start now, or why it can start only after the cluster has grown; ""
    if no obstacle is known.

    Sends no request for a job of one task without a node label.

    Raises:
        Refused: The job can never start, and `capacity_check` of the settings is `refuse`.
    """
    from submit_tf_job.diagnose import fit

    job, gpu_resource = planned.job, planned.site.gpu_resource
    choice = cluster.settings.capacity_check
    if not fit.may_not_fit(job):
        return ""
    never = fit.fits_never(job, gpu_resource, nodes(), scheduler)
    if never and choice == "refuse":
        raise Refused(
            "\n".join(str(job.problem(found.path, found.sentence)) for found in never),
            hint=f"{never[0].hint}; if the cluster adds nodes by itself, set capacity_check: warn "
            "in the settings",
        )
    if never:
        return f"it cannot start before the cluster grows: {never[0].sentence}"
    waits = fit.fits_not_now(job, gpu_resource, nodes(), scheduler)
    return f"it cannot start now, and waits: {waits}" if waits else ""


def _nodes_without_images(planned: Plan, cluster: Cluster, nodes: Nodes) -> str:
    """Return a warning about nodes that run no images, if the job requires its image
    (`image_policy`); "" if no such node is known.

    Sends one or two requests for the properties of a NodeManager; if that node runs no images, the
    same requests to up to seven other nodes.

    Raises:
        JobSpecError: No node runs images.
    """
    from submit_tf_job.diagnose.capacity import ways_out, why_no_images
    from submit_tf_job.jobspec.job import ImagePolicy
    from submit_tf_job.yarn.inspection import node_property

    job = planned.job
    role = next((role for role in job.roles.values() if role.in_container), None)
    if role is None or job.image_policy is not ImagePolicy.REQUIRE:
        return ""
    client = cluster.client
    running = [node for node in nodes() if node.state == "RUNNING" and node.http_address]
    scheme = client.node_scheme
    plain: dict[str, str] = {}
    for node in running[:_ASKED]:
        read = partial(
            node_property,
            client,
            f"{scheme}://{node.http_address}",
            deadline=client.deadline(_ASKED_S),
        )
        why = why_no_images(read)
        if why:
            plain[node.host or node.id] = why
        elif not plain:
            return ""  # most clusters have one configuration for all nodes
    if not plain:
        return ""
    first, why = next(iter(plain.items()))
    if len(plain) < len(running):
        return f"a task on {first} would fail, and perhaps on others: {why} there; {ways_out(why)}"
    who = f"{first} runs" if len(plain) == 1 else f"all {len(plain)} nodes run"
    raise JobSpecError(
        [job.problem(f"roles.{role.name}.image", f"{who} no images: {why}")], hint=ways_out(why)
    )


# --- inputs and outputs ---


NOT_OWN = "is not on the cluster's own HDFS; put it there, and write hdfs:///path"
_NOT_FROM_HERE = (
    "inputs and outputs are looked at before a job is posted; from a host that cannot reach "
    "them, give the program their URIs in `env`"
)


def open_named(settings: Settings, uri: str, *, for_caller: bool) -> Storage | None:
    """Open the storage of a URI that a job spec names. All code that opens such a URI calls this
    function: it is a security guard.

    Args:
        settings: The user, and the address of HDFS.
        uri: The URI.
        for_caller: Whether a caller of a gateway wrote the job spec. The gateway's host can reach
            addresses that the caller cannot reach, and it opens object stores with its own
            credentials.

    Returns:
        The storage; None if a caller of a gateway names a URI outside the cluster's own HDFS.

    Raises:
        UsageError: The URI is not valid.
        SettingsError: The Hadoop configuration cannot be read, or a package is missing.
    """
    from submit_tf_job.storage import is_own_hdfs

    if for_caller and not is_own_hdfs(uri, settings.hadoop_conf):
        return None
    return storage_of(settings, uri)


def check_client_config(job: Job, settings: Settings) -> None:
    """Refuse a `docker_client_config` of a gateway's caller that is not on the cluster's own HDFS.
    This is a security guard: the ResourceManager opens the URI.

    Raises:
        JobSpecError: The `docker_client_config` is outside the cluster's own HDFS.
    """
    from submit_tf_job.storage import is_own_hdfs

    uri = job.docker_client_config or ""
    if "://" in uri and not is_own_hdfs(uri, settings.hadoop_conf):
        raise JobSpecError([job.problem("docker_client_config", f"{uri} {NOT_OWN}")])


# --- a keytab ---


def check_keytab(job: Job, settings: Settings, *, for_caller: bool) -> None:
    """Check a job's keytab on HDFS, if this host can read HDFS. Do nothing for a job without a
    keytab, or with one of this host.

    Args:
        job: The job.
        settings: The settings.
        for_caller: As for `open_named`.

    Raises:
        JobSpecError: The keytab does not exist, cannot be read, is readable for every user, is not
            a valid keytab, or belongs to another principal; or a caller of a gateway names a keytab
            outside the cluster's own HDFS.
    """
    kerberos = job.kerberos
    if kerberos is None or kerberos.secret is not None or not kerberos.keytab.startswith("hdfs://"):
        return
    why = _trouble_on_hdfs(kerberos, settings, for_caller)
    if why:
        raise JobSpecError([job.problem("kerberos.keytab", f"{kerberos.keytab} {why}")])


def _trouble_on_hdfs(kerberos: Kerberos, settings: Settings, for_caller: bool) -> str:
    from submit_tf_job.container import keytab
    from submit_tf_job.storage import NoSuchPath

    try:
        storage = open_named(settings, kerberos.keytab, for_caller=for_caller)
        if storage is None:
            return NOT_OWN
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


# --- inputs and outputs, as their user ---


@dataclass
class DataCheck:
    """The check of a job's inputs and outputs, as its user.

    Args:
        job: The job.
        settings: The user, and the address of HDFS.
        on_this_machine: Whether the job's tasks run on this machine, so that `file://` names the
            same files here.
        for_caller: Whether a caller of a gateway wrote the job. Then only URIs on the cluster's own
            HDFS are opened, with the rights of that caller (`open_named`); others are not checked.

    Attributes:
        lists: The URIs of each sharded input's files, one per line; filled by the check.
    """

    job: Job
    settings: Settings
    on_this_machine: bool = False
    for_caller: bool = False
    lists: dict[str, bytes] = field(default_factory=dict)

    def check(self) -> None:
        """Check all inputs and outputs, and the job's files on HDFS.

        Raises:
            JobSpecError: An input or file does not exist or cannot be read; an input has no files,
                or a sharded one fewer files than tasks; or an output cannot be written, or is there
                already without `overwrite`. The error has all problems.
            ClusterUnavailable: A file system cannot be reached from this machine.
        """
        problems: list[Problem] = []
        for item in self.job.inputs:
            path = f"inputs.{item.name}"
            problems += self._problems_at(path, item.uri, partial(self._check_input, item, path))
        for file in self._remote_files():
            problems += self._problems_at(
                file.at, file.uri, partial(self._remote_file, file), hint=""
            )
        for output in self.job.outputs:
            path = f"outputs.{output.name}"
            problems += self._problems_at(
                path, output.uri, partial(self._check_output, output, path)
            )
        if problems:
            raise JobSpecError(problems)

    def _storage_of_uri(self, uri: str) -> Storage | None:
        """Open the storage of a URI. Return None, so that nothing is opened, for `file://` if the
        tasks run on other machines; and, as a security guard, for every URI of a gateway's caller
        outside the cluster's own HDFS (`open_named`).
        """
        if uri.startswith("file:") and not self.on_this_machine:
            return None
        return open_named(self.settings, uri, for_caller=self.for_caller)

    def _problems_at(
        self,
        path: str,
        uri: str,
        check: Callable[[Storage | None], list[Problem]],
        hint: str = _NOT_FROM_HERE,
    ) -> list[Problem]:
        """Return the problems that `check` finds at a URI. An error is returned as a problem at
        `path` of the job spec.

        Raises:
            ClusterUnavailable: The URI's file system cannot be reached from this machine.
        """
        try:
            return check(self._storage_of_uri(uri))
        except ClusterUnavailable as error:
            raise ClusterUnavailable(
                f"{path}: {error.message}", hint=error.hint or hint, details=error.details
            ) from None
        except SubmitTFJobError as error:
            return [self.job.problem(path, self._error_sentence(error, uri))]

    # --- files of HDFS ---

    def _remote_files(self) -> list[RemoteFile]:
        """Return the job's files on HDFS, each file once, even if several roles share it."""
        files = [file for role in self.job.roles.values() for file in role.remote_files]
        return list({(file.uri, file.at): file for file in files}.values())

    def _remote_file(self, file: RemoteFile, storage: Storage | None) -> list[Problem]:
        if storage is None:
            return []
        found = storage.stat(file.uri)
        if found.is_dir:
            why = f"{file.uri} is a directory; name a file, or make it an input"
            return [self.job.problem(file.at, why)]
        self._check_readable(storage, found)
        return []

    # --- inputs ---

    def _check_input(self, item: Input, path: str, storage: Storage | None) -> list[Problem]:
        if storage is not None:
            return self._check_files_found(item, storage, path)
        return [self._shard_unseen(item.uri, f"{path}.shard")] if item.sharded else []

    def _shard_unseen(self, uri: str, path: str) -> Problem:
        what = "a gateway lists files on the cluster's own HDFS only; put them there"
        if uri.startswith("file:"):
            what = "which files each node has is not known here; put them on HDFS"
        return self.job.problem(path, f"{what}, or leave shard out")

    def _check_files_found(self, item: Input, storage: Storage, path: str) -> list[Problem]:
        from submit_tf_job.plan.data import shares
        from submit_tf_job.storage import files_of

        if not item.sharded and not item.is_pattern:
            self._check_readable(storage, storage.stat(item.uri))
            return []
        files = files_of(storage, item.uri, _MOST_LISTED if self.for_caller else math.inf)
        if not files:
            what = "no file matches" if item.is_pattern else "the directory holds no file"
            note = f"as {self.settings.user} sees it; names that begin with _ or . do not count"
            return [self.job.problem(path, f"{item.uri}: {what} ({note})")]
        self._check_readable(storage, files[0])
        if not item.sharded:
            return []
        wanted = shares(self.job)
        if len(files) < wanted:
            what = f"{len(files)} files are too few for the {wanted} tasks that share them"
            fewer = "ask for fewer tasks, write more files, or leave shard out"
            return [self.job.problem(path, f"{item.uri}: {what}; {fewer}")]
        strange = next((file for file in files if len(file.path.splitlines()) > 1), None)
        if strange is not None:
            what = f"the file name {strange.name!r} holds a line break; rename it"
            return [self.job.problem(path, f"{item.uri}: {what}")]
        root = storage.root
        if item.uri.startswith("hdfs:"):  # a proxy user reads by WebHDFS
            root = storage.url("/").rstrip("/")
        self.lists[item.name] = "".join(f"{root}{file.path}\n" for file in files).encode()
        return []

    def _check_readable(self, storage: Storage, found: Stat) -> None:
        """Raise an error if the user may not list this directory or read this file.

        A file is opened for that, because HDFS checks the permission to read it only then.
        """
        if found.is_dir:
            storage.list_dir(found.path)
        elif found.size:
            storage.read_range(found.path, 0, 1)
        else:
            storage.open(found.path)

    # --- outputs ---

    def _check_output(self, output: Output, path: str, storage: Storage | None) -> list[Problem]:
        if storage is None:
            return []
        try:
            return self._existing_data(output, storage, path) or self._check_writable(
                output, storage
            )
        except FileNotFoundError:
            return [self.job.problem(path, f"{output.uri}: no directory can be made there")]

    def _existing_data(self, output: Output, storage: Storage, path: str) -> list[Problem]:
        """Return a problem if there is data that an upload would replace, and the job spec does not
        allow that (`overwrite`).
        """
        from submit_tf_job.jobspec.job import Uploader
        from submit_tf_job.plan.data import writers

        if not output.upload or output.overwrite:
            return []
        found = self._stat_or_none(storage, storage.path(output.uri))
        if found is None:
            return []
        target: str | None = output.uri
        if output.by is not Uploader.DECIDING_TASK:
            there = {item.name for item in storage.list_dir(found.path)} if found.is_dir else set()
            own = (
                f"{name}-{index}"
                for name in writers(self.job)
                for index in range(self.job.roles[name].instances)
            )
            taken = next((name for name in own if name in there), None)
            target = f"{output.uri}/{taken}" if taken else None
        if target is None:
            return []
        what = "name another place, remove it, or say overwrite: true"
        return [self.job.problem(path, f"{target} is there already; {what}")]

    def _check_writable(self, output: Output, storage: Storage) -> list[Problem]:
        """Check that an output can be written, by creating and removing a directory at its
        location: permission bits alone do not show ACLs, groups, quotas and superusers.
        """
        import secrets

        from submit_tf_job.storage.base import join, parent_of

        place = storage.path(output.uri)
        found = self._stat_or_none(storage, place)
        if found is None or not found.is_dir or output.upload:
            place = parent_of(place)
        while place != "/" and (found := self._stat_or_none(storage, place)) is None:
            place = parent_of(place)
        if found is not None and not found.is_dir:
            what = f"{storage.url(place)} is a file, so that nothing can lie below it"
            return [self.job.problem(f"outputs.{output.name}", what)]
        trial = join(place, f".submit_tf_job-{secrets.token_hex(6)}")
        storage.mkdirs(trial, 0o700)
        storage.remove(trial)
        return []

    @staticmethod
    def _stat_or_none(storage: Storage, path: str) -> Stat | None:
        try:
            return storage.stat(path)
        except UsageError:  # it does not exist, or its parent is not a directory
            return None

    # --- messages ---

    def _error_sentence(self, error: SubmitTFJobError, uri: str) -> str:
        """Return one sentence for an error at a URI."""
        if isinstance(error, FileNotFoundError):
            return f"{uri} is not there, as {self.settings.user} sees it"
        told = error.message
        if isinstance(error, AuthError):
            told = f"{self.settings.user} is not allowed there: {told}"
        return f"{told}; {error.hint[:1].lower()}{error.hint[1:]}".rstrip("; .")
