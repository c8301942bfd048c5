"""Support Airflow 2 and 3: the running version, names that moved, and features that are missing."""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
from typing import TYPE_CHECKING, Any

__all__ = [
    "AIRFLOW",
    "AirflowException",
    "AirflowFailException",
    "AirflowSensorTimeout",
    "AirflowTaskTimeout",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "TriggerEvent",
    "XCom",
    "check",
    "conf",
    "missing",
]

OLDEST = (2, 11)
_log = logging.getLogger(__name__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check(version: str) -> tuple[int, ...]:
    """Return a version as numbers.

    Raises:
        ImportError: The version is too old.
    """
    found = _numbers(version)
    if found < OLDEST:
        raise ImportError(
            f"submit_tf_job.airflow needs Airflow {'.'.join(map(str, OLDEST))} or later, "
            f"and this is {version}; "
            "with an older one call the command line from a BashOperator: submit_tf_job submit"
        )
    return found


def missing(version: tuple[int, ...], *, on_kill: bool) -> tuple[str, ...]:
    """Return a sentence about each feature that an Airflow version lacks.

    Args:
        version: The version.
        on_kill: Whether its triggers are notified when their task is killed.
    """
    if on_kill or version < (3,):  # in Airflow 2 a trigger can query the state of its task
        return ()
    return (
        f"Airflow {'.'.join(map(str, version))} does not notify a trigger when its task is "
        f"killed (3.3 does): a deferred task that is "
        "cleared or marked leaves its job running; use deferrable=False, or a later Airflow",
    )


AIRFLOW = check(importlib.import_module("airflow").__version__)

if TYPE_CHECKING:
    # Airflow is not installed where types are checked: it has 130 dependencies.
    class LoggingMixin:
        """The base of Airflow's classes."""

        log: logging.Logger

    class BaseHook(LoggingMixin):
        """airflow.sdk.BaseHook."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        @classmethod
        def get_connection(cls, conn_id: str) -> Any:
            """Return a connection."""

    class BaseOperator(LoggingMixin):
        """airflow.sdk.BaseOperator."""

        task_id: str
        retries: int
        execution_timeout: Any
        dag: Any

        def __init__(self, **kwargs: Any) -> None: ...
        def defer(self, **kwargs: Any) -> Any:
            """Raise TaskDeferred."""

        def render_template(self, content: Any, context: Any) -> Any:
            """Render a template."""

        def __rshift__(self, other: Any) -> Any: ...

    class BaseSensorOperator(BaseOperator):
        """airflow.sdk.BaseSensorOperator."""

        timeout: float
        poke_interval: float

        def execute(self, context: Any) -> Any:
            """Call `poke` until it returns true."""

    class BaseOperatorLink:
        """airflow.sdk.BaseOperatorLink."""

    class BaseTrigger(LoggingMixin):
        """airflow.triggers.base.BaseTrigger."""

        task_instance: Any

    class TriggerEvent:
        """airflow.triggers.base.TriggerEvent."""

        payload: Any

        def __init__(self, payload: Any) -> None: ...

    class AirflowException(Exception):
        """The task failed and may be retried."""

    class AirflowFailException(AirflowException):
        """The task failed, and a retry cannot help."""

    class AirflowSensorTimeout(AirflowException):
        """A sensor timed out."""

    class AirflowTaskTimeout(BaseException):
        """The task timed out."""

    XCom: Any
    conf: Any
else:
    _EXCEPTIONS = ("airflow.sdk.exceptions", "airflow.exceptions")
    _HOMES = {  # module in Airflow 3, then in Airflow 2
        "AirflowException": _EXCEPTIONS,
        "AirflowFailException": _EXCEPTIONS,
        "AirflowSensorTimeout": _EXCEPTIONS,
        "AirflowTaskTimeout": _EXCEPTIONS,
        "BaseHook": ("airflow.sdk.bases.hook", "airflow.hooks.base"),
        "BaseOperator": ("airflow.sdk.bases.operator", "airflow.models.baseoperator"),
        "BaseOperatorLink": ("airflow.sdk.bases.operatorlink", "airflow.models.baseoperatorlink"),
        "BaseSensorOperator": ("airflow.sdk.bases.sensor", "airflow.sensors.base"),
        "BaseTrigger": ("airflow.triggers.base",),
        "TriggerEvent": ("airflow.triggers.base",),
        "XCom": ("airflow.sdk.execution_time.xcom", "airflow.models.xcom"),
        "conf": ("airflow.configuration",),
    }

    def __getattr__(name: str) -> Any:
        """Import one of Airflow's names from its module in this version, when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = _find(name, _HOMES[name])
        if name == "BaseTrigger":
            for sentence in missing(AIRFLOW, on_kill=hasattr(found, "on_kill")):
                _log.warning("submit_tf_job: %s", sentence)
        return found

    def _find(name: str, homes: tuple[str, ...]) -> Any:
        for home in homes[:-1]:
            with contextlib.suppress(ImportError, AttributeError):
                return getattr(importlib.import_module(home), name)
        return getattr(importlib.import_module(homes[-1]), name)
