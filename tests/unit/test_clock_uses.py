"""Where this machine's clock is read: it is compared with no time of the cluster to decide anything,
because it may be wrong. `ResourceManager.now_ms` and `Storage.now_ms` are for that.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "submit_tf_job"
READS = r"\btime\.time\b|\bdatetime\.now\b|\.wall\b"

USES = {
    # what is shown
    "report/job_text.py": "whether a moment is of today",
    "operations/change.py": "the local time at which a job's lifetime ends",
    "logs/follow.py": "when a line was read; the year of times without one",
    "operations/follow.py": "the same",
    "yarn/errors.py": "by how much the clocks differ, in an error about that",
    "gateway/app.py": "the time in the audit log",
    "compat/kubeflow.py": "the times of a job's conditions",
    # a time of this machine, or of those who use it
    "doctor/cluster_checks.py": "by how much the clocks differ; a ticket's end",
    "doctor/probe.py": "a deadline",
    "host/kerberos.py": "a ticket's end, by the clock that Kerberos itself compares",
    "gateway/policy.py": "the day on which a caller's entry expires",
    "gateway/runtime.py": "the age of a directory on this host",
    "jobspec/file_contents.py": "the age of a cache on this host",
    "airflow/trigger.py": "a deadline of Airflow's, by Airflow's clocks",
    "airflow/sensor.py": "a deadline of Airflow's, by Airflow's clocks",
    # where no ResourceManager says the time
    "operations/listing.py": "`--since` of a list",
    "operations/logs.py": "`--since` of logs; the year of times without one",
}


def test_the_clock_of_this_machine_is_read_where_it_decides_nothing() -> None:
    beside = ("container", "sandbox", "local")  # programs on nodes, and processes of this host
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    found = {
        name
        for name, path in files.items()
        if name.split("/")[0] not in beside and re.search(READS, path.read_text("utf-8"))
    }
    assert found == {*USES, "operations/cluster.py"}
