"""The environment variables in which Hadoop's own commands look for the user."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PROXY_USER = "HADOOP_PROXY_USER"
USER_NAME = "HADOOP_USER_NAME"


class _UserName:
    """Sets HADOOP_USER_NAME during a call. Calls for the same user run in parallel; calls for
    another user wait.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._user: str | None = None
        self._calls = 0
        self._before: str | None = None

    def of_caller(self, environ: Mapping[str, str]) -> str:
        """Return the value of the variable in `environ`, without the value that `set_to` has set
        for the moment; "" if it is not set.
        """
        with self._change:
            if self._calls and environ is os.environ:
                return self._before or ""
            return environ.get(USER_NAME, "")

    @contextmanager
    def set_to(self, user: str | None) -> Iterator[None]:
        """Set the variable to a user inside the block, and restore it afterwards; with None, keep
        its value. Wait first until no block with another user is running.
        """
        with self._change:
            self._change.wait_for(lambda: not self._calls or self._user == user)
            if not self._calls:
                self._before = os.environ.get(USER_NAME)
                self._user = user
                self._set_variable(user or self._before)
            self._calls += 1
        try:
            yield
        finally:
            with self._change:
                self._calls -= 1
                if not self._calls:
                    self._set_variable(self._before)
                    self._change.notify_all()

    @staticmethod
    def _set_variable(user: str | None) -> None:
        if user is None:
            os.environ.pop(USER_NAME, None)
        elif os.environ.get(USER_NAME) != user:
            os.environ[USER_NAME] = user


HADOOP_USER_NAME = _UserName()
