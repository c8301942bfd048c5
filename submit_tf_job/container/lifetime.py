"""The end of the job's `lifetime`: have the tasks save before YARN kills them.

YARN does not tell a container when its lifetime ends, and kills it 250 ms after SIGTERM. So the
record of the run contains how many seconds the job may still run, counted from the modification
time of the record's file; `submit` and `extend` write that. The modification time and the time now
are both taken from the clock of HDFS, so no clock of a client or a node matters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from submit_tf_job.container.data.store import NotFound, StoreError
from submit_tf_job.container.data.webhdfs_client import WebHdfs
from submit_tf_job.container.info import Info

RECORD, REPORT = ".json", ".report"
KEY = "lifetime_s"  # of the record: from the time of the file on
LONGEST_PAUSE_S = 60.0  # between two reads
MISSING = 10  # reads, after which the client that submitted the job has not written it
MARGIN_S = 10.0  # the record is written after the POST, and a read may be late
LATE_S = 15.0  # YARN checks every 3 s whether a lifetime is over


def watch(info: Info, ends: Callable[[float], None]) -> None:
    """Wait until the tasks have to save. Then call `ends` with the monotonic time by which YARN
    will have ended the job, and return.

    Returns without a call if the job has no lifetime, or if the record is missing or cannot be
    parsed in `MISSING` reads. This function blocks: run it in a thread.
    """
    grace_s = info.stop_grace_s + MARGIN_S
    until: float | None = None  # of the monotonic clock
    missing = 0
    while until is not None or missing < MISSING:
        try:
            left_s = _read_left(info)
            if left_s is None:
                return
            until = time.monotonic() + left_s
        except StoreError as err:  # what is known still holds
            missing += isinstance(err, NotFound)
        pause_s = LONGEST_PAUSE_S if until is None else until - grace_s - time.monotonic()
        if until is not None and pause_s <= 0:
            ends(until + LATE_S)
            return
        time.sleep(min(LONGEST_PAUSE_S, max(1.0, pause_s)))


def _read_left(info: Info) -> float | None:
    """Return the seconds until the lifetime ends; None if the job has no lifetime.

    Raises:
        StoreError: HDFS does not respond; `NotFound` if there is no record, or it cannot be parsed.
    """
    rule = info.task["record"]
    env = dict(info.env, HADOOP_USER_NAME=rule["user"])
    store = WebHdfs(rule["protocol"], rule["addresses"], env)
    path = rule["path"][: -len(REPORT)] + RECORD
    written = store.version(path)
    if written is None:
        raise NotFound(path)
    try:
        found = json.loads(b"".join(store.read(path)).decode("utf-8"))[KEY]
        now_s = parsedate_to_datetime(store.date).timestamp()
        return None if found is None else float(found) - (now_s - written[0] / 1000.0)
    # of another version; damaged; or just being written
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NotFound(f"{path} is no record") from None
