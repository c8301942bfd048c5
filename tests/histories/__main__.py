"""Run histories: `python -m tests.histories --class twin --seed 0 --count 500`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

from tests.histories.classes import CLASSES
from tests.histories.history import Result, run


def main() -> int:
    """Run what is asked, print a trace for the first failing seed, and return 1 where one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--class", dest="kind", choices=[*CLASSES, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="histories of each class")
    parser.add_argument("--trace", action="store_true", help="print every history")
    parser.add_argument("--quiet", action="store_true", help="print no trace at all")
    parser.add_argument("--promise", default="", help="look for this promise alone, such as 1")
    parser.add_argument("--short", action="store_true", help="leave reads out of traces")
    parser.add_argument("--races", action="store_true", help="count Hadoop's own races, too")
    asked = parser.parse_args()
    kinds = list(CLASSES) if asked.kind == "all" else [asked.kind]
    failed = [found for kind in kinds for found in _class(kind, asked)]
    if failed and not asked.quiet and not asked.trace:
        print(_text(min(failed, key=lambda result: len(result.trace)), asked))
    return 1 if failed else 0


def _text(result: Result, asked: argparse.Namespace) -> str:
    if not asked.short:
        return str(result)
    lines = tuple(line for line in result.trace if " GET /" not in f" {line.text}")
    return str(replace(result, trace=lines))


def _class(kind: str, asked: argparse.Namespace) -> list[Result]:
    begun, failed, kinds = time.process_time(), [], Counter[str]()
    for seed in range(asked.seed, asked.seed + asked.count):
        result = run(kind, seed)
        if asked.trace:
            print(_text(result, asked))
        broken = [
            b
            for b in result.broken
            if b.promise.startswith(asked.promise) and (asked.races or b.promise[:4] != "race")
        ]
        if broken:
            failed.append(result)
            kinds.update(b.promise for b in broken)
            print(f"{kind} {seed}: {broken[0].promise}: {broken[0].words}")
    took = time.process_time() - begun
    print(
        f"{kind}: {len(failed)} of {asked.count} histories break a promise {dict(kinds)} "
        f"({took:.0f} s)"
    )
    return failed


if __name__ == "__main__":
    sys.exit(main())
