"""Applications, reports and statuses of a job, as YARN and the deciding task write them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from submit_tf_job import job_report
from submit_tf_job.observation import Evidence, JobStatus
from submit_tf_job.yarn.observed import AppReport, AppState, FinalStatus

MESSAGE = "worker-1 ended with exit status 3"
FAILURE = job_report.Failure("worker-1", 3, "command", MESSAGE, "node1", ("Traceback",))
FAILURE_JSON = {"task": "worker-1", "status": 3, "reason": "command", "message": MESSAGE}
FAILURE_JSON |= {"host": "node1", "last_lines": ["Traceback"]}


def app(state: str = "FINISHED", final: str = "SUCCEEDED", diagnostics: str = "") -> AppReport:
    known = ("application_1_0001", "alice", "mnist", "default")
    return AppReport(*known, AppState(state), FinalStatus(final), diagnostics=diagnostics)


def report(state: str = "succeeded", **values: Any) -> job_report.JobReport:
    plain: dict[str, Any] = {"version": 1, "run": "s", "state": state, "wanted": 2, "arrived": 2}
    plain["roles"] = {"worker": {"wanted": 2}}
    found = job_report.JobReport.parse(json.dumps({**plain, **values}).encode())
    assert found
    return found


STATES = "waiting,running,finishing,succeeded,failed,stopped,,SUCCEEDED,other"
reports = st.builds(
    lambda state, failure, status: report(
        state, first_failure=failure, outcome=None if status is None else {"status": status}
    ),
    st.sampled_from(STATES.split(",")),
    st.sampled_from([None, FAILURE_JSON]),
    st.sampled_from([None, 0, 1, 22, 143]),
)
apps = st.builds(
    app,
    st.sampled_from([s.value for s in AppState]),
    st.sampled_from([s.value for s in FinalStatus]),
    st.text(),
)
observations = st.builds(
    JobStatus,
    st.just("mnist"),
    st.just("application_1_0001"),
    st.none() | apps,
    report=st.none() | reports,
    evidence=st.sampled_from(Evidence),
)
