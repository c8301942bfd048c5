"""What runs elsewhere is not collected here: `inside` and the DAGs run where Airflow is."""

from __future__ import annotations

collect_ignore = ["inside", "dags", "drive2.py"]
