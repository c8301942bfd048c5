"""Parse progress from Keras's output: `Epoch 3/10`, then `12/32 [=>...] - ETA: 3s - loss: 0.41`.

Supports the forms of Keras 2 and 3, with bars that are redrawn (carriage returns and backspaces)
and with one line per epoch (`verbose=2`).
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

_ENDS = re.compile("[\n\r\b]+")
_STYLE = re.compile("\x1b\\[[0-9;]*m")  # Keras 3 colours its bar
_EPOCH = re.compile(r"Epoch (\d{1,9})/(\d{1,9})\b")
_BATCH = re.compile(r"(\d{1,12})/(\d{1,12}|Unknown)\s")
_METRIC = re.compile(r" - ([A-Za-z_][\w./-]{0,99}): (-?\d[\d.e+-]{0,30}|nan|inf)(?=\s|$)")


class Keras:
    """Parses Keras's output, and keeps the epoch between two reads."""

    def __init__(self) -> None:
        self._epoch = self._epochs = 0
        self._metrics: dict[str, float] = {}

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the last progress in these whole lines, or None if they contain none."""
        found = None
        for line in _ENDS.split(text):
            found = self._line(_STYLE.sub("", line).strip()) or found
        return found

    def _line(self, line: str) -> dict[str, Any] | None:
        epoch, batch = _EPOCH.match(line), _BATCH.match(line)
        done = 0.0
        if epoch and 0 < int(epoch.group(1)) <= int(epoch.group(2)):
            self._epoch, self._epochs = int(epoch.group(1)), int(epoch.group(2))
        elif batch and self._epochs:
            if batch.group(2).isdigit() and int(batch.group(2)):
                done = min(1.0, int(batch.group(1)) / int(batch.group(2)))
        else:
            return None
        metrics: dict[str, float] = {}
        for name, value in _METRIC.findall(line):
            with contextlib.suppress(ValueError):
                metrics[name] = float(value)
        if batch and not metrics:
            return None  # any program may print `3/10 `
        # keep the last epoch's metrics when the next begins
        self._metrics = metrics or self._metrics
        part = (self._epoch - 1 + done) / self._epochs
        return {
            "step": self._epoch,
            "total": self._epochs,
            "unit": "epoch",
            "part": round(part, 6),
            "metrics": self._metrics,
        }
