"""identify finds schemes in whole files and arrays, and nothing in tables of no scheme.

Tables are made by NumPy from the formulas of other programs (vLLM, BLOOM, Whisper, …), by
transformers (torch_rope.json), or by a scheme that must be found again from its numbers alone.
`undetermined` lists parameters that the numbers do not show.
"""

import json
import math
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks import identify as identification
from pecli.checks.identify import Match
from pecli.engine.edits import Layout, Mask, Negated, Repeated, Rows, RowsWrong
from pecli.engine.table import table_of
from pecli.explain.time_limit import TimeLimit
from pecli.files import save_tables
from tests.checks.waves import (
    LLAMA3,
    cos_and_sin_tables,
    doubled_as_halves,
    doubled_as_neighbours,
    interleaved_columns,
    inverse_frequencies,
)
from tests.tools.sweeps.identification import attempt_identification
from tests.tools.sweeps.tables import Waves


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((2, 70_000), np.float32),
        2.0 ** -(np.arange(1, 70_001, dtype=np.float32) / 8750),
        np.linspace(1, 0.1, 5000) ** 2,
    ],
    ids=["zeros", "slopes", "frequencies of nobody"],
)
def test_a_table_wider_than_any_model_is_not_identified_and_takes_little_memory(
    table: np.ndarray,
) -> None:
    """The tables have 70,000 columns or slopes, or 5,000 frequencies that no scheme has. `identify`
    takes at most 200 MiB, where a matrix of all pairs of columns would take gigabytes.
    """
    tracemalloc.start()
    try:
        assert pecli.identify(table).matches == ()
        _, peak_bytes = tracemalloc.get_traced_memory()
        assert peak_bytes < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 7, 8])
@pytest.mark.sample(4)
def test_tables_of_random_schemes_are_identified_and_made_again(seed: int) -> None:
    """By seed, `attempt_identification` draws a scheme with random parameters and a dtype, makes
    its table, and identifies it from the numbers alone. The scheme that is found must make the same
    table; otherwise `problem` states what differs. The sweep tries thousands of seeds.
    """
    assert attempt_identification(seed).problem == ""


PADDED = pecli.Sinusoidal(
    64, 32, base=5e6, layout="halves", cos_first=True, offset=2, scale=0.1, padding_idx=3
)


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(pecli.Rope(2048, 128, base=12345.678), id="a base of eight digits"),
        pytest.param(PADDED, id="a row of zeros in a short table"),
        pytest.param(
            pecli.Rope(
                512, 16, base=5e5, scaling="llama3", **{**LLAMA3, "factor": 32.0}, dtype="bfloat16"
            ),
            id="one channel between llama3's limits",
        ),
        pytest.param(
            pecli.Rope(
                seq_len=1000,
                dim=16,
                base=100.0,
                scaling="yarn",
                factor=8.0,
                original_len=8192,
                truncate=False,
                attention_factor=1.0,
            ),
            id="one channel between YaRN's limits, which are not rounded",
        ),
        pytest.param(
            pecli.Sinusoidal(
                seq_len=100,
                dim=16,
                base=5e6,
                cos_first=True,
                freq_shift=0.5,
                offset=896,
                scale=0.25,
                dtype="bfloat16",
            ),
            id="the scale by one channel of four that turn",
        ),
        pytest.param(pecli.Rope(1000, 16, base=1.4837e9), id="a base above 1e9"),
    ],
)
@pytest.mark.sample(2)
def test_tables_that_leave_little_to_measure_are_identified(scheme: Any) -> None:
    """The parameters of these schemes hardly show in their tables: in one, a single channel lies
    between Llama 3's limits. `identify` gets only cosines and sines (or the table); the scheme that
    it finds must make the same numbers within 1e-6.
    """
    tables = scheme.tables()
    tables.pop("inv_freq", None)
    found = pecli.identify(tables).matches[0].scheme
    numbers = scheme.single_array().array().astype(np.float64)
    numbers_again = found.single_array().array().astype(np.float64)

    assert np.abs(numbers_again - numbers).max() < 1e-6


def test_a_table_most_channels_of_which_turn_more_than_once_a_row_is_not_identified() -> None:
    """Flux multiplies positions by 1000. Of a frequency above π only the remainder of whole turns
    shows in the rows, so no line can be drawn through the frequencies, and nothing is claimed.
    """
    assert pecli.identify(pecli.Sinusoidal(128, 16, style="flux").tables()).matches == ()


@pytest.mark.parametrize("names", [("cos", "inv_freq"), ("inv_freq", "cos")])
def test_the_length_is_that_of_the_cosines_whatever_the_order_in_the_file(
    names: tuple[str, str],
) -> None:
    """`inv_freq` alone states no number of rows, and the cosines beside it have 64."""
    tables = pecli.Rope(seq_len=64, dim=32).tables()

    (match,) = pecli.identify({name: tables[name] for name in names}).matches

    assert match.scheme == pecli.Rope(seq_len=64, dim=32)
    assert match.tensors == names


FREQUENCIES_OF_NO_LAW = np.exp(-np.sort(np.random.default_rng(8).uniform(0, 6, 16)))
"""Random frequencies, in falling order."""
FREQUENCIES_OF_BASE_918729 = 918_729.5 ** (-np.arange(64) / 64)
DIVISORS = np.round(np.linspace(1, 5, 32) ** 2, 2)
DIVIDED_FREQUENCIES = 1000.0 ** (-np.arange(32) / 32) / DIVISORS


@pytest.mark.parametrize(
    ("frequencies", "offset", "dtype"),
    [
        pytest.param(FREQUENCIES_OF_BASE_918729, 0, "float16", id="base 918729.5 in float16"),
        pytest.param(FREQUENCIES_OF_BASE_918729, 0, "float32", id="base 918729.5 in float32"),
        pytest.param(DIVIDED_FREQUENCIES, 0, "float32", id="divisors from position 0 on"),
        pytest.param(DIVIDED_FREQUENCIES, 2351, "float32", id="divisors from position 2351 on"),
    ],
)
@pytest.mark.sample(4)
def test_frequencies_that_no_model_has_are_identified_from_64_rows(
    frequencies: np.ndarray, offset: int, dtype: str
) -> None:
    """NumPy computes 64 rows from `offset` on in float64, with the base 918,729.5, or with a divisor
    for each of 32 frequencies of base 1000. From the rounded table, `identify` must find a scheme
    with this offset and dtype; its table is within two units of the dtype at 1.
    """
    exact = cos_and_sin_tables(np.arange(offset, offset + 64), frequencies, np.float64)
    (match,) = pecli.identify({key: table.astype(dtype) for key, table in exact.items()}).matches

    assert match.scheme.offset == offset
    assert match.scheme.dtype == dtype

    for key, table in match.scheme.tables().items():
        if key in exact:
            np.testing.assert_allclose(
                table.astype(np.float64), exact[key], rtol=0, atol=2 * np.finfo(dtype).eps
            )


@pytest.mark.parametrize(
    ("rows", "phases"),
    [
        pytest.param(64, 0.0, id="none"),
        pytest.param(512, np.random.default_rng(9).uniform(0, 6, 16), id="any"),
        pytest.param(512, 0.5 * FREQUENCIES_OF_NO_LAW, id="half a row"),
    ],
)
@pytest.mark.sample(1)
def test_waves_of_random_frequencies_are_not_identified_whatever_their_phases(
    rows: int, phases: Any
) -> None:
    """Cosines and sines of 16 random frequencies, from position 0 on, or with random phases, or
    with the phases of half a row, by which no position has angle 0: no scheme makes these tables.
    """
    angles = np.outer(np.arange(rows), FREQUENCIES_OF_NO_LAW) + phases
    assert pecli.identify({"cos": np.cos(angles), "sin": np.sin(angles)}).matches == ()


RNG = np.random.default_rng(2024)


def negatives() -> dict[str, np.ndarray]:
    """Beside those of `tests.explain.unrelated`."""
    return {
        "low rank": RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 64)),
        "a constant": np.full((64, 16), 0.7),
        "ones": np.ones((64, 16)),
        "a ramp": np.arange(64 * 16).reshape(64, 16) / 1024,
        "the identity": np.eye(64),
        "slopes of another sign": -pecli.Alibi(8).tables()["slopes"],
        "exponents over d/2 − 1": (1e4 ** (-np.arange(32) / 31)).astype(np.float32),
        "integers": RNG.integers(0, 100, (64, 16)),
        "complex noise": RNG.normal(size=(64, 16)) + 1j * RNG.normal(size=(64, 16)),
        "not numbers": np.full((8, 8), np.nan),
        "a scalar": np.array(3.5),
        "nothing": np.zeros((0, 16)),
        "many axes": RNG.normal(size=(2, 3, 4, 5, 6)),
    }


TABLES_OF_NO_SCHEME = negatives()


@pytest.mark.parametrize(("row", "column"), [(0, 1), (1, 1)])
def test_rotation_matrices_with_a_wrong_element_are_not_identified(row: int, column: int) -> None:
    """A rotation [[c, −s], [s, c]] states c and s twice. One matrix of the table has another −s, or
    another c in its second row, so that the file does not hold a table of cosines and sines.
    """
    tables = pecli.Rope(12, 16).tables()
    cos, sin = tables["cos"], tables["sin"]
    rotations = np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=-2)
    assert pecli.identify({"cos_sin_cache": rotations}).identified

    rotations[3, 2, row, column] += 0.5
    assert not pecli.identify({"cos_sin_cache": rotations}).identified


@pytest.mark.parametrize("name", TABLES_OF_NO_SCHEME)
@pytest.mark.sample(8)
def test_matrices_of_no_scheme_are_not_identified(name: str) -> None:
    """TABLES_OF_NO_SCHEME has, by name, matrices such as one of rank 3, a ramp, the identity, and
    integers. None is a table of positions: `identify` finds no scheme, and describes it in words.
    """
    table = TABLES_OF_NO_SCHEME[name]
    found = pecli.identify(table.astype(np.float32) if table.dtype.kind == "f" else table)

    assert [match.command for match in found.matches] == []
    assert found.description


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param(np.full((64, 16), 0.7), "all 0.7", id="a constant"),
        pytest.param(np.zeros((0, 16)), "empty", id="nothing"),
        pytest.param(
            np.full((8, 8), np.nan),
            "64 of 64 elements are infinite or not numbers",
            id="not numbers",
        ),
    ],
)
def test_a_table_of_no_scheme_is_described(table: np.ndarray, words: str) -> None:
    """A constant, an empty table and one without a number."""
    assert words in "\n".join(pecli.identify(table).description)


def test_slopes_are_identified_in_a_file_beside_noise(tmp_path: Path) -> None:
    """The tensor «a» holds ALiBi's slopes of 12 heads, «b» noise, which is described instead. Each
    can be named behind the path of the file and a colon, and is then the only one.
    """
    path = tmp_path / "t.npz"
    slopes = pecli.Alibi(12).tables()["slopes"]
    pecli.save(path, {"a": slopes, "b": np.random.default_rng(1).normal(size=(50, 20))})
    found = pecli.identify(path)

    assert [match.tensors for match in found.matches] == [("a",)]
    assert found.description[0].startswith("b: 50 × 20, float64")
    assert pecli.identify(f"{path}:a").description == ()
    assert not pecli.identify(f"{path}:b").identified


def test_slopes_are_identified_in_a_list() -> None:
    """`identify` takes lists of Python's floats, here ALiBi's slopes of 12 heads."""
    slopes = pecli.Alibi(12).tables()["slopes"]
    assert pecli.identify({"x": slopes.tolist()}).matches[0].tensors == ("x",)


def test_frequencies_in_float8_are_identified() -> None:
    """The 24 frequencies of 48 channels are rounded to float8 (e5m2), which has 3 bits of precision,
    and stored as float32.
    """
    frequencies = pecli.Rope(4, 48).tables()["inv_freq"]
    coarse = np.float32(frequencies.astype(ml_dtypes.float8_e5m2))

    assert pecli.identify(coarse).identified


@pytest.mark.parametrize(("count", "is_identified"), [(5, False), (6, True)])
def test_six_numbers_are_enough_for_frequencies(count: int, is_identified: bool) -> None:
    """10000^(−i/count) are the frequencies of a rope of 5 or 6 pairs. Fewer than six numbers lie on
    some schedule by chance.
    """
    frequencies = np.float32(inverse_frequencies(10000.0, 2 * count))
    assert pecli.identify({"inv_freq": frequencies}).identified == is_identified


@pytest.mark.parametrize(
    ("step", "count", "base", "dtype"),
    [
        (2.0**-4, 8, 1.84, ml_dtypes.float8_e4m3fn),
        (2.0**-8, 16, 1.066, ml_dtypes.bfloat16),
    ],
    ids=["float8", "bfloat16"],
)
def test_evenly_spaced_numbers_are_no_frequencies(
    step: float, count: int, base: float, dtype: type
) -> None:
    """1, 1 − step, 1 − 2 · step, … are also the powers base^(−i/count), rounded to a narrow dtype. But
    no model has a base so near to 1. So these numbers must not be taken for frequencies, as those
    of base 10000 are.
    """
    indices = np.arange(count)
    evenly_spaced = 1 - step * indices
    rounded_powers = (base ** (-indices / count)).astype(dtype)
    assert np.array_equal(evenly_spaced, rounded_powers.astype(np.float64))

    assert not pecli.identify(np.float32(evenly_spaced)).identified
    assert pecli.identify(np.float32(10000.0 ** (-indices / count))).identified


def test_the_spec_that_a_file_carries_is_not_used_to_identify_it(tmp_path: Path) -> None:
    """The spec in the file is that of a sinusoidal table, but its numbers are ALiBi's slopes:
    `identify` goes by the numbers.
    """
    path = tmp_path / "t.npz"
    spec = {**pecli.Sinusoidal(12, 8).spec(), "version": "0"}
    save_tables(str(path), [table_of("pe", pecli.Alibi(12).tables()["slopes"])], spec)

    assert pecli.identify(path).matches[0].scheme.name == "alibi"


def test_equal_tensors_of_twelve_layers_are_one_match() -> None:
    """A checkpoint may keep ALiBi's slopes in every layer: `identify` lists all 12 tensors in one
    match.
    """
    slopes = pecli.Alibi(heads=12).tables()["slopes"]
    checkpoint = {f"layers.{layer}.alibi_slopes": slopes for layer in range(12)}

    assert len(pecli.identify(checkpoint).matches[0].tensors) == 12


def test_thirty_tensors_whose_names_are_of_no_positions_are_not_searched() -> None:
    """A checkpoint has hundreds of weights; searching each of them would take minutes."""
    found = pecli.identify({f"h.{k}.weight": np.ones((2, 2)) for k in range(30)})
    assert not found.identified
    assert found.description == (
        "it holds 30 tensors, and no name speaks of positions: name one, as FILE:NAME",
    )


@pytest.mark.parametrize(("rows", "is_identified"), [(4, False), (16, True)])
def test_four_rows_of_cosines_are_too_few_to_identify_a_scheme(
    rows: int, is_identified: bool
) -> None:
    """The rows are at positions 0, 1/4, 1/2, …, as linear scaling by 4 has them, with frequencies of
    base 10000. Of four rows nothing may be claimed: with a first position of 16,000,000, float32
    rounds angles to whole radians, so that nearly any four rows are within the error of such a
    scheme. 16 rows exclude that.
    """
    positions = np.arange(rows) / 4
    frequencies = 10000.0 ** (-np.arange(4) / 4)
    cosines = np.cos(positions[:, np.newaxis] * frequencies)

    assert pecli.identify({"cos": cosines}).identified == is_identified


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_bias_that_lacks_a_query_is_described_and_not_identified(dtype: str) -> None:
    """ALiBi's bias of 6 heads and 64 positions is (6, 64, 64); without its first query it is (6, 63,
    64).
    """
    bias = pecli.Alibi(heads=6, seq_len=64).tables()["bias"]
    without_first_query = bias[:, 1:].astype(dtype)
    result = pecli.identify(without_first_query)

    assert not result.identified
    assert result.description


TORCH_ROPE_CASES = json.loads(
    (Path(__file__).parents[2] / "engine" / "schemes" / "torch_rope.json").read_text()
)["cases"]


@pytest.mark.parametrize(
    "case", TORCH_ROPE_CASES, ids=lambda case: f"{case['dim']}-{case['base']:g}"
)
def test_frequencies_that_transformers_computed_are_identified_with_their_scaling(
    case: dict[str, Any],
) -> None:
    """torch_rope.json has the settings of rotary modules of transformers, and the bits of inv_freq
    that they computed in float32. From these numbers alone, `identify` must find the settings.
    """
    values = np.array([int(bits, 16) for bits in case["inv_freq"]], np.uint32).view(np.float32)
    (match,) = pecli.identify(values).matches
    scheme = match.scheme
    scaling = case["scaling"]

    assert scheme.dim == case["dim"]
    assert scheme.base == case["base"]
    assert scheme.scaling == scaling.get("rope_type", "none")
    if scheme.scaling == "longrope":
        # The factor of LongRoPE makes no difference to frequencies, so it cannot be known.
        assert scheme.factor is None
        assert "factor" in " ".join(match.undetermined)
        np.testing.assert_allclose(scheme.long_factor, scaling["long_factor"], rtol=2e-7)
    else:
        assert scheme.factor == scaling.get("factor")
        assert scheme.beta_fast == scaling.get("beta_fast")


def sinusoids(rows: int, dim: int) -> np.ndarray:
    """Return sines and cosines of position · 10000^(−2i/dim), interleaved, by NumPy in float32."""
    tables = cos_and_sin_tables(rows, inverse_frequencies(10000.0, dim))
    return interleaved_columns(tables["sin"], tables["cos"])


def assert_identified(
    tables: np.ndarray | dict[str, np.ndarray], scheme: Any, *, recipe_may_differ: bool = True
) -> Match:
    """Assert that all tensors are one table of the scheme, and return the match.

    In float32 the recipe by which the table was computed may be recognised as well.
    """
    matches = pecli.identify(tables).matches
    match = next(match for match in matches if match.scheme.name == scheme.name)
    expected = scheme.computed_as(match.recipe) if recipe_may_differ else scheme
    names = tuple(tables) if isinstance(tables, dict) else ("array",)

    assert match.scheme == expected
    assert match.tensors == names
    assert match.max_abs_error < np.inf
    return match


COS, SIN = cos_and_sin_tables(200, inverse_frequencies(base=500000.0, dim=64)).values()
"""NumPy's cosines and sines of 200 positions · 500000^(−2i/64), (200, 32) in float32."""


@pytest.mark.parametrize(
    ("table", "layout"),
    [
        pytest.param((COS + 1j * SIN).astype(np.complex64), "compact", id="Meta's complex"),
        pytest.param(np.stack([COS, SIN], axis=-1), "compact", id="torchtune's pairs"),
        pytest.param(np.concatenate([COS, SIN], axis=1), "compact", id="vLLM's cos beside sin"),
        pytest.param(
            np.concatenate([COS, COS], axis=1)[None, None],
            "halves",
            id="Hugging Face's cosines, every column twice, without their sines",
        ),
    ],
)
@pytest.mark.sample("Meta's complex", "vLLM's cos beside sin")
def test_a_rotary_table_is_identified_in_the_forms_of_other_programs(
    table: np.ndarray, layout: str
) -> None:
    """Each form is made of COS and SIN, so that the base 500000 and 64 channels must be found. The
    layout is compact if each frequency has one column of cosines, and halves if all are repeated.
    """
    matches = pecli.identify(table).matches
    (scheme,) = [match.scheme for match in matches if match.scheme.name == "rope"]

    assert scheme == pecli.Rope(
        seq_len=200, dim=64, base=500000.0, layout=layout, recipe=scheme.recipe
    )


@pytest.mark.parametrize(
    ("rows", "dim"), [(20, 10_000), (500, 3_000)], ids=["wide", "wide and long"]
)
@pytest.mark.thorough
def test_a_wide_sinusoidal_table_is_identified(rows: int, dim: int) -> None:
    """`sinusoids` has columns s0 c0 s1 c1 … by the formula of the paper, with base 10000."""
    (match,) = pecli.identify(sinusoids(rows, dim)).matches
    assert match.scheme == pecli.Sinusoidal(rows, dim, base=10000.0, recipe=match.recipe)


@pytest.mark.parametrize("size", [1e-12, 100.0, 1e15])
@pytest.mark.sample("100.0")
def test_the_amplitude_of_a_sinusoidal_table_is_found(size: float) -> None:
    """`sinusoids` has columns s0 c0 s1 c1 … by the formula of the paper, with base 10000. All of its
    numbers are multiplied by `size`, in float32.
    """
    (match,) = pecli.identify(sinusoids(rows=100, dim=20) * np.float32(size)).matches
    expected = pecli.Sinusoidal(100, 20, base=10000.0, amplitude=size, recipe=match.recipe)

    assert match.scheme == expected


@pytest.mark.parametrize(
    "scheme",
    [
        pecli.Rope(128, 64, base=500000.0, offset=7, layout="halves", dtype="bfloat16"),
        pecli.Alibi(12, 64, dtype="bfloat16"),
    ],
    ids=["cosines, sines and frequencies", "a bias and its slopes"],
)
@pytest.mark.sample(1)
def test_all_tensors_that_a_scheme_makes_are_identified_as_one_table(scheme: Any) -> None:
    """A file holds cosines, sines and frequencies of a rotary scheme, or a bias and its slopes. The
    scheme must be found from the numbers, in one match with all of the tensors.
    """
    assert_identified(scheme.tables(), scheme)


def test_the_table_of_whisper_is_identified_although_late_rows_are_inexact() -> None:
    """Whisper computes 1500 rows of 384 channels in float32 throughout, as is done here: sines and
    then cosines of frequencies from 1 down to 1/10000. Late rows are off by a thousand units of the
    last place, but by less than 3e-4.
    """
    step = np.float32(np.log(10000) / (384 // 2 - 1))
    frequencies = np.exp(-step * np.arange(192, dtype=np.float32))
    angles = np.arange(1500, dtype=np.float32)[:, None] * frequencies
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    match = assert_identified(table, pecli.Sinusoidal(1500, 384, style="whisper"))
    assert match.max_abs_error < 3e-4


@pytest.mark.parametrize(
    "scheme",
    [
        pecli.Sinusoidal(300, 32),
        pecli.Rope(300, 32, base=5e5),
        pecli.Rope(300, 32, layout="halves", recipe="float32"),
    ],
    ids=repr,
)
@pytest.mark.sample(1)
def test_a_table_in_float32_is_identified_by_numbers_that_are_stored_in_float64(
    scheme: Any,
) -> None:
    """A .csv file gives numbers back in float64, without their dtype. `identify` gets the first
    tensor of the scheme, the table or the cosines, and must find its dtype and recipe as well.
    """
    name, table = next(iter(scheme.tables().items()))
    numbers = {name: table.astype(np.float64)}

    assert_identified(numbers, scheme, recipe_may_differ=False)


SLOPES_OF_6_HEADS = np.array([0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125])[:, None, None]
"""ALiBi's for 6 heads: those of 4 heads, then every other one of 8, as the paper has it."""
POSITIONS = np.arange(20)
BIAS_OF_6_HEADS = -SLOPES_OF_6_HEADS * np.abs(POSITIONS[:, None] - POSITIONS)
"""−slope · |query − key|: (6 heads, 20 queries, 20 keys)."""
CAUSAL_BIAS = pecli.Alibi(heads=6, seq_len=20, form="causal")
"""The scheme of this bias with −∞ where the key is after the query, above the diagonal."""
IS_MASKED = np.triu(np.ones((20, 20), bool), 1)
LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize(
    ("above_the_diagonal", "edits"),
    [
        pytest.param(-np.inf, (), id="-inf, as it should be"),
        pytest.param(-1e9, (Mask("-1e+09"),), id="-1e9"),
        pytest.param(LOWEST, (Mask("-3.4e+38"),), id="the lowest number of float32"),
        pytest.param(0.0, (Mask("0"),), id="0"),
        pytest.param(np.inf, (Mask("inf"),), id="inf"),
        pytest.param(
            SLOPES_OF_6_HEADS * (POSITIONS - POSITIONS[:, None]),
            (Mask("m·(j−i) above the diagonal"),),
            id="slope · (key − query), which is positive there",
        ),
    ],
)
@pytest.mark.sample(1)
def test_another_mask_of_a_bias_of_alibi_is_reported(
    above_the_diagonal: Any, edits: tuple[Mask, ...]
) -> None:
    """The bias of 6 heads has these numbers where the key is after the query. The causal scheme must
    be found, and the numbers reported unless they are −∞.
    """
    bias = np.where(IS_MASKED, above_the_diagonal, BIAS_OF_6_HEADS).astype(np.float32)
    match = assert_identified(bias, CAUSAL_BIAS)

    assert match.edits == edits


@pytest.mark.parametrize(
    ("bias", "scheme", "edits"),
    [
        pytest.param(
            np.where(IS_MASKED, np.inf, -BIAS_OF_6_HEADS),
            CAUSAL_BIAS,
            (Negated("all"),),
            id="causal, with the mask negated",
        ),
        # Beside a negated bias, the mask should be +∞.
        pytest.param(
            np.where(IS_MASKED, -np.inf, -BIAS_OF_6_HEADS),
            CAUSAL_BIAS,
            (Negated("all"), Mask("-inf")),
            id="causal, with the mask of the paper",
        ),
        pytest.param(
            -BIAS_OF_6_HEADS[None],
            pecli.Alibi(heads=6, seq_len=20, form="symmetric"),
            (Negated("all"),),
            id="symmetric, in a batch of one",
        ),
    ],
)
@pytest.mark.sample(1)
def test_another_sign_of_a_bias_of_alibi_is_reported(
    bias: np.ndarray, scheme: pecli.Alibi, edits: tuple[Any, ...]
) -> None:
    """The bias is +slope · |query − key| for 6 heads and 20 positions, where the paper has a minus.
    The scheme must be found, with the edit that all numbers are negated. If all are except the
    mask, the mask is reported as well.
    """
    match = assert_identified(bias.astype(np.float32), scheme)
    assert match.edits == edits


@pytest.mark.thorough
def test_the_bias_of_keys_as_mpt_computes_it_is_identified() -> None:
    """For 24 heads, MPT computes 32 slopes 2^(−16 · h/32), h = 1, …, 32, and takes the first 24 of the
    order 2nd, 4th, …, 32nd, 1st, 3rd, …. The bias of 50 keys is slope · (−49, −48, …, 0). Its
    parameter alibi_bias_max, here `max_bias`, is 16 in place of the usual 8.
    """
    slopes_of_32_heads = 2.0 ** -(16 * np.arange(1, 33) / 32)
    slopes = np.concatenate([slopes_of_32_heads[1::2], slopes_of_32_heads[::2]])[:24]
    bias = slopes[None, :, None, None] * np.arange(-49, 1)

    scheme = pecli.Alibi(24, 50, form="key-last", max_bias=16.0, dtype="float64")
    assert_identified(bias, scheme)


def test_a_wrong_row_beyond_the_first_ones_is_reported() -> None:
    """Row 900 of a sinusoidal table of 1024 rows is overwritten by 0.25: `identify` finds the
    scheme, and names that row.
    """
    table = pecli.Sinusoidal(1024, 64).tables()["pe"]
    table[900] = 0.25
    (found,) = pecli.identify(table).matches

    assert RowsWrong((900,)) in found.edits


def bloom_slopes(heads: int) -> np.ndarray:
    """Return the slopes as BLOOM's code computes them: powers of a base, in float32."""
    closest = 2 ** math.floor(math.log2(heads))
    base = np.float32(2 ** (-(2 ** -(math.log2(closest) - 3))))
    slopes = np.power(base, np.arange(1, 1 + closest, dtype=np.float32))
    if closest != heads:
        extra = np.float32(2 ** (-(2 ** -(math.log2(2 * closest) - 3))))
        many = min(closest, heads - closest)
        slopes = np.concatenate(
            [slopes, np.power(extra, np.arange(1, 1 + 2 * many, 2, dtype=np.float32))]
        )
    return slopes


@pytest.mark.parametrize("heads", [3, 6, 8, 12, 16, 20, 32, 40, 71, 112])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1, 1), (1, -1, 1, 1)])
@pytest.mark.sample(5)
def test_slopes_as_bloom_computes_them_are_identified(heads: int, shape: tuple[int, ...]) -> None:
    """`bloom_slopes` computes them by build_alibi_tensor of transformers' modeling_bloom.py, as
    powers in float32; they are dumped as a vector or with axes of length 1.
    """
    match = pecli.identify(bloom_slopes(heads).reshape(shape)).matches[0]
    assert match.scheme == pecli.Alibi(heads, slopes=True, dtype="float32", recipe=match.recipe)
    assert match.max_abs_error < 1e-6


@pytest.mark.parametrize(
    ("batch", "heads", "length"),
    [(1, 16, 64), (4, 12, 40), (2, 8, 7)],
    ids=["one sequence", "heads that are no power of two", "fewer keys than heads"],
)
def test_a_bias_as_bloom_writes_it_is_identified(batch: int, heads: int, length: int) -> None:
    """transformers' build_alibi_tensor multiplies slopes by key positions, 0 to length − 1, and
    folds batch and heads into one axis: (batch · heads, 1, length). The copies are reported as an
    edit, unless the batch is 1.
    """
    by_head = bloom_slopes(heads)[:, None] * np.arange(length, dtype=np.float32)
    dump = np.tile(by_head, (batch, 1)).reshape(batch * heads, 1, length)
    (match,) = pecli.identify(dump).matches
    scheme = match.scheme

    assert scheme.heads == heads
    assert scheme.seq_len == length
    assert scheme.form == "key"
    assert scheme.max_bias == 8.0
    assert (Repeated(0, batch) in match.edits) == (batch > 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_slopes_by_the_naive_rule_are_distinguished_from_those_of_the_paper(dtype: type) -> None:
    """The slope of head h of 12 is 2^(−8h/12) by the naive rule; the paper takes those of 8 heads
    and every other one of 16 instead.
    """
    naive = 2.0 ** (-8 * np.arange(1, 13) / 12)
    match = pecli.identify(naive.astype(dtype)).matches[0]

    assert match.scheme.rule == "naive"
    assert not any(line.startswith("rule") for line in match.undetermined)


def test_a_batch_of_biases_with_a_wrong_element_is_not_identified() -> None:
    """Three equal biases of 8 heads and 40 positions are identified; with one element of the second
    one wrong, the batch is not.
    """
    batch = np.repeat(pecli.Alibi(heads=8, seq_len=40).tables()["bias"][None], 3, axis=0)
    assert pecli.identify(batch).identified

    batch[1, 0, 0, 7] += 1
    assert not pecli.identify(batch).identified


def test_cosines_and_sines_in_two_layouts_are_identified_as_two_tables() -> None:
    """The columns are c0 c1 … c0 c1 … beside s0 s0 s1 s1 …, as no program pairs them: each is a
    match of its own, with its layout.
    """
    tables = cos_and_sin_tables(64, inverse_frequencies(10000.0, 32))
    found = pecli.identify(
        {"cos": doubled_as_halves(tables["cos"]), "sin": doubled_as_neighbours(tables["sin"])}
    ).matches

    assert [match.tensors for match in found] == [("cos",), ("sin",)]
    assert [match.scheme.layout for match in found] == ["halves", "interleaved"]


def once(table: np.ndarray) -> np.ndarray:
    """Return the table as it is, with one column per frequency: c0 c1 …."""
    return table


@pytest.mark.parametrize("columns", [once, doubled_as_halves], ids=["c0 c1 …", "c0 c1 … c0 c1 …"])
def test_frequencies_do_not_replace_the_sines_that_a_file_lacks(
    columns: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Cosines, sines and the 16 frequencies of 32 channels are one complete table. Without the sines,
    the match of cosines and frequencies states that sines were expected and only cosines are there.
    """
    frequencies = inverse_frequencies(base=10000.0, dim=32)
    tables = cos_and_sin_tables(64, frequencies)
    complete = {
        "cos": columns(tables["cos"]),
        "sin": columns(tables["sin"]),
        "inv_freq": np.float32(frequencies),
    }
    without_sines = {name: array for name, array in complete.items() if name != "sin"}

    (match,) = pecli.identify(complete).matches
    assert match.tensors == ("cos", "sin", "inv_freq")
    assert match.edits == ()

    (match,) = pecli.identify(without_sines).matches
    assert match.tensors == ("cos", "inv_freq")
    assert match.edits == (Layout(expected="cos and sin", found="cos alone"),)


def test_two_tensors_of_cosines_are_no_complete_rope() -> None:
    """A rotary table is cosines and sines. This file has the cosines twice, and no sines."""
    angles = np.arange(64)[:, np.newaxis] * 10000.0 ** (-np.arange(16) / 16)
    cosines = np.cos(angles).astype(np.float32)
    (match,) = pecli.identify({"cos": cosines, "cos2": cosines}).matches

    assert match.tensors == ("cos", "cos2")
    assert match.edits == (Layout("cos and sin", "cos alone"),)


def test_flattened_cosines_and_sines_are_identified() -> None:
    """8 positions of 16 frequencies (32 channels) are a vector of 128 numbers, one of cosines and
    one of sines.
    """
    tables = cos_and_sin_tables(8, inverse_frequencies(10000.0, 32))
    (match,) = pecli.identify({name: table.ravel() for name, table in tables.items()}).matches

    assert match.scheme == pecli.Rope(8, 32)


def test_equal_complex_tables_are_one_match() -> None:
    """Two tensors hold the same cos + i·sin, under the name that Meta's code gives it; the edit of
    the match names the form, «complex».
    """
    tables = cos_and_sin_tables(64, inverse_frequencies(10000.0, 32))
    table = tables["cos"] + 1j * tables["sin"]
    (match,) = pecli.identify({"a.freqs_cis": table, "b.freqs_cis": table}).matches
    assert [edit.found for edit in match.edits] == ["complex"]


def test_searches_of_a_pair_and_of_each_of_its_tensors_share_one_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cosines and sines are searched together and then each for itself: with a limit for each
    search, noise would take three times as long.
    """
    entered = []
    limit = identification.time_limit
    monkeypatch.setattr(identification, "time_limit", lambda: entered.append(1) or limit())
    noise = np.random.default_rng(3).normal(size=(2, 64, 32)).astype(np.float32)

    assert not pecli.identify({"cos": noise[0], "sin": noise[1]})
    assert len(entered) == 1


def test_a_search_that_the_time_limit_ended_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact table of 64 rows is identified, unless there is no time at all."""
    table = cos_and_sin_tables(64, inverse_frequencies(10000.0, 32))["cos"]
    in_time = pecli.identify({"cos": table})
    monkeypatch.setattr("pecli.explain.time_limit.SECONDS", -1.0)
    out_of_time = pecli.identify({"cos": table})

    assert not any("time limit" in doubt for doubt in in_time.matches[0].undetermined)
    assert not out_of_time.identified
    assert "the time limit ended the search" in out_of_time.as_json()["description"][-1]


@pytest.mark.parametrize("has_ended_search", [False, True])
def test_a_match_states_in_json_that_the_time_limit_ended_its_search(
    monkeypatch: pytest.MonkeyPatch, has_ended_search: bool
) -> None:
    """A search that has found a scheme may end early, before others were tried that make the same
    numbers. `time_limit` is replaced by one that ended the search after ALiBi was found, or that did
    not: its match must state it as undetermined, or nothing.
    """
    limit = TimeLimit(end=math.inf, has_ended_search=has_ended_search)
    monkeypatch.setattr(identification, "time_limit", lambda: nullcontext(limit))
    (match,) = pecli.identify(pecli.Alibi(heads=8, seq_len=12).tables()["bias"]).matches

    cut_off = "the time limit ended the search: a scheme that was not tried may make these numbers"
    assert match.as_json()["undetermined"] == ([cut_off] if has_ended_search else [])


def test_a_mapping_whose_items_cannot_be_read_is_refused() -> None:
    """Broken is a dictionary as of another library whose device is gone: its items() raises
    OSError, and `identify` must raise a TypeError that names the class.
    """

    class Broken(dict[str, Any]):
        def items(self) -> Any:
            raise OSError("the device is gone")

    with pytest.raises(TypeError, match="a Broken; its items cannot be had"):
        pecli.identify(Broken(cos=np.ones((2, 2))))


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192, "beta_fast": 64}


def float32_dump_of(
    frequency: np.ndarray, rows: int, offset: int = 0, dtype: Any = np.float32
) -> dict[str, np.ndarray]:
    """Return cosines and sines (1, rows, dim) with both halves alike; angles are products in
    float32.
    """
    angles = np.arange(offset, offset + rows, dtype=np.float32)[:, None] * frequency.astype(
        np.float32
    )
    return {
        "cos": np.cos(doubled_as_halves(angles)[None]).astype(dtype),
        "sin": np.sin(doubled_as_halves(angles)[None]).astype(dtype),
    }


def test_a_bfloat16_table_that_begins_at_position_17_is_identified() -> None:
    """NumPy computes positions 17 to 528 with angles in float32, and rounds the values to bfloat16.
    `identify` must find the offset 17; whether angles were in float32 need not show after that
    rounding.
    """
    frequencies = inverse_frequencies(10000.0, 128)
    dump = float32_dump_of(frequencies, rows=512, offset=17, dtype=ml_dtypes.bfloat16)
    (match,) = pecli.identify(dump).matches
    rope = pecli.Rope(512, 128, offset=17, layout="halves", dtype="bfloat16")

    assert match.scheme in {rope, replace(rope, recipe="float32")}


def test_llama3_is_recognised_in_cosines_without_sines() -> None:
    """The 2048 rows are NumPy's cosines of frequencies by Meta's formula
    (tests/tools/sweeps/tables.py), with factor 16 from 8192 positions; columns are doubled as
    halves.
    """
    llama3 = {"type": "llama3", **LLAMA3, "factor": 16.0}
    frequencies, *_ = Waves(128, 500000.0, llama3).frequencies()
    cosines = float32_dump_of(frequencies, rows=2048)["cos"]
    found: Any = pecli.identify(cosines).matches[0].scheme

    assert found.base == 500000.0
    assert found.scaling == "llama3"
    assert found.factor == 16.0
    assert found.original_max_position_embeddings == 8192
    assert found.layout == "halves"
    assert found.offset == 0


@pytest.mark.thorough
def test_yarn_is_identified_in_1000_rows_of_float16() -> None:
    """The tables are NumPy's, of frequencies by YaRN's formula (`Waves`) with the settings YARN, for
    128 channels. They must be found again. Other original lengths give the same frequencies with
    other betas, which must be stated. `truncate` is None, the default: the ends of YaRN's ramp are
    rounded to whole pairs, as its formula has it.
    """
    frequencies, _ = Waves(dim=128, base=10000.0, scaling=YARN).frequencies()
    tables = float32_dump_of(frequencies, rows=1000, dtype=np.float16)
    match = pecli.identify(tables).matches[0]
    found: Any = match.scheme

    assert found.base == 10000.0
    assert found.scaling == "yarn"
    assert found.factor == 4.0
    assert found.original_max_position_embeddings == 8192
    assert found.beta_fast == 64
    assert found.truncate is None

    doubt = "other original lengths, with other beta_fast and beta_slow, give the same table"
    assert match.undetermined == (doubt,)


def test_frequencies_with_a_divisor_each_are_identified_as_longrope() -> None:
    """Base 10000 and 32 divisors from 1 to 31, which grow as no other scaling's. vLLM keeps cosines
    beside sines, computed in float32. The divisors have two decimals, so they are found exactly; the
    error is at most the step of float32 at the largest angle, 511 radians: 2^-15.
    """
    divisors = np.round(1 + 30 * np.linspace(0, 1, 32) ** 2, 2)
    frequencies = inverse_frequencies(base=10000.0, dim=64) / divisors
    angles = np.outer(np.arange(512, dtype=np.float32), frequencies.astype(np.float32))
    cache = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    (match,) = pecli.identify({"cos_sin_cache": cache}).matches
    found: Any = match.scheme

    assert found.scaling == "longrope"
    assert found.layout == "compact"
    assert found.rotary_dim == 64
    assert found.base == 10000.0
    assert found.short_factor == tuple(divisors)
    assert match.max_abs_error <= 2**-15


@pytest.mark.parametrize("count", [8, 64])
@pytest.mark.parametrize(
    "law",
    [
        pytest.param(lambda k, count: 1 - k / count, id="a line"),
        pytest.param(lambda k, count: 1 / (1 + k), id="inverses"),
        pytest.param(lambda k, count: (1 - k / count) ** 2, id="a square"),
        pytest.param(lambda k, count: np.cos(k / count), id="a cosine"),
    ],
)
def test_vectors_that_fall_by_another_law_are_not_taken_for_frequencies(
    law: Callable[[np.ndarray, int], np.ndarray], count: int
) -> None:
    """The frequencies of a rotary scheme begin with 1, and each is the one before times the same
    factor below 1, unless a scaling divides some. These vectors also begin with 1 and fall
    steadily, but by the laws of k that are written in the rows, which are no scheme's: `identify`
    finds none.
    """
    vector = law(np.arange(count), count)
    assert not pecli.identify(vector.astype(np.float32)).matches


def test_rows_in_reverse_order_are_identified() -> None:
    """Cosines and sines of 64 positions have their last row first. The scheme and its parameters
    are found all the same, and the edit is named.
    """
    tables = cos_and_sin_tables(64, inverse_frequencies(10000.0, 32))
    reversed_tables = {name: table[::-1].copy() for name, table in tables.items()}
    (match, *_) = pecli.identify(reversed_tables).matches

    assert match.scheme == pecli.Rope(64, 32)
    assert Rows("reversed") in match.edits


def test_an_alibi_bias_with_queries_and_keys_exchanged_is_identified() -> None:
    """The bias has 8 heads and 16 positions, slope · (key − query), with −∞ where the key is after
    the query. With both axes exchanged, the mask is below the diagonal.
    """
    distance = np.arange(16)[None, :] - np.arange(16)[:, None]
    causal = np.where(distance > 0, -np.inf, distance)
    slopes = 2.0 ** -np.arange(1.0, 9.0)
    bias = (slopes[:, None, None] * causal).astype(np.float32)
    (match, *_) = pecli.identify(np.ascontiguousarray(bias.transpose(0, 2, 1))).matches

    assert match.scheme == pecli.Alibi(8, 16, form="causal")


def test_an_amplitude_of_the_root_of_dim_is_found_with_all_its_digits() -> None:
    """NumPy's sinusoidal table of 96 channels times √96, as embeddings are multiplied. The six digits
    9.79796 would make other numbers in the last place of float32.
    """
    angles = np.outer(np.arange(200), 1e4 ** (-np.arange(48) / 48))
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(200, 96)
    (match,) = pecli.identify((math.sqrt(96) * table).astype(np.float32)).matches
    assert f"--amplitude {math.sqrt(96)!r}" in match.command
    assert match.max_abs_error == 0


def test_dynamic_scaling_with_another_factor_is_not_determined_beside_ntk() -> None:
    """Dynamic scaling by 2 of 4,096 positions has, at 8,192, the base 10000 · 3^(128/126), as NTK by 3:
    3 = 2 · 8192/4096 − 1. Dynamic scaling by 3 has it at no whole number of positions.
    """
    base = 1e4 * 3 ** (128 / 126)
    angles = np.outer(np.arange(512), base ** (-np.arange(64) / 64))
    (match,) = pecli.identify({"cos": np.cos(angles), "sin": np.sin(angles)}).matches
    assert match.scheme.value_of("scaling") == "ntk"
    assert "dynamic scaling with the factor that its lengths require" in match.undetermined[0]


@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_eight_rows_of_sines_are_identified(base: float) -> None:
    """Row 0 of the sines is all zeros, as sin 0 = 0: it counts as position 0, and not as padding. The
    table is sin(position · base^(−2i/32)).
    """
    angles = np.outer(np.arange(8), base ** (-np.arange(16) / 16))
    (match,) = pecli.identify({"sin": np.sin(angles)}).matches

    assert match.scheme.value_of("base") == base
    assert match.only_functions == {"sin"}
