"""Train on YARN every day, and check what came out: once in a worker's slot, once in the triggerer.

Put `digits.yaml` and what it ships beside this file, and make a connection `submit_tf_job_default`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow import DAG

from submit_tf_job.airflow.operator import SubmitTFJobOperator
from submit_tf_job.airflow.sensor import SubmitTFJobSensor

with DAG(
    dag_id="submit_tf_job_digits",
    description="Distributed TensorFlow on YARN",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    schedule=None,
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["example", "tensorflow"],
) as dag:
    train = SubmitTFJobOperator(
        task_id="train",
        job="digits.yaml",
        overrides=["env.DAY={{ ds }}", "roles.worker.instances=2"],
        deferrable=True,
        execution_timeout=timedelta(hours=12),
    )
    evaluate = SubmitTFJobOperator(
        task_id="evaluate",
        job={
            "image": "tensorflow/tensorflow:2.15.0",
            "strategy": "single",
            "command": 'python3 -c \'import os; print("evaluating the model of", os.environ["DAY"])\'',
            "env": {"DAY": "{{ ds }}"},
            "roles": {"worker": {"cpus": 1, "memory": "1Gi"}},
        },
    )
    published = SubmitTFJobSensor(task_id="published", job="publish-{{ ds }}", deferrable=True, timeout=timedelta(hours=1).total_seconds())
    train >> evaluate >> published
