"""What follows from an answer that never came, where no class of tests/histories draws it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests

from submit_tf_job.errors import (
    ClusterUnavailable,
    NameTaken,
    error_class,
)
from submit_tf_job.yarn.deletion import CLAIM_S, USE_S, Claims
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S, SETTLE_S
from submit_tf_job.yarn.resource_manager import AnswerLost, Timeouts
from submit_tf_job.yarn.submit import Submitted, submit
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import BODY, ID, NAME, USER
from tests.fakes.stored import FakeCopy
from tests.fakes.transport import Answer, Asked, Fault
from tests.fakes.yarn import Stored

HURRIED = Timeouts(post_s=0.5)  # gives a POST up that the server goes on with
THEIRS = BODY.replace(ID, "theirs")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def submitting(
    cluster: FakeCluster,
    *,
    reader: bool = True,
    timeouts: Timeouts | None = None,
    wait_s: float = 300.0,
) -> Submitted:
    client = cluster.client(USER, timeouts=timeouts)
    copy = FakeCopy(cluster.yarn, USER, NAME) if reader else None
    return submit(
        client,
        BODY,
        name=NAME,
        user=USER,
        submission_id=ID,
        stored=copy,
        deadline=client.deadline(wait_s),
    )


def ran(cluster: FakeCluster) -> list[str]:
    """Let everything come to rest and return the applications that ran."""
    cluster.clock.sleep(400)
    return [app.id for app in cluster.yarn.ran(USER, NAME)]


# --- what is known ---------------------------------------------------------------------


def test_a_refused_second_post_says_nothing_of_the_first(cluster: FakeCluster) -> None:
    forbidden = Answer.json({"diagnostics": "denied"}, 403)
    cluster.network.faults += [Fault("lost", "POST"), Fault("instead", "POST", "", forbidden)]
    with pytest.raises(
        AnswerLost,
        match="Whether mnist was submitted is not known: its answer was lost, and then: ",
    ):
        submitting(cluster)


def test_two_addresses_of_one_server_do_not_vouch_for_each_other() -> None:
    """A second address leads to the same process: the first one's refusal shows nothing."""
    cluster = FakeCluster("rm1:8088", "rm2:8088")
    one, other = cluster.rms
    other.serve = one.serve  # type: ignore[method-assign]
    one.post_delays = [0.1, 0.1, 60.0, 0.1]
    real = one.serve

    def refusing(asked: Asked) -> Answer:
        raise requests.exceptions.ConnectionError(ConnectionRefusedError(111, "Connection refused"))

    def shut() -> None:
        cluster.network.servers["rm1:8088"].serve = refusing  # type: ignore[method-assign]
        cluster.network.servers["rm2:8088"].serve = real  # type: ignore[method-assign]

    cluster.clock.after(1.0, shut)
    done = submitting(cluster, timeouts=HURRIED)
    assert (done.adopted, done.posts) == (True, 1)
    assert ran(cluster) == [done.application_id]


# --- other people ---------------------------------------------------------------------------------


def test_an_application_that_came_first_stays(cluster: FakeCluster) -> None:
    """Both POSTs found the name free, because the server looks and stores in two steps; the later
    client ends its own application.
    """
    spec = json.loads(THEIRS)

    def both(asked: Asked, serve: Callable[[Asked], Answer] = cluster.rms[0].serve) -> Answer:
        answer = serve(asked)
        if asked.method == "POST":
            first = cluster.yarn.submit_app(USER, spec)
            first.started_ms -= 500
            cluster.yarn.services[USER, NAME] = Stored(
                spec, first.id, edition=cluster.clock.epoch_ms()
            )
        return answer

    cluster.rms[0].serve = both  # type: ignore[method-assign]
    with pytest.raises(NameTaken):
        submitting(cluster)
    (theirs,) = ran(cluster)
    mine = next(app for app in cluster.yarn.apps.values() if app.id != theirs)
    assert (mine.final_status, mine.ran) == ("KILLED", False)


# --- the same submission twice at once ------------------------------------------------------------


def test_claims_pass_to_the_next_client_when_a_delete_can_not_arrive_any_more(
    cluster: FakeCluster,
) -> None:
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7)
    first, second = (Claims(FakeCopy(cluster.yarn, USER, NAME), cluster.clock) for _ in range(2))
    assert first.take(7)
    assert not second.take(7)
    cluster.clock.sleep(USE_S)
    assert not first.take(7)
    cluster.clock.sleep(IN_FLIGHT_S - 1)
    assert not second.take(7)
    cluster.clock.sleep(1)
    assert second.take(7)
    assert not second.take(8)


def test_claims_of_dead_clients_are_old_for_every_new_command(cluster: FakeCluster) -> None:
    """A new command measures their age by the file system's clock; it does not wait for each."""
    now_ms = cluster.clock.epoch_ms()
    claims = {(7, turn): now_ms - int(CLAIM_S) * 1000 for turn in range(4)}
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7, claims=claims)
    begun = cluster.clock()
    done = submitting(cluster)
    assert cluster.clock() - begun < SETTLE_S
    assert ran(cluster) == [done.application_id]


# --- its own submission is recognised -------------------------------------------------------------


def test_a_stored_copy_that_is_being_written_is_waited_for(cluster: FakeCluster) -> None:
    """Another process of the same submission repairs it: it is away, or cut off, for longer than a
    moment.
    """
    first = submitting(cluster)
    cluster.yarn.job_s = 1.0
    cluster.clock.sleep(30)
    client, copy = cluster.client(USER), FakeCopy(cluster.yarn, USER, NAME, cut=15)
    again = submit(client, BODY, name=NAME, user=USER, submission_id=ID, stored=copy)
    assert (again.application_id, again.adopted) == (first.application_id, True)


def test_a_stored_copy_that_cannot_be_read_is_not_known(cluster: FakeCluster) -> None:
    cluster.yarn.job_s = 1.0
    submitting(cluster)
    cluster.clock.sleep(30)
    client, copy = cluster.client(USER), FakeCopy(cluster.yarn, USER, NAME, cut=10_000)
    with pytest.raises(
        ClusterUnavailable,
        match=r"^Whether mnist is this submission is not known: .* cannot be read just now\.",
    ) as caught:
        submit(client, BODY, name=NAME, user=USER, submission_id=ID, stored=copy)
    assert error_class(caught.value).retryable


# --- two clients that replace the same run --------------------------------------------------------
