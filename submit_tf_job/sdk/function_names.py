"""Name the jobs of function calls after the user's script and function."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from submit_tf_job.jobspec.kinds import as_label

__all__ = ["as_label", "call_name"]

_LONGEST = 24  # of the words: YARN's host names have the job's name, the user and the domain
_calls: Counter[str] = Counter()
_counting = threading.Lock()


def call_name(function: Callable[..., Any], user: str) -> str:
    """Return the name of the next call's job, such as `train-3f2a`, and `train-3f2a-2` for the
    second call of the function in this process.

    The same script gives the same names when it is started again, so that its jobs are found. Two
    scripts, or two users, do not share a name.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    script = Path(file).resolve() if file else Path.cwd()
    process = getattr(sys.modules.get("multiprocessing.process"), "current_process", None)
    worker = (
        process().name if process else "MainProcess"
    )  # a pool's workers make calls of their own
    own_name = _name_of(function)
    made_of = (user, str(script), getattr(function, "__module__", ""), own_name, worker)
    words = (
        [as_label(script.parent.name if script.stem == "__main__" else script.stem)] if file else []
    )
    if as_label(own_name) not in words:
        words.append(as_label(own_name))
    text = "-".join(words)[:_LONGEST].strip("-")
    if not text[:1].isalpha():
        text = f"call-{text}".rstrip("-")
    name = f"{text}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:4]}"
    with _counting:
        _calls[name] += 1
        number = _calls[name]
    return name if number == 1 else f"{name}-{number}"


def _name_of(function: Callable[..., Any]) -> str:
    called = getattr(function, "func", function)  # of functools.partial
    return str(getattr(called, "__name__", None) or type(called).__name__)
