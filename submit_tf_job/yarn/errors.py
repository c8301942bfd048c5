"""Map Hadoop's error responses to exceptions with messages for users.

The patterns match Hadoop's own messages (hadoop-facts.md#error-responses), because the HTTP
statuses are not specific: a taken name is a 500, an unknown field a 404, a user without a home
directory a 403.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

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

if TYPE_CHECKING:
    from submit_tf_job.yarn.auth import Auth


class ServiceUnreadable(ClusterUnavailable):
    """The ResourceManager works, but the service cannot be read or changed: its AM is restarting or
    cannot be reached on this cluster, or other clients are changing the service.
    """


class ServiceTorn(ServiceUnreadable):
    """The stored service is truncated. Either a ResourceManager is still writing it, or it died
    while it was writing; then this service can never run.
    """


class _Meaning(NamedTuple):
    """A known error message of Hadoop, and the exception to raise for it.

    Attributes:
        pattern: Matches Hadoop's message; its named groups fill `message` and `hint`.
        kind: The class of the exception.
        message: Its message, as a format string.
        hint: The next step for the user, as a format string.
    """

    pattern: str
    kind: type[SubmitTFJobError]
    message: str
    hint: str = ""

    def error(
        self, match: re.Match[str], details: Mapping[str, object], **values: str
    ) -> SubmitTFJobError:
        """Return the exception for a message that the pattern matches; `values` fill those names in
        the format strings that are not groups of the pattern.
        """
        groups = {**values, **match.groupdict()}
        if "right" in groups:
            groups["right"] = groups["right"].lower()  # HDFS writes READ, WRITE, EXECUTE
        message, hint = self.message.format_map(groups), self.hint.format_map(groups)
        return self.kind(message, hint=hint, details=details)


_TAKEN = (
    NameTaken,
    "The name {name} is already taken.",
    "Choose another with --name.",
)
_TOO_LARGE = (
    "Component {{component}} asks for {{asked}} {} per container; the largest here is {{most}}."
)
_ASK_FOR_LESS = "Ask for less, or let the administrator raise yarn.scheduler.maximum-allocation."
_NOT_RUNNING = (Refused, "The job {name} is not running, so its size cannot change.")

_IMPERSONATION = _Meaning(  # ProxyUsers.authorize
    r"User: (?P<proxy>(?P<short>[^\s/@]+)\S*) is not allowed to impersonate (?P<user>\S+)",
    AuthError,
    "{proxy} may not submit for {user}.",
    "Its administrator allows it by hadoop.proxyuser.{short}.hosts and "
    "hadoop.proxyuser.{short}.groups or .users.",
)


def _ticket_refused(words: str, why: str, hint: str) -> _Meaning:
    """Return the row of `_CREDENTIALS` for the Kerberos messages of Java (sun.security.krb5) that
    the pattern `words` matches.
    """
    message = f"{{url}} refuses the Kerberos ticket: {why}."
    return _Meaning(rf"GSSException.*(?:{words})", AuthError, message, hint)


# What a 401 or 403 says of the credentials: in its reason phrase, or in Hadoop's message.
_CREDENTIALS = (
    _IMPERSONATION,
    _ticket_refused(
        "Clock skew",
        "this machine's clock is {skew} the server's",
        "Synchronise both by NTP; Kerberos tolerates 5 minutes.",
    ),
    _ticket_refused(
        "Checksum failed|Integrity check",
        "the keys of HTTP/{host} in its keytab are not those of the KDC",
        "Its administrator has to renew its keytab.",
    ),
    _ticket_refused(
        "[Ee]ncryption type|Cannot find key of appropriate type",
        "it has no key of the ticket's encryption type",
        "Compare `klist -e` with `klist -ket` of its keytab.",
    ),
    _ticket_refused(
        "Ticket expired",
        "the ticket has expired by its clock",
        "Get a new one with kinit; are the clocks the same?",
    ),
    _ticket_refused(
        r"Mechanism level: (?P<why>[^()]*\w)", "{why}", "The ResourceManager's log says more."
    ),
    _ticket_refused("", "it does not say why", "The ResourceManager's log says more."),
)
# The first that matches counts.
_MEANINGS = (
    _Meaning(r"Service name (?P<name>\S+) is already taken", *_TAKEN),
    _Meaning(
        r"Service [Ii]nstance.{0,99}?(?<![a-z0-9-])(?P<name>[a-z][a-z0-9-]{0,62})\b.{0,99} already exists",  # noqa: E501
        *_TAKEN,
    ),
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
    _Meaning(  # FairScheduler; QueuePlacementPolicy before Hadoop 3.3
        r"(?:\A|:)\s*(?P<words>[^:\s][^:]*rejected by (?:queue )?placement (?:rules|policy))",
        Refused,
        "The scheduler's rules place the job in no queue: {words}.",
        "Name a queue that exists and that the rules allow (`queue`), or ask the administrator.",
    ),
    _Meaning(  # FairScheduler
        r"(?<![^\s:])(?P<queue>[^\s:]+) is not a leaf queue",
        Refused,
        "The queue {queue} takes no jobs itself.",
        "Name one of the queues below it; the ResourceManager's scheduler page lists them.",
    ),
    _Meaning(  # FairScheduler, for an ApplicationMaster
        r"to queue (?P<queue>\S+) because it has zero amount of resource",
        Refused,
        "The queue {queue} has none of a resource that each job needs.",
        "Choose another queue, or ask its administrator.",
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
    _IMPERSONATION,
    _Meaning(r"(?<!\S)(?P<name>\S+) is at \w+ state, flex can only be invoked", *_NOT_RUNNING),
    _Meaning(r"(?<!\S)(?P<name>\S+) appId is null", *_NOT_RUNNING),
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
        r'Permission denied: user=(?P<user>[^,]+), access=(?P<right>\w+), inode="(?P<path>[^"]*)"'
        r":(?P<owner>[^:\s]+):(?P<group>[^:\s]+):(?P<mode>[-\w+]+)",
        AuthError,
        "HDFS denied {user} the right to {right} {path}, which is {owner}'s (group {group}, "
        "{mode}).",
        "Let {owner} or an administrator give it to {user} (hdfs dfs -chown); or check --user.",
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


def unauthenticated(reply: Reply, auth: Auth) -> SubmitTFJobError | None:
    """Return the error for a 401 or 403 that means that the credentials were rejected, or that they
    may not be used for another user; None for any other response.

    `rest` calls this for error responses. A response for which it returns None may still be a
    `refusal`.
    """
    if reply.status not in (401, 403):
        return None
    host = urlsplit(reply.url).hostname or ""
    for meaning in _CREDENTIALS:
        match = re.search(meaning.pattern, f"{reply.reason} {reply.words}")
        if match:
            skew = _skew_words(reply)
            return meaning.error(match, reply.details(), url=reply.url, host=host, skew=skew)
    bad_token = reply.java_class in auth.rejections or "InvalidToken" in reply.text
    if reply.status == 403 and not bad_token:
        return None
    return _not_accepted(reply, auth, host)


def _not_accepted(reply: Reply, auth: Auth, host: str) -> AuthError:
    challenge = reply.headers.get("www-authenticate", "").partition(" ")[0]
    scheme, sent = challenge.lower(), auth.sent.format(host=host, user=auth.login)
    said, hint = f"does not accept {sent}", auth.advice.format(host=host)
    if scheme == "negotiate" != auth.scheme:
        said = f"wants Kerberos, and {sent} was sent"
        hint = "Say --auth kerberos (or set `auth`), and get a ticket with kinit."
    elif scheme in ("basic", "bearer") and scheme != auth.scheme:
        hint = f"Say --auth {scheme} (or set `auth`)."
    if auth.scheme == "negotiate" != scheme:
        said = "does not speak SPNEGO here" + (f"; it wants {challenge}" if challenge else "")
    why = f": {reply.words}" if reply.status == 403 else "."
    return AuthError(f"{reply.url} {said}{why}", hint=hint, details=reply.details())


def _skew_words(reply: Reply) -> str:
    if reply.sent_s is None:
        return "too far from"
    ahead = time.time() - reply.sent_s
    return f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"


def refusal(reply: Reply, doing: str) -> SubmitTFJobError | None:
    """Return the error for a response that rejects a request: one with a known message of Hadoop,
    any other 400 or 403, and a 404 for JSON that the services API cannot parse. Return None for any
    other response.

    Args:
        reply: A response with a status of 400 or more.
        doing: The attempted operation, for the message: "submit mnist".
    """
    known = _known_refusal(reply.words, reply.details())
    if known is not None:
        return known
    said, details = reply.words or _http_status_words(reply), reply.details()
    if reply.status == 403 or "not authorized to view the logs" in reply.words:
        return AuthError(f"The cluster did not allow to {doing}: {said}", details=details)
    if reply.status == 404 and reply.java_class.startswith(
        ("Json", "InvalidFormat", "Mismatched", "UnrecognizedProperty")
    ):
        message = f"The services API could not read the service JSON: {reply.words}"
        return InternalError(message, details=details)
    if reply.status == 400:
        return Refused(f"The cluster refused to {doing}: {said}", details=details)
    return None


def rejection(words: str, details: Mapping[str, object]) -> SubmitTFJobError:
    """Return the error for an application that the scheduler rejected after it was submitted.

    Args:
        words: The application's diagnostics.
        details: The application's run and id, for the details of the error.
    """
    details = {**details, "diagnostics": words}
    return _known_refusal(words, details) or Refused(
        f"YARN rejected the job, and started nothing of it: {words}",
        hint="Does the `queue` of the job spec exist, and may the job's user submit to it?",
        details=details,
    )


_READ = 4000  # of an application's diagnostics, which have no bound


def _known_refusal(words: str, details: Mapping[str, object]) -> SubmitTFJobError | None:
    for meaning in _MEANINGS:
        match = re.search(meaning.pattern, words[:_READ])
        if match:
            return meaning.error(match, details)
    return None


def unexpected(reply: Reply, doing: str) -> BadAnswer:
    """Return the error for an error response for which `refusal` returns None."""
    if not reply.speaks_json:
        return reply.bad(
            f"{reply.url} could not {doing}: {reply.words or _http_status_words(reply)}"
        )
    return BadAnswer(
        f"The cluster could not {doing}: {reply.words or _http_status_words(reply)}",
        details=reply.details(),
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


def _http_status_words(reply: Reply) -> str:
    return f"HTTP {reply.status} {reply.reason}".rstrip() + "."
