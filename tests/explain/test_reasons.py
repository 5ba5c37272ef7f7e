"""What a reason says besides the mistake: nothing that is no difference, and a command only if it makes the table."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.explain.search import explain
from pecli.explain.words import sentence

LENGTH, DIM, BASE = 256, 64, 10000.0
INV_FREQ = BASE ** (-np.arange(0, DIM, 2) / DIM)
FACTORS = tuple(1 + 0.05 * k for k in range(DIM // 2))
LONGROPE = {
    "scaling": "longrope",
    "original_max_position_embeddings": 4096,
    "short_factor": FACTORS,
    "long_factor": FACTORS,
    "attention_factor": 1.0,
}
YARN = {"scaling": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
HEIGHT = 0.1 * math.log(32) + 1
PLAIN = pecli.Rope(LENGTH, DIM, base=BASE)

Tables = dict[str, np.ndarray]


def rotary(inv_freq: np.ndarray = INV_FREQ, height: float = 1.0) -> Tables:
    angles = np.outer(np.arange(LENGTH), inv_freq)
    return {"cos": (height * np.cos(angles)).astype(np.float32), "sin": (height * np.sin(angles)).astype(np.float32)}


def swapped() -> Tables:
    right = rotary()
    return {"cos": right["sin"], "sin": right["cos"]}


def one_row_twice() -> Tables:
    tables = rotary()
    tables["cos"][100] = tables["cos"][99]
    return tables


def at_position(row: int) -> Tables:
    return {name: np.repeat(table[row : row + 1], LENGTH, axis=0) for name, table in rotary().items()}


def long(**more: object) -> pecli.Rope:
    return pecli.Rope(LENGTH, DIM, base=BASE, **more)  # type: ignore[arg-type]


CASES = [
    (swapped(), PLAIN, "sin and cos are swapped", ""),
    (at_position(0), PLAIN, "all rows are at position 0", ""),
    (at_position(7), PLAIN, "all rows are at position 7", ""),
    (one_row_twice(), PLAIN, "cos: only row 100 differs", ""),
    (rotary(INV_FREQ * FACTORS), long(**LONGROPE), "frequencies are multiplied by short_factor, not divided", "with"),
    (
        rotary((16 * BASE) ** (-2 * np.arange(DIM // 2) / DIM) / 16 ** (2 / DIM)),
        long(scaling="ntk-fixed", factor=8.0),
        "factor is 16 (the spec says 8)",
        "with",
    ),
    (rotary(INV_FREQ / FACTORS[::-1]), long(**LONGROPE), "short_factor is in reverse order", "with"),
    (rotary(INV_FREQ / 32, HEIGHT), long(**YARN), "attention factor is 1.346574, as the spec says", "without this ("),
    (rotary(INV_FREQ[::2]), long(layout="halves"), "cos, sin: rotary dimension is 32 (the spec says 64);", "with"),
]


@pytest.mark.parametrize(("tables", "spec", "words", "command"), CASES, ids=[case[2] for case in CASES])
def test_the_reason_and_its_command(tables: Tables, spec: pecli.Rope, words: str, command: str) -> None:
    first, *others = pecli.verify(tables, spec, atol=1e-4).diagnosis
    assert words in first
    assert "noise" not in first
    advice = [line for line in others if "pecli rope" in line]
    assert bool(advice) == bool(command)
    assert all(command in line for line in advice)


def test_cosines_first() -> None:
    angles = np.outer(np.arange(LENGTH), INV_FREQ)
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    spec = pecli.Sinusoidal(LENGTH, DIM, layout="halves")
    reason, command = pecli.verify(table, spec, atol=1e-4).diagnosis
    assert "sin and cos are swapped" in reason
    assert "--cos-first" in command


def test_beta_fast_and_beta_slow_swapped() -> None:
    limits = [DIM * math.log(4096 / (2 * math.pi * beta)) / (2 * math.log(BASE)) for beta in (1.0, 32.0)]
    ramp = np.clip((np.arange(DIM // 2) - limits[0]) / (limits[1] - limits[0]), 0, 1)
    tables = rotary(INV_FREQ / 32 * ramp + INV_FREQ * (1 - ramp), HEIGHT)
    (reason, *_) = pecli.verify(tables, long(**YARN, truncate=False), atol=1e-4).diagnosis
    assert "beta_fast is 1 (the spec says 32), and beta_slow is 32 (the spec says 1)" in reason


def multimodal(sections: tuple[int, ...], positions: np.ndarray) -> Tables:
    axes = np.repeat(np.arange(3), sections)
    angles = positions[axes].T * 1e6 ** (-np.arange(64) / 64)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def test_sections_at_positions_of_an_image() -> None:
    text, after = np.tile(np.arange(10), (3, 1)), np.tile(np.arange(16, 26), (3, 1))
    image = np.stack([np.full(24, 10), 10 + np.arange(24) // 6, 10 + np.arange(24) % 6])
    positions = np.concatenate([text, image, after], axis=1)
    count, sections = positions.shape[1], (16, 24, 24)
    right, spec = multimodal(sections, positions), pecli.Rope(count, 128, base=1e6, mrope_section=sections)
    at = pecli.Rope(dim=128, base=1e6, mrope_section=sections, positions=positions.tolist())
    in_order = np.tile(np.arange(count), (3, 1))

    def said(tables: Tables, spec: pecli.Rope) -> str:
        return " ".join(pecli.verify(tables, spec, atol=1e-3).diagnosis)

    assert "positions are not 0, 1, 2, …: give them with --positions; exact" in said(right, spec)
    assert "positions are 0, 1, 2, …, not those given" in said(multimodal(sections, in_order), at)
    assert "mrope_section is 24,20,20 (the spec says 16,24,24); exact" in said(multimodal((24, 20, 20), positions), at)


def test_integers() -> None:
    table = np.rint(127 * np.cos(np.outer(np.arange(LENGTH), INV_FREQ))).astype(np.int8)
    (why,) = explain(PLAIN, {"cos": table}, 1e-3)
    assert "values are scaled by 127; rounded to integers" in sentence(why)
    (match, *_) = pecli.identify(table).matches
    assert "127" in match.command + match.form
    assert "rounded to integers" in match.form


def test_a_wrong_row_far_down_in_draws() -> None:
    spec = pecli.LearnedInit(max_len=200, dim=64, seed=3)
    drawn = spec.tables()["weight"]
    drawn[100] = 0
    (said,) = pecli.verify({"weight": drawn}, spec).diagnosis
    assert "only row 100 differs" in said


def test_zeros_of_the_shape_of_sines_are_no_frequencies() -> None:
    (said,) = pecli.verify(np.zeros((200, 32), np.float32), pecli.Rope(200, 64)).diagnosis
    assert "all rows are at position 0" in said


def test_waves_that_turn_often_are_searched_for_offsets_that_are_near() -> None:
    """Of their turns up to the largest offset there are millions, which took minutes."""
    waves = np.sin(np.arange(528) * 0.3).reshape(1, 33, 16)
    tracemalloc.start()
    assert not pecli.verify(waves, pecli.Rope(4, 8)).passed
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: 2 * np.pi / f, "inv_freq holds wavelengths, not frequencies; max"),
        (lambda f: 1 / f, "inv_freq holds 1/inv_freq, not frequencies; max"),
        (lambda f: f[::-1].copy(), "inv_freq: channels are in reverse order; max"),
        (lambda f: f.astype(np.float16), "inv_freq: computed by the recipe float16-inv-freq"),
        (lambda f: 0 * f, "inv_freq was never initialised"),
    ],
)
def test_what_vectors_hold_instead_of_frequencies(change: Callable[[np.ndarray], np.ndarray], words: str) -> None:
    found = pecli.verify({"inv_freq": change(INV_FREQ)}, pecli.Rope(LENGTH, DIM, BASE))
    assert not found.passed
    assert words in found.diagnosis[0]


def test_frequencies_that_nothing_explains_are_not_called_uninitialised() -> None:
    noise = np.random.default_rng(1).normal(size=DIM // 2)
    assert not pecli.verify({"inv_freq": noise}, pecli.Rope(LENGTH, DIM, BASE)).diagnosis


@pytest.mark.parametrize("rows", [LENGTH - 12, LENGTH + 12])
def test_another_number_of_rows(rows: int) -> None:
    found = pecli.verify(pecli.Sinusoidal(rows, DIM).tables(), pecli.Sinusoidal(LENGTH, DIM))
    shape, reason, command = found.sentences
    assert "its shape is" in shape
    assert f"seq_len is {rows} (the spec says {LENGTH})" in reason
    assert command == f"reproduce with pecli sinusoidal --seq-len {rows} --dim {DIM}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.astype(ml_dtypes.bfloat16).view(np.uint16), "values are the bits of bfloat16; max"),
        (
            lambda x: (x.view(np.uint32) >> 16).astype(np.uint16),
            "values are the bits of bfloat16; max",
        ),  # cut, not rounded
        (lambda x: x.astype(np.float16).view(np.int16), "values are the bits of float16; max"),
        (lambda x: x.view(np.uint32), "values are the bits of float32; exact"),
        (np.ndarray.byteswap, "values are byte-swapped; exact"),
    ],
)
def test_bits_that_are_read_as_other_numbers(change: Callable[[np.ndarray], np.ndarray], words: str) -> None:
    rope = pecli.Rope(LENGTH, DIM)
    found = pecli.verify({name: change(rope.tables()[name]) for name in ("cos", "sin")}, rope)
    assert not found.passed
    assert f"cos, sin: {words}" in found.diagnosis[0]


def _zeros_between(table: np.ndarray) -> np.ndarray:
    return np.stack([table, np.zeros_like(table)], axis=-1).reshape(len(table), -1)


@pytest.mark.parametrize("base", [BASE, 500000.0])
@pytest.mark.parametrize(
    ("layout", "change", "words"),
    [
        ("halves", lambda x: np.pad(x, ((0, 0), (0, DIM // 2))), "columns are not doubled: the second half is zeros"),
        ("interleaved", _zeros_between, "columns are not doubled: every other one is zeros"),
    ],
)
def test_zeros_where_columns_should_be_doubled(
    layout: str, change: Callable[[np.ndarray], np.ndarray], words: str, base: float
) -> None:
    spec = pecli.Rope(LENGTH, DIM, base, layout=layout)
    found = pecli.verify({name: change(table) for name, table in rotary().items()}, spec)
    other = "" if base == BASE else f", and base is 10000 (the spec says {base:.0f})"
    assert found.diagnosis[0].startswith(f"cos, sin: {words}{other}; ")


@pytest.mark.parametrize("rows", [LENGTH, 70000])
def test_angles_whose_cosines_and_sines_were_not_taken(rows: int) -> None:
    angles = np.outer(np.arange(rows), INV_FREQ)
    words = "cos, sin: values are the angles, position × inv_freq, and not their cosines or sines"
    right, other = (pecli.verify({"cos": angles, "sin": angles}, pecli.Rope(rows, DIM, base)) for base in (BASE, 5e5))
    assert right.diagnosis[0].startswith(f"{words}; ")
    assert other.diagnosis[0].startswith(f"{words}, and base is 10000 (the spec says 500000); max residual ")
    steps = np.outer(np.arange(rows), np.linspace(1, 2, DIM // 2) ** 9)
    assert not pecli.verify({"cos": steps, "sin": steps}, pecli.Rope(rows, DIM)).diagnosis


def test_fast_waves_that_start_elsewhere() -> None:
    tables = pecli.Rope(64, 4, 2.0, offset=5).tables()
    found = pecli.verify({name: tables[name] for name in ("cos", "sin")}, pecli.Rope(64, 4, 2.0))
    assert "positions start at 5 (the spec says 0)" in found.diagnosis[0]


def test_half_a_pair_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With PECLI_DEBUG, errors of the search are raised."""
    monkeypatch.setenv("PECLI_DEBUG", "1")
    angles = np.outer(np.arange(3) / 8, 1000.0 ** (-np.arange(8) / 8))
    table = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(3, 16)[:, :-1]
    assert not pecli.verify(table, pecli.Sinusoidal(3, 15)).passed


@pytest.mark.parametrize("values", [np.ones((1, 32), np.float32), np.full((1, 32), 7, np.int32)])
def test_other_values_than_zeros_are_not_called_bits_of_zeros(values: np.ndarray) -> None:
    """Bytes of plain numbers in reverse order, and bits of small integers, are numbers next to zero."""
    found = pecli.verify({"sin": values}, pecli.Rope(1, 64))
    assert not found.passed
    assert not found.explanations


def test_a_single_frequency_that_is_wrong_was_initialised() -> None:
    assert not pecli.verify({"inv_freq": np.array([0.5])}, pecli.Rope(4, 2)).diagnosis
    (said,) = pecli.verify({"inv_freq": np.array([np.nan])}, pecli.Rope(4, 2)).diagnosis
    assert "inv_freq was never initialised" in said


@pytest.mark.filterwarnings("error")
def test_complex_numbers_where_real_ones_are_expected() -> None:
    """Without a warning that NumPy drops their imaginary parts."""
    alibi, pe = pecli.Alibi(4, 16), pecli.Sinusoidal(16, 8)
    assert not pecli.verify({"bias": alibi.tables()["bias"].astype(np.complex64)}, alibi).passed
    assert not pecli.verify({"slopes": np.ones(4, np.complex64)}, alibi).passed
    table = pe.tables()["pe"].astype(np.complex64)
    table[3] += 1j
    assert "only row 3 differs" in pecli.diff(pe.tables(), table).diagnosis[-1]


@pytest.mark.parametrize("row", [0, 3])
def test_rows_of_one_position_where_the_first_is_not_0(row: int) -> None:
    spec = pecli.Sinusoidal(33, 16, offset=7)
    table = np.repeat(spec.tables()["pe"][row : row + 1], 33, axis=0)
    assert f"all rows are at position {7 + row};" in pecli.verify(table, spec).diagnosis[0]


def test_a_plain_base_and_exponent_come_before_a_fitted_base() -> None:
    """1e6 ** (32 / 31) = 1561523.006 would make the same frequencies."""
    angles = np.outer(np.arange(512), 1e6 ** (-np.arange(32) / 31))
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(512, 64).astype(np.float32)
    said = pecli.verify(table, pecli.Sinusoidal(512, 64), atol=1e-4).diagnosis[0]
    assert "base is 1000000 (the spec says 10000), and freq_shift is 1 (the spec says 0)" in said
    assert pecli.identify(table).matches[0].scheme == pecli.Sinusoidal(512, 64, base=1e6, freq_shift=1.0)
