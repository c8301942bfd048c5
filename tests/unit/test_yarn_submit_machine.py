"""Submitting over a cluster where anything may go wrong at any step: one submission, one application, nothing lost."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.contract import PROPERTY_SUBMISSION
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, NameTaken, SubmitTFJobError
from submit_tf_job.yarn.records import Component, Configuration, Resource, Service, dumps
from submit_tf_job.yarn.submit import Submitted, submit
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.transport import Fault

NAME, USER, ID = "mnist", "alice", "5f3a9c"
BODY = dumps(
    Service(
        NAME,
        ID,
        (Component("worker", 1, launch_command="sleep 1", resource=Resource(1, "128")),),
        configuration=Configuration({PROPERTY_SUBMISSION: ID}),
    )
)

FAULTS = ("refuse", "unsent-timeout", "lost", "reset", "silent", "truncate", "gateway", "gateway-before", "error", "error-after")


@dataclass(frozen=True)
class Trouble:
    """What goes wrong in one run.

    Attributes:
        faults: (kind, method) of faults, each hitting the next request that fits.
        posts: What happens inside the server to one POST after the other: it dies before a step, or takes its time at one.
        kills: When the active ResourceManager is killed, in seconds from the start.
    """

    rms: int
    version: tuple[int, ...]
    job_s: float | None
    hold_accepted: bool
    reader: bool
    faults: tuple[tuple[str, str], ...]
    posts: tuple[tuple[str, int, float], ...]
    kills: tuple[float, ...]


troubles = st.builds(
    Trouble,
    rms=st.integers(1, 2),
    version=st.sampled_from([(3, 4, 2), (3, 3, 5), (3, 2, 1), (3, 1, 3)]),
    job_s=st.sampled_from([None, 0.5, 8.0, 60.0]),
    hold_accepted=st.booleans(),
    reader=st.booleans(),
    faults=st.lists(st.tuples(st.sampled_from(FAULTS), st.sampled_from(["POST", "POST", "GET", "PUT", "DELETE"])), max_size=6).map(tuple),
    posts=st.lists(
        st.tuples(st.sampled_from(["die", "slow"]), st.integers(0, 3), st.sampled_from([1.0, 30.0, 119.0, 121.0, 150.0])), max_size=3
    ).map(tuple),
    kills=st.lists(st.sampled_from([0.1, 0.5, 1.0, 3.0, 15.0, 130.0]), max_size=2).map(tuple),
)


class World:
    """The cluster of one run, and a user who gives the same command until it says something final."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.cluster = FakeCluster(*(f"rm{number + 1}:8088" for number in range(trouble.rms)), version=trouble.version)
        self.clock, self.yarn = self.cluster.clock, self.cluster.yarn
        self.yarn.job_s, self.yarn.hold_accepted = trouble.job_s, trouble.hold_accepted
        self.cluster.network.faults += [Fault(kind, method) for kind, method in trouble.faults]
        self.posts = list(trouble.posts)
        self.arm()
        for at in trouble.kills:
            self.clock.after(at, self.cluster.kill_active)

    def arm(self) -> None:
        """Give the next POST of every ResourceManager its fate."""
        if not self.posts:
            return
        kind, step, seconds = self.posts.pop(0)
        for rm in self.cluster.rms:
            if kind == "die":
                rm.die_in_post = step
            else:
                # the last step is one write to HDFS; a server that hangs there for minutes undoes whatever anybody did meanwhile
                rm.post_delays = [0.2] * step + [seconds if step < 3 else min(seconds, 30.0)]

    def stored(self) -> str | None:
        """Read the stored service as `storage` would."""
        found = self.yarn.services.get((USER, NAME))
        return found.spec["configuration"]["properties"][PROPERTY_SUBMISSION] if found else None

    def submit(self) -> Submitted | SubmitTFJobError:
        """Give the command once; it must come to an end in bounded time and with bounded effort."""
        start, asked = self.clock(), len(self.cluster.network.log)
        try:
            return submit(
                self.cluster.client(USER),
                BODY,
                name=NAME,
                user=USER,
                submission_id=ID,
                stored=self.stored if self.trouble.reader else None,
            )
        except (ClusterUnavailable, DeadlinePassed, NameTaken) as error:
            return error
        finally:
            assert self.clock() - start < 300 + 35, "the deadline was not kept"
            assert len(self.cluster.network.log) - asked < 2000
            posts = [entry for entry in self.cluster.network.log[asked:] if entry[1:] == ("POST", "/app/v1/services")]
            assert len(posts) < 120
            self.arm()

    def check(self) -> None:
        """Assert what must hold at any time."""
        assert len(self.yarn.ran(USER, NAME)) <= 1, "the submission ran twice"


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(troubles)
def test_one_submission_is_one_application(trouble: Trouble) -> None:
    world = World(trouble)
    outcome = world.submit()
    world.check()
    for _ in range(2):  # the user tries again at once, while everything may still be under way
        if isinstance(outcome, Submitted):
            break
        outcome = world.submit()
        world.check()

    world.cluster.network.faults.clear()
    world.posts.clear()
    for rm in world.cluster.rms:
        rm.die_in_post, rm.post_delays = None, []
    world.clock.sleep(400)
    if not isinstance(outcome, Submitted):
        outcome = world.submit()
        world.check()
    world.yarn.release()
    world.clock.sleep(20)
    world.check()

    if isinstance(outcome, Submitted):
        app = world.yarn.apps[outcome.application_id]
        late = world.yarn.services[USER, NAME].app_id == app.id  # the server took so long over its own answer that the AM gave up before
        assert app.ran or (late and app.state == "FAILED"), f"{app} never ran"
        assert outcome.finished <= app.ended
    else:
        assert isinstance(outcome, NameTaken), outcome
        assert not trouble.reader or (trouble.version < (3, 2)), f"its own submission was not recognised: {outcome}"
        assert world.yarn.services.get((USER, NAME)) is not None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(troubles)
def test_the_job_of_another_submission_survives_whatever_happens(trouble: Trouble) -> None:
    world = World(trouble)
    world.cluster.network.faults.clear()
    for rm in world.cluster.rms:
        rm.die_in_post, rm.post_delays = None, []
    body = BODY.replace(ID, "theirs")
    theirs = submit(world.cluster.client(USER), body, name=NAME, user=USER, submission_id="theirs")
    world.clock.sleep(6)
    world.cluster.network.faults += [Fault(kind, method) for kind, method in trouble.faults]
    before = world.yarn.apps[theirs.application_id].state
    outcome = world.submit()
    assert not isinstance(outcome, Submitted)
    world.yarn.release()
    world.clock.sleep(100)
    app = world.yarn.apps[theirs.application_id]
    assert app.final_status in ("UNDEFINED", "SUCCEEDED"), (before, app)
    assert (USER, NAME) in world.yarn.services
