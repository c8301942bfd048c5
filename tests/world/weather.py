"""What goes wrong on the way between a client and a ResourceManager, and inside of it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from tests.world.transport import Answer, Asked

__all__ = ["BUDGET_S", "Fate", "Fault", "Weather"]

BUDGET_S = 170.0  # how much longer a request may take on its way and inside its server, altogether

_STEPS = {
    "POST": (
        *("verifyNoLiveAppInRM", "checkAppNotExistOnHdfs", "create file", "write file"),
        *("upload jars", "submitApplication", "after submitApplication"),
    ),
    "DELETE": (
        *("getAppId", "getApplicationReport", "stop", "verifyNoLiveAppInRM"),
        *("delete directory", "clean up registry"),
    ),
    "GET": ("read file", "getApplicationReport", "ask the AM"),
    "PUT": ("getAppId", "getApplicationReport", "stop"),
}


@dataclass(frozen=True)
class Fate:
    """What becomes of one request.

    Attributes:
        kind: `well`; `refused`, `no-connection`: it is not sent; `lost`: it is sent and never
            arrives; `late`: the connection breaks, and the server reads it later; `cut`: it takes
            effect and the connection breaks; `silent`: … and no answer comes; `truncated`: … and
            half of the answer comes; `instead`: a proxy answers and passes nothing on; `over`: it
            takes effect, and a proxy answers something else.
        after_s: How much later it arrives, or when the connection breaks or the proxy answers;
            None: when the server has answered.
        status: What the proxy answers.
        answer: What is answered in its place.
        slow: Steps of its server that take longer.
    """

    kind: str = "well"
    after_s: float | None = 0.0
    status: int = 0
    slow: dict[str, float] = field(default_factory=dict)
    answer: Answer | None = None


@dataclass
class Fault:
    """What becomes of the next request that fits.

    Attributes:
        kind: Of `Fate`'s.
        method: Which requests it fits.
        path: Pattern of their paths.
        answer: What is answered instead, or over it; without one a proxy answers.
    """

    kind: str
    method: str = ""
    path: str = ""
    answer: Answer | None = None

    def fits(self, asked: Asked) -> bool:
        """Whether it happens to this request."""
        return self.method in ("", asked.method) and re.search(self.path, asked.path) is not None

    @property
    def fate(self) -> Fate:
        """What becomes of the request."""
        return Fate(self.kind, 6.0 if self.kind == "late" else None, 502, answer=self.answer)


@dataclass(frozen=True)
class Weather:
    """How likely each trouble is for one request.

    Attributes:
        writes: How many times as likely it is for POST, PUT and DELETE.
        dies: That the server's process dies during a POST or DELETE.
        statuses: What proxies answer.
        after_post: Whether nothing goes wrong before the first service is posted.
        stalls: That a POST's server stands still between its check of the name and its first write.
    """

    refused: float = 0.0
    no_connection: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    cut: float = 0.0
    silent: float = 0.0
    truncated: float = 0.0
    instead: float = 0.0
    over: float = 0.0
    slow: float = 0.0
    dies: float = 0.0
    unread: float = 0.0
    writes: float = 1.0
    statuses: tuple[int, ...] = (502, 504)
    after_post: bool = False
    stalls: float = 0.0

    def fate(self, rng: random.Random, method: str) -> Fate:
        """Draw what becomes of a request."""
        times = 1.0 if method == "GET" else self.writes
        kinds = {
            "refused": self.refused,
            "no-connection": self.no_connection,
            "lost": self.lost * times,
            "late": self.late * times,
            "cut": self.cut * times,
            "silent": self.silent * times,
            "truncated": self.truncated,
            "instead": self.instead,
            "over": self.over * times,
        }
        left = BUDGET_S
        chance, kind = rng.random(), "well"
        for name, likely in kinds.items():
            chance -= likely
            if chance < 0:
                kind = name
                break
        after_s = 0.0
        if kind == "late":
            after_s = min(rng.choice((0.5, 3.0, 10.0, 40.0, 100.0, 160.0)) * rng.random(), left)
            left -= after_s
        elif kind in ("cut", "over"):
            after_s = rng.choice((0.0, 0.1, 0.5, 2.0, 60.0)) * rng.random()
        slow = self._slow(rng, method, left * rng.random(), times)
        if self.stalls and method == "POST" and rng.random() < self.stalls:
            slow["mkdirs"] = rng.choice((0.05, 0.5, 2.0, 6.0)) * rng.random()
        return Fate(kind, after_s, rng.choice(self.statuses), slow)

    def _slow(
        self, rng: random.Random, method: str, budget_s: float, times: float
    ) -> dict[str, float]:
        slow: dict[str, float] = {}
        if rng.random() >= self.slow * times:
            return slow
        for _ in range(rng.randint(1, 2)):
            seconds = min(rng.choice((1.0, 5.0, 30.0, 160.0)) * rng.random(), budget_s)
            budget_s -= seconds
            slow[rng.choice(_STEPS.get(method, ("validate",)))] = seconds
        return slow
