"""Tensors of torch in and out of `apply`, `convert` and `resize`: dtype, device and gradient stay.

torch.autograd's own checks compare gradients with finite differences; values are those of NumPy.
The tests are skipped if torch is missing.
"""

from typing import Any

import numpy as np
import pytest

import pecli

torch: Any = pytest.importorskip("torch")

YARN = pecli.Rope(
    6, 16, scaling="yarn", factor=4, original_max_position_embeddings=64
)  # its amplitude is 1.14
IDS = np.array([[5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]])
ENCODINGS_AND_OPTIONS = [
    (pecli.Rope(6, 16), {"offset": 3}), (YARN, {}), (YARN, {"inverse": True}), (YARN, {"layout": "deepseek"}),
    (pecli.Rope(6, 8), {"trailing": True, "layout": "interleaved"}), (pecli.Rope(6, 16), {"positions": IDS}),
    (pecli.Rope(6, 16), {"shift": -7}), (pecli.Rope(6, 16, recipe="float32"), {}), (pecli.Sinusoidal(6, 16), {}),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "options"), ENCODINGS_AND_OPTIONS, ids=repr)
def test_gradients_of_apply_are_those_of_finite_differences(encoding: Any, options: Any) -> None:
    """gradcheck and gradgradcheck of torch.autograd compare the first and second derivatives with
    finite differences.
    """
    x = torch.randn(2, 6, 16, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pecli.apply(x, encoding, **options), (x,))
    assert torch.autograd.gradgradcheck(lambda x: pecli.apply(x, encoding, **options), (x,))


def test_a_learned_table_that_apply_adds_gets_a_gradient() -> None:
    """gradcheck of torch.autograd compares the gradients of both the input and the table with finite
    differences.
    """
    x = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    table = torch.nn.Parameter(torch.randn(9, 4, dtype=torch.float64))

    assert torch.autograd.gradcheck(lambda x, table: pecli.apply(x, table, offset=2), (x, table))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_apply_keeps_dtype_and_device_of_a_tensor_and_has_the_values_of_numpy(name: str) -> None:
    """The expected values are those of a NumPy array in float64, rounded once to the tensor's dtype."""
    x = torch.randn(2, 6, 16).to(getattr(torch, name))
    rotated = pecli.apply(x, YARN)

    assert type(rotated) is torch.Tensor
    assert rotated.dtype == x.dtype
    assert rotated.device == x.device

    by_numpy = pecli.apply(x.double().numpy(), YARN)
    assert torch.equal(rotated, torch.from_numpy(by_numpy).to(x.dtype))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_convert_and_resize_keep_the_dtype_of_a_tensor(name: str) -> None:
    """Rows are moved or interpolated in the dtype of the input, unless a dtype of torch is given."""
    x = torch.randn(2, 6, 16).to(getattr(torch, name))
    assert pecli.convert(x, "interleaved", "halves").dtype == x.dtype
    assert pecli.resize(x[:1], 3).dtype == x.dtype
    assert pecli.convert(x, dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_a_scheme_accepts_a_dtype_of_torch(name: str) -> None:
    """torch.float16, for example, means «float16», the name of the dtype that the scheme keeps."""
    assert pecli.Rope(6, 16, dtype=getattr(torch, name)).dtype == name
