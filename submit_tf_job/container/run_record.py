"""The deciding task's last report, beside the run's record on HDFS: it is there when YARN has
forgotten the run and its logs are deleted.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container.data.store import NotFound, StoreError
from submit_tf_job.container.data.webhdfs_client import WebHdfs
from submit_tf_job.container.info import Info, log

WAIT_S = 5.0  # the job's end does not wait longer for HDFS
MOST_BYTES = 65536  # of a report with its tasks


def leave(info: Info, report: Mapping[str, Any]) -> None:
    """Write the last report of a job that is over; a failure costs the record alone."""
    found = dict(report)
    text = json.dumps(found, sort_keys=True).encode("utf-8")
    if len(text) > MOST_BYTES:
        found.pop("tasks", None)
        text = json.dumps(found, sort_keys=True).encode("utf-8")
    writing = threading.Thread(target=_write, args=(info, text), name="record", daemon=True)
    writing.start()
    writing.join(WAIT_S)


def _write(info: Info, text: bytes) -> None:
    rule = info.task["record"]
    try:
        store = WebHdfs(
            rule["protocol"], rule["addresses"], dict(info.env, HADOOP_USER_NAME=rule["user"])
        )
        with contextlib.suppress(NotFound):
            store.remove(rule["path"])
        store.write(rule["path"], [text], len(text))
    except StoreError as err:
        log("the record of this run has no report: %s" % err)
