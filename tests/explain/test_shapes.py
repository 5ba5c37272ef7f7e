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
HALVES = pecli.Rope(6, 16, layout="halves")
LONGER = Parameter("seq_len", 6, 9)
TO_COMPACT = Layout("halves", "compact")
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
    """Return the two ways to have another dim: base^(−2i/dim), or still base^(−2i/16)."""
    edit = Parameter("dim", 16, dim)
    return [(edit,), (edit, SAME_EXPONENTS)]


@pytest.mark.parametrize(
    ("shape", "edits"),
    [
        pytest.param((6, 8), [()], id="the expected shape"),
        pytest.param((9, 8), [(LONGER,), (TRANSPOSED, Parameter("seq_len", 6, 8), *other_dim(18)[0]),
                  (TRANSPOSED, Parameter("seq_len", 6, 8), *other_dim(18)[1])], id="9 rows"),
        pytest.param((1, 6, 8), [()], id="an axis of 1 before"),
        pytest.param((2, 6, 8), [(Repeated(axis=0, times=2),)], id="2 copies"),
        pytest.param((3, 6, 8), [(Repeated(axis=0, times=3),)], id="3 copies"),
        pytest.param((3, 9, 8), [(Repeated(axis=0, times=3), LONGER)], id="3 copies of 9 rows"),
        pytest.param((2, 3, 6, 8), [], id="two axes of copies are no table"),
    ],
)  # fmt: skip
def test_rows_and_copies_may_be_others(
    shape: tuple[int, ...], edits: list[tuple[Edit, ...]]
) -> None:
    """A compact table of 6 positions and dim 16 is (6, 8). (9, 8) has 9 positions; or it is the
    transposed table of 8 positions and 9 frequencies, so of dim 18. An axis before them counts copies.
    """
    assert edits_of(COMPACT, shape) == edits


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


@pytest.mark.parametrize(
    ("scheme", "width", "edits"),
    [
        (COMPACT, 16, [(Layout("compact", "halves"),), (Layout("compact", "interleaved"),),
                       *other_dim(32)]),
        (HALVES, 8, [(TO_COMPACT,), *other_dim(8), *other_dim(16)]),
        (HALVES, 12, [*other_dim(12), *other_dim(24)]),
    ],
    ids=["doubled", "compact", "another dim"],
)  # fmt: skip
def test_columns_are_those_of_another_layout_or_dim(
    scheme: Positioned, width: int, edits: list[tuple[Edit, ...]]
) -> None:
    """16 columns of cosines are 8 pairs twice (two layouts), or 16 pairs of a dim of 32. 8 columns
    of halves are 4 pairs twice, so of dim 8; or one column for each of 8 pairs of dim 16, which is
    compact; or, by the last reading, compact with the exponents of another dim. 12 columns are of
    dim 12, or compact of dim 24.
    """
    assert edits_without_transposition(scheme, (6, width)) == edits


def test_a_vector_of_frequencies_may_have_another_dim_and_no_other_layout() -> None:
    """8 frequencies are those of dim 16, the expected one; 4 are those of dim 8, with exponents over
    8, or (`other_dim`) still over 16. The layout, here halves, has no part in it.
    """
    assert edits_of(COMPACT, (8,), "inv_freq") == [()]
    assert edits_of(HALVES, (4,), "inv_freq") == other_dim(8)


def test_a_vector_of_4_frequencies_is_read_as_one_row_of_dim_8() -> None:
    """The exponents are those of dim 8, which is no number of its own (None)."""
    (first, _) = fit_shapes(HALVES, {"inv_freq": np.zeros(4)})
    assert first.scheme.dim == 8
    assert first.exponent_dim is None
    assert first.rows == 1
    assert first.columns == 4


def test_the_exponents_may_be_those_of_the_expected_dim() -> None:
    """4 pairs are those of dim 8. By the second reading their frequencies are base^(−2i/16), with the
    dim 16 of the spec, instead of base^(−2i/8).
    """
    _, same_exponents, *_ = fit_shapes(COMPACT, {"cos": np.zeros((6, 4))})
    assert same_exponents.exponent_dim == 16


def test_a_sinusoidal_table_of_fewer_columns_has_another_dim_and_no_other_layout() -> None:
    """Both schemes have dim 16, and the table has 12 columns instead of 16. The rotary one may have dim
    12, or dim 24 with one column per pair (compact). A sinusoidal table has a sine and a cosine per
    pair in every layout: it has dim 12.
    """
    rotary = edits_without_transposition(HALVES, (6, 12), "cos")
    sinusoidal = edits_without_transposition(pecli.Sinusoidal(6, 16), (6, 12), "pe")

    assert rotary == [*other_dim(12), *other_dim(24)]
    assert sinusoidal == other_dim(12)


def test_a_tensor_with_a_name_of_another_scheme_has_no_reason_for_its_shape() -> None:
    """COMPACT is a rotary scheme, with tables cos and sin; «pe» is the name of a sinusoidal table."""
    assert edits_of(COMPACT, (6, 8), "pe") == []


def test_all_columns_of_a_wider_table_rotate() -> None:
    """Half of each head of 16 channels rotates in the spec: 4 pairs. 6 pairs are a dim of 12."""
    half = pecli.Rope(6, 16, partial_rotary_factor=0.5)
    schemes = [tables.scheme for tables in fit_shapes(half, {"cos": np.zeros((6, 6))})]

    assert pecli.Rope(6, 12) in schemes
