"""ALiBi slopes by each rule that somebody follows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pecli.checks.diagnose.causes import FITTED, Cause
from pecli.engine.arrays import Floats
from pecli.engine.schemes.alibi import Alibi

_MEASURED = 32
"""Heads that are all measured."""

Slopes = tuple[tuple[Cause, ...], "Floats"]


def slopes(scheme: Alibi, measured: Floats) -> Iterator[Slopes]:
    """The slopes of all heads: the scheme's, those of known mistakes, and those that the measured ones suggest."""
    own, n, most = _values(scheme), scheme.heads, scheme.max_bias
    other = "naive" if scheme.rule == "paper" else "paper"
    naive = Cause(f"the slopes are {other}" + (", 2^(−max_bias·h/n) for any n" if other == "naive" else ""))
    yield (), own
    yield (naive,), _values(replace(scheme, rule=other))
    yield (Cause("the heads are in reverse order"),), own[::-1]
    yield (Cause("the heads are sorted by slope"),), np.sort(own)[::-1]
    yield (Cause("the slopes start one head early, at 1"),), 2.0 ** (-most * np.arange(n) / n)
    yield (Cause("the slopes start one head late"),), 2.0 ** (-most * (np.arange(n) + 2) / n)
    yield (Cause("the heads are one further, the last one first"),), np.roll(own, 1)
    yield (Cause("the slopes are 1/slope"),), 1 / own
    yield from _of_other_heads(scheme, own)
    yield from _in_another_order(own, measured)
    first = float(measured[0])
    if 0 < first < 1:
        for rule, heads in (("paper", 1 << (n.bit_length() - 1)), ("naive", n)):
            fitted = float(f"{-math.log2(first) * heads:.4g}")
            if fitted != most and 0 < fitted <= 256:
                causes = (Cause(f"max_bias is {fitted:g} (the spec says {most:g})", FITTED),)
                yield (
                    (causes if rule == scheme.rule else (*causes, naive)),
                    _values(replace(scheme, rule=rule, max_bias=fitted)),
                )
    ratio = first / float(own[0])
    if ratio > 0 and not math.isclose(ratio, 1, rel_tol=1e-3):
        known = math.isclose(ratio, math.log2(math.e), rel_tol=1e-3)
        value, words = (math.log2(math.e), "log2(e)") if known else (ratio, f"{ratio:.5g}")
        yield (Cause(f"it is scaled by {words}", FITTED),), value * own


def _of_other_heads(scheme: Alibi, own: Floats) -> Iterator[Slopes]:
    """Slopes of one head for all; where heads are no power of two, those of the next one, or other ones of them."""
    n, below = scheme.heads, 1 << (scheme.heads.bit_length() - 1)
    if n > 1:
        yield (Cause("all heads have the slope of the first one"),), np.full(n, own[0])
    if n != below and scheme.rule == "paper":
        more = 2.0 ** (-scheme.max_bias * np.arange(1, 2 * below + 1) / (2 * below))
        yield (Cause(f"the slopes are the first {n} of those of {2 * below} heads"),), more[:n]
        words = (
            f"the heads beyond {below} have the second, fourth, … slope of {2 * below} heads, not the first, third, …"
        )
        yield (Cause(words),), np.concatenate([own[:below], more[1::2][: n - below]])


def _in_another_order(own: Floats, measured: Floats) -> Iterator[Slopes]:
    """The same slopes, as the measured ones have them; the orders that have a name go before."""
    if not 2 < len(own) <= _MEASURED:
        return
    found = np.empty_like(own)
    found[np.argsort(np.abs(measured), kind="stable")] = np.sort(own)
    named = (own, own[::-1], np.sort(own)[::-1], np.roll(own, 1))
    if not any(np.array_equal(found, each) for each in named):
        where = [int(np.flatnonzero(own == slope)[0]) for slope in found[:3]]
        listed = ", ".join(f"head {head} is head {place}" for head, place in enumerate(where))
        yield (Cause(f"the heads are in another order ({listed}{' …' if len(own) > 3 else ''})"),), found


@lru_cache(maxsize=8)
def _values(scheme: Alibi) -> Floats:
    return np.asarray(
        replace(scheme, slopes=True, dtype="float64", recipe="exact").tables()["slopes"].astype(np.float64)
    )
