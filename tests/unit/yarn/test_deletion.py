"""Delete a service by its name without ending another run of that name."""

from __future__ import annotations

import json

import pytest

from submit_tf_job.yarn.deletion import delete_ended, held_by
from submit_tf_job.yarn.reconcile import IN_FLIGHT_S, SETTLE_S
from submit_tf_job.yarn.stopping import delete
from submit_tf_job.yarn.submit import submit
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import BODY, ID, NAME, USER
from tests.fakes.stored import FakeCopy
from tests.fakes.transport import Fault
from tests.fakes.yarn import Stored


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def deletes(cluster: FakeCluster) -> int:
    return len([entry for entry in cluster.network.log if entry[1] == "DELETE"])


def run_until_over(cluster: FakeCluster) -> str:
    """Let a job of the name run to its end and return its application."""
    cluster.yarn.job_s = 1.0
    done = submit(cluster.client(USER), BODY, name=NAME, user=USER, submission_id=ID)
    cluster.clock.sleep(30)
    cluster.yarn.job_s = None
    return done.application_id


@pytest.mark.parametrize("torn", [False, True])
def test_delete_measures_a_service_without_application_by_the_file_systems_clock(
    cluster: FakeCluster, torn: bool
) -> None:
    written_ms = cluster.clock.epoch_ms() - int(IN_FLIGHT_S) * 1000
    stored = Stored(json.loads(BODY), torn=torn, edition=written_ms)
    cluster.yarn.services[USER, NAME] = stored
    begun = cluster.clock()
    copy = FakeCopy(cluster.yarn, USER, NAME)
    assert delete(cluster.client(USER), NAME, user=USER, copy=copy)
    assert cluster.clock() - begun < 5


def test_held_by_returns_another_application_than_the_services_own(cluster: FakeCluster) -> None:
    """The service names one that is over, and another of the name lives."""
    first = run_until_over(cluster)
    other = cluster.yarn.submit_app(USER, json.loads(BODY))
    held = held_by(cluster.client(USER), NAME, user=USER)
    assert held.service is not None
    assert held.service.id == first
    assert held.app is not None
    assert held.app.id == other.id


def test_delete_keeps_a_service_that_was_stored_since_it_looked(cluster: FakeCluster) -> None:
    """Neither shows an application, so only the editions of their stored copies differ."""
    copy, client = FakeCopy(cluster.yarn, USER, NAME), cluster.client(USER)
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=7)
    held = held_by(client, NAME, user=USER, settle_s=IN_FLIGHT_S, copy=copy)
    assert (held.app, held.edition) == (None, 7)
    cluster.yarn.services[USER, NAME] = Stored(json.loads(BODY), edition=8)
    deadline = client.deadline(60)
    assert delete_ended(client, NAME, held, user=USER, copy=copy, deadline=deadline)
    assert deletes(cluster) == 0


def test_submit_prepares_a_second_post_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first POST needed may have been removed: its answer was waited for."""
    monkeypatch.setattr("submit_tf_job.yarn.submit._PREPARED_S", SETTLE_S / 2)
    prepared: list[float] = []
    cluster.network.faults += [Fault("lost", "POST")]
    done = submit(
        cluster.client(USER),
        BODY,
        name=NAME,
        user=USER,
        submission_id=ID,
        before=lambda: prepared.append(cluster.clock()),
    )
    assert (done.posts, len(prepared)) == (2, 2)
