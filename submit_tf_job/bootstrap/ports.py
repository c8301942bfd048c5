"""Ports: taken or free."""

from __future__ import annotations

import socket
import time

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from submit_tf_job.bootstrap.child import Signals

PATIENCE_S = 2.0  # an earlier attempt of the same task may be about to go


def listen(port: int, whose: str, node: str, signals: Signals) -> socket.socket:
    """Listen at a port of every address under the rules of TensorFlow's gRPC: SO_REUSEADDR, no SO_REUSEPORT.

    Raises:
        Problem: Somebody else listens there.
    """
    end = time.monotonic() + PATIENCE_S
    while True:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("0.0.0.0", port))  # noqa: S104  (peers are other hosts)
            sock.listen(1024)
            return sock
        except OSError as err:
            sock.close()
            if time.monotonic() >= end or signals.stop():
                text = "port %d of %s cannot be used on host %s: %s" % (port, whose, node, err.strerror or err)
                raise Problem(contract.EXIT_PORT_IN_USE, "port-in-use", text) from err
            time.sleep(0.1)
