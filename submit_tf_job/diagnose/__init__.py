"""Why a job waits, and why it failed: pure functions from what was seen to sentences with a next step."""
