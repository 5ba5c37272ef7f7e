"""A limit on the processor time of a search: its loops call `check_time`."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

SECONDS = 2.0  # processor time for one reason
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTimeError(Exception):
    """Raised by `check_time`: the search ends with what it has found so far."""


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[None]:
    """End searches in the block after some processor time, SECONDS by default.

    A limit inside another one can shorten it, but not extend it.
    """
    if seconds is None:
        seconds = SECONDS  # read at each call, so that it can be set
    end = time.process_time() + seconds
    token = _DEADLINE.set(min(_DEADLINE.get(), end))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


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
    if time.process_time() > _DEADLINE.get():
        raise OutOfTimeError
