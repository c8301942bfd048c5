"""The causes for which a job waits or has failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from submit_tf_job.diagnose.codes import permanent
from submit_tf_job.json_values import clean_text


@dataclass(frozen=True)
class Consequence:
    """A task that ended because another one had failed.

    Attributes:
        task: The task.
        status: Its exit status; None if that is not known.
        message: How it ended.
    """

    task: str
    status: int | None
    message: str


@dataclass(frozen=True)
class CauseEvidence:
    """The lines of an output that show a cause.

    Attributes:
        task: The task that wrote the output.
        stream: `stderr`, `stdout`, or `output` for the lines of either that are in the task's
            report.
        lines: The lines that show the cause, at most 12.
    """

    task: str
    stream: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Cause:
    """One cause for which a job waits or has failed; the fields are in the order of `-o json`.

    Attributes:
        code: An identifier for programs, such as `queue-full`. It is documented in
            docs/troubleshooting.md, and its meaning never changes.
        sentence: What happened, with the cluster's own numbers.
        hint: The next step, or "".
        retryable: Whether the same job may succeed if it is submitted again, with nothing changed.
        certain: Whether the evidence proves the cause; False for a guess, and if only the exit
            status is known.
        evidence: The lines that show the cause; None if it was not found in an output.
        task: The task that failed first, such as `worker-1`; None if no task failed.
        host: The node on which that task ran.
        container_id: The container of that task.
        status: The exit status of that task; None if it has none.
        meaning: What the exit status means, or "".
        exception: The last line of the Python traceback, or "".
        last_lines: The end of the task's stderr.
        diagnostics: YARN's diagnostics of the container, or "".
        consequences: The tasks that ended because this task had failed, in order of time.
        facts: The numbers and names in the sentence.
        permanent: Whether the next try fails in the same way, although failures with this code are
            often temporary.
        lost_peer: Whether the task's message may only mean that another task had failed.
    """

    code: str
    sentence: str
    hint: str = ""
    _: KW_ONLY
    retryable: bool = field(init=False)
    certain: bool = True
    evidence: CauseEvidence | None = None
    task: str | None = None
    host: str | None = None
    container_id: str | None = None
    status: int | None = None
    meaning: str = ""
    exception: str = ""
    last_lines: tuple[str, ...] = ()
    diagnostics: str = ""
    consequences: tuple[Consequence, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict, kw_only=False)
    permanent: bool = field(default=False, metadata={"json": None})
    lost_peer: bool = field(default=False, metadata={"json": None})

    def __post_init__(self) -> None:
        """Decide `retryable`."""
        retryable = self.code not in permanent() and not self.permanent
        object.__setattr__(self, "retryable", retryable)

    def _repr_html_(self) -> str:
        """Return the cause for a notebook, as one block of HTML; texts of programs are escaped."""
        import html  # only here: its table of names is large

        where = " ".join(filter(None, (self.task, self.host and f"on {self.host}")))
        what = (where, self.meaning, self.exception)
        quoted = html.escape("\n".join(clean_text(line) for line in self.last_lines))
        blocks = (
            f"<b>{html.escape(clean_text(self.sentence))}</b>",
            html.escape(clean_text(", ".join(filter(None, what)))),
            self.hint and f"<i>What to do:</i> {html.escape(clean_text(self.hint))}",
            quoted and f"Its last lines:<pre>{quoted}</pre>",
        )
        return "".join(f"<div>{block}</div>" for block in blocks if block)
