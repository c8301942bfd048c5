"""A service whose file was opened and not written: for a moment, or for ever because the
ResourceManager died in between (both seen).
"""

from __future__ import annotations

import json

import pytest

from submit_tf_job.errors import ClusterUnavailable, NoSuchJob
from submit_tf_job.yarn.deletion import held_by
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S
from submit_tf_job.yarn.resource_manager import ServiceUnreadable
from submit_tf_job.yarn.stopping import delete, stop
from submit_tf_job.yarn.submit import Submitted, submit
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import BODY, ID, NAME, USER
from tests.fakes.stored import FakeCopy
from tests.fakes.yarn import Stored


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster("rm1:8088", "rm2:8088")


def _submit(cluster: FakeCluster) -> Submitted:
    copy = FakeCopy(cluster.yarn, USER, NAME)
    client = cluster.client(USER)
    return submit(client, BODY, name=NAME, user=USER, submission_id=ID, stored=copy)


@pytest.mark.parametrize("step", [1, 3])
def test_a_submission_clears_what_its_dying_server_left_and_runs_once(
    cluster: FakeCluster, step: int
) -> None:
    start = cluster.clock()
    for rm in cluster.rms:
        rm.die_in_post, rm.tears = step, True
        break
    done = _submit(cluster)
    assert done.posts == 2
    cluster.clock.sleep(20)
    assert [app.id for app in cluster.yarn.ran(USER, NAME)] == [done.application_id]
    assert not [app for app in cluster.yarn.live(USER, NAME) if app.id != done.application_id]
    assert IN_FLIGHT_S <= cluster.clock() - start < IN_FLIGHT_S + 80


def test_one_that_a_dead_client_left_behind_is_cleared_by_the_next_command(
    cluster: FakeCluster,
) -> None:
    cluster.yarn.tear(USER, json.loads(BODY))
    done = _submit(cluster)
    assert (done.posts, done.adopted) == (1, False)


def test_submit_leaves_it_alone_without_hdfs(cluster: FakeCluster) -> None:
    """Two clients that clear it could end each other's run, and nothing arbitrates."""
    cluster.yarn.tear(USER, json.loads(BODY))
    with pytest.raises(ClusterUnavailable, match="is not known: a stored service holds the name"):
        submit(cluster.client(USER), BODY, name=NAME, user=USER, submission_id=ID)
    assert not [entry for entry in cluster.network.log if entry[1] == "DELETE"]


def test_it_is_left_alone_while_an_application_of_that_name_runs(cluster: FakeCluster) -> None:
    theirs = cluster.yarn.submit_app(USER, json.loads(BODY))
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), theirs.id)
    cluster.clock.sleep(6)
    cluster.yarn.services[USER, NAME].torn = True
    with pytest.raises(
        ClusterUnavailable,
        match=f"is not known: {theirs.id} holds the name, and only a part of its service is stored",
    ):
        _submit(cluster)
    assert theirs.state == "RUNNING"
    stopped = stop(cluster.client(USER), user=USER, name=NAME)
    assert stopped is not None
    assert theirs.state == "KILLED", (
        "its ApplicationMaster cannot be asked through the services API any more"
    )


def test_it_says_what_it_is_and_can_be_deleted(cluster: FakeCluster) -> None:
    cluster.yarn.tear(USER, json.loads(BODY))
    client = cluster.client(USER)
    with pytest.raises(ServiceUnreadable) as caught:
        client.get_service(NAME)
    cut = (
        f"The stored service {NAME} is cut off: a ResourceManager is writing it, or died while "
        f"it did, and then it can never run."
    )
    assert caught.value.message == cut
    assert (
        caught.value.hint
        == f"Look again in some seconds; if it is still so, delete it: submit_tf_job delete {NAME}"
    )
    assert delete(client, NAME, user=USER)
    with pytest.raises(NoSuchJob):
        client.get_service(NAME)


def test_a_look_during_a_post_waits_until_the_service_is_written(cluster: FakeCluster) -> None:
    client = cluster.client(USER)
    app = cluster.yarn.submit_app(USER, json.loads(BODY))
    stored = cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), app.id, torn=True)
    cluster.clock.after(1.0, lambda: setattr(stored, "torn", False))
    assert client.get_written_service(NAME).id in (None, app.id)


def test_a_service_that_stays_cut_off_is_told_after_three_seconds(cluster: FakeCluster) -> None:
    cluster.yarn.tear(USER, json.loads(BODY))
    begun = cluster.clock()
    with pytest.raises(ServiceUnreadable, match="is cut off"):
        cluster.client(USER).get_written_service(NAME)
    assert 3 <= cluster.clock() - begun < 4


@pytest.mark.parametrize("step", ["stored", "application", "cut"])
def test_a_name_whose_post_is_at_work_is_held_by_the_application_to_come(
    cluster: FakeCluster, step: str
) -> None:
    client, spec = cluster.client(USER), json.loads(BODY)
    steps = cluster.yarn.creating(USER, spec)
    for _ in range(3 if step == "application" else 2):
        next(steps)
    stored = cluster.yarn.services[USER, NAME]
    stored.torn = step == "cut"

    def go_on() -> None:
        stored.torn = False
        next(steps)

    cluster.clock.after(0.3, go_on)
    if step != "application":
        cluster.clock.after(0.7, lambda: next(steps))
    begun = cluster.clock()
    held = held_by(client, NAME, user=USER, settle_s=10)
    service, app = held.service, held.app
    assert service is not None
    assert app is not None
    assert [app.id] == [live.id for live in cluster.yarn.live(USER, NAME)]
    assert service.id in (None, app.id)
    assert cluster.clock() - begun < 2, "it waited no longer than it had to"


def test_a_name_that_no_application_comes_to_is_held_by_none(cluster: FakeCluster) -> None:
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY))
    begun = cluster.clock()
    assert held_by(cluster.client(USER), NAME, user=USER, settle_s=10).app is None
    assert 10 <= cluster.clock() - begun < 12
    cluster.yarn.services[USER, NAME].torn = True
    held = held_by(cluster.client(USER), NAME, user=USER, settle_s=10)
    assert (held.service, held.app) == (None, None)
