"""Tables that were rounded, cut off or stored as integers: the reason names the storage, beside any
mistake.

Tables are those of a scheme, rounded by NumPy, ml_dtypes or by masking bits. `kinds_of_edits`
lists, for each explanation, the kinds of its edits: "dtype" and "rounding_mode" are ways of
rounding, "fixed_point" are steps of an integer, "parameter" is a wrong parameter of the scheme.
"""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification
from pecli.engine.edits import Dtype
from pecli.explain.words import clause
from tests.checks.waves import Array

LLAMA3 = {
    "scaling": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SINUSOIDAL = pecli.Sinusoidal(512, 64)
GRID = pecli.Rope(grid=(8, 8), dim=32, style="pixtral")  # type: ignore[arg-type]


def cut_to_bfloat16(table: Array) -> Array:
    """Keep the upper 16 bits of float32: cut to bfloat16, not rounded."""
    bits = np.ascontiguousarray(table, np.float32).view(np.uint32)
    return (bits & 0xFFFF0000).view(np.float32)


def to_bfloat16(table: Array) -> Array:
    return table.astype(ml_dtypes.bfloat16).astype(np.float32)


def to_float16(table: Array) -> Array:
    return table.astype(np.float16).astype(np.float32)


def cosines_and_sines_of(scheme: pecli.Rope) -> dict[str, Array]:
    """The cosines and sines of a scheme."""
    tables = scheme.tables()
    return {"cos": tables["cos"], "sin": tables["sin"]}


def kinds_of_edits(answer: Verification) -> list[list[str]]:
    """The kinds of edits of each explanation."""
    return [[edit.kind for edit in each.edits] for each in answer.explanations]


@pytest.mark.parametrize(
    ("stored", "kinds"),
    [
        (cut_to_bfloat16(SINUSOIDAL.tables()["pe"]), ["rounding_mode"]),
        (to_bfloat16(SINUSOIDAL.tables()["pe"]), ["dtype"]),
        (to_bfloat16(to_float16(SINUSOIDAL.tables()["pe"])), ["dtype"]),
        (to_bfloat16(0.996 * SINUSOIDAL.tables()["pe"]), ["parameter", "dtype"]),
    ],
    ids=["cut", "rounded", "rounded twice", "rounded and scaled"],
)
def test_rounding_and_cutting_to_bfloat16_are_named(stored: Array, kinds: list[str]) -> None:
    """A sinusoidal table is stored in bfloat16: cut off instead of rounded, rounded, rounded twice
    (by way of float16), and multiplied by 0.996 before it was rounded. `kinds` are the kinds of the
    edits in the only explanation: "rounding_mode" if not to nearest, "dtype" if to nearest, and
    "parameter" for a wrong number.
    """
    assert kinds_of_edits(pecli.verify(stored, SINUSOIDAL, atol=1e-5)) == [kinds]


def test_cut_off_digits_are_named_beside_a_missing_scaling() -> None:
    """The spec has Llama 3's scaling and the table none (an edit of the kind "parameter"); besides,
    the lower 16 bits of its float32 numbers are cut off ("rounding_mode").
    """
    stored = {
        name: cut_to_bfloat16(table)
        for name, table in cosines_and_sines_of(pecli.Rope(512, 64, 5e5)).items()
    }
    answer = pecli.verify(stored, pecli.Rope(512, 64, 5e5, **LLAMA3), atol=1e-5)

    assert kinds_of_edits(answer) == [["parameter", "rounding_mode"]]


def test_digits_that_are_cut_off_are_not_taken_for_an_attention_factor() -> None:
    """A table with YaRN's scaling is right, but the lower 16 bits of its float32 numbers are cut off.
    That makes all values smaller, as a wrong attention factor would, but is an edit of the kind
    "rounding_mode" and no other.
    """
    yarn = pecli.Rope(
        512, 64, 5e5, scaling="yarn", factor=4.0, original_max_position_embeddings=128
    )
    stored = {name: cut_to_bfloat16(table) for name, table in cosines_and_sines_of(yarn).items()}

    assert kinds_of_edits(pecli.verify(stored, yarn, atol=1e-5)) == [["rounding_mode"]]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param(cut_to_bfloat16, "rounding_mode", id="cut to bfloat16"),
        pytest.param(to_float16, "dtype", id="rounded to float16"),
    ],
)
def test_the_rounding_of_a_table_on_a_grid_is_named(
    change: Callable[[Array], Array], kind: str
) -> None:
    """Pixtral's table of 8 × 8 patches is cut to bfloat16, which is no rounding to nearest, or
    rounded to float16. The only explanation has one edit, of this kind.
    """
    stored = {name: change(table) for name, table in cosines_and_sines_of(GRID).items()}
    assert kinds_of_edits(pecli.verify(stored, GRID, atol=1e-5)) == [[kind]]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param(cut_to_bfloat16, "rounding_mode", id="cut to bfloat16"),
        pytest.param(to_float16, "dtype", id="rounded to float16"),
    ],
)
def test_diff_names_the_rounding_of_a_file(change: Callable[[Array], Array], kind: str) -> None:
    """A holds random numbers of no scheme, and B the same cut to bfloat16 or rounded to float16: no
    formula, only the two arrays show it.
    """
    in_a = np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32)
    in_b = change(in_a)
    (explanation,) = pecli.diff(in_a, in_b, atol=1e-9).explanations

    assert [edit.kind for edit in explanation.edits] == [kind]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            np.trunc, "rounded toward zero to steps of 1/127, not to nearest", id="toward zero"
        ),
        pytest.param(np.floor, "rounded down to steps of 1/127, not to nearest", id="down"),
        pytest.param(np.rint, "rounded to steps of 1/127", id="to nearest"),
    ],
)
def test_how_integers_were_rounded_is_named(change: Callable[[Array], Array], words: str) -> None:
    """A sinusoidal table times 127 is made integer by a cast, which rounds toward zero (trunc), a shift,
    which rounds down (floor), or rounding to nearest (rint), and divided by 127 again.
    """
    scheme = pecli.Sinusoidal(256, 64)
    stored = (change(127 * scheme.tables()["pe"]) / 127).astype(np.float32)
    answer = pecli.verify(stored, scheme, atol=1e-4)

    assert clause(answer.explanations[0].edits[0]) == words


def tables_in_integers(
    scheme: pecli.Rope, largest: int, dtype: str, change: Callable[[Array], Array] = np.rint
) -> dict[str, Array]:
    """Return cosines and sines times the largest integer of a dtype."""
    tables = cosines_and_sines_of(scheme).items()
    return {name: change(table * np.float32(largest)).astype(dtype) for name, table in tables}


@pytest.mark.parametrize("length", [512, 1024, 2048])
def test_integers_pass_although_halves_go_either_way(length: int) -> None:
    """The tables are 127 · cos and 127 · sin, rounded to int8. An element that lies halfway between
    two integers may have been rounded up or down, so the check allows either.
    """
    scheme = pecli.Rope(length, 64)
    stored = tables_in_integers(scheme, largest=127, dtype="int8")

    assert pecli.verify(stored, scheme).passed


@pytest.mark.parametrize(("largest", "dtype"), [(127, "int8"), (32767, "int16")])
def test_another_base_is_named_in_integers(largest: int, dtype: str) -> None:
    """The tables have base 500000 instead of 10000 (an edit of the kind "parameter"), and are stored
    in steps of 1/127 or 1/32767 ("fixed_point").
    """
    stored = tables_in_integers(pecli.Rope(512, 64, base=500000.0), largest, dtype)
    answer = pecli.verify(stored, pecli.Rope(512, 64), atol=1e-4)

    assert kinds_of_edits(answer) == [["parameter", "fixed_point"]]


def test_integers_that_were_cut_off_are_named() -> None:
    """The int8 tables are 127 · cos and 127 · sin, cut toward zero instead of rounded."""
    scheme = pecli.Rope(512, 64)
    stored = tables_in_integers(scheme, largest=127, dtype="int8", change=np.trunc)
    answer = pecli.verify(stored, scheme, atol=1e-4)

    assert kinds_of_edits(answer) == [["rounding_mode"]]


def test_another_first_position_is_named_in_integers_that_were_cut_off() -> None:
    """The tables start at position 1 instead of 0 (an edit of the kind "parameter"), and were stored
    as int16 by cutting digits off instead of rounding ("rounding_mode"): both must be named.
    """
    wrong = pecli.Rope(256, 64, offset=1)
    stored = tables_in_integers(wrong, largest=32767, dtype="int16", change=np.trunc)
    answer = pecli.verify(stored, pecli.Rope(256, 64), atol=1e-6)

    assert kinds_of_edits(answer) == [["parameter", "rounding_mode"]]


LARGEST_INT32 = 2**31 - 1
"""The integer that stands for 1 in a table of 32 bits."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_table_in_int32_may_have_been_made_from_float32_or_float64(dtype: str) -> None:
    """Integers of 32 bits distinguish the numbers of float32 from exact ones. The scheme promises
    float32, so that both pass.
    """
    table = pecli.Sinusoidal(64, 32, dtype=dtype).tables()["pe"].astype(np.float64)
    stored = np.rint(table * LARGEST_INT32).astype(np.int32)

    assert pecli.verify(stored, pecli.Sinusoidal(64, 32), reasons=False).passed


@pytest.mark.parametrize("steps_off", [-256, 256])
def test_an_element_in_int32_fails_if_it_is_further_off_than_float32_rounds(steps_off: int) -> None:
    """The element is sin 1 = 0.84. Between 0.5 and 1, numbers of float32 are 2^-24 apart, which are
    2^31 / 2^24 = 128 steps of int32: it is off by two numbers of float32.
    """
    table = pecli.Sinusoidal(64, 32, dtype="float64").tables()["pe"]
    stored = np.rint(table * LARGEST_INT32).astype(np.int32)
    stored[1, 0] += steps_off  # position 1, the first channel

    assert not pecli.verify(stored, pecli.Sinusoidal(64, 32), reasons=False).passed


def test_a_table_is_not_called_rounded_because_another_one_is() -> None:
    """Both tables have base 10000 instead of 500000, by NumPy. Only the cosines are rounded to
    bfloat16, and the sines are numbers of float32.
    """
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(8) / 8))
    tables = {
        "cos": to_bfloat16(np.cos(angles).astype(np.float32)),
        "sin": np.sin(angles).astype(np.float32),
    }
    explanations = pecli.verify(tables, pecli.Rope(64, 16, theta=500000.0)).explanations
    rounded = {explanation.tensors: explanation.rounding for explanation in explanations}

    assert rounded == {("cos",): (Dtype("bfloat16"),), ("sin",): ()}


def test_float32_values_in_a_file_of_float64_are_named() -> None:
    """A float32 table is stored as float64. Without a tolerance it is compared with the exact table
    in float64, and fails; the reason is the rounding.
    """
    scheme = pecli.Sinusoidal(64, 32)
    answer = pecli.verify(scheme.tables()["pe"].astype(np.float64), scheme)

    assert answer.diagnosis[0].startswith("pe: rounded to float32")


def test_integers_that_hold_the_bits_of_float32_are_named() -> None:
    """The right tables are stored as uint32 with the bits of float32, as by a cast of a pointer."""
    scheme = pecli.Rope(40, 16)
    stored = {name: table.view(np.uint32) for name, table in cosines_and_sines_of(scheme).items()}
    answer = pecli.verify(stored, scheme)

    assert "values are the bits of float32" in answer.diagnosis[0]


@pytest.mark.parametrize("atol", [None, 5e-5, 7e-5])
def test_a_missing_scaling_is_not_excused_by_decimals_and_a_tolerance_together(
    tmp_path: Path, atol: float | None
) -> None:
    """Eight rows of cosines with four decimals lack the scaling of Llama 3, which moves them by up to
    8.7e-5. It is more than half a unit (5e-5) and than the tolerance, but less than their sum. NumPy
    computes the cosines from base 500000.
    """
    angles = np.outer(np.arange(8), 500000.0 ** (-np.arange(0, 128, 2) / 128))
    file = tmp_path / "cos.txt"
    np.savetxt(file, np.cos(angles), fmt="%.4f")
    answer = pecli.verify(file, "llama-3.1-8b", atol=atol)

    assert answer.diagnosis[0].startswith("cos: the llama3 scaling is missing")
