"""What all layers have in common: dtypes, shapes, strides, gradients, memory and refusals.

The layers add a sinusoidal or learned table, rotate pairs of channels, or add ALiBi's biases; each
test runs for each layer in LAYERS, with an input of the shape beside it. Expected values are the
same layer on the plain NumPy array, and finite differences for gradients.
"""

import copy
import pickle
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from pecli.errors import KindError, ParameterError
from pecli.layers import AlibiBias, LearnedPosEmbedding, RotaryPosEmbedding, SinusoidalPosEmbedding
from tests.checks.verify.test_verify import Tensor
from tests.layers.formulas import (
    BF16,
    assert_near,
    assert_same_bits,
    every_float,
    gradient,
    random_uniform,
)

NOT_FLOATS = [
    np.int64,
    np.uint8,
    np.bool_,
    np.complex64,
    np.dtype("U1"),
    object,
    ml_dtypes.float8_e5m2,
]
LAYERS = {
    "sinusoidal": (lambda: SinusoidalPosEmbedding(), (2, 5, 4)),
    "learned": (lambda: LearnedPosEmbedding(6, 4), (2, 5, 4)),
    "rotary": (lambda: RotaryPosEmbedding(), (2, 5, 4)),
    "rotary halves": (lambda: RotaryPosEmbedding(interleaved=False), (2, 5, 4)),
    "alibi": (lambda: AlibiBias(2), (3, 2, 4, 4)),
}
every_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS)


def first(result):
    """backward of the learned layer gives two gradients."""
    return result[0] if isinstance(result, tuple) else result


class TestEveryLayer:
    """What does not depend on the mathematics of a layer."""

    @every_layer
    @every_float
    def test_a_layer_keeps_the_dtype_and_does_not_change_its_input(self, make, shape, dtype):
        """The output and the gradient are new arrays of the same dtype and shape, which can be written
        to; the input is read-only here. `make` returns each of the layers in turn.
        """
        layer, x = make(), random_uniform(*shape, dtype=dtype)
        x.flags.writeable = False
        before = x.tobytes()
        out = layer(x)
        grad = first(layer.backward(x))

        for made in (out, grad):
            assert made.dtype == dtype
            assert made.shape == shape
            assert made.flags.writeable
            assert not np.shares_memory(made, x)
        assert x.tobytes() == before
        assert (out != x).any()

    @every_layer
    def test_a_layer_keeps_the_byte_order_of_its_input(self, make, shape):
        """Big-endian float32 (>f4), as from an old file, gives the same values in that order. `make`
        returns each of the layers in turn.
        """
        layer, x = make(), random_uniform(*shape, dtype=np.float32)
        swapped = x.astype(">f4")
        assert_same_bits(layer(swapped), layer(x).astype(">f4"))

    @every_layer
    @pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
    def test_results_in_16_bits_are_rounded_once_from_float32(self, make, shape, dtype):
        """The expected values are the layer's in float32, rounded by NumPy or ml_dtypes."""
        layer, x = make(), random_uniform(*shape, dtype=dtype)
        assert_same_bits(layer(x), layer(x.astype(np.float32)).astype(dtype))

    @every_layer
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_layers_take_tensors_of_torch_and_lists(self, make, shape, dtype):
        """Tensor is a stand-in for torch.Tensor: NumPy cannot read it before `detach`, and has no
        bfloat16 of torch.
        """
        layer = make()
        x = random_uniform(*shape, dtype=BF16 if dtype == "bfloat16" else dtype)
        assert_same_bits(layer(random_uniform(*shape).tolist()), layer(random_uniform(*shape)))

        tensor = Tensor(x, dtype, requires_grad=True)
        assert_same_bits(layer(tensor), layer(x))
        assert_same_bits(first(layer.backward(tensor)), first(layer.backward(x)))

    @every_layer
    @every_float
    def test_strides_of_the_input_change_nothing(self, make, shape, dtype):
        """The same numbers lie in memory in four ways: at every second place, reversed, with moved
        axes, and in Fortran order. Outputs and gradients must not depend on it. `make` returns each
        of the layers in turn.
        """
        layer, x = make(), random_uniform(*shape, dtype=dtype)
        expected = layer(x)
        gradient = first(layer.backward(x))
        spaced = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
        reverse = np.empty(shape, dtype)[::-1, ..., ::-1]
        moved = np.empty((shape[-2], *shape[:-2], shape[-1]), dtype)
        moved = np.moveaxis(moved, 0, -2)
        for view in (spaced, reverse, moved, np.asfortranarray(np.empty(shape, dtype))):
            view[...] = x
            assert_near(layer(view), expected.astype(np.float64))
            assert_near(first(layer.backward(view)), gradient.astype(np.float64))

    @every_layer
    def test_backward_needs_the_shape_of_the_last_output_and_a_refused_call_does_not_count(
        self, make, shape
    ):
        """`backward` takes the gradient of the last output, so it must have its shape. A call with a
        number instead of an array is refused, and the output before it counts.
        """
        layer = make()
        layer(np.zeros(shape))

        with pytest.raises(ValueError, match="shape"):
            layer(np.zeros(()))
        with pytest.raises(
            ValueError, match=r"grad is of shape \(1, .*the last output was of shape"
        ):
            layer.backward(np.zeros((1, *shape)))
        assert first(layer.backward(np.zeros(shape))).shape == shape

    @every_layer
    def test_layers_take_empty_batches_and_empty_sequences(self, make, shape):
        """No sequences, no positions, or both: output and gradient have the shape of the input."""
        empty = (3, 2, 0, 0) if len(shape) == 4 else (2, 0, 4)
        for at in (empty, empty[1:], (0, *shape[1:])):
            layer = make()
            assert layer(np.zeros(at)).shape == at
            assert first(layer.backward(np.zeros(at))).shape == at

    @every_layer
    def test_the_gradient_of_a_layer_is_that_of_finite_differences(self, make, shape):
        """The loss is Σ weight · layer(x) with random weights, whose gradient by the output is
        `weight`. `gradient` takes central differences of 1e-6 in float64.
        """
        layer = make()
        x = random_uniform(*shape)
        weight = random_uniform(*shape, seed=1)
        layer(x)
        by_backward = first(layer.backward(weight))
        by_differences = gradient(lambda x: (layer(x) * weight).sum(), x)

        np.testing.assert_allclose(by_backward, by_differences, atol=1e-8)

    @every_layer
    def test_a_layer_can_be_copied_and_pickled(self, make, shape):
        """A deep copy and a pickled copy of each layer give the same bits for a random input."""
        layer, x = make(), random_uniform(*shape)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert_same_bits(other(x), layer(x))

    @every_layer
    def test_a_layer_allocates_little_more_than_its_output(self, make, shape, monkeypatch):
        """The peak of memory that a call allocates is at most 1.6 times the size of the output, which
        is that of the input; also if the channels of the input are reversed in memory. `make` returns
        each of the layers in turn.
        """
        monkeypatch.setenv("PECLI_KERNELS", "0")  # Loading compiled loops takes memory once.
        layer = make()
        if isinstance(layer, LearnedPosEmbedding):
            layer = LearnedPosEmbedding(4096, 64)
        x = np.zeros((2, 512, 512) if len(shape) == 4 else (4, 4096, 64), np.float32)
        layer(x)

        for view in (x, x[..., ::-1]):
            tracemalloc.start()
            layer(view)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 1.6 * x.nbytes


@every_layer
@pytest.mark.parametrize("dtype", NOT_FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_inputs_and_gradients_that_are_not_floats_are_refused(make, shape, dtype):
    """The error advises to convert them, except complex numbers, which would lose a part. `make`
    returns each of the layers in turn, for inputs of `shape`.
    """
    layer = make()
    layer(np.zeros(shape))
    advice = "$" if np.dtype(dtype).kind == "c" else "; convert"

    with pytest.raises(
        KindError, match=rf"it must be float64, float32, float16 or bfloat16{advice}"
    ):
        layer(np.zeros(shape, dtype))
    with pytest.raises(KindError, match="grad is of dtype"):
        layer.backward(np.zeros(shape, dtype))


@every_layer
def test_lists_whose_rows_differ_in_length_are_refused(make, shape):
    """The first row has two numbers, the second has one. `make` returns each of the layers in turn."""
    with pytest.raises(ParameterError, match="different lengths"):
        make()([[1.0, 2.0], [3.0]])


@every_layer
def test_masked_arrays_are_refused(make, shape):
    """A layer would add to the data below the mask, and so bring masked values back: every layer
    refuses a masked array.
    """
    layer = make()
    with pytest.raises(TypeError, match="is a masked array; its masked values would be used"):
        layer(np.ma.masked_greater(np.ones(shape), 0))


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            RotaryPosEmbedding(128, base=5e5),
            "RotaryPosEmbedding(embed_dim=128, base=500000.0)",
        ),
        (AlibiBias(8), "AlibiBias(num_heads=8)"),
        (SinusoidalPosEmbedding(), "SinusoidalPosEmbedding()"),
    ],
)
def test_a_layer_is_written_without_its_defaults(layer: object, text: str) -> None:
    """Arguments that have their default are left out of the repr."""
    assert repr(layer) == text
