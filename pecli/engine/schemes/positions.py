"""How far positions go."""

from __future__ import annotations

from pecli.errors import ParameterError

LAST_POSITION = 2**40
"""Positions go up to this."""


def check_last(offset: int, count: int) -> None:
    """Refuse a table that goes on beyond the last position."""
    if offset + count - 1 > LAST_POSITION:
        raise ParameterError("offset", offset, "the last position must be at most 2^40")
