"""The states that YARN reports; each enum has UNKNOWN for values of other Hadoop versions."""

from __future__ import annotations

from enum import Enum


class _State(str, Enum):
    @classmethod
    def _missing_(cls, _value: object) -> _State:
        return cls("UNKNOWN")


class ServiceState(_State):
    """State of a service; STOPPED does not mean success or failure
    (hadoop-facts.md#service-states).
    """

    ACCEPTED = "ACCEPTED"
    STARTED = "STARTED"
    STABLE = "STABLE"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"
    FLEX = "FLEX"
    UPGRADING = "UPGRADING"
    UPGRADING_AUTO_FINALIZE = "UPGRADING_AUTO_FINALIZE"
    EXPRESS_UPGRADING = "EXPRESS_UPGRADING"
    CANCEL_UPGRADING = "CANCEL_UPGRADING"
    UNKNOWN = "UNKNOWN"


class ComponentState(_State):
    """State of a component; STABLE does not mean healthy
    (hadoop-facts.md#component-states).
    """

    FLEXING = "FLEXING"
    STABLE = "STABLE"
    NEEDS_UPGRADE = "NEEDS_UPGRADE"
    UPGRADING = "UPGRADING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class ContainerState(_State):
    """State of one container of a component."""

    RUNNING_BUT_UNREADY = "RUNNING_BUT_UNREADY"
    READY = "READY"
    STOPPED = "STOPPED"
    NEEDS_UPGRADE = "NEEDS_UPGRADE"
    UPGRADING = "UPGRADING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAILED_UPGRADE = "FAILED_UPGRADE"
    UNKNOWN = "UNKNOWN"


class AppState(_State):
    """State of an application at the ResourceManager."""

    NEW = "NEW"
    NEW_SAVING = "NEW_SAVING"
    SUBMITTED = "SUBMITTED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """Whether the application will never change its state again."""
        return self in (AppState.FINISHED, AppState.FAILED, AppState.KILLED)


FINAL_STATES = frozenset(state for state in AppState if state.is_final)
GOING_ON = frozenset(AppState) - FINAL_STATES - {AppState.UNKNOWN}


class FinalStatus(_State):
    """How an application ended; ENDED means stopped through the services API."""

    UNDEFINED = "UNDEFINED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"
    ENDED = "ENDED"
    UNKNOWN = "UNKNOWN"
