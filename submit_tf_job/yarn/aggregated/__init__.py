"""The formats and layouts of aggregated logs; `submit_tf_job.yarn.logs` is the door."""
