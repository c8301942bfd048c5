"""The findings of `doctor`, and the state that its checks share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job.errors import SettingsError

if TYPE_CHECKING:
    from submit_tf_job.settings import Settings
    from submit_tf_job.yarn.observed_cluster import Node
    from submit_tf_job.yarn.resource_manager import ResourceManager

OK, WARNING, FAILURE = "ok", "warning", "failure"


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        id: Stable identifier for programs, documented in docs/doctor.md.
        status: `ok`, `warning` or `failure`.
        checked: The observation.
        breaks: What does not work because of this result, or "".
        fix: The next step for the user, or "".
        facts: The values that the sentences contain.
    """

    id: str
    status: str
    checked: str
    breaks: str = ""
    fix: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Subject:
    """What one check is about; makes its result.

    Args:
        name: The check's `id`.
        facts: The values that the sentences contain.
    """

    def __init__(self, name: str, /, **facts: Any) -> None:
        self._name, self._facts = name, facts

    def ok(self, checked: str) -> Check:
        return Check(self._name, OK, checked, facts=self._facts)

    def warning(self, checked: str, breaks: str = "", fix: str = "") -> Check:
        return Check(self._name, WARNING, checked, breaks, fix, self._facts)

    def failure(self, checked: str, breaks: str, fix: str) -> Check:
        return Check(self._name, FAILURE, checked, breaks, fix, self._facts)


@dataclass(frozen=True)
class Examination:
    """The results of all checks.

    Attributes:
        findings: In the order of the checks.
        skipped: Checks that were left out: no ResourceManager answered; or, for an image, its
            Python did not run.
    """

    findings: tuple[Check, ...]
    skipped: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(finding.status == "failure" for finding in self.findings)


@dataclass
class Examined:
    """The state that the checks share, including facts that earlier checks have found for later
    ones.

    Attributes:
        settings: The settings.
        queue: The queue to check.
        client: The client for ResourceManagers that have answered; None if none has.
        nodes: The NodeManagers.
        conf: The ResourceManager's configuration; {} if it is not known.
        conf_dir: This host's Hadoop configuration directory, if it has a core-site.xml.
    """

    settings: Settings
    queue: str
    client: ResourceManager | None = None
    nodes: tuple[Node, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    conf_dir: Path | None = None

    @property
    def cluster(self) -> ResourceManager:
        """The client for ResourceManagers that have answered.

        Raises:
            SettingsError: None has answered.
        """
        if self.client is None:
            raise SettingsError("no ResourceManager answers")
        return self.client


# A check returns what it finds.
Found = Check | Iterable[Check]
