"""Keys of a manifest: which are known, which are texts, and where in the manifest they are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError, nearest, quoted

TOLERANCES = ("max_ulp", "atol", "rtol")
RAW = ("shape", "raw_dtype")
"""Keys that state the elements of raw files, also of those that `before` and others name."""
COMMON = ("name", "file", *TOLERANCES, *RAW)
"""Keys that every check may have."""
TARGETS = ("model", "config", "scheme", "table")
"""Keys that state what a file is checked against; a check has at most one of them."""
Keys = NamedValues
"""Keys and values of a table in the manifest, as TOML has them."""
MAX_KEY = 60  #: letters of an unknown key that are quoted
Value = TypeVar("Value")


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the names of wrong parameters inside the block with their place in the manifest."""
    try:
        yield
    except ParameterError as problem:
        name = f"{place}: {problem.name}"
        raise ParameterError(name, problem.given, problem.rule, problem.advice) from None


def require_known(given: Keys, known: Sequence[str]) -> None:
    """Raise ParameterError for the first key that is not known."""
    for key in given:
        if key not in known:
            is_plain = key.isidentifier() and len(key) < MAX_KEY
            shown = key if is_plain else repr(key[:MAX_KEY])
            rule = nearest(key, (*known, *TARGETS)) or f"known: {', '.join(known)}"
            raise ParameterError(shown, "unknown here", rule)


def require_kind(key: str, value: object, kind: type[Value], rule: str) -> Value:
    """Return the value of a key if TOML has it as this kind, such as a list.

    Raises:
        ParameterError: It is of another kind; `rule` states the right one.
    """
    if not isinstance(value, kind):
        raise ParameterError(key, quoted(value), rule)
    return value


def text_of(given: Keys, key: str) -> str:
    """Return the text of a key, which must not be empty; empty if the key is missing."""
    if key not in given:
        return ""
    value = given[key]
    if not isinstance(value, str) or not value:
        raise ParameterError(key, quoted(value), "it must be a text that is not empty")
    return value
