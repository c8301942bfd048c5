"""Start all tasks of a job again in place (`retries` in the job spec)."""
