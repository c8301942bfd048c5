"""Functions for programs that use one cluster: each call makes a client with the settings that the
commands would use, and calls its method of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from submit_tf_job.sdk.client import Client

P = ParamSpec("P")
R = TypeVar("R")


def _of_default_client(method: Callable[Concatenate[Client, P], R]) -> Callable[P, R]:
    """Return a function that makes a client with the settings of the commands at each call, and
    calls the given method of it.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return method(Client(), *args, **kwargs)

    signature = inspect.signature(method)
    without_self = [*signature.parameters.values()][1:]
    vars(call)["__signature__"] = signature.replace(parameters=without_self)
    return call


# Without `plan`: the package `submit_tf_job.plan` has that name.
attach = _of_default_client(Client.attach)
compare = _of_default_client(Client.compare)
history = _of_default_client(Client.history)
jobs = _of_default_client(Client.jobs)
load = _of_default_client(Client.load)
submit = _of_default_client(Client.submit)
