"""Every known mistake once, in the order in which equally short explanations are preferred."""

from pecli.explain.catalogue.arithmetic import CoarsePi, RoundedSteps
from pecli.explain.catalogue.biases import (
    DistanceOffByOne,
    NegatedBias,
    OtherForm,
    OtherMask,
    OtherMaxBias,
    OtherRule,
    OtherShard,
    ReorderedHeads,
    RoundedSlopes,
    ScaledBias,
    Unmasked,
)
from pecli.explain.catalogue.coarse_storage import Stored
from pecli.explain.catalogue.columns import (
    ExponentOfColumn,
    InvertedFrequencies,
    NegatedFunctions,
    OtherLayout,
    ReversedAlongAxes,
    ReversedPairs,
    SwappedFunctions,
)
from pecli.explain.catalogue.damage import (
    DamagedColumns,
    DamagedElements,
    DamagedHeads,
    DamagedRows,
    Uninitialised,
)
from pecli.explain.catalogue.placements import (
    OtherAxes,
    OtherAxisFactors,
    OtherGridBase,
    OtherGridSpan,
    OtherPlacement,
    OtherPlacementAndBase,
    OtherSections,
)
from pecli.explain.catalogue.regimes import OnlyInRows
from pecli.explain.catalogue.rotation_mistakes import (
    NarrowModule,
    NarrowProducts,
    NarrowTables,
    NotRotated,
    OtherChannels,
    OtherDoubling,
    OtherFormula,
    OtherPairAxes,
    OtherPairs,
    OtherRotaryDim,
    PairsAcrossHead,
    ScaledHeads,
    ZeroRows,
    ZeroRowsBefore,
)
from pecli.explain.catalogue.runtimes import ComputedByRuntime
from pecli.explain.catalogue.scalings import (
    MissingScaling,
    MultipliedByFactors,
    NtkWithoutExponent,
    OtherBetaFast,
    OtherBetaSlow,
    OtherFactor,
    OtherHighFactor,
    OtherLength,
    OtherLowFactor,
    OtherOriginalLength,
    OtherScaling,
    OtherScalingNumber,
    OtherTrainedLength,
    OtherTwoNumbers,
    ScalingReadDifferently,
    ScalingTwice,
)
from pecli.explain.catalogue.schedule_numbers import (
    FewerPairs,
    OtherAmplitude,
    OtherBase,
    OtherExponentDim,
    OtherScale,
)
from pecli.explain.catalogue.scheme_parameters import OtherSchemeParameter
from pecli.explain.catalogue.token_positions import OtherTokenPositions
from pecli.explain.catalogue.used_rows import (
    Clamped,
    LeftPadded,
    OnePosition,
    OtherPaddingRow,
    OtherStart,
    Overflowed,
    PaddedRows,
    ReversedRows,
    RolledRows,
    ShiftedRowsOfOneFunction,
    UsedPositions,
    Wrapped,
)
from pecli.explain.hypothesis import Mistake

DAMAGE: tuple[type[Mistake], ...] = (
    Uninitialised, DamagedElements, DamagedRows, DamagedColumns, DamagedHeads,
)  # fmt: skip

ROTATIONS: tuple[type[Mistake], ...] = (
    NotRotated, OtherTokenPositions, OtherFormula, OtherPairs, OtherDoubling, OtherChannels, OtherRotaryDim,
    PairsAcrossHead, OtherPairAxes, ZeroRows, ZeroRowsBefore, ScaledHeads, NarrowTables, NarrowProducts, NarrowModule,
)  # fmt: skip

MISTAKES: list[type[Mistake]] = [
    *ROTATIONS,
    OtherLayout, ExponentOfColumn, SwappedFunctions, NegatedFunctions, OtherPaddingRow, PaddedRows, ReversedRows, OtherStart, Wrapped,
    RolledRows, OnePosition, Overflowed, Clamped, LeftPadded, MissingScaling, ScalingTwice, MultipliedByFactors, NtkWithoutExponent, ScalingReadDifferently, OtherFactor,
    OtherLength, OtherOriginalLength, OtherTrainedLength, OtherBetaFast, OtherBetaSlow, OtherLowFactor,
    OtherHighFactor, OtherBase, OtherExponentDim, OtherScaling, OtherScalingNumber, OtherScale, FewerPairs, OtherTwoNumbers, OtherAmplitude, ReversedPairs,
    ReversedAlongAxes, InvertedFrequencies, RoundedSteps, CoarsePi, ComputedByRuntime, UsedPositions, ShiftedRowsOfOneFunction, OnlyInRows,
    OtherRule, OtherMaxBias, OtherShard, OtherForm, DistanceOffByOne, ReorderedHeads, NegatedBias, ScaledBias, RoundedSlopes,
    OtherMask, Unmasked, OtherSchemeParameter, OtherPlacement, OtherSections, OtherAxes, OtherGridSpan, OtherGridBase,
    OtherAxisFactors, OtherPlacementAndBase,
]  # fmt: skip


def every_kind() -> tuple[type[Mistake], ...]:
    """Return all known kinds of mistakes, storage included; a kind is known once it is in
    `MISTAKES`.
    """
    return *MISTAKES, *DAMAGE, Stored
