"""Rows at other places than those of a grid or of listed positions, and grids with another base."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats, Indices
from pecli.engine.edits import Edit, Parameter
from pecli.engine.named_values import required
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.axis_sections import best_sections, best_split
from pecli.explain.catalogue.columns import columns_of
from pecli.explain.catalogue.kinds import WaveMistake
from pecli.explain.catalogue.needs import (
    has_base,
    has_no_schedule,
    has_placed_rows,
    have_specified_parameters,
    is_table,
    show_frequencies,
    show_phasors,
)
from pecli.explain.catalogue.schedule_numbers import NO_FIT, USUAL_BASES, fitted_number
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import Computation, WaveComputation
from pecli.explain.hypothesis import Case, Needs, Stage
from pecli.explain.known_mistakes import have_an_axis_each, mistaken_schemes
from pecli.explain.measure import Fit, MeasuredFrequencies
from pecli.explain.numbers import numbers_near, plain_numbers, plainest_number
from pecli.explain.subject import computation_of

MROPE_AXES = 3
"""Axes of positions of M-RoPE: time, height and width."""

SLOW_ANGLE = 0.5
"""Radians up to which a pair may have turned, so that four times as much is still less than a turn.
"""

STRETCH_ERROR = 1e-3
"""Relative error of a stretch that is read off the angles of 16-bit tables."""


def has_mrope_axes(waves: WaveComputation) -> bool:
    """Return True if rows have positions of time, height and width."""
    return len(waves.positions) == MROPE_AXES


def has_mrope_sections(scheme: Scheme) -> bool:
    """Return True for M-RoPE at listed positions, with a number of pairs for each of three axes."""
    sections = scheme.value_of("mrope_section") or ()
    return len(sections) == MROPE_AXES and scheme.value_of("positions") is not None


def has_one_span(scheme: Scheme) -> bool:
    """Return True if the positions of a grid are stretched as if it had another size, or may be.

    Without a `grid_base`, points are 1 apart, as if a grid of 12×12 were stretched over 12.
    """
    spans = scheme.value_of("grid_base")
    if spans is not None:
        return len(spans) == 1
    grid = scheme.value_of("grid")
    if grid is None or grid[-2] != grid[-1]:
        return False
    is_without_style_span = required(_placed(scheme).grid_style).grid_base is None
    return is_without_style_span and permitted(scheme, grid_base=(grid[-1],)) is not None


def has_axis_factors(scheme: Scheme) -> bool:
    """Return True if each axis of a grid has an NTK factor."""
    style = _placed(scheme).grid_style
    return style is not None and bool(scheme.value_of("axis_factors") or style.factors)


def shares_channels_among_axes(scheme: Scheme) -> bool:
    """Return True if each axis of a grid has its own channels, whose number is a parameter.

    Axes may also take turns in the frequencies of the whole head, as in Pixtral: then no channels
    can be moved from one axis to the other.
    """
    if "axes" not in scheme.parameters() or _placed(scheme).grid is None:
        return False
    blocks = _placed(scheme).axis_blocks
    return have_an_axis_each(blocks) and all(block.has_all_powers for block in blocks)


@dataclass(frozen=True)
class OtherPlacement(WaveMistake):
    """Exchanged axes, other rows beside the grid, another style, positions off by one."""

    scheme: Positioned
    named: tuple[Edit, ...]
    summary = "exchanged axes of a grid, another style, other rows beside it, positions off by one"
    seen_in: ClassVar[tuple[str, ...]] = (
        "DETR without normalize",
        "class tokens that shift a grid by one row",
    )
    stage = Stage.PARAMETERS
    rank = -1  # It makes a table of its own, in which other mistakes are then planted.
    changes_reading = True
    computation_needs: ClassVar[Needs] = (is_table,)
    scheme_needs: ClassVar[Needs] = (has_placed_rows,)
    data_needs: ClassVar[Needs] = (have_specified_parameters,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        other = computation_of(self.scheme, columns_of(waves).tensors)
        return replace(other, arithmetic=waves.arithmetic, storage=waves.storage)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the known mistakes in placing rows, which are found once per search.

        They follow from the scheme and the shape of its table, and not from the mistakes that are
        supposed so far. To find them, dozens of schemes are made.
        """
        key = (cls, case.scheme, columns_of(waves).tensors, _shape_of_table(waves))
        yield from case.once(key, lambda: list(cls.examples_for(waves, case.scheme)))

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield the known mistakes in placing rows that leave a table's shape as it is."""
        for mistaken in mistaken_schemes(scheme):
            mistake = cls(_placed(mistaken.scheme), mistaken.edits)
            if mistake.has_shape_of(computation):
                yield mistake

    @classmethod
    def changed(cls, scheme: Scheme, edit: Parameter, **changes: object) -> Iterator[Self]:
        """Yield the mistake of a scheme with other parameters, named by an edit.

        Nothing is yielded if there is no such scheme, or if the expected value was found.
        """
        other = permitted(scheme, **changes)
        if other is not None and edit.found != edit.expected:
            yield cls(_placed(other), (edit,))

    def has_shape_of(self, computation: Computation) -> bool:
        """Return True if the scheme's table has the same rows and columns."""
        assert isinstance(computation, WaveComputation)
        return _shape_of_table(self.plant_in_waves(computation)) == _shape_of_table(computation)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return self.named

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return self.scheme


def _shape_of_table(waves: WaveComputation) -> tuple[int, int]:
    """Return the rows and columns of a table."""
    return waves.rows, len(columns_of(waves).columns.pair)


class OtherSections(OtherPlacement):
    """Other numbers of pairs that follow time, height and width: the sections of M-RoPE."""

    summary = "other sections of M-RoPE: the pairs that follow time, height and width"
    weight = 1.1
    computation_needs = (is_table, has_mrope_axes)
    scheme_needs = (has_mrope_sections,)
    data_needs = (have_specified_parameters, show_phasors)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield one pair more for time and one less for height: (17, 23, 24) for (16, 24, 24)."""
        sections = _sections_of(scheme)
        time, height, width = sections
        yield from cls._with_sections(scheme, sections, (time + 1, height - 1, width))

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the sections that the data show: the pairs that follow time, height and width.

        M-RoPE's sections are the numbers of pairs that follow each axis of positions: of 64 pairs,
        Qwen2-VL gives the first 16 to time, the next 24 to height and the last 24 to width.
        """
        expected = _sections_of(case.scheme)
        yield from cls._with_sections(case.scheme, expected, best_sections(case, waves))

    @classmethod
    def _with_sections(
        cls, scheme: Scheme, expected: tuple[int, ...], found: tuple[int, ...]
    ) -> Iterator[Self]:
        edit = Parameter("mrope_section", expected, found)
        return cls.changed(scheme, edit, mrope_section=found, mrope_interleaved=False)


class OtherAxes(OtherPlacement):
    """Other numbers of channels for the axes of a grid: 24, 24, 16 for 16, 24, 24."""

    summary = "other numbers of channels for the axes of a grid, or in another order"
    weight = 1.1
    scheme_needs = (shares_channels_among_axes,)
    data_needs = (have_specified_parameters, show_phasors)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield the channels in the reverse order, or one pair moved from the last axis to the first.

        The channels 16 24 24 of time, height and width become 24 24 16, and 32 32 become 34 30.
        """
        channels = _channels_of_axes(scheme)
        moved = channels[::-1]
        if moved == channels:
            moved = (channels[0] + 2, *channels[1:-1], channels[-1] - 2)
        yield from cls._with_channels(scheme, channels, moved)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the number of channels that follow each axis of a grid, as the data show it.

        The 64 channels of a video model may be 16 for time, 24 for height and 24 for width. If the
        table shows 24, 24 and 16, an implementation gave the axes in another order.

        Args:
            case: The data, and the mistakes that are already supposed in them.
            waves: The steps that should have made the data, with the axis of each pair.
        """
        expected = _channels_of_axes(case.scheme)
        axes_in_order = list(dict.fromkeys(waves.axes.tolist()))  # [0, 0, 1, 1, 1] → [0, 1]
        if len(axes_in_order) != len(expected):
            return  # A supposed mistake of positions put all pairs on one axis.
        positions = waves.positions[:, case.observations.sampled_rows]  # (axes, rows)
        channels = _channels_following_each_axis(case.phasors, positions[axes_in_order])
        yield from cls._with_channels(case.scheme, expected, channels)

    @classmethod
    def _with_channels(
        cls, scheme: Scheme, expected: tuple[int, ...], found: tuple[int, ...]
    ) -> Iterator[Self]:
        return cls.changed(scheme, Parameter("axes", expected, found), axes=found)


def _placed(scheme: Scheme) -> Positioned:
    """Return a scheme as one of positions, which the mistakes of this file are proposed for."""
    assert isinstance(scheme, Positioned)
    return scheme


def _sections_of(scheme: Scheme) -> tuple[int, ...]:
    """Return M-RoPE's pairs per axis."""
    return tuple(scheme.value_of("mrope_section"))


def _span_of(scheme: Scheme) -> float:
    """Return the size of the grid over which positions are stretched: its own, unless another is stated."""
    (span,) = scheme.value_of("grid_base") or scheme.value_of("grid")[-1:]
    return float(span)


def _channels_of_axes(scheme: Scheme) -> tuple[int, ...]:
    """Return the channels of each axis of a grid."""
    return tuple(block.channels for block in _placed(scheme).axis_blocks)


def _channels_following_each_axis(phasors: Complex, positions: Floats) -> tuple[int, ...]:
    """Return how many neighbouring channels depend on each axis of a grid, as a table shows it.

    A pair of channels that follows the height has equal values in all rows of equal height, whereas
    one that follows the width differs among them. So the axes share the pairs in such a way that
    values at equal positions along a pair's axis differ least.

    Args:
        phasors: The cosine and sine of each pair, as cos + i·sin (rows, pairs).
        positions: The position of each row along each axis, (axes, rows).
    """
    spread = [_spread_at_equal_positions(phasors, along_axis) for along_axis in positions]
    pairs_per_axis = best_split(np.array(spread))  # of (axes, pairs)
    return tuple(2 * pairs for pairs in pairs_per_axis)  # A pair is two channels.


def _spread_at_equal_positions(phasors: Complex, positions: Floats) -> Floats:
    """Return how much each pair differs among rows with the same position along an axis, (pairs,).

    It is a sum of squares, and 0 for a pair that follows the axis. In rows with the positions
    0 0 1 1, a pair with the phasors 1, 1, i, i has the spread 0. One with 1, i, 1, i has the mean
    (1 + i)/2 at either position, and the spread 4 · 0.5 = 2.

    Args:
        phasors: The cosine and sine of each pair, as cos + i·sin (rows, pairs).
        positions: The position of each row along the axis, (rows,).
    """
    distinct, index = np.unique(positions, return_inverse=True)
    sums = np.zeros((len(distinct), phasors.shape[1]), np.complex128)  # (positions, pairs)
    np.add.at(sums, index, phasors)
    means = sums / np.bincount(index)[:, None]
    differences = phasors - means[index]  # (rows, pairs)
    return np.asarray((np.abs(differences) ** 2).sum(axis=0))


class OtherGridSpan(OtherPlacement):
    """Positions of a grid stretched over another span than that of the model's own grid."""

    summary = "positions of a grid stretched as if the model had been trained on another one"
    seen_in = ("Stable Diffusion 3's pos_embed_max_size",)
    scheme_needs = (has_one_span,)
    data_needs = (have_specified_parameters, show_phasors)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield a span of twice the model's, if the model has one."""
        if scheme.value_of("grid_base") is not None:
            yield from cls._with_span(scheme, 2 * _span_of(scheme))

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Measure how far positions are stretched, and yield plain spans that stretch them so.

        A span of 16, the size of a model's own grid, maps the positions 0 … 31 to 0 … 15.5. If the
        positions of a table are half of these, 0 … 7.75, its span is 8.
        """
        expected = _span_of(case.scheme)
        stretch = _stretch(case, waves)
        error = STRETCH_ERROR * abs(stretch) * expected
        for span in plain_numbers(stretch * expected, error):
            yield from cls._with_span(case.scheme, span)

    @classmethod
    def _with_span(cls, scheme: Scheme, found: float) -> Iterator[Self]:
        (stated,) = scheme.value_of("grid_base") or (None,)
        if found != _span_of(scheme):
            edit = Parameter("grid_base", stated, found)
            yield from cls.changed(scheme, edit, grid_base=(found,))


def _stretch(case: Case, waves: WaveComputation) -> float:
    """Return by what factor the positions of a table are stretched: 0.5 if angles are half the expected.

    It is the median ratio of angles to the expected ones. Only pairs that should have turned by
    less than SLOW_ANGLE count: others may have made a whole turn, which angles do not show.
    """
    expected_angles = waves.row_positions(case.observations.sampled_rows) * waves.frequencies
    is_slow = (np.abs(expected_angles) < SLOW_ANGLE) & (expected_angles != 0)
    if not is_slow.any():
        return 1.0
    ratios = np.angle(case.phasors)[is_slow] / expected_angles[is_slow]
    return float(np.median(ratios))


class OtherGridBase(OtherPlacement):
    """A grid with the base of another model."""

    summary = "a grid with the base of another model"
    weight = 1.05  # A dimension at hand is the better reason for a base that is a power of the expected one.

    # A base of consecutive or listed positions is one of a schedule, which has a mistake of its own.
    computation_needs = (is_table, has_no_schedule)
    scheme_needs = (has_placed_rows, has_base)

    @property
    def numbers(self) -> tuple[float, ...]:
        return _solved_base(self.scheme)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield the base of the rotary paper, or else that of Llama 3."""
        expected = _placed(scheme).base
        base = next(usual for usual in USUAL_BASES if usual != expected)
        yield from cls.changed(scheme, Parameter("base", expected, base), base=base)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the bases that give the measured frequencies, except the expected one."""
        expected = _placed(case.scheme).base
        for base in _bases_to_test(_placed(case.scheme), case.measured_frequencies):
            yield from cls.changed(case.scheme, Parameter("base", expected, base), base=base)


def _bases_to_test(scheme: Positioned, measured: MeasuredFrequencies | None) -> list[float]:
    """Return the bases that a table on a grid may have, the likeliest first.

    They are the numbers within the error of a fitted base. For 10001.3 ± 2, these are 10000, which
    is usual, and then 10001 and 10001.3, from few digits to many. The caller makes the table with
    each of them and compares all elements.

    Args:
        scheme: The scheme on the grid, with the expected base.
        measured: The frequencies of the table; None if the grid is too small to show them. Then all
            usual bases are returned.
    """
    if measured is None:
        return [*USUAL_BASES]

    def frequencies_of_base(base: float) -> Floats:
        return _frequencies_after_change(scheme, base=base)

    fit = fitted_number(frequencies_of_base, measured, USUAL_BASES)
    usual = numbers_near(USUAL_BASES, fit.value, fit.error)
    few_digits_first = plain_numbers(fit.value, fit.error)
    without_duplicates = dict.fromkeys((*usual, *few_digits_first))
    return [*without_duplicates]


class OtherAxisFactors(OtherPlacement):
    """A grid with other NTK factors of its axes."""

    summary = "a grid with other NTK factors of its axes"
    seen_in = ("Cosmos's rope_scale, which is another one for each resolution",)
    weight = 1.2
    computation_needs = (is_table, has_no_schedule)
    scheme_needs = (has_axis_factors,)
    data_needs = (have_specified_parameters, show_frequencies)

    @property
    def numbers(self) -> tuple[float, ...]:
        return _axis_factors(self.scheme)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield twice the factor of the last axis."""
        expected = _axis_factors(scheme)
        yield from cls._with_factors(scheme, (*expected[:-1], 2 * expected[-1]))

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Fit the factor of each axis to the frequencies of its pairs; yield the plainest ones nearby.

        An axis whose frequencies do not show, such as time in a single image, keeps its factor.
        """
        scheme = _placed(case.scheme)
        factors = list(_axis_factors(scheme))
        for axis in range(len(factors)):
            fit = _fitted_axis_factor(scheme, axis, case.frequencies, waves.axes)
            if fit != NO_FIT:
                factors[axis] = plainest_number(fit.value, fit.error)
        yield from cls._with_factors(scheme, tuple(factors))

    @classmethod
    def _with_factors(cls, scheme: Scheme, found: tuple[float, ...]) -> Iterator[Self]:
        edit = Parameter("axis_factors", _axis_factors(scheme), found)
        yield from cls.changed(scheme, edit, axis_factors=found)


def _axis_factors(scheme: Scheme) -> tuple[float, ...]:
    """Return the NTK factor of each axis of a grid: those that are stated, or else those of the style."""
    stated = scheme.value_of("axis_factors")
    style = required(_placed(scheme).grid_style)
    return tuple(stated or style.factors or ())


def _fitted_axis_factor(
    scheme: Positioned, axis: int, measured: MeasuredFrequencies, axis_of_pair: Indices
) -> Fit:
    """Return the NTK factor of one axis that gives its measured frequencies; NO_FIT if none does.

    In a table of images, some pairs turn with the height and others with the width. Each axis has a
    factor of its own, which lowers the frequencies of its pairs.

    Args:
        scheme: The scheme on the grid, with the expected factors.
        axis: The number of the axis.
        measured: The frequencies of all pairs.
        axis_of_pair: The axis that each pair follows.
    """
    expected = _axis_factors(scheme)

    def frequencies_of_factor(factor: float) -> Floats:
        factors = (*expected[:axis], factor, *expected[axis + 1 :])
        return _frequencies_after_change(scheme, axis_factors=factors)

    # Pairs of other axes say nothing about this factor.
    measured_on_axis = _to_be_ignored_by_fits(measured, axis_of_pair != axis)
    # From two guesses, the fit learns which pairs the factor changes: the others have to be right.
    first_guesses = (expected[axis], 2 * expected[axis])
    return fitted_number(frequencies_of_factor, measured_on_axis, first_guesses)


def _to_be_ignored_by_fits(measured: MeasuredFrequencies, is_ignored: Flags) -> MeasuredFrequencies:
    """Return measured frequencies of which some get infinite errors, so that a fit ignores them."""
    return measured._replace(errors=np.where(is_ignored, np.inf, measured.errors))


class OtherPlacementAndBase(OtherPlacement):
    """A grid with the base of another model, and with other channels for its axes or other places.

    The base is measured once the axes are supposed: which of them a pair follows decides how far it
    turns from one row to the next.
    """

    summary = (
        "a grid with the base of another model and other channels of its axes, or other places"
    )
    weight = 2.1
    counts_as = 2
    computation_needs = (is_table, has_no_schedule)
    scheme_needs = (has_placed_rows, has_base)

    @property
    def numbers(self) -> tuple[float, ...]:
        return _solved_base(self.scheme)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        yield from ()  # Each of the two mistakes has examples of its own.

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield each misplacement with the bases that give the frequencies measured in its places."""
        for kind in (OtherAxes, OtherPlacement):
            for placement in kind.proposals(case):
                placed = case.supposing(placement)
                if show_frequencies(placed):
                    yield from cls._with_bases(placed, placement)

    @classmethod
    def _with_bases(cls, case: Case, placement: OtherPlacement) -> Iterator[Self]:
        expected = _placed(case.scheme).base
        for base in _bases_to_test(placement.scheme, case.measured_frequencies):
            if base != expected:
                edit = Parameter("base", expected, base)
                for other_base in OtherGridBase.changed(placement.scheme, edit, base=base):
                    yield cls(other_base.scheme, (*placement.named, edit))


def _solved_base(scheme: Positioned) -> tuple[float, ...]:
    """Return the base if it was solved from the data; nothing if it is one that public models have."""
    return () if scheme.base in USUAL_BASES else (scheme.base,)


def _frequencies_after_change(scheme: Positioned, **changes: object) -> Floats:
    """Return the frequencies that a scheme has with other parameters; NaN if it refuses them."""
    other = permitted(scheme, **changes)
    if other is None:
        return np.full(len(scheme.angular_frequencies()), np.nan)
    return np.array(other.angular_frequencies())
