"""Run histories: `python -m tests.histories --class twin --seed 0 --count 500`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.histories.classes import CLASSES
from tests.histories.history import run


def main() -> int:
    """Run what is asked, print the shortest history that fails, and return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--class", dest="kind", choices=[*CLASSES, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="histories of each class")
    parser.add_argument("--trace", action="store_true", help="print every history")
    parser.add_argument("--quiet", action="store_true", help="print no history at all")
    asked = parser.parse_args()
    failed = []
    for kind in CLASSES if asked.kind == "all" else [asked.kind]:
        begun, broken = time.process_time(), Counter[str]()
        for seed in range(asked.seed, asked.seed + asked.count):
            result = run(kind, seed)
            if asked.trace:
                print(result)
            if found := result.broken:
                failed.append(result)
                broken.update(b.promise for b in found)
                print(f"{kind} {seed}: {found[0].promise}: {found[0].words}")
        took_s = time.process_time() - begun
        print(f"{kind}: {asked.count} histories, broken promises: {dict(broken)} ({took_s:.0f} s)")
    if failed and not (asked.quiet or asked.trace):
        print(min(failed, key=lambda result: len(result.trace)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
