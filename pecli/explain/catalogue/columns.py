"""Cosines and sines that are right, but lie in other columns or have another sign."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pecli.engine.edits import Channels, Edit, Layout, Negated, Parameter, Swapped
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.kinds import WaveMistake, schedule_of_waves
from pecli.explain.catalogue.needs import (
    has_schedule,
    is_table,
    is_table_or_vector,
    is_vector,
)
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import INVERSES, Columns, FrequencyComputation, WaveComputation
from pecli.explain.hypothesis import Case, Stage


def with_form(waves: WaveComputation, **changes: Any) -> WaveComputation:
    """Return the waves with other fields of their form."""
    form: Any = waves.form
    return replace(waves, form=replace(form, **changes))


def columns_of(waves: WaveComputation) -> Columns:
    """Return the form of tables; mistakes in it are proposed only for tables."""
    if not isinstance(waves.form, Columns):
        raise TypeError("only tables have columns of cosines and sines")
    return waves.form


@dataclass(frozen=True)
class OtherLayout(WaveMistake):
    """Pairs in halves where they are interleaved, or the other way round."""

    layout: str
    summary = "interleaved pairs (GPT-J) for halves (NeoX, rotate_half), or the other way round"
    seen_in = (
        "llama.cpp's conversion of Hugging Face weights",
        "ggml #1320",
        "MLX traditional=True",
    )
    stage = Stage.FORM
    changes_reading = True
    computation_needs = (is_table,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return with_form(waves, layout=self.layout)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield the other layout; compact tables, with one column per pair, have none."""
        others = {"halves": "interleaved", "interleaved": "halves"}
        layout = columns_of(waves).layout
        if layout in others:
            yield cls(others[layout])

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Layout(columns_of(case.expected_waves).layout, self.layout),)


@dataclass(frozen=True)
class SwappedFunctions(WaveMistake):
    """Sines where cosines belong."""

    summary = "sines and cosines are exchanged"
    seen_in = ("diffusers' flip_sin_to_cos", "tensor2tensor ports")
    stage = Stage.FORM
    changes_reading = True
    computation_needs = (is_table,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        form = columns_of(waves)
        if form.tensors == ("pe",):
            return with_form(waves, cos_first=not form.cos_first)
        return with_form(waves, swapped=not form.swapped)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls()

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme with the other functions first: `--cos-first` makes such a table.

        No option exchanges the two tensors of a rotary scheme, which stays as it is.
        """
        if "cos_first" not in scheme.parameters():
            return scheme
        return permitted(scheme, cos_first=not scheme.value_of("cos_first"))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Swapped(),)


@dataclass(frozen=True)
class NegatedFunctions(WaveMistake):
    """Columns with the other sign: sines (the rotation goes backwards), cosines, or all."""

    which: str  # all, sin or cos
    summary = "sines (the rotation goes backwards), cosines or all values have the other sign"
    seen_in = ("rotate_half with the minus on the wrong half",)
    stage = Stage.FORM
    changes_reading = True
    computation_needs = (is_table_or_vector,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        if is_vector(waves):
            return replace(waves, amplitude=-waves.amplitude)
        names = {"all": {"cos", "sin"}, "sin": {"sin"}, "cos": {"cos"}}[self.which]
        # Functions that are negated already get their right sign again.
        negated = columns_of(waves).negated.symmetric_difference(names)
        return with_form(waves, negated=negated)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield all columns, and the sines and the cosines if a table has both."""
        yield cls("all")
        if isinstance(waves.form, Columns) and waves.form.has_both_functions:
            yield cls("sin")
            yield cls("cos")

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return which functions are negated: the first or the second of each pair, in a table `pe`.

        Its readers see columns, not functions: in s0 c0 s1 c1, negated cosines are the second.
        """
        form = case.expected_waves.form
        if not isinstance(form, Columns) or form.tensors != ("pe",):
            return (Negated(self.which),)
        column_names = {"all": "all", "sin": "first", "cos": "second"}
        if form.cos_first:
            column_names = {"all": "all", "cos": "first", "sin": "second"}
        return (Negated(column_names[self.which]),)


def has_one_interleaved_table(waves: WaveComputation) -> bool:
    """Return True for a sinusoidal table s0 c0 s1 c1 …, whose pairs lie in neighbouring columns."""
    columns = columns_of(waves)
    is_interleaved = columns.tensors == ("pe",) and columns.layout == "interleaved"
    return is_interleaved and not columns.has_pair_per_column


COLUMN_EXPONENTS = {"i/dim": 2.0, "2i/dim": 1.0}
"""Exponents of column i, and their denominators over that of the pairs.

The paper's exponent of pair k is 2k/dim = k / (dim/2). That of column i is i / (2 · dim/2) for i/dim,
and i / (1 · dim/2) for 2i/dim.
"""


@dataclass(frozen=True)
class ExponentOfColumn(WaveMistake):
    """An exponent that counts columns instead of pairs: a sine and its cosine differ in frequency."""

    exponent: str
    summary = "the exponent counts columns instead of pairs, so that each has its own frequency"
    seen_in = (
        "SamLynnEvans/Transformer (2i/dim)",
        "tutorials with a loop over columns",
    )
    stage = Stage.FORM
    rank = 0
    changes_reading = True
    computation_needs = (is_table, has_schedule, has_one_interleaved_table)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the waves with the frequencies f0 f1 f2 f3 in the columns s0 c1 s2 c3, for s0 c0 s1 c1."""
        columns = columns_of(waves)
        schedule = schedule_of_waves(waves)
        schedule_of_columns = replace(
            schedule,
            pairs=columns.dim,
            denominator=schedule.denominator * COLUMN_EXPONENTS[self.exponent],
        )
        return replace(
            with_form(waves, pairs=columns.dim, has_pair_per_column=True),
            schedule=schedule_of_columns,
            frequencies=schedule_of_columns.frequencies,
            axes=np.zeros(columns.dim, np.intp),
        )

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield both exponents; a single pair of columns is no evidence of either."""
        if columns_of(waves).dim > 2:
            yield from map(cls, COLUMN_EXPONENTS)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("exponent of column i", "2⌊i/2⌋/dim", self.exponent),)


@dataclass(frozen=True)
class ReversedPairs(WaveMistake):
    """Frequencies in reverse order: the slowest pair first."""

    summary = "frequencies in reverse order, the slowest first"
    stage = Stage.FORM
    weight = 1.5
    changes_reading = True
    computation_needs = (is_table_or_vector,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return with_form(waves, reversed=True)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Channels("reversed"),)


def has_frequencies_per_axis(waves: WaveComputation) -> bool:
    """Return True for a grid each axis of which has several frequencies of its own."""
    pairs_per_axis = np.bincount(waves.axes)
    return waves.schedule is None and len(waves.positions) > 1 and bool((pairs_per_axis > 1).any())


@dataclass(frozen=True)
class ReversedAlongAxes(WaveMistake):
    """Frequencies of each axis of a grid in reverse order: the slowest pair of the axis first."""

    summary = "frequencies of each axis of a grid in reverse order, the slowest first"
    stage = Stage.FORM
    weight = 1.5
    changes_reading = True
    computation_needs = (is_table, has_frequencies_per_axis)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the waves with the frequencies 1, 0.1 | 1, 0.1 of two axes as 0.1, 1 | 0.1, 1."""
        frequencies = np.array(waves.frequencies)
        for axis in np.unique(waves.axes):
            pairs = np.flatnonzero(waves.axes == axis)
            frequencies[pairs] = waves.frequencies[pairs[::-1]]
        return replace(waves, frequencies=frequencies)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Channels("in reverse order along each axis"),)


@dataclass(frozen=True)
class InvertedFrequencies(WaveMistake):
    """A vector of wavelengths, or of 1/inv_freq, instead of frequencies."""

    holds: str
    summary = "a vector holds wavelengths or 1/inv_freq instead of inverse frequencies"
    seen_in = ("GGUF's rope_freqs, which divide",)
    stage = Stage.FORM
    changes_reading = True
    computation_needs = (is_vector,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        assert isinstance(
            waves, FrequencyComputation
        )  # Only vectors of frequencies can be inverted.
        return replace(waves, holds=self.holds)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield from map(cls, INVERSES)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("inv_freq", "frequencies", self.holds),)
