"""The addresses of all tasks, packed for everybody."""

from __future__ import annotations

import base64
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.container.wire import ChannelClosed, pack_addresses, unpack_addresses

ADDRESS = st.ip_addresses(v=4).map(str)


@given(st.lists(st.none() | ADDRESS, max_size=40), st.integers(0, 3))
def test_each_task_keeps_its_address_and_tasks_without_one_are_left_out(
    given_addresses: list[str | None], others: int
) -> None:
    tasks = [f"worker-{index}" for index in range(len(given_addresses))]
    addresses = {
        task: address for task, address in zip(tasks, given_addresses, strict=True) if address
    }
    strangers = {f"stranger-{index}": "10.0.0.1" for index in range(others)}
    packed = pack_addresses(tasks, {**addresses, **strangers})
    assert unpack_addresses(tasks, packed) == addresses


def test_ten_thousand_tasks_on_five_hundred_nodes_take_two_bytes_each() -> None:
    tasks = [f"worker-{index}" for index in range(10_000)]
    nodes = [f"10.20.{n >> 8}.{n & 255}" for n in range(500)]
    addresses = dict(zip(tasks, Random(1).choices(nodes, k=len(tasks)), strict=True))
    assert len(pack_addresses(tasks, addresses)) < 2 * len(tasks)
    assert len(pack_addresses(tasks, {})) < 100, "names that all resolve cost nothing"
    every = {task: f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n, task in enumerate(tasks * 7)}
    assert unpack_addresses(tasks, pack_addresses(tasks, every)) == every


@pytest.mark.parametrize(
    "packed",
    [
        "?",
        "AAAA",
        base64.b64encode(zlib.compress(b"10.0.0.1\0\0\0\2")).decode(),
        base64.b64encode(zlib.compress(b"\xff\0\0\0\0")).decode(),
    ],
)
def test_something_else_ends_the_connection(packed: str) -> None:
    with pytest.raises(ChannelClosed):
        unpack_addresses(["worker-0"], packed)
