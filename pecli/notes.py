"""Notes on what was assumed while files were read.

The command line prints them on standard error; in Python nobody listens unless they ask to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], object]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def note(text: str) -> None:
    """Pass a note to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


@contextmanager
def passed_to(listener: Listener) -> Iterator[None]:
    """Pass the notes inside the block to a listener.

    >>> with passed_to(print):
    ...     note("read as 2 rows")
    read as 2 rows
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
