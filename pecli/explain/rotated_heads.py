"""Queries and keys as a form of phasors: each pair of channels of a head is multiplied by one.

A table holds the cosine and the sine of an angle; a rotated head holds a·cos − b·sin and b·cos + a·sin of the channels
(a, b) before. So it is one more form in which phasors lie in a matrix, and everything that explains tables explains it.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pecli.compare.forms import halved, joined
from pecli.engine.arrays import AnyArray, Array, Complex, Floats, Indices, widened
from pecli.explain.computation import TINY, PhasorForm
from pecli.explain.storage import rounded_to

MEASURED_HEADS = 8
"""Heads from which phasors are measured: their errors are averaged, and more would cost more than they tell."""

SINGULAR_SHARE = 1e-9
"""Share of the product of its diagonal below which the determinant of two equations counts as 0."""


class ConvertedHeads:
    """Queries or keys (sequences, heads, rows, channels), of which only rows that are asked for are converted."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.sequences, self.heads, self.rows, self.channels = map(int, array.shape)

    def at(self, rows: Indices | slice) -> Floats:
        """Return some rows of all heads in float64, (rows, sequences · heads, channels)."""
        picked = widened(self.array[:, :, rows])
        by_row = picked.transpose(2, 0, 1, 3)
        return np.asarray(by_row.reshape(len(by_row), -1, self.channels), np.float64)

    def matrix(self, rows: Indices | slice) -> Floats:
        """Return some rows with the channels of all heads side by side."""
        by_head = self.at(rows)
        return by_head.reshape(len(by_head), -1)

    @property
    def count(self) -> int:
        """The heads of all sequences."""
        return self.sequences * self.heads

    @property
    def columns(self) -> int:
        return self.count * self.channels

    @cached_property
    def first_few(self) -> "ConvertedHeads":
        """The first eight heads, of as many sequences as it takes: phasors are measured in them."""
        sequences = math.ceil(MEASURED_HEADS / max(1, self.heads))
        return ConvertedHeads(self.array[:sequences, :MEASURED_HEADS])


class ProductSigns(NamedTuple):
    """Signs of the two products that make a rotated channel: one with the cosine, one with the sine.

    The second channel of a pair (a, b) becomes b·cos + a·sin: both signs are 1. In the first one,
    a·cos − b·sin, that of the sine is −1.
    """

    cos: float
    sin: float


RIGHT_FIRST = ProductSigns(cos=1.0, sin=-1.0)
RIGHT_SECOND = ProductSigns(cos=1.0, sin=1.0)


class ChannelPair(NamedTuple):
    """The two channels of all pairs, (rows, heads, pairs) each."""

    first: Floats
    second: Floats

    def of_heads(self, heads: slice) -> "ChannelPair":
        """Return the channels of some heads."""
        return ChannelPair(self.first[:, heads], self.second[:, heads])


class NormalEquations(NamedTuple):
    """The equations of least squares for the cosines c and sines s of all rows and pairs (rows, pairs).

    cos_cos · c + cos_sin · s = cos_after and cos_sin · c + sin_sin · s = sin_after, where each field
    is a sum over all heads.
    """

    cos_cos: Floats
    cos_sin: Floats
    sin_sin: Floats
    cos_after: Floats
    sin_after: Floats

    def with_equation(self, a: Floats, b: Floats, y: Floats) -> "NormalEquations":
        """Return the equations with one more that every head has to meet: a·c + b·s = y.

        All heads of a row have the same c and s, so that these cannot solve each equation exactly. The
        sum of (a·c + b·s − y)² is smallest if its derivatives by c and by s are 0:
        Σa²·c + Σab·s = Σay and Σab·c + Σb²·s = Σby.

        Args:
            a: The factor of the cosine in each head, (rows, heads, pairs).
            b: The factor of the sine.
            y: The value after the rotation.
        """
        return NormalEquations(
            cos_cos=self.cos_cos + (a**2).sum(axis=1),
            cos_sin=self.cos_sin + (a * b).sum(axis=1),
            sin_sin=self.sin_sin + (b**2).sum(axis=1),
            cos_after=self.cos_after + (a * y).sum(axis=1),
            sin_after=self.sin_after + (b * y).sum(axis=1),
        )

    def solution(self) -> tuple[Floats, Floats] | None:
        """Return the cosines c and sines s that solve the equations; None if most pairs have no single solution.

        The two equations of a pair are cos_cos · c + cos_sin · s = cos_after and
        cos_sin · c + sin_sin · s = sin_after. Cramer's rule solves them.
        """
        determinant = self.cos_cos * self.sin_sin - self.cos_sin**2
        # It is 0 if every c solves the equations: the single equation 0·c − 4·s = −4 gives only s.
        is_singular = determinant <= SINGULAR_SHARE * self.cos_cos * self.sin_sin
        if is_singular.mean() > 0.5:
            return None
        # Division by infinity makes c and s of such pairs 0.
        divisor = np.where(is_singular, np.inf, np.maximum(determinant, TINY))
        cosines = (self.cos_after * self.sin_sin - self.sin_after * self.cos_sin) / divisor
        sines = (self.sin_after * self.cos_cos - self.cos_after * self.cos_sin) / divisor
        return cosines, sines


NO_EQUATIONS = NormalEquations(*np.zeros((5, 1)))


@dataclass(frozen=True)
class Formula:
    """The computation that turns a pair (a, b): a·cos − b·sin and b·cos + a·sin, or a wrong one.

    None instead of the signs leaves a channel as it is.
    """

    first_signs: ProductSigns | None = RIGHT_FIRST
    second_signs: ProductSigns | None = RIGHT_SECOND
    in_place: bool = False  # the second channel is computed from the first one after its rotation
    swapped: bool = False  # cosines and sines are exchanged, by mistake
    tables: str | None = None  # the dtype to which cosines and sines are rounded
    products: str | None = None  # the dtype to which each product is rounded

    @property
    def rounds(self) -> bool:
        """True if intermediate numbers are rounded to fewer bits than float32 has."""
        return self.tables is not None or self.products is not None

    def applied(
        self, pair: ChannelPair, first_phasors: Complex, second_phasors: Complex
    ) -> ChannelPair:
        """Return the pair after its channels were turned, each by its own phasors (rows, pairs)."""
        first = self._rotated_channel(self.first_signs, pair.first, pair.second, first_phasors)
        partner = first if self.in_place else pair.first
        second = self._rotated_channel(self.second_signs, pair.second, partner, second_phasors)
        return ChannelPair(first, second)

    def _rotated_channel(
        self, signs: ProductSigns | None, channel: Floats, partner: Floats, phasors: Complex
    ) -> Floats:
        """Return one channel of each pair after the rotation: ± channel · cos ± partner · sin.

        The first channel of the pair (3, 4) becomes 3·cos − 4·sin, and the second one 4·cos + 3·sin.
        A kernel in bfloat16 also rounds the cosine, the sine and both products.

        Args:
            signs: The signs of both products; None leaves the channel as it is.
            channel: One channel of each pair.
            partner: The other channel of each pair.
            phasors: cos + i·sin of the angle by which each pair rotates, (rows, pairs).
        """
        if signs is None:
            return channel
        # One row of cosines is for all heads: (rows, 1, pairs).
        cosines = rounded_to(phasors.real, self.tables)[:, None]
        sines = rounded_to(phasors.imag, self.tables)[:, None]
        if self.swapped:  # This formula makes the mistake to exchange them.
            cosines, sines = sines, cosines
        with_cosine = rounded_to(signs.cos * channel * cosines, self.products)
        with_sine = rounded_to(signs.sin * partner * sines, self.products)
        return with_cosine + with_sine

    def phasors(self, before: ChannelPair, after: ChannelPair) -> Complex | None:
        """Return the cos + i·sin (rows, pairs) by which pairs of channels were rotated.

        This is the inverse of `applied`. Each rotated channel is an equation for a cosine c and a sine s:
        if (3, 4) became (−4, 3), then 3c − 4s = −4 and 4c + 3s = 3, so that c = 0 and s = 1. All heads
        of a row have the same c and s, which are solved by least squares.

        Returns:
            The phasors; None if no channel, or less than half of the pairs, shows both c and s.
        """
        solution = self._equations_of_cos_and_sin(before, after).solution()
        if solution is None:
            return None
        cosines, sines = solution
        if self.swapped:  # The formula multiplied by sines where cosines belong.
            cosines, sines = sines, cosines
        return np.asarray(cosines + 1j * sines)

    def _equations_of_cos_and_sin(self, before: ChannelPair, after: ChannelPair) -> NormalEquations:
        """Return linear equations for the cosine c and the sine s by which each pair was rotated.

        The right formula makes the pair (3, 4) into (3c − 4s, 4c + 3s). If it is (−4, 3) after the
        rotation, the equations are 3c − 4s = −4 and 4c + 3s = 3. A wrong formula has other signs.
        """
        equations = NO_EQUATIONS
        if self.first_signs is not None:  # Without signs, the channel is not rotated.
            equations = equations.with_equation(
                a=self.first_signs.cos * before.first,
                b=self.first_signs.sin * before.second,
                y=after.first,
            )
        # In place, the second channel becomes 4c + (3c − 4s)·s: that equation is not linear.
        if self.second_signs is not None and not self.in_place:
            equations = equations.with_equation(
                a=self.second_signs.cos * before.second,
                b=self.second_signs.sin * before.first,
                y=after.second,
            )
        return equations


RIGHT = Formula()
NOT_ROTATED = Formula(first_signs=None, second_signs=None)


@dataclass(frozen=True)
class RotaryChannels:
    """The channels of a head that are turned, and those that make a pair."""

    first: int
    pairs: int
    layout_before: str  # halves or interleaved: where pairs lie before the rotation
    layout_after: str  # where they lie after it; DeepSeek has interleaved pairs before, then halves
    doubled: str = ""  # the layout of cos and sin, if it is not that of the pairs

    @property
    def rotary(self) -> slice:
        return slice(self.first, self.first + 2 * self.pairs)

    def pair(self, values: Floats, layout: str) -> ChannelPair:
        """Return the pairs among the channels of heads (rows, heads, channels)."""
        return ChannelPair(*halved(values[..., self.rotary], layout))

    def by_channel(self, values: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the values that belong to the first channels of all pairs, and those of the second ones.

        Right implementations turn both channels of pair i by phasor i, so that both have the values as
        they are. But columns of cos may be doubled in another layout than that of the channels. If they
        are c0 c1 c0 c1 (halves), and the channels (0, 1) and (2, 3) are pairs (interleaved), all first
        channels have c0, and all second ones c1.

        Args:
            values: One value per pair, such as its phasor, (…, pairs).
        """
        if not self.doubled:
            return values, values
        columns = joined((values, values), self.doubled)
        return halved(columns, self.layout_before)


@dataclass(frozen=True)
class RotatedHeads(PhasorForm):
    """Heads side by side in a matrix (rows, heads · channels), after some of their channels were turned."""

    before: ConvertedHeads = field(compare=False, hash=False, repr=False)
    channels: RotaryChannels
    formula: Formula = RIGHT
    scale: float = 1.0  # of all channels, after the rotation

    @property
    def of_first_few(self) -> "RotatedHeads":
        """This rotation of only the first few heads, in which phasors are measured."""
        return replace(self, before=self.before.first_few)

    def matrix_of(self, phasors: Complex, rows: Indices) -> Floats:
        """Return some rows of queries or keys after their rotation, with all heads side by side.

        They are what an implementation computes, right or with a supposed mistake: in the formula,
        or a factor of all channels. By the right formula, a quarter turn (0 + 1i) makes the pair of
        channels (3, 4) into (−4, 3).

        Args:
            phasors: cos + i·sin of the angle by which each pair of channels rotates, (rows, pairs).
            rows: The indices of these rows among all rows before the rotation.

        Returns:
            The matrix (rows, heads · channels).
        """
        heads = self.before.at(rows)  # (rows, heads, channels)
        if self.formula != NOT_ROTATED:
            heads = self._with_rotated_channels(heads, phasors)
        return self.scale * heads.reshape(len(heads), -1)

    def _with_rotated_channels(self, heads: Floats, phasors: Complex) -> Floats:
        """Return heads (rows, heads, channels) with their rotary channels rotated, and all others as they are.

        Channels a and b of a pair become a·cos − b·sin and b·cos + a·sin. They may lie elsewhere after
        the rotation: DeepSeek reads a0 b0 a1 b1 (interleaved) and writes a0 a1 b0 b1 (halves).

        Args:
            heads: Queries or keys before the rotation.
            phasors: cos + i·sin of the angle by which each pair rotates, (rows, pairs).
        """
        channels = self.channels
        pair = channels.pair(heads, channels.layout_before)  # two of (rows, heads, pairs)
        # Both channels of a pair have its phasor, unless columns of cos and sin are wrongly doubled.
        first_phasors, second_phasors = channels.by_channel(phasors)
        rotated = self.formula.applied(pair, first_phasors, second_phasors)
        with_rotated = heads.copy()
        with_rotated[..., channels.rotary] = joined(rotated, channels.layout_after)
        return with_rotated

    def phasors(self, matrix: Floats, rows: Indices) -> Complex | None:
        """Return the cos + i·sin (rows, pairs) by which heads were rotated into those of a matrix.

        Args:
            matrix: Some rows of rotated heads, of all heads or of the first few.
            rows: The indices of these rows.

        Returns:
            The phasors; None if the two channels of a pair have different ones, or if nothing is rotated.
        """
        if self.channels.doubled or self.formula == NOT_ROTATED:
            return None
        has_few_heads = matrix.shape[1] < self.before.columns
        heads_before = self.before.first_few if has_few_heads else self.before
        heads_after = matrix.reshape(len(matrix), -1, self.before.channels) / self.scale
        pairs_before = self.channels.pair(heads_before.at(rows), self.channels.layout_before)
        pairs_after = self.channels.pair(heads_after, self.channels.layout_after)
        return self.formula.phasors(pairs_before, pairs_after)

    def errors(self, bound: Floats, rows: Indices) -> Floats:
        """Return how far elements of the matrix may be off if phasors are off by a bound (rows, pairs)."""
        heads = self.before.at(rows)
        errors = np.zeros(heads.shape)  # Channels that are not turned are exact.
        if self.formula != NOT_ROTATED:
            errors[..., self.channels.rotary] = self._errors_of_rotary_channels(heads, bound)
        return abs(self.scale) * errors.reshape(len(errors), -1)

    def _errors_of_rotary_channels(self, heads: Floats, phasor_errors: Floats) -> Floats:
        """Return how far rotated channels may be off if the phasors that rotate them are.

        The pair (3, 4) moves on a circle of radius 5: a phasor that is off by 1e-6 moves its channels by
        5e-6 at most. If the second channel is computed from the first one after its rotation, it also has
        the error of that: twice as much.

        Args:
            heads: Queries or keys before the rotation, (rows, heads, channels).
            phasor_errors: How far the phasor of each pair may be off, (rows, pairs).

        Returns:
            The errors of the rotary channels, (rows, heads, channels).
        """
        pair = self.channels.pair(heads, self.channels.layout_before)
        radius = np.hypot(pair.first, pair.second)  # (rows, heads, pairs)
        if self.formula.in_place:
            radius = 2 * radius
        # All heads of a row are rotated by the same phasors, (rows, 1, pairs).
        first_errors, second_errors = self.channels.by_channel(phasor_errors[:, None])
        errors = (radius * first_errors, radius * second_errors)
        return np.asarray(joined(errors, self.channels.layout_after))
