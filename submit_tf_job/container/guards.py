"""What an exception may end in a container: never a part that others wait for without their being
told, and never the job, if the part only observes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def in_thread(
    name: str, run: Callable[[], object], failed: Callable[[Exception], object]
) -> threading.Thread | None:
    """Run a function in a daemon thread, without waiting for it. Return the thread; None if no
    thread can be started (the limit of processes, no memory).

    `failed` is called with the exception that ends the function, in the thread, or with the one
    that prevents the start, at once.
    """

    def guarded() -> None:
        try:
            run()
        except Exception as err:  # noqa: BLE001  (whoever waits for the thread is told)
            failed(err)

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    try:
        thread.start()
    except Exception as err:  # noqa: BLE001  (RuntimeError: can't start new thread; MemoryError)
        failed(err)
        return None
    return thread


class Observers:
    """Calls the parts of a bootstrap that only observe. What such a part raises ends neither the
    task nor the job: it is a warning, the first time.
    """

    def __init__(self, warn: Callable[[str], object]) -> None:
        """Keep `warn`, which is called with a sentence."""
        self.warn = warn
        self.failed: set[str] = set()

    def run(self, what: str, call: Callable[..., Any], *args: Any, otherwise: Any = None) -> Any:
        """Return the result of `call` with the arguments `args`; `otherwise` if it raises an
        exception. `what` begins the warning: "the resource usage cannot be measured".
        """
        try:
            return call(*args)
        except Exception as err:  # noqa: BLE001  (whatever it is, the job does not depend on it)
            if what not in self.failed:
                self.failed.add(what)
                self.warn(f"{what}: {err!r}"[:500])
            return otherwise
