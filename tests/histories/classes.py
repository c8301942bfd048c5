"""Classes of histories: which cluster, which weather, and who does what, all drawn from one
seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from submit_tf_job.yarn.run_names import Again
from tests.histories.people import GROWS, Order, Person
from tests.world.weather import Weather
from tests.world.yarn import Site, Yarn

__all__ = ["CLASSES", "Script"]


@dataclass(frozen=True)
class Script:
    """One history before it happens.

    Attributes:
        storm_s: How long things go wrong.
        troubles: What happens to servers, and when.
        refused: Whether YARN itself refuses the first person's job.
        collides: Whether the names of runs depend on their numbers alone.
    """

    site: Site
    weather: Weather
    people: tuple[Person, ...]
    storm_s: float
    troubles: tuple[tuple[float, Callable[[Yarn], None]], ...] = ()
    refused: bool = False
    collides: bool = False


VERSIONS = ((3, 4, 2), (3, 4, 2), (3, 3, 5), (3, 2, 1), (3, 1, 3))
Make = Callable[[random.Random], Script]


def _site(rng: random.Random) -> Site:
    version = rng.choice(VERSIONS)
    return Site(
        version=version,
        servers=rng.choice((1, 2, 2, 2)),
        linger_s=rng.choice((3.0, 25.0, 30.0)),
        jars_in_service=rng.random() < 0.5,
        jars_s=rng.choice(((0.1, 1.0), (0.1, 1.0), (5.0, 30.0))),
        queue_s=rng.choice(((0.5, 5.0), (0.5, 5.0), (20.0, 200.0))),
        job_s=rng.choice(((1.0, 10.0), (30.0, 60.0), (60.0, 200.0), (600.0, 900.0))),
        hdfs=rng.random() < 0.6 or version < (3, 3),  # 3.1 and 3.2 need a staging directory
        am_answers=rng.random() < 0.95,
        fails=rng.choice((0.0, 0.3)),
        recovers_s=rng.choice((0.5, 0.5, 3.0)),
        poll_s=rng.choice(((1.0, 15.0), (5.0, 60.0), (5.0, 60.0), (5.0, 60.0))),
    )


def _key(rng: random.Random) -> tuple[str | None, Again | None]:
    """Return a command's key, and whether it is run again: by hand, by cron, by Airflow."""
    return rng.choice(
        ((None, None), (None, None), ("cron-1", None), ("dag-1", Again.AFTER_FAILURE))
    )


def _person(rng: random.Random, name: str, **values: object) -> Person:
    key, again = _key(rng)
    program = "first" if name == "anna" else "second"
    key = key and f"{program}-{key}"
    orders = [Order("submit", watch=rng.random() < 0.5)]
    return replace(Person(name, program, orders, key, again), **values)  # type: ignore[arg-type]


def _twin(rng: random.Random, person: Person, orders: list[Order]) -> Person:
    """Return another process that gives the same command."""
    starts_s = person.starts_s + _beside(rng)
    return replace(person, name="twin", orders=orders, starts_s=starts_s, reports=[])


def _beside(rng: random.Random) -> float:
    """Return when a second person begins: near enough to meet the first one's requests."""
    return rng.choice((0.0, 0.02, 0.05, 0.5, 2.0, 10.0, 60.0)) * rng.random()


def calm(rng: random.Random) -> Script:
    """Nothing goes wrong but that requests take their time."""
    verbs = rng.choice(
        (["submit"], ["submit", "submit"], ["submit", "delete", "submit"], ["submit"] * 4)
    )
    orders = [Order(verb) for verb in verbs]
    return Script(_site(rng), Weather(), (_person(rng, "anna", orders=orders),), 100.0)


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
    return Script(site, weather, (_person(rng, "anna"),), rng.choice((60.0, 300.0)))


def twin(rng: random.Random) -> Script:
    """Two schedulers give the same command."""
    anna = _person(rng, "anna", dies=0.2)
    people = (anna, _twin(rng, anna, [Order("submit")]))
    return Script(_site(rng), _dying(rng), people, rng.choice((60.0, 300.0)))


def overtaken(rng: random.Random) -> Script:
    """Servers stand still between their check of a name and their first write, so that two POSTs of
    it are accepted.
    """
    anna = _person(rng, "anna")
    people = [anna]
    for number in range(rng.randint(1, 2)):
        starts_s = anna.starts_s + rng.choice((0.02, 0.2, 1.0)) * rng.random() + 8.0 * number
        orders = [Order("submit", watch=rng.random() < 0.5)]
        people.append(
            replace(anna, name=f"anna{number}", orders=orders, starts_s=starts_s, reports=[])
        )
    storm_s = rng.choice((60.0, 300.0))
    # another standstill or a client that dies may let both run (docs/verdict.md)
    site = replace(_site(rng), jars_s=(0.1, 1.0))
    return Script(site, Weather(stalls=0.6), tuple(people), storm_s)


def rival(rng: random.Random) -> Script:
    """Somebody submits the job with other settings at the same time."""
    bert = _person(rng, "bert", starts_s=_beside(rng), dies=0.15)
    people = (_person(rng, "anna", dies=0.15), bert)
    return Script(_site(rng), _dying(rng), people, rng.choice((60.0, 300.0)))


def collision(rng: random.Random) -> Script:
    """Two submissions have the same names for their runs."""
    script = rival(rng)
    site = replace(script.site, hdfs=True)
    return replace(script, site=site, weather=replace(script.weather, unread=0.0), collides=True)


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
    return Script(_site(rng), weather, (_person(rng, "anna"),), storm_s, refused=refused)


def failover(rng: random.Random) -> Script:
    """ResourceManagers die, lose their leadership, stand still."""
    weather = replace(_troubled(rng), dies=rng.choice((0.1, 0.4)))
    person = _person(rng, "anna", dies=0.15)
    return Script(_site(rng), weather, (person,), 300.0, _troubles(rng, 300.0, 5))


def late(rng: random.Random) -> Script:
    """Requests arrive late, and their servers take minutes over them."""
    weather = Weather(late=0.15, silent=0.1, cut=0.05, slow=0.5, dies=0.15, writes=2.0)
    person = _person(rng, "anna", dies=0.3, freezes=0.3)
    return Script(_site(rng), weather, (person,), rng.choice((60.0, 300.0)))


def torn(rng: random.Random) -> Script:
    """What is seen is half written, or of different ages."""
    site = _site(rng)
    weather = Weather(cut=0.05, late=0.03, slow=0.5, dies=0.15, unread=0.3, writes=2.0)
    return Script(
        site, weather, (_person(rng, "anna", dies=0.15),), 200.0, _troubles(rng, 200.0, 2)
    )


def retention(rng: random.Random) -> Script:
    """Many short runs, one after the other, and what removes the old ones beside them."""
    site = replace(_site(rng), job_s=rng.choice(((1.0, 10.0), (1.0, 10.0), (30.0, 60.0))))
    orders = [Order("submit", watch=rng.random() < 0.8) for _ in range(rng.randint(4, 7))]
    anna = _person(
        rng, "anna", orders=orders, gap_s=rng.choice(((0.1, 1.0), (0.5, 30.0))), dies=0.1
    )
    if rng.random() < 0.7:
        anna = replace(anna, key=None, again=None)
    verbs = rng.sample(("gc", "gc", "delete", "delete-run", "submit"), rng.randint(0, 2))
    starts_s = rng.choice((1.0, 20.0, 200.0)) * rng.random()
    others = [Order(verb) for verb in verbs]
    people = (anna, _person(rng, "bert", orders=others, starts_s=starts_s))
    return Script(site, rng.choice((Weather(), _troubled(rng))), people, 300.0)


def deleted(rng: random.Random) -> Script:
    """Runs are stopped and deleted while POSTs are late."""
    site = replace(_site(rng), job_s=rng.choice(((1.0, 10.0), (1.0, 10.0), (60.0, 200.0))))
    verbs = ["submit", rng.choice(("delete", "stop", "delete-run", "force-delete")), "submit"]
    orders = [Order(verb, watch=rng.random() < 0.5) for verb in verbs]
    anna = _person(rng, "anna", orders=orders, gap_s=rng.choice(((0.1, 1.0), (0.5, 30.0))))
    verb = rng.choice(("submit", "delete", "force-delete", "stop"))
    starts_s = rng.choice((1.0, 20.0, 60.0)) * rng.random()
    people = (anna, replace(_twin(rng, anna, [Order(verb)]), starts_s=starts_s))
    late = Weather(late=0.3, cut=0.1, slow=0.3, writes=2.0)
    weather = rng.choice((late, late, _troubled(rng)))
    return Script(site, weather, people, 300.0, _troubles(rng, 300.0, 1))


def forgetting(rng: random.Random) -> Script:
    """A ResourceManager forgets what has ended."""
    script = rng.choice((calm, twin, rival, failover, retention))(rng)
    return replace(script, site=replace(script.site, remembers=rng.choice((0, 0, 1, 2))))


def lineage(rng: random.Random) -> Script:
    """Two follow a job that runs out of memory, and submit it again with more (`retries.memory`);
    some processes die, and the same command is given again.
    """
    site = replace(
        _site(rng),
        hdfs=True,  # else nobody knows how often it was submitted again, once its AM has gone
        fails=rng.choice((0.5, 1.0)),
        job_s=rng.choice(((1.0, 10.0), (30.0, 60.0))),
    )
    orders = [Order("submit")] * rng.randint(1, 3)
    anna = _person(rng, "anna", program=GROWS, orders=orders, dies=0.3, freezes=0.1)
    weather = rng.choice((Weather(), _dying(rng), _troubled(rng)))
    people = (anna, _twin(rng, anna, orders[:1]))
    return Script(site, weather, people, 300.0, _troubles(rng, 300.0, 1))


def mixed(rng: random.Random) -> Script:
    """Everything at once."""
    site = _site(rng)
    weather = replace(
        _troubled(rng),
        refused=rng.choice((0.0, 0.1)),
        instead=rng.choice((0.0, 0.05)),
        after_post=rng.random() < 0.7,
        unread=rng.choice((0.0, 0.2)),
        dies=rng.choice((0.0, 0.2)),
        statuses=(401, 403, 502, 504),
    )
    anna = _person(rng, "anna", dies=0.2, freezes=0.1)
    bert = _person(rng, "bert", starts_s=_beside(rng), dies=0.2, freezes=0.1)
    bert.orders[0] = Order(rng.choice(("submit", "submit", "delete", "gc")))
    others = rng.sample([_twin(rng, anna, [Order("submit")]), bert], rng.randint(0, 2))
    return Script(site, weather, (anna, *others), 300.0, _troubles(rng, 300.0, 3))


def adopters(rng: random.Random) -> Script:
    """Several processes submit two versions of a job at once, and most of them do not follow it."""
    weather = rng.choice((Weather(), Weather(), _dying(rng), _troubled(rng)))
    people: list[Person] = []
    for name in ("anna", "bert"):
        first = _person(rng, name, starts_s=_beside(rng), dies=rng.choice((0.0, 0.1)))
        people.append(first)
        for number in range(rng.randint(1, 3)):
            orders = [Order("submit", watch=rng.random() < 0.2)]
            people.append(replace(_twin(rng, first, orders), name=f"{name}{number}"))
    troubles = _troubles(rng, 60.0, 1)
    return Script(_site(rng), weather, tuple(people), rng.choice((60.0, 300.0)), troubles)


def blank_leader(rng: random.Random) -> Script:
    """A ResourceManager that has just started lists nothing for a while."""
    made = (flap, twin, rival, failover, torn, retention, deleted, lineage, mixed, adopters)
    script = rng.choice(made)(rng)
    # one that may lead at once lists all within a few seconds (hadoop-facts.md#failover)
    long_s = rng.choice((3.0, 20.0, 50.0)) if script.site.servers == 1 else 3.0
    site = replace(script.site, lists_nothing=True, recovers_s=rng.choice((1.0, long_s)))
    troubles = (*script.troubles, *_troubles(rng, script.storm_s, 4))
    return replace(script, site=site, troubles=tuple(sorted(troubles, key=lambda one: one[0])))


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
) -> tuple[tuple[float, Callable[[Yarn], None]], ...]:
    def one() -> Callable[[Yarn], None]:
        kind = rng.choice(("crash", "depose", "stall"))
        which, seconds = rng.randint(0, 1), rng.uniform(6.0, 40.0)

        def happen(cluster: Yarn) -> None:
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


_MADE: list[Make] = [calm, flap, twin, rival, lost_then_refused, failover, late, torn, collision]
_MADE += [overtaken, retention, deleted, forgetting, lineage, mixed, adopters, blank_leader]
CLASSES: dict[str, Make] = {make.__name__.replace("_", "-"): make for make in _MADE}
