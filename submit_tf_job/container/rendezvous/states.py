"""The phases of a job, and the states of its tasks, in the deciding task and in its report."""

from __future__ import annotations

# phases of a job; STOPPED, SUCCEEDED and FAILED below are its verdicts, too
WAITING, RUNNING, FINISHING, ENDING = "waiting", "running", "finishing", "ending"
PREPARING = "preparing"  # all tasks wait for `prepare`, which runs in the deciding one
# states of a task
ABSENT, ARRIVED, ALIVE, RESTARTING, LOST = "absent", "arrived", "running", "restarting", "lost"
LEFT_OUT = "left-out"  # an elastic role's task that this generation does without
SUCCEEDED, FAILED, ENDED, STOPPED = "succeeded", "failed", "ended", "stopped"
OUT = (SUCCEEDED, FAILED, ENDED)  # final states
AWAY = (LOST, RESTARTING)
AWAITED = (ABSENT, LOST, RESTARTING)
