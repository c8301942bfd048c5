"""A module of the user's own, beside the script; containers do not have it."""

from __future__ import annotations


class Unlucky(Exception):
    """An exception of the user's own."""


def multiply(word: str, times: int) -> str:
    return word * times
