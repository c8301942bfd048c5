"""A real standby does what the simulated one does (tests/world/contract.py)."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clusters import Cluster
from tests.tool import until
from tests.world.contract import StandbyContract

pytestmark = pytest.mark.cluster


@dataclass
class Pair:
    """Two ResourceManagers, asked without the tool's client."""

    urls: list[str]
    user: str

    def ask(self, url: str, path: str) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, answer.getheader("Location") or "", said.partition("\n")[0]

    def _in(self, state: str) -> str:
        path = f"/ws/v1/cluster/info?user.name={self.user}"

        def found() -> list[str]:
            return [url for url in self.urls if f'"{state}"' in self.ask(url, path)[2]]

        return str(until(found, f"one is {state}")[0])

    def active(self) -> str:
        return self._in("ACTIVE")

    def asks_standby(self, path: str) -> tuple[int, str, str]:
        return self.ask(self._in("STANDBY"), path)


@pytest.fixture
def world(ha_cluster: Cluster) -> Any:
    return Pair(ha_cluster.info["rm_urls"], ha_cluster.user)


class TestStandby(StandbyContract):
    """A real one."""
