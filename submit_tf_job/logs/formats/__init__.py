"""Formats and layouts of aggregated logs, for `submit_tf_job.logs.collected`."""
