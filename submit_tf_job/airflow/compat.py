"""Which Airflow this is, the names that moved between 2 and 3, and what an older one lacks; said when it is imported."""

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
        ImportError: It is too old.
    """
    found = _numbers(version)
    if found < OLDEST:
        raise ImportError(
            f"submit_tf_job.airflow needs Airflow {'.'.join(map(str, OLDEST))} or later, and this is {version}; "
            "with an older one call the command line from a BashOperator: submit_tf_job submit"
        )
    return found


def missing(version: tuple[int, ...], *, on_kill: bool) -> tuple[str, ...]:
    """Say what an Airflow lacks.

    Args:
        version: Its version.
        on_kill: Whether its triggers are told when their task is killed.
    """
    if on_kill or version < (3,):  # Airflow 2 lets a trigger ask the database how its task stands
        return ()
    return (
        f"Airflow {'.'.join(map(str, version))} does not tell a trigger that its task was killed (3.3 does): a deferred task that is "
        "cleared or marked leaves its job running; use deferrable=False, or a later Airflow",
    )


AIRFLOW = check(importlib.import_module("airflow").__version__)

if TYPE_CHECKING:
    # Airflow is not there where types are checked: it would bring 130 packages along.
    class LoggingMixin:
        """What Airflow's classes have in common here."""

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
            """Render."""

        def __rshift__(self, other: Any) -> Any: ...

    class BaseSensorOperator(BaseOperator):
        """airflow.sdk.BaseSensorOperator."""

        timeout: float
        poke_interval: float

        def execute(self, context: Any) -> Any:
            """Poke until it is true."""

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
        """Failed; may be tried again."""

    class AirflowFailException(AirflowException):
        """Failed; trying again mends nothing."""

    class AirflowSensorTimeout(AirflowException):
        """A sensor waited for too long."""

    class AirflowTaskTimeout(BaseException):
        """The task took too long."""

    XCom: Any
    conf: Any
else:
    _EXCEPTIONS = ("airflow.sdk.exceptions", "airflow.exceptions")
    _HOMES = {  # Airflow 3's first, then 2's
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
        """Import one of Airflow's names from where this Airflow has it, when it is first used."""
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
