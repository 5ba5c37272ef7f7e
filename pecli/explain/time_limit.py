"""A limit on the processor time of a search: its loops call `check_time`."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

SECONDS = 2.0  # processor time for one reason


@dataclass
class TimeLimit:
    """The processor time at which searches end, in seconds, and whether it has ended one."""

    end: float
    has_ended_search: bool = False


_LIMIT: ContextVar[TimeLimit | None] = ContextVar("limit", default=None)


class OutOfTimeError(Exception):
    """Raised by `check_time`: the search ends with what it has found so far."""


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[TimeLimit]:
    """End searches in the block after some processor time, SECONDS by default.

    A limit inside another one can shorten it, but not extend it: the earlier one holds for both blocks.
    """
    if seconds is None:
        seconds = SECONDS  # read at each call, so that it can be set
    limit = TimeLimit(end=time.process_time() + seconds)
    outer = _LIMIT.get()
    if outer is not None and outer.end <= limit.end:
        limit = outer
    token = _LIMIT.set(limit)
    try:
        yield limit
    finally:
        _LIMIT.reset(token)


@contextmanager
def limited() -> Iterator[None]:
    """Leave the block when the time is up, or when numbers of a file break the arithmetic.

    Verdicts do not depend on searches, so that a search may fail silently; with PECLI_DEBUG in the
    environment, arithmetic errors are raised.
    """
    try:
        with np.errstate(all="ignore"), time_limit():
            yield
    except OutOfTimeError:
        return
    except (ArithmeticError, np.linalg.LinAlgError):
        if os.environ.get("PECLI_DEBUG"):
            raise


def check_time() -> None:
    """Raise OutOfTimeError if the limit has passed."""
    limit = _LIMIT.get()
    if limit is not None and time.process_time() > limit.end:
        limit.has_ended_search = True
        raise OutOfTimeError
