"""Train on YARN, then check the result: once in the triggerer, once in a worker's slot.

Copy this file into the DAGs folder, create a connection `submit_tf_job_default`, and trigger the
DAG by hand. The job needs no other file and no data: its program, which runs with any Python from
3.7 on, estimates a slope from generated points.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from submit_tf_job.airflow.operator import SubmitTFJobOperator
from submit_tf_job.airflow.sensor import SubmitTFJobSensor

# The nodes' own Python, which runs on every cluster; or an image of a registry that yours trusts.
IMAGE = "none"

# Stands for a TensorFlow program: reads TF_CONFIG and reports its progress.
TRAIN = """
import json, os, random, time

task = json.loads(os.environ["TF_CONFIG"])["task"]
print("this is", task["type"], task["index"], flush=True)
random.seed(task["index"])
slope = 0.0
for step in range(1, 11):
    x = random.random()
    slope += 0.8 * (3.0 - slope) * x
    progress = dict(step=step, total=10, metrics=dict(slope=slope, error=abs(3.0 - slope)))
    print("TFJOB_PROGRESS", json.dumps(progress), flush=True)
    time.sleep(1)
"""

with DAG(
    dag_id="submit_tf_job_digits",
    description="A distributed training on YARN",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    schedule=None,
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={"workers": 1},
    tags=["example", "tensorflow"],
) as dag:
    train = SubmitTFJobOperator(
        task_id="train",
        job={
            "image": IMAGE,
            "strategy": "multi-worker",
            "command": ["python3", "-c", TRAIN],
            # a run that is triggered by hand has no {{ ds }} in Airflow 3
            "env": {"RUN": "{{ run_id }}"},
            "roles": {
                "chief": {"cpus": 1, "memory": "256Mi"},
                "worker": {"cpus": 1, "memory": "256Mi"},
            },
        },
        overrides=["roles.worker.instances={{ params.workers }}"],
        deferrable=True,
        execution_timeout=timedelta(hours=12),
    )
    evaluate = SubmitTFJobOperator(
        task_id="evaluate",
        job={
            "image": IMAGE,
            "strategy": "single",
            "command": [
                "python3",
                "-c",
                "import os; assert float(os.environ['ERROR']) < 1; print('good enough')",
            ],
            "env": {
                "ERROR": "{{ ti.xcom_pull(task_ids='train')['progress']['metrics']['error'] }}"
            },
            "roles": {"worker": {"cpus": 1, "memory": "256Mi"}},
        },
        on_finish="keep",  # the sensor finds it by its id
    )
    evaluated = SubmitTFJobSensor(
        task_id="evaluated",
        job="{{ ti.xcom_pull(task_ids='evaluate', key='application_id') }}",
        deferrable=True,
        timeout=timedelta(hours=1).total_seconds(),
    )
    train >> evaluate >> evaluated
