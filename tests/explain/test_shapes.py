"""Tables whose shape is not the expected one: the schemes that have it, with the edits that lead there.

Rope(8, 16) has cosines of (8, 8), one column per pair; edits are written by hand. No values are
compared here, so that arrays of zeros will do.
"""

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Edit, Layout, Parameter, Repeated, Transposed
from pecli.engine.schemes.positions import Positioned
from pecli.explain.shapes import fit_shapes

COMPACT = pecli.Rope(6, 16)
"""6 positions of dim 16, one column per pair: its cosines are (6, 8)."""
HALVES = pecli.Rope(6, 16, layout="halves")
"""6 positions of dim 16, each pair in two columns: its cosines are (6, 16)."""
LONGER = Parameter("seq_len", 6, 9)
SAME_EXPONENTS = Parameter("exponent_dim", 16, "same")
"""The dim is another one, but frequencies are still base^(−2i/16), with the 16 of the spec."""
TRANSPOSED = Transposed((1, 0))


def edits_of(
    scheme: Positioned, shape: tuple[int, ...], name: str = "cos"
) -> list[tuple[Edit, ...]]:
    """Return the edits of each way in which a tensor of this shape may belong to the scheme."""
    return [tables.edits for tables in fit_shapes(scheme, {name: np.zeros(shape)})]


def edits_without_transposition(
    scheme: Positioned, shape: tuple[int, ...], name: str = "cos"
) -> list[tuple[Edit, ...]]:
    return [edits for edits in edits_of(scheme, shape, name) if TRANSPOSED not in edits]


def other_dim(dim: int) -> list[tuple[Edit, ...]]:
    """Return the two readings of another dim than 16.

    Frequencies are base^(−2i/dim), or still base^(−2i/16) with the exponents of the spec.
    """
    edit = Parameter("dim", 16, dim)
    return [(edit,), (edit, SAME_EXPONENTS)]


@pytest.mark.parametrize(
    ("shape", "edits"),
    [
        pytest.param((6, 8), [()], id="the expected shape"),
        pytest.param((1, 6, 8), [()], id="an axis of 1 before"),
        pytest.param((2, 6, 8), [(Repeated(axis=0, times=2),)], id="2 copies"),
        pytest.param((3, 6, 8), [(Repeated(axis=0, times=3),)], id="3 copies"),
        pytest.param((3, 9, 8), [(Repeated(axis=0, times=3), LONGER)], id="3 copies of 9 rows"),
        pytest.param((2, 3, 6, 8), [], id="two axes of copies are no table"),
    ],
)
def test_an_axis_before_rows_and_columns_counts_copies(
    shape: tuple[int, ...], edits: list[tuple[Edit, ...]]
) -> None:
    """The expected cosines are (6, 8). Each array has one reading, a list of what differs from the
    expected table, or none.
    """
    assert edits_of(COMPACT, shape) == edits


def test_more_rows_are_more_positions_or_the_columns_of_a_transposed_table() -> None:
    """The expected cosines are (6, 8). (9, 8) are 9 positions; or, transposed, 8 positions of 9 pairs,
    so of dim 18, whose frequencies are base^(−2i/18) or still base^(−2i/16).
    """
    eight_positions = Parameter("seq_len", 6, 8)
    dim_18 = Parameter("dim", 16, 18)
    assert edits_of(COMPACT, (9, 8)) == [
        (LONGER,),
        (TRANSPOSED, eight_positions, dim_18),
        (TRANSPOSED, eight_positions, dim_18, SAME_EXPONENTS),
    ]


def test_a_table_of_the_expected_shape_is_transposed_only_if_it_is_square() -> None:
    """A table of 8 positions and 8 pairs may be right or transposed. Of 6 positions and 8 pairs, it is
    transposed if it is (8, 6), and not if it is (6, 8).
    """
    only_transposed = (TRANSPOSED,)
    assert edits_of(pecli.Rope(8, 16), (8, 8)) == [(), only_transposed]
    assert only_transposed in edits_of(COMPACT, (8, 6))
    assert only_transposed not in edits_of(COMPACT, (6, 8))


def test_copies_that_differ_are_none() -> None:
    """An array of (2, 6, 8) may be two copies of a table of (6, 8). `fit_shapes` yields that reading if
    both are equal, also where both are NaN, and none if an element differs.
    """
    array = np.zeros((2, 6, 8))
    array[1, 3, 2] = 1
    assert [*fit_shapes(COMPACT, {"cos": array})] == []
    array[0, 3, 2] = 1
    assert len([*fit_shapes(COMPACT, {"cos": array})]) == 1
    array[:, 0, 0] = np.nan
    assert len([*fit_shapes(COMPACT, {"cos": array})]) == 1


def test_twice_the_columns_are_another_layout_or_twice_the_dim() -> None:
    """The expected cosines have 8 columns, one per pair (compact). 16 are the 8 pairs twice, as halves
    or interleaved, or 16 pairs of dim 32.
    """
    dim_32 = Parameter("dim", 16, 32)
    assert edits_without_transposition(COMPACT, (6, 16)) == [
        (Layout("compact", "halves"),),
        (Layout("compact", "interleaved"),),
        (dim_32,),
        (dim_32, SAME_EXPONENTS),
    ]


def test_half_of_the_columns_are_the_compact_layout_or_half_of_the_dim() -> None:
    """The expected cosines have 16 columns, 8 pairs in halves. 8 columns are the 8 pairs once, which is
    compact, or 4 pairs of dim 8 in halves.
    """
    dim_8 = Parameter("dim", 16, 8)
    readings = edits_without_transposition(HALVES, (6, 8))
    assert readings[:3] == [(Layout("halves", "compact"),), (dim_8,), (dim_8, SAME_EXPONENTS)]

    # Among tables of other dims, the search finds the compact one of dim 16 again.
    schemes = [tables.scheme for tables in fit_shapes(HALVES, {"cos": np.zeros((6, 8))})]
    assert schemes[3 : len(readings)] == [COMPACT, COMPACT]


def test_another_number_of_columns_is_another_dim_in_the_expected_layout_or_compact() -> None:
    """The expected cosines have 16 columns, 8 pairs in halves. 12 columns are 6 pairs of dim 12 in
    halves, or 12 pairs of dim 24 once. The scheme of the latter is compact; the edits state its dim.
    """
    dim_12 = Parameter("dim", 16, 12)
    dim_24 = Parameter("dim", 16, 24)
    readings = [
        (tables.edits, tables.scheme)
        for tables in fit_shapes(HALVES, {"cos": np.zeros((6, 12))})
        if TRANSPOSED not in tables.edits
    ]

    in_halves = pecli.Rope(6, 12, layout="halves")
    compact = pecli.Rope(6, 24, layout="compact")
    assert readings == [
        ((dim_12,), in_halves),
        ((dim_12, SAME_EXPONENTS), in_halves),
        ((dim_24,), compact),
        ((dim_24, SAME_EXPONENTS), compact),
    ]


def test_a_vector_of_frequencies_may_have_another_dim_and_no_other_layout() -> None:
    """8 frequencies are those of dim 16, the expected one; 4 are those of dim 8, with exponents over
    8, or (`other_dim`) still over 16. The layout, here halves, has no part in it.
    """
    assert edits_of(COMPACT, (8,), "inv_freq") == [()]
    assert edits_of(HALVES, (4,), "inv_freq") == other_dim(8)


def test_a_vector_of_frequencies_is_read_as_one_row() -> None:
    """Both readings of 4 frequencies have dim 8, one with its own exponents and one with those of
    dim 16.
    """
    for reading in fit_shapes(HALVES, {"inv_freq": np.zeros(4)}):
        assert reading.rows == 1
        assert reading.columns == 4
        assert reading.scheme.dim == 8


@pytest.mark.parametrize(
    ("scheme", "name", "shape"),
    [
        pytest.param(HALVES, "inv_freq", (4,), id="a vector of frequencies"),
        pytest.param(COMPACT, "cos", (6, 4), id="a table"),
    ],
)
def test_the_exponents_are_those_of_the_new_dim_or_of_the_expected_one(
    scheme: Positioned, name: str, shape: tuple[int, ...]
) -> None:
    """4 pairs are those of dim 8. Their frequencies are base^(−2i/8), for which `exponent_dim` is None
    as it is the dim itself, or base^(−2i/16), with the dim 16 of the spec.
    """
    own_exponents, expected_exponents, *_ = fit_shapes(scheme, {name: np.zeros(shape)})
    assert own_exponents.exponent_dim is None
    assert expected_exponents.exponent_dim == 16


def test_a_sinusoidal_table_of_fewer_columns_has_another_dim_and_no_other_layout() -> None:
    """The expected table has 16 columns, a sine and a cosine per pair as in every sinusoidal table.
    12 columns are dim 12 only, where a rotary table might also have one column per pair.
    """
    dim_12 = Parameter("dim", 16, 12)
    readings = edits_without_transposition(pecli.Sinusoidal(6, 16), (6, 12), "pe")

    assert readings == [(dim_12,), (dim_12, SAME_EXPONENTS)]


def test_a_tensor_with_a_name_of_another_scheme_has_no_reason_for_its_shape() -> None:
    """COMPACT is a rotary scheme, with tables cos and sin; «pe» is the name of a sinusoidal table."""
    assert edits_of(COMPACT, (6, 8), "pe") == []


def test_all_columns_of_a_wider_table_rotate() -> None:
    """Half of each head of 16 channels rotates in the spec: 4 pairs. 6 pairs are a dim of 12."""
    half = pecli.Rope(6, 16, partial_rotary_factor=0.5)
    schemes = [tables.scheme for tables in fit_shapes(half, {"cos": np.zeros((6, 6))})]

    assert pecli.Rope(6, 12) in schemes
