"""Rows at other places than those of a grid or of listed positions, and grids with another base."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Parameter
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain.catalogue.kinds import WaveMistake
from pecli.explain.catalogue.law_numbers import USUAL_BASES
from pecli.explain.hypothesis import Case, Stage
from pecli.explain.known_mistakes import neighbours
from pecli.explain.making import Columns, WaveMaking
from pecli.explain.measure import fit_number
from pecli.explain.numbers import plain_numbers
from pecli.explain.subject import making_of


@dataclass(frozen=True)
class OtherPlacement(WaveMistake):
    """Exchanged axes, other rows beside the grid, another style, positions off by one."""

    scheme: Positioned
    named: tuple[Edit, ...]
    summary = "exchanged axes of a grid, another style, other rows beside it, positions off by one"
    seen_in = ("Swin's 6×8 for 8×6", "class tokens that shift a grid by one row")
    stage = Stage.PARAMETERS

    def in_waves(self, waves: WaveMaking) -> WaveMaking:
        if not isinstance(waves.form, Columns):
            raise TypeError("only tables have rows on a grid")
        other = making_of(self.scheme, waves.form.tensors)
        if other is None:
            raise TypeError("a grid has cosines and sines")
        return replace(other, arithmetic=waves.arithmetic, storage=waves.storage)

    @classmethod
    def proposals_for(cls, case: Case, waves: WaveMaking) -> Iterator[Self]:
        scheme = case.scheme
        is_listed = isinstance(scheme, Positioned) and not scheme.is_range
        if not is_listed or not isinstance(waves.form, Columns) or case.waves_were_replaced:
            return
        for neighbour in neighbours(scheme):
            mistake = cls(neighbour.scheme, neighbour.edits)  # type: ignore[arg-type]
            if mistake.has_shape_of(waves):
                yield mistake

    def has_shape_of(self, waves: WaveMaking) -> bool:
        """Return True if the scheme's table has the same rows and columns."""
        other = self.in_waves(waves)
        if not isinstance(other.form, Columns) or not isinstance(waves.form, Columns):
            return False
        same_columns = len(other.form.columns.pair) == len(waves.form.columns.pair)
        return other.rows == waves.rows and same_columns

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return self.named

    def scheme_after(self, scheme: Scheme) -> Scheme:
        return self.scheme


class OtherGridBase(OtherPlacement):
    """A grid with the base of another model."""

    summary = "a grid with the base of another model"

    @classmethod
    def proposals_for(cls, case: Case, waves: WaveMaking) -> Iterator[Self]:
        scheme: Any = case.scheme
        is_grid = waves.law is None and isinstance(waves.form, Columns)
        if not is_grid or case.frequencies is None or case.waves_were_replaced:
            return

        def frequencies(base: float) -> Floats:
            return _with_base(scheme, base)

        fit = fit_number(frequencies, case.frequencies, USUAL_BASES)
        if fit is None:
            return
        near = [base for base in USUAL_BASES if abs(base - fit.value) <= fit.error]
        for base in dict.fromkeys((*near, *plain_numbers(fit.value, fit.error))):
            if base != scheme.base:
                edit = Parameter("base", scheme.base, base)
                yield cls(replace(scheme, base=base, **_rows(scheme)), (edit,))


def _with_base(scheme: Any, base: float) -> Floats:
    """Return the frequencies of a scheme with another base; NaN if it has no such base."""
    try:
        return np.array(replace(scheme, base=base, **_rows(scheme)).angular_frequencies())
    except ParameterError:
        return np.full(len(scheme.angular_frequencies()), np.nan)


def _rows(scheme: Any) -> dict[str, Any]:
    """Return the changes that let rows follow from positions or a grid."""
    return {} if scheme.is_range else {"seq_len": None}
