"""A service whose file was opened and never written, because the ResourceManager died in between (seen): it can never run."""

from __future__ import annotations

import json

import pytest

from submit_tf_job.errors import NameTaken, NoSuchJob
from submit_tf_job.yarn.client import ServiceUnreadable
from submit_tf_job.yarn.stopping import delete, stop
from submit_tf_job.yarn.submit import Submitted, submit
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.yarn import Stored
from tests.unit.test_yarn_submit_machine import BODY, ID, NAME, USER


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster("rm1:8088", "rm2:8088")


def _submit(cluster: FakeCluster) -> Submitted:
    return submit(cluster.client(USER), BODY, name=NAME, user=USER, submission_id=ID)


@pytest.mark.parametrize("step", [1, 3])
def test_a_submission_clears_what_its_dying_server_left_and_runs_once(cluster: FakeCluster, step: int) -> None:
    start = cluster.clock()
    for rm in cluster.rms:
        rm.die_in_post, rm.tears = step, True
        break
    done = _submit(cluster)
    assert done.posts == 2
    cluster.clock.sleep(20)
    assert [app.id for app in cluster.yarn.ran(USER, NAME)] == [done.application_id]
    assert not [app for app in cluster.yarn.live(USER, NAME) if app.id != done.application_id]
    assert cluster.clock() - start < 80


def test_one_that_a_dead_client_left_behind_is_cleared_by_the_next_command(cluster: FakeCluster) -> None:
    cluster.yarn.tear(USER, json.loads(BODY))
    done = _submit(cluster)
    assert (done.posts, done.adopted) == (1, False)


def test_it_is_left_alone_while_an_application_of_that_name_runs(cluster: FakeCluster) -> None:
    theirs = cluster.yarn.submit_app(USER, json.loads(BODY))
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), theirs.id)
    cluster.clock.sleep(6)
    cluster.yarn.services[USER, NAME].torn = True
    with pytest.raises(NameTaken, match=f"is taken by {theirs.id}"):
        _submit(cluster)
    assert theirs.state == "RUNNING"
    stopped = stop(cluster.client(USER), user=USER, name=NAME)
    assert stopped is not None
    assert theirs.state == "KILLED", "its ApplicationMaster cannot be asked through the services API any more"


def test_it_says_what_it_is_and_can_be_deleted(cluster: FakeCluster) -> None:
    cluster.yarn.tear(USER, json.loads(BODY))
    client = cluster.client(USER)
    with pytest.raises(ServiceUnreadable) as caught:
        client.get_service(NAME)
    assert caught.value.message == f"The stored service {NAME} is cut off: a ResourceManager died while it wrote it, and it can never run."
    assert caught.value.hint == f"Delete it: submit_tf_job delete {NAME}"
    assert delete(client, NAME, user=USER)
    with pytest.raises(NoSuchJob):
        client.get_service(NAME)
