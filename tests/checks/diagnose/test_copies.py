"""Bytes in the other order."""

from __future__ import annotations

from typing import Any

import pytest

from pecli.checks.diagnose.copies import bytes_turned
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import sinusoidal


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_bytes_in_the_other_order(diagnosed: Diagnosed, dtype: Any) -> None:
    pe = sinusoidal(300, 64, dtype=dtype).byteswap()
    text = diagnosed(Sinusoidal(300, 64, dtype=dtype), pe=pe)
    assert text == "pe: the bytes of every value are in the other order (big-endian, unsaid)"


def test_other_tables_are_not_called_right() -> None:
    other, scheme = sinusoidal(300, 64, base=500.0), Sinusoidal(300, 64)
    assert bytes_turned(scheme, "pe", table_of("pe", other.byteswap())) == ""
    assert bytes_turned(scheme, "pe", table_of("pe", sinusoidal(300, 64))) == ""
