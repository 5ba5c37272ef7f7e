"""Files held against a scheme: which tensor is which, dtypes, axes of length 1; findings apart from the rest."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.checks.verify.verification import Verification

ANGLES = [[position * math.pow(10000, -2 * i / 8) for i in range(4)] for position in range(6)]
COS = np.array([[math.cos(angle) for angle in row] for row in ANGLES])
SIN = np.array([[math.sin(angle) for angle in row] for row in ANGLES])
INV_FREQ = np.array([1.0, 0.1, 0.01, 0.001])
ROPE = pecli.Rope(6, 8)


def test_findings_fail_and_explanations_do_not() -> None:
    assert Verification("f", "rope", (), (), ("a remark",)).passed
    failed = Verification("f", "rope", (), ("sin: the tensor is missing",), ("a remark",))
    assert not failed.passed
    assert failed.as_json()["diagnosis"] == ["sin: the tensor is missing", "a remark"]


@pytest.mark.parametrize(
    "names",
    [("cos", "sin", "inv_freq"), ("cos_cached", "sin_cached", "inv_freq"), ("freqs_cos", "freqs_sin", "x.inv_freq")],
)
def test_tensors_go_by_the_names_of_other_programs(tmp_path, names) -> None:
    arrays = [array.astype(np.float32) for array in (COS, SIN, INV_FREQ)]
    save_file(dict(zip(names, arrays, strict=True)), tmp_path / "t.safetensors")
    result = pecli.verify(tmp_path / "t.safetensors", ROPE)
    assert result.passed
    assert sorted(tensor.name for tensor in result.tensors) == sorted(names)
    save_file(dict(zip(names, [arrays[1], arrays[0], arrays[2]], strict=True)), tmp_path / "t.safetensors")
    swapped = pecli.verify(tmp_path / "t.safetensors", ROPE)
    assert sorted(tensor.name for tensor in swapped.tensors if not tensor.passed) == sorted(names[:2])


def test_every_layer_of_a_checkpoint_is_held_against_the_scheme(tmp_path) -> None:
    tensors = {f"layers.{k}.rotary_emb.{name}_cached": array.astype(np.float32)
               for k in range(3) for name, array in (("cos", COS), ("sin", SIN))}  # fmt: skip
    tensors["layers.1.rotary_emb.sin_cached"][2, 2] += 1
    tensors["layers.1.q_proj.weight"] = np.zeros((2, 2), np.float32)
    save_file(tensors, tmp_path / "t.safetensors")
    result = pecli.verify(tmp_path / "t.safetensors", ROPE)
    assert len(result.tensors) == 6
    assert [t.name for t in result.tensors if not t.passed] == ["layers.1.rotary_emb.sin_cached"]
    assert result.problems == ()


def test_another_doubling_than_the_spec_says_is_a_mismatch(tmp_path) -> None:
    doubled = np.concatenate([COS, COS], 1).astype(np.float32)
    np.save(tmp_path / "t.npy", doubled)
    assert pecli.verify(tmp_path / "t.npy", ROPE).readings == {"cos": "two columns per frequency (c0 c1 … c0 c1 …)"}
    assert pecli.verify(tmp_path / "t.npy", pecli.Rope(6, 8, layout="halves")).passed
    np.save(tmp_path / "t.npy", np.repeat(COS, 2, 1).astype(np.float32))
    assert not pecli.verify(tmp_path / "t.npy", pecli.Rope(6, 8, layout="halves")).passed
    save_file({"cos_sin_cache": np.concatenate([COS, SIN], 1).astype(np.float32), "x": doubled}, tmp_path / "t.st")
    result = pecli.verify(tmp_path / "t.st", ROPE)
    assert result.passed
    assert result.weak[-1] == "x looks like a table, and no name says of what"


def test_axes_of_length_one_do_not_matter(tmp_path) -> None:
    save_file({"cos": COS[None, None].astype(np.float32), "sin": SIN[:, None].astype(np.float32)}, tmp_path / "t.st")
    assert pecli.verify(tmp_path / "t.st", ROPE).passed
    pe = np.stack([SIN, COS], -1).reshape(1, 6, 8).astype(np.float32)
    np.save(tmp_path / "pe.npy", pe)
    assert pecli.verify(tmp_path / "pe.npy", pecli.Sinusoidal(6, 8)).passed


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_a_dtype_is_a_finding_unless_any_will_do(tmp_path, dtype) -> None:
    save_file({"cos": COS.astype(dtype), "sin": SIN.astype(dtype)}, tmp_path / "t.safetensors")
    tolerance = pecli.Tolerance(max_ulp=8 if dtype is np.float64 else 0)
    assert pecli.verify(tmp_path / "t.safetensors", ROPE, tolerance, any_dtype=True).passed
    result = pecli.verify(tmp_path / "t.safetensors", ROPE, tolerance, any_dtype=False)
    assert [problem.split(":")[0] for problem in result.problems] == ["cos", "sin"]
    assert "float32 is expected" in result.problems[0]


def test_the_command_line_takes_the_files_dtype_unless_one_is_given(pecli_cli, tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.stack([SIN, COS], -1).reshape(6, 8).astype(np.float16))
    words = ["sinusoidal", "--seq-len", 6, "--dim", 8, "--verify", tmp_path / "t.npy"]
    assert pecli_cli(*words).code == 0
    assert pecli_cli(*words, "--dtype", "float16").code == 0
    given = pecli_cli(*words, "--dtype", "float32", "--json")
    assert given.code == 1
    assert "float16" in given.json["diagnosis"][0]
    np.save(tmp_path / "t.npy", np.zeros((6, 8), np.int32))
    assert pecli_cli(*words).code == 1


def test_a_bundle_goes_by_layer_and_name(tmp_path) -> None:
    from pecli.engine.schemes.bundle import Bundle

    bundle = Bundle((("full", pecli.Rope(6, 8)), ("sliding", pecli.Rope(6, 8, base=100.0))))
    tensors = {"full_cos": COS, "full_sin": SIN, "sliding_cos": COS, "sliding_sin": SIN}
    save_file({name: array.astype(np.float32) for name, array in tensors.items()}, tmp_path / "t.safetensors")
    result = pecli.verify(tmp_path / "t.safetensors", bundle, any_dtype=True)
    assert {tensor.name: tensor.passed for tensor in result.tensors} == {
        "full_cos": True, "full_sin": True, "sliding_cos": False, "sliding_sin": False
    }  # fmt: skip


def test_a_text_file_is_held_against_its_spec_element_by_element(tmp_path) -> None:
    pecli.save(tmp_path / "t.json", pecli.Rope(3, 4))
    assert pecli.verify(tmp_path / "t.json").passed
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(text.replace("0.5403023", "0.5403024"))  # cos 1
    assert [tensor.name for tensor in pecli.verify(tmp_path / "t.json").tensors if not tensor.passed] == ["cos"]


def test_arrays_are_held_against_a_scheme() -> None:
    near = pecli.Tolerance(atol=1e-7)
    both = {"cos": COS.astype(np.float32), "sin": SIN.astype(np.float32)}
    assert pecli.verify(both, ROPE, near).passed
    assert pecli.verify(np.stack([COS, SIN]), ROPE, near, any_dtype=True).passed
    failed = pecli.verify({"cos": both["sin"], "sin": both["cos"]}, ROPE, near)
    assert [tensor.mismatched for tensor in failed.tensors] == [24, 24]
    with pytest.raises(pecli.ParameterError, match="scheme is missing; arrays carry no spec"):
        pecli.verify(both)


@pytest.mark.parametrize(
    "scheme",
    [
        pecli.Rope(6, 8),
        pecli.Rope(6, 8, layout="halves"),
        pecli.Alibi(4, 6),
        pecli.Alibi(4, 6, form="causal"),
        pecli.Alibi(4, 6, form="key"),
        pecli.Alibi(4),
        pecli.Sinusoidal(6, 8, dtype="float16"),
    ],
    ids=lambda scheme: str(scheme.single_array().shape),
)
def test_lines_of_text_are_the_rows_of_the_table_they_were_made_of(tmp_path, scheme) -> None:
    for name in ("t.csv", "t.npy"):
        pecli.save(tmp_path / name, scheme)
    found = pecli.verify(tmp_path / "t.csv", scheme)
    assert found.passed
    assert pecli.diff(tmp_path / "t.csv", tmp_path / "t.npy").passed
    assert pecli.diff(tmp_path / "t.npy", tmp_path / "t.csv").passed
