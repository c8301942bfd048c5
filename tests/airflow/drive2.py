"""Does with an Airflow 2 what a person does in its UI, and prints what it says as JSON: drive2.py
VERB DAG RUN [TASK [KEY]].
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.models import DagBag, DagModel, TaskInstance, XCom
from airflow.utils.session import create_session


def main(verb: str, dag: str, run: str, task: str = "", key: str = "") -> Any:
    """Do one thing."""
    if verb == "run":
        with create_session() as session:
            model = session.query(DagModel).filter_by(dag_id=dag).one()
            model.is_paused = False
        trigger_dag(dag, run_id=run)
        return None
    if verb == "xcom":
        return XCom.get_one(dag_id=dag, run_id=run, task_id=task, key=key)
    with create_session() as session:
        found = session.query(TaskInstance).filter_by(dag_id=dag, run_id=run, task_id=task).one()
        if verb == "links":
            operator = DagBag(read_dags_from_db=True).get_dag(dag).get_task(task)
            return {name: operator.get_extra_links(found, name) for name in operator.extra_links}
        assert verb == "fail", verb
        found.set_state("failed", session=session)
        return None


print(json.dumps(main(*sys.argv[1:])))
