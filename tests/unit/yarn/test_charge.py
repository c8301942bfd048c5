"""What the ResourceManager charges an application, in the three forms in which versions answer."""

from __future__ import annotations

from typing import Any

import pytest

from submit_tf_job.yarn.observed import AppReport

PLAIN = {"memorySeconds": 4096, "vcoreSeconds": 43}
SEVERAL = [{"key": "memory-mb", "value": "4096"}, {"key": "yarn.io/gpu", "value": "7"}]
CHARGES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "no map": (PLAIN, (4096, 43, 0)),
    "one entry": (
        {**PLAIN, "resourceSecondsMap": {"entry": {"key": "vcores", "value": "43"}}},
        (4096, 43, 0),
    ),
    "several entries": ({**PLAIN, "resourceSecondsMap": {"entry": SEVERAL}}, (4096, 43, 7)),
    "a plain object": (
        {"resourceSecondsMap": {"memory-mb": 4096, "vcores": 43, "yarn.io/gpu": 7}},
        (4096, 43, 7),
    ),
    "nothing": ({"memorySeconds": -1, "resourceSecondsMap": "x"}, (0, 0, 0)),
}


@pytest.mark.parametrize("name", CHARGES)
def test_charge_of_each_form(name: str) -> None:
    answer, wanted = CHARGES[name]
    charge = AppReport.from_json({"id": "application_1_1", "startedTime": 1, **answer}).charge
    assert charge is not None
    assert (charge.memory_mib_s, charge.vcore_s, charge.gpu_s) == wanted
    assert (charge + charge).memory_mib_s == 2 * wanted[0]


def test_charge_of_an_application_that_the_user_may_not_view_is_unknown() -> None:
    answer = {"id": "application_1_1", "startedTime": 0, "memorySeconds": 0, "vcoreSeconds": 0}
    assert AppReport.from_json(answer).charge is None
