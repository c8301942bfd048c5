"""The command line in this process: how a command ended, and a job spec for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from submit_tf_job import jobspec
from submit_tf_job.plan import Site, plan

__all__ = ["GOOD", "Cli", "Done"]

GOOD = """\
name: mnist
image: library/tf:2
strategy: multi-worker
command: [python, t.py]
roles:
  chief: {memory: 1Gi}
  worker: {memory: 1Gi, instances: 2}
"""


@dataclass(frozen=True)
class Done:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli(Protocol):
    """Runs a command in this process."""

    def __call__(self, *argv: str, stdin: bytes = b"") -> Done: ...


def planned(text: str = GOOD, **values: Any) -> str:
    """Return the service that is posted for a job spec."""
    return plan(jobspec.loads(text, source="train.yaml", base=None), Site("alice"), **values).body
