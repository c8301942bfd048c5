"""What follows from an answer that never came: one application, nobody else's, and a status that
says what is known.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
import requests

from submit_tf_job.errors import (
    ClusterUnavailable,
    DeadlinePassed,
    NameTaken,
    SubmitTFJobError,
    error_class,
)
from submit_tf_job.yarn.deletion import CLAIM_S, USE_S, Claims, delete_ended, held_by
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S, SETTLE_S, submitted_first
from submit_tf_job.yarn.resource_manager import AnswerLost, Timeouts
from submit_tf_job.yarn.states import AppState, FinalStatus
from submit_tf_job.yarn.submit import Submitted, submit
from tests.fakes.resource_manager import FakeCluster, FakeRM
from tests.fakes.services import BODY, ID, NAME, USER
from tests.fakes.stored import FakeCopy
from tests.fakes.together import SharedClock
from tests.fakes.transport import Answer, Asked, Fault, bad_gateway, connection_broke
from tests.fakes.yarn import Stored

HURRIED = Timeouts(post_s=0.5)  # gives a POST up that the server goes on with
THEIRS = BODY.replace(ID, "theirs")
PAGES = {
    "unauthorized": Answer(
        401, b"<html><title>401 Authentication required</title></html>", "text/html"
    ),
    "forbidden": Answer(403, b"<html><title>403 Forbidden</title></html>", "text/html"),
    "gateway": bad_gateway(504),
    "page": Answer(200, b"<html><title>Welcome</title></html>", "text/html"),
    "not-found": Answer(404, b"404 page not found\n", "text/plain"),
}


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


# --- an error of a later look ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", PAGES)
def test_an_accepted_post_is_not_known_whatever_a_later_look_meets(
    cluster: FakeCluster, kind: str
) -> None:
    cluster.network.faults += [Fault("reset", "POST")]
    cluster.clock.after(
        0.5,
        lambda: cluster.network.faults.extend(
            [Fault("instead", "GET", "/services/", PAGES[kind]) for _ in range(99)]
        ),
    )
    # what keeps the staged files and the keytab
    with pytest.raises((AnswerLost, DeadlinePassed)) as caught:
        submitting(cluster, wait_s=60)
    assert error_class(caught.value).retryable
    assert (
        "mnist was submitted is not known" in caught.value.message
        or "deadline" in caught.value.message
    )
    cluster.network.faults.clear()
    again = submitting(cluster)
    assert again.adopted
    assert ran(cluster) == [again.application_id]


@pytest.mark.parametrize(
    ("status", "then"), [(504, 200), (504, 404), (502, 500), (404, 404), (200, 200)]
)
def test_a_page_in_place_of_the_posts_answer_does_not_say_that_there_is_no_services_api(
    cluster: FakeCluster, status: int, then: int
) -> None:
    page = b"<html><title>Sorry</title></html>"
    cluster.network.faults += [Fault("instead", "POST", "", Answer(status, page, "text/html"))]
    cluster.network.faults += [Fault("instead", "GET", "/version", Answer(then, page, "text/html"))]
    done = submitting(cluster)
    assert ran(cluster) == [done.application_id]


def test_a_refused_second_post_says_nothing_of_the_first(cluster: FakeCluster) -> None:
    forbidden = Answer.json({"diagnostics": "denied"}, 403)
    cluster.network.faults += [Fault("lost", "POST"), Fault("instead", "POST", "", forbidden)]
    with pytest.raises(
        AnswerLost,
        match="Whether mnist was submitted is not known: its answer was lost, and then: ",
    ):
        submitting(cluster)


# --- old looks ------------------------------------------------------------------------------------


def slow_list(cluster: FakeCluster, number: int, seconds: float) -> None:
    """Let one list of applications take so long, and show what there was when it was asked for."""
    serve, lists = cluster.rms[0].serve, count(1)

    def slowly(asked: Asked) -> Answer:
        answer = serve(asked)
        if asked.path == "/ws/v1/cluster/apps" and next(lists) == number:
            cluster.clock.sleep(seconds)
        return answer

    cluster.rms[0].serve = slowly  # type: ignore[method-assign]


def test_a_look_that_lasts_does_not_make_a_picture_old(cluster: FakeCluster) -> None:
    """The server writes the application's id 9 s after it made it; whoever looks slowly saw the
    service before that.
    """
    cluster.rms[0].post_delays = [0.1, 0.1, 0.1, 9.0]
    slow_list(cluster, 3, 12.0)  # of the second look after the POST
    done = submitting(cluster, timeouts=HURRIED)
    assert (done.adopted, done.posts) == (True, 1)
    assert not [entry for entry in cluster.network.log if entry[1] in ("PUT", "DELETE")]
    assert ran(cluster) == [done.application_id]


# --- refused connections --------------------------------------------------------------------------


@pytest.mark.parametrize(("refusals", "before"), [(1, 0), (5, 0), (0, 1), (5, 1)])
def test_a_refused_connection_does_not_show_that_the_server_is_gone(
    cluster: FakeCluster, refusals: int, before: int
) -> None:
    """Nor does the first start time that is read, where none could be read before the POST."""
    # between storing the service and making its application
    cluster.rms[0].post_delays = [0.1, 0.1, 60.0, 0.1]
    cluster.network.faults += [Fault("refuse", "GET", "cluster/info") for _ in range(before)]

    def flap() -> None:
        cluster.network.faults += [Fault("refuse", "GET", "cluster/info") for _ in range(refusals)]

    cluster.clock.after(1.0, flap)
    done = submitting(cluster, timeouts=HURRIED)
    assert (done.adopted, done.posts) == (True, 1)
    assert ran(cluster) == [done.application_id]


def test_what_a_dead_server_has_stored_is_cleared_when_no_post_can_be_at_work_on_it() -> None:
    """Which client's POST has stored it cannot be known, and that of another may live."""
    cluster = FakeCluster("rm1:8088", "rm2:8088")
    cluster.rms[0].die_in_post, started = 2, cluster.clock()
    done = submitting(cluster)
    assert done.posts == 2
    assert cluster.clock() - started >= IN_FLIGHT_S
    assert ran(cluster) == [done.application_id]


def test_a_server_that_led_again_meanwhile_is_not_gone() -> None:
    cluster = FakeCluster("rm1:8088", "rm2:8088")

    def lead_again() -> None:
        for rm in cluster.rms:
            rm.started_ms = cluster.clock.epoch_ms()

    cluster.rms[0]._post = lives_on(cluster.rms[0], lead_again)  # type: ignore[method-assign, assignment]
    done = submitting(cluster, timeouts=HURRIED)
    assert (done.adopted, done.posts) == (True, 1)
    assert ran(cluster) == [done.application_id]


def lives_on(rm: FakeRM, lead_again: Callable[[], None]) -> Callable[[Asked], Answer]:
    """Let a ResourceManager go on with a POST although its start time changes."""
    spec_of, yarn, clock = json.loads, rm.yarn, rm.clock

    def post(asked: Asked) -> Answer:
        steps = yarn.creating(asked.user, spec_of(asked.body))
        for at in (0.1, 0.2, 60.0, 60.2):
            clock.after(at, partial(next, steps, None))
        clock.after(1.0, lead_again)
        clock.sleep(asked.read_s)
        raise requests.exceptions.ReadTimeout("Read timed out.")

    return post


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


def rival_after(cluster: FakeCluster, seconds: float) -> None:
    """Let somebody else submit another job of the name."""
    cluster.clock.after(seconds, partial(deque, cluster.yarn.creating(USER, json.loads(THEIRS)), 0))


@pytest.mark.parametrize("waits", [False, True])
def test_what_appears_after_a_lost_post_may_be_somebody_elses(
    cluster: FakeCluster, waits: bool
) -> None:
    cluster.network.faults += [Fault("lost", "POST")]
    cluster.yarn.hold_accepted = waits
    rival_after(cluster, 0.5)
    expected = DeadlinePassed if waits else NameTaken  # that it is theirs is seen when it runs
    with pytest.raises(expected) as caught:
        submitting(cluster, reader=False)
    assert error_class(caught.value).retryable is waits
    assert [app.final_status for app in cluster.yarn.apps.values()] == ["UNDEFINED"]


def test_a_service_that_somebody_else_is_starting_is_not_cleaned_up(cluster: FakeCluster) -> None:
    cluster.network.faults += [Fault("lost", "POST")]
    steps = cluster.yarn.creating(USER, json.loads(THEIRS))
    cluster.clock.after(0.2, partial(next, steps))
    cluster.clock.after(0.3, partial(next, steps))
    cluster.clock.after(250, partial(deque, steps, 0))
    with pytest.raises(
        AnswerLost, match=r"runs no application says whose it is only in its stored copy"
    ):
        submitting(cluster, reader=False)
    assert not [entry for entry in cluster.network.log if entry[1] == "DELETE"]
    assert len(ran(cluster)) == 1


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


def test_submitted_first_is_by_time_and_not_by_id() -> None:
    def app(number: int, started: int) -> AppReport:
        return AppReport(
            f"application_1_{number:04}",
            "a",
            "n",
            "q",
            AppState.ACCEPTED,
            FinalStatus.UNDEFINED,
            started_ms=started,
        )

    assert submitted_first([app(1, 20), app(2, 10)]).id == "application_1_0002"
    assert submitted_first([app(2, 10), app(1, 10)]).id == "application_1_0001"


# --- the same submission twice at once ------------------------------------------------------------


def twins(
    cluster: FakeCluster, starts: tuple[float, ...], *, reader: bool = True
) -> list[Submitted | BaseException]:
    assert isinstance(cluster.clock, SharedClock)
    return cluster.clock.together(
        *(partial(submitting, cluster, reader=reader) for _ in starts), starts=starts
    )


@pytest.fixture
def shared() -> FakeCluster:
    return FakeCluster(clock=SharedClock())


@pytest.mark.parametrize("later", [0.0, 0.005, 0.011, 0.02, 0.1, 0.25, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("slow_s", [0.2, 20.0])
def test_two_clients_that_clean_up_after_one_dead_post_make_one_application(
    shared: FakeCluster, later: float, slow_s: float
) -> None:
    shared.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=shared.clock.epoch_ms())
    shared.rms[0].post_delays = [0.2, 0.2, slow_s, 0.2]
    outcomes = twins(shared, (0.0, later))
    made = {outcome.application_id for outcome in outcomes if isinstance(outcome, Submitted)}
    assert len(made) == 1, outcomes
    assert ran(shared) == sorted(made)
    unfinished = [outcome for outcome in outcomes if not isinstance(outcome, Submitted)]
    assert all(
        isinstance(outcome, SubmitTFJobError) and error_class(outcome).retryable
        for outcome in unfinished
    )


@pytest.mark.parametrize("later", [0.0, 0.01, 0.2, 0.3, 1.0])
@pytest.mark.parametrize("reader", [False, True])
def test_two_clients_at_once_have_one_application(
    shared: FakeCluster, later: float, reader: bool
) -> None:
    outcomes = twins(shared, (0.0, later), reader=reader)
    assert (
        len({outcome.application_id for outcome in outcomes if isinstance(outcome, Submitted)}) == 1
    ), outcomes
    assert all(isinstance(outcome, Submitted) for outcome in outcomes), outcomes
    assert len(ran(shared)) == 1


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
        match=r"^Whether mnist is this submission is not known: .* cannot be read just now\.$",
    ) as caught:
        submit(client, BODY, name=NAME, user=USER, submission_id=ID, stored=copy)
    assert error_class(caught.value).retryable


@pytest.mark.parametrize("version", [(3, 1, 3), (3, 4, 2)])
def test_an_own_orphan_is_cleared_on_every_hadoop(version: tuple[int, ...]) -> None:
    cluster = FakeCluster(version=version)
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7)
    done = submitting(cluster)
    assert (done.posts, done.adopted) == (1, False)
    assert ran(cluster) == [done.application_id]


def test_a_job_that_is_over_is_recognised_on_hadoop_that_hides_its_id() -> None:
    cluster = FakeCluster(version=(3, 1, 3))
    cluster.yarn.job_s = 1.0
    first = submitting(cluster)
    cluster.clock.sleep(30)
    assert submitting(cluster) == Submitted(first.application_id, adopted=True, finished=True)


def test_a_delete_is_sent_once(cluster: FakeCluster) -> None:
    """Repeated after a lost answer it might hit what another client has posted meanwhile."""
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7)
    cluster.network.faults += [Fault("reset", "DELETE")]
    done = submitting(cluster)
    assert [entry[1] for entry in cluster.network.log if entry[1] == "DELETE"] == ["DELETE"]
    assert ran(cluster) == [done.application_id]
    assert cluster.clock() > SETTLE_S


# --- two clients that replace the same run --------------------------------------------------------


def replacing(cluster: FakeCluster, *, reader: bool) -> Submitted:
    """Do what `submit --replace` does: delete the run that is over, and submit the next one, whose
    id follows from that run's.
    """
    client, copy = cluster.client(USER), FakeCopy(cluster.yarn, USER, NAME) if reader else None
    held = held_by(client, NAME, user=USER, settle_s=SETTLE_S, copy=copy)
    assert held.app is None
    delete_ended(client, NAME, held, user=USER, copy=copy, deadline=client.deadline(300))
    return submit(
        client, BODY.replace(ID, "next"), name=NAME, user=USER, submission_id="next", stored=copy
    )


@pytest.mark.parametrize("later", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03])
@pytest.mark.parametrize("version", [(3, 1, 3), (3, 4, 2)])
def test_two_clients_that_replace_one_run_share_the_next(
    later: float, version: tuple[int, ...]
) -> None:
    cluster = FakeCluster(version=version, clock=SharedClock())
    cluster.yarn.job_s = 1.0
    submitting(cluster)
    cluster.clock.sleep(30)
    cluster.yarn.job_s = None
    assert isinstance(cluster.clock, SharedClock)
    outcomes = cluster.clock.together(
        *[partial(replacing, cluster, reader=True)] * 2, starts=(0.0, later)
    )
    assert all(isinstance(outcome, Submitted) for outcome in outcomes), outcomes
    assert (
        len({outcome.application_id for outcome in outcomes if isinstance(outcome, Submitted)}) == 1
    )
    assert [app.final_status for app in cluster.yarn.apps.values()] == ["SUCCEEDED", "UNDEFINED"]


def test_a_run_whose_post_uploads_jars_is_not_over(cluster: FakeCluster) -> None:
    steps = cluster.yarn.creating(USER, json.loads(THEIRS))
    next(steps)
    next(steps)
    cluster.clock.after(60, partial(next, steps))
    client = cluster.client(USER)
    held = held_by(
        client, NAME, user=USER, settle_s=IN_FLIGHT_S, copy=FakeCopy(cluster.yarn, USER, NAME)
    )
    assert held.app is not None


def test_a_job_that_is_over_is_seen_at_once_on_hadoop_that_hides_its_id() -> None:
    cluster = FakeCluster(version=(3, 1, 3))
    cluster.yarn.job_s = 1.0
    submitting(cluster)
    cluster.clock.sleep(30)
    begun = cluster.clock()
    held = held_by(
        cluster.client(USER),
        NAME,
        user=USER,
        settle_s=IN_FLIGHT_S,
        copy=FakeCopy(cluster.yarn, USER, NAME),
    )
    assert held.app is None
    assert cluster.clock() - begun < 1


def test_nothing_is_posted_while_a_delete_may_be_on_its_way(cluster: FakeCluster) -> None:
    """Its answer was lost, and it arrives a minute later."""
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7)
    serve, deletes = cluster.rms[0].serve, count(1)

    def late(asked: Asked) -> Answer:
        if asked.method == "DELETE" and next(deletes) == 1:
            cluster.clock.after(100, partial(serve, asked))
            raise connection_broke()
        return serve(asked)

    cluster.rms[0].serve = late  # type: ignore[method-assign]
    done = submitting(cluster, wait_s=900)
    assert ran(cluster) == [done.application_id]
    assert cluster.yarn.apps[done.application_id].state == "RUNNING"


def test_a_run_that_another_client_has_replaced_is_not_deleted(cluster: FakeCluster) -> None:
    cluster.yarn.job_s = 1.0
    submitting(cluster)
    cluster.clock.sleep(30)
    client = cluster.client(USER)
    held = held_by(client, NAME, user=USER)
    assert client.delete_service(NAME)
    cluster.yarn.job_s = None
    theirs = submit(client, THEIRS, name=NAME, user=USER, submission_id="theirs")
    delete_ended(client, NAME, held, user=USER, copy=None, deadline=client.deadline(60))
    cluster.clock.sleep(10)
    assert cluster.yarn.apps[theirs.application_id].state == "RUNNING"
