"""Numbers that no absolute tolerance covers (slopes, frequencies), passes that prove little, and
what looks like a table.

Slopes of 8 heads are 1/2, 1/4, …, 1/256 by ALiBi's paper; COS and SIN are NumPy's for 12 positions,
16 channels and base 500000. `weak` are remarks on a pass that proves little.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.weak_checks import looks_like_table
from tests.checks.rope_dumps import CONFIG, COS, ROPE, SIN, cosines_and_sines
from tests.checks.waves import Array

SLOPES_OF_8_HEADS = 2.0 ** -np.arange(1, 9)
LAST_OFF_BY_A_FIFTH = SLOPES_OF_8_HEADS * np.r_[np.ones(7), 1.2]
"""Slopes, the last of which is off by 0.0008: less than a tolerance of 1e-3."""
NAIVE_SLOPES_OF_6_HEADS = 2.0 ** (-8 * np.arange(1, 7) / 6)


@pytest.mark.parametrize(
    ("slopes", "passed"),
    [(SLOPES_OF_8_HEADS, True), (LAST_OFF_BY_A_FIFTH, False)],
    ids=["right", "the last off by a fifth"],
)
def test_an_absolute_tolerance_does_not_apply_to_slopes(slopes: Array, passed: bool) -> None:
    """By the paper, the slopes of 8 heads are 1/2, …, 1/256. The last is off by a fifth, 0.0008:
    less than the tolerance of 1e-3, but a fifth of every bias of this head.
    """
    scheme = pecli.Alibi(heads=8, slopes=True)
    assert pecli.verify({"slopes": slopes}, scheme, atol=1e-3).passed == passed


@pytest.mark.parametrize(("name", "passed"), [("slopes", False), ("t", True)])
def test_diff_applies_an_absolute_tolerance_to_a_vector_unless_it_is_called_slopes(
    name: str, passed: bool
) -> None:
    """The last of eight numbers, 1/256, is off by a fifth, 0.0008: less than 1e-3."""
    result = pecli.diff({name: SLOPES_OF_8_HEADS}, {name: LAST_OFF_BY_A_FIFTH}, atol=1e-3)
    assert result.passed == passed


@pytest.mark.parametrize(("dtype", "passed"), [("float32", False), ("bfloat16", True)])
def test_slopes_in_bfloat16_pass_only_if_the_scheme_has_that_dtype(
    dtype: str, passed: bool
) -> None:
    """Slopes of 6 heads by the naive rule are 2^(−8 k / 6), most of which are not powers of two, so
    that bfloat16 rounds them. The tolerance atol=1e-2 does not apply to slopes.
    """
    scheme = pecli.Alibi(heads=6, rule="naive", slopes=True, dtype=dtype)
    dump = {"slopes": NAIVE_SLOPES_OF_6_HEADS.astype(ml_dtypes.bfloat16)}

    assert pecli.verify(dump, scheme, atol=1e-2).passed == passed


@pytest.mark.parametrize(("units", "passed"), [(0, False), (1, True)])
def test_frequencies_off_by_a_millionth_pass_only_with_a_tolerance(
    units: int, passed: bool
) -> None:
    """The frequencies of 8 channels are 1, 0.1, 0.01 and 0.001. 0.1 is off by 1e-6 of itself, by
    the rounding of float32 arithmetic. Without a tolerance, max_ulp=0, frequencies must be exact;
    with any, such as max_ulp=1, they may be off by 1e-5.
    """
    dump = {"inv_freq": np.array([1.0, 0.1 * (1 + 1e-6), 0.01, 0.001])}
    scheme = pecli.Rope(seq_len=4, dim=8)
    (inv_freq, *_) = pecli.verify(dump, scheme, max_ulp=units).tensors

    assert inv_freq.passed == passed


def test_a_pass_of_one_row_is_weak() -> None:
    """The dump has the first row of the cosines and sines of CONFIG, whose base is 500000. At
    position 0 every base has cos 0 = 1 and sin 0 = 0, so that neither the default base, 10000, nor
    a missing rotation would show.
    """
    weak = pecli.verify(cosines_and_sines(lambda table: table[:1]), CONFIG).weak
    assert weak[0] == "1 row cannot tell base 500000 from 10000: compare 2 or more"
    assert weak[-1] == "position 0 alone cannot detect a missing rotation: compare others"


def test_a_bias_of_one_query_and_one_key_cannot_tell_its_slopes() -> None:
    """Slopes follow from max_bias, which is contrasted with its double. The only element is a slope
    times the distance 0; a second query would be at the distance 1 from the first key.
    """
    spec = pecli.Alibi(heads=8, seq_len=1, max_bias=8.0)
    result = pecli.verify({"bias": spec.tables()["bias"]}, spec)
    assert result.weak[0] == "1 row cannot tell max_bias 8 from 16: compare 2 or more"


def test_a_pass_of_two_rows_is_not_weak() -> None:
    """The dump has the first two rows of the cosines and sines of CONFIG. At position 1 they depend
    on the base, and differ from those of no rotation: every known mistake would fail.
    """
    assert pecli.verify(cosines_and_sines(lambda table: table[:2]), CONFIG, atol=1e-3).weak == ()


def test_cosines_and_sines_of_different_lengths_are_weak() -> None:
    """COS and SIN are the tables of CONFIG, and pass by themselves. No program needs 12 rows of
    cosines and 9 of sines.
    """
    dump = {"cos": COS, "sin": SIN[:9]}
    assert pecli.verify(dump, CONFIG).weak == ("cos has 12 rows, and sin has 9",)


@pytest.mark.parametrize("tensor", ["", ":cos"], ids=["all tensors", "one tensor"])
def test_a_file_is_verified_against_the_spec_that_it_carries(tmp_path: Path, tensor: str) -> None:
    """`pecli.save` writes the scheme, ROPE, into the file as its spec. FILE:NAME is one tensor."""
    file = tmp_path / "t.npz"
    pecli.save(str(file), ROPE)

    assert pecli.verify(f"{file}{tensor}").passed


@pytest.mark.parametrize(
    "array",
    [COS, COS[None], COS[:3], COS + 1j * SIN, 2 * COS],
    ids=["cosines", "a batch", "three rows", "complex", "up to 2"],
)
def test_waves_in_three_rows_at_least_look_like_a_table(array: Array) -> None:
    """COS and SIN have 12 positions and 8 pairs. Numbers within ±2 with smooth columns look like a
    table, to which verify gives no advice about queries after a rotation.
    """
    assert looks_like_table(array)


@pytest.mark.parametrize(
    "array",
    [
        COS[0],
        3 * COS,
        COS.astype(int),
        COS[:2],
        np.ones((8, 8)),
        COS[:, :0],
        COS[:0],
        np.random.default_rng(0).normal(size=(64, 8)).clip(-2, 2),
    ],
    ids=[
        "a vector", "up to 3", "integers", "two rows", "equal rows", "no columns", "no rows",
        "noise",
    ],
)  # fmt: skip
def test_arrays_without_smooth_waves_do_not_look_like_a_table(array: Array) -> None:
    """COS has 12 positions and 8 pairs. Values beyond ±2, integers, fewer than three rows,
    constants and noise do not look like cosines, so that verify may advise that they are queries.
    """
    assert not looks_like_table(array)
