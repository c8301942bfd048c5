"""Exclude `inside` and the DAGs from collection: they run in Airflow's environment."""

from __future__ import annotations

collect_ignore = ["inside", "dags"]
