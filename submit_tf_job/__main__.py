"""`python -m submit_tf_job`."""

from submit_tf_job.cli import main

raise SystemExit(main())
