"""Exact numbers, and tables of exact cosines and sines.

`fixed_point` has real numbers as Python integers, `double_double` numbers of 106 bits as pairs of
float64 arrays, `geometric_frequencies` the frequencies of RoPE and sinusoids. `phases` turns
positions into angles, and `cos_sin_tables` and `axis_tables` make whole tables of them, correctly
rounded.
"""

from pecli.engine.numerics.double_double import (
    DoubleDouble,
    exact_sum,
    normal,
    round_double_double,
    undecided,
    where,
)
from pecli.engine.numerics.fixed_point import (
    GUARD,
    cos_sin,
    exp,
    fixed,
    log,
    pi,
    power,
    round_fixed,
    round_shift,
)
from pecli.engine.numerics.geometric_frequencies import (
    MAX_FREQUENCY,
    POSITION_BITS,
    Frequencies,
    bits_for,
    check_base,
    extra_bits,
    geometric,
    joined,
)

__all__ = [
    "GUARD",
    "MAX_FREQUENCY",
    "POSITION_BITS",
    "DoubleDouble",
    "Frequencies",
    "bits_for",
    "check_base",
    "cos_sin",
    "exact_sum",
    "exp",
    "extra_bits",
    "fixed",
    "geometric",
    "joined",
    "log",
    "normal",
    "pi",
    "power",
    "round_double_double",
    "round_fixed",
    "round_shift",
    "undecided",
    "where",
]
