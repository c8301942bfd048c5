"""Classes of histories: which cluster, which weather, and who does what, all drawn from one
seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.histories.hadoop import Cluster, Site
from tests.histories.people import GROWS, Order, Person
from tests.histories.weather import Weather

__all__ = ["CLASSES", "Script", "script_of"]


@dataclass(frozen=True)
class Script:
    """One history before it happens.

    Attributes:
        storm_s: How long things go wrong.
        troubles: What happens to servers, and when.
        refused: Whether YARN itself refuses the first person's job.
    """

    site: Site
    weather: Weather
    people: tuple[Person, ...]
    storm_s: float
    troubles: tuple[tuple[float, Callable[[Cluster], None]], ...] = ()
    refused: bool = False


VERSIONS = ((3, 4, 2), (3, 4, 2), (3, 3, 5), (3, 2, 1), (3, 1, 3))
Make = Callable[[random.Random], Script]


def _site(rng: random.Random) -> Site:
    return Site(
        version=rng.choice(VERSIONS),
        servers=rng.choice((1, 2, 2, 2)),
        linger_s=rng.choice((3.0, 25.0, 30.0)),
        jars_in_service=rng.random() < 0.5,
        jars_s=rng.choice(((0.1, 1.0), (0.1, 1.0), (5.0, 30.0))),
        queue_s=rng.choice(((0.5, 5.0), (0.5, 5.0), (20.0, 200.0))),
        job_s=rng.choice(((1.0, 10.0), (30.0, 60.0), (60.0, 200.0), (600.0, 900.0))),
        hdfs=rng.random() < 0.6,
        am_answers=rng.random() < 0.95,
        fails=rng.choice((0.0, 0.3)),
    )


def _cached(rng: random.Random, site: Site) -> Site:
    """Give a site of 3.4 the applications cache, in some histories."""
    cache_s = rng.choice((0.0, 10.0, 30.0))
    return replace(site, cache_s=cache_s) if site.version >= (3, 4) else site


def _anna(rng: random.Random, verb: str = "submit", **values: object) -> Person:
    person = Person("anna", "first", [Order(verb, watch=rng.random() < 0.5)])
    return replace(person, **values)  # type: ignore[arg-type]


def _bert(rng: random.Random, verb: str = "submit", **values: object) -> Person:
    person = Person("bert", "second", [Order(verb, watch=rng.random() < 0.5)])
    return replace(person, **values)  # type: ignore[arg-type]


def _beside(rng: random.Random) -> float:
    """Return when a second person begins: near enough to meet the first one's requests."""
    return rng.choice((0.0, 0.05, 0.5, 2.0, 10.0, 60.0)) * rng.random()


def calm(rng: random.Random) -> Script:
    """Nothing goes wrong but that requests take their time."""
    verbs = rng.choice((["submit"], ["submit", "submit"], ["submit", "delete", "submit"]))
    orders = [Order(verb) for verb in verbs]
    return Script(_site(rng), Weather(), (_anna(rng, orders=orders),), 100.0)


def flap(rng: random.Random) -> Script:
    """Connections are refused now and then while the process behind them lives."""
    weather = Weather(
        refused=rng.choice((0.05, 0.2, 0.5)),
        no_connection=0.03,
        lost=0.02,
        cut=0.1,
        silent=0.03,
        late=0.05,
        slow=rng.choice((0.05, 0.3)),
        dies=rng.choice((0.0, 0.2)),
        writes=3.0,
    )
    site = replace(_site(rng), jars_s=rng.choice(((0.1, 1.0), (5.0, 30.0), (20.0, 90.0))))
    return Script(site, weather, (_anna(rng),), rng.choice((60.0, 300.0)))


def twin(rng: random.Random) -> Script:
    """Two schedulers give the same command."""
    other = Person("twin", "first", [Order("submit")], starts_s=_beside(rng))
    people = (_anna(rng, dies=0.2), replace(other, dies=0.2))
    return Script(_site(rng), _dying(rng), people, rng.choice((60.0, 300.0)))


def rival(rng: random.Random) -> Script:
    """Somebody submits another job of the same name at the same time."""
    people = (_anna(rng, dies=0.15), _bert(rng, starts_s=_beside(rng), dies=0.15))
    return Script(_site(rng), _dying(rng), people, rng.choice((60.0, 300.0)))


def lost_then_refused(rng: random.Random) -> Script:
    """The answer to a POST is lost, and then a proxy refuses everything for a while."""
    weather = Weather(
        cut=0.1,
        silent=0.03,
        over=rng.choice((0.0, 0.1)),
        instead=rng.choice((0.1, 0.4)),
        after_post=True,
        slow=0.1,
        writes=4.0,
        statuses=rng.choice(((401,), (403,), (504,), (200,), (401, 403, 504, 200))),
    )
    storm_s, refused = rng.choice((20.0, 60.0, 300.0)), rng.random() < 0.15
    return Script(_site(rng), weather, (_anna(rng),), storm_s, refused=refused)


def failover(rng: random.Random) -> Script:
    """ResourceManagers die, lose their leadership, stand still."""
    weather = replace(_troubled(rng), dies=rng.choice((0.1, 0.4)))
    person = _anna(rng, dies=0.15)
    return Script(_site(rng), weather, (person,), 300.0, _troubles(rng, 300.0, 5))


def late(rng: random.Random) -> Script:
    """Requests arrive late, and their servers take minutes over them."""
    weather = Weather(late=0.15, silent=0.1, cut=0.05, slow=0.5, dies=0.15, writes=2.0)
    person = _anna(rng, dies=0.3, freezes=0.3)
    return Script(_site(rng), weather, (person,), rng.choice((60.0, 300.0)))


def torn(rng: random.Random) -> Script:
    """What is seen is half written, of different ages, or from a cache."""
    site = _cached(rng, _site(rng))
    weather = Weather(cut=0.05, late=0.03, slow=0.5, dies=0.15, unread=0.3, writes=2.0)
    return Script(site, weather, (_anna(rng, dies=0.15),), 200.0, _troubles(rng, 200.0, 2))


def replace_race(rng: random.Random) -> Script:
    """A name is replaced or deleted while others submit, replace or delete it."""
    site = replace(_site(rng), job_s=rng.choice(((1.0, 10.0), (1.0, 10.0), (60.0, 200.0))))
    first = [Order("submit")]
    first += [Order(rng.choice(("replace", "replace", "delete", "stop", "submit")))]
    first += [Order(rng.choice(("replace", "submit")), watch=rng.random() < 0.5)]
    anna = _anna(rng, orders=first, gap_s=rng.choice(((0.1, 1.0), (0.5, 30.0))))
    people: tuple[Person, ...] = (anna,)
    verb = rng.choice(("", "replace", "submit", "delete", "force-delete", "stop"))
    if verb:
        program = rng.choice(("first", "second"))
        starts_s = rng.choice((1.0, 20.0, 60.0)) * rng.random()
        people = (anna, Person("bert", program, [Order(verb)], starts_s=starts_s))
    weather = rng.choice((Weather(), _troubled(rng)))
    return Script(site, weather, people, 300.0)


def lineage(rng: random.Random) -> Script:
    """Two follow a job that runs out of memory, and submit it again with more (`retries.memory`);
    some processes die, and the same command is given again.

    No POST takes effect after its client has given it up: it would submit the first run again, as
    after any other deletion of a service (the class `replace-race`). Where clients cannot read HDFS
    one follows: nothing else tells it that the DELETE of another one is still under way.
    """
    site = _site(rng)
    site = replace(
        site,
        hdfs=site.hdfs or site.version < (3, 3),  # two bootstraps, which Hadoop cannot store
        fails=rng.choice((0.5, 1.0)),
        job_s=rng.choice(((1.0, 10.0), (30.0, 60.0))),
    )
    orders = [Order("submit")] * rng.randint(1, 3)
    anna = _anna(rng, program=GROWS, orders=orders, dies=0.3, freezes=0.1)
    twin = replace(anna, name="twin", orders=orders[:1], starts_s=_beside(rng), reports=[])
    weather = replace(rng.choice((Weather(), _dying(rng), _troubled(rng))), late=0.0)
    people = (anna, twin) if site.hdfs else (anna,)
    return Script(site, weather, people, 300.0, _troubles(rng, 300.0, 1))


def mixed(rng: random.Random) -> Script:
    """Everything at once."""
    site = _cached(rng, _site(rng))
    weather = replace(
        _troubled(rng),
        refused=rng.choice((0.0, 0.1)),
        instead=rng.choice((0.0, 0.05)),
        after_post=rng.random() < 0.7,
        unread=rng.choice((0.0, 0.2)),
        dies=rng.choice((0.0, 0.2)),
        statuses=(401, 403, 502, 504),
    )
    others = [
        Person("twin", "first", [Order(rng.choice(("submit", "replace")))]),
        Person("bert", "second", [Order(rng.choice(("submit", "replace", "delete")))]),
    ]
    chosen = rng.sample(others, rng.randint(0, 2))
    people = [replace(other, starts_s=_beside(rng), dies=0.2, freezes=0.1) for other in chosen]
    anna = _anna(rng, dies=0.2, freezes=0.1)
    return Script(site, weather, (anna, *people), 300.0, _troubles(rng, 300.0, 3))


def _troubled(rng: random.Random) -> Weather:
    mild = Weather(cut=0.02, silent=0.01, late=0.02, over=0.02, slow=0.1, writes=4.0)
    wild = Weather(
        refused=0.05,
        no_connection=0.02,
        lost=0.05,
        late=0.08,
        cut=0.1,
        silent=0.05,
        truncated=0.02,
        instead=0.05,
        over=0.05,
        slow=0.3,
        dies=0.05,
        unread=0.1,
        writes=2.0,
    )
    return rng.choice((mild, wild))


def _dying(rng: random.Random) -> Weather:
    """Add servers that die in a POST, so that something is left to be cleaned up."""
    return replace(_troubled(rng), dies=rng.choice((0.05, 0.4, 0.8)))


def _troubles(
    rng: random.Random, storm_s: float, most: int
) -> tuple[tuple[float, Callable[[Cluster], None]], ...]:
    def one() -> Callable[[Cluster], None]:
        kind = rng.choice(("crash", "depose", "stall"))
        which, seconds = rng.randint(0, 1), rng.uniform(6.0, 40.0)

        def happen(cluster: Cluster) -> None:
            server = cluster.servers[which % len(cluster.servers)]
            if kind == "crash":
                cluster.crash(server, seconds)
            elif kind == "depose":
                cluster.depose(cluster.active or server)
            else:
                cluster.stall(server, seconds)

        return happen

    when = sorted(rng.choice((10.0, storm_s)) * rng.random() for _ in range(rng.randint(0, most)))
    return tuple((at, one()) for at in when)


CLASSES: dict[str, Make] = {
    "calm": calm,
    "flap": flap,
    "twin": twin,
    "rival": rival,
    "lost-then-refused": lost_then_refused,
    "failover": failover,
    "late": late,
    "torn": torn,
    "replace-race": replace_race,
    "lineage": lineage,
    "mixed": mixed,
}


def script_of(kind: str, rng: random.Random) -> Script:
    """Draw a history of a class."""
    return CLASSES[kind](rng)
