"""Quote a user's text in a message."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*:[^/\s]*@")
_SHOWN = 48


def clip(text: str) -> str:
    """Return a user's text, quoted for a message: on one line, without control characters,
    shortened, and without user and password of a URL.
    """
    text = _CREDENTIALS.sub("…@", text)
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
