"""The sandbox's DNS query against a DNS server of the test's own."""

from __future__ import annotations

import socket
import threading

import dns.message
import dns.rrset
import pytest

from submit_tf_job.sandbox import web
from submit_tf_job.sandbox.web import NotWell


def test_ask_dns_returns_code_and_records() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            query, client = server.recvfrom(4096)
            answer = dns.message.make_response(dns.message.from_wire(query))
            answer.answer.append(
                dns.rrset.from_text("w.sandbox.test.", 1, "IN", "A", "127.0.0.1", "10.0.0.7")
            )
            server.sendto(answer.to_wire(), client)

        thread = threading.Thread(target=serve)
        thread.start()
        found = web.ask_dns("127.0.0.1", server.getsockname()[1], "w.sandbox.test")
        thread.join()
    assert (found.code, set(found.records)) == (0, {"127.0.0.1", "10.0.0.7"})  # in any order


def test_ask_dns_says_which_server_does_not_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(NotWell, match=f"127.0.0.1:{port} does not answer"):
            web.ask_dns("127.0.0.1", port, "w.sandbox.test", timeout_s=0.1)
