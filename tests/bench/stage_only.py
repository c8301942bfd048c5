"""All that `submit` does before the POST with the files of a job spec: `python stage_only.py SPEC
PROFILE`.
"""

import sys
from pathlib import Path

from submit_tf_job.operations.staging import stage_files
from submit_tf_job.operations.submit import load_job, make_plan
from submit_tf_job.settings import load_settings

settings = load_settings(profile=sys.argv[2])
stage_files(
    make_plan(load_job(Path(sys.argv[1]), settings), settings),
    settings,
    lambda _sent: None,
)
