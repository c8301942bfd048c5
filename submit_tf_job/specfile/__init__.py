"""Job spec file → Job: strict about what a person writes, with the place and the way out of every mistake.

The hand-written readers are the law; `job.schema.json` says the same to editors, and a test holds the two together.
"""

from __future__ import annotations

from submit_tf_job.specfile.loading import load, loads
from submit_tf_job.specfile.native import Defaults
from submit_tf_job.specfile.packaged import example, schema

__all__ = ["Defaults", "example", "load", "loads", "schema"]
