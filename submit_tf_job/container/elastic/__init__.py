"""Train with fewer tasks than wanted (`instances: {min, max}` in the job spec)."""
