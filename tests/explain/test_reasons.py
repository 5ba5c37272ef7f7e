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
    return rotary_tables() | {"cos": edited(rotary_tables()["cos"], *places)}


def at_position(row: int) -> Tables:
    return {
        name: np.repeat(table[row : row + 1], SHORT_LENGTH, axis=0)
        for name, table in short_rotary_tables().items()
    }


def factors(which: slice, by: float) -> np.ndarray:
    return edited(np.ones(DIM // 2), (which, by))


def bias(distance: np.ndarray = DISTANCE) -> np.ndarray:
    return (-SLOPES[:, None, None] * distance).astype(np.float32)


def through(values: np.ndarray, dtype: type) -> np.ndarray:
    return values.astype(dtype).astype(np.float64)


def blended(plain: np.ndarray, original_length: int = 256) -> np.ndarray:
    """Return YaRN's frequencies of 64 channels and factor 4, from unscaled ones."""
    low, high = (
        DIM * math.log(original_length / (2 * math.pi * beta)) / (2 * math.log(BASE))
        for beta in (32.0, 1.0)
    )
    first = max(0, math.floor(low))
    slow = np.clip((INDEX - first) / (math.ceil(high) - first), 0, 1)
    return plain / 4 * slow + plain * (1 - slow)


other_law = rotary_tables(1e5 ** (-2 * INDEX / DIM))
stale = (BASE * ((4 * 512 / 256) - 3) ** (DIM / (DIM - 2))) ** (-2 * INDEX / DIM)
sines = rotary_tables()["sin"]
limits = [
    DIM * math.log(4096 / (2 * math.pi * beta)) / (2 * math.log(BASE)) for beta in (1.0, 32.0)
]
ramp = np.clip((INDEX - limits[0]) / (limits[1] - limits[0]), 0, 1)
drawn = pecli.LearnedInit(max_len=200, dim=64, seed=3)
repeated = pecli.Sinusoidal(33, 16, offset=7)
mrope_axes = (
    (0, 1, *[2] * 24, *range(8, 14)),
    (0, 1, *[2 + row // 6 for row in range(24)], *range(8, 14)),
    (0, 1, *[2 + row % 6 for row in range(24)], *range(8, 14)),
)
mrope = pecli.Rope(dim=32, positions=mrope_axes, mrope_section=(4, 6, 6))
mrope_frequencies = BASE ** (-np.arange(16) / 16)


class WrongTables(NamedTuple):
    """Tables with a mistake in them, and what they should be."""

    tables: Tables | np.ndarray
    spec: Any
    words: str  #: A part of the first sentence of the diagnosis, which names the mistake.


CASES: dict[str, WrongTables] = {
    "sines of which half do not turn, in float16": WrongTables(
        np.sin(np.outer(np.arange(40), edited(INV_FREQ, (slice(16, None), 0)))).astype(np.float16),
        pecli.Rope(40, DIM, dtype="float16"), "rotating_pairs is 16 (the spec says 32)"),
    "three mistakes in four decimals": WrongTables(
        {name: np.round(of_angles(np.outer(np.arange(1, 41), 5e5 ** (-np.arange(16) / 16)))[other], 4)
            for name, other in (("cos", "sin"), ("sin", "cos"))},
        pecli.Rope(40, 32), "base is 500000 (the spec says 10000)"),
    "one axis for all, in float16": WrongTables(
        {name: table.astype(np.float16) for name, table in of_angles(np.outer(mrope_axes[0], mrope_frequencies)).items()},
        mrope, "positions are those of the axes t,t,t (the spec says t,h,w)"),
    "element": WrongTables(cosines(((77, 3), 0.9)), LONG_ROPE, "cos: only element [77, 3] differs"),
    "rows": WrongTables(cosines((slice(300, 304), sines[[9, 9, 8, 7]])), LONG_ROPE, "cos: only rows 300–303 differ"),
    "a part of a column": WrongTables(cosines((np.s_[300:400, 5], 0)), LONG_ROPE, "cos: only column 5 differs"),
    "one frequency": WrongTables(short_rotary_tables(INV_FREQ * factors(slice(7, 8), 1.001)), SHORT_ROPE, "only column 7 differs"),
    "some frequencies": WrongTables(short_rotary_tables(INV_FREQ * factors(slice(12, 18), 0.7)), SHORT_ROPE, "only columns 12–17 differ"),
    **{f"two regimes, {words}": WrongTables(
        {name: edited(table, (rows, other_law[name][rows])) for name, table in rotary_tables().items()}, LONG_ROPE,
        f"base is 100000 (the spec says 10000), and only in rows {words};")
       for words, rows in (("512 to 1,023", slice(512, None)), ("0 to 511", slice(512)))},
    "exponent over hidden_size": WrongTables(rotary_tables(BASE ** (-2 * INDEX / 2048)), LONG_ROPE, "frequencies are over 2048 channels"),
    "exponent without scaling": WrongTables(rotary_tables(BASE ** (-INDEX / (DIM // 2 - 1))), YARN,
        "frequencies are over 62 channels (the spec says 64), and the yarn scaling is missing"),
    "no scaling, as some runtimes have it": WrongTables(rotary_tables(), YARN, "the yarn scaling is missing; exact"),
    "half the exponent": WrongTables(rotary_tables(BASE ** (-4 * INDEX / DIM)), LONG_ROPE,
        "frequencies are over 32 channels (the spec says 64)"),
    "stale length": WrongTables(rotary_tables(stale), DYNAMIC, "length is 512 (the spec says 1024)"),
    "frequencies reversed": WrongTables(rotary_tables(INV_FREQ[::-1]), LONG_ROPE, "cos, sin: channels are in reverse order; exact"),
    "attention factor twice": WrongTables({name: np.float32(0.1 * np.log(4) + 1) * YARN.tables()[name] for name in ("cos", "sin")},
        YARN, "the attention factor is applied twice"),
    "float16 frequencies": WrongTables(rotary_tables(through(INV_FREQ, np.float16)), LONG_ROPE, "recipe float16-inv-freq"),
    "float16 phases": WrongTables(
        of_angles(through(np.outer(np.arange(LENGTH, dtype=np.float32), INV_FREQ.astype(np.float32)), np.float16)),
        LONG_ROPE, "recipe float16-phases"),
    "float32 phases in bfloat16": WrongTables(
        {name: table.astype(ml_dtypes.bfloat16) for name, table in
            of_angles(np.outer(np.arange(4096, dtype=np.float32), INV_FREQ.astype(np.float32))).items()},
        pecli.Rope(4096, DIM), "computed by the recipe float32-bfloat16-table"),
    "another base without scaling": WrongTables(rotary_tables(), pecli.Rope(LENGTH, DIM, 1e6, scaling="linear", factor=8.0),
        "base is 10000 (the spec says 1000000), and the linear scaling is missing; exact"),
    "float16 table": WrongTables({name: through(table, np.float16).astype(np.float32) for name, table in rotary_tables().items()}, LONG_ROPE,
        "rounded to float16"),
    "a row of a bias": WrongTables({"bias": edited(bias(), ((3, 10), 0))}, ALIBI, "bias: only row 10 differs"),
    "distance": WrongTables({"bias": bias(DISTANCE + 1)}, ALIBI, "distances are off by one: i − j + 1, not i − j"),
    "distance of a head": WrongTables(-DISTANCE[None] / 256 - 1 / 256, pecli.Alibi(1, 64), "distances are off by one: i − j + 1"),
    "slope of a head": WrongTables(-DISTANCE / 16, pecli.Alibi(1, 64), "max_bias is 4 (the spec says 8)"),
    "distance of heads that are last": WrongTables(bias(DISTANCE + 1).transpose(1, 2, 0), ALIBI,
        "transposed, and distances are off"),
    "slopes, heads last": WrongTables(np.multiply.outer(DISTANCE, -(SLOPES**2)), ALIBI,
        "transposed, and max_bias is 16 (the spec says 8)"),
    "four keys": WrongTables(np.multiply.outer(SLOPES**2, [np.arange(-4, 1)]), pecli.Alibi(8, 5, form="key"), "max_bias is 16"),
    "heads": WrongTables({"bias": bias()[[1, 0, 2, 3, 5, 4, 6, 7]]}, ALIBI, "heads are in another order (1, 0, 2, 3, 5, 4, 6, 7)"),
    "beta_fast and beta_slow swapped": WrongTables(short_rotary_tables(INV_FREQ / 32 * ramp + INV_FREQ * (1 - ramp), HEIGHT),
        pecli.Rope(SHORT_LENGTH, DIM, **YARN32, truncate=False),
        "beta_fast is 1 (the spec says 32), and beta_slow is 32 (the spec says 1)"),
    "fewer pairs that turn": WrongTables(rotary_tables(INV_FREQ * (INDEX < 8)), pecli.Rope(LENGTH, DIM, scaling="proportional",
        partial_rotary_factor=0.5), "cos, sin: rotating_pairs is 8 (the spec says 16);"),
    "a row far down in draws": WrongTables({"weight": edited(drawn.tables()["weight"], (100, 0))}, drawn, "only row 100 differs"),
    "zeros of the shape of sines": WrongTables(np.zeros((200, 32), np.float32), pecli.Rope(200, 64), "all values are 0"),
    "a position that is not 0": WrongTables(np.repeat(repeated.tables()["pe"][3:4], 33, axis=0), repeated,
        "all rows are at position 10;"),
    "another start": WrongTables({name: pecli.Rope(64, 4, 2.0, offset=5).tables()[name] for name in ("cos", "sin")},
        pecli.Rope(64, 4, 2.0), "positions start at 5 (the spec says 0)"),
    "wavelengths": WrongTables({"inv_freq": np.float32(2 * np.pi / INV_FREQ)}, LONG_ROPE, "wavelengths, not frequencies; exact"),
    "inverses": WrongTables({"inv_freq": 1 / INV_FREQ}, LONG_ROPE, "inv_freq holds 1/inv_freq, not frequencies; explains"),
    "reversed inv_freq": WrongTables({"inv_freq": INV_FREQ[::-1].copy()}, LONG_ROPE, "channels are in reverse order; exact"),
    "float16 inv_freq": WrongTables({"inv_freq": INV_FREQ.astype(np.float16)}, LONG_ROPE, "recipe float16-inv-freq"),
    "one of inv_freq": WrongTables({"inv_freq": INV_FREQ * factors(slice(7, 8), 1.0001)}, LONG_ROPE, "only element 7 differs"),
    "zeros as inv_freq": WrongTables({"inv_freq": 0 * INV_FREQ}, LONG_ROPE, "values were never initialised"),
    "float8": WrongTables({name: through(table, ml_dtypes.float8_e4m3fn).astype(np.float32) for name, table in rotary_tables().items()},
        LONG_ROPE, "rounded to float8_e4m3fn;"),
    "slopes in bfloat16": WrongTables({"bias": -through(TWELVE, ml_dtypes.bfloat16)[:, None, None] * DISTANCE.astype(np.float32)},
        pecli.Alibi(12, 64), "bias: slopes are rounded to bfloat16 before they are multiplied; exact"),
    "bfloat16 under a mask": WrongTables(np.where(np.tri(16, dtype=bool),
        through(-TWELVE[:, None, None] * DISTANCE[:16, :16], ml_dtypes.bfloat16), -1e9).astype(np.float32),
        pecli.Alibi(12, 16, form="causal"), "mask differs: -1e+09; rounded to bfloat16; exact"),
    "yarn over hidden_size": WrongTables(rotary_tables(blended(BASE ** (-2 * INDEX / (2 * DIM))), 0.1 * math.log(4) + 1), YARN,
        "cos, sin: frequencies are over 128 channels (the spec says 64);"),
    "another dimension": WrongTables(
        {name: np.tile(table, 2) for name, table in rotary_tables(BASE ** (-2 * np.arange(64) / DIM)).items()},
        pecli.Rope(LENGTH, DIM, layout="halves"),
        "rotary dimension is 128 (the spec says 64), and frequencies are over 64 channels, as the spec says;"),
    "no numbers": WrongTables({"inv_freq": np.array([np.nan])}, pecli.Rope(4, 2), "values were never initialised"),
    "uninitialised": WrongTables({"inv_freq": np.full(DIM // 2, 1e-19, np.float32)}, LONG_ROPE, "values were never initialised"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(9)
def test_the_first_reason_names_the_mistake(name: str) -> None:
    """NumPy computes the tables by a formula with a mistake in it. For example, if element [77, 3] of
    the cosines is set to 0.9, «cos: only element [77, 3] differs», and of frequencies
    10000^(-2i/2048) where 10000^(-2i/64) is right, «frequencies are over 2048 channels».
    """
    case = CASES[name]
    result = pecli.verify(case.tables, case.spec, atol=1e-6)

    assert not result.passed
    assert case.words in result.diagnosis[0]
    assert "noise" not in result.diagnosis[0]


COARSEST_ROUNDING = 2.0**-5
"""The rounding of cosines in float8, the coarsest storage of CASES: its numbers between 1/2 and 1 are
2^-4 apart.
"""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(9)
def test_a_reason_leaves_no_more_than_the_storage_rounds(name: str) -> None:
    """The residual is the largest difference that a reason leaves unexplained. It is not finite if
    the tables hold no numbers.
    """
    case = CASES[name]
    result = pecli.verify(case.tables, case.spec, atol=1e-6)
    for explanation in result.explanations:
        if np.isfinite(explanation.residual):
            assert explanation.residual <= COARSEST_ROUNDING


COSINES, SINES = short_rotary_tables().values()
SHORT_HALVES = pecli.Rope(SHORT_LENGTH, DIM, layout="halves")
SHORT_LINEAR = pecli.Rope(SHORT_LENGTH, DIM, scaling="linear", factor=8.0)
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


class ReproducedTables(NamedTuple):
    """Tables with a mistake in them that options of a command make, too."""

    wrong: WrongTables
    command: str  #: A part of the sentence with the command, beside «reproduce with pecli».


MISTAKES_WITH_A_COMMAND = {
    "another factor": ReproducedTables(
        WrongTables(
            short_rotary_tables((16 * BASE) ** (-2 * INDEX / DIM) / 16 ** (2 / DIM)),
            pecli.Rope(SHORT_LENGTH, DIM, scaling="ntk-fixed", factor=8.0),
            "factor is 16 (the spec says 8)",
        ),
        command="--factor 16",
    ),
    "linear scaling with YaRN's attention factor": ReproducedTables(
        WrongTables(
            short_rotary_tables(INV_FREQ / 32, HEIGHT),
            SHORT_YARN,
            "attention factor is 1.346574, as the spec says",
        ),
        command="apart from that (",
    ),
    "negated sines without scaling": ReproducedTables(
        WrongTables({"cos": COSINES, "sin": -SINES}, SHORT_LINEAR, "sin is negated (it"),
        command="apart from that (sin is negated), reproduce with",
    ),
    "another rotary dimension": ReproducedTables(
        WrongTables(
            short_rotary_tables(INV_FREQ[::2]),
            SHORT_HALVES,
            "cos, sin: rotary dimension is 32 (the spec says 64);",
        ),
        command="--dim 32",
    ),
    "cosines before sines": ReproducedTables(
        WrongTables(
            np.concatenate([COSINES, SINES], axis=1),
            pecli.Sinusoidal(SHORT_LENGTH, DIM, layout="halves"),
            "sin and cos are swapped",
        ),
        command="--cos-first",
    ),
}


@pytest.mark.parametrize("name", MISTAKES_WITH_A_COMMAND)
def test_a_reason_has_the_command_that_makes_the_table(name: str) -> None:
    """NumPy computes the tables with a mistake in them. What the options of `pecli` cannot make is
    stated before the command: «apart from that (sin is negated), reproduce with pecli rope …».
    """
    (tables, spec, words), command = MISTAKES_WITH_A_COMMAND[name]
    reason, *other_lines = pecli.verify(tables, spec, atol=1e-4).diagnosis
    assert words in reason
    assert "noise" not in reason

    (line,) = [line for line in other_lines if "pecli " in line]
    assert command in line


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
    more tokens, by Qwen2-VL's rule. The spec counts from 0 to 43. Time is 10 in all of the image
    and in its first token, so that «10 × 23» (23 times 10) follow the run 0 … 10.
    """
    tables = multimodal(SECTIONS, positions_of_an_image_in_a_text())
    spec = pecli.Rope(44, 128, base=1e6, mrope_section=SECTIONS)
    reason = pecli.verify(tables, spec, atol=1e-3).diagnosis[0]

    assert "positions are 0 … 10, then 10 × 23, then 16 … 25; " in reason
    assert "; expected 0 … 43; exact" in reason


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
def test_a_search_for_offsets_of_many_turns_takes_little_memory() -> None:
    """sin(0.3 · n) as a stack of 33 × 16 elements, checked as a rotary table. Positions may begin at
    any whole turn up to the largest offset, 2^40: there are too many to list them, and the search
    must stay below 64 MiB.
    """
    waves = np.sin(np.arange(33 * 16) * 0.3).reshape(1, 33, 16)
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


STEPS = np.linspace(1, 2, 32) ** 9
TABLES_OF_NO_SCHEME: dict[str, tuple[Tables, Any]] = {
    "constant": ({"cos": np.full((4, LENGTH, DIM // 2), 0.3, np.float32)}, LONG_ROPE),
    "tanh": ({"cos": np.tanh(2 * short_rotary_tables()["cos"])}, SHORT_ROPE),
    "square": ({"cos": short_rotary_tables()["cos"] ** 2}, SHORT_ROPE),
    "frequencies that nothing explains": (
        {"inv_freq": np.random.default_rng(1).normal(size=DIM // 2)},
        SHORT_ROPE,
    ),
    "rows of zeros": (
        {
            "cos": short_rotary_tables()["cos"]
            * (np.random.default_rng(1).random((SHORT_LENGTH, 1)) > 0.3)
        },
        SHORT_ROPE,
    ),
    "a single frequency that is wrong": ({"inv_freq": np.array([0.5])}, pecli.Rope(4, 2)),
    "bytes of ones in reverse order are next to zero": (
        {"sin": np.ones((1, 32), np.float32)},
        pecli.Rope(1, 64),
    ),
    "bits of small integers are next to zero": (
        {"sin": np.full((1, 32), 7, np.int32)},
        pecli.Rope(1, 64),
    ),
    "steps of no frequencies": (
        dict.fromkeys(("cos", "sin"), np.outer(np.arange(SHORT_LENGTH), STEPS)),
        SHORT_ROPE,
    ),
}


@pytest.mark.parametrize(("tables", "spec"), TABLES_OF_NO_SCHEME.values(), ids=TABLES_OF_NO_SCHEME)
@pytest.mark.sample(
    "square",
    "bytes of ones in reverse order are next to zero",
    "bits of small integers are next to zero",
)
def test_no_reason_is_invented_for_tables_of_no_scheme(tables: Tables, spec: Any) -> None:
    """0.3 everywhere, tanh or squares of cosines, random frequencies, and others: the check against
    a rotary spec fails, and no mistake that pecli knows makes such a table.
    """
    result = pecli.verify(tables, spec, atol=1e-4)

    assert not result.passed
    assert result.explanations == ()


@pytest.mark.parametrize(
    "name", ["constant", "tanh", "square", "rows of zeros", "steps of no frequencies"]
)
@pytest.mark.sample("square")
def test_no_scheme_is_identified_in_tables_of_no_scheme(name: str) -> None:
    """In TABLES_OF_NO_SCHEME these are 0.3 everywhere, tanh and squares of cosines, cosines of which
    30 % of the rows are zeros, and multiples of numbers that grow by the ninth power.
    """
    tables, _ = TABLES_OF_NO_SCHEME[name]
    assert not pecli.identify(tables).identified


@pytest.mark.parametrize(
    ("base", "is_cut_short"),
    [
        pytest.param(31074.9, True, id="many digits"),
        pytest.param(30000.0, False, id="one digit"),
    ],
)
def test_a_search_that_was_stopped_leaves_a_doubt_about_a_base_of_many_digits(
    monkeypatch: pytest.MonkeyPatch, base: float, is_cut_short: bool
) -> None:
    """The time limit is simulated: it ends the search before it tries two mistakes at once. Base
    31074.9 is found, but may be two plain numbers (NTK by 3 has the base 31082.2, for example), so
    that a simpler reason may exist. Base 30000 is plain, and leaves no doubt.
    """
    search = Search.find_explanations_with

    def ended_before_two_mistakes(self: Search, count: int) -> bool:
        if count == 2:
            raise OutOfTimeError
        search(self, count)
        return False

    monkeypatch.setattr(Search, "find_explanations_with", ended_before_two_mistakes)
    found = pecli.Rope(SHORT_LENGTH, DIM, base).tables()
    (explanation,) = explain(
        pecli.Rope(SHORT_LENGTH, DIM), {"cos": found["cos"], "sin": found["sin"]}
    )

    assert explanation.is_cut_short == is_cut_short


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
