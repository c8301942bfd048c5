"""Follow the logs of a running job, until it is over and its last bytes were shown.

A poll asks each container's NodeManager for the sizes of its files (one small request), and for the end of those that have grown. Every
second poll asks the cluster which containers there are and whether the job is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from submit_tf_job.errors import AuthError, ClusterUnavailable, NoSuchJob, SubmitTFJobError
from submit_tf_job.tasklogs import lines
from submit_tf_job.tasklogs.archive import Archive
from submit_tf_job.tasklogs.merge import in_order
from submit_tf_job.tasklogs.model import FileInfo, Origin, Run, Selection, Shelf, TaskContainer
from submit_tf_job.tasklogs.reader import LogFile, dates_of, filtered, tail_size
from submit_tf_job.tasklogs.shelves import NodeShelf
from submit_tf_job.tasklogs.times import Dates

__all__ = ["Follower", "Pulse", "Roster"]

_ONE_POLL = 8 * 1024 * 1024  # of one file; what is left comes with the next poll, which does not wait
_POLITE_S = 0.02  # per container and poll: 200 containers are asked every 4 s
_FAILURES_TO_SAY = 2  # one may be a container that is just being started
_LAST_BYTES_S = 10.0  # containers of a killed application die within a heartbeat of their NodeManager

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Roster:
    """Which containers there are at a moment.

    Attributes:
        containers: Those that are wanted.
        over: Whether the job is over.
        trouble: Why the containers cannot be told just now, or "".
    """

    containers: tuple[TaskContainer, ...]
    over: bool
    trouble: str = ""


@dataclass(frozen=True)
class Pulse:
    """How often to look, and how long to bear a cluster that does not answer, in seconds."""

    poll_s: float = 1.0
    unreachable_s: float = 900.0
    forgotten_s: float = 30.0
    workers: int = 8


@dataclass
class _File:
    """One file that is followed: what was read of it."""

    origin: Origin
    dates: Dates
    place: int = 0
    cutter: lines.Cutter = field(default_factory=lines.Cutter)
    order: float = lines.NEVER

    def take(self, pieces: Iterable[bytes]) -> Iterator[Run]:
        """Cut bytes that follow what was read."""
        for piece in pieces:
            self.place += len(piece)
            yield from self._cut(self.cutter.feed(piece))

    def end(self) -> Iterator[Run]:
        """Give the last line, where it has no end."""
        yield from self._cut(self.cutter.flush())

    def _cut(self, whole_lines: bytes) -> Iterator[Run]:
        for run in lines.runs_of(self.origin, whole_lines, self.dates, self.order):
            self.order = run.order
            yield run

    def begin_again(self) -> None:
        """Forget what was read: the file has become shorter."""
        self.place, self.cutter = 0, lines.Cutter()


@dataclass
class _Container:
    """One container that is followed."""

    container: TaskContainer
    files: dict[str, _File] = field(default_factory=dict)
    failures: int = 0
    replaced: bool = False
    complete: bool = False  # nothing more will come, and all of it was read


@dataclass(frozen=True)
class _News:
    """A file that has grown."""

    file: _File
    info: FileInfo


class Follower:
    """Follows the containers of one job.

    Args:
        roster: Asks the cluster which containers there are.
        shelf: The NodeManagers.
        archive: Opens what is left of the logs once the job is over, for what the NodeManagers do not have any more.
        selection: Which lines are wanted; its tail and its moment are for what is there at the start.
        pulse: How often to look.
        clock: Monotonic seconds.
        wall: Seconds since the epoch.
        sleep: Waits for seconds.
        say: Tells a person what happens.
    """

    def __init__(
        self,
        roster: Callable[[], Roster],
        shelf: NodeShelf,
        archive: Callable[[], Archive],
        selection: Selection,
        *,
        pulse: Pulse,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], None],
        say: Callable[[str], None],
    ) -> None:
        self._roster, self._shelf, self._archive, self._selection, self._pulse = roster, shelf, archive, selection, pulse
        self._clock, self._wall, self._sleep, self._say = clock, wall, sleep, say
        self._followed: dict[str, _Container] = {}
        self._last_answer = clock()
        self._troubled = False
        self._more = False  # a file has grown by more than was read

    def runs(self) -> Iterator[Run]:
        """Give lines as they come, until the job is over.

        Raises:
            ClusterUnavailable: The cluster was out of reach for longer than `Pulse.unreachable_s`.
            NoSuchJob: The ResourceManager does not know the job (any more).
        """
        over = self._look()
        yield from self._beginning()
        number = 1
        while not over:
            if not self._more:
                self._sleep(max(self._pulse.poll_s, _POLITE_S * len(self._followed)))
            if number % 2 == 0:
                over = self._look()
            yield from self._poll()
            number += 1
        yield from self._last_bytes()

    # --- which containers there are -----------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Ask for the containers; say whether the job is over."""
        now = self._clock()
        try:
            roster = self._roster()
        except NoSuchJob:
            if now - self._last_answer > self._pulse.forgotten_s:  # a ResourceManager that recovers its state knows nothing for a moment
                raise
            return False
        except ClusterUnavailable as error:
            if now - self._last_answer > self._pulse.unreachable_s:
                raise
            self._trouble(f"the cluster does not answer; still trying: {error.message}")
            return False
        self._last_answer = now
        if roster.trouble:
            self._trouble(roster.trouble)
        elif self._troubled:
            self._troubled = False
            self._say("the cluster answers again")
        for container in roster.containers:
            self._take(container)
        return roster.over

    def _trouble(self, sentence: str) -> None:
        if not self._troubled:
            self._say(sentence)
            self._troubled = True

    def _take(self, container: TaskContainer) -> None:
        if container.id in self._followed:
            return
        for old in self._followed.values():
            if old.container.task == container.task and not old.replaced:
                old.replaced = True
                self._say(f"{container.task} was started again, as {container.id}: its log goes on with that one")
        self._followed[container.id] = _Container(container)

    # --- what is new --------------------------------------------------------------------------------------------------------

    def _beginning(self) -> Iterator[Run]:
        """Read what is there already, in order of time."""
        news = list(chain.from_iterable(self._each(self._grown, list(self._followed.values()))))
        yield from in_order([self._first_of(one) for one in news]) if news else ()

    def _first_of(self, news: _News) -> Iterator[Run]:
        file = LogFile(news.file.origin.container, news.info)
        try:
            tail = tail_size(self._shelf, file, self._selection, news.file.dates)
            size = news.info.size or 0
            news.file.place = 0 if tail is None else size - tail
            pieces = self._shelf.read_from(file.container, file.info.name, news.file.place, size)
            yield from filtered(news.file.take(pieces), file, self._selection, self._say)
        except SubmitTFJobError as error:
            self._failed(self._followed[file.container.id], error)

    def _poll(self) -> Iterator[Run]:
        """Read what is new, sorted by time."""
        due = [followed for followed in self._followed.values() if not followed.complete]
        news = list(chain.from_iterable(self._each(self._grown, due)))
        runs = list(chain.from_iterable(self._each(self._increment, news)))
        yield from self._wanted(sorted(runs, key=lambda run: run.order))
        self._more = any(one.file.place < (one.info.size or 0) for one in news if not self._followed[one.file.origin.container.id].failures)

    def _wanted(self, runs: Iterable[Run]) -> Iterable[Run]:
        return lines.matching(runs, self._selection.grep.search) if self._selection.grep else runs

    def _grown(self, followed: _Container) -> list[_News]:
        """List the wanted files of a container that have grown."""
        try:
            infos = {info.name: info for info in self._shelf.files(followed.container)}
        except SubmitTFJobError as error:
            self._failed(followed, error)
            return []
        if followed.failures >= _FAILURES_TO_SAY:
            self._say(f"{followed.container.task}: its logs can be read again")
        followed.failures = 0
        news = [self._news(followed, infos[name]) for name in self._selection.names(followed.container) if name in infos]
        grown = [one for one in news if (one.info.size or 0) > one.file.place]
        followed.complete = followed.replaced and not grown
        return grown

    def _news(self, followed: _Container, info: FileInfo) -> _News:
        file = followed.files.get(info.name)
        if file is None:
            file = followed.files[info.name] = _File(Origin(followed.container, info.name), dates_of(info, self._wall()))
        if (info.size or 0) < file.place:
            self._say(f"{followed.container.task}: {info.name} has become shorter; it is read again from its beginning")
            file.begin_again()
        return _News(file, info)

    def _increment(self, news: _News) -> list[Run]:
        """Read what a file has grown by, up to a bound."""
        container, name = news.file.origin
        runs: list[Run] = []
        read = 0
        try:
            for piece in self._shelf.read_from(container, name, news.file.place, news.info.size or 0):
                runs += news.file.take([piece])
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
        self._shelf.forget(followed.container)
        if followed.failures == _FAILURES_TO_SAY:
            self._say(f"{followed.container.task}: its logs cannot be read just now: {error.message}")

    def _each(self, call: Callable[[T], R], values: Sequence[T]) -> list[R]:
        workers = min(self._pulse.workers, len(values))
        if workers <= 1:
            return [call(value) for value in values]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            return list(pool.map(call, values))

    # --- the end ------------------------------------------------------------------------------------------------------------

    def _last_bytes(self) -> Iterator[Run]:
        """Read to the end of every file, from the NodeManagers while they have them, else from the logs that are collected."""
        stop_at = self._clock() + _LAST_BYTES_S
        while any(self._still_writes(followed) for followed in self._followed.values()) and self._clock() < stop_at:
            self._sleep(self._pulse.poll_s)
        while True:
            yield from self._poll()
            if not self._more:
                break
        missing = {id_: followed for id_, followed in self._followed.items() if followed.failures and not followed.complete}
        if missing or not self._followed:
            yield from self._from_archive(missing)
        for followed in self._followed.values():
            for file in followed.files.values():
                yield from self._wanted(file.end())

    def _still_writes(self, followed: _Container) -> bool:
        return not followed.complete and any(self._shelf.is_written(followed.container, name) for name in followed.files)

    def _from_archive(self, missing: dict[str, _Container]) -> Iterator[Run]:
        try:
            archive = self._archive()
        except SubmitTFJobError as error:
            tasks = ", ".join(sorted({followed.container.task for followed in missing.values()})[:5])
            self._say(f"the last lines{f' of {tasks}' if tasks else ''} cannot be read: {error.message}")
            return
        unseen = [container for container in archive.containers if container.id not in self._followed]
        known = [container for container in archive.containers if container.id in missing]
        yield from in_order([run for container in (*known, *unseen) for run in self._rest_of(archive.shelf, container)] or [()])

    def _rest_of(self, shelf: Shelf, container: TaskContainer) -> list[Iterator[Run]]:
        followed = self._followed.setdefault(container.id, _Container(container))
        try:
            infos = {info.name: info for info in shelf.files(container)}
        except SubmitTFJobError as error:
            self._say(f"{container.task}: the end of its logs cannot be read: {error.message}")
            return []
        news = [self._news(followed, infos[name]) for name in self._selection.names(container) if name in infos]
        return [self._rest(shelf, one) for one in news if (one.info.size or 0) > one.file.place]

    def _rest(self, shelf: Shelf, news: _News) -> Iterator[Run]:
        container, name = news.file.origin
        pieces = shelf.read(container, name, tail=(news.info.size or 0) - news.file.place)
        return iter(self._wanted(news.file.take(pieces)))
