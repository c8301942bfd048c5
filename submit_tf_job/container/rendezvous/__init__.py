"""When a job starts, is retried and is over: the state machine of the deciding task."""
