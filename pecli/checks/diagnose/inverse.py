"""The tensor of inverse frequencies: the same mistakes as in the waves, and memory that nobody wrote to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pecli.checks.diagnose import precision
from pecli.checks.diagnose.angles import Fitted, Option, options
from pecli.checks.diagnose.causes import Cause, Explanation, best
from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table

_MUCH = 4.0


def explain_inverse(rope: Rope, table: Table) -> tuple[list[Explanation], str]:
    """Explanations of an `inv_freq`, or words about one that no rule makes."""
    values = widened(table.array().reshape(-1))
    if values.size > rope.dim * 4 or not values.size:
        return [], ""
    own = np.array(rope.frequencies().floats())
    if not np.isfinite(values).all() or not values.any() or (len(values) > 1 and np.ptp(values) == 0):
        return [], _never(values, own)
    right = len(values) == len(own) and bool((np.abs(values - own) <= _allowed(own, "float32")).all())
    if right:
        return [], ""
    worst = float(np.abs(values - own).max()) if len(values) == len(own) else np.inf
    found = list(_candidates(rope, values, table.dtype, worst))
    return best(found), "" if found or abs(values[0] / own[0] - 1) < 0.01 else _never(values, own)


def _allowed(frequencies: Floats, dtype: str) -> Floats:
    """The error of a power in float32, then of the dtype."""
    return frequencies * (precision.drift(np.array(1.0), frequencies, 24) + 2.0 ** -precision.places(dtype))


def _candidates(rope: Rope, values: Floats, dtype: str, worst: float) -> list[Explanation]:
    narrow = precision.grain(values)
    found = []
    for option in options(rope, len(values), Fitted(_bases(rope, values))):
        if option.frequencies is None:
            continue
        for causes, frequencies in _told(option):
            if not np.isfinite(frequencies).all():
                continue
            for rounded, cast in _rounded(frequencies, narrow):
                error = np.abs(values - rounded).min(axis=0)
                if (error <= _allowed(np.abs(frequencies), dtype)).all() and _MUCH * error.max() <= worst:
                    found.append(Explanation((*causes, *cast), float(error.max())))
                    break
    return found


def _rounded(frequencies: Floats, narrow: str) -> Iterator[tuple[Floats, tuple[Cause, ...]]]:
    """As they are, and as a narrow dtype rounds them, whichever way float32 made it fall."""
    yield frequencies[None], ()
    if narrow in ("bfloat16", "float16"):
        each = [precision.rounded(frequencies * (1 + by), narrow) for by in (-(2.0**-20), 0.0, 2.0**-20)]
        yield np.stack(each), (Cause(f"inv_freq is rounded to {narrow}"),)


def _told(option: Option) -> list[tuple[tuple[Cause, ...], Floats]]:
    """The frequencies as they are, turned round, and in other units."""
    frequencies = option.frequencies
    assert frequencies is not None
    ways = [(option.causes, frequencies), ((*option.causes, Cause("inv_freq is negated")), -frequencies)]
    if frequencies.all():
        ways.append(((*option.causes, Cause("inv_freq holds 1/inv_freq")), 1 / frequencies))
        words = Cause("inv_freq holds wavelengths, 2π/inv_freq")
        ways.append(((*option.causes, words), 2 * np.pi / frequencies))
    ways.append(((*option.causes, Cause("inv_freq is reversed")), frequencies[::-1]))
    return ways


def _bases(rope: Rope, values: Floats) -> tuple[float, ...]:
    """A base that the second frequency, and one that the last one gives; of another dim there would be another."""
    found: list[float] = []
    for column in (1, len(values) - 1) if len(values) == rope.rotary_dim // 2 else ():
        if 0 < column < len(values) and 0 < values[column] < 1:
            base = float(np.power(values[column], -rope.exponent_dim / (2 * column)))  # inf where it is too large
            if np.isfinite(base):
                found += [float(f"{base:.{digits}e}") for digits in range(6)]
    return tuple(dict.fromkeys(found))


def _never(values: Floats, own: Floats) -> str:
    first, expected = float(values[0]), float(own[0])
    if not values.any():
        what = "all of it is zero"
    elif not np.isfinite(values).all():
        what = f"{np.count_nonzero(~np.isfinite(values))} of its values are not finite"
    elif len(values) > 1 and np.ptp(values) == 0:
        what = f"all of it is {first:.4g}"
    else:
        what = "no base makes such values"
    return f"was never initialised: its first value is {first:.4g} where {expected:.4g} is expected; {what}"
