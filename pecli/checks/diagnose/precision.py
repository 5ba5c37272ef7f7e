"""How far off a right table may be: what its dtype loses, what float32 phases lose, and coarser roundings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pecli.checks.diagnose.causes import Cause
from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.dtypes import COMPLEX, SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import narrowest, round_to, widened

INFORMATIVE = 0.05
"""Where more than this part of the amplitude is allowed, an element says nothing."""


_LIBRARY_UNITS = 2
"""Units of the last place that the sines of one library may differ by from those of another."""


def rounded(values: Floats, dtype: str) -> Floats:
    """The nearest values of a narrow dtype."""
    return round_to(values, dtype).astype(np.float64)


def grain(array: Array) -> str:
    """The narrowest dtype that holds every value."""
    parts = np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array
    return narrowest(widened(parts), str(array.dtype.name))


def places(dtype: str) -> int:
    """Bits of precision of a dtype; of complex numbers, that of their parts."""
    return SIGNIFICAND_BITS.get(COMPLEX.get(dtype, dtype), 24)


def cast(dtype: str) -> Cause:
    """The table was made right and then rounded once more."""
    return Cause(f"the table was cast to {dtype}")


def stored(dtype: str, wanted: str) -> tuple[Cause, ...]:
    """What the dtype of the file says by itself, and at no cost."""
    if places(dtype) == places(wanted):
        return ()
    if places(dtype) < places(wanted):
        return (replace(cast(dtype), cost=0.0),)
    return (Cause(f"the dtype is {dtype} (the spec says {wanted})", 0.0),)


def float32_phases(residual: float) -> Cause:
    """Angles of float32 drift away from the exact ones as positions grow."""
    scale = 10.0 ** np.floor(np.log10(max(4 * residual, 1e-12)))
    enough = float(np.ceil(4 * residual / scale) * scale)  # the sample may have missed the largest error
    return Cause(
        "the phases are computed in float32, as Hugging Face does (the error grows with the position; "
        f"allow --atol {enough:.0e}, or verify with --recipe float32 --max-ulp {_LIBRARY_UNITS})"
    )


def rounding_error(values: Floats, dtype: str) -> Floats:
    """What one rounding of right values to the dtype may change, and what two or three of float32 may."""
    bits = places(dtype)
    least = {"float16": 2.0**-25}.get(dtype, 0.0)
    return np.asarray(1.01 * 2.0**-bits * np.abs(values) + 4 * 2.0 ** -max(bits, 24) + least)


def drift(angles: Floats, frequencies: Floats, bits: int) -> Floats:
    """What phases of so many bits may be off by: the frequency's error, which a power or an exponential makes larger
    the smaller it is, grows with the position.
    """
    with np.errstate(divide="ignore"):
        logs = np.abs(np.log(np.where(frequencies > 0, frequencies, 1.0)))
    return np.asarray(np.abs(angles) * ((3 + logs) * 2.0**-bits))
