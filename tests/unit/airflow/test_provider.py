"""What Airflow reads of the provider."""

from __future__ import annotations

from importlib.util import find_spec

from submit_tf_job.airflow.provider import get_provider_info


def test_get_provider_info_names_modules_that_exist() -> None:
    info = get_provider_info()
    classes = [info["connection-types"][0]["hook-class-name"], *info["extra-links"]]
    modules = {name.rpartition(".")[0] for name in classes}
    for kind in ("hooks", "operators", "sensors", "triggers"):
        modules |= {module for entry in info[kind] for module in entry["python-modules"]}
    assert [module for module in sorted(modules) if find_spec(module) is None] == []
