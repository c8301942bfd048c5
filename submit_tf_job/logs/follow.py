"""Follow the logs of a running job until the job is over and its last bytes have been read.

A poll requests the sizes of files from each container's NodeManager (one small request), and the
end of those that have grown. Every second poll requests the containers and the state of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from submit_tf_job import waiting
from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SubmitTFJobError
from submit_tf_job.logs.archive import Archive
from submit_tf_job.logs.entries import FileInfo, LogSelection, LogSource, Origin, Run, TaskContainer
from submit_tf_job.logs.lines import Dates, RunCutter
from submit_tf_job.logs.read import (
    LogFile,
    filtered,
    in_order,
    in_threads,
    stamps_of,
    start_of,
    wanted_lines,
)
from submit_tf_job.logs.sources import NodeLogs

# bytes of one file; the next poll, which does not wait, reads the rest
_ONE_POLL = 8 * 1024 * 1024
_POLITE_S = 0.02  # per container and poll: 200 containers are polled every 4 s
_FAILURES_TO_SAY = 2  # the first may come from a container that is being started
_FORGOTTEN_S = 30.0  # a ResourceManager that recovers its state lists no jobs for a moment


@dataclass(frozen=True)
class LoggedContainers:
    """The containers of a job at one moment.

    Attributes:
        containers: The containers to follow.
        over: Whether the job is over.
        trouble: Why the containers cannot be listed at the moment, or "".
    """

    containers: tuple[TaskContainer, ...]
    over: bool
    trouble: str = ""


@dataclass
class _OpenLog:
    """One followed file of a container.

    Attributes:
        info: The file as it was when it was listed last.
        cutter: Cuts the file's bytes into runs of lines.
        place: Position up to which the file was read.
    """

    info: FileInfo
    cutter: RunCutter
    place: int = 0

    @property
    def size(self) -> int:
        return self.info.size or 0

    def take(self, pieces: Iterable[bytes]) -> Iterator[Run]:
        """Split the next bytes into runs of lines, and advance `place`."""
        for piece in pieces:
            self.place += len(piece)
            yield from self.cutter.feed(piece)


@dataclass
class _Container:
    """One container that is followed."""

    container: TaskContainer
    files: dict[str, _OpenLog] = field(default_factory=dict)
    failures: int = 0
    replaced: bool = False
    complete: bool = False  # it has ended, and all of it was read


@dataclass
class LogFollower:
    """Reads what containers write, from their NodeManagers.

    Args:
        nodes: The NodeManagers.
        selection: The filters; its tail and `since` apply to the lines at the start.
        clock: Monotonic seconds.
        wall: Seconds since the epoch.
        sleep: Waits for seconds.
        say: Called with a sentence for each event.
    """

    nodes: NodeLogs
    selection: LogSelection
    clock: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    _followed: dict[str, _Container] = field(default_factory=dict, init=False)
    _more: bool = field(default=False, init=False)  # a file has grown by more than was read

    @property
    def failing(self) -> bool:
        """Whether reading the logs of some container currently fails."""
        return any(followed.failures for followed in self._followed.values())

    def take(self, container: TaskContainer) -> None:
        """Start following a container, unless it is followed already. Older containers of the same
        task then count as replaced.
        """
        if container.id in self._followed:
            return
        for old in self._followed.values():
            if old.container.task == container.task and not old.replaced:
                old.replaced = True
                self.say(
                    f"{container.task} was started again as {container.id}; its log continues there"
                )
        self._followed[container.id] = _Container(container)

    def beginning(self) -> Iterator[Run]:
        """Yield the lines that exist at the start, in order of time."""
        yield from in_order([self._first_of(*one) for one in self._grown_files()] or [()])

    def _first_of(self, followed: _Container, file: _OpenLog) -> Iterator[Run]:
        try:
            origin, size = file.cutter.origin, file.size
            stamps = stamps_of(self.nodes, origin)
            whole = LogFile(followed.container, file.info)
            start = start_of(
                self.nodes, whole, self.selection, self._dates_of_file(file.info), stamps
            )
            file.place = start
            runs = file.take(self.nodes.read_from(*origin, start, size))
            yield from filtered(runs, origin, self.selection, self.say, start, stamps)
        except SubmitTFJobError as error:
            self._count_failure(followed, error)

    def poll(self) -> Iterator[Run]:
        """Yield the new lines, sorted by time; of each file about `_ONE_POLL` bytes at most."""
        news = self._grown_files()
        places = [file.place for _followed, file in news]
        runs = chain.from_iterable(in_threads(self._new_lines, news))
        yield from wanted_lines(sorted(runs, key=lambda run: run.order), self.selection)
        # of a file of which nothing was served, more would be asked for without a pause
        self._more = any(
            place < file.place < file.size and not followed.failures
            for place, (followed, file) in zip(places, news, strict=True)
        )

    def _grown_files(self) -> list[tuple[_Container, _OpenLog]]:
        """List the selected files that have grown."""
        due = [followed for followed in self._followed.values() if not followed.complete]
        grown = in_threads(self._grown_logs, due)
        return [(one, file) for one, files in zip(due, grown, strict=True) for file in files]

    def _grown_logs(self, followed: _Container) -> list[_OpenLog]:
        try:
            grown = self._list_unread_files(self.nodes, followed)
        except SubmitTFJobError as error:
            self._count_failure(followed, error)
            return []
        if followed.failures >= _FAILURES_TO_SAY:
            self.say(f"{followed.container.task}: its logs can be read again")
        followed.failures = 0
        followed.complete = followed.replaced and not grown
        return grown

    def _list_unread_files(self, source: LogSource, followed: _Container) -> list[_OpenLog]:
        """List the selected files of a container that have unread bytes."""
        infos = {info.name: info for info in source.files(followed.container)}
        names = [name for name in self.selection.names(followed.container) if name in infos]
        for name in names:
            self._update_file(followed, infos[name])
        return [file for name in names if (file := followed.files[name]).size > file.place]

    def _update_file(self, followed: _Container, info: FileInfo) -> None:
        known = followed.files.get(info.name)
        if known is not None and (info.size or 0) >= known.place:
            known.info = info
            return
        if known is not None:
            self.say(
                f"{followed.container.task}: {info.name} has become shorter; it is read "
                f"again from its beginning"
            )
        cutter = RunCutter(Origin(followed.container, info.name), self._dates_of_file(info))
        followed.files[info.name] = _OpenLog(info, cutter)

    def _dates_of_file(self, info: FileInfo) -> Dates:
        return Dates(self.wall, info.zone)

    def _new_lines(self, news: tuple[_Container, _OpenLog]) -> list[Run]:
        """Return the new lines of a file, up to `_ONE_POLL` bytes."""
        followed, file = news
        runs: list[Run] = []
        begun = file.place
        try:
            for piece in self.nodes.read_from(*file.cutter.origin, begun, file.size):
                runs += [run._replace(written=self.wall()) for run in file.take([piece])]
                if file.place - begun >= _ONE_POLL:
                    break
        except SubmitTFJobError as error:
            self._count_failure(followed, error)
        return runs

    def _count_failure(self, followed: _Container, error: SubmitTFJobError) -> None:
        if isinstance(error, AuthError):
            raise error
        followed.failures += 1
        self.nodes.forget(followed.container)
        if followed.failures == _FAILURES_TO_SAY:
            self.say(
                f"{followed.container.task}: its logs cannot be read just now: {error.message}"
            )

    def drain(self) -> Iterator[Run]:
        """Wait for up to 10 s until no container writes any more, and yield the rest of what the
        NodeManagers have.
        """
        for _ in waiting.LAST_LINES_ARE_WRITTEN.attempts(self.clock, self.sleep):
            if not any(map(self._still_writes, self._followed.values())):
                break
        while True:
            yield from self.poll()
            if not self._more:
                break

    def _still_writes(self, followed: _Container) -> bool:
        return not followed.complete and any(
            self.nodes.is_written(followed.container, name) for name in followed.files
        )


@dataclass
class JobFollower(LogFollower):
    """Follows the containers of a job until it is over.

    Args:
        roster: Returns the containers and whether the job is over.
        archive: Opens the collected logs of the ended job, for files that the NodeManagers have
            deleted already.
        poll_s: Seconds between two polls.
        unreachable_s: Seconds for which the cluster may be unavailable.
    """

    roster: Callable[[], LoggedContainers]
    archive: Callable[[], Archive]
    poll_s: float
    unreachable_s: float
    _troubled: bool = field(default=False, init=False)
    _unknown_since: float | None = field(default=None, init=False)
    _last_answer: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_answer = self.clock()

    def runs(self) -> Iterator[Run]:
        """Yield lines as they are written, until the job is over.

        Raises:
            ClusterUnavailable: The cluster did not respond for `unreachable_s`.
            NoSuchJob: The ResourceManager has not had the job for 30 s.
            AuthError: The user may not read the logs.
        """
        over = self._update_job()
        yield from self.beginning()
        number = 1
        while not over:
            if not self._more:
                self.sleep(max(self.poll_s, _POLITE_S * len(self._followed)))
            if number % 2 == 0:
                over = self._update_job()
            yield from self.poll()
            number += 1
        yield from self._last_bytes()

    def _update_job(self) -> bool:
        """Update the containers; return whether the job is over. Return False if the cluster cannot
        tell at the moment.
        """
        now = self.clock()
        try:
            roster = self.roster()
        except NoSuchJob:
            self._unknown_since = self._unknown_since or now
            if now - self._unknown_since > _FORGOTTEN_S:
                raise
            return False
        except ClusterUnavailable as error:
            if now - self._last_answer > self.unreachable_s:
                raise
            self._say_trouble(f"the cluster does not answer; still trying: {error.message}")
            return False
        self._last_answer, self._unknown_since = now, None
        if roster.trouble:
            self._say_trouble(roster.trouble)
        elif self._troubled:
            self._troubled = False
            self.say("the cluster answers again")
        for container in roster.containers:
            self.take(container)
        return roster.over

    def _say_trouble(self, sentence: str) -> None:
        if not self._troubled:
            self.say(sentence)
            self._troubled = True

    def _last_bytes(self) -> Iterator[Run]:
        """Yield the rest of every file, read from the NodeManagers or else from the collected
        logs.
        """
        yield from self.drain()
        missing = {
            id_: followed
            for id_, followed in self._followed.items()
            if followed.failures and not followed.complete
        }
        if missing or not self._followed:
            yield from self._from_archive(missing)
        for followed in self._followed.values():
            for file in followed.files.values():
                yield from wanted_lines(file.cutter.flush(), self.selection)

    def _from_archive(self, missing: dict[str, _Container]) -> Iterator[Run]:
        try:
            archive = self.archive()
        except SubmitTFJobError as error:
            tasks = ", ".join(
                sorted({followed.container.task for followed in missing.values()})[:5]
            )
            self.say(
                f"the last lines{f' of {tasks}' if tasks else ''} cannot be read: {error.message}"
            )
            return
        unseen = [
            container for container in archive.containers if container.id not in self._followed
        ]
        known = [container for container in archive.containers if container.id in missing]
        rest = [self._rest_of(archive.logs, container) for container in (*known, *unseen)]
        yield from in_order([*chain.from_iterable(rest)] or [()])

    def _rest_of(self, source: LogSource, container: TaskContainer) -> list[Iterable[Run]]:
        followed = self._followed.setdefault(container.id, _Container(container))
        try:
            files = self._list_unread_files(source, followed)
        except SubmitTFJobError as error:
            self.say(f"{container.task}: the end of its logs cannot be read: {error.message}")
            return []
        return [self._rest_of_file(source, file) for file in files]

    def _rest_of_file(self, source: LogSource, file: _OpenLog) -> Iterable[Run]:
        pieces = source.read(*file.cutter.origin, tail=file.size - file.place)
        return wanted_lines(file.take(pieces), self.selection)
