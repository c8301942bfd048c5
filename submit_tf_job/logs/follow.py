"""Follow the logs of a running job until it is over and its last bytes were read.

A poll requests the sizes of files from each container's NodeManager (one small request), and the
end of those that have grown. Every second poll requests the containers and the state of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from submit_tf_job import waiting
from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SubmitTFJobError
from submit_tf_job.logs import lines
from submit_tf_job.logs.archive import Archive
from submit_tf_job.logs.entries import FileInfo, LogSelection, LogSource, Origin, Run, TaskContainer
from submit_tf_job.logs.merge import in_order
from submit_tf_job.logs.parallel import in_threads
from submit_tf_job.logs.read import LogFile, dates_of, filtered, stamps_of, tail_size
from submit_tf_job.logs.sources import NodeLogs
from submit_tf_job.logs.times import Dates, stamped

# bytes of one file; the next poll, which does not wait, reads the rest
_ONE_POLL = 8 * 1024 * 1024
_POLITE_S = 0.02  # per container and poll: 200 containers are polled every 4 s
_FAILURES_TO_SAY = 2  # the first may come from a container that is being started
# containers of a killed application die within a heartbeat of their NodeManager


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


@dataclass(frozen=True)
class PollIntervals:
    """Intervals of polls, and the time limit for an unavailable cluster, in seconds."""

    poll_s: float = 1.0
    unreachable_s: float = 900.0
    forgotten_s: float = 30.0
    workers: int = 8


@dataclass
class _OpenLog:
    """One followed file, and the position up to which it was read."""

    origin: Origin
    dates: Dates
    place: int = 0
    cutter: lines.Cutter = field(default_factory=lines.Cutter)
    order: float = lines.NEVER

    def take(self, pieces: Iterable[bytes]) -> Iterator[Run]:
        """Split the next bytes into runs."""
        for piece in pieces:
            self.place += len(piece)
            yield from self._cut(self.cutter.feed(piece))

    def end(self) -> Iterator[Run]:
        """Yield the last line, where it has no end."""
        yield from self._cut(self.cutter.flush())

    def _cut(self, whole_lines: bytes) -> Iterator[Run]:
        for run in lines.runs_of(self.origin, whole_lines, self.dates, self.order):
            self.order = run.order
            yield run

    def begin_again(self) -> None:
        """Reset to the start of a file that has become shorter."""
        self.place, self.cutter = 0, lines.Cutter()


@dataclass
class _Container:
    """One container that is followed."""

    container: TaskContainer
    files: dict[str, _OpenLog] = field(default_factory=dict)
    failures: int = 0
    replaced: bool = False
    complete: bool = False  # it has ended, and all of it was read


@dataclass(frozen=True)
class _News:
    """A log file with new bytes."""

    file: _OpenLog
    info: FileInfo


class LogFollower:
    """Follows the containers of one job.

    Args:
        roster: Returns the containers and whether the job is over.
        nodes: The NodeManagers.
        archive: Opens the logs of the ended job, for files that the NodeManagers have deleted.
        selection: The filters; its tail and `since` apply to the lines at the start.
        pulse: Times of polling.
        clock: Monotonic seconds.
        wall: Seconds since the epoch.
        sleep: Waits for seconds.
        say: Called with a sentence for each event.
    """

    def __init__(
        self,
        roster: Callable[[], LoggedContainers],
        nodes: NodeLogs,
        archive: Callable[[], Archive],
        selection: LogSelection,
        *,
        pulse: PollIntervals,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], None],
        say: Callable[[str], None],
    ) -> None:
        self._roster, self._nodes, self._archive, self._selection, self._pulse = (
            roster,
            nodes,
            archive,
            selection,
            pulse,
        )
        self._clock, self._wall, self._sleep, self._say = clock, wall, sleep, say
        self._followed: dict[str, _Container] = {}
        self._last_answer = clock()
        self._unknown_since: float | None = None
        self._troubled = False
        self._more = False  # a file has grown by more than was read

    def runs(self) -> Iterator[Run]:
        """Yield lines as they are written, until the job is over.

        Raises:
            ClusterUnavailable: The cluster did not respond for `PollIntervals.unreachable_s`.
            NoSuchJob: The ResourceManager does not have the job.
        """
        over = self._look()
        yield from self.beginning()
        number = 1
        while not over:
            if not self._more:
                self._sleep(max(self._pulse.poll_s, _POLITE_S * len(self._followed)))
            if number % 2 == 0:
                over = self._look()
            yield from self.poll()
            number += 1
        yield from self._last_bytes()

    @property
    def failing(self) -> bool:
        """Whether reading the logs of some container currently fails."""
        return any(followed.failures for followed in self._followed.values())

    # --- containers -----------------------------------------------------------------------------

    def _look(self) -> bool:
        """Update the containers; return whether the job is over."""
        now = self._clock()
        try:
            roster = self._roster()
        except NoSuchJob:
            # one that recovers its state lists no jobs for a moment, after whatever outage
            self._unknown_since = self._unknown_since or now
            if now - self._unknown_since > self._pulse.forgotten_s:
                raise
            return False
        except ClusterUnavailable as error:
            if now - self._last_answer > self._pulse.unreachable_s:
                raise
            self._trouble(f"the cluster does not answer; still trying: {error.message}")
            return False
        self._last_answer, self._unknown_since = now, None
        if roster.trouble:
            self._trouble(roster.trouble)
        elif self._troubled:
            self._troubled = False
            self._say("the cluster answers again")
        for container in roster.containers:
            self.take(container)
        return roster.over

    def _trouble(self, sentence: str) -> None:
        if not self._troubled:
            self._say(sentence)
            self._troubled = True

    def take(self, container: TaskContainer) -> None:
        """Start following a container."""
        if container.id in self._followed:
            return
        for old in self._followed.values():
            if old.container.task == container.task and not old.replaced:
                old.replaced = True
                self._say(
                    f"{container.task} was started again as {container.id}; its log continues there"
                )
        self._followed[container.id] = _Container(container)

    # --- new lines -----------------------------------------------------------------------------

    def beginning(self) -> Iterator[Run]:
        """Yield the lines that exist at the start, in order of time."""
        news = list(
            chain.from_iterable(
                in_threads(self._grown, list(self._followed.values()), self._pulse.workers)
            )
        )
        yield from in_order([self._first_of(one) for one in news]) if news else ()

    def _first_of(self, news: _News) -> Iterator[Run]:
        file = LogFile(news.file.origin.container, news.info)
        try:
            stamps = stamps_of(self._nodes, file)
            tail = tail_size(self._nodes, file, self._selection, news.file.dates, stamps)
            size = news.info.size or 0
            news.file.place = start = 0 if tail is None else size - tail
            pieces = self._nodes.read_from(file.container, file.info.name, news.file.place, size)
            runs: Iterator[Run] = news.file.take(pieces)
            if stamps:
                runs = stamped(runs, start, stamps)
            yield from filtered(runs, file, self._selection, self._say)
        except SubmitTFJobError as error:
            self._failed(self._followed[file.container.id], error)

    def poll(self) -> Iterator[Run]:
        """Yield the new lines, sorted by time."""
        due = [followed for followed in self._followed.values() if not followed.complete]
        news = list(chain.from_iterable(in_threads(self._grown, due, self._pulse.workers)))
        runs = list(chain.from_iterable(in_threads(self._increment, news, self._pulse.workers)))
        yield from self._wanted(sorted(runs, key=lambda run: run.order))
        self._more = any(
            one.file.place < (one.info.size or 0)
            for one in news
            if not self._followed[one.file.origin.container.id].failures
        )

    def _wanted(self, runs: Iterable[Run]) -> Iterable[Run]:
        if self._selection.hide is not None:
            runs = lines.without(runs, self._selection.hide)
        return lines.matching(runs, self._selection.grep.search) if self._selection.grep else runs

    def _grown(self, followed: _Container) -> list[_News]:
        """List the selected files of a container that have grown."""
        try:
            infos = {info.name: info for info in self._nodes.files(followed.container)}
        except SubmitTFJobError as error:
            self._failed(followed, error)
            return []
        if followed.failures >= _FAILURES_TO_SAY:
            self._say(f"{followed.container.task}: its logs can be read again")
        followed.failures = 0
        news = [
            self._news(followed, infos[name])
            for name in self._selection.names(followed.container)
            if name in infos
        ]
        grown = [one for one in news if (one.info.size or 0) > one.file.place]
        followed.complete = followed.replaced and not grown
        return grown

    def _news(self, followed: _Container, info: FileInfo) -> _News:
        file = followed.files.get(info.name)
        if file is None:
            file = followed.files[info.name] = _OpenLog(
                Origin(followed.container, info.name), dates_of(info, self._wall())
            )
        if (info.size or 0) < file.place:
            self._say(
                f"{followed.container.task}: {info.name} has become shorter; it is read "
                f"again from its beginning"
            )
            file.begin_again()
        return _News(file, info)

    def _increment(self, news: _News) -> list[Run]:
        """Return the new lines of a file, up to `_ONE_POLL` bytes."""
        container, name = news.file.origin
        runs: list[Run] = []
        read = 0
        try:
            for piece in self._nodes.read_from(
                container, name, news.file.place, news.info.size or 0
            ):
                runs += [run._replace(written=self._wall()) for run in news.file.take([piece])]
                read += len(piece)
                if read >= _ONE_POLL:
                    break
        except SubmitTFJobError as error:
            self._failed(self._followed[container.id], error)
        return runs

    def _failed(self, followed: _Container, error: SubmitTFJobError) -> None:
        if isinstance(error, AuthError):
            raise error
        followed.failures += 1
        self._nodes.forget(followed.container)
        if followed.failures == _FAILURES_TO_SAY:
            self._say(
                f"{followed.container.task}: its logs cannot be read just now: {error.message}"
            )

    # --- the end ----------------------------------------------------------------------------------

    def _last_bytes(self) -> Iterator[Run]:
        """Yield the rest of every file, from the NodeManagers or else from the collected logs."""
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
                yield from self._wanted(file.end())

    def drain(self) -> Iterator[Run]:
        """Wait until no container writes, and yield the rest that the NodeManagers have."""
        for _ in waiting.LAST_LINES_ARE_WRITTEN.attempts(self._clock, self._sleep):
            if not any(map(self._still_writes, self._followed.values())):
                break
        while True:
            yield from self.poll()
            if not self._more:
                break

    def _still_writes(self, followed: _Container) -> bool:
        return not followed.complete and any(
            self._nodes.is_written(followed.container, name) for name in followed.files
        )

    def _from_archive(self, missing: dict[str, _Container]) -> Iterator[Run]:
        try:
            archive = self._archive()
        except SubmitTFJobError as error:
            tasks = ", ".join(
                sorted({followed.container.task for followed in missing.values()})[:5]
            )
            self._say(
                f"the last lines{f' of {tasks}' if tasks else ''} cannot be read: {error.message}"
            )
            return
        unseen = [
            container for container in archive.containers if container.id not in self._followed
        ]
        known = [container for container in archive.containers if container.id in missing]
        yield from in_order(
            [
                run
                for container in (*known, *unseen)
                for run in self._rest_of(archive.logs, container)
            ]
            or [()]
        )

    def _rest_of(self, source: LogSource, container: TaskContainer) -> list[Iterator[Run]]:
        followed = self._followed.setdefault(container.id, _Container(container))
        try:
            infos = {info.name: info for info in source.files(container)}
        except SubmitTFJobError as error:
            self._say(f"{container.task}: the end of its logs cannot be read: {error.message}")
            return []
        news = [
            self._news(followed, infos[name])
            for name in self._selection.names(container)
            if name in infos
        ]
        return [self._rest(source, one) for one in news if (one.info.size or 0) > one.file.place]

    def _rest(self, source: LogSource, news: _News) -> Iterator[Run]:
        container, name = news.file.origin
        pieces = source.read(container, name, tail=(news.info.size or 0) - news.file.place)
        return iter(self._wanted(news.file.take(pieces)))
