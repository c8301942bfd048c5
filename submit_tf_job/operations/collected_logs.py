"""Open the logs that the NodeManagers collected of an application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.operations.cluster import storage_of
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.observed import AppReport

if TYPE_CHECKING:
    from submit_tf_job.logs.collected import AggregatedLogs


def collected_logs(
    app: AppReport, conf: Path, settings: Settings, now_ms: int | None = None
) -> AggregatedLogs:
    """Return the logs that the NodeManagers collected of an application; reads nothing yet.

    Args:
        app: The application.
        conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.
        settings: The user of the request.
        now_ms: The current time; without it, missing logs are never reported as deleted by age.

    Raises:
        SettingsError: The configuration cannot be read, or names no file system for the logs.
    """
    from submit_tf_job.hadoop_logs.node_files import LogSettings
    from submit_tf_job.host.hadoopconf import YARN, configuration
    from submit_tf_job.logs.collected import AggregatedLogs, WhatYarnSays

    rules = LogSettings.from_properties(configuration(conf, YARN))
    storage = storage_of(settings, rules.root if "://" in rules.root else None)
    said = WhatYarnSays(
        app.log_aggregation_status,
        running=not app.ended,
        finished_ms=app.finished_ms,
        now_ms=now_ms,
    )
    user = app.user or settings.user
    return AggregatedLogs(storage, app.id, user=user, settings=rules, said=said)
