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
    def only_tokens(cls, expected: Floats) -> Self:
        """Return rows that all are tokens, at stated positions (axes, rows)."""
        is_token = np.ones(expected.shape[1], bool)
        return cls(expected, is_token, padding=expected, are_stated=True)

    @property
    def padded_rows(self) -> int:
        """The number of rows of left padding."""
        return int(self.is_token.argmax())

    def all_rows(self, used: Floats) -> Floats:
        """Return the positions (axes, rows) of all rows, from those of tokens: padding keeps its own."""
        positions = np.array(self.padding)
        positions[:, self.is_token] = used
        return positions

    def mistake(self, used: Floats) -> PositionMistake | None:
        """Return the known mistake that leads tokens to the positions that were used for them.

        It is looked for along the first axis, which all rows of a text follow.
        """
        used_by_all = self.all_rows(used)
        return find_position_mistake(self.expected[0], used_by_all[0], self.padded_rows)

    def edit(self, used: Floats, mistake: PositionMistake | None) -> Positions:
        """Return the edit that names the positions used for tokens, and the mistake that led to them."""
        return positions_edit(self.expected, self.all_rows(used), mistake)
