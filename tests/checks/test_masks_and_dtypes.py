"""Masks, integers and floats of eight bits: what counts as equal, exactly and within a tolerance.

Tables are Rope's of 64 positions and 64 channels, stored in these dtypes by NumPy and ml_dtypes;
the bias is ALiBi's of 4 heads, whose hidden elements are −∞ or another number. diff is called in
both orders, which must agree. `readings` state in words how a tensor was understood.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.diff import Difference

ROPE_64_BY_64 = pecli.Rope(64, 64)
ROPE_TABLES = {name: table for name, table in ROPE_64_BY_64.tables().items() if name != "inv_freq"}
CAUSAL_BIAS = pecli.Alibi(4, 8, form="causal").tables()["bias"]
VALUES_OF_MASKS = {
    "finfo.min": np.finfo("f4").min,
    "as llama.cpp and others write it": -3.2e38,
    "-inf": -np.inf,
}


def masked(value: float) -> np.ndarray:
    """Return the bias with another number for what is hidden."""
    return np.where(np.isinf(CAUSAL_BIAS), value, CAUSAL_BIAS).astype("f4")


def diff_in_both_orders(a: Any, b: Any, **options: Any) -> Difference:
    """Return the difference of two files, after checking that the other order has the same counts."""
    forth = pecli.diff(a, b, **options)
    back = pecli.diff(b, a, **options)
    assert forth.passed == back.passed
    counts = sorted(str(tensor.mismatched) for tensor in forth.tensors)
    assert counts == sorted(str(tensor.mismatched) for tensor in back.tensors)
    return forth


@pytest.mark.parametrize("mask", ["finfo.min", "as llama.cpp and others write it"])
def test_without_a_tolerance_another_number_for_a_mask_is_a_difference(mask: str) -> None:
    """A has −∞ where a key is hidden, B float32's lowest number, −3.4e38, or −3.2e38. Softmax
    treats them alike, but bit for bit, every hidden element differs.
    """
    result = diff_in_both_orders(CAUSAL_BIAS, masked(VALUES_OF_MASKS[mask]), reasons=False)
    assert not result.passed
    assert result.tensors[0].mismatched == np.isinf(CAUSAL_BIAS).sum()


@pytest.mark.parametrize("mask", ["finfo.min", "as llama.cpp and others write it"])
def test_another_number_for_a_mask_passes_within_a_tolerance(mask: str) -> None:
    """A has −∞ where a key is hidden, B float32's lowest number, −3.4e38, or −3.2e38, which hide a
    key just as well: `diff` passes in both orders, and notes it.
    """
    result = diff_in_both_orders(
        {"bias": CAUSAL_BIAS}, {"bias": masked(VALUES_OF_MASKS[mask])}, atol=1e-6
    )
    assert result.passed
    assert "stands for -inf" in result.readings["bias"]


@pytest.mark.parametrize("mask", VALUES_OF_MASKS)
def test_the_same_mask_is_not_noted(mask: str) -> None:
    """A and B have the same number for hidden keys, −∞, −3.4e38 or −3.2e38, so there is nothing to
    note. (If B had another one, a reading would state that it stands for −∞.)
    """
    bias = masked(VALUES_OF_MASKS[mask])
    result = diff_in_both_orders(bias, bias.copy(), atol=1e-6)

    assert result.passed
    assert not result.readings


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "int64", "uint16"])
@pytest.mark.parametrize(
    "values", [[[1, 2, 3], [3, 2, 1]], [[0, 64, 100], [100, 0, 1]], [[1, 1], [1, 1]]]
)
def test_integers_equal_to_the_floats_pass_without_a_scale(dtype: str, values: Any) -> None:
    """Integers could be floats times 127; here the values are equal, so within a tolerance `diff`
    passes and notes no scale. Without a tolerance it fails, by the dtype only: no element is
    mismatched.
    """
    integers = np.array(values, dtype)
    floats = np.array(values, "f4")
    result = diff_in_both_orders(integers, floats, atol=1e-6)

    assert result.passed
    assert not result.readings

    exact = diff_in_both_orders(integers, floats)
    assert not exact.passed
    assert exact.tensors[0].mismatched == 0


@pytest.mark.parametrize("axes", [(1, 2, 3), (2, 3, 1), (1, 1, 2, 3)])
def test_integers_equal_to_floats_of_other_axes_have_no_scale(axes: tuple[int, ...]) -> None:
    """1, 2, 3 and 3, 2, 1 as int16 (2, 3), and as floats with other or more axes: the numbers are
    equal, so the integers must not be taken for floats times 127.
    """
    integers = np.array([[1, 2, 3], [3, 2, 1]], np.int16)
    floats = integers.astype(np.float32).reshape(axes)
    result = diff_in_both_orders(integers, floats, atol=1e-6, reasons=False)

    assert not any("scale" in note for note in result.readings.values())


@pytest.mark.parametrize(("dtype", "one"), [("int8", 127), ("int16", 32767), ("int16", 16384)])
def test_integers_that_stand_for_cosines_pass_with_their_scale_noted(dtype: str, one: int) -> None:
    """Quantised tables are cosines and sines times 127, 32767 or 16384, rounded, and so off by less
    than one step, 1/127, 1/32767 or 1/16384.
    """
    integers = {name: np.rint(table * one).astype(dtype) for name, table in ROPE_TABLES.items()}
    result = diff_in_both_orders(ROPE_TABLES, integers, atol=1.0 / one)

    assert result.passed
    assert all(f"1/{one}" in note for note in result.readings.values())


FLOAT8_DTYPES = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
STEP_FROM_1_TO_2 = {ml_dtypes.float8_e4m3fn: 1 / 8, ml_dtypes.float8_e5m2: 1 / 4}
"""By dtype, its step between 1 and 2; below 1 it is half of that, and rounding errs by half of a step."""


@pytest.mark.parametrize("dtype", FLOAT8_DTYPES)
def test_tables_in_float8_pass_if_they_are_rounded_once(dtype: Any) -> None:
    """Cosines and sines of 64 positions are rounded to float8, whose step between 1 and 2 is 1/8
    (e4m3) or 1/4 (e5m2). Below 1 it is half of that, and rounding errs by half a step, a quarter in
    all: they pass within that tolerance, and as rounded tables without one.
    """
    small = {name: table.astype(dtype) for name, table in ROPE_TABLES.items()}
    assert pecli.verify(small, ROPE_64_BY_64).passed
    assert pecli.verify(small, ROPE_64_BY_64, atol=STEP_FROM_1_TO_2[dtype] / 4).passed


@pytest.mark.parametrize("dtype", FLOAT8_DTYPES)
def test_a_wrong_table_in_float8_fails(dtype: Any) -> None:
    """The tables have base 500 instead of 10000; the tolerance is a quarter of 1/8 (e4m3) or 1/4
    (e5m2), the rounding of a right table.
    """
    tables = pecli.Rope(64, 64, base=500.0).tables()
    wrong = {name: tables[name].astype(dtype) for name in ("cos", "sin")}
    rounding = STEP_FROM_1_TO_2[dtype] / 4

    assert not pecli.verify(wrong, ROPE_64_BY_64, atol=rounding, reasons=False).passed


@pytest.mark.parametrize("dtype", FLOAT8_DTYPES)
@pytest.mark.sample("float8_e4m3fn")
def test_float8_and_float32_are_equal_within_the_rounding_of_float8(dtype: Any) -> None:
    """The step of float8 between 1 and 2 is 1/8 (e4m3) or 1/4 (e5m2). Rounded once, the tables
    agree within a quarter of it, or one unit in the last place, but not exactly and not within a
    64th of the step.
    """
    step = STEP_FROM_1_TO_2[dtype]
    small = {name: table.astype(dtype) for name, table in ROPE_TABLES.items()}

    assert diff_in_both_orders(small, ROPE_TABLES, atol=step / 4).passed
    assert diff_in_both_orders(small, ROPE_TABLES, max_ulp=1).passed
    assert not diff_in_both_orders(small, ROPE_TABLES, reasons=False).passed
    assert not diff_in_both_orders(small, ROPE_TABLES, atol=step / 64, reasons=False).passed


@pytest.mark.parametrize("dtype", FLOAT8_DTYPES)
def test_rotated_queries_in_float8_pass_within_one_unit(dtype: Any) -> None:
    """Queries of a Llama in float8 are rotated in float64 by the tables of its base, 10000, and
    rounded to float8 once: they pass within one unit in the last place. Unrotated ones must fail.
    """
    config = {"model_type": "llama", "hidden_size": 128, "num_attention_heads": 2}
    before = np.random.default_rng(0).normal(size=(2, 16, 64)).astype(dtype)
    rotated = pecli.apply(before.astype(np.float64), pecli.Rope(16, 64), layout="halves")
    after = rotated.astype(dtype)

    assert pecli.verify(after, config, before=before, max_ulp=1).passed
    assert not pecli.verify(before, config, before=before, max_ulp=1, reasons=False).passed


def in_two_copies(table: np.ndarray) -> np.ndarray:
    return np.stack([table, table])


def doubled_as_halves(table: np.ndarray) -> np.ndarray:
    return np.concatenate([table, table], axis=-1)


def with_an_axis(table: np.ndarray) -> np.ndarray:
    return table[None]


def in_float16(table: np.ndarray) -> np.ndarray:
    return table.astype(np.float16)


def unchanged(table: np.ndarray) -> np.ndarray:
    return table


FORMS_OF_TABLES = [in_two_copies, doubled_as_halves, with_an_axis, in_float16, unchanged]


@pytest.mark.parametrize("form_of_a", FORMS_OF_TABLES)
@pytest.mark.parametrize("form_of_b", FORMS_OF_TABLES)
@pytest.mark.parametrize("atol", [0.0, 1e-3])
def test_a_wrong_element_is_found_in_both_orders_and_in_any_form(
    form_of_a: Callable[[np.ndarray], np.ndarray],
    form_of_b: Callable[[np.ndarray], np.ndarray],
    atol: float,
) -> None:
    """Element [5, 3] of the cosines of B is off by 0.5. Each of A and B is copied, doubled, has an
    axis more, is in float16 or as it is.
    """
    wrong = ROPE_TABLES["cos"].copy()
    wrong[5, 3] += 0.5
    a = {"cos": form_of_a(ROPE_TABLES["cos"]), "sin": ROPE_TABLES["sin"]}
    b = {"cos": form_of_b(wrong), "sin": ROPE_TABLES["sin"]}

    assert not diff_in_both_orders(a, b, atol=atol, reasons=False).passed
