"""Sizes and names that the plan limits; what else it refuses is in tests/unit/messages/plan.txt.

tests/property/test_names.py compares names with YARN's own rules.
"""

from __future__ import annotations

import re

import pytest

from submit_tf_job.errors import JobSpecError
from submit_tf_job.plan import Site, plan
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, spec_job


def refused(text: str, site: Site = SITE) -> list[str]:
    """Return the problems of a job, each with N for its long numbers."""
    with pytest.raises(JobSpecError) as caught:
        plan(spec_job(text), site)
    return [re.sub(r"\d{6,}", "N", problem.message) for problem in caught.value.problems]


def test_names_without_room_for_a_run_are_shortened() -> None:
    room = 64 - len("worker-1.-4k3f7qa2.alice.example.com")
    whole, long, other = ("a" * room, "a" * (room + 1), "a" * room + "b")
    runs = [plan(spec_job(f"name: {name}\n"), SITE).run for name in (whole, long, other)]
    assert runs[0][:-9] == whole
    assert re.fullmatch(r"aaaaa[a-z2-7]{3}-[0-9][a-z2-7]{7}", runs[1])
    assert runs[1][:-9] != runs[2][:-9], "the rule depends on the whole name"


@pytest.mark.parametrize(
    ("most", "more", "message"),
    [
        ("command: " + "x" * 100_000, "command: " + "x" * 100_001, "the command has N bytes; put"),
        ("command: " + "x" * 100_000, "command: " + "é" * 50_001, "the command has N bytes; put"),
        ("env: {A: " + "x" * 99_998 + "}", "env: {A: " + "é" * 50_000 + "}", "the value has N byt"),
    ],
)
def test_plan_limits_a_command_and_a_value(most: str, more: str, message: str) -> None:
    plan(spec_job(f"{most}\n"), SITE)
    assert [text[: len(message)] for text in refused(f"{more}\n")] == [message]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "way_out"),
    [
        (SITE, "put long commands into scripts, and long values into files"),
        (SITE_WITHOUT_STAGING, "set hadoop_conf (or staging) in the settings: files then go to HD"),
    ],
)
def test_plan_limits_the_environment_and_the_service(site: Site, way_out: str) -> None:
    def large(values: int) -> str:
        names = ", ".join(f"V{n}: *v" for n in range(values))
        own = f"env: {{V: &v {'x' * 90_000}, {names}}}"
        return f"roles: {{chief: &c {{memory: 1Gi, {own}}}, worker: *c}}\n"

    [told] = refused(large(11), site)
    assert told.startswith(f"the service would have N bytes, and at most N are sent; {way_out}")
    assert "the environment has N bytes; N is the most a task can be given" in refused(large(17))
