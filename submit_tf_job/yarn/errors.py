"""Map Hadoop's error responses to exceptions with messages for users.

The patterns match Hadoop's own messages (docs/hadoop-facts.md#error-responses), because the HTTP
statuses are not specific: a taken name is a 500, an unknown field a 404, a user without a home
directory a 403.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
from submit_tf_job.yarn.response import Reply

__all__ = ["ServiceUnreadable", "no_such_service", "refusal", "services_disabled", "unexpected"]


class ServiceUnreadable(ClusterUnavailable):
    """The ResourceManager works, but the service's AM cannot be queried: it restarts, or is not
    reachable on this cluster.

    Attributes:
        torn: Whether the stored service is truncated, because a ResourceManager died while it wrote
            the file; such a service can never run.
    """

    torn = False


class _Meaning(NamedTuple):
    """What an error message of Hadoop means.

    Attributes:
        pattern: Matches Hadoop's message; its named groups fill `message` and `hint`.
        kind: The exception.
    """

    pattern: str
    kind: type[SubmitTFJobError]
    message: str
    hint: str = ""

    def error(self, match: re.Match[str]) -> SubmitTFJobError:
        """Return the exception for a message that the pattern matches."""
        groups = match.groupdict()
        if "right" in groups:
            groups["right"] = groups["right"].lower()  # HDFS writes READ, WRITE, EXECUTE
        return self.kind(self.message.format_map(groups), hint=self.hint.format_map(groups))


_TAKEN = (
    NameTaken,
    "The name {name} is already taken.",
    "Choose another with --name, or replace the old service with --replace.",
)
_TOO_LARGE = (
    "Component {{component}} asks for {{asked}} {} per container; the largest here is {{most}}."
)
_ASK_FOR_LESS = "Ask for less, or let the administrator raise yarn.scheduler.maximum-allocation."
_NOT_RUNNING = (Refused, "The job {name} is not running, so its size cannot change.")

# The first that matches counts.
_MEANINGS = (
    _Meaning(r"Service name (?P<name>\S+) is already taken", *_TAKEN),
    _Meaning(r"Service [Ii]nstance.*?(?P<name>[a-z][a-z0-9-]*).* already exists", *_TAKEN),
    _Meaning(
        r"Component (?P<component>\S+): specified memory size \((?P<asked>\d+)\) is larger than .*?\((?P<most>\d+)\)",  # noqa: E501
        Refused,
        _TOO_LARGE.format("MiB"),
        _ASK_FOR_LESS,
    ),
    _Meaning(
        r"Component (?P<component>\S+): specified number of virtual core \((?P<asked>\d+)\) is larger than .*?\((?P<most>\d+)\)",  # noqa: E501
        Refused,
        _TOO_LARGE.format("CPUs"),
        _ASK_FOR_LESS,
    ),
    _Meaning(
        r"to unknown queue: ?(?P<queue>\S+)",
        Refused,
        "There is no queue {queue}.",
        "Name a leaf queue of this cluster; the ResourceManager's scheduler page lists them.",
    ),
    _Meaning(
        r"to non-leaf (?:and non-dynamic parent )?queue ?: ?(?P<queue>\S+)",
        Refused,
        "The queue {queue} takes no jobs itself.",
        "Name one of the queues below it; the ResourceManager's scheduler page lists them.",
    ),
    _Meaning(
        r"Queue (?P<queue>\S+) is STOPPED",
        Refused,
        "The queue {queue} is stopped.",
        "Choose another queue, or ask the administrator to start it.",
    ),
    _Meaning(
        r"[Uu]ser (?P<user>\S+) (?:cannot submit applications|does not have permission to submit \S+) to queue (?P<queue>\S+)",  # noqa: E501
        AuthError,
        "The user {user} may not submit to the queue {queue}.",
        "Choose another queue, or ask its administrator.",
    ),
    _Meaning(
        r"Queue (?P<queue>\S+) already has \d+ applications",
        Refused,
        "The queue {queue} has as many jobs as it takes.",
        "Wait until some have ended, or choose another queue.",
    ),
    _Meaning(
        r"User: (?P<proxy>\S+) is not allowed to impersonate (?P<user>\S+)",
        AuthError,
        "{proxy} is not allowed to act for {user}.",
        "The administrator allows it with hadoop.proxyuser.<name>.hosts and .groups in "
        "core-site.xml.",
    ),
    _Meaning(r"(?P<name>\S+) is at \w+ state, flex can only be invoked", *_NOT_RUNNING),
    _Meaning(r"(?P<name>\S+) appId is null", *_NOT_RUNNING),
    _Meaning(
        r"Components \[(?P<component>[^\]]+)\] do not exist in app definition",
        Refused,
        "The job has no role {component}.",
        "`status` lists its roles.",
    ),
    _Meaning(
        r"Failed to destroy service (?P<name>\S+), because it is still running",
        Refused,
        "The job {name} is still running.",
        "Stop it first.",
    ),
    _Meaning(
        r'Permission denied: user=(?P<user>[^,]+), access=WRITE, inode="/user"',
        AuthError,
        "The user {user} has no home directory in HDFS, where YARN keeps services.",
        "Let the administrator create /user/{user}, owned by {user}; or check --user.",
    ),
    _Meaning(
        r'Permission denied: user=(?P<user>[^,]+), access=(?P<right>\w+), inode="(?P<path>[^"]*)"',
        AuthError,
        "HDFS denied {user} the right to {right} {path}.",
    ),
    _Meaning(
        r'Unrecognized field "(?P<field>[^"]+)" \(class (?:\S+\.)?(?P<record>\w+)\)',
        Refused,
        "This cluster's services API does not know the field {field} of {record}.",
        "The cluster's Hadoop is older than 3.1.1, or the service JSON is not ours.",
    ),
)


def refusal(reply: Reply, doing: str) -> SubmitTFJobError | None:
    """Return the error for a response with a known meaning, or None for any other.

    Args:
        reply: A response with a status of 400 or more.
        doing: The attempted operation, for the message: "submit mnist".
    """
    for meaning in _MEANINGS:
        match = re.search(meaning.pattern, reply.words)
        if match:
            return _with_details(meaning.error(match), reply)
    if reply.status == 403:
        return _with_details(
            AuthError(f"The cluster did not allow to {doing}: {reply.words or _reason(reply)}"),
            reply,
        )
    if reply.status == 404 and reply.java_class.startswith(
        ("Json", "InvalidFormat", "Mismatched", "UnrecognizedProperty")
    ):
        return _with_details(
            InternalError(f"The services API could not read the service JSON: {reply.words}"), reply
        )
    if reply.status == 400:
        return _with_details(
            Refused(f"The cluster refused to {doing}: {reply.words or _reason(reply)}"), reply
        )
    return None


def unexpected(reply: Reply, doing: str) -> BadAnswer:
    """Return the error for a response that no pattern matches."""
    if not reply.speaks_json:
        return reply.bad(f"{reply.url} could not {doing}: {reply.words or _reason(reply)}")
    return BadAnswer(
        f"The cluster could not {doing}: {reply.words or _reason(reply)}", details=reply.details()
    )


def no_such_service(reply: Reply, name: str) -> NoSuchJob:
    """Return the error for a service that does not exist for this user."""
    return NoSuchJob(
        f"No job named {name}.",
        hint="Names are per user. See: submit_tf_job list --all-users",
        details={**reply.details(), "name": name},
    )


def services_disabled(reply: Reply) -> Refused:
    """Return the error for a ResourceManager without the services API."""
    return Refused(
        f"The ResourceManager at {reply.url.partition('/app/v1')[0]} has no services API.",
        hint="Ask the administrator to set yarn.webapp.api-service.enable to true in the "
        "ResourceManager's yarn-site.xml.",
        details=reply.details(),
    )


def _reason(reply: Reply) -> str:
    return f"HTTP {reply.status} {reply.reason}".rstrip() + "."


def _with_details(error: SubmitTFJobError, reply: Reply) -> SubmitTFJobError:
    error.details.update(reply.details())
    return error
