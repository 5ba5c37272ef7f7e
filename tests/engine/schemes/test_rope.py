"""Rotary tables, their layouts, and the complex factors by which queries are rotated.

Expected bits and errors come from Arb (python-flint), which computes cos and sin of position ·
base^(-2i/dim) as balls; tests/oracle.py rounds them once. RotationFactors makes cos + i·sin in
float64 for the layers.
"""

from __future__ import annotations

import inspect
import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.schemes import rotation_factors as module
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import RotationFactors
from tests.oracle import bits, rational, rounded, ulps, wave_bits

DTYPES = ("float32", "float16", "bfloat16", "float64")


def assert_equal_to_arbitrary_precision(
    rows: int, dim: int, *, samples: int, base: float = 1e4, offset: int = 0, dtype: str
) -> None:
    """Compare random elements of a table, bit by bit, with values of arbitrary precision."""
    found = Rope(rows, dim, base=base, offset=offset, dtype=dtype).tables()
    rng = np.random.default_rng(rows + dim)
    row = rng.integers(0, rows, samples)
    wave = rng.choice(rng.integers(0, dim // 2, 60), samples)
    for name in ("sin", "cos"):
        sine = np.full(samples, name == "sin")
        true = wave_bits(dtype, sine, base, dim // 2, (row + offset).tolist(), wave.tolist())
        np.testing.assert_array_equal(bits(found[name][row, wave]), true)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.sample(1)
def test_tables_of_many_bases_offsets_and_shapes_are_correctly_rounded(dtype):
    """200 random elements of cos and sin of each `Rope` have, bit for bit, the values of arbitrary
    precision that Arb (python-flint) computes, rounded once to the dtype. Positions go up to 2^40.
    """
    for base in (10000.0, 500000.0, 1e6, 1e20, 2.0, 0.5, 1.0):
        for offset in (0, 10**6 - 150, 2**40 - 300):
            assert_equal_to_arbitrary_precision(
                300, 128, samples=200, base=base, offset=offset, dtype=dtype
            )
    for rows, dim in ((1, 2), (700, 2), (5, 64), (5000, 64), (60, 1024), (4, 65536)):
        assert_equal_to_arbitrary_precision(rows, dim, samples=200, offset=4321, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_row_of_position_two_to_the_40_is_correctly_rounded(dtype):
    """200 random elements of the row at position 2^40 have the bits of Arb's values, rounded once.
    The row is the same as the second of two rows and as a listed position (`Rope.at`).
    """
    assert_equal_to_arbitrary_precision(1, 128, samples=200, offset=2**40, dtype=dtype)

    both = Rope(2, 128, offset=2**40 - 1, dtype=dtype).tables()
    for name, table in Rope(1, 128, dtype=dtype).at([2**40]).items():
        assert table.tobytes() == both[name][1:].tobytes()


@pytest.mark.parametrize(
    ("base", "dim"), [(10000.0, 128), (500000.0, 64), (1e6, 96), (0.5, 2), (1.0, 8), (1e20, 256)]
)
def test_inverse_frequencies_are_correctly_rounded(base, dim):
    """inv_freq of `Rope` are the float64 numbers nearest to base^(-2i/dim), bit for bit. Arb
    (python-flint) computes each power as a ball, an interval that is sure to contain the true
    value; `rounded` rounds it once.
    """
    found = Rope(1, dim, base=base).tables()["inv_freq"]
    true = rounded(
        lambda: [arb(base) ** rational(Fraction(-2 * i, dim)) for i in range(dim // 2)], "float64"
    )

    assert found.shape == (dim // 2,)
    np.testing.assert_array_equal(bits(found), true)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_repeat_the_columns_and_the_single_array_is_cos_then_sin(dtype):
    """compact has a column per pair; halves repeats the whole table, interleaved every column. The
    single array, for files that hold one only, stacks cos and sin.
    """
    layouts = ("compact", "halves", "interleaved")
    made = {layout: Rope(70, 12, dtype=dtype, offset=9, layout=layout) for layout in layouts}

    assert made["compact"].tables()["inv_freq"].dtype == np.float64
    for name in ("cos", "sin"):
        compact, halves, interleaved = (scheme.tables()[name] for scheme in made.values())
        assert compact.shape == (70, 6)
        assert halves.tobytes() == np.concatenate([compact, compact], axis=1).tobytes()
        assert interleaved.tobytes() == np.repeat(compact, 2, axis=1).tobytes()
    for scheme in made.values():
        both = np.stack([scheme.tables()[name] for name in ("cos", "sin")])
        assert scheme.single_array().shape == both.shape
        assert scheme.single_array().array().tobytes() == both.tobytes()
        assert (
            scheme.single_array().read(67, 73).tobytes() == both.reshape(140, -1)[67:73].tobytes()
        )


def test_the_signature_of_rope_shows_every_parameter_and_its_aliases():
    """`help(pecli.Rope)` prints it; theta is another name for base."""
    parameters = inspect.signature(Rope).parameters
    assert [*parameters] == [*inspect.signature(Rope.__init__).parameters][1:]
    assert {*Rope.parameters(), "theta"} <= {*parameters}
    assert parameters["dim"].annotation is int


def test_the_repr_of_a_rope_has_what_differs_from_the_defaults():
    """theta is another name for base, whose default is 10000."""
    assert repr(Rope(4, 8, theta=5e5)) == "Rope(seq_len=4, dim=8, base=500000.0)"


GIVEN = (1.0, 0.1, 1 / 3, 12345.678, 2.0**-40, 1e-9, 5e-324, 0.0)


def values_at(function, angles: list[Fraction]) -> list[arb]:
    return [function(rational(angle)) for angle in angles]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_of_given_frequencies_are_correctly_rounded(dtype):
    """GIVEN has frequencies such as 1/3, 2^-40 and 0. Each element is the cosine or sine of
    position · frequency, which Arb computes in arbitrary precision and rounds once.
    """
    positions = (0, 1, 1000, 2**30)
    tables = Rope(positions=positions, inv_freq=np.array(GIVEN), dtype=dtype).tables()
    angles = [Fraction(p) * Fraction(frequency) for p in positions for frequency in GIVEN]
    for name, function in (("cos", arb.cos), ("sin", arb.sin)):
        true = rounded(partial(values_at, function, angles), dtype)
        np.testing.assert_array_equal(bits(tables[name]).ravel(), true.ravel())
    assert tables["inv_freq"].tolist() == list(GIVEN)


def test_the_frequencies_of_a_base_give_the_tables_of_the_base():
    """64 frequencies make 128 channels. Frequencies of a base are exact powers, and given ones are
    rounded to float64, so that tables may differ by one unit in the last place.
    """
    by_base = Rope(1000, 128)
    by_frequencies = Rope(1000, inv_freq=by_base.tables()["inv_freq"])

    assert by_frequencies.dim == 128
    for name, table in by_frequencies.tables().items():
        assert ulps(table, by_base.tables()[name]).max() <= 1


def test_a_spec_holds_given_frequencies():
    """A spec is the scheme as plain data; it goes through JSON, as in a file."""
    rope = Rope(4, inv_freq=GIVEN)
    spec = json.loads(json.dumps(rope.spec()))

    assert spec["parameters"]["inv_freq"] == list(GIVEN)
    assert Rope.from_spec(spec) == rope


def test_a_spec_of_a_base_does_not_mention_given_frequencies():
    """The parameter inv_freq was added later: without it, a spec is the one of older versions."""
    assert "inv_freq" not in Rope(4, 8).spec()["parameters"]


def largest_error(found: np.ndarray, positions, dim: int) -> float:
    """How far cosines and sines are from the true values, at most."""
    errors = []
    with ctx.workprec(200):
        for row, position in zip(found, positions, strict=True):
            for pair, factor in enumerate(row):
                angle = arb(10000) ** (arb(-2 * pair) / dim) * int(position)
                errors += [arb(factor.real) - angle.cos(), arb(factor.imag) - angle.sin()]
        return max(abs(float(error)) for error in errors)


NEAR_POSITIONS = [0, 1, 255, 256, 257, 4095]
FAR_POSITIONS = [131071, 10**6, 2**32 + 5, 2**40]
ONE_ROUNDING = 0.6 * 2**-53
"""The error of one rounding of float64 numbers up to 1, which is 0.5 · 2^-53, and a little."""


@pytest.mark.parametrize("is_exact", [True, False], ids=["exact", "fast"])
def test_rotations_at_listed_positions_are_off_by_one_rounding(is_exact, monkeypatch):
    """A rotation is the complex number exp(i · position · frequency), which is computed for each listed
    position by itself if nothing can be cached (MAX_CACHED_BYTES). `largest_error` is measured against
    Arb.
    """
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 0)
    positions = NEAR_POSITIONS + FAR_POSITIONS
    factors = RotationFactors(Rope(1, 16), exact=is_exact).at(np.array(positions))

    assert largest_error(factors, positions, 16) <= ONE_ROUNDING


def test_rotations_that_are_cached_are_off_by_one_rounding_if_they_have_to_be_exact():
    """The cache is a table of all positions from 0 on: it is made for near positions only. exact=True
    computes each of its rows by itself, not as a product with the row of a neighbour.
    """
    rotation_factors = RotationFactors(Rope(1, 16), exact=True)
    factors = rotation_factors.at(np.array(NEAR_POSITIONS))

    assert len(rotation_factors.kept) == max(NEAR_POSITIONS) + 1
    assert largest_error(factors, NEAR_POSITIONS, 16) <= ONE_ROUNDING


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("start", [0, 250, 10**6 - 20, 2**40 - 600])
def test_rotations_made_from_neighbours_are_within_four_units(start, keep, monkeypatch):
    """Factors in a run of positions are made by multiplying neighbours, so that several roundings
    add up. Errors are measured against Arb; a unit is 2^-53.
    """
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", (1 << 27) if keep else 0)
    wanted = range(start, start + 40)
    found = RotationFactors(Rope(1, 16)).at(wanted)

    assert largest_error(found, wanted, 16) <= 4 * 2**-53


@pytest.fixture
def _no_cache(monkeypatch):
    """Leave no room for cached rotations, which are then computed in every call."""
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 0)


EXACT_OR_FAST = pytest.mark.parametrize("is_exact", [True, False], ids=["exact", "fast"])
"""Runs a test for rotations that are computed one by one, and for products of two rotations."""


@EXACT_OR_FAST
@pytest.mark.usefixtures("_no_cache")
@pytest.mark.parametrize(
    ("start", "stop"), [(100, 1500), (101, 103), (255, 257), (256, 700), (1499, 1500)]
)
def test_the_rotation_of_a_position_does_not_depend_on_the_range_that_it_is_in(
    start, stop, is_exact
):
    """A part of the positions 100 … 1499 has the bytes of the same rows of the whole. Products are made
    in runs of 256 positions, hence the parts about 256.
    """
    rotation_factors = RotationFactors(Rope(1, 32), exact=is_exact)
    whole = rotation_factors.at(range(100, 1500))
    part = rotation_factors.at(range(start, stop))

    assert part.tobytes() == whole[start - 100 : stop - 100].tobytes()


@EXACT_OR_FAST
def test_cached_rotations_are_those_that_are_computed_anew(is_exact, monkeypatch):
    """The cache is a table of the positions from 0 on."""
    cached = RotationFactors(Rope(1, 32), exact=is_exact)
    found = cached.at(range(100, 1500))
    assert len(cached.kept) == 1500

    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 0)
    expected = RotationFactors(Rope(1, 32), exact=is_exact).at(range(100, 1500))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("_no_cache")
def test_without_room_for_a_cache_no_rotation_is_kept():
    """`reserve` computes the rotations of a range for later calls if they may be kept: 9 here."""
    rotation_factors = RotationFactors(Rope(1, 32))
    rotation_factors.reserve(0, 9)
    rotation_factors.at(range(9))

    assert len(rotation_factors.kept) == 0


def test_with_room_for_a_cache_reserved_rotations_are_kept():
    """`reserve` computes the rotations of a range for later calls: 9 here."""
    rotation_factors = RotationFactors(Rope(1, 32))
    rotation_factors.reserve(0, 9)

    assert len(rotation_factors.kept) == 9


def test_the_inverse_of_a_rotation_divides_by_the_attention_factor():
    """Rotations are complex numbers, whose magnitude is the attention factor: YaRN by 4 multiplies by
    1 + 0.1 ln 4 = 1.139. A rotation times its inverse is 1.
    """
    rope = Rope(8, 16, scaling="yarn", factor=4, original_max_position_embeddings=1024)
    there = RotationFactors(rope, inverse=False).at(range(8))
    back = RotationFactors(rope, inverse=True).at(range(8))

    np.testing.assert_allclose(np.abs(there), 1 + 0.1 * np.log(4), rtol=1e-15)
    np.testing.assert_allclose(there * back, 1, rtol=1e-15)


@pytest.mark.parametrize("places", [1, -1, 4096, -(2**40)])
def test_a_shift_has_no_attention_factor(places):
    """Shifting keys of a cache by some positions multiplies by complex numbers of magnitude 1, without
    YaRN's attention factor, which the keys have already.
    """
    yarn = Rope(8, 16, scaling="yarn", factor=4, original_max_position_embeddings=1024)
    np.testing.assert_allclose(np.abs(RotationFactors(yarn).shift(places)), 1, rtol=3e-16)


@pytest.mark.parametrize("places", [1, -1, 4096, -(2**40)])
def test_a_shift_is_the_rotation_by_so_many_positions(places):
    """The 8 pairs of 16 channels are compared with Arb's exp(i · places · frequency); 0.6 · 2^-53 is
    one rounding of float64 and a little.
    """
    factors = RotationFactors(Rope(8, 16)).shift(places)
    assert factors.shape == (1, 8)
    assert largest_error(factors, [places], 16) <= 0.6 * 2**-53
