"""Requests of a user's own program."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any


def call(method: str, url: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """Send one request, as a user's own tool would."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", "Accept": "application/json"}, method=method
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {"text": error.read().decode(errors="replace")}


def until(what: Callable[[], Any], timeout_s: float = 90) -> Any:
    """Repeat until the answer is true."""
    deadline = time.monotonic() + timeout_s
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.3)
    return answer
