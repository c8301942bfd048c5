"""All that `submit` does before the POST with the files of a job spec: `python stage_only.py SPEC
PROFILE`.
"""

import sys
from pathlib import Path

from submit_tf_job.operations import submit
from submit_tf_job.operations.staging import Staging
from submit_tf_job.settings import load_settings

settings = load_settings(profile=sys.argv[2])
planned = submit.make_plan(submit.load_job(Path(sys.argv[1]), settings), settings)
Staging(settings, planned.site.staging).stage(planned, {}, lambda _sent: None)
