"""Tables in files and arrays, checked against a scheme or a model: which tensor is which, dtypes,
arrays of other libraries.

NUMPY_COS and NUMPY_SIN are computed for 6 positions, 8 channels and base 10000, which are those of
`pecli.Rope(6, 8)`: the frequencies 1, 0.1, 0.01 and 0.001. Verdicts follow from these closed forms.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.verification import Verification
from pecli.engine.edits import Decimals, Mask
from pecli.engine.schemes.bundle import Bundle
from tests.checks.waves import cos_and_sin_tables, interleaved_columns, inverse_frequencies
from tests.exit_codes import CHECK_FAILED, SUCCESS

NUMPY_COS, NUMPY_SIN = cos_and_sin_tables(6, inverse_frequencies(10000.0, 8)).values()
INV_FREQ = np.array([1.0, 0.1, 0.01, 0.001], np.float32)
ROPE_6_BY_8 = pecli.Rope(6, 8)
COS_AND_SIN = {"cos": NUMPY_COS, "sin": NUMPY_SIN}


def test_a_problem_fails_a_verification_and_a_reason_does_not() -> None:
    """Two verifications of the file f are made by hand, without tensors: one has a reason only, the
    other a problem as well. The diagnosis has both.
    """
    explained = Verification("f", "rope", tensors=(), reasons=("a remark",))
    assert explained.passed

    problems = ("sin: the tensor is missing",)
    failed = Verification("f", "rope", tensors=(), problems=problems, reasons=("a remark",))
    assert not failed.passed
    assert failed.as_json()["diagnosis"] == ["a remark", "sin: the tensor is missing"]


def test_an_empty_dump_fails_for_a_scheme() -> None:
    """A rotary scheme has the tables cos and sin, and the dump has no tensor."""
    result = str(pecli.verify({}, pecli.Rope(seq_len=4, dim=8)))
    assert "cos: the tensor is missing; no tensor is there at all" in result


def test_an_empty_dump_is_refused_for_a_model() -> None:
    """Checkpoints of models usually have no tables, so that a file without any is the wrong file,
    and not a failed check.
    """
    with pytest.raises(pecli.PecliError, match=r"^arrays: has no positional tables of rope"):
        pecli.verify({}, "llama-2-7b")


NAMES_OF_PROGRAMS = [
    ("cos", "sin", "inv_freq"),
    ("cos_cached", "sin_cached", "inv_freq"),
    ("freqs_cos", "freqs_sin", "x.inv_freq"),
]
"""Names of cosines, sines and frequencies in several programs."""


@pytest.mark.parametrize(("cos", "sin", "inv_freq"), NAMES_OF_PROGRAMS)
def test_tensors_are_recognised_by_the_names_of_other_programs(
    cos: str, sin: str, inv_freq: str
) -> None:
    """The tensors are NumPy's tables of ROPE_6_BY_8 (6 positions, 8 channels)."""
    result = pecli.verify({cos: NUMPY_COS, sin: NUMPY_SIN, inv_freq: INV_FREQ}, ROPE_6_BY_8)

    assert result.passed
    assert sorted(tensor.name for tensor in result.tensors) == sorted([cos, sin, inv_freq])


@pytest.mark.parametrize(("cos", "sin", "inv_freq"), NAMES_OF_PROGRAMS)
def test_cosines_under_the_name_of_sines_fail(cos: str, sin: str, inv_freq: str) -> None:
    """NumPy's cosines and sines of ROPE_6_BY_8 have each other's names. The frequencies are right."""
    result = pecli.verify({cos: NUMPY_SIN, sin: NUMPY_COS, inv_freq: INV_FREQ}, ROPE_6_BY_8)
    failed = sorted(tensor.name for tensor in result.tensors if not tensor.passed)

    assert failed == sorted([cos, sin])


def test_tables_of_every_layer_of_a_checkpoint_are_compared_with_the_scheme() -> None:
    """A checkpoint has cosines and sines of three layers, and a weight. One element of layer 1's
    sines is wrong: of the 6 tables, only this one fails.
    """
    tensors = {
        f"layers.{k}.rotary_emb.{name}_cached": array.copy()
        for k in range(3)
        for name, array in COS_AND_SIN.items()
    }
    tensors["layers.1.rotary_emb.sin_cached"][2, 2] += 1
    result = pecli.verify(
        {**tensors, "layers.1.q_proj.weight": np.zeros((2, 2), np.float32)}, ROPE_6_BY_8
    )

    assert len(result.tensors) == 6
    assert result.problems == ()
    assert [t.name for t in result.tensors if not t.passed] == ["layers.1.rotary_emb.sin_cached"]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_a_dtype_that_is_not_the_schemes_is_a_problem_unless_any_dtype_is_accepted(dtype) -> None:
    """The scheme is of float32, and the tables, NumPy's of 6 positions and 8 channels, of another
    dtype. In float64 they are off by a few units in the last place, so that 8 are allowed.
    """
    tensors = cos_and_sin_tables(6, inverse_frequencies(10000.0, 8), dtype)
    tolerance = pecli.Tolerance(max_ulp=8 if dtype is np.float64 else 0)

    assert pecli.verify(tensors, ROPE_6_BY_8, tolerance, any_dtype=True).passed

    result = pecli.verify(tensors, ROPE_6_BY_8, tolerance, any_dtype=False)
    assert [problem.split(":")[0] for problem in result.problems] == ["cos", "sin"]
    assert "float32 is expected" in result.problems[0]


def test_the_command_expects_the_dtype_of_the_file_unless_one_is_given(run_pecli, tmp_path) -> None:
    """The file is a sinusoidal table of 6 positions and 8 channels in float16. It has an additional
    axis of length 1, which does not matter.
    """
    np.save(tmp_path / "t.npy", interleaved_columns(NUMPY_SIN, NUMPY_COS)[None].astype(np.float16))
    words = ["sinusoidal", "--seq-len", 6, "--dim", 8, "--verify", tmp_path / "t.npy"]

    assert run_pecli(*words).exit_code == SUCCESS
    assert run_pecli(*words, "--dtype", "float16").exit_code == SUCCESS

    given = run_pecli(*words, "--dtype", "float32", "--json")
    assert given.exit_code == CHECK_FAILED
    assert "float16" in given.json["diagnosis"][0]


@pytest.mark.thorough
def test_a_file_of_integers_fails(run_pecli, tmp_path) -> None:
    """All elements of the file are 0, in int32; a sinusoidal table has neither these values nor
    this dtype.
    """
    np.save(tmp_path / "t.npy", np.zeros((6, 8), np.int32))
    words = ["sinusoidal", "--seq-len", 6, "--dim", 8, "--verify", tmp_path / "t.npy"]

    assert run_pecli(*words).exit_code == CHECK_FAILED


def test_tensors_of_a_bundle_are_compared_by_the_name_of_their_layers() -> None:
    """A bundle is one scheme per type of layer, here with base 10000 for full attention and base
    100 for sliding attention. The dump has tables of base 10000 under the names of both.
    """
    bundle = Bundle((("full", pecli.Rope(6, 8)), ("sliding", pecli.Rope(6, 8, base=100.0))))
    tensors = {
        f"{layers}_{name}": array
        for layers in ("full", "sliding")
        for name, array in COS_AND_SIN.items()
    }
    result = pecli.verify(tensors, bundle)

    assert {tensor.name: tensor.passed for tensor in result.tensors} == {
        name: "full" in name for name in tensors
    }


def test_one_wrong_digit_in_a_text_file_is_found(tmp_path) -> None:
    """A .json file of a scheme carries its spec. 0.5403023 is cos 1 in float32, an element of
    «cos»; with one more in the last digit it is another number.
    """
    file = tmp_path / "t.json"
    pecli.save(file, pecli.Rope(seq_len=3, dim=4))
    assert pecli.verify(file).passed

    text = file.read_text()
    assert "0.5403023" in text
    file.write_text(text.replace("0.5403023", "0.5403024"))
    tensors = pecli.verify(file, reasons=False).tensors
    assert [tensor.name for tensor in tensors if not tensor.passed] == ["cos"]


LINES = [
    pecli.Rope(6, 8),
    pecli.Rope(6, 8, layout="halves"),
    pecli.Sinusoidal(6, 8, dtype="float16"),
    pecli.Alibi(4),
]
LINES += [pecli.Alibi(4, 6, form=form) for form in ("symmetric", "causal", "key")]


@pytest.mark.parametrize("scheme", LINES, ids=lambda scheme: str(scheme.single_array().shape))
@pytest.mark.sample(4)
def test_a_csv_file_passes_as_the_table_that_it_was_made_of(tmp_path, scheme) -> None:
    """LINES are schemes of several shapes. A .csv file has two axes: the rows of a table with three
    axes follow each other. It passes as the scheme, and as equal to the .npy file, which has all
    axes, both ways.
    """
    csv, npy = tmp_path / "t.csv", tmp_path / "t.npy"
    pecli.save(csv, scheme)
    pecli.save(npy, scheme)

    assert pecli.verify(csv, scheme).passed
    assert pecli.diff(csv, npy).passed
    assert pecli.diff(npy, csv).passed


class Tensor:
    """A stand-in for torch's tensors, which refuse NumPy while they have a gradient, until
    `detach()`, and in bfloat16, until `float()`.
    """

    def __init__(
        self, values: np.ndarray[Any, Any], dtype: str, requires_grad: bool = False
    ) -> None:
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


class NegatedView(Tensor):
    """A tensor of torch that is negated lazily: its memory, which DLPack gives, has the opposite
    values, and only `resolve_neg()` the right ones.
    """

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        super().__init__(-values, "float32")
        self.__dlpack__, self.__dlpack_device__ = (
            self.values.__dlpack__,
            self.values.__dlpack_device__,
        )

    def detach(self) -> NegatedView:
        return self

    resolve_conj = detach

    def resolve_neg(self) -> Tensor:
        return Tensor(-self.values, "float32")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that has negative bit set.")


class Exchanged:
    """An array that gives its values by DLPack only."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values, self.dtype = values, values.dtype
        self.__dlpack_device__ = values.__dlpack_device__

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("use DLPack")


def bfloat16_tensor_with_gradient(values: np.ndarray[Any, Any]) -> Tensor:
    return Tensor(values.astype(ml_dtypes.bfloat16), "bfloat16", requires_grad=True)


in_other_libraries = pytest.mark.parametrize(
    ("wrap", "dtype"),
    [
        pytest.param(lambda x: Tensor(x, "float32"), "float32", id="torch"),
        pytest.param(
            lambda x: Tensor(x, "float32", requires_grad=True), "float32", id="torch, gradient"
        ),
        pytest.param(bfloat16_tensor_with_gradient, "bfloat16", id="torch, bfloat16"),
        pytest.param(NegatedView, "float32", id="torch, negated lazily"),
        pytest.param(Exchanged, "float32", id="DLPack only"),
        pytest.param(lambda x: x.tolist(), "float64", id="lists"),
    ],
)
"""`wrap` makes an array of another library of one of NumPy, and `dtype` is that of its values."""


@in_other_libraries
def test_arrays_of_other_libraries_pass_with_their_dtype(wrap: Any, dtype: str) -> None:
    """`wrap` makes a stand-in for a tensor of torch, which must be converted in different ways, an
    array with DLPack only, or lists. They hold NumPy's cosines and sines of ROPE_6_BY_8.
    """
    dump = {"cos": wrap(NUMPY_COS), "sin": wrap(NUMPY_SIN)}
    result = pecli.verify(dump, ROPE_6_BY_8, atol=1e-7)

    assert result.passed
    assert [tensor.dtype for tensor in result.tensors] == [dtype, dtype]


@in_other_libraries
def test_wrong_arrays_of_other_libraries_fail(wrap: Any, dtype: str) -> None:
    """`wrap` makes a stand-in for a tensor of torch, an array with DLPack only, or lists. Cosines and
    sines of ROPE_6_BY_8 have each other's names.
    """
    exchanged = {"cos": wrap(NUMPY_SIN), "sin": wrap(NUMPY_COS)}
    assert not pecli.verify(exchanged, ROPE_6_BY_8, atol=1e-7, reasons=False).passed


@in_other_libraries
def test_arrays_of_other_libraries_are_saved_with_their_values(
    tmp_path: Path, wrap: Any, dtype: str
) -> None:
    """`wrap` makes a stand-in for a tensor of torch, an array with DLPack only, or lists. The file
    must be equal, bit for bit, to NumPy's arrays of the dtype.
    """
    file = tmp_path / "t.safetensors"
    pecli.save(file, {"cos": wrap(NUMPY_COS), "sin": wrap(NUMPY_SIN)})
    expected = {"cos": NUMPY_COS.astype(dtype), "sin": NUMPY_SIN.astype(dtype)}

    assert pecli.diff(file, expected).passed


def test_a_model_is_given_by_name_or_path(tmp_path) -> None:
    """Llama 3 8B has base 500000 and 64 frequencies, 500000^(−i/64); the base of Mistral 7B v0.1 is
    10000. A path that does not exist is a file error.
    """
    inv_freq = {"inv_freq": np.array([math.pow(500000.0, -i / 64) for i in range(64)], np.float32)}
    assert pecli.verify(inv_freq, "llama-3-8b").passed
    assert not pecli.verify(inv_freq, "mistral-7b-v0.1", reasons=False).passed
    with pytest.raises(pecli.FileError, match="does not exist"):
        pecli.verify(inv_freq, tmp_path / "no.json")


HEADS, LENGTH = 8, 16
SLOPES = 2.0 ** -np.arange(1, HEADS + 1)[:, None, None]
BLOOM = pecli.load_config({"model_type": "bloom", "n_head": HEADS})
CAUSAL_ALIBI = pecli.Alibi(heads=HEADS, seq_len=LENGTH, form="causal")
LLAMA = "llama-2-7b"


def number_in_the_mask(mask: str, dtype: Any) -> float:
    """Return −∞, the lowest finite number of a dtype, or one a little above it.

    The lowest number of float16 is −65504, those of float32 and bfloat16 are about −3.4e38.
    """
    if mask == "infinite":
        return -np.inf
    if mask == "lowest":
        return float(ml_dtypes.finfo(dtype).min)
    return -6e4 if dtype is np.float16 else -3e38


def causal_bias(mask: str, dtype: Any) -> np.ndarray[Any, Any]:
    """Return −slope · |i − j| in a dtype, which is exact, with a mask for keys after the query.

    Slopes are 1/2, 1/4, … 1/256, the paper's for 8 heads; there are 16 queries i and 16 keys j.
    """
    bias = -SLOPES * np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH))
    is_visible = np.tri(LENGTH) > 0
    return np.where(is_visible, bias, number_in_the_mask(mask, dtype)).astype(dtype)


def with_masks_and_dtypes(test: Any) -> Any:
    """Run a test with every mask in every dtype: in every run in float16, else if thorough."""
    in_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
    with_masks = pytest.mark.parametrize("mask", ["infinite", "lowest", "near it"])
    sample = pytest.mark.sample("infinite-float16", "lowest-float16", "near it-float16")
    return in_dtypes(with_masks(sample(test)))


@with_masks_and_dtypes
def test_a_causal_mask_may_be_minus_infinity_or_a_very_negative_number(
    mask: str, dtype: Any
) -> None:
    """softmax gives a weight of 0 to a key whose bias is −∞, or about the lowest number of the dtype.
    BLOOM and CAUSAL_ALIBI have 8 heads; `causal_bias` is their bias by the paper's formula.
    """
    dump = causal_bias(mask, dtype)

    assert pecli.verify(dump, BLOOM, reasons=False).passed
    assert pecli.verify(dump, CAUSAL_ALIBI, reasons=False).passed


@with_masks_and_dtypes
def test_a_key_that_is_hidden_by_mistake_fails_with_any_mask(mask: str, dtype: Any) -> None:
    """`causal_bias` has the right bias of BLOOM's 8 heads. Key 2 is before query 5, and so visible;
    it is hidden in head 3.
    """
    dump = causal_bias(mask, dtype)
    dump[3, 5, 2] = number_in_the_mask(mask, dtype)

    assert not pecli.verify(dump, BLOOM, reasons=False).passed


@with_masks_and_dtypes
def test_masks_are_equal_in_a_diff_that_allows_a_tolerance(mask: str, dtype: Any) -> None:
    """The file has −∞ in its mask, and the dump −∞ or a very negative number. An exact diff, which is
    the default, distinguishes them; with any tolerance, here 1 ULP, both only hide keys.
    """
    dump = causal_bias(mask, dtype)
    file = causal_bias("infinite", dtype)

    assert pecli.diff(file, dump, max_ulp=1, reasons=False).passed
    assert pecli.diff(file, dump, reasons=False).passed == (mask == "infinite")


def test_a_tolerance_that_a_dtype_cannot_hold_names_the_one_that_fits() -> None:
    """In a bfloat16 table of Llama 2's cosines, every 15th element is off by one unit in the last
    place. Near 1 that is 2^−7 = 0.0078, more than the tolerance of 0.001.
    """
    table = cos_and_sin_tables(64, inverse_frequencies(10000.0, 128), ml_dtypes.bfloat16)["cos"]
    table.view(np.int16)[::3, ::5] += 1
    result = pecli.verify({"cos": table}, LLAMA, atol=1e-3)

    assert not result.passed
    assert result.diagnosis[0].startswith(
        "bfloat16 cannot hold 0.001: near 1 its steps are 0.0078; allow --max-ulp 1"
    )
    assert pecli.verify({"cos": table}, LLAMA, max_ulp=1).passed


def test_zeros_in_place_of_a_mask_are_named() -> None:
    """A causal bias is −∞ for keys after the query; a port that leaves zeros there attends
    to them.
    """
    scheme = pecli.Alibi(heads=4, seq_len=8, form="causal")
    bias = scheme.tables()["bias"]
    without_mask = np.where(np.isinf(bias), 0, bias)
    (first, *_) = pecli.verify({"bias": without_mask}, scheme).explanations

    assert first.edits == (Mask("0"),)


def test_frequencies_that_were_printed_with_six_decimals_are_named() -> None:
    """The dump has the frequencies of 32 channels, 10000^(−2i/32), rounded by NumPy to six
    decimals; the first explanation is exactly that.
    """
    frequencies = np.round(inverse_frequencies(base=10000.0, dim=32), decimals=6)
    scheme = pecli.Rope(seq_len=64, dim=32)
    (first, *_) = pecli.verify({"inv_freq": frequencies}, scheme).explanations

    assert first.edits == (Decimals(6),)


def test_a_file_that_lacks_a_tensor_is_not_reported_as_changed_as_well(tmp_path: Path) -> None:
    """The sha256 in a file's spec is that of all its tensors. It differs if one is missing, here
    the sines, but then the missing tensor is the only reason.
    """
    path = tmp_path / "rope.npz"
    pecli.save(path, pecli.Rope(6, 8))
    arrays = dict(np.load(path))
    del arrays["sin"]
    np.savez(path, **arrays)
    diagnosis = pecli.verify(path).diagnosis

    assert any("sin" in line for line in diagnosis)
    assert not any("sha256" in line or "changed" in line for line in diagnosis)


@pytest.mark.parametrize("stated", ["0" * 64, ""], ids=["a wrong sha256", "no sha256"])
def test_a_sha256_that_a_text_file_states_is_compared(tmp_path: Path, stated: str) -> None:
    """JSON files of pecli have no sha256. One that was added to the spec counts: 64 zeros are not
    that of the data.
    """
    path = tmp_path / "t.json"
    pecli.save(path, pecli.Rope(3, 4))
    document = json.loads(path.read_text())
    if stated:
        document["pecli"]["sha256"] = stated
    path.write_text(json.dumps(document))

    assert pecli.verify(path).passed == (not stated)
