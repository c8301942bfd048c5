"""Which failures lead to a new generation of the training, and what happened in former generations.

A generation is one run of all commands. Between two generations the tasks keep their containers:
each bootstrap ends its command, and waits for the other tasks again. This module has no sockets and
no clock.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from submit_tf_job.container import contract, untrusted

KEPT = 20  # generations that the report lists, and that every task remembers
# reasons of a record that are words of `retries.on`, or of the end of a generation that was none
OWN_KINDS = (contract.REASON_OOM, contract.REASON_STALLED, *contract.RESIZED)


class Generations:
    """The generations of a job that have ended, and whether there will be another one."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        """Start without a former generation; `rule` is `retries` of the task description."""
        self.most: int = rule["max"]
        self.on: Sequence[str | int] = rule["on"]
        self.node_losses: int = rule.get("node_losses", 0)
        # generations that ended under earlier deciding tasks, as the others remember
        self._inherited: list[dict[str, Any]] = []
        self._inherited_count = self._inherited_resized = 0
        self._own: list[dict[str, Any]] = []  # those that ended under this one

    @property
    def count(self) -> int:
        """The number of ended generations."""
        return self._inherited_count + len(self._own)

    @property
    def resized(self) -> int:
        """The number of generations that ended because the number of tasks of an elastic role
        changed.
        """
        own = [entry for entry in self._own if entry["reason"] in contract.RESIZED]
        return self._inherited_resized + len(own)

    @property
    def used(self) -> int:
        """The number of generations that ended with a failure, which is the number of used
        retries.
        """
        return self.count - self.resized

    @property
    def past(self) -> list[dict[str, Any]]:
        """The last `KEPT` of the ended generations; they are numbered from 0."""
        first = self._inherited_count
        own = [dict(entry, generation=first + i) for i, entry in enumerate(self._own)]
        return (self._inherited + own)[-KEPT:]

    def refusal(self, cause: Mapping[str, Any], step: float | None) -> str:
        """Return why the tasks do not start again after a failure; "" if they do. `step` is the
        last step that the job reported; None if it reported none.
        """
        if cause.get("reason") == contract.REASON_PREPARE:
            return "not retried: `prepare` failed, which runs once"
        if not self.covers(cause):
            named = ", ".join(str(item) for item in self.on)
            return f"not retried: `retries.on` does not name such a failure ({named})"
        if self.used >= self.most:
            return self.used_up()
        if self.repeats(cause, step):
            text = "not retried: the same failure at the same step (%g) twice in a row is the "
            return text % step + "program's own"
        return ""

    def used_up(self) -> str:
        """Return why a failure is not retried although `retries` covers it: all retries are
        used.
        """
        return f"not retried: no retries are left (`retries.max` is {self.most})"

    def covers(self, cause: Mapping[str, Any]) -> bool:
        """Return whether `retries.on` names a failure; True for a training that stands still, whose
        retry `stall_timeout` asks for.
        """
        if "any" in self.on or cause.get("status") in self.on:
            return True
        kind = kind_of(cause)
        return kind in self.on or kind == contract.REASON_STALLED  # `stall_timeout` asked for it

    def repeats(self, cause: Mapping[str, Any], step: float | None) -> bool:
        """Return whether the program failed in the former generation in the same way, at the same
        step; False for a lost container, which may be lost twice at the same step by chance.
        """
        past = [entry for entry in self.past if entry["reason"] not in contract.RESIZED]
        if not past or step is None or kind_of(cause) == contract.RETRY_LOST:
            return False
        former = past[-1]
        return former["step"] == step and _failure_key(former) == _failure_key(cause)

    def end(
        self, cause: Mapping[str, Any], step: float | None, began: float | None, ended: float
    ) -> None:
        """Remember a generation that has ended because of `cause`, the record of a failure or of a
        change of size, and the last step that the job had reported in it.

        `began` and `ended` are seconds since 1970: when the generation's commands started, if that
        is known, and when the next generation is called.
        """
        kept = ("task", "host", "container", "at", "status", "signal", "reason")
        self._own.append(
            {
                **{key: cause.get(key) for key in kept},
                "kind": kind_of(cause),
                "message": str(cause.get("message"))[:300],
                "last_line": "".join(cause.get("last_lines") or [""])[-200:],
                "step": step,
                "duration_s": began and round(max(0.0, ended - began), 3),
            }
        )

    def left_out(self) -> str:
        """Return a sentence if YARN starts no more containers of the role on a node because of the
        last loss; "" otherwise.

        YARN counts the failures of each component on each node; but not the loss of a container
        that was preempted or stopped.
        """
        role, host = _place_of_loss(self._own[-1])
        times = sum(_place_of_loss(entry) == (role, host) for entry in self.past)
        if not host or not self.node_losses or times != self.node_losses:
            return ""
        text = "%s was lost on %s %d times: YARN starts no more of its containers there"
        return text % (role, host, times)

    def learn(self, history: Mapping[str, Any]) -> None:
        """Take over what a task remembers from earlier deciding tasks, if that is more than is
        known here: the number of ended generations, how many of them ended without a failure, and
        the last ones.
        """
        count, resized = (
            untrusted.whole(history.get(key)) or 0 for key in ("generation", "resized")
        )
        past = history.get("past")
        if count <= self._inherited_count or not isinstance(past, list):
            return
        known = [_ended_generation(entry) for entry in past[-KEPT:] if isinstance(entry, dict)]
        if len(known) == min(count, KEPT):
            self._inherited_count, self._inherited_resized = count, max(0, min(resized, count))
            self._inherited = known


def _ended_generation(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ended generation that another task's message describes, with the fields that `end`
    writes.
    """
    texts = ("task", "host", "container", "reason", "kind", "message", "last_line")
    found: dict[str, Any] = {key: untrusted.text(entry.get(key), 300) for key in texts}
    wholes = ("generation", "status", "signal")
    found.update((key, untrusted.whole(entry.get(key))) for key in wholes)
    found.update((key, untrusted.number(entry.get(key))) for key in ("at", "step", "duration_s"))
    return found


def kind_of(cause: Mapping[str, Any]) -> str:
    """Return the word of `retries.on` that covers a failure, or "stalled"; "" for a failure of the
    program itself.

    Return "grown" or "shrunk" if the generation ended without a failure, because the number of
    tasks of an elastic role changed.
    """
    reason = str(cause.get("reason"))
    if reason in ("lost", contract.REASON_KILLED):
        return contract.RETRY_LOST
    return reason if reason in OWN_KINDS else ""


def _place_of_loss(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role and the host of a lost container that YARN counts as a failure; ("", "") for
    any other entry.
    """
    if entry.get("kind") != contract.RETRY_LOST or entry.get("signal") == signal.SIGTERM:
        return "", ""
    return str(entry.get("task")).rpartition("-")[0], str(entry.get("host") or "")


def _failure_key(cause: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key that is equal for two occurrences of the same failure.

    The key does not contain the task: it is a matter of chance in which task the program fails
    first.
    """
    return tuple(cause.get(key) for key in ("reason", "status", "signal"))
