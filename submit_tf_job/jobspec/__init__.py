"""Read a job spec file as a `Job`; report every problem with its location and a solution.

`keys.py` has every key. The reader, `--set`, the JSON Schema and the documentation's tables use it.
"""

from __future__ import annotations

from submit_tf_job.jobspec.reader import Defaults, loads, read_file
from submit_tf_job.jobspec.schema import example, schema

__all__ = ["Defaults", "example", "loads", "read_file", "schema"]
