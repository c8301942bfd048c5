"""A job with `retries.memory` on a fake cluster, whose worker runs out of memory."""

from __future__ import annotations

from submit_tf_job import operations
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.jobspec import loads
from submit_tf_job.observation import JobState, JobStatus, Verdict
from submit_tf_job.operations.lineage import Step, next_step
from tests.fakes.running_job import Stage
from tests.fakes.yarn import Yarn

SPEC = """
name: ranker
image: tf:2
strategy: multi-worker
command: python train.py
retries: {max: 2, memory: 1.5}
roles: {chief: {memory: 1Gi}, worker: {instances: 2, memory: 2Gi}}
"""
USED = {"asked_mib": 2048, "used": "2.5 GB", "limit": "2 GB"}
OOM = Cause(
    "out-of-memory", "worker-1 used 2.5 GB of the 2 GB", task="worker-1", status=-104, facts=USED
)


class Failed(JobStatus):
    """A job that failed."""

    @property
    def verdict(self) -> Verdict:
        return Verdict(JobState.FAILED)


class Story:
    """One command on a fake cluster, and what becomes of its job."""

    def __init__(self, text: str = SPEC) -> None:
        self.stage = Stage()
        self.cluster = self.stage.alice
        job = loads(text, source="t.yaml", base=None)
        self.planned = operations.make_plan(job, self.cluster.settings)
        self.done = operations.submit(self.planned, self.cluster)

    @property
    def yarn(self) -> Yarn:
        return self.stage.fake.yarn

    def fails(self) -> JobStatus:
        """End the job's application; return its last status."""
        self.stage.fake.clock.sleep(20)
        [app] = self.yarn.live("alice", "ranker")
        service = self.cluster.client.get_service("ranker")
        self.yarn.end(app, "FINISHED", "FAILED")
        self.stage.fake.clock.sleep(40)
        return Failed("ranker", app.id, self.cluster.client.app(app.id), service)

    def step(self, status: JobStatus, cause: Cause | None = OOM) -> Step:
        step = next_step(self.cluster, self.planned, status, cause)
        assert step is not None
        return step

    def submit(self, step: Step) -> operations.Submission:
        assert step.plan is not None
        return operations.submit(step.plan, self.cluster, after=step.after)

    def memory(self) -> dict[str, str]:
        spec = self.yarn.services["alice", "ranker"].spec
        return {one["name"]: one["resource"]["memory"] for one in spec["components"]}

    @property
    def applications(self) -> list[str]:
        return [app.id for app in self.yarn.apps.values() if app.name == "ranker"]
