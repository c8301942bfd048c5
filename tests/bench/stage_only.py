"""All that `submit` does before the POST with the files of a job spec: `python stage_only.py SPEC PROFILE`."""

import sys
from pathlib import Path

from submit_tf_job import api
from submit_tf_job.api.staging import stage_files

settings = api.load_settings(profile=sys.argv[2])
stage_files(api.make_plan(api.load_job(Path(sys.argv[1]), settings), settings), settings, lambda _sent: None)
