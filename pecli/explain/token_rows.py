"""Rows that are tokens of a sequence: where they should be, and which of them are padding."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.engine.edits import PositionMistake, Positions
from pecli.explain.misplacements import find_position_mistake, positions_edit


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of one or several sequences as tokens: their expected positions, and which of them are padding."""

    expected: Floats  # (axes, rows)
    is_token: Flags  # False for padding, which is not compared
    padding: Floats  # (axes, rows): positions at which padding seems to be
    are_stated: bool  # whether positions were given, so that these are what may be wrong

    @classmethod
    def without_padding(cls, expected: Floats) -> Self:
        """Return rows that all are tokens, at stated positions (axes, rows)."""
        is_token = np.ones(expected.shape[1], bool)
        return cls(expected, is_token, padding=expected, are_stated=True)

    @property
    def padded_rows(self) -> int:
        """The number of rows of left padding."""
        return int(self.is_token.argmax())

    def all_rows(self, used: Floats) -> Floats:
        """Return positions (axes, rows) of rows that are not padding together with those of padding."""
        every = np.array(self.padding)
        every[:, self.is_token] = used
        return every

    def mistake(self, used: Floats) -> PositionMistake | None:
        """Return the known mistake that leads to these positions of rows that are not padding."""
        every = self.all_rows(used)
        return find_position_mistake(self.expected[0], every[0], self.padded_rows)

    def edit(self, used: Floats, mistake: PositionMistake | None) -> Positions:
        return positions_edit(self.expected, self.all_rows(used), mistake)
