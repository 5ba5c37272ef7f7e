"""A tensor as a form of a model stores it: its dtype or block type, shards that belong together,
and stacked experts.

`with_shape` brings it to the shape that the other form has; `rounding_of_dtype` and `quantisation_steps`
are the distances between neighbouring values of the type. Expected values follow from small arrays of known numbers.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.checks.model_forms.stored import StoredTensor

FLOAT32_4_BY_2 = 1 + np.arange(8, dtype=np.float32).reshape(4, 2) / 8


def test_axes_of_length_1_are_dropped() -> None:
    """A file has the shape (1, 6, 1) where (6,) is expected: `with_shape` returns the latter."""
    assert StoredTensor.of(np.zeros((1, 6, 1))).with_shape((6,)).shape == (6,)


def test_a_tensor_of_another_shape_stays_as_it_is() -> None:
    """A file has the shape (1, 6) where (2, 3) is expected. The 6 elements could be reshaped, which
    would be a guess: `with_shape` leaves them.
    """
    assert StoredTensor.of(np.zeros((1, 6))).with_shape((2, 3)).shape == (1, 6)


def test_shards_that_give_another_shape_along_every_axis_are_not_joined() -> None:
    """Two shards of 2 × 2 make 4 × 2 or 2 × 4, and 3 × 3 is expected: the first shard stays."""
    shards = StoredTensor.of(np.zeros((2, 2)), [np.ones((2, 2))])
    assert shards.with_shape((3, 3)).shape == (2, 2)


@pytest.mark.parametrize(
    ("shape", "joined"),
    [
        ((2, 4), [[0, 0, 1, 1], [0, 0, 1, 1]]),
        ((4, 2), [[0, 0], [0, 0], [1, 1], [1, 1]]),
    ],
)
def test_shards_are_joined_along_the_axis_that_fits(
    shape: tuple[int, ...], joined: list[list[int]]
) -> None:
    """The first shard holds zeros and the second ones, both of 2 × 2: (2, 4) is expected if they
    are side by side, and (4, 2) if they are one above the other.
    """
    shards = StoredTensor.of(np.zeros((2, 2)), [np.ones((2, 2))])
    assert shards.with_shape(shape).values.tolist() == joined


@pytest.mark.parametrize(
    ("shape", "name", "expected"),
    [
        pytest.param(
            (2, 3, 4), "up_exps.weight", ["up_exps.0.weight", "up_exps.1.weight"], id="weights"
        ),
        pytest.param((2, 3), "up_exps.bias", ["up_exps.0.bias", "up_exps.1.bias"], id="biases"),
        pytest.param((2, 3), "up.weight", ["up.weight"], id="another name"),
        pytest.param((2,), "up_exps.weight", ["up_exps.weight"], id="no other axis"),
        pytest.param((2, 3), "up_exps.scale", ["up_exps.scale"], id="neither weight nor bias"),
    ],
)
def test_stacked_experts_are_numbered(
    shape: tuple[int, ...], name: str, expected: list[str]
) -> None:
    """GGUF stacks experts along the first axis of weights and biases called *_exps: a tensor of two
    experts is listed as two. A tensor of another name, or without other axes, is one.
    """
    experts = StoredTensor.of(np.zeros(shape)).by_expert(name)
    assert [name_of_expert for name_of_expert, _ in experts] == expected


def test_stacked_experts_of_shards_are_joined_one_by_one() -> None:
    """A tensor stacks three experts of 4 × 5, of which the first row of each is in one shard and
    the others in another. `by_expert` must yield the experts whole.
    """
    whole = np.arange(3 * 4 * 5.0).reshape(3, 4, 5)
    stored = StoredTensor.of(whole[:, :1], [whole[:, 1:]])
    experts = [
        expert.with_shape((4, 5)).values
        for _, expert in stored.by_expert("blk.0.ffn_up_exps.weight")
    ]

    assert np.array_equal(experts, whole)


@pytest.mark.parametrize(
    ("kind", "array", "is_read"),
    [
        pytest.param("Q8_0", FLOAT32_4_BY_2, True, id="Q8_0"),
        pytest.param("float16", FLOAT32_4_BY_2, True, id="float16"),
        pytest.param("IQ4_XS", FLOAT32_4_BY_2, False, id="IQ4_XS"),
        pytest.param("int8", FLOAT32_4_BY_2, False, id="int8"),
        pytest.param("float32", None, False, id="no array"),
    ],
)
def test_q8_0_and_float16_are_read_and_iq4_xs_and_int8_are_not(
    kind: str, array: Any, is_read: bool
) -> None:
    """`is_read` is True if a tensor can be decoded: IQ4_XS is not decoded, int8 has no scale, and the
    last case has no array.
    """
    assert StoredTensor(kind, (2, 2), array).is_read == is_read


@pytest.mark.parametrize(("shape", "rows"), [((3,), (3, 1)), ((2, 3), (2, 3)), ((2, 3, 4), (6, 4))])
def test_a_tensor_is_rows_along_its_last_axis(
    shape: tuple[int, ...], rows: tuple[int, int]
) -> None:
    """`rows` is the shape as a matrix: all leading axes are joined, and a vector has one element
    per row.
    """
    assert StoredTensor.of(np.zeros(shape)).rows.shape == rows


@pytest.mark.parametrize(("width", "sampled"), [(3, 3), (256, 256), (300, 256)])
def test_a_sample_has_at_most_256_columns(width: int, sampled: int) -> None:
    """The sample is row 1 of 2; its first 256 columns are enough to recognise it."""
    sample = StoredTensor.of(np.zeros((2, width))).sample(np.array([1]))
    assert sample.shape == (1, sampled)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
def test_values_are_widened_exactly(dtype: Any) -> None:
    """The tensor of 4 × 2 holds multiples of 1/8 between 1 and 2, which are exact in every dtype:
    `floats` gives them in float32, unchanged. It writes into the given room of 9 rows.
    """
    stored = FLOAT32_4_BY_2.astype(dtype)
    room = np.empty((9, 2), np.float32)
    values = StoredTensor.of(stored).floats(stored, room)

    assert values.tolist() == FLOAT32_4_BY_2.tolist()


@pytest.mark.parametrize(
    ("dtype", "error_at_1"), [(ml_dtypes.bfloat16, 2.0**-7), (np.float32, 2 * 2.0**-23)]
)
def test_the_allowed_rounding_error_grows_with_the_value(dtype: Any, error_at_1: float) -> None:
    """From 1 on, numbers of bfloat16 (8 bits) are 2^-7 apart, and those of float32 (24 bits) 2^-23.
    One such step is allowed, as a converter may round twice, by half a step each; and two of
    float32, in which the values are also compared. The error is twice as large at −2 as at 1.
    """
    stored = StoredTensor.of(np.ones(1, dtype))
    errors = stored.rounding_of_dtype(np.array([[1.0, -2.0]], np.float32))

    assert errors.tolist() == [[error_at_1, 2 * error_at_1]]


@pytest.mark.parametrize(("dtype", "sampled"), [(np.float64, np.float64), (np.float16, np.float32)])
def test_a_sample_of_rows_is_float32_unless_the_tensor_is_float64(dtype: Any, sampled: Any) -> None:
    """float64 is kept; other dtypes, such as float16, are widened to float32."""
    assert StoredTensor.of(np.zeros((2, 3), dtype)).sample(np.array([0])).dtype == sampled


def test_a_block_of_q4_0_has_15_steps_from_end_to_end() -> None:
    """Q4_0 stores 32 numbers in 4 bits each, so in 16 values with 15 steps between them: numbers
    from −15 to 15 have steps of 30 / 15 = 2.
    """
    values = np.linspace(-15, 15, 32, dtype=np.float32)[None]
    steps = StoredTensor("Q4_0", (1, 32), np.zeros((1, 18), np.uint8)).quantisation_steps(values)

    assert steps.tolist() == [[2.0]]


@pytest.mark.parametrize("first_byte", [0, 1])
def test_compiled_loops_read_q8_0_and_float16_as_numpy_does(
    first_byte: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expected numbers are those that NumPy decodes from the same random bytes, with compiled
    loops forbidden by PECLI_KERNELS=0. A tensor in a file may begin at an odd byte, as here at byte
    1. 3 rows of 64 elements are 6 blocks of 34 bytes in Q8_0, and 384 bytes in float16.
    """
    pytest.importorskip("numba", reason="compiled loops need numba")
    random = np.random.default_rng(4)
    memory = random.integers(0, 256, 3 * 128 + 1, dtype=np.uint8)[first_byte:]
    blocks = memory[: 3 * 68].reshape(3, 68)
    halves = memory[: 3 * 128].view(np.float16).reshape(3, 64)
    tensors = [StoredTensor("Q8_0", (3, 64), blocks), StoredTensor.of(halves)]
    for tensor in tensors:
        monkeypatch.setenv("PECLI_KERNELS", "0")
        with np.errstate(all="ignore"):
            expected = tensor.floats(tensor.rows, np.empty((3, 64), np.float32))
        monkeypatch.setenv("PECLI_KERNELS", "1")
        found = tensor.floats(tensor.rows, np.empty((3, 64), np.float32))

        np.testing.assert_array_equal(found, expected)
