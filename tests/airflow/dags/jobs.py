"""What the tests have Airflow do; read by an Airflow of their own."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from submit_tf_job.airflow.operator import SubmitTFJobOperator
from submit_tf_job.airflow.sensor import SubmitTFJobSensor

MARKS = Path(os.environ["SUBMIT_TF_JOB_TEST_MARKS"])
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
AT_ONCE = timedelta(seconds=1)


def job(command: str, **more: Any) -> dict[str, Any]:
    """Return a job of one small task."""
    return {
        "image": "library/python:3.11",
        "strategy": "single",
        "command": command,
        "roles": {"worker": {"memory": "128Mi"}},
        **more,
    }


class DyingOperator(SubmitTFJobOperator):
    """Its first try dies, as a worker without power would, when the cluster has the POST and before
    the answer is read.
    """

    def execute(self, context: Any) -> Any:
        from submit_tf_job.yarn.resource_manager import ResourceManager

        if context["ti"].try_number == 1:
            post = ResourceManager.post_service

            def dying(client: ResourceManager, *given: Any, **more: Any) -> Any:
                post(client, *given, **more)
                os.kill(os.getpid(), signal.SIGKILL)

            ResourceManager.post_service = dying  # type: ignore[assignment,method-assign]
        return super().execute(context)


with DAG("ends", start_date=START, schedule=None, catchup=False):
    DyingOperator(
        task_id="dies",
        job=job("echo from {{ run_id }}; sleep 15"),
        deferrable=False,
        retries=1,
        retry_delay=AT_ONCE,
        on_finish="keep",
    )
    deferred = SubmitTFJobOperator(
        task_id="deferred",
        job="deferred.yaml",
        name="waits",
        overrides=["env.MARKS={{ params.marks }}"],
        params={"marks": str(MARKS)},
        deferrable=True,
        execution_timeout=timedelta(minutes=30),
    )
    retried = SubmitTFJobOperator(
        task_id="retried",
        job=job(f"[ -e {MARKS}/failed ] || {{ touch {MARKS}/failed; echo it broke >&2; exit 3; }}"),
        deferrable=True,
        retries=1,
        retry_delay=AT_ONCE,
        on_finish="keep",
    )
    sensed = SubmitTFJobSensor(
        task_id="sensed",
        job="{{ ti.xcom_pull(task_ids='retried', key='application_id') }}",
        deferrable=True,
        timeout=1200,
    )
    retried >> sensed
    SubmitTFJobOperator(
        task_id="in_vain",
        job=job("no-such-program"),
        deferrable=True,
        retries=3,
        retry_delay=AT_ONCE,
    )

with DAG("kills", start_date=START, schedule=None, catchup=False):
    SubmitTFJobOperator(task_id="in_worker", job=job("sleep 3600"), deferrable=False)
    SubmitTFJobOperator(task_id="in_triggerer", job=job("sleep 3600"), deferrable=True)
