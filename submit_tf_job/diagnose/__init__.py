"""Find why a job waits or failed: pure functions that return the causes, each with a next step."""
