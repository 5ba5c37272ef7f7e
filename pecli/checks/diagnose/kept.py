"""Right values that were kept otherwise: as whole numbers, in decimals or steps, with bits or signs cut off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from pecli.checks.diagnose.beside import Beside, beside
from pecli.checks.diagnose.precision import grain, places
from pecli.engine.arrays import Floats
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table

_STEPS_AT_LEAST = 8.0
"""Numbers of steps in the largest value: fewer tell nothing about what was there before."""
_USED = 0.3
"""Of half a step, that values must be off by somewhere; else the step is finer than it seems."""


def kept_otherwise(scheme: Scheme, name: str, table: Table) -> str:
    """How the right values were kept that are not what they should be; nothing unless that explains every one."""
    for each in beside(scheme, name, table) if name != "inv_freq" else ():
        if each.own.shape != each.raw.shape:
            continue
        seen = np.isfinite(each.own)
        if not seen.all() and (seen != np.isfinite(each.found)).any():
            continue
        own, found, slack = each.own[seen], each.found[seen], each.allowed()[seen]
        if each.raw.dtype.kind in "iu":
            words = _whole_numbers(each, own, found, slack)
        else:
            words = _cut(own, found, slack, grain(each.raw)) or _stepped(own, found, slack)
            words = words or _signs(name, own, found, slack)
        if words:
            return words + each.layout
    return ""


def _whole_numbers(each: Beside, own: Floats, found: Floats, slack: Floats) -> str:
    """Fixed point: a whole number of steps, perhaps from another zero on; or what a cast leaves."""
    limits = np.iinfo(each.dtype)
    for cast in (np.trunc, np.rint, np.floor):
        if found.any() and ((cast(own - slack) == found) | (cast(own + slack) == found)).all():
            return f"the right values were cast to {each.dtype}, which has no fractions"
    centred = own - own.mean()
    power = float(np.square(centred).sum())
    scale = float((centred * (found - found.mean())).sum()) / power if power else 0.0
    zeros = (0.0,) if limits.min < 0 else ((limits.max + 1) / 2, limits.max / 2, float(limits.max // 2))
    fits = []
    for by, zero in product(_scales(scale, limits.max), zeros):
        off = np.abs(np.clip(by * own + zero, limits.min, limits.max) - found)
        least = 0.5 if (off <= 0.5 * (1 + 1e-6) + by * slack).all() else 1.0
        if by * each.height >= _STEPS_AT_LEAST and (off <= least * (1 + 1e-6) + by * slack).all():
            fits.append((np.ceil(2 * off.max() - 1e-3), least, by, zero))
    if not fits:
        return ""
    _, least, by, zero = min(fits, key=lambda fit: fit[:2])
    plus, shift = (f", plus {zero:g}", f" after {zero:g} was taken away") if zero else ("", "")
    return (
        f"it is fixed point: {by:.9g} times the right value{plus}, {'rounded' if least < 1 else 'cut off'} to "
        f"{each.dtype}; divide by {by:.9g}{shift}, and allow --atol {_up(least / by)}"
    )


def _scales(measured: float, most: int) -> Iterator[float]:
    """What fixed point multiplies by, near what was measured."""
    likely = [float(2**bits - less) for bits in range(2, 32) for less in (1, 0)]
    likely += [most / 2, float(f"{measured:.1e}"), float(f"{measured:.3e}"), measured]
    return (each for each in dict.fromkeys(likely) if each > 0 and abs(each - measured) < 0.02 * measured)


def _cut(own: Floats, found: Floats, slack: Floats, dtype: str) -> str:
    """Low bits that were dropped, where rounding would have gone up half of the time."""
    if dtype not in ("bfloat16", "float16"):
        return ""
    unit = 2.0 ** (1 - places(dtype)) * np.abs(own) + (2.0**-24 if dtype == "float16" else 0.0)
    lost = np.abs(own) - np.abs(found)
    if (lost < -slack).any() or (lost > unit + slack).any() or (np.sign(found) * np.sign(own) < 0).any():
        return ""
    if not (lost > 0.6 * unit).any():
        return ""
    return f"the table was cut to {dtype}: low bits were dropped, not rounded"


def _stepped(own: Floats, found: Floats, slack: Floats) -> str:
    """Multiples of one step: decimals of a text, or a fixed point that was undone."""
    off = np.abs(found - own)
    top = float(np.abs(own).max(initial=0.0))
    for step, words in _steps():
        if not _STEPS_AT_LEAST * step <= top or not off.max() <= step * (1 + 1e-6) + slack.max():
            continue
        count = found / step
        if (np.abs(count - np.rint(count)) > np.abs(count) * 2.0**-22 + 1e-6).any():
            continue
        for least, how in ((0.5, "rounded"), (1.0, "cut off")):
            if (off <= least * step * (1 + 1e-6) + slack).all() and off.max() >= _USED * least * step > 2 * slack.min():
                return f"every value is {how} to {words} (allow --atol {_up(least * step)})"
    return ""


def _steps() -> Iterator[tuple[float, str]]:
    """Steps that people keep numbers in, the coarsest of each kind first."""
    for digits in range(1, 8):
        yield 10.0**-digits, f"{digits} decimal{'s' if digits > 1 else ''}, as a text may have had"
    for kind, bits in (("int8", 7), ("int16", 15)):
        yield 1 / (2**bits - 1), f"multiples of 1/{2**bits - 1}, as if it had been kept as {kind}"
    yield 1 / 127.5, "multiples of 1/127.5, as if it had been kept as uint8"
    for bits in range(3, 24):
        yield 2.0**-bits, f"multiples of 2^−{bits}, as if it had been kept as fixed point"


def _signs(name: str, own: Floats, found: Floats, slack: Floats) -> str:
    if (found < 0).any() or not (own < -2 * slack).any():
        return ""
    if (np.abs(np.abs(own) - found) <= slack).all():
        return "the signs are lost: every value is positive"
    if name == "sin" and (np.abs(found * found - own * own) <= slack).all():
        return "the signs are lost: every sine is positive, as where it is sqrt(1 − cos²)"
    return ""


def _up(value: float) -> str:
    """A tolerance that is a little more, with one digit."""
    scale = 10.0 ** np.floor(np.log10(value))
    return f"{np.ceil(1.05 * value / scale) * scale:.0e}"
