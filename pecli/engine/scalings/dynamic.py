"""Dynamic NTK scaling: a base that grows with the length, once that exceeds M."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pecli.engine.scalings.ntk import Ntk


@dataclass(frozen=True)
class Dynamic(Ntk):
    """Base b·(f·L/M − (f − 1))^(d/(d−2)), with L = max(length, M)."""

    name = "dynamic"

    max_position_embeddings: int
    length: int | None = None

    def stretch(self) -> Fraction:
        factor, longest = Fraction(self.factor), Fraction(self.max_position_embeddings)
        return factor * max(Fraction(self.length or 0), longest) / longest - (factor - 1)

    def stretch_in_float64(self) -> Any:
        length = 0 if self.length is None else self.length
        return self.factor * np.maximum(length, self.max_position_embeddings) / self.max_position_embeddings - (
            self.factor - 1
        )
