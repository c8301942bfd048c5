"""Job files of other systems with random changes: each gives a job, or an error of single lines."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from submit_tf_job.dialects.conversion import convert
from submit_tf_job.errors import JobSpecError
from submit_tf_job.jobspec import Defaults, read
from submit_tf_job.jobspec.files import Host
from submit_tf_job.plan import Site, plan

GOLDEN = Path(__file__).parents[1] / "unit/dialects/golden"
SEEDS = {
    path.name: path.read_text("utf-8")
    for path in sorted(GOLDEN.iterdir())
    if ".job." not in path.name
}
WORDS = (
    *("", " ", "\n", "\t", "-", ":", ",", "{", "}", "[", "]", '"', "'", "<", ">", "&", "#", "|"),
    *("null", "true", "false", "~", "0", "-1", "1e999", "9" * 400, "0x10", "1.5", "NaN", "é", "\0"),
    *("---\n", "...\n", "{{ x }}", "{% if x %}", "$(A)", "${A}", "$$(A)", "%input%", "!!python/x"),
    *("*a", "&a ", "<<: ", "spec:\n", "kind: TFJob\n", "<!DOCTYPE a>", "&amp;", "&a;", "<![CDATA["),
    *("<property><name>tony.x</name></property>", "tony.worker.instances", "../../etc/passwd"),
    *("components", "roles", "hdfs:///a#archive", "::", "a" * 70, "A_B", "-x-", "\u202e", "\x7f"),
)
DEFAULTS = Defaults({"image": "r/tf:1"}, task_memory="1Gi")
SITE = Site("alice", domain="example.com")
LONGEST_S = 20.0


def fuzzed(number: int) -> tuple[str, str]:
    """Return the name and the text of one file; the same for the same number."""
    draw = random.Random(number)
    name = draw.choice(list(SEEDS))
    text = SEEDS[name]
    for _ in range(draw.choice((1, 1, 1, 2, 6))):
        text = _changed(text, draw)
    return draw.choice((name, name, "theirs", "theirs.json", "theirs.yaml")), text


def _changed(text: str, draw: random.Random) -> str:
    begin = draw.randrange(len(text) + 1)
    end = min(len(text), begin + draw.choice((0, 0, 1, 1, 3, 10, 60)))
    kind = draw.randrange(6)
    if kind == 0:
        return text[:begin] + text[end:]
    if kind == 1:
        return text[:begin] + draw.choice(WORDS) + text[end:]
    if kind == 2:
        return text[:begin] + text[begin:end] * draw.choice((2, 3, 30)) + text[end:]
    if kind == 3:
        other = draw.choice(list(SEEDS.values()))
        at = draw.randrange(len(other))
        return text[:begin] + other[at : at + draw.choice((5, 40, 200))] + text[end:]
    lines = text.splitlines(keepends=True)
    first = draw.randrange(len(lines) or 1)
    if kind == 4:
        return "".join(lines[:first] + lines[first + draw.choice((1, 2, 5)) :])
    words = text.split('"')
    words[draw.randrange(len(words))] = draw.choice(WORDS)
    return '"'.join(words)


def check(number: int) -> bool:
    """Read one file; return whether it is a job."""
    name, text = fuzzed(number)
    start = time.process_time()
    try:
        made = convert(read(text, source=name, host=Host(), defaults=DEFAULTS))
        own = convert(read(made.text, source="job.yaml", host=Host(), defaults=DEFAULTS))
        assert own.text == made.text, number
        assert plan(own.job, SITE).body == plan(made.job, SITE).body, number
    except JobSpecError as error:
        messages = [str(problem) for problem in error.problems]
        assert messages, number
        assert all(message.isprintable() for message in messages), (number, messages)
        return False
    finally:
        assert time.process_time() - start < LONGEST_S, number
    return True


@pytest.mark.parametrize(
    "count", [pytest.param(400), pytest.param(100_000, marks=pytest.mark.long)]
)
def test_each_file_is_a_job_or_one_clean_error(count: int) -> None:
    jobs = sum(check(number) for number in range(count))
    assert 0.01 * count < jobs < 0.9 * count
