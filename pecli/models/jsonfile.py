"""A configuration as JSON, read with trust in nothing: bounded, and no key twice.

Python writes infinities and NaN as words that JSON does not know, and hybrid models have `"time_step_limit": [0.0,
Infinity]`: such numbers are read, and rejected where they are the value of a key that matters here.
"""

from __future__ import annotations

import json
import math
from typing import Any

from pecli.errors import FileError

LARGEST = 4 << 20
"""Bytes; a hostile file becomes forty times as many in memory."""
MAX_DEPTH = 32
MAX_DIGITS = 400


class _RefusedError(ValueError):
    """What is wrong with the text, for the one place that knows the file."""


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"holds a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"holds {text[:40]}, which is larger than any float64")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"names {key[:60]!r} twice")
            seen.add(key)
    return found


def _depth(text: str) -> int:
    """How deeply brackets nest; those in strings count, too, which rejects nothing sensible."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def parse(path: str, data: bytes) -> dict[str, Any]:
    """The object that a file's bytes spell."""
    if len(data) > LARGEST:
        raise FileError(path, f"is larger than {LARGEST >> 20} MB, too large for a configuration")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(path, "is not UTF-8 text", "a config.json is wanted") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise FileError(path, f"nests more than {MAX_DEPTH} levels deep")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_float=_real, parse_int=_whole)
    except _RefusedError as problem:
        raise FileError(path, str(problem)) from None
    except json.JSONDecodeError as problem:
        raise FileError(path, f"is not JSON: {problem.msg} in line {problem.lineno}") from None
    except (ValueError, RecursionError):
        raise FileError(path, "is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise FileError(path, "is JSON, but not an object", "a config.json is wanted")
    return found
