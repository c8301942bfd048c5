"""The names of Airflow 3.2 that most of the provider needs; older versions are refused here."""

from __future__ import annotations

try:
    from airflow.sdk import (
        Asset,
        AssetAlias,
        BaseHook,
        BaseOperator,
        BaseOperatorLink,
        BaseSensorOperator,
        PokeReturnValue,
        conf,
    )
    from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError as error:
    raise ImportError(
        "submit_tf_job.airflow needs Airflow 3.2 or later; with an older one call the command line "
        "from a BashOperator: submit_tf_job submit"
    ) from error

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "Asset",
    "AssetAlias",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "DecoratedOperator",
    "PokeReturnValue",
    "conf",
    "task_decorator_factory",
]
