"""Reasons for mistakes that people make: the first reason names exactly the mistake, and a command
is printed only if it makes the table.

Wrong tables are NumPy's cosines and sines by a formula with the mistake in it (`rotary_tables`:
1024 positions, 64 channels, base 10000; `short_rotary_tables`: 256 positions), or biases of slopes
times distances; the spec is what they should have been. Expected words are written by hand. A
recipe names the dtypes in which a project computes, such as float16-phases.
"""

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.edits import Negated, Parameter
from pecli.explain.hypotheses import Search
from pecli.explain.recognition import recognise
from pecli.explain.search import explain
from pecli.explain.time_limit import OutOfTimeError, check_time, time_limit
from pecli.explain.words import sentence
from tests.tools.sweeps.tables import LLAMA3, Waves

LENGTH, SHORT_LENGTH, DIM, BASE = 1024, 256, 64, 10000.0
INDEX = np.arange(DIM // 2)
INV_FREQ = BASE ** (-2 * INDEX / DIM)
FACTORS = tuple(1 + 0.05 * k for k in range(DIM // 2))
LONG_ROPE = pecli.Rope(LENGTH, DIM)
SHORT_ROPE = pecli.Rope(SHORT_LENGTH, DIM)
YARN = pecli.Rope(LENGTH, DIM, scaling="yarn", factor=4.0, original_max_position_embeddings=256)
LLAMA_31 = pecli.Rope(
    LENGTH, 128, 500000.0, scaling="llama3", factor=8.0, original_max_position_embeddings=8192,
    low_freq_factor=1.0, high_freq_factor=4.0,
)  # fmt: skip
DYNAMIC = pecli.Rope(
    LENGTH, DIM, scaling="dynamic", factor=4.0, max_position_embeddings=256, length=1024
)
LONGROPE = pecli.Rope(
    SHORT_LENGTH, DIM, scaling="longrope", original_max_position_embeddings=4096, short_factor=FACTORS, long_factor=FACTORS,
    attention_factor=1.0,
)  # fmt: skip
YARN32: dict[str, Any] = {
    "scaling": "yarn",
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
}
HEIGHT = 0.1 * math.log(32) + 1
ALIBI = pecli.Alibi(8, 64)
TWELVE = 2.0 ** -np.array([1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5])
SLOPES = 2.0 ** -np.arange(1, 9)
DISTANCE = np.abs(np.subtract.outer(np.arange(64), np.arange(64)))

Tables = dict[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]


def rotary_tables(
    inv_freq: np.ndarray = INV_FREQ, height: float = 1.0, rows: int = LENGTH
) -> Tables:
    """Return NumPy's cosines and sines of position · frequency, times a height (attention factor)."""
    return of_angles(np.outer(np.arange(rows), inv_freq), height)


def short_rotary_tables(inv_freq: np.ndarray = INV_FREQ, height: float = 1.0) -> Tables:
    return rotary_tables(inv_freq, height, SHORT_LENGTH)


def of_angles(angles: np.ndarray, height: float = 1.0) -> Tables:
    return {
        "cos": (height * np.cos(angles)).astype(np.float32),
        "sin": (height * np.sin(angles)).astype(np.float32),
    }


def edited(table: np.ndarray, *places: tuple[Any, Any]) -> np.ndarray:
    """A copy with other values at some places."""
    copy = table.copy()
    for place, values in places:
        copy[place] = values
    return copy


def cosines(*places: tuple[Any, Any]) -> Tables:
    """Return the right tables, with other values at some places of the cosines."""
    return rotary_tables() | {"cos": edited(rotary_tables()["cos"], *places)}


def at_position(row: int) -> Tables:
    return {
        name: np.repeat(table[row : row + 1], SHORT_LENGTH, axis=0)
        for name, table in short_rotary_tables().items()
    }


def frequencies_times(which: slice, factor: float) -> np.ndarray:
    """Return the frequencies 10000^(-2i/64), of which some are multiplied by a factor."""
    return edited(INV_FREQ, (which, factor * INV_FREQ[which]))


def bias(distance: np.ndarray = DISTANCE) -> np.ndarray:
    return (-SLOPES[:, None, None] * distance).astype(np.float32)


def through(values: np.ndarray, dtype: type) -> np.ndarray:
    return values.astype(dtype).astype(np.float64)


def blended(plain: np.ndarray, original_length: float = 256, base: float = BASE) -> np.ndarray:
    """Return YaRN's frequencies of 64 channels and factor 4, from unscaled ones."""
    low, high = (
        DIM * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(base))
        for beta in (32.0, 1.0)
    )
    first = max(0, math.floor(low))
    slow = np.clip((INDEX - first) / (math.ceil(high) - first), 0, 1)
    return plain / 4 * slow + plain * (1 - slow)


def dynamic_ntk_frequencies(length: int) -> np.ndarray:
    """Return the frequencies of dynamic NTK by 4 for a model of 256 positions, at a longer length.

    The base is 10000 · (4 · length/256 − 3)^(64/62).
    """
    stretched_base = BASE * (4 * length / 256 - 3) ** (DIM / (DIM - 2))
    return stretched_base ** (-2 * INDEX / DIM)


def frequencies_with_swapped_betas() -> np.ndarray:
    """Return YaRN's frequencies for factor 32 and 4096 positions, with beta_fast 1 and beta_slow 32."""
    limits = [
        DIM * math.log(4096 / (2 * math.pi * beta)) / (2 * math.log(BASE)) for beta in (1.0, 32.0)
    ]
    ramp = np.clip((INDEX - limits[0]) / (limits[1] - limits[0]), 0, 1)
    return INV_FREQ / 32 * ramp + INV_FREQ * (1 - ramp)


def sinusoids_per_column(exponents: np.ndarray) -> np.ndarray:
    """Return sin(p · 10000^−e) in even columns and cos of it in odd ones, with an exponent e per column."""
    angles = np.outer(np.arange(SHORT_LENGTH), BASE**-exponents)
    is_even = np.arange(len(exponents)) % 2 == 0
    return np.where(is_even, np.sin(angles), np.cos(angles)).astype(np.float32)


def frequencies_times_llama3_factors() -> np.ndarray:
    """Return frequencies, base 500000 and 128 channels, times rope_freqs.weight of Llama 3.1.

    The converter of llama.cpp writes 1 for wavelengths below 8192/4, 8 for those above 8192, and
    1/((1 − s)/8 + s) between, s = (8192/wavelength − 1)/3. llama.cpp divides by them.
    """
    frequencies = 500000.0 ** (-np.arange(64) / 64)
    share = np.clip((8192 * frequencies / (2 * np.pi) - 1) / 3, 0, 1)
    return np.asarray(frequencies / ((1 - share) / 8 + share))


def llama3_frequencies_without_2_pi() -> np.ndarray:
    """Return Llama 3.1's frequencies with wavelengths of 1/f, not 2π/f: 8192 · f is compared with 1 and 4."""
    frequencies = 500000.0 ** (-np.arange(64) / 64)
    share = np.clip((8192 * frequencies - 1) / 3, 0, 1)
    return np.asarray((1 - share) * frequencies / 8 + share * frequencies)


other_base = rotary_tables(1e5 ** (-2 * INDEX / DIM))
sines = rotary_tables()["sin"]
drawn = pecli.LearnedInit(max_len=200, dim=64, seed=3)
from_7_on = pecli.Sinusoidal(33, 16, offset=7)
mrope_axes = (
    (0, 1, *[2] * 24, *range(8, 14)),
    (0, 1, *[2 + row // 6 for row in range(24)], *range(8, 14)),
    (0, 1, *[2 + row % 6 for row in range(24)], *range(8, 14)),
)
mrope = pecli.Rope(dim=32, positions=mrope_axes, mrope_section=(4, 6, 6))
mrope_frequencies = BASE ** (-np.arange(16) / 16)


class WrongTables(NamedTuple):
    """Tables with a mistake in them, and what they should be.

    Attributes:
        tables: The wrong tables, computed by NumPy.
        spec: The scheme of the right ones.
        words: A part of the first sentence of the diagnosis, which names the mistake.
        coarse_rounding: What a reason may leave unexplained beside the rounding of float32.
    """

    tables: Tables | np.ndarray
    spec: Any
    words: str
    coarse_rounding: float = 0.0


DAMAGED_PARTS: dict[str, WrongTables] = {
    # cosines(((77, 3), 0.9)) are the right tables, in which element [77, 3] of the cosines is 0.9.
    "element": WrongTables(cosines(((77, 3), 0.9)), LONG_ROPE, "cos: only element [77, 3] differs"),
    "rows": WrongTables(cosines((slice(300, 304), sines[[9, 9, 8, 7]])), LONG_ROPE, "cos: only rows 300–303 differ"),
    "a part of a column": WrongTables(cosines((np.s_[300:400, 5], 0)), LONG_ROPE, "cos: only column 5 differs"),
    # frequencies_times(slice(7, 8), 1.001) are the right ones, of which number 7 is multiplied by 1.001.
    "one frequency": WrongTables(short_rotary_tables(frequencies_times(slice(7, 8), 1.001)), SHORT_ROPE, "only column 7 differs"),
    "some frequencies": WrongTables(short_rotary_tables(frequencies_times(slice(12, 18), 0.7)), SHORT_ROPE, "only columns 12–17 differ"),
    "one of inv_freq": WrongTables({"inv_freq": frequencies_times(slice(7, 8), 1.0001)}, LONG_ROPE, "only element 7 differs"),
    # In the first or second half of the rows, the base is 10^5.
    "base of rows from 512 on": WrongTables(
        {name: edited(table, (slice(512, None), other_base[name][512:])) for name, table in rotary_tables().items()}, LONG_ROPE,
        "base is 100000 (the spec says 10000), and only in rows 512 to 1,023;"),
    "base of rows up to 511": WrongTables(
        {name: edited(table, (slice(512), other_base[name][:512])) for name, table in rotary_tables().items()}, LONG_ROPE,
        "base is 100000 (the spec says 10000), and only in rows 0 to 511;"),
    "a row of queries in a bias": WrongTables({"bias": edited(bias(), ((3, 10), 0))}, ALIBI, "bias: only row 10 differs"),
    "a row far down in draws": WrongTables({"weight": edited(drawn.tables()["weight"], (100, 0))}, drawn, "only row 100 differs"),
}  # fmt: skip
"""Tables in which only some elements, rows, columns or frequencies are wrong."""

WRONG_FREQUENCIES: dict[str, WrongTables] = {
    # The frequencies should be 10000^(-2i/64), i = 0 … 31.
    # The exponents are −2(i + 1)/64.
    "pairs from 1": WrongTables(rotary_tables(BASE ** (-2 * (INDEX + 1) / DIM)), LONG_ROPE, "cos, sin: pairs are counted from 1, not from 0"),
    "exponent over hidden_size 2048": WrongTables(rotary_tables(BASE ** (-2 * INDEX / 2048)), LONG_ROPE,
        "frequencies are over 2048 channels"),
    "twice the exponent": WrongTables(rotary_tables(BASE ** (-4 * INDEX / DIM)), LONG_ROPE,
        "frequencies are over 32 channels (the spec says 64)"),
    "8 pairs turn where 16 should": WrongTables(rotary_tables(INV_FREQ * (INDEX < 8)),
        pecli.Rope(LENGTH, DIM, scaling="proportional", partial_rotary_factor=0.5),
        "cos, sin: rotating_pairs is 8 (the spec says 16);"),
    "half of the sines do not turn, in float16": WrongTables(
        np.sin(np.outer(np.arange(40), INV_FREQ * (INDEX < 16))).astype(np.float16),
        pecli.Rope(40, DIM, dtype="float16"), "rotating_pairs is 16 (the spec says 32)"),
    "reversed": WrongTables(rotary_tables(INV_FREQ[::-1]), LONG_ROPE, "cos, sin: channels are in reverse order; exact"),
    # The exponent of column i should be 2⌊i/2⌋/64, the same for a sine and its cosine.
    "i/dim of each column": WrongTables(sinusoids_per_column(np.arange(DIM) / DIM), pecli.Sinusoidal(SHORT_LENGTH, DIM),
        "pe: exponent of column i is i/dim (the spec says 2⌊i/2⌋/dim); exact"),
    "2i/dim of each column": WrongTables(sinusoids_per_column(2 * np.arange(DIM) / DIM), pecli.Sinusoidal(SHORT_LENGTH, DIM),
        "pe: exponent of column i is 2i/dim (the spec says 2⌊i/2⌋/dim); exact"),
    "2i/dim of each of 15 columns": WrongTables(sinusoids_per_column(2 * np.arange(15) / 15), pecli.Sinusoidal(SHORT_LENGTH, 15),
        "pe: exponent of column i is 2i/dim (the spec says 2⌊i/2⌋/dim); exact"),
    # The frequencies of 128 channels, over 64, in two copies, where 64 channels should be.
    "another dimension": WrongTables(
        {name: np.tile(table, 2) for name, table in rotary_tables(BASE ** (-2 * np.arange(64) / DIM)).items()},
        pecli.Rope(LENGTH, DIM, layout="halves"),
        "rotary dimension is 128 (the spec says 64), and frequencies are over 64 channels, as the spec says;"),
}  # fmt: skip
"""Tables of other frequencies than 10000^(-2i/64), without any scaling for a longer context."""

WRONG_SCALING: dict[str, WrongTables] = {
    "missing": WrongTables(rotary_tables(), YARN, "the yarn scaling is missing; exact"),
    "missing, exponent over 62 channels": WrongTables(rotary_tables(BASE ** (-INDEX / 31)), YARN,
        "frequencies are over 62 channels (the spec says 64), and the yarn scaling is missing"),
    "missing, another base": WrongTables(rotary_tables(), pecli.Rope(LENGTH, DIM, 1e6, scaling="linear", factor=8.0),
        "base is 10000 (the spec says 1000000), and the linear scaling is missing; exact"),
    # Dynamic NTK for 512 tokens, where there are 1024.
    "length of an earlier call": WrongTables(rotary_tables(dynamic_ntk_frequencies(length=512)), DYNAMIC,
        "length is 512 (the spec says 1024)"),
    # Dynamic NTK by 4 at 4 times the length stretches by 4 · 4 − 3 = 13; the base is 10000 · 13^(64/62).
    "NTK without its exponent": WrongTables(rotary_tables((13 * BASE) ** (-2 * INDEX / DIM)), DYNAMIC,
        "cos, sin: the base is multiplied by NTK's factor as it is, not by its power d/(d − 2); exact"),
    "llama3 without 2π": WrongTables(rotary_tables(llama3_frequencies_without_2_pi()), LLAMA_31, "cos, sin: wavelengths lack 2π"),
    # A length of 2π · 256 makes up for a division by 2π.
    "YaRN without 2π": WrongTables(rotary_tables(blended(INV_FREQ, 2 * math.pi * 256), 0.1 * math.log(4) + 1), YARN,
        "cos, sin: wavelengths lack 2π"),
    # Limits are rounded, so that lengths from 33,000 to 50,000 have this table; Qwen3 writes 40,960.
    "length of Qwen3": WrongTables(
        rotary_tables(blended(1e6 ** (-2 * INDEX / DIM), 40960, base=1e6), 0.1 * math.log(4) + 1),
        pecli.Rope(LENGTH, DIM, 1e6, scaling="yarn", factor=4.0, original_max_position_embeddings=32768),
        "original_max_position_embeddings is 40960 (the spec says 32,768)"),
    "attention factor twice": WrongTables({name: np.float32(0.1 * np.log(4) + 1) * YARN.tables()[name] for name in ("cos", "sin")},
        YARN, "the attention factor is applied twice"),
    "beta_fast and beta_slow swapped": WrongTables(short_rotary_tables(frequencies_with_swapped_betas(), HEIGHT),
        pecli.Rope(SHORT_LENGTH, DIM, **YARN32, truncate=False),
        "beta_fast is 1 (the spec says 32), and beta_slow is 32 (the spec says 1)"),
    "YaRN of exponents over 128 channels": WrongTables(
        rotary_tables(blended(BASE ** (-2 * INDEX / (2 * DIM))), 0.1 * math.log(4) + 1), YARN,
        "cos, sin: frequencies are over 128 channels (the spec says 64);"),
    "llama3, multiplied": WrongTables(rotary_tables(frequencies_times_llama3_factors()), LLAMA_31,
        "frequencies are multiplied by the llama3 factors, not divided; exact"),
}  # fmt: skip
"""Tables that lack the scaling of their frequencies for a longer context, or have another one."""

WRONG_ROUNDING: dict[str, WrongTables] = {
    "frequencies in float16": WrongTables(rotary_tables(through(INV_FREQ, np.float16)), LONG_ROPE, "recipe float16-inv-freq"),
    "inv_freq in float16": WrongTables({"inv_freq": INV_FREQ.astype(np.float16)}, LONG_ROPE, "recipe float16-inv-freq"),
    # One of 32,768 phases, 31.148, is so near the middle of two float16 numbers, which are 2^-6 apart
    # there, that the recipe rounds it to the other one.
    "phases in float16": WrongTables(
        of_angles(through(np.outer(np.arange(LENGTH, dtype=np.float32), INV_FREQ.astype(np.float32)), np.float16)),
        LONG_ROPE, "recipe float16-phases", coarse_rounding=2.0**-6),
    # bfloat16 numbers between 1/2 and 1 are 2^-8 apart, and float16 ones 2^-11: half of this is rounded.
    "phases in float32, tables in bfloat16": WrongTables(
        {name: table.astype(ml_dtypes.bfloat16) for name, table in
            of_angles(np.outer(np.arange(4096, dtype=np.float32), INV_FREQ.astype(np.float32))).items()},
        pecli.Rope(4096, DIM), "computed by the recipe float32-bfloat16-table", coarse_rounding=2.0**-9),
    "tables in float16": WrongTables({name: through(table, np.float16).astype(np.float32) for name, table in rotary_tables().items()},
        LONG_ROPE, "rounded to float16", coarse_rounding=2.0**-12),
    "tables in float8": WrongTables(
        {name: through(table, ml_dtypes.float8_e4m3fn).astype(np.float32) for name, table in rotary_tables().items()},
        LONG_ROPE, "rounded to float8_e4m3fn;"),
    "slopes in bfloat16": WrongTables({"bias": -through(TWELVE, ml_dtypes.bfloat16)[:, None, None] * DISTANCE.astype(np.float32)},
        pecli.Alibi(12, 64), "bias: slopes are rounded to bfloat16 before they are multiplied; exact"),
    "bias in bfloat16 under a mask": WrongTables(np.where(np.tri(16, dtype=bool),
        through(-TWELVE[:, None, None] * DISTANCE[:16, :16], ml_dtypes.bfloat16), -1e9).astype(np.float32),
        pecli.Alibi(12, 16, form="causal"), "mask differs: -1e+09; rounded to bfloat16; exact"),
}  # fmt: skip
"""Tables of which one step is rounded more coarsely than to float32."""

WRONG_BIASES: dict[str, WrongTables] = {
    # ALiBi's bias is −slope · |i − j| for query i and key j; the slopes of 8 heads are 2^-1 … 2^-8.
    "distance": WrongTables({"bias": bias(DISTANCE + 1)}, ALIBI, "distances are off by one: i − j + 1, not i − j"),
    "distance of one head": WrongTables(-DISTANCE[None] / 256 - 1 / 256, pecli.Alibi(1, 64), "distances are off by one: i − j + 1"),
    "distance, heads on the last axis": WrongTables(bias(DISTANCE + 1).transpose(1, 2, 0), ALIBI,
        "transposed, and distances are off"),
    # The slope of a single head is 2^-max_bias, and those of 8 heads are squared if max_bias doubles.
    "slope of one head": WrongTables(-DISTANCE / 16, pecli.Alibi(1, 64), "max_bias is 4 (the spec says 8)"),
    "slopes squared, heads on the last axis": WrongTables(np.multiply.outer(DISTANCE, -(SLOPES**2)), ALIBI,
        "transposed, and max_bias is 16 (the spec says 8)"),
    "slopes squared, five keys": WrongTables(np.multiply.outer(SLOPES**2, [np.arange(-4, 1)]), pecli.Alibi(8, 5, form="key"),
        "max_bias is 16"),
    # One row for all queries, which counts keys from the last one, times 1/√64.
    "keys of one query, scaled": WrongTables(SLOPES[:, None, None] * np.arange(-63, 1) / 8, ALIBI,
        "bias: form is key-last (the spec says symmetric), and values are scaled by 0.125;"),
    "heads": WrongTables({"bias": bias()[[1, 0, 2, 3, 5, 4, 6, 7]]}, ALIBI, "heads are in another order (1, 0, 2, 3, 5, 4, 6, 7)"),
}  # fmt: skip
"""Biases of ALiBi with other distances, slopes or heads."""

WRONG_POSITIONS: dict[str, WrongTables] = {
    "another start": WrongTables({name: pecli.Rope(64, 4, 2.0, offset=5).tables()[name] for name in ("cos", "sin")},
        pecli.Rope(64, 4, 2.0), "positions start at 5 (the spec says 0)"),
    # Row 3 of a table that starts at 7 is at position 10.
    "one position for all rows": WrongTables(np.repeat(from_7_on.tables()["pe"][3:4], 33, axis=0), from_7_on,
        "all rows are at position 10;"),
    "one axis for all, in float16": WrongTables(
        {name: table.astype(np.float16) for name, table in of_angles(np.outer(mrope_axes[0], mrope_frequencies)).items()},
        mrope, "positions are those of the axes t,t,t (the spec says t,h,w)"),
    "another start, with another base and swapped functions": WrongTables(
        {name: np.round(of_angles(np.outer(np.arange(1, 41), 5e5 ** (-np.arange(16) / 16)))[other], 4)
            for name, other in (("cos", "sin"), ("sin", "cos"))},
        pecli.Rope(40, 32), "base is 500000 (the spec says 10000), and positions start at 1 (the spec says 0), and sin and cos are swapped"),
}  # fmt: skip
"""Tables at other positions than 0, 1, 2, …"""

NOT_FREQUENCIES: dict[str, WrongTables] = {
    # inv_freq should hold 10000^(-2i/64), i = 0 … 31.
    "wavelengths": WrongTables({"inv_freq": np.float32(2 * np.pi / INV_FREQ)}, LONG_ROPE, "wavelengths, not frequencies; exact"),
    "inverses": WrongTables({"inv_freq": 1 / INV_FREQ}, LONG_ROPE, "inv_freq holds 1/inv_freq, not frequencies; explains"),
    "reversed": WrongTables({"inv_freq": INV_FREQ[::-1].copy()}, LONG_ROPE, "channels are in reverse order; exact"),
    "zeros": WrongTables({"inv_freq": 0 * INV_FREQ}, LONG_ROPE, "values were never initialised"),
    "NaN": WrongTables({"inv_freq": np.array([np.nan])}, pecli.Rope(4, 2), "values were never initialised"),
    "1e-19": WrongTables({"inv_freq": np.full(DIM // 2, 1e-19, np.float32)}, LONG_ROPE, "values were never initialised"),
    "sines that are all zeros": WrongTables(np.zeros((200, 32), np.float32), pecli.Rope(200, 64), "all values are 0"),
}  # fmt: skip
"""Arrays that hold something else than the frequencies, or the sines, that are expected."""


def assert_mistake_is_the_first_reason(case: WrongTables) -> None:
    """Verify wrong tables against their spec: the first sentence names the mistake, and no noise."""
    result = pecli.verify(case.tables, case.spec, atol=1e-6)

    assert not result.passed
    assert case.words in result.diagnosis[0]
    assert "noise" not in result.diagnosis[0]


@pytest.mark.parametrize("case", DAMAGED_PARTS.values(), ids=DAMAGED_PARTS)
@pytest.mark.sample(2)
def test_a_part_of_a_table_that_is_wrong_is_named(case: WrongTables) -> None:
    """NumPy's tables of 1024 positions (SHORT_ROPE: 256) are right except for one part, which the
    first reason names: if element [77, 3] of the cosines is set to 0.9, «cos: only element [77, 3]
    differs».
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", WRONG_FREQUENCIES.values(), ids=WRONG_FREQUENCIES)
@pytest.mark.sample(2)
def test_wrong_frequencies_are_named(case: WrongTables) -> None:
    """NumPy computes cosines and sines of position · frequency with wrong frequencies: if these are
    10000^(-2i/2048) where 10000^(-2i/64) is right, the first reason is «frequencies are over 2048
    channels».
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", WRONG_SCALING.values(), ids=WRONG_SCALING)
@pytest.mark.sample(2)
def test_a_wrong_scaling_of_the_frequencies_is_named(case: WrongTables) -> None:
    """NumPy computes cosines and sines by the formulas of YaRN and dynamic NTK with a mistake in them,
    or without any scaling: then the first reason is «the yarn scaling is missing».
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", WRONG_ROUNDING.values(), ids=WRONG_ROUNDING)
@pytest.mark.sample(2)
def test_the_step_that_was_rounded_too_coarsely_is_named(case: WrongTables) -> None:
    """`through` rounds an array by NumPy to a coarse dtype and back. The first reason names the array:
    a recipe is a way to compute with rounded frequencies or phases (position · frequency).
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", WRONG_BIASES.values(), ids=WRONG_BIASES)
@pytest.mark.sample(2)
def test_a_wrong_distance_slope_or_head_of_a_bias_is_named(case: WrongTables) -> None:
    """NumPy multiplies slopes by distances, with a mistake in one of them: with distances i − j + 1,
    the first reason is «distances are off by one: i − j + 1, not i − j».
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", WRONG_POSITIONS.values(), ids=WRONG_POSITIONS)
@pytest.mark.sample(1)
def test_wrong_positions_are_named_by_their_start_or_axis(case: WrongTables) -> None:
    """The tables are at positions from 5 on, or all at 10, where 0, 1, 2, … are right; the axes of an
    image are time, row and column (t, h, w).
    """
    assert_mistake_is_the_first_reason(case)


@pytest.mark.parametrize("case", NOT_FREQUENCIES.values(), ids=NOT_FREQUENCIES)
@pytest.mark.sample(2)
def test_an_array_of_something_else_than_frequencies_is_named(case: WrongTables) -> None:
    """A wavelength is 2π/frequency. The first frequency of any model is near 1, so that only zeros,
    NaN or 1e-19 are what memory happened to hold: «values were never initialised».
    """
    assert_mistake_is_the_first_reason(case)


EVERY_CASE = {
    f"{kind}, {name}": case
    for kind, cases in {
        "part": DAMAGED_PARTS,
        "frequencies": WRONG_FREQUENCIES,
        "scaling": WRONG_SCALING,
        "rounding": WRONG_ROUNDING,
        "bias": WRONG_BIASES,
        "positions": WRONG_POSITIONS,
        "array": NOT_FREQUENCIES,
    }.items()
    for name, case in cases.items()
}
"""All wrong tables above."""

FLOAT32_ROUNDING = 2.0**-22
"""Twice the distance of float32 numbers from 1 to 2: YaRN's cosines are up to 1.3."""


@pytest.mark.parametrize("case", EVERY_CASE.values(), ids=EVERY_CASE)
@pytest.mark.sample(5)
def test_a_reason_leaves_no_more_than_the_rounding_of_its_tables(case: WrongTables) -> None:
    """The residual is what a reason leaves unexplained. Nearly all tables of EVERY_CASE are explained
    to the rounding of float32; three cases state `coarse_rounding`, half of the distance between two
    numbers of float16 or bfloat16, or the distance between two phases in float16.
    """
    (explanation,) = pecli.verify(case.tables, case.spec, atol=1e-6).explanations
    assert explanation.residual <= case.coarse_rounding + FLOAT32_ROUNDING


COSINES, SINES = short_rotary_tables().values()


SHORT_YARN = pecli.Rope(SHORT_LENGTH, DIM, **YARN32)

MISTAKES_WITHOUT_A_COMMAND = {
    "positions end at 0": WrongTables(
        of_angles(np.outer(np.arange(1 - SHORT_LENGTH, 1), INV_FREQ)),
        SHORT_ROPE,
        "positions start at -255 (the spec says 0)",
    ),
    "sines in the place of cosines": WrongTables(
        {"cos": SINES, "sin": COSINES}, SHORT_ROPE, "sin and cos are swapped"
    ),
    "position 0 everywhere": WrongTables(at_position(0), SHORT_ROPE, "all rows are at position 0"),
    "position 7 everywhere": WrongTables(at_position(7), SHORT_ROPE, "all rows are at position 7"),
    "a row of cosines twice": WrongTables(
        {"cos": edited(COSINES, (100, COSINES[99])), "sin": SINES},
        SHORT_ROPE,
        "cos: only row 100 differs",
    ),
    "LongRoPE multiplies": WrongTables(
        short_rotary_tables(INV_FREQ * FACTORS),
        LONGROPE,
        "frequencies are multiplied by short_factor, not divided",
    ),
    "LongRoPE's factors are reversed": WrongTables(
        short_rotary_tables(INV_FREQ / FACTORS[::-1]), LONGROPE, "short_factor is in reverse order"
    ),
}


@pytest.mark.parametrize("name", MISTAKES_WITHOUT_A_COMMAND)
def test_a_reason_has_no_command_if_no_options_make_the_table(name: str) -> None:
    """NumPy computes the tables with a mistake in them. `pecli rope` has no option that puts all rows
    at position 7, for example.
    """
    case = MISTAKES_WITHOUT_A_COMMAND[name]
    reason, *other_lines = pecli.verify(case.tables, case.spec, atol=1e-4).diagnosis

    assert case.words in reason
    assert "noise" not in reason
    assert not any("pecli " in line for line in other_lines)


def diagnosis_of(tables: Tables | np.ndarray, spec: Any) -> tuple[str, str]:
    """Return the first reason why wrong tables differ from their spec, and the line with the command."""
    reason, *other_lines = pecli.verify(tables, spec, atol=1e-4).diagnosis
    (command,) = [line for line in other_lines if "pecli " in line]
    return reason, command


def test_the_command_of_another_factor_has_the_factor_of_the_table() -> None:
    """The scaling ntk-fixed by s has the frequencies (s · base)^(-2i/d) / s^(2/d). NumPy's table has
    s = 16, and the spec 8.
    """
    frequencies = (16 * 10000.0) ** (-2 * np.arange(32) / 64) / 16 ** (2 / 64)
    spec = pecli.Rope(SHORT_LENGTH, 64, scaling="ntk-fixed", factor=8.0)
    reason, command = diagnosis_of(short_rotary_tables(frequencies), spec)

    assert "factor is 16 (the spec says 8)" in reason
    assert "--factor 16" in command


def test_the_command_of_another_rotary_dimension_has_that_of_the_table() -> None:
    """NumPy's table has the 16 frequencies 10000^(-2i/32), and the spec the 32 of 64 channels."""
    frequencies = 10000.0 ** (-2 * np.arange(16) / 32)
    spec = pecli.Rope(SHORT_LENGTH, 64, layout="halves")
    reason, command = diagnosis_of(short_rotary_tables(frequencies), spec)

    assert "cos, sin: rotary dimension is 32 (the spec says 64);" in reason
    assert "--dim 32" in command


def test_the_command_of_cosines_before_sines_has_the_option_for_it() -> None:
    """NumPy's table has the cosines in its first half, where the scheme has the sines."""
    spec = pecli.Sinusoidal(SHORT_LENGTH, 64, layout="halves")
    reason, command = diagnosis_of(np.concatenate([COSINES, SINES], axis=1), spec)

    assert "sin and cos are swapped" in reason
    assert "--cos-first" in command


def test_what_no_option_makes_is_stated_before_the_command() -> None:
    """`pecli rope` can leave the linear scaling out, which is one mistake in NumPy's table, but has no
    option for negated sines, the other one.
    """
    spec = pecli.Rope(SHORT_LENGTH, 64, scaling="linear", factor=8.0)
    reason, command = diagnosis_of({"cos": COSINES, "sin": -SINES}, spec)

    assert "sin is negated (it" in reason
    assert "apart from that (sin is negated), reproduce with" in command


def test_an_attention_factor_without_its_scaling_is_stated_before_the_command() -> None:
    """NumPy's table has frequencies divided by 32, but YaRN's attention factor 0.1 ln 32 + 1 =
    1.346574. The command makes linear scaling by 32, which has no attention factor.
    """
    frequencies = 10000.0 ** (-2 * np.arange(32) / 64) / 32
    tables = short_rotary_tables(frequencies, height=0.1 * math.log(32) + 1)
    reason, command = diagnosis_of(tables, SHORT_YARN)

    assert "attention factor is 1.346574, as the spec says; exact" in reason
    assert "apart from that (attention factor is 1.346574), reproduce with" in command


@pytest.mark.parametrize("rows", [8, 16, 24])
def test_negated_sines_are_named_although_no_frequency_turns_once(rows: int) -> None:
    """The table is −sin(angle) where sin(angle) is right. Scaled by 4, the fastest channel turns by
    1/4 radian per row, so 6 radians in 24 rows are less than a turn; the slowest hardly leaves 0.
    """
    spec = pecli.Rope(rows, 16, base=1e6, scaling="linear", factor=4.0)
    angles = np.outer(np.arange(rows), 1e6 ** (-np.arange(0, 16, 2) / 16) / 4)
    (explanation, *_) = explain(spec, {"sin": -np.sin(angles).astype(np.float32)})

    assert explanation.edits == (Negated("all"),)


def test_positions_in_float16_are_named() -> None:
    """NumPy's table of 4096 rows is at positions rounded to float16, which beyond 2048 holds even
    numbers only.
    """
    positions = np.arange(4096).astype(np.float16).astype(np.float64)
    tables = of_angles(np.outer(positions, INV_FREQ))
    reason = pecli.verify(tables, pecli.Rope(4096, DIM), atol=1e-4).diagnosis[0]

    assert "recipe float16-positions" in reason


def multimodal(sections: tuple[int, ...], positions: np.ndarray) -> Tables:
    """Return NumPy's table of 128 channels, base 1e6: sections of the pairs follow time, row and
    column.
    """
    axes = np.repeat(np.arange(3), sections)
    angles = positions[axes].T * 1e6 ** (-np.arange(64) / 64)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def positions_of_an_image_in_a_text() -> np.ndarray:
    """Return (t, h, w) of ten tokens of text, an image of 4 × 6, and ten more tokens.

    This is Qwen2-VL's rule: t is constant in the image, h its row and w its column, and the text after
    it begins at the largest position plus one, 10 + 6 = 16.
    """
    text = np.tile(np.arange(10), (3, 1))
    image = np.stack([np.full(24, 10), 10 + np.arange(24) // 6, 10 + np.arange(24) % 6])
    text_after = np.tile(np.arange(16, 26), (3, 1))
    return np.concatenate([text, image, text_after], axis=1)


SECTIONS = (16, 24, 24)
"""Pairs of channels that follow time, row and column in Qwen2-VL."""
IN_IMAGE = pecli.Rope(
    dim=128,
    base=1e6,
    mrope_section=SECTIONS,
    positions=positions_of_an_image_in_a_text().tolist(),
)


def test_positions_of_an_image_are_named_if_counted_ones_are_expected() -> None:
    """NumPy's table is at the positions (t, h, w) of ten tokens of text, an image of 4 × 6, and ten
    more tokens; the spec counts from 0 to 43. The reason lists the axes one after the other. Time is
    0 … 9 in the text and 10 in the 24 tokens of the image: the first of them ends the run 0 … 10,
    and 23 are left.
    """
    positions = positions_of_an_image_in_a_text()
    assert positions[0].tolist() == [*range(10), *[10] * 24, *range(16, 26)]

    spec = pecli.Rope(44, 128, base=1e6, mrope_section=SECTIONS)
    reason = pecli.verify(multimodal(SECTIONS, positions), spec, atol=1e-3).diagnosis[0]

    time = "0 … 10, then 10 × 23, then 16 … 25"
    row = "0 … 10, then 10 × 5, then 11 × 6, then 12 × 6, then 13 × 6, then 16 … 25"
    column = "0 … 15, then 10 … 15, then 10 … 15, then 10 … 25"
    assert f"positions are {time}; {row}; {column}; expected 0 … 43; exact" in reason


def test_counted_positions_are_named_if_those_of_an_image_are_expected() -> None:
    """The spec is at the positions (t, h, w) of ten tokens of text, an image of 4 × 6, and ten more
    tokens. NumPy's table counts from 0 to 43 along all three axes, as if all were text.
    """
    counted = np.tile(np.arange(44), (3, 1))
    reason = pecli.verify(multimodal(SECTIONS, counted), IN_IMAGE, atol=1e-3).diagnosis[0]

    assert "positions are 0, 1, 2, …, not those given" in reason


def test_other_sections_are_named_at_the_positions_of_an_image() -> None:
    """The spec and NumPy's table are at the positions (t, h, w) of ten tokens of text, an image of
    4 × 6, and ten more tokens. Of the 64 pairs, 24, 20 and 20 follow time, row and column in the
    table, and 16, 24 and 24 in the spec.
    """
    tables = multimodal((24, 20, 20), positions_of_an_image_in_a_text())
    reason = pecli.verify(tables, IN_IMAGE, atol=1e-3).diagnosis[0]

    assert "mrope_section is 24,20,20 (the spec says 16,24,24); exact" in reason


def test_an_int8_table_is_explained_as_cosines_in_steps_of_1_127() -> None:
    """The table is 127 · cos of 256 positions, rounded to int8 by NumPy. The spec is in float32, so
    `explain` names the steps as the only difference; `identify` names them in the table's form.
    """
    table = np.rint(127 * np.cos(np.outer(np.arange(SHORT_LENGTH), INV_FREQ))).astype(np.int8)
    (explanation,) = explain(SHORT_ROPE, {"cos": table}, 1e-3)

    assert "cos: rounded to steps of 1/127; explains" in sentence(explanation)

    (match, *_) = pecli.identify(table).matches
    assert "rounded to steps of 1/127" in match.form


@pytest.mark.thorough
def test_the_check_of_fast_waves_that_are_no_table_takes_little_memory() -> None:
    """sin(0.3 · n) in 33 rows of 16 columns: each column turns by 4.8 radians per row, and begins at
    another angle. As fast waves return to an angle at nearly every row, a search for the first
    position must not list all that are possible. The check takes 13 MiB; five times as much fails.
    """
    waves = np.sin(0.3 * np.arange(33 * 16)).reshape(1, 33, 16)
    tracemalloc.start()
    result = pecli.verify(waves, pecli.Rope(4, 8))
    _, peak_in_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert not result.passed
    assert peak_in_bytes < 64 * 2**20


@pytest.mark.parametrize("rows", [256 - 12, 256 + 12])
def test_another_number_of_rows_is_named_beside_the_shape(rows: int) -> None:
    """12 rows fewer or more than the spec's 256. The diagnosis is a reason, the command that makes
    such a table, and the shapes.
    """
    table = pecli.Sinusoidal(rows, 64).tables()["pe"]
    result = pecli.verify(table, pecli.Sinusoidal(256, 64))
    reason, command, shape = result.diagnosis

    assert shape.startswith("pe: its shape is")
    assert f"seq_len is {rows} (the spec says 256)" in reason
    assert command == f"reproduce with pecli sinusoidal --seq-len {rows} --dim 64"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            lambda x: x.astype(ml_dtypes.bfloat16).view(np.uint16),
            "values are the bits of bfloat16; exact",
            id="bfloat16, rounded",
        ),
        pytest.param(
            lambda x: (x.view(np.uint32) >> 16).astype(np.uint16),
            "values are the bits of bfloat16",
            id="bfloat16, cut off",
        ),
        pytest.param(
            lambda x: x.astype(np.float16).view(np.int16),
            "values are the bits of float16; exact",
            id="float16",
        ),
        pytest.param(
            lambda x: x.view(np.uint32), "values are the bits of float32; exact", id="float32"
        ),
        pytest.param(np.ndarray.byteswap, "values are byte-swapped; exact", id="bytes reversed"),
    ],
)
def test_bits_that_are_read_as_other_numbers_are_named(change: Change, words: str) -> None:
    """A right table is read in the wrong way: the 16 or 32 bits of each number as an integer, or its
    bytes in reverse order. bfloat16 is the upper half of a float32, rounded (the first case) or cut
    off (the second).
    """
    rope = pecli.Rope(SHORT_LENGTH, DIM)
    right = rope.tables()
    result = pecli.verify({name: change(right[name]) for name in ("cos", "sin")}, rope)

    assert not result.passed
    assert f"cos, sin: {words}" in result.diagnosis[0]


@pytest.mark.parametrize("base", [BASE, 500000.0])
@pytest.mark.parametrize(
    ("layout", "zeros"), [("halves", "the second half is"), ("interleaved", "every other one is")]
)
def test_columns_that_are_zero_instead_of_doubled_are_named(
    layout: str, zeros: str, base: float
) -> None:
    """Each column of 32 should stand twice among 64: as halves, or beside itself. In the table it
    stands once, and zeros are in the other place. Its base is 10000; in two cases the spec has base
    500000, so that the base is wrong as well.
    """
    spec = pecli.Rope(SHORT_LENGTH, DIM, base, layout=layout)
    columns = slice(DIM // 2) if layout == "halves" else slice(None, None, 2)
    tables = {name: np.zeros((SHORT_LENGTH, DIM), np.float32) for name in ("cos", "sin")}
    for name, table in short_rotary_tables().items():
        tables[name][:, columns] = table
    second_mistake = "" if base == BASE else f", and base is 10000 (the spec says {base:.0f})"
    words = f"cos, sin: columns are not doubled: {zeros} zeros{second_mistake}; "

    assert pecli.verify(tables, spec).diagnosis[0].startswith(words)


@pytest.mark.parametrize("rows", [SHORT_LENGTH, pytest.param(70000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("base_of_spec", "second_mistake"),
    [(10000.0, ""), (500000.0, ", and base is 10000 (the spec says 500000)")],
    ids=["the base of the spec", "another base"],
)
def test_angles_in_the_place_of_cosines_and_sines_are_named(
    base_of_spec: float, second_mistake: str, rows: int
) -> None:
    """The tables hold the angles position · 10000^(-2i/64) themselves, under the names cos and sin. If
    the spec has another base, both mistakes are named.
    """
    angles = np.outer(np.arange(rows), INV_FREQ)
    words = "cos, sin: values are the angles, position × inv_freq, and not their cosines or sines"
    result = pecli.verify({"cos": angles, "sin": angles}, pecli.Rope(rows, DIM, base_of_spec))

    assert result.diagnosis[0].startswith(f"{words}{second_mistake}; ")


def test_a_sinusoidal_table_of_odd_width_raises_no_error_in_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table has 15 channels, positions in steps of 1/8 and base 1000, where the spec has steps of
    1 and base 10000. With PECLI_DEBUG, an error of the search for a reason would be raised instead
    of being reported as «no reason».
    """
    monkeypatch.setenv("PECLI_DEBUG", "1")
    angles = np.outer(np.arange(3) / 8, 1000.0 ** (-np.arange(8) / 8))
    table = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(3, 16)[:, :-1]

    assert not pecli.verify(table, pecli.Sinusoidal(3, 15)).passed


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["bias", "slopes"])
def test_complex_numbers_where_real_ones_are_expected_fail_without_a_warning(name: str) -> None:
    """ALiBi's right bias, or its right slopes, are stored as complex numbers. The check fails, without
    NumPy's warning that it drops imaginary parts.
    """
    alibi = pecli.Alibi(4, 16)
    as_complex = alibi.tables()[name].astype(np.complex64)

    assert not pecli.verify({name: as_complex}, alibi, reasons=False).passed


@pytest.mark.filterwarnings("error")
def test_a_table_with_an_imaginary_row_differs_from_a_real_one_without_a_warning() -> None:
    """`diff` compares a right sinusoidal table with a complex copy, in which i is added to each
    element of row 3. NumPy would warn if imaginary parts were dropped.
    """
    tables = pecli.Sinusoidal(16, 8).tables()
    table = tables["pe"].astype(np.complex64)
    table[3] += 1j

    assert not pecli.diff(tables, table, reasons=False).passed


def test_a_plain_base_over_twice_the_channels_comes_before_a_fitted_base() -> None:
    """NumPy's frequencies are 500000^(-2i/128) instead of 10000^(-2i/64). The base √500000 = 707.1068
    over 64 channels makes the same ones, but would be one odd number instead of two plain ones.
    """
    tables = rotary_tables(500000.0 ** (-2 * INDEX / 128))
    reason = pecli.verify(tables, LONG_ROPE, atol=1e-4).diagnosis[0]

    assert "base is 500000 (the spec says 10000)" in reason
    assert ", and frequencies are over 128 channels (the spec says 64)" in reason


def test_a_plain_base_with_a_shift_comes_before_a_fitted_base() -> None:
    """Frequencies are 10^6^(-i/(32 − 1)). Without the shift of one, the base 1e6^(32/31) =
    1561523.006 would make the same ones: (1e6^(32/31))^(-i/32).
    """
    angles = np.outer(np.arange(512), 1e6 ** (-np.arange(32) / 31))
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(512, 64).astype(np.float32)

    reason = pecli.verify(table, pecli.Sinusoidal(512, 64), atol=1e-4).diagnosis[0]
    assert "base is 1000000 (the spec says 10000), and freq_shift is 1 (the spec says 0)" in reason

    identified = pecli.identify(table).matches[0].scheme
    assert identified == pecli.Sinusoidal(512, 64, base=1e6, freq_shift=1.0)


@pytest.mark.thorough
def test_channels_and_a_factor_come_before_a_fitted_base() -> None:
    """Frequencies are base^(-2i/256) instead of base^(-2i/128), and then scaled by Llama 3's formula
    with factor 40 instead of 8 (formulas of tests/tools/sweeps, in NumPy). These are two plain
    mistakes; a fitted base would need an odd number.
    """
    right = Waves(128, 5e5, {**LLAMA3, "factor": 8.0})
    wrong = replace(right, scaling={**LLAMA3, "factor": 40.0}, exponent_dim=256.0)
    cos, sin = wrong.tables(128)
    reason = pecli.verify({"cos": cos, "sin": sin}, right.scheme(128), atol=1e-4).diagnosis[0]

    assert "frequencies are over 256 channels (the spec says 128)" in reason
    assert ", and factor is 40 (the spec says 8)" in reason


SHORT_COSINES = short_rotary_tables()["cos"]
TABLES_OF_NO_WAVES: dict[str, Tables] = {
    "constant": {"cos": np.full((4, SHORT_LENGTH, DIM // 2), 0.3, np.float32)},
    "tanh of cosines": {"cos": np.tanh(2 * SHORT_COSINES)},
    "squares of cosines": {"cos": SHORT_COSINES**2},
    "cosines of which a third of the rows are zeros": {
        "cos": SHORT_COSINES * (np.random.default_rng(1).random((SHORT_LENGTH, 1)) > 0.3)
    },
    # row · k^9 for k from 1 to 2; the angles of a table would be row · 10000^(-2i/64).
    "multiples of numbers that are no frequencies": dict.fromkeys(
        ("cos", "sin"), np.outer(np.arange(SHORT_LENGTH), np.linspace(1, 2, 32) ** 9)
    ),
}
"""Tables of 256 positions and 32 columns whose columns are not cosines."""


@pytest.mark.parametrize("tables", TABLES_OF_NO_WAVES.values(), ids=TABLES_OF_NO_WAVES)
@pytest.mark.sample("squares of cosines")
def test_no_reason_is_invented_for_columns_that_are_no_cosines(tables: Tables) -> None:
    """Against a rotary spec of 256 positions and 64 channels the check fails, and no mistake that pecli
    knows makes such a table.
    """
    result = pecli.verify(tables, pecli.Rope(256, 64), atol=1e-4)

    assert not result.passed
    assert result.explanations == ()


@pytest.mark.parametrize("tables", TABLES_OF_NO_WAVES.values(), ids=TABLES_OF_NO_WAVES)
@pytest.mark.sample("squares of cosines")
def test_no_scheme_is_identified_in_columns_that_are_no_cosines(tables: Tables) -> None:
    assert not pecli.identify(tables).identified


@pytest.mark.parametrize(
    ("sines", "misread_sines"),
    [
        pytest.param(
            np.ones((1, 32), np.float32),
            np.ones((1, 32), np.float32).byteswap(),
            id="ones, whose bytes in reverse order are 4.6e-41",
        ),
        pytest.param(
            np.full((1, 32), 7, np.int32),
            np.full((1, 32), 7, np.int32).view(np.float32),
            id="integers 7, whose bits are the float32 number 9.8e-45",
        ),
    ],
)
def test_no_misread_bytes_are_supposed_because_they_are_next_to_zero(
    sines: np.ndarray, misread_sines: np.ndarray
) -> None:
    """Sines at position 0 are zeros. Bytes that were read in the wrong order, or as another dtype, would
    make these arrays zeros within any tolerance, which shows nothing: there is no reason.
    """
    assert misread_sines == pytest.approx(0, abs=1e-40)

    result = pecli.verify({"sin": sines}, pecli.Rope(seq_len=1, dim=64), atol=1e-4)
    assert not result.passed
    assert result.explanations == ()


@pytest.mark.parametrize(
    ("frequencies", "dim"),
    [
        pytest.param(np.random.default_rng(1).normal(size=32), 64, id="32 random numbers"),
        pytest.param(np.array([0.5]), 2, id="0.5 where 1 is right"),
    ],
)
@pytest.mark.thorough
def test_no_reason_is_invented_for_frequencies_that_no_scheme_has(
    frequencies: np.ndarray, dim: int
) -> None:
    """The first frequency of a scheme without scaling is base^0 = 1, whatever its base is."""
    result = pecli.verify({"inv_freq": frequencies}, pecli.Rope(4, dim), atol=1e-4)

    assert not result.passed
    assert result.explanations == ()


@pytest.fixture
def search_ends_after_single_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that the time is up before the search tries two mistakes at once."""
    search = Search.find_explanations_with

    def search_for_one_mistake(self: Search, count: int) -> bool:
        if count == 2:
            raise OutOfTimeError
        search(self, count)
        return False  # The search goes on with two mistakes.

    monkeypatch.setattr(Search, "find_explanations_with", search_for_one_mistake)


@pytest.mark.parametrize(
    ("base", "is_in_doubt"),
    [
        pytest.param(31074.9, True, id="six digits"),
        pytest.param(30000.0, False, id="one digit"),
    ],
)
def test_a_search_that_was_stopped_leaves_a_doubt_about_a_base_of_many_digits(
    search_ends_after_single_mistakes: None, base: float, is_in_doubt: bool
) -> None:
    """The time is up after single mistakes were tried. Any table of two mistakes, such as another base
    and a factor, may look like one of an odd base: `is_cut_short` warns that two plain numbers may
    explain it. A base of one digit is plain itself.
    """
    found = pecli.Rope(256, 64, base).tables()
    (explanation,) = explain(pecli.Rope(256, 64), {"cos": found["cos"], "sin": found["sin"]})

    assert explanation.is_cut_short == is_in_doubt


def test_a_time_limit_raises_an_error_within_its_block_only() -> None:
    """A limit of −1 s is over at once: `check_time` raises within the block, and not after it."""
    with time_limit(-1.0), pytest.raises(OutOfTimeError):
        check_time()
    check_time()


def test_a_longer_time_limit_inside_does_not_move_the_one_outside() -> None:
    """A limit of −1 s is over at once, also within a block that has a limit of 60 s itself."""
    with time_limit(-1.0), time_limit(60.0), pytest.raises(OutOfTimeError):
        check_time()


def test_time_that_is_up_ends_recognition_without_a_scheme() -> None:
    """NumPy's rotary table is recognised without a limit. A limit of −1 s is over at once: the
    result is an empty list, and no error.
    """
    with time_limit(-1.0):
        assert recognise(rotary_tables()) == []
    assert recognise(rotary_tables()) != []


@pytest.mark.parametrize("original_length", [2048, 8192, 131072])
@pytest.mark.sample(1)
def test_yarn_that_the_model_does_not_have_is_named(original_length: int) -> None:
    """The spec is unscaled. The table has YaRN's scaling by 4, blended in NumPy for a model that was
    trained on `original_length` positions, and its attention factor 0.1 ln 4 + 1. The length is
    found among those that models have.
    """
    tables = rotary_tables(blended(INV_FREQ, original_length), height=0.1 * math.log(4) + 1)
    (first, *_) = pecli.verify(tables, LONG_ROPE, atol=1e-4).explanations

    assert first.edits == (
        Parameter("scaling", "none", "yarn"),
        Parameter("factor", None, 4.0),
        Parameter("original_max_position_embeddings", None, original_length),
    )


def exact_cosines_and_sines(frequencies: np.ndarray) -> dict[str, np.ndarray]:
    """NumPy's cosines and sines of 64 positions, in float32, one column per frequency."""
    angles = np.outer(np.arange(64), frequencies)
    return {
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }


@pytest.mark.parametrize("names", [("cos",), ("sin",), ("cos", "sin")])
def test_all_channels_of_a_head_are_named_where_half_of_them_should_rotate(
    names: tuple[str, ...],
) -> None:
    """Half of 64 channels should rotate. The table has 32 columns, which may be two for each of 16
    frequencies; they are the 32 frequencies 10000^(-2i/64) of the whole head.
    """
    tables = exact_cosines_and_sines(10000.0 ** (-np.arange(0, 64, 2) / 64))
    scheme = pecli.Rope(64, 64, partial_rotary_factor=0.5)
    reason = pecli.verify({name: tables[name] for name in names}, scheme).diagnosis[0]

    assert reason == f"{', '.join(names)}: rotary dimension is 64 (the spec says 32); exact"


@pytest.mark.parametrize("names", [("cos",), ("sin",), ("cos", "sin")])
def test_exponents_over_a_head_are_named_whatever_part_of_it_rotates(
    names: tuple[str, ...],
) -> None:
    """Phi-2 rotates 32 of 80 channels, with frequencies 10000^(-2i/32). The table has the first 16
    of the frequencies 10000^(-2i/80).
    """
    tables = exact_cosines_and_sines(10000.0 ** (-np.arange(0, 32, 2) / 80))
    scheme = pecli.Rope(64, 80, partial_rotary_factor=0.4)
    reason = pecli.verify({name: tables[name] for name in names}, scheme).diagnosis[0]

    assert (
        reason == f"{', '.join(names)}: frequencies are over 80 channels (the spec says 32); exact"
    )
