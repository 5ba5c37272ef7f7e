"""Tables that are there for each head or sequence, and bytes in the other order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose.copies import bytes_turned, several_times
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import halves, inverse, sinusoidal, waves


def test_a_table_for_each_sequence_or_head(diagnosed: Diagnosed) -> None:
    pe = sinusoidal(300, 64)
    text = diagnosed(Sinusoidal(300, 64), pe=np.stack([pe] * 3))
    assert text == "pe: the table is right, but there 3 times along axis 0"
    cos, sin = (np.repeat(each[:, None], 4, axis=1) for each in waves(300, inverse(64, 5e5)))
    text = diagnosed(Rope(300, 64, base=5e5), cos=cos, sin=sin)
    assert text == "cos, sin: the table is right, but there 4 times along axis 1"
    cos, sin = (np.tile(halves(each), (5, 1, 1)) for each in waves(300, inverse(64, 5e5)))
    text = diagnosed(Rope(300, 64, base=5e5), cos=cos, sin=sin)
    words = "the table is right, but there 5 times along axis 0; and the layout is halves (the spec says compact)"
    assert text == f"cos, sin: {words}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_bytes_in_the_other_order(diagnosed: Diagnosed, dtype: Any) -> None:
    pe = sinusoidal(300, 64, dtype=dtype).byteswap()
    text = diagnosed(Sinusoidal(300, 64, dtype=dtype), pe=pe)
    assert text == "pe: the bytes of every value are in the other order (big-endian, unsaid)"


def test_other_tables_are_not_called_right() -> None:
    other, scheme = sinusoidal(300, 64, base=500.0), Sinusoidal(300, 64)
    assert several_times(scheme, "pe", table_of("pe", np.stack([other] * 3))) == ""
    different = np.stack([sinusoidal(300, 64), sinusoidal(300, 64, first=1), sinusoidal(300, 64)])
    assert several_times(scheme, "pe", table_of("pe", different)) == ""
    assert bytes_turned(scheme, "pe", table_of("pe", other.byteswap())) == ""
    assert bytes_turned(scheme, "pe", table_of("pe", sinusoidal(300, 64))) == ""
