"""Random cases of `tests/tools/sweep.py`, and what is wrong with them."""

from typing import NamedTuple


class Attempt(NamedTuple):
    """The kind of a random case, and what is wrong with it; empty if nothing is."""

    kind: str
    problem: str = ""
