"""Submitting over a cluster where anything may go wrong at any step: one submission, one
application, nothing lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, NameTaken
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S, SETTLE_S
from submit_tf_job.yarn.stopping import DELETE_S, STOP_S, delete, stop
from submit_tf_job.yarn.submit import SUBMIT_S, Submitted, submit
from tests.examples import examples
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import BODY, ID, NAME, USER
from tests.fakes.stored import FakeCopy
from tests.fakes.transport import Fault, Killed
from tests.fakes.yarn import App

# ways for a command to end without a job
Unfinished: TypeAlias = ClusterUnavailable | DeadlinePassed | NameTaken | Killed

FAULTS = [
    "refuse",
    "unsent-timeout",
    "lost",
    "reset",
    "silent",
    "truncate",
    "gateway",
    "gateway-before",
    "error",
    "error-after",
]
FAULTS += ["duplicate", "duplicate-late", "crash", "crash-before"]
METHODS = ("POST", "POST", "GET", "PUT", "DELETE")
FEW, MANY = examples(150), 10_000  # in `make unit`; in `make matrix`
GIVES_UP_AFTER = 4


@dataclass(frozen=True)
class Trouble:
    """What goes wrong in one run.

    Attributes:
        faults: (kind, method) of faults, each hitting the next request that fits.
        posts: What happens inside the server to one POST after the other: it dies before a step, or
            takes its time at one.
        kills: When the active ResourceManager is killed, in seconds from the start.
        ending: What the user does in the end.
        end_faults: Faults that hit the user's last command.
        cut: How many times a command that reads the stored service finds it empty, because a
            ResourceManager is writing it.
    """

    rms: int
    version: tuple[int, ...]
    job_s: float | None
    hold_accepted: bool
    reader: bool
    faults: tuple[tuple[str, str], ...]
    posts: tuple[tuple[str, int, float], ...]
    kills: tuple[float, ...]
    ending: str
    end_faults: tuple[tuple[str, str], ...]
    cut: int = 0


some_faults = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(FAULTS), st.sampled_from(METHODS)), st.just(("late", "POST"))
    ),
    max_size=6,
).map(tuple)
troubles = st.builds(
    Trouble,
    rms=st.integers(1, 2),
    version=st.sampled_from([(3, 4, 2), (3, 3, 5), (3, 2, 1), (3, 1, 3)]),
    job_s=st.sampled_from([None, 0.5, 8.0, 60.0]),
    hold_accepted=st.booleans(),
    reader=st.booleans(),
    faults=some_faults,
    posts=st.lists(
        st.tuples(
            st.sampled_from(["die", "tear", "slow"]),
            st.integers(0, 3),
            st.sampled_from([1.0, 30.0, 119.0, 121.0, 150.0]),
        ),
        max_size=3,
    ).map(tuple),
    kills=st.lists(st.sampled_from([0.1, 0.5, 1.0, 3.0, 15.0, 130.0]), max_size=2).map(tuple),
    ending=st.sampled_from(["wait", "stop", "delete"]),
    end_faults=some_faults,
    cut=st.integers(0, 3),
)


class World:
    """The cluster of one run, and a user who gives the same command until it says something
    final.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.cluster = FakeCluster(
            *(f"rm{number + 1}:8088" for number in range(trouble.rms)), version=trouble.version
        )
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
            if kind != "slow":
                rm.die_in_post, rm.tears = step, kind == "tear"
            else:
                # the last step is one write to HDFS; a server that hangs there for minutes undoes
                # whatever anybody did meanwhile
                rm.post_delays = [0.2] * step + [seconds if step < 3 else min(seconds, 30.0)]

    def submit(self) -> Submitted | Unfinished:
        """Give the command once, as a process of its own; it must come to an end in bounded time
        and with bounded effort.
        """
        start, asked = self.clock(), len(self.cluster.network.log)
        try:
            return submit(
                self.cluster.client(USER),
                BODY,
                name=NAME,
                user=USER,
                submission_id=ID,
                stored=FakeCopy(self.yarn, USER, NAME, cut=self.trouble.cut)
                if self.trouble.reader
                else None,
            )
        except (ClusterUnavailable, DeadlinePassed, NameTaken, Killed) as error:
            return error
        finally:
            # a DELETE whose answer was lost is waited for
            limit = SUBMIT_S + IN_FLIGHT_S + SETTLE_S + 35
            assert self.clock() - start < limit, "the deadline was not kept"
            assert len(self.cluster.network.log) - asked < 2000
            posts = [
                entry
                for entry in self.cluster.network.log[asked:]
                if entry[1:] == ("POST", "/app/v1/services")
            ]
            assert len(posts) < 120
            self.arm()

    def end(self) -> AppReport | bool | Unfinished | None:
        """Stop or delete the job once."""
        client = self.cluster.client(USER)
        start = self.clock()
        try:
            if self.trouble.ending == "delete":
                return bool(delete(client, NAME, user=USER))
            return stop(client, user=USER, name=NAME)
        except (ClusterUnavailable, DeadlinePassed, Killed) as error:
            return error
        finally:
            limit = {"delete": DELETE_S}.get(self.trouble.ending, STOP_S)
            assert self.clock() - start < limit + 35, "the deadline was not kept"

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        self.cluster.network.faults.clear()
        self.posts.clear()
        for rm in self.cluster.rms:
            rm.die_in_post, rm.tears, rm.post_delays = None, False, []

    def check(self) -> None:
        """Assert what must hold at any time."""
        assert len(self.yarn.ran(USER, NAME)) <= 1, "the submission ran twice"


def one_submission_is_one_application(trouble: Trouble) -> None:
    """Submit, again and again at once while everything may still be under way, and once more when
    all is calm; then end the job.
    """
    world = World(trouble)
    outcome = world.submit()
    world.check()
    for _ in range(GIVES_UP_AFTER - 1):
        if isinstance(outcome, Submitted):
            break
        outcome = world.submit()
        world.check()

    world.calm()
    world.clock.sleep(400)
    if not isinstance(outcome, Submitted):
        outcome = world.submit()
        world.check()
    world.yarn.release()
    world.clock.sleep(20)
    world.check()

    if isinstance(outcome, Submitted):
        app = world.yarn.apps[outcome.application_id]
        # the server took so long over its own answer that the AM gave up before
        late = world.yarn.services[USER, NAME].app_id == app.id
        assert app.ran or (late and app.state == "FAILED"), f"{app} never ran"
        assert outcome.finished <= app.ended
        the_job_ends_as_it_is_told(world, app)
    else:
        assert isinstance(outcome, (NameTaken, ClusterUnavailable)), outcome
        # such a copy names no submission
        torn = any(kind == "tear" for kind, _, _ in trouble.posts)
        assert not trouble.reader or (torn and not isinstance(outcome, NameTaken)), (
            f"its own submission was not recognised: {outcome}"
        )
        assert world.yarn.services.get((USER, NAME)) is not None


def the_job_ends_as_it_is_told(world: World, app: App) -> None:
    """Stop or delete it, whatever gets lost, and read how it ended."""
    before = app.final_status
    if world.trouble.ending != "wait":
        world.cluster.network.faults += [
            Fault(kind, method) for kind, method in world.trouble.end_faults
        ]
        for _ in range(GIVES_UP_AFTER):
            if not isinstance(world.end(), BaseException):
                break
        world.calm()
        world.clock.sleep(60)
        assert not isinstance(world.end(), BaseException)
        assert app.ended
        assert app.final_status in (
            (before,) if before != "UNDEFINED" else ("KILLED", "ENDED", "SUCCEEDED")
        ), (before, app)
        assert ((USER, NAME) in world.yarn.services) == (world.trouble.ending == "stop")
        world.check()
    seen = world.cluster.client(USER).app(app.id)
    assert seen is not None
    assert (seen.state.value, seen.final_status.value) == (app.state, app.final_status)


checked = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=True,
)


@settings(checked, max_examples=FEW)
@given(troubles)
def test_one_submission_is_one_application(trouble: Trouble) -> None:
    one_submission_is_one_application(trouble)


def test_what_an_earlier_post_has_left_says_nothing_of_the_next() -> None:
    """Both POSTs come late; the first one's application fails, and the server still works on the
    second one for two minutes.
    """
    late = (("late", "POST"), ("error", "GET"))
    posts = (("die", 3, 1.0), ("slow", 2, 121.0))
    one_submission_is_one_application(
        Trouble(2, (3, 4, 2), None, False, False, (*late, *late), posts, (), "wait", ())
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(checked, max_examples=MANY)
@given(troubles)
def test_ten_thousand_submissions_are_ten_thousand_applications_at_most(trouble: Trouble) -> None:
    one_submission_is_one_application(trouble)


@settings(checked, max_examples=examples(100))
@given(troubles)
def test_the_job_of_another_submission_survives_whatever_happens(trouble: Trouble) -> None:
    world = World(trouble)
    world.calm()
    body = BODY.replace(ID, "theirs")
    copy = FakeCopy(world.yarn, USER, NAME)
    theirs = submit(
        world.cluster.client(USER), body, name=NAME, user=USER, submission_id="theirs", stored=copy
    )
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
