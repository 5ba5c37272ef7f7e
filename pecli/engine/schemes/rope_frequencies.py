"""Rotary frequencies before scaling, and the steps that scalings are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pecli.engine.numerics import geometric
from pecli.engine.numerics.geometric import Frequencies

if TYPE_CHECKING:
    from pecli.engine.schemes.rope import Rope

Amplitude = Callable[[int], int]
"""A real number: to that many bits after the point, as an integer over 2**bits."""


def plain(rope: Rope) -> Frequencies:
    """b^(−2i/d), untouched."""
    return geometric.geometric(rope.base, Fraction(rope.exponent_dim, 2), rope.rotary_dim // 2)


def changed(before: Frequencies, change: Callable[[Sequence[int], int], Sequence[int]]) -> Frequencies:
    """The frequencies after a change to their integers over 2**bits."""
    values = tuple(change(before.values, before.bits))
    return Frequencies(values, before.bits, lambda extra: changed(before.more(extra), change))


def given(value: float | None) -> Fraction:
    """A parameter that `Rope` has seen to be there."""
    assert value is not None
    return Fraction(value)


def divided(values: Sequence[int], by: Sequence[Fraction]) -> list[int]:
    """Each value by its own divisor."""
    return [value * f.denominator // f.numerator for value, f in zip(values, by, strict=True)]
