"""Rotations of queries and keys by a wrong formula, of wrong channels, or in too few bits."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Any, NamedTuple, Self

import numpy as np

from pecli.engine.application import PairLayouts
from pecli.engine.arrays import Flags
from pecli.engine.edits import (
    Edit,
    Layout,
    Misplacement,
    Negated,
    Parameter,
    PositionMistake,
    Recipe,
    Rotation,
    RowsZero,
    Scaled,
    Swapped,
)
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.arithmetic import RECIPES
from pecli.explain.catalogue.axis_sections import best_sections
from pecli.explain.catalogue.kinds import WaveMistake, schedule_of_waves
from pecli.explain.catalogue.needs import has_one_axis, show_phasors
from pecli.explain.changed_schemes import with_parameters
from pecli.explain.computation import Computation, WaveComputation
from pecli.explain.hypothesis import Case, Stage
from pecli.explain.measure import least_squares_factor
from pecli.explain.numbers import numbers_near, plain_numbers
from pecli.explain.rotated_computation import RotatedComputation
from pecli.explain.rotated_heads import NOT_ROTATED, RIGHT, Formula, ProductSigns, RotaryChannels

LAYOUTS = ("halves", "interleaved")

FORMULAS: Mapping[Edit, Formula] = {
    Negated("sin"): Formula(ProductSigns(1.0, 1.0), ProductSigns(1.0, -1.0)),
    Swapped(): Formula(swapped=True),
    Rotation("no minus"): Formula(ProductSigns(1.0, 1.0), ProductSigns(1.0, 1.0)),
    Rotation("two minuses"): Formula(ProductSigns(1.0, -1.0), ProductSigns(1.0, -1.0)),
    Rotation("in place"): Formula(in_place=True),
    Rotation("first half"): Formula(second_signs=None),
    Rotation("second half"): Formula(first_signs=None),
}
"""Formulas of known mistakes, by what they are called."""

NARROW = ("bfloat16", "float16")
"""Dtypes in which models compute, and round more than they should."""

WITH_TABLES = {"bfloat16-inv-freq": "bfloat16-module"}
"""Recipes that also store the table in 16 bits, by those that do not."""

SCALE_ERROR = 1e-6
"""Relative error of a factor that is measured in float32 values."""


@dataclass(frozen=True)
class RotationMistake(WaveMistake):
    """A mistake in rotating queries or keys."""

    stage = Stage.FORM
    changes_reading = True
    computation_type = RotatedComputation

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return self.plant_in_rotation(_rotated(waves))

    @abstractmethod
    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        """Return the computation with this mistake in it."""

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        yield from cls.proposals_for_rotation(case, _rotated(waves))

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the instances worth testing; by default the typical ones."""
        yield from cls.examples_for_rotation(rotated)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield from cls.examples_for_rotation(_rotated(waves))

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield typical instances without data."""
        yield from ()


def _rotated(waves: Computation) -> RotatedComputation:
    """Return a computation as one of rotated heads, in which alone the mistakes are possible."""
    assert isinstance(waves, RotatedComputation)
    return waves


def uses_right_formula(rotated: RotatedComputation) -> bool:
    """Return True unless another formula, or rounding in it, is supposed already."""
    return rotated.heads.formula == RIGHT


def has_unturned_channels(rotated: RotatedComputation) -> bool:
    """Return True if only some channels of a head rotate."""
    return _unturned_channels(rotated) > 0


def has_resizable_pairs(rotated: RotatedComputation) -> bool:
    """Return True if another number of pairs could rotate.

    The sections of M-RoPE have as many pairs as rotate, and pairs that a partial factor leaves out
    of a schedule are not rotated in any case.
    """
    if rotated.schedule is None or not has_one_axis(rotated):
        return False
    return rotated.schedule.rotating_pairs == rotated.schedule.pairs


def with_channels(rotated: RotatedComputation, **changes: Any) -> RotatedComputation:
    """Return the computation with other rotary channels."""
    channels = replace(rotated.heads.channels, **changes)
    return replace(rotated, form=replace(rotated.heads, channels=channels))


def with_formula(rotated: RotatedComputation, formula: Formula) -> RotatedComputation:
    """Return the computation with another formula."""
    return replace(rotated, form=replace(rotated.heads, formula=formula))


def expected_channels(case: Case) -> RotaryChannels:
    """Return the channels that should be rotated."""
    return _rotated(case.specification).heads.channels


@dataclass(frozen=True)
class NotRotated(RotationMistake):
    """Queries or keys as they were before."""

    summary = "queries or keys are not rotated at all"
    seen_in = ("layers without positions (NoPE) that are taken for others, and the reverse",)
    weight = 0.9

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return with_formula(rotated, NOT_ROTATED)

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return «not rotated», or the position 0 of all tokens if somebody stated their positions.

        Position 0 turns by an angle of 0, so the two are the same.
        """
        rotated = _rotated(case.specification)
        if not rotated.tokens.are_stated:
            return (Rotation("none"),)
        all_at_zero = np.zeros_like(rotated.positions)
        known_mistake = rotated.tokens.mistake(all_at_zero)
        mistake = known_mistake or PositionMistake(Misplacement.NOT_ROTATED)
        return (rotated.tokens.edit(all_at_zero, mistake),)


@dataclass(frozen=True)
class OtherFormula(RotationMistake):
    """A wrong sign, sines for cosines, one channel of each pair left out or computed from the
    other.
    """

    name: Edit
    summary = (
        "a wrong sign in the rotation, sines for cosines, or one channel of each pair left out"
    )
    seen_in = ("rotate_half without its minus", "in-place kernels that overwrite the first channel")
    computation_needs = (uses_right_formula,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        """Return the rotation by the wrong formula, which rounds as the rotation did before."""
        before = rotated.heads.formula
        wrong = replace(FORMULAS[self.name], tables=before.tables, products=before.products)
        return with_formula(rotated, wrong)

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield from map(cls, FORMULAS)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (self.name,)


def layout_name(takes: str, gives: str) -> str:
    """Return the name of the layouts before and after a rotation; one if they are the same."""
    return takes if takes == gives else f"{takes} before, {gives} after"


def has_right_doubling(rotated: RotatedComputation) -> bool:
    """Return True unless a layout of doubled columns is supposed that pairs do not have."""
    return not rotated.heads.channels.doubled


@dataclass(frozen=True)
class OtherPairs(RotationMistake):
    """Pairs of other channels: neighbours for halves, or the other way round, before or after the
    rotation.
    """

    layouts: PairLayouts
    summary = "queries or keys are rotated in interleaved pairs for halves, or the other way round"
    seen_in = ("llama.cpp's conversion of Hugging Face weights", "DeepSeek-V3 ports")
    computation_needs = (has_right_doubling,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return with_channels(
            rotated, layout_before=self.layouts.before, layout_after=self.layouts.after
        )

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        channels = rotated.heads.channels
        for layouts in product(LAYOUTS, LAYOUTS):
            if layouts != (channels.layout_before, channels.layout_after):
                yield cls(PairLayouts(*layouts))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        expected = expected_channels(case)
        expected_name = layout_name(expected.layout_before, expected.layout_after)
        return (Layout(expected_name, layout_name(*self.layouts)),)


@dataclass(frozen=True)
class OtherDoubling(RotationMistake):
    """Cosines and sines whose columns are doubled in the layout that pairs do not have."""

    pairs: str
    doubled: str
    summary = "cos and sin are doubled as halves and multiplied with interleaved pairs, or reversed"
    seen_in = ("rotate_half of halves with tables of repeat_interleave",)
    computation_needs = (uses_right_formula,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return with_channels(
            rotated, layout_before=self.pairs, layout_after=self.pairs, doubled=self.doubled
        )

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield cls(pairs="halves", doubled="interleaved")
        yield cls(pairs="interleaved", doubled="halves")

    def edits(self, case: Case) -> tuple[Edit, ...]:
        expected = expected_channels(case)
        found = f"{self.pairs}, with cos and sin doubled as {self.doubled}"
        return (Layout(layout_name(expected.layout_before, expected.layout_after), found),)


@dataclass(frozen=True)
class OtherChannels(RotationMistake):
    """The first channels of a head instead of the last, or the other way round."""

    are_last: bool
    summary = "the first channels of a head are rotated instead of the last, or the reverse"
    seen_in = ("DeepSeek-V3 ports, whose last 64 of 192 channels rotate",)
    computation_needs = (has_unturned_channels,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        # Another rotary dimension, 128 for 64, moves the start of the last channels from 128 to 64.
        first = _unturned_channels(rotated) if self.are_last else 0
        return with_channels(rotated, first=first)

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield cls(are_last=rotated.heads.channels.first == 0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rotation("last channels" if self.are_last else "first channels"),)


def _unturned_channels(rotated: RotatedComputation) -> int:
    """Return how many channels of a head are not rotated: 48 of 80 in Phi-2."""
    return rotated.heads.before.channels - 2 * rotated.heads.channels.pairs


def may_be_paired_across_head(rotated: RotatedComputation) -> bool:
    """Return True if only the first channels of a head rotate, in halves.

    Interleaved pairs are neighbours, however many channels rotate, and the halves of a head need
    an even number of channels.
    """
    channels = rotated.heads.channels
    are_halves = channels.layout_before == channels.layout_after == "halves"
    has_even_size = rotated.heads.before.channels % 2 == 0
    return are_halves and has_even_size and channels.first == 0


@dataclass(frozen=True)
class PairsAcrossHead(RotationMistake):
    """Some channels rotate, and each is paired with the one half a head away.

    In Phi-2, 32 of 80 channels rotate: channel 0 with 16, not with 40, the half of the head.
    """

    summary = "channels are paired across the whole head where only its rotary part should be"
    seen_in = ("rotate_half of a whole head in ports of models with a partial_rotary_factor",)
    stage = Stage.PARAMETERS
    computation_needs = (has_resizable_pairs, has_unturned_channels, may_be_paired_across_head)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        """Return the rotation of pairs of the whole head, of which only the first ones turn.

        In Phi-2, there are 40 pairs, of which 16 have a frequency; the others have the angle 0.
        """
        schedule = schedule_of_waves(rotated)
        pairs_of_head = rotated.heads.before.channels // 2
        across_head = replace(schedule, pairs=pairs_of_head, rotating=schedule.pairs)
        return _with_first_pairs(pairs_of_head, _rotated(rotated.with_schedule(across_head)))

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rotation("across the head"),)


@dataclass(frozen=True)
class OtherRotaryDim(RotationMistake):
    """More or fewer channels of a head are rotated, with the frequencies of as many channels."""

    dim: int
    summary = "all channels of a head are rotated where only some should be, or fewer"
    seen_in = ("GPT-NeoX's rotary_pct and partial_rotary_factor that are ignored",)
    stage = Stage.PARAMETERS
    rank = 0
    computation_needs = (has_resizable_pairs,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        """Return the rotation of `dim` channels of each head instead of the expected number.

        The exponents of the frequencies are divided by the same number. If the last channels of a
        head rotate, as in DeepSeek, they begin `dim` channels before its end.
        """
        pairs = self.dim // 2
        schedule = replace(schedule_of_waves(rotated), pairs=pairs, denominator=self.dim / 2)
        resized = _with_first_pairs(pairs, _rotated(rotated.with_schedule(schedule)))
        if rotated.heads.channels.first == 0:
            return resized
        return with_channels(resized, first=_unturned_channels(resized))

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the channels up to the last one that changed, and all, 1/2 and 1/4 of a head."""
        width = rotated.heads.before.channels
        expected = 2 * schedule_of_waves(rotated).pairs
        candidates = (_rotated_channels(case, rotated), width, width // 2, width // 4)
        for dim in dict.fromkeys(candidates):
            is_possible = dim > 0 and dim % 2 == 0
            if is_possible and dim != expected:
                yield cls(dim)

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        return scheme if scheme.is_range else None

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("dim", 2 * expected_channels(case).pairs, self.dim),)


def _with_first_pairs(pairs: int, rotated: RotatedComputation) -> RotatedComputation:
    """Return the rotation of the first channels of each head, in so many pairs."""
    one_axis = np.zeros(pairs, np.intp)
    return with_channels(replace(rotated, axes=one_axis), pairs=pairs, first=0)


def _rotated_channels(case: Case, rotated: RotatedComputation) -> int:
    """Return how many channels at the beginning of a head the data show to be rotated, an even number.

    If channels 0 to 62 differ from those before the rotation, and no later ones, 64 are rotated.
    """
    rows = case.observations.sampled_rows
    before = rotated.heads.before.first_few.matrix(rows)  # (rows, heads · channels)
    is_changed = (case.observations.sample != before).any(axis=0)
    is_channel_changed = is_changed.reshape(-1, rotated.heads.before.channels).any(axis=0)
    count = int(np.flatnonzero(is_channel_changed).max(initial=-1)) + 1
    return count + count % 2


@dataclass(frozen=True)
class ScaledHeads(RotationMistake):
    """All channels multiplied by a number: 1/√d, which belongs to the scores, or −1."""

    by: float
    summary = "queries are multiplied by a number, such as the 1/√d of attention scores"
    seen_in = ("projections into which the attention scale is folded",)
    weight = 1.2
    changes_reading = False
    fitted = ("by",)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return replace(rotated, form=replace(rotated.heads, scale=self.by))

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the factors by which queries may have been multiplied, such as 1/√d, 2 or −1.

        The factor is fitted to some rows of the file. Numbers near it that programs are likely to
        have are yielded.
        """
        rows_of_file = case.observations.sample  # (rows, channels of the first few heads)
        rotated_rows = rotated.rendered(case.observations.sampled_rows)  # channels of all heads
        expected_rows = rotated_rows[:, : rows_of_file.shape[1]]
        fitted = least_squares_factor(expected_rows, rows_of_file)
        for factor in _likely_factors(fitted, channels=rotated.heads.before.channels):
            if factor != 1:
                yield cls(factor)

    @property
    def cost(self) -> float:
        """The weight: a factor is as likely whether it is 2 or 1/√128 = 0.0884."""
        return self.weight

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Scaled(float(f"{self.by:.7g}")),)


def _likely_factors(fitted: float, channels: int) -> list[float]:
    """Return the numbers near a fitted factor that programs multiply queries by, the likeliest first.

    Attention scores are divided by √d for heads of d channels, and some programs divide the queries
    instead. 1/√128 = 0.08838835 comes before numbers with fewer digits, which are less likely.

    Args:
        fitted: The factor that fits the data best.
        channels: The number of channels of each head.
    """
    error = SCALE_ERROR * abs(fitted)
    inverse_root = float(channels) ** -0.5
    inverse_root_if_near = numbers_near([inverse_root], fitted, error)
    without_duplicates = dict.fromkeys((*inverse_root_if_near, *plain_numbers(fitted, error)))
    return [*without_duplicates]


@dataclass(frozen=True)
class NarrowArithmetic(RotationMistake):
    """Steps of the rotation in 16 bits."""

    stage = Stage.ARITHMETIC
    is_found_last = True  # Rounding hides nothing that other mistakes are measured by.


@dataclass(frozen=True)
class NarrowProducts(NarrowArithmetic):
    """Tables, products and sums in 16 bits, as a model that was cast to them computes."""

    dtype: str
    summary = (
        "the rotation is computed in bfloat16 or float16: tables, products and sums are rounded"
    )
    seen_in = ("transformers models in bfloat16, and vLLM's in float16",)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        formula = rotated.heads.formula
        return with_formula(rotated, replace(formula, tables=self.dtype, products=self.dtype))

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield from map(cls, NARROW)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rotation(f"in {self.dtype}"),)


@dataclass(frozen=True)
class NarrowTables(NarrowArithmetic):
    """Cosines and sines in 16 bits, multiplied in more."""

    dtype: str
    summary = "cos and sin are rounded to bfloat16 or float16 before they are multiplied"
    seen_in = ("rotary modules that return cos and sin in the dtype of the hidden states",)
    weight = 0.9

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return with_formula(rotated, replace(rotated.heads.formula, tables=self.dtype))

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield from map(cls, NARROW)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Recipe(f"{self.dtype}-table"),)


@dataclass(frozen=True)
class NarrowModule(NarrowArithmetic):
    """Positions, frequencies or phases in 16 bits, and then tables, or products as well."""

    recipe: str  # It begins with the dtype.
    has_narrow_products: bool
    summary = "a rotary module that was cast to 16 bits: steps, tables and products are rounded"
    seen_in = ("model.half() and model.to(torch.bfloat16), which cast inv_freq as well",)
    weight = 1.3  # Tables that are only rounded are the shorter answer, even if float32 arithmetic shows.

    @property
    def dtype(self) -> str:
        return self.recipe.split("-")[0]

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        products = self.dtype if self.has_narrow_products else None
        formula = replace(rotated.heads.formula, tables=self.dtype, products=products)
        return replace(with_formula(rotated, formula), arithmetic=RECIPES[self.recipe])

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        yield from starmap(cls, product(RECIPES, (True, False)))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        if self.has_narrow_products:
            return (Recipe(self.recipe), Rotation(f"in {self.dtype}"))
        if self.recipe in WITH_TABLES:
            return (Recipe(WITH_TABLES[self.recipe]),)
        return (Recipe(self.recipe), Recipe(f"{self.dtype}-table"))


class FilledRows(NamedTuple):
    """The rows of queries or keys that are not all zeros."""

    before: Flags
    after: Flags


def filled_rows(case: Case, rotated: RotatedComputation) -> FilledRows:
    """Return which rows hold values before the rotation, and which do after it."""
    every_row = slice(None)
    before = rotated.heads.before.first_few.matrix(every_row)
    after = case.observations.measured(every_row)
    return FilledRows(before=np.asarray(before.any(axis=1)), after=np.asarray(after.any(axis=1)))


@dataclass(frozen=True)
class ZeroRows(RotationMistake):
    """Rows that hold zeros, as those of a buffer after the end of a prompt do."""

    rows: tuple[int, ...]
    summary = "some rows of queries or keys are zeros: a buffer longer than the prompt"
    seen_in = ("static KV caches", "CUDA graphs with padded batches")
    stage = Stage.POSITIONS
    rank = 10  # It is stated after the positions of the other rows.
    shows_in_few_values = True

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        empty = np.zeros(rotated.rows, bool)
        empty[list(self.rows)] = True
        return replace(rotated, empty_rows=empty)

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the rows that are zeros after the rotation, and not before it."""
        filled = filled_rows(case, rotated)
        rows = np.flatnonzero(filled.before & ~filled.after)
        if len(rows):
            yield cls(tuple(rows.tolist()))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        rows = map(case.specification.row_number, self.rows)
        return (RowsZero(tuple(rows)),)


@dataclass(frozen=True)
class ZeroRowsBefore(RotationMistake):
    """Rows that hold zeros before the rotation, and values after it: the two dumps do not belong
    together.
    """

    rows: tuple[int, ...]
    summary = "some rows of queries or keys are zeros before the rotation, and not after it"
    seen_in = ("dumps of two different runs",)
    stage = Stage.DAMAGE

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        damaged = np.zeros((rotated.rows, rotated.heads.before.columns), bool)
        damaged[list(self.rows)] = True
        return replace(rotated, damaged=damaged)

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the rows that are zeros before the rotation and not after it, unless all are."""
        filled = filled_rows(case, rotated)
        rows = np.flatnonzero(filled.after & ~filled.before)
        if 0 < len(rows) < rotated.rows:
            yield cls(tuple(rows.tolist()))

    def edits(self, case: Case) -> tuple[Edit, ...]:
        rows = map(case.specification.row_number, self.rows)
        return (RowsZero(tuple(rows), "before"),)


def has_several_axes(rotated: RotatedComputation) -> bool:
    """Return False for text, whose equal positions on all axes do not show which one a pair follows."""
    return rotated.has_several_axes


def has_sections(scheme: Scheme) -> bool:
    """Return True for M-RoPE, whose pairs follow time, height and width."""
    return scheme.value_of("mrope_section") is not None


@dataclass(frozen=True)
class OtherPairAxes(RotationMistake):
    """Sections of M-RoPE with other numbers of pairs, or interleaved where they are blocks, or the
    reverse.
    """

    axes: tuple[int, ...]  # the axis of positions that each pair follows
    edit: Parameter
    summary = "other sections of M-RoPE in rotated queries, or interleaved ones for blocks"
    seen_in = ("MNN #4133", "Qwen2-VL sections in ports of Qwen3-VL")
    stage = Stage.PARAMETERS
    computation_needs = (has_several_axes,)
    scheme_needs = (has_sections,)

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return replace(rotated, axes=np.array(self.axes))

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the other order of M-RoPE's sections, and the sections measured in the rotation.

        Sections are the numbers of pairs that follow time, height and width, as blocks (t t h w) or
        interleaved (t h w t).
        """
        expected = case.scheme.value_of("mrope_section")
        yield cls._in_other_order(case.scheme)
        if show_phasors(case):
            measured = best_sections(case, rotated)
            if measured != tuple(expected):
                yield cls._with_sections(expected, measured)

    @classmethod
    def _in_other_order(cls, scheme: Scheme) -> Self:
        """Return the same sections interleaved if they should be blocks, or the reverse."""
        is_interleaved = bool(scheme.value_of("mrope_interleaved"))  # None means blocks.
        switched = with_parameters(scheme, mrope_interleaved=not is_interleaved)
        assert isinstance(switched, Positioned)
        edit = Parameter("mrope_interleaved", is_interleaved, not is_interleaved)
        return cls(axes=tuple(switched.pair_axes), edit=edit)

    @classmethod
    def _with_sections(cls, expected: tuple[int, ...], found: tuple[int, ...]) -> Self:
        """Return other sections as blocks: (2, 1, 1) are pairs that follow the axes 0, 0, 1, 2."""
        axes = np.repeat(np.arange(len(found)), found)
        edit = Parameter("mrope_section", ",".join(map(str, expected)), ",".join(map(str, found)))
        return cls(axes=tuple(axes.tolist()), edit=edit)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (self.edit,)
