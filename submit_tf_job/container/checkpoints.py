"""Find the newest checkpoint of a job (key `checkpoints`); this runs in the deciding task."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from submit_tf_job.container import own_python, untrusted
from submit_tf_job.container.data.webhdfs_client import GIVEN_TOKENS
from submit_tf_job.container.info import Info
from submit_tf_job.container.loop import Loop
from submit_tf_job.container.rendezvous.machine import StateMachine
from submit_tf_job.container.tokens import ENV_FILE

PAUSE_S = 60.0  # between two searches
LIMIT_S = 60.0  # of one
MODULE = "submit_tf_job.container.data.newest_checkpoint"


class CheckpointWatch:
    """Searches for the newest checkpoint at intervals while the commands of one generation run."""

    def __init__(
        self,
        job: StateMachine,
        env: Mapping[str, str],
        loop: Loop,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        """Keep the arguments. `tell` is called in the event loop with the result of each search;
        `env` is the environment of the program.
        """
        self.job, self.env, self.loop, self.tell = job, env, loop, tell
        self.generation, self.info = job.generation, job.info

    def _is_over(self) -> bool:
        return self.loop.exit is not None or self.job.generation != self.generation

    def run(self) -> None:
        """Search at intervals until the generation is over. This method blocks: run it in a
        thread.
        """
        while not self._is_over():
            what = search(self.info, self.env, self.info.task["checkpoints"])
            self.loop.post(partial(self._tell_result, what))
            time.sleep(float(self.info.task.get("checkpoints_s", PAUSE_S)))

    def _tell_result(self, what: dict[str, Any]) -> None:
        if not self._is_over():
            self.tell(what)


def store_result(job: StateMachine, now: float, what: dict[str, Any]) -> None:
    """Store the newest checkpoint in the job, if the search found one; after a restart also report,
    once, whether there is a checkpoint. Do nothing if the search failed.
    """
    if "why" in what:
        return
    known, restarted = what.get("name"), job.generation > 0 or job.me.attempt > 0
    if restarted and job.checkpoint_told < job.generation + job.me.attempt:
        job.checkpoint_told = job.generation + job.me.attempt
        if known:
            job.event(now, f"the newest checkpoint at {what['uri']} is {known}")
        else:
            job.warn(now, f"no checkpoint is at {what['uri']}: the training begins from nothing")
    job.checkpoint = what if known else job.checkpoint


def search(info: Info, env: Mapping[str, str], uri: str) -> dict[str, Any]:
    """Return uri, name, step and time of the newest checkpoint. Return only the uri if there is no
    checkpoint, and the uri and `why` if the search failed.

    The search runs in a process of its own, so that a library that hangs or crashes does no harm
    here.
    """
    clean = own_python.environment_of(info, env)
    clean[GIVEN_TOKENS] = info.env.get(ENV_FILE, "")
    argv = own_python.command_line(MODULE, info, env)
    request = json.dumps({"uri": uri}).encode("ascii")
    cwd, pipe, none = own_python.directory_of(info), subprocess.PIPE, subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, input=request, stdout=pipe, stderr=none, env=clean, cwd=cwd, timeout=LIMIT_S
        )
        found = untrusted.parse(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as err:
        found = {"why": str(err)[:200]}
    return dict(found if isinstance(found, dict) else {}, uri=uri)
