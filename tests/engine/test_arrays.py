"""Arrays from callers and for callers: NumPy, torch, JAX and MLX; other values are refused.

The three other libraries are replaced by small stand-ins, which record what they are given:
bfloat16 cannot be passed to them directly. Expected values are written by hand.
"""

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.arrays import (
    CACHE_LINE,
    aligned_buffer,
    floating,
    holds,
    indices,
    like,
    numbers,
    round_in_blocks,
)
from pecli.errors import KindError, ParameterError, ResourceError


def error_about_dtype(name: str, dtype: type) -> str:
    with pytest.raises(KindError) as caught:
        floating(name, np.zeros(2, dtype))
    return str(caught.value)


def test_integers_are_refused_with_the_conversion_to_call() -> None:
    """The error about an argument x of integers ends with advice that users can copy."""
    assert error_about_dtype("x", int).endswith(
        "bfloat16; convert it first, as with x.astype('float32')"
    )


def test_complex_numbers_are_refused_without_advice() -> None:
    """A cast would drop their imaginary parts, so the error ends with the dtypes that are accepted."""
    assert error_about_dtype("x", complex).endswith("bfloat16")


class BrokenTensor:
    """A tensor whose conversion to an array raises an error."""

    dtype = "float32"

    def detach(self) -> None:
        raise OSError("the device is gone")


class BrokenArray:
    """An array of another library whose conversion divides by zero."""

    def __array__(self, dtype: object = None, copy: object = None) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("values", "description"),
    [
        pytest.param(BrokenTensor(), "a BrokenTensor of dtype float32", id="a tensor"),
        pytest.param(BrokenArray(), "a BrokenArray", id="an array"),
    ],
)
def test_an_object_that_fails_when_it_is_converted_to_numpy_is_refused_by_its_class(
    values: object, description: str
) -> None:
    """`detach` of the tensor raises OSError, and `__array__` of the array ZeroDivisionError. The
    error names the argument, pe, and the class of the object with its dtype, if it has one.
    """
    with pytest.raises(KindError, match=f"^pe is {description}; its values cannot be converted"):
        numbers("pe", values)


def test_a_masked_array_without_masked_elements_is_an_ordinary_array() -> None:
    """NumPy's masked arrays are refused only if the mask hides something. This one, 1 and 2, is
    converted, and `diff` finds no difference from an array without a mask.
    """
    table = np.ma.array([[1.0, 2.0]])
    assert type(numbers("pe", table)) is np.ndarray
    assert pecli.diff(table, np.array([[1.0, 2.0]])).passed


@dataclass(frozen=True)
class RecordingTensor:
    """A tensor of a stand-in for torch, with what it was made of.

    Attributes:
        device: The device, as given to `to`.
        source: The dtype of the NumPy array that `from_numpy` was given.
        viewed_as: The dtype of torch that `view` was given.
    """

    device: str = "cpu"
    source: str = ""
    viewed_as: str = ""

    def view(self, dtype: str) -> "RecordingTensor":
        return replace(self, viewed_as=dtype)

    def to(self, device: str) -> "RecordingTensor":
        return replace(self, device=device)


def from_module(module: str) -> object:
    """Return an object whose class belongs to a module."""
    return type("Array", (), {"__module__": module})()


TWO_BFLOAT16_ONES = np.ones(2, ml_dtypes.bfloat16)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in in the place of torch, whose tensors record what they were made of."""
    stand_in = SimpleNamespace(
        float32="torch.float32",
        bfloat16="torch.bfloat16",
        Tensor=RecordingTensor,
        from_numpy=lambda array: RecordingTensor(source=array.dtype.name),
    )
    monkeypatch.setitem(sys.modules, "torch", stand_in)


@pytest.mark.usefixtures("torch")
def test_torch_gets_bfloat16_as_the_bits_of_int16() -> None:
    """`like(sample, array)` returns an array as a tensor of the sample's library. torch accepts no
    NumPy array of bfloat16: it is given the bits as int16, and views them as its own bfloat16.
    """
    tensor = like(RecordingTensor(), np.ones(2, ml_dtypes.bfloat16))
    assert tensor.source == "int16"
    assert tensor.viewed_as == "torch.bfloat16"


@pytest.mark.usefixtures("torch")
def test_torch_gets_float32_as_it_is() -> None:
    """`like(sample, array)` returns an array as a tensor of the sample's library. torch reads NumPy's
    float32, so that viewing it as torch's dtype of the same name changes nothing.
    """
    tensor = like(RecordingTensor(), np.ones(2, np.float32))
    assert tensor.source == "float32"
    assert tensor.viewed_as == "torch.float32"


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_tensor_of_torch_is_on_the_device_of_the_sample(dtype: type) -> None:
    """A table is made like a tensor of the model, such as its queries: here on the second GPU."""
    sample = RecordingTensor(device="cuda:1")
    assert like(sample, np.ones(2, dtype)).device == "cuda:1"


def test_jax_gets_an_array_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`like` returns an array of the same library as its first argument, here of JAX. NumPy's module
    of masked arrays stands for jax.numpy, so that its `asarray` can be recognised by the type of the
    result.
    """
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(numpy=np.ma))
    array = like(from_module("jaxlib.xla"), TWO_BFLOAT16_ONES)

    assert type(array) is np.ma.MaskedArray


def test_mlx_gets_bfloat16_by_way_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX takes no bfloat16 of NumPy: two ones of bfloat16 must be widened to float32, which the
    stand-in for mlx.core requires, and then be made bfloat16 of MLX.
    """

    def array(values: np.ndarray) -> np.ndarray:
        assert values.dtype == np.float32
        return np.array(values)

    stand_in = SimpleNamespace(bfloat16=ml_dtypes.bfloat16, array=array)
    monkeypatch.setitem(sys.modules, "mlx.core", stand_in)
    converted = like(from_module("mlx.core"), TWO_BFLOAT16_ONES)

    assert converted.dtype == ml_dtypes.bfloat16
    assert converted.tolist() == [1, 1]


def test_numpy_gets_the_same_array() -> None:
    """`like` returns an array of the kind that was given: for NumPy's nothing is copied."""
    assert like(TWO_BFLOAT16_ONES, TWO_BFLOAT16_ONES) is TWO_BFLOAT16_ONES


@pytest.mark.parametrize("count", [1, 7, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, ml_dtypes.bfloat16])
def test_buffers_begin_at_a_cache_line(count: int, dtype: type) -> None:
    """The address is a multiple of CACHE_LINE bytes, so that vector instructions read aligned memory."""
    buffer = aligned_buffer(count, dtype)
    assert buffer.size == count
    assert buffer.dtype == dtype
    assert buffer.ctypes.data % CACHE_LINE == 0


def test_buffers_of_different_places_begin_at_different_places_of_a_page() -> None:
    """Addresses that are equal modulo 4,096 compete for the same lines of the cache; a quarter of a
    page lies between them.
    """
    page = 4096
    begins = [aligned_buffer(5, np.float32, place=place).ctypes.data % page for place in range(4)]
    assert begins == [0, 1024, 2048, 3072]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("3", range(3, 4), id="one row"),
        pytest.param("0", range(1), id="the first"),
        pytest.param("9", range(9, 10), id="the last"),
        pytest.param("-1", range(9, 10), id="the last, from the end"),
        pytest.param("-10", range(1), id="the first, from the end"),
        pytest.param("0:8", range(8), id="a slice"),
        pytest.param("-4:", range(6, 10), id="the last four"),
        pytest.param(":", range(10), id="all"),
        pytest.param(" 2:4 ", range(2, 4), id="blanks"),
        pytest.param("8:20", range(8, 10), id="beyond the last"),
    ],
)
def test_rows_are_selected_as_python_slices(text: str, expected: range) -> None:
    """The text of an option selects from 10 rows (0 to 9): a single number is one row, negative ones
    count from the end, and a slice may end beyond the last.
    """
    assert indices("rows", text, 10) == expected


@pytest.mark.parametrize("text", ["10", "-11", "x", "1:2:3", ""])
def test_texts_that_select_no_rows_are_refused(text: str) -> None:
    """Of 10 rows, 0 to 9 or −10 to −1 from the end, neither 10 nor −11 exists; the other texts are
    neither a number nor a slice of two.
    """
    with pytest.raises(ParameterError, match=r"^rows is "):
        indices("rows", text, 10)


@pytest.fixture
def limit_of_64_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pecli.engine.arrays.MAX_REPEATED_BYTES", 64)


@pytest.mark.usefixtures("limit_of_64_bytes")
@pytest.mark.parametrize(
    "array", [np.zeros(9), np.broadcast_to(0.0, 8)], ids=["not repeated", "at the limit"]
)
def test_arrays_that_are_in_memory_have_no_limit(array: np.ndarray) -> None:
    """The limit of 64 bytes is for views that repeat elements; eight numbers have 64 bytes."""
    assert floating("x", array) is array


@pytest.mark.usefixtures("limit_of_64_bytes")
def test_a_view_that_repeats_elements_beyond_memory_is_refused() -> None:
    """A copy of nine numbers would take 72 bytes, of which the view takes 8."""
    with pytest.raises(ResourceError, match=r"x repeats its elements to \(9\), 0 GiB"):
        floating("x", np.broadcast_to(0.0, 9))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, "V4"),
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, "M8[s]"),
    ],
    ids=lambda array: array.dtype.str,
)
def test_elements_that_are_no_numbers_are_refused(array: np.ndarray) -> None:
    """The arrays hold records, bytes, texts, objects and dates."""
    with pytest.raises(KindError, match="a table holds numbers"):
        numbers("x", array)


def test_bfloat16_is_a_number_although_its_kind_is_that_of_records() -> None:
    """NumPy has no bfloat16 of its own: the dtype of ml_dtypes has the kind V, as records have."""
    array = np.zeros(2, ml_dtypes.bfloat16)
    assert array.dtype.kind == "V"
    assert numbers("x", array) is array


@pytest.mark.parametrize("text", ["10", "-11"])
def test_the_error_about_a_row_that_does_not_exist_states_how_many_there_are(text: str) -> None:
    """There are 10 rows: 0 to 9, or −10 to −1 from the end."""
    with pytest.raises(ParameterError, match="there are 10"):
        indices("rows", text, 10)


@pytest.mark.parametrize(
    ("dtype", "number", "is_held"),
    [
        pytest.param("bfloat16", 1 + 2**-7, True, id="8 bits in bfloat16"),
        pytest.param("bfloat16", 1 + 2**-8, False, id="9 bits in bfloat16"),
        pytest.param("float16", 1 + 2**-10, True, id="11 bits in float16"),
        pytest.param("float16", 1 + 2**-11, False, id="12 bits in float16"),
        pytest.param("float16", 2.0**17, False, id="beyond the largest float16"),
        pytest.param("float32", 1 + 2**-23, True, id="24 bits in float32"),
        pytest.param("float32", 1 + 2**-24, False, id="25 bits in float32"),
    ],
)
def test_a_dtype_holds_numbers_of_as_many_bits_as_its_significand(
    dtype: str, number: float, is_held: bool
) -> None:
    """1 + 2^-7 has 8 bits, as many as bfloat16, which thus holds it; 1 + 2^-8 has one more."""
    assert holds(dtype, np.array([1.5, number])) == is_held


def test_float64_numbers_are_rounded_to_float16_directly_and_not_by_way_of_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1 + 2^-11 + 2^-30 is above the middle of the float16 numbers 1 and 1 + 2^-10, and rounds up. In
    float32 it would become the middle, which rounds to 1. Ten such numbers are rounded in blocks of
    four.
    """
    monkeypatch.setattr("pecli.engine.arrays.BLOCK_ELEMENTS", 4)
    rounded = round_in_blocks(np.full((5, 2), 1 + 2.0**-11 + 2.0**-30), "float16")

    assert rounded.dtype == np.float16
    assert rounded.tolist() == [[1 + 2.0**-10] * 2] * 5
