"""Memory that was never written, in the place of tables or queries: it is named as such.

Such memory holds random bits, pointers taken for numbers, or denormals beside huge values, as the
functions below make them from a seed.
"""

from collections.abc import Callable

import numpy as np
import pytest

import pecli
from tests.checks.waves import Array

ROWS = 64
DIM = 64
ROPE = pecli.Rope(ROWS, DIM)
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4 * DIM,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": ROWS,
}
Random = np.random.Generator


def random_bits(rng: Random, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(rng.bytes(4 * int(np.prod(shape))), np.float32).reshape(shape)


def random_bits_of_float16(rng: Random, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(rng.bytes(2 * int(np.prod(shape))), np.float16).reshape(shape)


def huge_and_denormal(rng: Random, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.5, -7e26, 1.6e-42).astype(np.float32)


def pointers(rng: Random, shape: tuple[int, ...]) -> Array:
    """Return the halves of addresses on a heap, 0x00007f…: a denormal beside any bits."""
    bits = rng.integers(0, 2**32, shape, dtype=np.uint32)
    bits[..., 1::2] = 0x00007F3A
    return bits.view(np.float32)


def denormals_among_zeros(rng: Random, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.3, 2.8e-45, 0.0).astype(np.float32)


KINDS_OF_STALE_MEMORY = [
    random_bits,
    random_bits_of_float16,
    huge_and_denormal,
    pointers,
    denormals_among_zeros,
]


@pytest.mark.parametrize("memory", KINDS_OF_STALE_MEMORY)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.sample(5)
def test_a_table_of_memory_that_was_never_written_is_named_as_such(
    memory: Callable[[Random, tuple[int, ...]], Array], seed: int
) -> None:
    """`memory` makes what uninitialised memory holds in practice: random bits, huge numbers beside
    denormals, pointers taken for numbers. Cosines and sines of 64 positions and 32 frequencies hold
    that instead of tables.
    """
    rng = np.random.default_rng(seed)
    tables = {name: memory(rng, (ROWS, DIM // 2)) for name in ("cos", "sin")}

    assert "values were never initialised" in pecli.verify(tables, ROPE).diagnosis[0]


@pytest.mark.parametrize("memory", [random_bits, huge_and_denormal, pointers])
@pytest.mark.parametrize("seed", [0, 1])
def test_queries_of_memory_that_was_never_written_are_named_as_such(
    memory: Callable[[Random, tuple[int, ...]], Array], seed: int
) -> None:
    """`memory` makes what uninitialised memory holds in practice, such as random bits and pointers;
    it stands in the place of rotated queries. Those before the rotation are ordinary random
    numbers.
    """
    rng = np.random.default_rng(seed)
    shape = (1, 4, ROWS, DIM)
    before = rng.standard_normal(shape, np.float32)
    result = pecli.verify(memory(rng, shape), LLAMA, before=before)

    assert "values were never initialised" in result.diagnosis[0]


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e8])
@pytest.mark.parametrize(("unit", "words"), [(1.0, "1/inv_freq"), (2 * np.pi, "wavelengths")])
def test_long_wavelengths_are_not_taken_for_memory(base: float, unit: float, words: str) -> None:
    """The tensor inv_freq holds 1/inv_freq or 2π/inv_freq, the wavelengths, which go up to 2π · 1e8.
    This is huge for a table, but has a plain reason, which is named.
    """
    inverses = unit * base ** (np.arange(0, DIM, 2) / DIM)
    result = pecli.verify({"inv_freq": inverses}, pecli.Rope(ROWS, DIM, base))

    assert f"inv_freq holds {words}, not frequencies" in result.diagnosis[0]


def test_a_few_values_that_are_not_finite_are_named_by_place() -> None:
    """One element of a right rotation is NaN. A few such values are named by their place, and not
    taken for memory that was never written.
    """
    rng = np.random.default_rng(0)
    before = rng.standard_normal((1, 4, ROWS, DIM), np.float32)
    rotation = pecli.apply(before, ROPE, layout="halves")
    rotation[0, 2, 31, 7] = np.nan
    result = pecli.verify(rotation, LLAMA, before=before, atol=1e-5)

    assert "only element [0, 2, 31, 7] differs" in result.diagnosis[0]


@pytest.mark.parametrize("largest", [2**31 - 1, 2**30, 2**28])
def test_large_integers_are_not_taken_for_memory(largest: int) -> None:
    """B has the cosines of other frequencies (base 500000) in int32, A those of base 10000 with two
    columns per frequency. Large integers are how int32 holds numbers up to 1.
    """
    positions = np.arange(ROWS)[:, np.newaxis]
    exponents = np.arange(0, DIM, 2) / DIM
    expected = np.cos(positions * 10000.0**-exponents)
    stored = np.rint(np.cos(positions * 500000.0**-exponents) * largest).astype(np.int32)
    result = pecli.diff({"cos": np.concatenate([expected, expected], axis=1)}, {"cos": stored})

    assert not result.passed
    assert "never initialised" not in " ".join(result.diagnosis)


def test_a_table_with_something_wrong_in_every_row_is_not_called_memory() -> None:
    """Half of the rows are garbage, but the other half is right except for its first column: neither
    the whole table nor some rows of it were never written.
    """
    cos = pecli.Rope(64, 16).tables()["cos"]
    garbage = np.random.default_rng(0).choice([1e-39, 1e30, 3e25], cos.shape)
    cos[32:] = garbage[32:]
    cos[:, 0] = garbage[:, 0]

    assert pecli.verify({"cos": cos}, pecli.Rope(64, 16)).explanations == ()


def test_elements_that_are_nan_on_both_sides_are_not_called_memory() -> None:
    """Logs of llama.cpp show the first and last three channels of a head, and the others are NaN.
    B was rotated with base 500000 and A with 10000.
    """
    q = np.random.default_rng(3).standard_normal((4, ROWS, DIM))
    logs = [pecli.apply(q, pecli.Rope(ROWS, DIM, theta=theta)) for theta in (10000, 500000)]
    for rotated in logs:
        rotated[..., 3:-3] = np.nan
    result = pecli.diff({"Qcur-0": logs[0]}, {"Qcur-0": logs[1]}, atol=1e-3)

    assert not result.passed
    assert "never initialised" not in " ".join(result.diagnosis)


def test_of_a_table_with_some_rows_of_memory_all_others_are_called_exact() -> None:
    """Rows 40 to 43 of 64 hold denormals beside huge numbers; the other rows are right."""
    cos = pecli.Rope(64, 16).tables()["cos"]
    cos[40:44] = np.random.default_rng(0).choice([1e-39, 1e30, 3e25], (4, 8))
    (reason, *_) = pecli.verify({"cos": cos}, pecli.Rope(64, 16)).reasons

    assert reason == "cos: rows 40–43 were never initialised; all others are exact"
