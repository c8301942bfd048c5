"""What a job reads and writes, looked at from here: before the POST, with one sentence for each thing that would have failed later."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import storage_of
from submit_tf_job.errors import AuthError, ClusterUnavailable, JobSpecError, Problem, SubmitTFJobError, UsageError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.job import Job
    from submit_tf_job.jobdata import Input, Output
    from submit_tf_job.plan import Plan
    from submit_tf_job.storage import Stat, Storage

__all__ = ["DataCheck"]

_NOT_FROM_HERE = (
    "inputs and outputs are looked at before a job is posted; from a host that cannot reach them, give the program their URIs in `env`"
)


@dataclass
class DataCheck:
    """One look at the inputs and outputs of a job, as its user.

    Args:
        job: The job.
        settings: Who we are, and where HDFS is.
        here: Whether its tasks run on this machine, so that `file://` means the same there.

    Attributes:
        lists: Of each sharded input the URIs of its files, one a line; known once it was looked at.
    """

    job: Job
    settings: Settings
    here: bool = False
    lists: dict[str, bytes] = field(default_factory=dict)
    _looked: bool = False

    def look(self) -> None:
        """Look at everything, once.

        Raises:
            JobSpecError: Something is not there, cannot be read or written, or is too little for so many tasks; all of it at once.
            ClusterUnavailable: It cannot be looked at from here.
        """
        if self._looked:
            return
        problems = [problem for item in self.job.inputs for problem in self._input(item)]
        problems += [problem for output in self.job.outputs for problem in self._output(output)]
        if problems:
            raise JobSpecError(problems)
        self._looked = True

    def prepare(self, planned: Plan) -> None:
        """Look, and put the lists where the tasks find them.

        Raises:
            SubmitTFJobError: As `look`; or the staging directory cannot be written.
        """
        from submit_tf_job.plan.data import list_uri

        self.look()
        for name, content in self.lists.items():
            uri = list_uri(self.job, planned.site, planned.submission, name)
            storage = storage_of(self.settings, planned.site.staging)
            storage.mkdirs(uri.rpartition("/")[0], 0o700)
            storage.write(uri, content)

    def forget(self, planned: Plan, *, others: bool = False) -> None:
        """Remove the lists of a submission that was refused, or those of earlier jobs of its name; what matters is done already."""
        from submit_tf_job.plan.data import lists_of

        if not self.lists:
            return
        with suppress(SubmitTFJobError):
            storage = storage_of(self.settings, planned.site.staging)
            for found in storage.list_dir(lists_of(planned.site.staging or "", self.job.name)):
                if (found.name != planned.submission) == others:
                    storage.remove(found.path, recursive=True)

    def _storage(self, uri: str) -> Storage | None:
        """Open where a URI leads; None for what only the tasks can see."""
        if uri.startswith("file:") and not self.here:
            return None
        return storage_of(self.settings, uri)

    # --- inputs ---

    def _input(self, item: Input) -> list[Problem]:
        path = f"inputs.{item.name}"
        try:
            storage = self._storage(item.uri)
            if storage is None:
                return [self._file_on_nodes(f"{path}.shard")] if item.sharded else []
            return self._found(item, storage, path)
        except ClusterUnavailable as error:
            raise ClusterUnavailable(f"{path}: {error.message}", hint=error.hint or _NOT_FROM_HERE, details=error.details) from None
        except SubmitTFJobError as error:
            return [self.job.problem(path, self._why(error, item.uri))]

    def _file_on_nodes(self, path: str) -> Problem:
        message = "which files each node has is not known here; put them on HDFS, or leave shard out"
        return self.job.problem(path, message)

    def _found(self, item: Input, storage: Storage, path: str) -> list[Problem]:
        from submit_tf_job.plan.data import shares
        from submit_tf_job.storage import files_of

        if not item.sharded and not item.is_pattern:
            self._check_readable(storage, storage.stat(item.uri))
            return []
        files = files_of(storage, item.uri)
        if not files:
            what = "no file matches" if item.is_pattern else "the directory holds no file"
            note = f"as {self.settings.user} sees it; names that begin with _ or . do not count"
            return [self.job.problem(path, f"{item.uri}: {what} ({note})")]
        self._check_readable(storage, files[0])
        wanted = shares(self.job)
        if item.sharded and len(files) < wanted:
            return [self.job.problem(path, f"{item.uri}: {len(files)} files are too few for the {wanted} tasks that share them; {_FEWER}")]
        if item.sharded:
            strange = next((file for file in files if "\n" in file.path or "\r" in file.path), None)
            if strange is not None:
                return [self.job.problem(path, f"{item.uri}: the file name {strange.name!r} holds a line break; rename it")]
            root = storage.url("/").rstrip("/") if item.uri.startswith("hdfs:") else storage.root  # a proxy user looks by WebHDFS
            self.lists[item.name] = "".join(f"{root}{file.path}\n" for file in files).encode()
        return []

    def _check_readable(self, storage: Storage, found: Stat) -> None:
        """Ask for the rights that a reader needs; whoever may not read a file is told so when it is opened."""
        if found.is_dir:
            storage.list_dir(found.path)
        elif found.size:
            storage.read_range(found.path, 0, 1)
        else:
            storage.open(found.path)

    # --- outputs ---

    def _output(self, output: Output) -> list[Problem]:
        path = f"outputs.{output.name}"
        try:
            storage = self._storage(output.uri)
            if storage is None:
                return []
            return self._taken(output, storage, path) or self._check_writable(output, storage)
        except ClusterUnavailable as error:
            raise ClusterUnavailable(f"{path}: {error.message}", hint=error.hint or _NOT_FROM_HERE, details=error.details) from None
        except SubmitTFJobError as error:
            if isinstance(error, FileNotFoundError):
                return [self.job.problem(path, f"{output.uri}: no directory can be made there")]
            return [self.job.problem(path, self._why(error, output.uri))]

    def _taken(self, output: Output, storage: Storage, path: str) -> list[Problem]:
        """Find what an upload would replace."""
        from submit_tf_job.jobdata import Uploader
        from submit_tf_job.plan.data import readers

        if not output.upload or output.overwrite:
            return []
        targets = [output.uri]
        if output.by is Uploader.EVERY_TASK:
            targets = [f"{output.uri}/{name}-{index}" for name in readers(self.job) for index in range(self.job.roles[name].instances)]
            targets = targets if storage.exists(output.uri) else []
        there = next((target for target in targets if storage.exists(target)), None)
        if there is None:
            return []
        return [self.job.problem(path, f"{there} is there already; name another place, remove it, or say overwrite: true")]

    def _check_writable(self, output: Output, storage: Storage) -> list[Problem]:
        """Make a directory where the output will be, and take it away: modes do not tell of ACLs, groups, quotas and superusers."""
        import secrets

        from submit_tf_job.storage.model import join, parent_of

        place = storage.path(output.uri)
        found = self._there(storage, place)
        if found is None or not found.is_dir or output.upload:
            place = parent_of(place)
        while place != "/" and (found := self._there(storage, place)) is None:
            place = parent_of(place)
        if found is not None and not found.is_dir:
            return [self.job.problem(f"outputs.{output.name}", f"{storage.url(place)} is a file, so that nothing can lie below it")]
        trial = join(place, f".submit_tf_job-{secrets.token_hex(6)}")
        storage.mkdirs(trial, 0o700)
        storage.remove(trial)
        return []

    @staticmethod
    def _there(storage: Storage, path: str) -> Stat | None:
        try:
            return storage.stat(path)
        except UsageError:  # it is not there, or what should hold it is no directory
            return None

    # --- words ---

    def _why(self, error: SubmitTFJobError, uri: str) -> str:
        """Say what is wrong in one sentence."""
        if isinstance(error, FileNotFoundError):
            return f"{uri} is not there, as {self.settings.user} sees it"
        told = f"{self.settings.user} is not allowed there: {error.message}" if isinstance(error, AuthError) else error.message
        return f"{told}; {error.hint[:1].lower()}{error.hint[1:]}".rstrip("; .")


_FEWER = "ask for fewer tasks, write more files, or leave shard out"
