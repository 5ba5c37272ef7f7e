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
TABLES_48_BY_64 = pecli.Rope(48, 128).tables()

Tables = Mapping[str, np.ndarray]


def with_transposed(tables: Tables, *names: str) -> dict[str, np.ndarray]:
    """Return the cosines and sines of tables, some of them transposed."""
    return {
        name: tables[name].T.copy() if name in names else tables[name] for name in ("cos", "sin")
    }


@pytest.mark.parametrize("square", SQUARE_TABLES)
@pytest.mark.parametrize("name", ["cos", "sin"])
def test_one_of_a_pair_that_is_transposed_fails(square: str, name: str) -> None:
    """A square table has the same shape transposed, so only the values show it."""
    result = pecli.verify(with_transposed(SQUARE_TABLES[square], name), LLAMA_2_7B, atol=1e-3)
    assert not result.passed
    assert any("transposed" in line for line in result.diagnosis)


@pytest.mark.parametrize("square", SQUARE_TABLES)
def test_both_of_a_pair_that_are_transposed_pass_with_a_note(square: str) -> None:
    """A program may keep (channels, positions) throughout; the tables are square, so their shape
    does not show it. If both are transposed, they are right in this reading, which is noted.
    """
    result = pecli.verify(
        with_transposed(SQUARE_TABLES[square], "cos", "sin"), LLAMA_2_7B, atol=1e-3
    )
    assert result.passed
    assert all("transposed" in note for note in result.readings.values())


@pytest.mark.parametrize("name", ["cos", "sin", "rotary_emb.sin_cached"])
def test_a_table_without_its_other_half_is_not_read_transposed(name: str) -> None:
    """Cosines without sines, or sines without cosines: nothing shows that the program keeps
    (channels, positions).
    """
    table = SQUARE_TABLES["compact"]["cos" if "cos" in name else "sin"]
    assert pecli.verify({name: table}, LLAMA_2_7B).passed
    assert not pecli.verify({name: table.T.copy()}, LLAMA_2_7B, reasons=False).passed
    assert not pecli.verify({name: table.T.copy()}, pecli.Rope(64, 128), reasons=False).passed


@pytest.mark.parametrize("square", SQUARE_TABLES)
@pytest.mark.parametrize("name", ["cos", "sin"])
def test_diff_names_one_transposed_table_in_both_orders(square: str, name: str) -> None:
    """Exchanging the files changes neither the verdict nor the counts."""
    tables = with_transposed(SQUARE_TABLES[square])
    forth = pecli.diff(tables, with_transposed(tables, name))
    back = pecli.diff(with_transposed(tables, name), tables)

    assert not forth.passed
    assert not back.passed
    assert isinstance(forth.explanations[0].edits[0], Transposed)

    counts = [tensor.mismatched for tensor in forth.tensors]
    assert counts == [tensor.mismatched for tensor in back.tensors]


@pytest.mark.parametrize("square", SQUARE_TABLES)
def test_diff_reads_two_transposed_tables_as_such(square: str) -> None:
    """The tables of A are square, so their shape does not show that those of B are transposed;
    `diff` passes, and its readings say so.
    """
    tables = with_transposed(SQUARE_TABLES[square])
    result = pecli.diff(tables, with_transposed(tables, "cos", "sin"))

    assert result.passed
    assert result.readings == {"cos": "B: transposed", "sin": "B: transposed"}


@pytest.mark.parametrize("name", ["cos", "sin"])
def test_one_of_a_pair_fails_also_if_shapes_differ(name: str) -> None:
    """cos and sin of 48 positions and 64 frequencies, one of them transposed: `verify` and `diff`
    both fail.
    """
    assert not pecli.verify(
        with_transposed(TABLES_48_BY_64, name), LLAMA_2_7B, reasons=False
    ).passed
    assert not pecli.diff(
        with_transposed(TABLES_48_BY_64), with_transposed(TABLES_48_BY_64, name), reasons=False
    ).passed
    assert not pecli.diff(
        with_transposed(TABLES_48_BY_64, name), with_transposed(TABLES_48_BY_64), reasons=False
    ).passed


def test_columns_that_repeat_wrong_values_are_not_read_as_heads() -> None:
    """A table (64, 64) of 8 random columns, 8 times, may be anything: 4 heads of 16 channels beside
    each other, as a table (64, 16) would be stored for them, have to be near the expected cosines.
    """
    columns = np.random.default_rng(0).uniform(-1, 1, (64, 8))
    result = pecli.verify({"cos": np.tile(columns, 8)}, pecli.Rope(64, 16), reasons=False)

    assert not result.passed
    assert result.readings == {}
