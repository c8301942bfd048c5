"""The trigger: follows a job in the triggerer until it is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from submit_tf_job.airflow.versions import AIRFLOW, BaseTrigger, TriggerEvent
from submit_tf_job.errors import DeadlinePassed, SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.airflow.hook import SubmitTFJobHook
    from submit_tf_job.sdk import Client
    from submit_tf_job.watch import Look

__all__ = ["SubmitTFJobTrigger"]

T = TypeVar("T")
_LINKS_TRIES = 10

# Requests take as long as the cluster likes: not in the triggerer's own threads, which other triggers need.
_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="submit_tf_job")


class SubmitTFJobTrigger(BaseTrigger):
    """Follows a job until it is over, or until its time is; any triggerer can go on where another was.

    Args:
        name: The job.
        application_id: Its application; None where whatever has the name is meant.
        submit_tf_job_conn_id: The connection; None for the settings of the triggerer's host.
        ends_at: When to give up, in seconds since 1970; None for never.
        own: Whether the task has submitted the job: then it is stopped when the task is killed, when its time is over, and where it can
            only wait in vain; and the task's links are kept.
        bootstrap: Whether the job runs under our bootstrap; None to find out.
        stop_on_kill: Whether an own job is stopped when the task is killed.
    """

    def __init__(
        self,
        *,
        name: str,
        application_id: str | None,
        submit_tf_job_conn_id: str | None,
        ends_at: float | None = None,
        own: bool = False,
        bootstrap: bool | None = None,
        stop_on_kill: bool = True,
    ) -> None:
        super().__init__()
        self.name = name
        self.application_id = application_id
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        self.ends_at = ends_at
        self.own = own
        self.bootstrap = bootstrap
        self.stop_on_kill = stop_on_kill
        self._links_tries = _LINKS_TRIES if own else 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes the same trigger again."""
        names = ("name", "application_id", "submit_tf_job_conn_id", "ends_at", "own", "bootstrap", "stop_on_kill")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once: when the job is over, or cannot be followed any more."""
        try:
            yield TriggerEvent(await self._event())
        except asyncio.CancelledError:
            if AIRFLOW < (3,) and await _in_asgiref(self._was_killed):  # Airflow 3.3 calls on_kill
                await self.on_kill()
            raise

    async def _event(self) -> dict[str, Any]:
        await _in_thread(_load)
        from submit_tf_job.airflow.outcome import error_object

        try:
            hook = await self._hook()
            client = await _in_thread(hook.get_conn)
            look = await self._followed(client)
            status = await _in_thread(partial(self._judged, client, look))
        except SubmitTFJobError as error:
            timed_out = isinstance(error, DeadlinePassed) and self.ends_at is not None and time.time() >= self.ends_at
            if timed_out:
                await self.on_kill()
            return {"job": None, "error": error_object(error), "timed_out": timed_out}
        return {"job": status.to_json(), "error": error_object(status.error), "text": str(status), "timed_out": False}

    async def _hook(self) -> SubmitTFJobHook:
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        hook = SubmitTFJobHook(self.submit_tf_job_conn_id)
        await _in_asgiref(lambda: hook.given)  # Airflow lends its supervisor's ear to threads of asgiref alone
        return hook

    async def _followed(self, client: Client) -> Look:
        from submit_tf_job import api

        cluster = client.cluster
        looks: list[Look] = []
        left_s = None if self.ends_at is None else max(0.0, self.ends_at - time.time())
        steps = api.following(
            cluster,
            api.JobRef(self.name, self.application_id),
            until=lambda look: self.own and bool(look.seen.failed_before_bootstrap),
            bootstrap=self.bootstrap,
            timeout_s=left_s,
            on_look=looks.append,
        )
        while True:
            step = await _in_thread(partial(_take, steps))
            if not isinstance(step, float):
                return await _in_thread(partial(api.end_doomed, cluster, api.JobRef(self.name, self.application_id), step))
            await self._tell(client, looks[-1:])
            looks.clear()
            await asyncio.sleep(step)

    def _judged(self, client: Client, look: Look) -> Any:
        from submit_tf_job.sdk import JobHandle

        return JobHandle(client, self.name, self.application_id).judged(look)

    async def _tell(self, client: Client, looks: list[Look]) -> None:
        """Keep the links of a job that has begun to run; that they cannot be had is no reason to lose the job."""
        from submit_tf_job.airflow.links import links_of_running
        from submit_tf_job.observation import JobState

        if not self._links_tries or not looks or looks[-1].verdict.state is not JobState.RUNNING:
            return
        self._links_tries -= 1
        try:
            links = await _in_thread(partial(links_of_running, client.cluster, self.name, self.application_id))
            if links:
                self._links_tries = 0
                await _in_asgiref(partial(self._push, links))
        except Exception as error:  # noqa: BLE001 - Airflow's XCom backends raise what they like
            self.log.warning("the links of %s cannot be kept: %s", self.name, error)

    def _push(self, links: dict[str, str]) -> None:
        from submit_tf_job.airflow.versions import XCom

        ti = self.task_instance
        for key, url in links.items():
            XCom.set(key=key, value=url, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index)

    async def on_kill(self) -> None:
        """Stop the job: the task was cleared, or marked as failed or succeeded."""
        if not (self.own and self.stop_on_kill):
            return
        hook = await self._hook()
        await _in_thread(partial(hook.kill, self.name, self.application_id))

    def _was_killed(self) -> bool:
        """Ask Airflow 2's database whether the task waits for this trigger no more; a triggerer that ends cancels its triggers, too."""
        from importlib import import_module

        if self.task_instance is None:
            return False
        model = import_module("airflow.models.taskinstance").TaskInstance
        session = import_module("airflow.utils.session").create_session
        ti = self.task_instance
        with session() as db:
            wanted = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "map_index": ti.map_index}
            found = db.query(model).filter_by(**wanted).one_or_none()
            return found is None or found.state != "deferred"


def _load() -> None:
    """Import what a trigger needs, which takes too long for the loop."""
    import submit_tf_job.airflow.hook
    import submit_tf_job.airflow.links
    import submit_tf_job.airflow.outcome
    import submit_tf_job.api
    import submit_tf_job.observation
    import submit_tf_job.sdk  # noqa: F401


def _take(steps: Generator[float, None, Look]) -> float | Look:
    """Take one step; a StopIteration cannot come out of a thread."""
    try:
        return next(steps)
    except StopIteration as end:
        last: Look = end.value
        return last


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


async def _in_asgiref(call: Callable[[], T]) -> T:
    """Call in a thread of asgiref's, which forgets why it was cancelled: a triggerer that does not learn it does not call `on_kill`."""
    from importlib import import_module

    task: asyncio.Task[T] = asyncio.ensure_future(import_module("asgiref.sync").sync_to_async(call)())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks for it any more
        raise
