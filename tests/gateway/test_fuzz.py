"""Valid and invalid requests generated from the OpenAPI document: every response matches it."""

from __future__ import annotations

import copy
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from submit_tf_job.gateway.app import document, served
from tests.builders.records import write_record
from tests.world.gateway import JOB, World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import GenerationMode, checks
    from schemathesis.specs.openapi import checks as openapi_checks

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="schemathesis's releases for Python 3.10 are older"
)
WANTED = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
)
SETTINGS = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
PATHS = [(path, method) for path, methods in document()["paths"].items() for method in methods]


# schemathesis draws from random, too
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize("examples", [3, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize(("path", "method"), PATHS)
def test_responses_match_the_openapi_document(
    tmp_path: Path, path: str, method: str, examples: int
) -> None:
    world = World(tmp_path, staging=(tmp_path / "staging").as_uri())
    write_record(tmp_path / "staging", "mnist-4aaaaaaa", user="alice")
    if path.endswith("/logs"):
        world.post()
        world.runs_and_writes()
    else:
        world.fake.yarn.site.job_s = (5, 5)
        world.post()
        world.fake.clock.sleep(60)
    begun = len(world.entries)
    described = copy.deepcopy(document())
    streams = described["paths"]["/v1/jobs/{name}/events"]["get"]["responses"]["200"]["content"]
    # a text for clients; here `itemSchema` of OpenAPI 3.2 checks each event
    streams["text/event-stream"] = {"itemSchema": streams["text/event-stream"]["x-itemSchema"]}
    schema: Any = schemathesis.openapi.from_dict(described)
    schema.app = served(world.gateway)
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        _ask_all(world, schema[path][method.upper()], mode, examples)
    answered = Counter(entry["status"] for entry in world.entries[begun:])
    assert answered.total() >= examples, answered
    assert max(answered) < 500, answered
    if examples > 3:  # of three, none may be a request that this cluster can carry out
        assert min(answered) < 300, answered


def _ask_all(world: World, operation: Any, mode: str, examples: int) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(SETTINGS, max_examples=examples)
    def ask(case: Any) -> None:
        # what is there, and what is good beyond the schema
        if mode == GenerationMode.POSITIVE and len(world.entries) % 2:
            if "name" in (case.path_parameters or {}):
                case.path_parameters["name"] = "mnist"
            elif operation.path.endswith("/comparison"):
                case.query = {"run": ["mnist"]}
            elif case.method == "POST":
                case.body, case.media_type = {**JOB, "name": "other"}, "application/json"
        (case.query or {}).pop("follow", None)  # it would have no end
        case.call_and_validate(
            headers={"Authorization": f"Bearer {world.tokens['alice']}"}, checks=WANTED, timeout=600
        )

    ask()
