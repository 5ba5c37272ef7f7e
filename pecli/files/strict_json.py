"""JSON that is read strictly: no key twice, no infinite numbers, no deep nesting."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from pecli.errors import FileError, quoted

MAX_DEPTH = 32  # levels of lists and objects in a spec or a configuration

ErrorOf = Callable[[str], FileError]
"""Returns the error for a problem; the problem is a predicate, such as «is not UTF-8 text»."""


def parsed_json(
    data: bytes | str, error: ErrorOf, *, finite: bool = True, max_depth: int | None = None
) -> object:
    """Parse JSON from a file that may be hostile.

    Args:
        data: the text, or its bytes in UTF-8.
        error: returns the FileError to raise for a problem.
        finite: refuse NaN, Infinity and numbers beyond float64.
        max_depth: the maximum nesting of lists and objects.

    Raises:
        FileError: the text is not such JSON.
    """
    parse_real = partial(_finite_number, error) if finite else None
    with refused_as_json(error):
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        if max_depth is not None and _nesting_depth(text) > max_depth:
            raise error(f"is nested more than {max_depth} levels deep")
        return json.loads(
            text,
            object_pairs_hook=partial(unique_members, error),
            parse_float=parse_real,
            parse_constant=parse_real,
        )


@contextmanager
def refused_as_json(error: ErrorOf) -> Iterator[None]:
    """Turn the errors of Python's parser of JSON into FileErrors.

    Args:
        error: returns the FileError to raise for a problem.
    """
    try:
        yield
    except RecursionError:
        raise error("is nested too deeply") from None
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"is not JSON: {problem.msg} in {place}") from None
    except UnicodeDecodeError:
        raise error("is not UTF-8 text") from None
    except ValueError:  # Python parses no integer of thousands of digits.
        raise error("is not JSON that can be read") from None


def unique_members(error: ErrorOf, members: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of its members; of two of one name, Python would keep the last."""
    entries = dict(members)
    if len(entries) < len(members):
        counts = Counter(name for name, _ in members)
        repeated, _ = counts.most_common(1)[0]
        raise error(f"names {quoted(repeated)} twice")
    return entries


def _finite_number(error: ErrorOf, literal: str) -> float:
    """Return the number of a literal, such as `0.5`; refuse `NaN`, `Infinity` and `1e999`."""
    value = float(literal)
    if not math.isfinite(value):
        raise error(f"holds {quoted(literal)}, a number out of range")
    return value


def _nesting_depth(text: str) -> int:
    """Return the nesting of brackets, those within strings included: an upper bound is enough."""
    letters = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    depths = np.cumsum(_STEPS[letters], dtype=np.int64)
    return int(depths.max(initial=0))


_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("{"), ord("[")]] = 1
_STEPS[[ord("}"), ord("]")]] = -1
"""The change of depth at every letter."""
