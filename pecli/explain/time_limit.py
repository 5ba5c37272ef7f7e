"""A reason is looked for this long and no longer: loops of the search ask whether there is time left."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

SECONDS = 2.0  # processor time for one reason
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTimeError(Exception):
    """What was found so far is all there is."""


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[None]:
    """Searches inside end after so much processor time; a limit inside another one does not move it."""
    end = time.process_time() + (SECONDS if seconds is None else seconds)
    token = _DEADLINE.set(min(_DEADLINE.get(), end))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextmanager
def limited() -> Iterator[None]:
    """Hostile numbers, and the end of the time for one reason, end the search: no verdict depends on it."""
    try:
        with np.errstate(all="ignore"), time_limit():
            yield
    except OutOfTimeError:
        return
    except (ArithmeticError, np.linalg.LinAlgError):
        if os.environ.get("PECLI_DEBUG"):
            raise


def check_time() -> None:
    """Raise OutOfTimeError where the limit has passed."""
    if time.process_time() > _DEADLINE.get():
        raise OutOfTimeError
