"""When a job starts, when it is retried and when it is over: the state machine of the deciding
task.
"""
