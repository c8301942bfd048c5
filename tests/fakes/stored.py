"""The file system on which the fake YARN keeps its copies of services, as a client with HDFS sees
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from submit_tf_job.container.contract import PROPERTY_SUBMISSION
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.yarn.reconcile import StoredService
from tests.fakes.yarn import Yarn


@dataclass
class FakeCopy:
    """The stored copy of one service.

    Attributes:
        cut: How many more times it is read while a ResourceManager is writing it.
        claimed: Claims that this client has made.
    """

    yarn: Yarn
    user: str
    name: str
    cut: int = 0
    claimed: int = 0

    def read(self) -> StoredService:
        found = self.yarn.services.get((self.user, self.name))
        if found is None:
            raise ClusterUnavailable(f"{self.name}.json: is not there")
        self.cut -= 1
        if found.torn or self.cut >= 0:
            return StoredService(None, edition=found.edition, torn=True)
        return StoredService(
            found.spec["configuration"]["properties"].get(PROPERTY_SUBMISSION),
            found.app_id,
            found.edition,
        )

    def now_ms(self) -> int:
        return self.yarn.clock.epoch_ms()

    def claim(self, edition: int, turn: int) -> bool:
        found = self.yarn.services.get((self.user, self.name))
        if found is None or found.edition != edition or (edition, turn) in found.claims:
            return False
        found.claims[edition, turn] = self.now_ms()
        self.claimed += 1
        return True

    def claimed_ms(self, edition: int, turn: int) -> int | None:
        found = self.yarn.services.get((self.user, self.name))
        return found.claims.get((edition, turn)) if found is not None else None
