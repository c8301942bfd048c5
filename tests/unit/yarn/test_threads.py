"""One client asked by many threads at once, as a gateway does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from submit_tf_job.yarn.ha import ResourceManagers

URLS = ("http://rm1:8088", "http://rm2:8088")


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("urls", [URLS[:1], URLS])
def test_no_thread_sees_an_order_that_lacks_a_resource_manager(urls: tuple[str, ...]) -> None:
    rms = ResourceManagers(urls)
    wrong: list[object] = []
    until = time.monotonic() + 0.3

    def answer(url: str) -> None:
        while time.monotonic() < until and not wrong:
            try:
                rms.worked(url)
                seen = rms.urls
            except ValueError as error:
                wrong.append(error)
                continue
            if sorted(seen) != sorted(urls):
                wrong.append(seen)

    threads = [threading.Thread(target=answer, args=(urls[n % len(urls)],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
