"""The trigger: follows a job in the triggerer until it is over."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from submit_tf_job.errors import DeadlinePassed, NoSuchJob, SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.airflow.hook import SubmitTFJobHook
    from submit_tf_job.sdk.client import Client, JobHandle, Status
    from submit_tf_job.sdk.events import Event

T = TypeVar("T")
_LINKS_TRIES = 100  # a sidecar may wait for its node, or for its image, for minutes
# states of a task that is still to be run, or to be tried again
_GOES_ON = ("deferred", "scheduled", "queued", "running", "up_for_retry")
ABSENT_EVERY_S = 5.0  # a sensor's job may be submitted at any time
OUTPUT_EVERY_S = 5.0  # a triggerer follows many jobs at once

# Requests may take long: do not use the triggerer's own threads, which other triggers need.
_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="submit_tf_job")
_stopping: set[asyncio.Future[None]] = set()  # the event loop keeps no reference


class JobEnded(TriggerEvent):
    """The event that a job has ended, or can no longer be followed; Airflow writes its `repr` to
    the task's log.
    """

    def __repr__(self) -> str:
        """Return the job's name and state, or the error's code, instead of the whole payload."""
        job, error = self.payload.get("job"), self.payload.get("error")
        if job:
            return f"{job['name']} {job['state']}"
        return f"not followed any more: {(error or {}).get('code', 'unknown')}"


class SubmitTFJobTrigger(BaseTrigger):
    """Follows a job to its end or to a deadline; another triggerer can continue at any time.

    Args:
        name: The job.
        application_id: The application of the job's run; None for the newest run.
        submit_tf_job_conn_id: The connection; None for the settings of the triggerer's host.
        ends_at: The deadline, in seconds since 1970; None for no deadline.
        own: Whether the task has submitted the job. Then the job is stopped if it can never start,
            and by `stop_on_kill`; and the task's links are stored.
        stop_on_kill: Whether a job that the task has submitted is stopped when the task is killed,
            and at the deadline.
        get_logs: Whether to write the output of the deciding task to the task's log.
    """

    def __init__(
        self,
        *,
        name: str,
        application_id: str | None,
        submit_tf_job_conn_id: str | None,
        ends_at: float | None = None,
        own: bool = False,
        stop_on_kill: bool = True,
        get_logs: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.application_id = application_id
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        self.ends_at = ends_at
        self.own = own
        self.stop_on_kill = stop_on_kill
        self.get_logs = get_logs
        self._links_tries = _LINKS_TRIES if own else 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments that recreate this trigger."""
        names = inspect.signature(type(self)).parameters
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the job is over or can no longer be followed."""
        yield JobEnded(await self._event_at_end())

    async def _event_at_end(self) -> dict[str, Any]:
        await _in_thread(_load_modules)
        from submit_tf_job.airflow.hook import error_object

        try:
            hook = await self._make_hook()
            client = await _in_thread(hook.get_conn)
            status = await self._follow_job(client)
        except SubmitTFJobError as error:
            timed_out = (
                isinstance(error, DeadlinePassed)
                and self.ends_at is not None
                and time.time() >= self.ends_at
            )
            if timed_out and self.own and self.stop_on_kill:
                await self._stop_overdue_job()
            return {"job": None, "error": error_object(error), "timed_out": timed_out}
        return {
            "job": status.to_json(),
            "error": error_object(status.error),
            "text": str(status),
            "timed_out": False,
        }

    async def _make_hook(self) -> SubmitTFJobHook:
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        hook = SubmitTFJobHook(self.submit_tf_job_conn_id)
        # Airflow's connection to its supervisor works in threads of asgiref only
        await _in_asgiref(lambda: hook.given)
        return hook

    async def _follow_job(self, client: Client) -> Status:
        from submit_tf_job.sdk.events import EventLog, Pause, Status

        while (handle := await _in_thread(partial(self._find_handle, client))) is None:
            await asyncio.sleep(ABSENT_EVERY_S)
        left_s = None
        if self.ends_at is not None:
            left_s = max(0.0, self.ends_at - time.time())
        log = EventLog()
        events = handle.events(
            left_s, output_every_s=OUTPUT_EVERY_S if self.get_logs else None, pauses=True
        )
        while True:
            found = await _in_thread(partial(_until_pause, events))
            for line in await _in_thread(partial(log.lines, *found)):
                self.log.info("%s", line)
            if found and not isinstance(found[-1], Pause):
                assert isinstance(found[-1], Status)  # the last event of all
                return found[-1]
            await self._store_links(handle, found)
            await asyncio.sleep(sum(e.seconds for e in found if isinstance(e, Pause)))

    def _find_handle(self, client: Client) -> JobHandle | None:
        """Return the job's handle; None if a sensor waits for a job that is not submitted yet.

        Raises:
            NoSuchJob: There is no such job, and it is not awaited.
            DeadlinePassed: The awaited job was not submitted before the deadline.
        """
        try:
            return client.attach(self.application_id or self.name, own=self.own)
        except NoSuchJob as error:
            if self.own or self.application_id or self.ends_at is None:
                raise
            if time.time() >= self.ends_at:
                raise DeadlinePassed(error.message) from error
            return None

    async def _store_links(self, handle: JobHandle, found: list[Event]) -> None:
        """Store the links of a running job.

        A failure to store them does not end the trigger.
        """
        from submit_tf_job.airflow.links import links_of_running
        from submit_tf_job.sdk.events import Status

        runs = any(isinstance(e, Status) and e.state == "RUNNING" for e in found)
        # `airflow dags test` follows in a process where the trigger does not know its task
        if not self._links_tries or not runs or self.task_instance is None:
            return
        self._links_tries -= 1
        try:
            links, complete = await _in_thread(partial(links_of_running, handle))
            if complete:
                self._links_tries = 0
            if links:
                await _in_asgiref(partial(self._push_links, links))
        except Exception as error:  # noqa: BLE001 - Airflow's XCom backends may raise anything
            self.log.warning("the links of %s cannot be kept: %s", self.name, error)

    def _push_links(self, links: dict[str, str]) -> None:
        from airflow.sdk import BaseXCom

        ti = self.task_instance
        for key, url in links.items():
            BaseXCom.set(
                key=key,
                value=url,
                dag_id=ti.dag_id,
                task_id=ti.task_id,
                run_id=ti.run_id,
                map_index=ti.map_index,
            )

    async def on_kill(self) -> None:
        """Stop the job, if the task was cleared, or marked as failed or succeeded.

        A triggerer gives this 30 s (`[triggerer] on_kill_timeout`); the first request to Airflow's
        API takes longer on a busy host (seen with 3.3.2), so the work continues after that limit.
        """
        if not (self.own and self.stop_on_kill):
            return
        work = asyncio.ensure_future(self._stop_unless_needed())
        _stopping.add(work)
        work.add_done_callback(_stopping.discard)
        await asyncio.shield(work)

    async def _stop_unless_needed(self) -> None:
        try:
            if await self._goes_on():
                self.log.info("%s keeps running: its task was not ended by a person", self.name)
                return
        except Exception as error:  # noqa: BLE001 - Airflow's API may raise anything
            self.log.warning(
                "%s keeps running: the state of its task cannot be read: %s", self.name, error
            )
            return
        await self._stop_job()

    async def _stop_overdue_job(self) -> None:
        try:
            await self._stop_job()
        except SubmitTFJobError as error:  # the task has timed out all the same
            self.log.warning("%s could not be stopped: %s", self.name, error.message)

    async def _stop_job(self) -> None:
        hook = await self._make_hook()
        await _in_thread(partial(hook.kill, self.name, self.application_id))

    async def _goes_on(self) -> bool:
        """Return whether Airflow still has a task for this job: one that is deferred, runs, or will
        run or be tried again.

        The triggerer cancels a trigger whose row in the database is gone, and calls that a user's
        action. `airflow dags test` removes the row of a task that it follows in its own process,
        and gives the task the state "queued" (seen with 3.3.2). A cleared task may have that state,
        too; then its next try stops this job (`SubmitTFJobHook.submit`).
        """
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti = self.task_instance
        answer = await _in_asgiref(
            partial(
                RuntimeTaskInstance.get_task_states,
                dag_id=ti.dag_id,
                task_ids=[ti.task_id],
                run_ids=[ti.run_id],
                map_index=ti.map_index,
            )
        )
        # the key of a mapped task contains its index (`/task-instances/states` of Airflow's API)
        return any(state in _GOES_ON for state in answer.get(ti.run_id, {}).values())


def _load_modules() -> None:
    """Import the trigger's modules, which takes too long for the event loop."""
    import submit_tf_job.airflow.hook
    import submit_tf_job.airflow.links
    import submit_tf_job.sdk.client
    import submit_tf_job.sdk.events  # noqa: F401


def _until_pause(events: Iterator[Event]) -> list[Event]:
    """Return the next events, up to and including a pause; if the job ends, up to the final
    status.
    """
    from submit_tf_job.sdk.events import Pause

    found: list[Event] = []
    for event in events:
        found.append(event)
        if isinstance(event, Pause):
            break
    return found


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


async def _in_asgiref(call: Callable[[], T]) -> T:
    """Call a function in a thread of asgiref.

    The call is shielded from cancellation, because asgiref drops the reason of a cancellation, and
    without that reason a triggerer does not call `on_kill`.
    """
    from asgiref.sync import sync_to_async

    task: asyncio.Task[T] = asyncio.ensure_future(sync_to_async(call)())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # retrieve the result, which is no longer awaited
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
