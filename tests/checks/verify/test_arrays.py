"""Arrays of other libraries, models in every form, and options' other names, in Python."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli

BASE = 500000.0
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": BASE}
ANGLES = np.array([[position * math.pow(BASE, -2 * i / 16) for i in range(8)] for position in range(6)])
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)
ROPE = pecli.Rope(6, 16, theta=BASE)


class Tensor:
    """What torch's tensors do: no values while they have a gradient, none to NumPy in bfloat16."""

    def __init__(self, values: np.ndarray[Any, Any], dtype: str, requires_grad: bool = False) -> None:
        self.values, self.dtype, self.requires_grad = values, f"torch.{dtype}", requires_grad

    def detach(self) -> Tensor:
        return Tensor(self.values, self.dtype.removeprefix("torch."))

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values.astype(np.float32), "float32", self.requires_grad)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


class Exchanged:
    """An array that is had by DLPack alone."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values, self.dtype = values, values.dtype
        self.__dlpack_device__ = values.__dlpack_device__

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("use DLPack")


class Config:
    """What transformers' configurations do."""

    def to_dict(self) -> dict[str, Any]:
        return CONFIG


@pytest.mark.parametrize(("wrap", "dtype"), [
    (lambda x: Tensor(x, "float32"), "float32"),
    (lambda x: Tensor(x, "float32", requires_grad=True), "float32"),
    (lambda x: Tensor(x.astype(ml_dtypes.bfloat16), "bfloat16", requires_grad=True), "bfloat16"),
    (Exchanged, "float32"),
    (lambda x: x.tolist(), "float64"),
], ids=["plain", "grad", "bfloat16", "dlpack", "lists"])  # fmt: skip
def test_arrays_are_whatever_gives_its_values_up(tmp_path, wrap, dtype) -> None:
    found = {"cos": wrap(COS), "sin": wrap(SIN)}
    result = pecli.verify(found, ROPE, atol=1e-7)
    assert result.passed
    assert [tensor.dtype for tensor in result.tensors] == [dtype] * 2
    assert pecli.diff(found, found).passed
    assert not pecli.verify({"cos": found["sin"], "sin": found["cos"]}, ROPE, atol=1e-7).passed
    pecli.save(tmp_path / "t.safetensors", found)
    assert pecli.diff(tmp_path / "t.safetensors", found).passed


def test_an_array_that_gives_nothing_up_is_refused() -> None:
    class Closed:
        dtype = "secret"

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError

    with pytest.raises(pecli.KindError, match="a Closed of dtype secret; its values cannot be had as a NumPy array"):
        pecli.identify(Closed())


@pytest.mark.thorough
def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is no dependency of the tests")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = {"cos": torch.tensor(COS, dtype=dtype, requires_grad=True), "sin": torch.tensor(SIN).to(dtype)}
        assert pecli.verify(found, ROPE, atol=1e-7).passed


@pytest.mark.parametrize(
    "model", [CONFIG, Config(), pecli.load_config(CONFIG), pecli.load_config(Config()), pecli.load_config(CONFIG).one()]
)
def test_a_model_in_every_form(model) -> None:
    assert pecli.verify({"cos": COS, "sin": SIN}, model, atol=1e-6).passed
    assert not pecli.verify({"cos": COS, "sin": SIN}, model, atol=1e-6, offset=1).passed


def test_a_model_by_name_or_path(tmp_path) -> None:
    inv_freq = np.array([math.pow(BASE, -i / 64) for i in range(64)], np.float32)
    assert pecli.verify({"inv_freq": inv_freq}, "llama-3-8b").passed
    assert not pecli.verify({"inv_freq": inv_freq}, "mistral-7b-v0.1").passed
    with pytest.raises(pecli.FileError, match="does not exist"):
        pecli.verify({"inv_freq": inv_freq}, tmp_path / "no.json")
    with pytest.raises(pecli.KindError, match="it must be a path, a preset, a mapping, or a configuration object"):
        pecli.verify({"inv_freq": inv_freq}, 3)
    with pytest.raises(TypeError, match="offset is given; it belongs to a model"):
        pecli.verify({"inv_freq": inv_freq}, ROPE, offset=1)


def test_parameters_have_their_options_other_names() -> None:
    assert pecli.Rope(6, 16, theta=BASE) == pecli.Rope(6, 16, base=BASE)
    with pytest.raises(pecli.ParameterError, match="theta is given beside base; they are one parameter"):
        pecli.Rope(6, 16, base=1e4, theta=BASE)
    with pytest.raises(TypeError, match="thta"):
        pecli.Rope(6, 16, thta=BASE)
    yarn = {"scaling": "yarn", "factor": 4.0}
    long = pecli.Rope(6, 16, **yarn, original_len=4096)
    assert long == pecli.Rope(6, 16, **yarn, original_max_position_embeddings=4096)
