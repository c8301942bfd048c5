"""Find, split, sort by time and follow the logs of tasks, without settings or printing."""
