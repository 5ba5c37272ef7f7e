"""Tables with as many positions as columns have the same shape transposed: one of a pair must not
be, both may.

The tables are Llama 2's (base 10000), transposed by NumPy; `readings` note how a tensor was
understood.
"""

from collections.abc import Mapping

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Transposed

LLAMA_2_7B = "llama-2-7b"
SQUARE_TABLES = {
    "compact": pecli.Rope(64, 128).tables(),
    "halves": pecli.Rope(128, 128, layout="halves").tables(),
    "float16": pecli.Rope(64, 128, dtype="float16").tables(),
}
"""Tables of Llama 2 with as many rows as columns."""

Tables = Mapping[str, np.ndarray]


def with_transposed(tables: Tables, *names: str) -> dict[str, np.ndarray]:
    """Return the cosines and sines of tables, some of them transposed."""
    return {
        name: tables[name].T.copy() if name in names else tables[name] for name in ("cos", "sin")
    }


@pytest.mark.parametrize("square", SQUARE_TABLES)
@pytest.mark.parametrize("name", ["cos", "sin"])
def test_cosines_or_sines_that_are_transposed_fail_beside_the_right_other_table(
    square: str, name: str
) -> None:
    """Of the square cosines and sines of Llama 2, one is transposed, which only the values show:
    the check fails, and the diagnosis names it.
    """
    result = pecli.verify(with_transposed(SQUARE_TABLES[square], name), LLAMA_2_7B, atol=1e-3)
    assert not result.passed
    assert any("transposed" in line for line in result.diagnosis)


@pytest.mark.parametrize("square", SQUARE_TABLES)
def test_cosines_and_sines_that_are_both_transposed_pass_with_a_note(square: str) -> None:
    """A program may keep (channels, positions) throughout; Llama 2's tables are square here, so
    their shape does not show it. If both are transposed, they are right in this reading, which is
    noted.
    """
    result = pecli.verify(
        with_transposed(SQUARE_TABLES[square], "cos", "sin"), LLAMA_2_7B, atol=1e-3
    )
    assert result.passed
    assert all("transposed" in note for note in result.readings.values())


@pytest.mark.parametrize("name", ["cos", "sin", "rotary_emb.sin_cached"])
def test_cosines_without_sines_and_sines_without_cosines_are_not_read_transposed(
    name: str,
) -> None:
    """A square table of 64 positions and 64 frequencies is alone in its file. Nothing shows that
    the program keeps (channels, positions), so that it passes as it is and fails transposed.
    """
    table = pecli.Rope(seq_len=64, dim=128).tables()["cos" if "cos" in name else "sin"]
    transposed = table.T.copy()

    assert pecli.verify({name: table}, LLAMA_2_7B).passed
    assert not pecli.verify({name: transposed}, LLAMA_2_7B, reasons=False).passed
    assert not pecli.verify({name: transposed}, pecli.Rope(64, 128), reasons=False).passed


@pytest.mark.parametrize("square", SQUARE_TABLES)
@pytest.mark.parametrize("name", ["cos", "sin"])
def test_diff_names_one_transposed_table_in_both_orders(square: str, name: str) -> None:
    """One file has square cosines and sines, the other the same with one of them transposed.
    Exchanging the files changes neither the verdict nor the counts.
    """
    right = with_transposed(SQUARE_TABLES[square])
    wrong = with_transposed(right, name)
    forwards = pecli.diff(right, wrong)
    backwards = pecli.diff(wrong, right)

    assert not forwards.passed
    assert not backwards.passed
    assert isinstance(forwards.explanations[0].edits[0], Transposed)

    counts = [tensor.mismatched for tensor in forwards.tensors]
    assert counts == [tensor.mismatched for tensor in backwards.tensors]


@pytest.mark.parametrize("square", SQUARE_TABLES)
def test_diff_passes_if_cosines_and_sines_of_b_are_both_transposed(square: str) -> None:
    """The tables of A are square, so their shape does not show that those of B are transposed;
    `diff` passes, and its readings say so.
    """
    tables = with_transposed(SQUARE_TABLES[square])
    result = pecli.diff(tables, with_transposed(tables, "cos", "sin"))

    assert result.passed
    assert result.readings == {"cos": "B: transposed", "sin": "B: transposed"}


@pytest.mark.parametrize("name", ["cos", "sin"])
def test_one_of_cosines_and_sines_that_is_transposed_fails_also_if_it_is_not_square(
    name: str,
) -> None:
    """cos and sin of 48 positions and 64 frequencies, one of them transposed to (64, 48): `verify`
    fails, and so does `diff` in both orders.
    """
    right = with_transposed(pecli.Rope(seq_len=48, dim=128).tables())
    wrong = with_transposed(right, name)

    assert not pecli.verify(wrong, LLAMA_2_7B, reasons=False).passed
    assert not pecli.diff(right, wrong, reasons=False).passed
    assert not pecli.diff(wrong, right, reasons=False).passed


def test_columns_that_repeat_wrong_values_are_not_read_as_heads() -> None:
    """Some programs store the cosines of (64, 16) for 4 heads side by side, as (64, 64). Here the
    dump of that shape has 8 random columns, 8 times: it is not near the expected cosines, so that
    no reading as heads is noted.
    """
    columns = np.random.default_rng(0).uniform(-1, 1, (64, 8))
    result = pecli.verify({"cos": np.tile(columns, 8)}, pecli.Rope(64, 16), reasons=False)

    assert not result.passed
    assert result.readings == {}
