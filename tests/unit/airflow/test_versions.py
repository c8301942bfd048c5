"""What an installation without Airflow 3 is told."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize("name", ["hook", "operator", "sensor"])
def test_module_without_airflow_3_says_what_to_call(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "airflow"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "airflow", None)
    for loaded in (f"submit_tf_job.airflow.{name}", "submit_tf_job.airflow.airflow_names"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    with pytest.raises(ImportError, match=r"needs Airflow 3.2.*submit_tf_job submit"):
        importlib.import_module(f"submit_tf_job.airflow.{name}")
