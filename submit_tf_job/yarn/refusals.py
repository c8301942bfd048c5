"""What an answer that is not the hoped-for one means, in a sentence for the person at the keyboard.

The texts matched here are Hadoop's own (facts: verified-versions 1.3, yarn-services 1.3); they arrive under statuses that say little: a
taken name is a 500, an unknown field a 404, a user without a home directory a 403.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from submit_tf_job.errors import (
    AuthError,
    BadAnswer,
    ClusterUnavailable,
    InternalError,
    NameTaken,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.yarn.answers import Reply

__all__ = ["ServiceUnreadable", "no_such_service", "refusal", "services_disabled", "unexpected"]


class ServiceUnreadable(ClusterUnavailable):
    """The ResourceManager works, but the service's AM cannot be asked: it is restarting, or cannot be reached on this cluster.

    Attributes:
        torn: The stored service is cut off, as a ResourceManager that dies while it writes it leaves it; it can never run.
    """

    torn = False


_Maker: TypeAlias = Callable[[re.Match[str]], SubmitTFJobError]


def _taken(match: re.Match[str]) -> SubmitTFJobError:
    return NameTaken(
        f"The name {match['name']} is already taken.", hint="Choose another with --name, or replace the old service with --replace."
    )


def _too_large(what: str) -> _Maker:
    def make(match: re.Match[str]) -> SubmitTFJobError:
        return Refused(
            f"Component {match['component']} asks for {match['asked']} {what} per container; the largest here is {match['most']}.",
            hint="Ask for less, or let the administrator raise yarn.scheduler.maximum-allocation.",
        )

    return make


def _unknown_queue(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(
        f"There is no queue {match['queue']}.", hint="Name a leaf queue of this cluster; the ResourceManager's scheduler page lists them."
    )


def _parent_queue(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(
        f"The queue {match['queue']} takes no jobs itself.",
        hint="Name one of the queues below it; the ResourceManager's scheduler page lists them.",
    )


def _stopped_queue(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(f"The queue {match['queue']} is stopped.", hint="Choose another queue, or ask the administrator to start it.")


def _closed_queue(match: re.Match[str]) -> SubmitTFJobError:
    return AuthError(
        f"The user {match['user']} may not submit to the queue {match['queue']}.", hint="Choose another queue, or ask its administrator."
    )


def _full_queue(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(f"The queue {match['queue']} has as many jobs as it takes.", hint="Wait until some have ended, or choose another queue.")


def _impersonation(match: re.Match[str]) -> SubmitTFJobError:
    return AuthError(
        f"{match['proxy']} is not allowed to act for {match['user']}.",
        hint="The administrator allows it with hadoop.proxyuser.<name>.hosts and .groups in core-site.xml.",
    )


def _no_home(match: re.Match[str]) -> SubmitTFJobError:
    return AuthError(
        f"The user {match['user']} has no home directory in HDFS, where YARN keeps services.",
        hint=f"Let the administrator create /user/{match['user']}, owned by {match['user']}; or check --user.",
    )


def _denied(match: re.Match[str]) -> SubmitTFJobError:
    return AuthError(f"HDFS denied {match['user']} the right to {match['right'].lower()} {match['path']}.")


def _unknown_field(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(
        f"This cluster's services API does not know the field {match['field']} of {match['record']}.",
        hint="The cluster's Hadoop is older than 3.1.1, or the service JSON is not ours.",
    )


def _not_running(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(f"The job {match['name']} is not running, so its size cannot change.")


def _unknown_component(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(f"The job has no role {match['component']}.", hint="`status` lists its roles.")


def _still_running(match: re.Match[str]) -> SubmitTFJobError:
    return Refused(f"The job {match['name']} is still running.", hint="Stop it first.")


_TABLE: tuple[tuple[str, _Maker], ...] = (
    (r"Service name (?P<name>\S+) is already taken", _taken),
    (r"Service [Ii]nstance.*?(?P<name>[a-z][a-z0-9-]*).* already exists", _taken),
    (r"Component (?P<component>\S+): specified memory size \((?P<asked>\d+)\) is larger than .*?\((?P<most>\d+)\)", _too_large("MiB")),
    (
        r"Component (?P<component>\S+): specified number of virtual core \((?P<asked>\d+)\) is larger than .*?\((?P<most>\d+)\)",
        _too_large("CPUs"),
    ),
    (r"to unknown queue: ?(?P<queue>\S+)", _unknown_queue),
    (r"to non-leaf (?:and non-dynamic parent )?queue ?: ?(?P<queue>\S+)", _parent_queue),
    (r"Queue (?P<queue>\S+) is STOPPED", _stopped_queue),
    (r"[Uu]ser (?P<user>\S+) (?:cannot submit applications|does not have permission to submit \S+) to queue (?P<queue>\S+)", _closed_queue),
    (r"Queue (?P<queue>\S+) already has \d+ applications", _full_queue),
    (r"User: (?P<proxy>\S+) is not allowed to impersonate (?P<user>\S+)", _impersonation),
    (r"(?P<name>\S+) is at \w+ state, flex can only be invoked", _not_running),
    (r"(?P<name>\S+) appId is null", _not_running),
    (r"Components \[(?P<component>[^\]]+)\] do not exist in app definition", _unknown_component),
    (r"Failed to destroy service (?P<name>\S+), because it is still running", _still_running),
    (r'Permission denied: user=(?P<user>[^,]+), access=WRITE, inode="/user"', _no_home),
    (r'Permission denied: user=(?P<user>[^,]+), access=(?P<right>\w+), inode="(?P<path>[^"]*)"', _denied),
    (r'Unrecognized field "(?P<field>[^"]+)" \(class (?:\S+\.)?(?P<record>\w+)\)', _unknown_field),
)


def refusal(reply: Reply, doing: str) -> SubmitTFJobError | None:
    """Return the error for an answer whose meaning is known, `None` where it is anybody's guess.

    Args:
        reply: An answer of 400 or more.
        doing: What was tried, for the sentence: "submit mnist".
    """
    for pattern, make in _TABLE:
        match = re.search(pattern, reply.words)
        if match:
            return _with_details(make(match), reply)
    if reply.status == 403:
        return _with_details(AuthError(f"The cluster did not allow to {doing}: {reply.words or _reason(reply)}"), reply)
    if reply.status == 404 and reply.java_class.startswith(("Json", "InvalidFormat", "Mismatched", "UnrecognizedProperty")):
        return _with_details(InternalError(f"The services API could not read the service JSON: {reply.words}"), reply)
    if reply.status == 400:
        return _with_details(Refused(f"The cluster refused to {doing}: {reply.words or _reason(reply)}"), reply)
    return None


def unexpected(reply: Reply, doing: str) -> BadAnswer:
    """Return the error for an answer that no rule explains."""
    if not reply.speaks_json:
        return reply.bad(f"{reply.url} could not {doing}: {reply.words or _reason(reply)}")
    return BadAnswer(f"The cluster could not {doing}: {reply.words or _reason(reply)}", details=reply.details())


def no_such_service(reply: Reply, name: str) -> NoSuchJob:
    """Return the error for a service that does not exist for this user."""
    return NoSuchJob(f"There is no job {name}.", hint="Names are per user: is --user right?", details=reply.details())


def services_disabled(reply: Reply) -> Refused:
    """Return the error for a ResourceManager without the services API."""
    return Refused(
        f"The ResourceManager at {reply.url.partition('/app/v1')[0]} has no services API.",
        hint="Ask the administrator to set yarn.webapp.api-service.enable to true in the ResourceManager's yarn-site.xml.",
        details=reply.details(),
    )


def _reason(reply: Reply) -> str:
    return f"HTTP {reply.status} {reply.reason}".rstrip() + "."


def _with_details(error: SubmitTFJobError, reply: Reply) -> SubmitTFJobError:
    error.details.update(reply.details())
    return error
