"""Tables in another dtype."""

from __future__ import annotations

import numpy as np

from pecli.engine.cast import cast
from pecli.engine.table import table_of


def test_casts_round_once() -> None:
    midway = 1 + 2**-8  # between two bfloat16 numbers; float32 would lose what is beyond it
    table = cast(table_of("w", np.array([midway + 2**-40, midway - 2**-40, midway])), "bfloat16")
    assert table.array().astype(float).tolist() == [1 + 2**-7, 1.0, 1.0]
    whole = table_of("n", np.arange(3))
    assert cast(whole, "float16") is whole


def test_a_third_in_eleven_bits() -> None:
    assert cast(table_of("t", np.array([1 / 3, 1.0])), "float16").array().tolist() == [0.333251953125, 1.0]
