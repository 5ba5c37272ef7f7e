"""Recipes: tables as projects compute them, with the dtypes and the order of operations of their
code.

"float32" computes as transformers does, "float32-recurrence" as ggml (each pair's angle is the one
before times a constant), "bfloat16-positions" rounds positions to bfloat16, and so on. Expected
values are those formulas in NumPy's float32, the bits that transformers computed (torch_rope.json),
or errors that others have published.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.recipes import RECIPES
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests.oracle import ulps

ULP = 2.0**-23
FEW = 2 * ULP
"""float32 functions of whatever library runs the tests are off by a last bit or two."""
f16, f32, bf16 = np.float16, np.float32, ml_dtypes.bfloat16

ROPE_BY_TORCH = json.loads(Path(__file__).with_name("torch_rope.json").read_text())
LISTS = {"short_factor": [1.0] * 16, "long_factor": [1.0 + k for k in range(16)]}
LIMITS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALINGS = [
    {"scaling": "none"},
    {"scaling": "linear", "factor": 4.0},
    {"scaling": "ntk", "factor": 3.0},
    {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 16},
    {"scaling": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048},
    {"scaling": "longrope", "factor": 4.0, "original_max_position_embeddings": 8, **LISTS},
    {"scaling": "llama3", "factor": 8.0, "original_max_position_embeddings": 64, **LIMITS},
    {"scaling": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0},
]


def exact_singles(count: int, denominator: float, base: float) -> np.ndarray:
    """Return 1 / base^e in float32 as transformers writes it; the power is rounded from float64."""
    exponents = np.arange(count, dtype=f32) / f32(denominator)
    return f32(1) / np.array([float(f32(base)) ** float(e) for e in exponents]).astype(f32)


def rounded(values: np.ndarray, dtype: type) -> np.ndarray:
    """Return float32 numbers that were rounded to 16 bits on the way."""
    return values.astype(dtype).astype(f32)


def product(positions: np.ndarray, inv_freq: np.ndarray) -> np.ndarray:
    """Return the phases position · inverse frequency in float32, (positions, pairs)."""
    return positions.astype(f32)[:, None] * inv_freq[None]


PHASES_BY_RECIPE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "float32": product,
    "bfloat16-inv-freq": lambda positions, inv_freq: product(positions, rounded(inv_freq, bf16)),
    "bfloat16-positions": lambda positions, inv_freq: product(rounded(positions, bf16), inv_freq),
    "bfloat16-phases": lambda positions, inv_freq: rounded(product(positions, inv_freq), bf16),
    "float16-inv-freq": lambda positions, inv_freq: product(positions, rounded(inv_freq, f16)),
    "float16-positions": lambda positions, inv_freq: product(rounded(positions, f16), inv_freq),
    "float16-phases": lambda positions, inv_freq: rounded(product(positions, inv_freq), f16),
}
"""The formulas of recipes for the phases of positions, with inverse frequencies in float32."""


def ggml_phases(positions: np.ndarray, dim: int, base: float) -> np.ndarray:
    """Return the phases (positions, pairs) of ggml: each pair's is the one before times a constant.

    At position 1 they are the inverse frequencies.
    """
    scale = f32(float(f32(base)) ** float(f32(-2.0) / f32(dim)))
    theta, columns = positions.astype(f32), []
    for _ in range(dim // 2):
        columns.append(theta)
        theta = theta * scale
    return np.stack(columns, axis=1)


def assert_cosines_and_sines_of(rope: Rope, phases: np.ndarray) -> None:
    """Assert that a table has cos and sin of phases, within a unit of float32."""
    tables = rope.tables()
    for name, function in (("cos", np.cos), ("sin", np.sin)):
        expected = function(phases.astype(np.float64))
        np.testing.assert_allclose(tables[name], expected, rtol=0, atol=ULP)


DIMS_AND_BASES = [(128, 10000.0), (96, 10000.0), (64, 500000.0), (2, 10000.0), (10, 0.5)]
OFFSETS_IN_FLOAT16 = [0, 200, 4000]
"""The first positions of tables of 80 rows; float16 ends at 65,504."""
OFFSETS = [*OFFSETS_IN_FLOAT16, 131000, 10**6, 2**24 - 80]


@pytest.mark.parametrize("recipe", PHASES_BY_RECIPE)
@pytest.mark.parametrize(("dim", "base"), DIMS_AND_BASES)
@pytest.mark.sample(9)
def test_each_recipe_has_the_angles_of_its_formula_in_numpy(recipe, dim, base):
    """A recipe names what transformers' modules may have in 16 bits: inverse frequencies, positions, or
    their products, the phases; all else is in float32. PHASES_BY_RECIPE has the formulas in NumPy.
    """
    inv_freq = exact_singles(dim // 2, dim / 2, base)
    for offset in OFFSETS_IN_FLOAT16 if recipe.startswith("float16") else OFFSETS:
        rope = Rope(80, dim, base, offset=offset, recipe=recipe)
        phases = PHASES_BY_RECIPE[recipe](np.arange(offset, offset + 80), inv_freq)
        assert_cosines_and_sines_of(rope, phases)


@pytest.mark.parametrize(("dim", "base"), DIMS_AND_BASES)
@pytest.mark.sample(2)
def test_the_recurrence_has_the_angles_of_ggml_in_numpy(dim, base):
    """ggml multiplies the phase of each pair by base^(-2/dim) to get that of the next, in float32;
    `ggml_phases` does the same in NumPy.
    """
    for offset in OFFSETS:
        rope = Rope(80, dim, base, offset=offset, recipe="float32-recurrence")
        phases = ggml_phases(np.arange(offset, offset + 80), dim, base)
        assert_cosines_and_sines_of(rope, phases)


def singles(row: list[str]) -> np.ndarray:
    """Return float32 numbers from their bits in hexadecimal."""
    return np.array([int(text, 16) for text in row], np.uint32).view(f32)


BY_TORCH = pytest.mark.parametrize(
    "case",
    ROPE_BY_TORCH["cases"],
    ids=lambda case: f"{case['scaling'].get('rope_type', 'none')}-{case['base']:g}",
)
"""Runs a test for each dim, base and scaling that transformers computed in torch_rope.json."""
OTHER_POWERS_BY_TORCH = {150000.0: [6, 10]}
"""Pairs whose power torch rounds to the wrong side, by base.

150000^(12/64) is 9.3436618128…, which is nearer to the float32 number 9.34366226 than to torch's,
9.34366131; 150000^(20/64) likewise.
"""


def rope_of(case: dict[str, Any]) -> Rope:
    """Return the RoPE of a case in float32; LongRoPE has the long factors, as at these positions."""
    scaling = {"rope_type": "none", **case["scaling"]}
    name = scaling.pop("rope_type")
    rope = Rope(1, case["dim"], case["base"], scaling=name, recipe="float32", **scaling)
    if name == "longrope":
        return replace(rope, length=max(ROPE_BY_TORCH["positions"]) + 1)
    return rope


@BY_TORCH
def test_frequencies_of_the_float32_recipe_have_the_bits_of_transformers(case):
    """torch_rope.json has the inverse frequencies that transformers computed with torch, scaled or not.
    They differ only where torch rounds a power to the wrong side, by one ULP.
    """
    found = np.array(rope_of(case).inverse_frequencies(), f32)
    theirs = singles(case["inv_freq"])

    differing_pairs = np.flatnonzero(found != theirs).tolist()
    assert differing_pairs == OTHER_POWERS_BY_TORCH.get(case["base"], [])
    assert ulps(found, theirs).max() <= 1


@BY_TORCH
def test_cosines_and_sines_of_the_float32_recipe_are_those_of_transformers(case):
    """torch's own cos and sin differ by machine, in the last bit of numbers up to 1 or a little more:
    ULP is 2^-23. Pairs whose frequency differs are left out.
    """
    positions = ROPE_BY_TORCH["positions"]
    found = rope_of(case).at(positions)

    other_pairs = OTHER_POWERS_BY_TORCH.get(case["base"], [])
    for name in ("cos", "sin"):
        theirs = np.array([singles(row) for row in case[name]])  # (positions, pairs)
        np.testing.assert_allclose(
            np.delete(found[name], other_pairs, axis=1),
            np.delete(theirs, other_pairs, axis=1),
            rtol=0,
            atol=ULP,
        )


STRETCHED = pytest.mark.parametrize(
    ("scaling", "stretch"),
    [
        ({"scaling": "ntk", "factor": 3.0}, 3.0),
        # factor · length / trained length − (factor − 1)
        (
            {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 16},
            2.0 * 64 / 16 - (2.0 - 1),
        ),
    ],
    ids=["ntk", "dynamic"],
)
"""Runs a test for the two scalings that multiply the base by stretch^(dim / (dim − 2))."""


@STRETCHED
def test_the_stretched_base_of_ntk_is_rounded_to_float32(scaling, stretch):
    """Transformers raises the stretched base, in float32, to the powers 2i/dim. `exact_singles` are
    these powers and their reciprocals in NumPy.
    """
    length, dim = 64, 32
    base = f32(10000.0 * stretch ** (dim / (dim - 2)))

    rope = Rope(length, dim, 10000.0, recipe="float32", **scaling)
    assert rope.inverse_frequencies() == exact_singles(16, 16, base).tolist()


@STRETCHED
def test_the_recurrence_begins_with_the_stretched_base_in_float32(scaling, stretch):
    """ggml multiplies the frequency of each pair by the power −2/dim of the stretched base to get the
    next. `ggml_phases` at position 1 are these frequencies in NumPy.
    """
    length, dim = 64, 32
    base = f32(10000.0 * stretch ** (dim / (dim - 2)))
    (frequencies,) = ggml_phases(np.array([1]), dim, base)

    rope = Rope(length, dim, 10000.0, recipe="float32-recurrence", **scaling)
    assert rope.inverse_frequencies() == frequencies.tolist()


@pytest.mark.parametrize(
    ("position", "published"),
    [
        (257, ["5.7e-06", "2.9e-05", "1.1e-01", "8.6e-01"]),
        (4095, ["1.4e-04", "4.1e-04", "1.7e+00", "8.7e-01"]),
        (131071, ["4.2e-03", "1.2e-02", "1.9e+00", "8.6e-01"]),
        (1048575, ["2.5e-02", "8.5e-02", "1.9e+00", "8.2e-01"]),
    ],
)
def test_errors_of_recipes_are_those_that_others_published(position, published):
    """The largest |Δcos| between the exact table and four recipes, in the order float32,
    float32-recurrence, bfloat16-inv-freq and bfloat16-positions, which others measured for heads of
    128 channels and base 10000, in two digits as published.

    For float32 at 131071, 1.5e-3 was measured as well: inverse frequencies that are rounded once
    from float64 give that. Those of transformers are rounded three times, and off by more there.
    """
    exact = Rope(1, 128, offset=position, dtype="float64").tables()["cos"]
    recipes = ("float32", "float32-recurrence", "bfloat16-inv-freq", "bfloat16-positions")
    tables = [Rope(1, 128, offset=position, recipe=recipe).tables()["cos"] for recipe in recipes]
    found = [float(np.abs(table - exact).max()) for table in tables]

    assert [f"{value:.1e}" for value in found] == published


@pytest.mark.parametrize("position", [257, 4095, 131071, 1048575])
def test_a_table_in_bfloat16_is_the_exact_one_rounded_once(position):
    """The recipe bfloat16-table stands for a table that is computed exactly and then cast. From 1/2 to
    1, bfloat16 has steps of 2^-8, so that a rounding loses half of it at most. ml_dtypes casts the
    expected numbers, from float64.
    """
    exact = Rope(1, 128, offset=position, dtype="float64").tables()["cos"]
    found = Rope(1, 128, offset=position, recipe="bfloat16-table").tables()["cos"]

    assert found.tolist() == exact.astype(bf16).astype(f32).tolist()
    assert 0 < np.abs(found - exact).max() <= 2.0**-9


@pytest.mark.parametrize("recipe", RECIPES)
def test_layouts_of_a_sinusoidal_table_hold_the_same_numbers(recipe):
    """The layout interleaved is s0 c0 s1 c1 …, halves is s0 s1 … c0 c1 …, and cos_first exchanges
    sines and cosines. Position 905, row 5 from the offset 900 on, is the padding row of zeros.
    """
    common = {"recipe": recipe, "offset": 900, "padding_idx": 905}
    interleaved = Sinusoidal(40, 16, **common).tables()["pe"]
    halves = Sinusoidal(40, 16, layout="halves", **common).tables()["pe"]
    cos_first = Sinusoidal(40, 16, cos_first=True, **common).tables()["pe"]
    sines, cosines = interleaved[:, 0::2], interleaved[:, 1::2]

    assert halves.tolist() == np.concatenate([sines, cosines], axis=1).tolist()
    assert cos_first[:, 0::2].tolist() == cosines.tolist()
    assert cos_first[:, 1::2].tolist() == sines.tolist()
    assert not interleaved[5].any()


def test_the_last_pair_of_an_odd_number_of_columns_has_a_sine_only() -> None:
    """The paper's formula has sin(p · 10000^(−c/5)) in the even columns c, and the cosine of the same
    angle to the right of it.
    """
    angles = np.outer(np.arange(4), 10000 ** (-np.array([0, 0, 2, 2, 4]) / 5))
    expected = np.where([True, False, True, False, True], np.sin(angles), np.cos(angles))

    table = Sinusoidal(4, 5, recipe="float32").tables()["pe"]
    np.testing.assert_allclose(table, expected, rtol=0, atol=FEW)


@pytest.mark.parametrize("recipe", RECIPES)
def test_rotary_and_sinusoidal_tables_of_a_recipe_hold_the_same_numbers(recipe):
    """Both have the frequencies 10000^(−2i/16). A sinusoidal table has sines in even columns and
    cosines in odd ones; a rotary one has a column per pair, and in the layout halves every column
    twice.
    """
    sinusoidal = Sinusoidal(40, 16, recipe=recipe, offset=900).tables()["pe"]
    compact = Rope(40, 16, offset=900, recipe=recipe)
    doubled = replace(compact, layout="halves").tables()["sin"]

    assert compact.tables()["cos"].tolist() == sinusoidal[:, 1::2].tolist()
    assert doubled.tolist() == np.tile(compact.tables()["sin"], 2).tolist()


LARGEST_ATTENTION_FACTOR = 1.3  # LongRoPE's, √(1 + ln 4 / ln 8) = 1.29
ERRORS_OF_PHASES_UP_TO_2 = {
    # Numbers up to 2 are rounded by up to 2^-24 in float32, 2^-11 in float16, 2^-8 in bfloat16.
    # float32: up to 16 multiplications of a recurrence, the phase, and the table.
    "float32": (16 + 1 + 1) * 2.0**-24 * LARGEST_ATTENTION_FACTOR,
    # 16 bits: the inverse frequency or the position, and the phase.
    "float16": 2 * 2.0**-11,
    "bfloat16": 2 * 2.0**-8,
}
"""How far a cosine may be off, by the narrowest dtype in which phases are computed."""


def narrowest_dtype(recipe: str) -> str:
    """Return the narrowest dtype in the name of a recipe: bfloat16 for float32-bfloat16-table."""
    for dtype in ("bfloat16", "float16"):  # in this order, as one name contains the other
        if dtype in recipe:
            return dtype
    return "float32"


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.sample(4)
def test_a_recipe_stays_near_the_exact_table_under_every_scaling(recipe):
    """A recipe such as float16-positions names the dtypes to which it rounds, and the narrowest decides
    how far cosines and sines may be off. Tables are at positions 0, 1 and 2, so that phases are at
    most 2.
    """
    error = ERRORS_OF_PHASES_UP_TO_2[narrowest_dtype(recipe)]

    for scaling in SCALINGS:
        exact = Rope(3, 32, **scaling).tables()
        for name, table in Rope(3, 32, recipe=recipe, **scaling).tables().items():
            np.testing.assert_allclose(table, exact[name], rtol=0, atol=error)


@pytest.mark.parametrize("is_interleaved", [False, True], ids=["in blocks", "interleaved"])
@pytest.mark.parametrize("recipe", ["exact", *RECIPES])
@pytest.mark.sample(6)
def test_each_column_of_a_table_at_positions_of_three_axes_is_the_row_of_its_axis(
    recipe, is_interleaved
):
    """M-RoPE rotates 6, 6 and 4 of 16 pairs by the time, the height and the width of a token
    (`pair_axes`: 0, 1 or 2). A token at time 3, height 50, width 7 has rows 3, 50 and 7 of the whole
    table, each in the columns of its axis.
    """
    rope = Rope(
        60,
        32,
        recipe=recipe,
        mrope_section=[6, 6, 4],
        mrope_interleaved=is_interleaved or None,
        scaling="linear",
        factor=4.0,
    )
    whole = rope.tables()
    times, heights, widths = [3, 50, 7], [0, 59, 8], [20, 1, 9]  # of three tokens
    positions = np.array([times, heights, widths])

    for name, found in rope.at(positions).items():
        for column, axis in enumerate(rope.pair_axes):
            expected = whole[name][positions[axis], column]
            assert found[:, column].tolist() == expected.tolist()


@pytest.mark.parametrize("recipe", ["exact", *RECIPES])
@pytest.mark.sample(3)
def test_positions_of_text_have_the_same_rows_on_all_three_axes(recipe):
    """Text has one position for time, height and width, so that tokens 5 and 6 have rows 5 and 6 of
    the whole table.
    """
    rope = Rope(60, 32, recipe=recipe, mrope_section=[6, 6, 4])
    assert rope.at([5, 6])["cos"].tolist() == rope.tables()["cos"][5:7].tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("recipe", "narrow"),
    [
        ("float16-table", Rope(90, 32, offset=1000, dtype="float16")),
        ("bfloat16-table", Rope(90, 32, offset=1000, dtype="bfloat16")),
        ("float32", Rope(90, 32, offset=1000, dtype="float32", recipe="float32")),
    ],
    ids=["float16-table", "bfloat16-table", "float32"],
)
@pytest.mark.parametrize("name", ["cos", "sin"])
def test_a_recipe_rounds_to_its_own_dtype_before_that_of_the_table(name, recipe, narrow, dtype):
    """The recipe float16-table, for example, rounds to float16 first, and then to the dtype of the
    table: the result is the table of float16 (`narrow`) as NumPy casts it to that dtype.
    """
    numpy_dtype = bf16 if dtype == "bfloat16" else np.dtype(dtype)
    table = Rope(90, 32, offset=1000, dtype=dtype, recipe=recipe).tables()[name]
    cast = narrow.tables()[name].astype(np.float64).astype(numpy_dtype)

    assert table.dtype == numpy_dtype
    assert table.tolist() == cast.tolist()


def test_positions_of_the_float32_recipe_are_rounded_to_float32():
    """float32 holds 2^24 and 2^24 + 2, but not 2^24 + 1; 2^40 − 1 becomes 2^40."""
    table = Sinusoidal(4, 8, offset=2**24, recipe="float32").tables()["pe"]
    assert table[0].tolist() == table[1].tolist() != table[2].tolist()

    far = Sinusoidal(1, 2, offset=2**40 - 1, recipe="float32", dtype="float64").tables()["pe"][0]
    assert far.tolist() == [float(f32(math.sin(2.0**40))), float(f32(math.cos(2.0**40)))]


def test_the_float32_recipe_multiplies_by_the_amplitude_in_float32():
    """The recipe rounds the sines to float32, and their products with the amplitude once more; the
    expected products are NumPy's in float32.
    """
    plain = Sinusoidal(50, 8, recipe="float32").tables()["pe"]
    louder = Sinusoidal(50, 8, recipe="float32", amplitude=0.3).tables()["pe"]

    assert louder.tolist() == (plain * f32(0.3)).tolist()


def test_the_float32_recipe_scales_positions_in_float32():
    """Angles are positions times 0.1 times 10000^(-2i/8), each product rounded in NumPy's float32;
    even columns are their sines.
    """
    table = Sinusoidal(50, 8, recipe="float32", scale=0.1).tables()["pe"]
    scaled_positions = np.arange(50, dtype=f32) * f32(0.1)
    angles = scaled_positions[:, None] * exact_singles(4, 4, 10000.0)
    np.testing.assert_allclose(table[:, 0::2], np.sin(angles), rtol=0, atol=FEW)


@pytest.mark.parametrize("heads", [8, 12, 7])
@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
def test_biases_in_float32_are_products_of_float32(heads, form):
    """The exact slope is rounded to float32 and multiplied by the distance, in NumPy's float32."""
    exact = Alibi(heads, 40, form=form, dtype="float64")
    slopes = exact.tables()["slopes"].astype(f32)
    symmetric = -np.abs(np.arange(40)[:, None] - np.arange(40))
    distances = {"key": np.arange(40)[None], "key-last": np.arange(-39, 1)[None]}.get(
        form, symmetric
    )
    bias = slopes[:, None, None] * distances.astype(f32)
    if form == "causal":
        bias = np.where(np.triu(np.ones((40, 40), bool), 1), f32(-np.inf), bias)
    found = replace(exact, recipe="float32").tables()

    assert found["bias"].tolist() == bias.tolist()
    assert found["slopes"].tolist() == slopes.tolist()


@pytest.mark.parametrize("heads", [8, 12, 7])
@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_biases_of_a_table_in_16_bits_are_the_exact_ones_in_that_dtype(dtype, heads, form):
    """The recipe float16-table makes float32 tables whose numbers were rounded to float16."""
    cast = Alibi(heads, 40, form=form, recipe=f"{dtype}-table").tables()
    narrow = Alibi(heads, 40, form=form, dtype=dtype).tables()

    assert cast["bias"].tolist() == narrow["bias"].tolist()
    assert cast["slopes"].tolist() == narrow["slopes"].tolist()


def test_a_table_in_bfloat16_may_have_a_base_beyond_bfloat16():
    """1e300 is no bfloat16 number, but only the table is in bfloat16; cos 0 is 1."""
    assert Rope(4, 8, 1e300, recipe="bfloat16-table").tables()["cos"][0].tolist() == [1.0] * 4


def test_linear_scaling_by_two_halves_the_phases_of_the_recurrence_exactly():
    """Linear scaling divides phases by its factor. A division by two has no rounding error, so that
    row 2p of the scaled table is row p of the plain one, of 40 rows each.
    """
    plain = Rope(40, 32, recipe="float32-recurrence")
    scaled = replace(plain, scaling="linear", factor=2.0)

    halves = [frequency / 2 for frequency in plain.inverse_frequencies()]
    assert scaled.inverse_frequencies() == halves

    assert scaled.tables()["cos"][0::2].tolist() == plain.tables()["cos"][:20].tolist()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("recipe", ["float32", "float32-recurrence"])
def test_a_single_frequency_is_one_in_a_style_that_divides_by_one_less(recipe, dim):
    """Whisper's exponents are i / (dim/2 − 1), which would be 0/0 for one frequency. The expected
    values are NumPy's sine and cosine of the position.
    """
    found = Sinusoidal(9, dim, style="whisper", recipe=recipe).tables()["pe"]
    places = np.arange(9.0)

    assert np.array_equal(found[:, 0], np.sin(places).astype(np.float32))
    assert np.array_equal(found[:, 1], np.cos(places).astype(np.float32))


def test_a_base_that_float32_cannot_hold_leaves_the_slow_pairs_without_rotation() -> None:
    """NTK multiplies the base by factor^(d / (d − 2)), 1e39^(4 / 2) = 1e78 here, which is infinite in
    float32; the slow frequency is then 1 / infinity = 0.
    """
    rope = Rope(seq_len=2, dim=4, scaling="ntk", factor=1e39, recipe="float32")
    assert rope.inverse_frequencies() == [1.0, 0.0]
