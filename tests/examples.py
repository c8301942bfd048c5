"""How many examples a test with generated input runs."""

from __future__ import annotations

from hypothesis import settings


def examples(full: int) -> int:
    """Return the full number where hypothesis' own default holds, as in `make matrix`, and a fifth
    of it in the profile `gate`.
    """
    return full * settings().max_examples // 100
