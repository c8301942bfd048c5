"""Answer the tasks that connect while the deciding task still prepares itself, which may take a
long time.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time

from submit_tf_job.container.wire import pack

EVERY_S = 2.0  # a connection hears so often that the deciding task lives
ACCEPTED = 1024  # connections in one turn


class Greeter:
    """A thread that accepts connections while the deciding task is not ready yet, and sends on each
    of them that it is still starting.

    Without such a message, the tasks that connect would take the deciding task for another program
    that uses one of the job's ports. The event loop begins after the preparations; it takes over
    the connections, and the messages that have arrived on them.
    """

    def __init__(self, listener: socket.socket, most: int) -> None:
        """Start the thread. If there are more than `most` connections, the oldest are closed.

        Raises:
            OSError, RuntimeError: There are too many open files, or threads.
        """
        self.listener, self.most = listener, most
        self.taken: list[tuple[socket.socket, str]] = []
        self.told_at = time.monotonic()
        self.over, self.end = socket.socketpair()
        self.thread = threading.Thread(target=self._greet_until_over, name="greeter", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            self.over.close()
            self.end.close()
            raise

    def finish(self) -> list[tuple[socket.socket, str]]:
        """End the thread; return the accepted connections, each with the IP address of its other
        end.
        """
        self.end.close()
        self.thread.join()
        self.over.close()
        return self.taken

    def _greet_until_over(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            selector.register(self.over, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _mask in selector.select(EVERY_S)}
                if self.over in ready:
                    return
                if self.listener in ready:
                    self._accept_all()
                if time.monotonic() >= self.told_at + EVERY_S:
                    self.told_at = time.monotonic()
                    self.taken = [one for one in self.taken if self._takes_message(one[0])]

    def _accept_all(self) -> None:
        for _ in range(ACCEPTED):
            try:
                sock, origin = self.listener.accept()
            except BlockingIOError:
                return
            except OSError:  # there are too many open files
                time.sleep(0.05)
                return
            sock.setblocking(False)
            if self._takes_message(sock):
                self.taken.append((sock, origin[0]))
            if len(self.taken) > self.most:
                self.taken.pop(0)[0].close()

    def _takes_message(self, sock: socket.socket) -> bool:
        """Send the message on a connection; return whether that succeeded, and close the connection
        if not.
        """
        message = pack("preparing")
        try:
            taken = sock.send(message) == len(message)
        except OSError:
            taken = False
        if not taken:
            sock.close()
        return taken
