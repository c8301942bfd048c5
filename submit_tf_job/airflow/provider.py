"""The provider's description for Airflow (entry point `apache_airflow_provider`).

It imports little, because Airflow imports it in each of its processes.
"""

from __future__ import annotations

from typing import Any

from submit_tf_job.airflow.form import FIELDS, HIDDEN, PLACEHOLDERS, RELABELED

__all__ = ["get_provider_info"]

_HERE = "submit_tf_job.airflow"
_NAME = "submit_tf_job"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description (Airflow's provider_info.schema.json)."""
    return {
        # the name's form in an index; otherwise Airflow does not start
        "package-name": "submit-tf-job",
        "name": _NAME,
        "description": "Distributed TensorFlow on Hadoop YARN.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://hadoop.apache.org/",
                "tags": ["software"],
            }
        ],
        "connection-types": [
            {
                "connection-type": "submit_tf_job",
                "hook-class-name": f"{_HERE}.hook.SubmitTFJobHook",
                "hook-name": "YARN (submit_tf_job)",
                "ui-field-behaviour": {
                    "hidden-fields": list(HIDDEN),
                    "relabeling": dict(RELABELED),
                    "placeholders": dict(PLACEHOLDERS),
                },
                "conn-fields": {
                    name: {"label": label, "schema": {"type": ["string", "null"]}}
                    for name, label in FIELDS.items()
                },
            }
        ],
        "hooks": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.hook"]}],
        "operators": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.operator"]}],
        "sensors": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.sensor"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": [f"{_HERE}.trigger"]}],
        "task-decorators": [
            {"name": _NAME, "class-name": f"{_HERE}.decorators.submit_tf_job_task"}
        ],
        "extra-links": [
            f"{_HERE}.extra_links.{name}"
            for name in ("ApplicationLink", "LogsLink", "TensorBoardLink")
        ],
    }
