"""uvicorn's HTTP connection with time limits for the client: to send the head of a request and the
rest of a body (`IDLE_S`), and to read a response (`UNREAD_S`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from submit_tf_job.gateway.problems import ProblemResponse, RequestRefused

MOST_HEAD = 32 * 1024
PIECE = 4 * 1024  # of a head, which may be so much longer
IDLE_S = 30  # for the head of a request, and for the rest of a body that nobody reads any more
UNREAD_S = 60  # for a client to read what it has asked for


class HttpConnection(H11Protocol):
    """A connection that is closed if its client does not continue in time, and that answers bytes
    which are not a valid request with a problem response.
    """

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _awaited = ""  # the part of a request that has a time limit now

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit_reading()

    def data_received(self, data: bytes) -> None:
        # h11 looks at the size of what is not whole yet, and one read may bring eight times as much
        piece = PIECE if self.conn.their_state is h11.IDLE else len(data) or 1
        for at in range(0, len(data), piece):
            if not self.transport.is_closing():
                super().data_received(data[at : at + piece])
        self._limit_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._limit_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_limit()
        self._read_again()

    # --- what is read -----------------------------------------------------------------------------
    def _limit_reading(self) -> None:
        """Start the time limit for the next part of a request, unless the limit has been started
        already. Cancel the limit if nothing is awaited.

        uvicorn itself would wait forever for a head that arrives slowly or not at all, and for the
        end of a body that the response did not need.
        """
        state, awaited = self.conn.their_state, ""
        if state is h11.IDLE:
            awaited = "head"
        elif state is h11.SEND_BODY and self.cycle.response_complete:
            awaited = "rest of the body"
        if awaited != self._awaited:
            self._cancel_limit()
            self._awaited = awaited
            if awaited:
                self._deadline = self.loop.call_later(IDLE_S, self._close_late)

    def _cancel_limit(self) -> None:
        self._awaited = ""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_late(self) -> None:
        was_head = self._awaited == "head"
        self._cancel_limit()
        if self.transport.is_closing():
            return
        if was_head and self.conn.trailing_data[0]:
            late = RequestRefused("request-timeout", "the head did not arrive in time")
            self._refuse_request(late)
        else:
            self.transport.close()

    # --- what is no request -----------------------------------------------------------------------
    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that h11 cannot parse; this is called while h11's error is handled."""
        error: Any = sys.exc_info()[1]
        is_head = self.cycle is None or self.cycle.response_complete
        if is_head and getattr(error, "error_status_hint", 400) == 431:
            most = f"{MOST_HEAD // 1024} KiB"
            refused = RequestRefused("head-too-large", f"the head is larger than {most}")
        else:
            # without what the client has sent, which may be a token
            reason = re.split(r"""b?['"]""", str(error))[0].strip() or msg
            refused = RequestRefused("not-http", f"this is not HTTP/1.1: {reason}")
        self._refuse_request(refused)

    def _refuse_request(self, refused: RequestRefused) -> None:
        """Respond with a problem, unless a response has begun already, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = ProblemResponse(refused, secrets.token_hex(8))
            status = response.status_code
            headers = [*response.raw_headers, (b"connection", b"close")]
            head = h11.Response(
                status_code=status, headers=headers, reason=HTTPStatus(status).phrase
            )
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    # --- what is written --------------------------------------------------------------------------
    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read, after which the connection is
        aborted; uvicorn itself would wait forever.
        """
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_again()

    def _read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
