"""`pecli apply`: files in, files out; other projects' formulas and numbers; everything that can be given wrongly."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli import Sinusoidal
from pecli.cli.app import run

BF16 = np.dtype(ml_dtypes.bfloat16)


def random(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture
def apply(pecli_cli, tmp_path, monkeypatch):
    """Run `pecli apply` in an empty folder on arrays, which become files x.npy, k.npy, …; the arrays that it writes."""
    monkeypatch.chdir(tmp_path)

    def call(scheme: str, *words: object, output: str = "out.npz", **arrays: np.ndarray):
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        outcome = pecli_cli("apply", scheme, *words, "-o", output)
        assert outcome.code == 0, outcome.err
        return pecli.load(tmp_path / output)

    return call


@pytest.mark.parametrize("output", ["out.npz", "out.safetensors", "out.npy"])
def test_a_file_name_that_is_no_text_becomes_one(apply, pecli_cli, tmp_path, output: str) -> None:
    name = b"x\xff.npy".decode("utf-8", "surrogateescape")
    np.save(tmp_path / name, np.zeros((2, 4)))
    made = apply("sinusoidal", name, output=output)
    assert list(made) == ["array" if output == "out.npy" else "x\ufffd"]
    assert np.array_equal(*made.values(), pecli.Sinusoidal(2, 4, dtype="float64").tables()["pe"])


def inverse_frequencies(dim: int, base: float = 10000.0) -> np.ndarray:
    return base ** (-np.arange(0, dim, 2) / dim)


def hugging_face(q: np.ndarray, positions, base: float = 10000.0, dim: int | None = None) -> np.ndarray:
    """Llama and NeoX there: q·cos + rotate_half(q)·sin over the first `dim` channels."""
    dim = dim or q.shape[-1]
    angles = np.asarray(positions, np.float64)[:, None] * inverse_frequencies(dim, base)
    cos, sin = (np.concatenate([f(angles), f(angles)], axis=-1) for f in (np.cos, np.sin))
    turn, rest = q[..., :dim].astype(np.float64), q[..., dim:].astype(np.float64)
    rotate_half = np.concatenate([-turn[..., dim // 2 :], turn[..., : dim // 2]], axis=-1)
    return np.concatenate([turn * cos + rotate_half * sin, rest], axis=-1)


def gpt_j(q: np.ndarray, positions, dim: int | None = None) -> np.ndarray:
    """GPT-J: every sine and cosine twice in a row, rotate_every_two."""
    dim = dim or q.shape[-1]
    angles = np.asarray(positions, np.float64)[:, None] * inverse_frequencies(dim)
    cos, sin = (np.repeat(f(angles), 2, axis=-1) for f in (np.cos, np.sin))
    turn, rest = q[..., :dim].astype(np.float64), q[..., dim:].astype(np.float64)
    every_two = np.stack([-turn[..., 1::2], turn[..., 0::2]], axis=-1).reshape(turn.shape)
    return np.concatenate([turn * cos + every_two * sin, rest], axis=-1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("dim", [32, 12])
def test_both_layouts_of_others(apply, dtype, dim):
    q = random(2, 3, 40, 32, dtype=dtype)
    limits = np.finfo(dtype)
    tolerance = {
        "rtol": float(limits.eps) / 2 * 1.001,
        "atol": max(1e-13, float(limits.smallest_subnormal) / 2 * 1.001),
    }
    positions = range(100, 140)
    found = apply("rope", "q.npy", "--dim", dim, "--offset", 100, q=q)["q"]
    np.testing.assert_allclose(found, hugging_face(q, positions, dim=dim), **tolerance)
    found = apply("rope", "q.npy", "--dim", dim, "--offset", 100, "--layout", "interleaved")["q"]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, gpt_j(q, positions, dim=dim), **tolerance)


def test_deepseek_takes_pairs_apart_first(apply):
    """DeepSeek-V3 in transformers: view (d/2, 2), transpose, then rotate_half."""
    q = random(2, 10, 16, dtype=np.float64)
    apart = q.reshape(2, 10, 8, 2).swapaxes(-1, -2).reshape(2, 10, 16)
    found = apply("rope", "q.npy", "--layout", "deepseek", q=q)["q"]
    np.testing.assert_allclose(found, hugging_face(apart, range(10)), rtol=0, atol=1e-14)
    back = apply("rope", "out.npz", "--layout", "deepseek", "--inverse", output="back.npz")["q"]
    np.testing.assert_allclose(back, q, rtol=0, atol=1e-14)


def test_trailing_channels(apply):
    q = random(5, 20, dtype=np.float64)
    found = apply("rope", "q.npy", "--dim", "8", "--trailing", q=q)["q"]
    np.testing.assert_array_equal(found[:, :12], q[:, :12])
    np.testing.assert_allclose(found[:, 12:], hugging_face(q[:, 12:], range(5)), rtol=0, atol=1e-14)


def test_numbers_published_with_gemma(apply):
    """Gemma's own test of apply_rope: ones at position 1, wavelengths up to 100."""
    found = apply("rope", "x.npy", "--base", 100, "--offset", 1, x=np.ones((1, 1, 4), np.float32))["x"]
    np.testing.assert_allclose(found[0, 0], [-0.30116868, 0.89517075, 1.3817732, 1.0948375], rtol=0, atol=5e-7)


ONNX_INPUT = [
    [-1.0574, -0.1188, -0.9078, 0.3452, -0.5713, -0.2351],
    [1.0076, -0.7529, -0.2250, -0.4327, -1.5071, -0.4586],
]
ONNX_OUTPUT = {
    "interleaved": [
        [-0.4713, -0.9540, -0.9229, 0.3027, -0.5708, -0.2363],
        [0.2653, 1.2295, -0.1839, -0.4517, -1.5052, -0.4651],
    ],
    "halves": [
        [-0.8618, -0.0922, -0.9073, -0.7032, -0.5762, -0.2371],
        [-0.0259, -0.6099, -0.2230, 1.0963, -1.5704, -0.4595],
    ],
}


@pytest.mark.parametrize("layout", ONNX_OUTPUT)
def test_numbers_published_with_onnxruntime(apply, layout):
    """The tests of its RotaryEmbedding operator: head size 6, the rows of positions 1 and 2, in four decimals."""
    x = np.array(ONNX_INPUT, np.float32)
    found = apply("rope", "x.npy", "--offset", "1", "--layout", layout, x=x)["x"]
    np.testing.assert_allclose(found, ONNX_OUTPUT[layout], rtol=0, atol=2.5e-4)


def test_a_model_says_how(apply, pecli_cli):
    q = random(1, 2, 6, 256)
    found = apply("rope", "q.npy", "--model", "gpt-j-6b", q=q)["q"]
    np.testing.assert_allclose(found, gpt_j(q, range(6), dim=64), rtol=1e-7, atol=1e-13)
    outcome = pecli_cli("apply", "rope", "q.npy", "--model", "gpt-j-6b", "-o", "y.npy")
    assert "interleaved (as gpt-j-6b has it), the first 64 of 256 channels, positions 0 … 5" in outcome.out
    rotary = apply("rope", "part.npy", "--model", "gpt-j-6b", part=q[..., :64])["part"]
    np.testing.assert_array_equal(rotary, found[..., :64])


def test_latent_attention_turns_the_last_channels(apply, pecli_cli):
    """DeepSeek-V3: a query is 128 channels that stay and 64 that turn."""
    q = random(2, 5, 192, dtype=np.float64)
    found = apply("rope", "q.npy", "--model", "deepseek-v3", q=q)["q"]
    np.testing.assert_array_equal(found[..., :128], q[..., :128])
    alone = apply("rope", "part.npy", "--model", "deepseek-v3", part=q[..., 128:])["part"]
    np.testing.assert_array_equal(found[..., 128:], alone)
    assert (
        "the last 64 of 192 channels"
        in pecli_cli("apply", "rope", "q.npy", "--model", "deepseek-v3", "-o", "y.npy").out
    )
    assert pecli_cli("config", "--model", "deepseek-v3", "--json").json["encodings"][0]["trailing"] is True


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_names_dtypes_and_texts_are_kept(apply, tmp_path, suffix, pecli_cli):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    arrays = {"layer.0.q": random(1, 4, 8, 16), "layer.0.k": random(1, 2, 8, 16, dtype=np.float16)}
    save_file(arrays, tmp_path / "in.safetensors", metadata={"format": "pt", "pecli": "{}"})
    found = apply("rope", "in.safetensors", output=f"out.{suffix}")
    assert {name: array.dtype for name, array in found.items()} == {name: a.dtype for name, a in arrays.items()}
    for name, array in arrays.items():
        np.testing.assert_allclose(found[name], hugging_face(array, range(8)), rtol=5e-4, atol=1e-6)
    if suffix == "safetensors":
        with safe_open(tmp_path / "out.safetensors", "numpy") as file:
            assert file.metadata() == {"format": "pt"}  # what made the input has not made the output
    one = apply("rope", "in.safetensors:layer.0.k", output="one.npy")["array"]
    np.testing.assert_array_equal(one, found["layer.0.k"])
    both = apply("rope", "in.safetensors", "--tensor", "layer.0.q", output="one.npz")
    assert list(both) == ["layer.0.q"]


def test_names_are_looked_for_in_all_files(apply):
    np.savez("a.npz", q=random(4, 8), v=random(4, 8))
    np.savez("b.npz", k=random(4, 8), v=random(4, 8))
    assert sorted(apply("rope", "a.npz", "b.npz", "--tensor", "k", "--tensor", "q")) == ["k", "q"]
    unnamed = {"x": random(4, 8), "y": random(2, 4, 8)}
    assert sorted(apply("rope", "x.npy", "y.npy", **unnamed)) == ["x", "y"]  # called as their files


def test_bfloat16_goes_through_safetensors(apply, tmp_path):
    x = random(3, 5, 8).astype(BF16)
    pecli.save(tmp_path / "x.safetensors", {"x": x})
    found = apply("rope", "x.safetensors", output="y.safetensors")["x"]
    assert found.dtype == BF16
    np.testing.assert_allclose(found.astype(np.float64), hugging_face(x, range(5)), rtol=2**-8, atol=1e-12)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_float8_is_rounded_once(apply, tmp_path, dtype):
    """The nearest of all its values, of two as near the one with an even pattern."""
    x = random(4, 50, 8).astype(dtype)
    pecli.save(tmp_path / "x.safetensors", {"x": x})
    found = apply("rope", "x.safetensors", output="y.safetensors")["x"]
    assert found.dtype == dtype
    every = np.arange(256, dtype=np.uint8).view(dtype)
    every = every[np.isfinite(every.astype(np.float64))]
    far = np.abs(hugging_face(x, range(50))[..., None] - every.astype(np.float64))
    far[..., every.view(np.uint8) % 2 == 1] += 1e-300
    np.testing.assert_array_equal(found.astype(np.float64), every[far.argmin(axis=-1)].astype(np.float64))


def test_positions_of_a_file(apply):
    q, ids = random(2, 3, 4, 8), np.array([[7, 0, 3, 3], [1, 2, 100000, 4]])
    found = apply("rope", "q.npy", "--positions", "ids.npy", q=q, ids=ids)["q"]
    for batch in range(2):
        np.testing.assert_allclose(found[batch], hugging_face(q[batch], ids[batch]), rtol=1e-7, atol=1e-9)
    found = apply("rope", "q.npy", "--positions", "ids.npy", ids=ids[0].astype(np.uint16))["q"]
    np.testing.assert_allclose(found, hugging_face(q, ids[0]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("axis", ["1", "-3"])
def test_positions_on_another_axis(apply, pecli_cli, axis):
    """(batch, L, heads, D) is (batch, heads, L, D) with two axes swapped, and so is the result."""
    q, ids = random(2, 6, 4, 8, dtype=np.float64), np.array([[5, 3, 9, 0, 1, 2], [7, 7, 8, 2, 0, 1]])
    words = ("rope", "q.npy", "--offset", "100")
    straight = apply(*words, q=q.swapaxes(1, 2))["q"]
    np.testing.assert_array_equal(apply(*words, "--seq-axis", axis, q=q)["q"], straight.swapaxes(1, 2))
    np.testing.assert_allclose(straight, hugging_face(q.swapaxes(1, 2), range(100, 106)), rtol=0, atol=1e-13)
    given = ("rope", "q.npy", "--positions", "ids.npy")
    straight = apply(*given, q=q.swapaxes(1, 2), ids=ids)["q"]
    np.testing.assert_array_equal(apply(*given, "--seq-axis", axis, q=q)["q"], straight.swapaxes(1, 2))


CONFIG = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize("heads", [4, 2])
def test_heads_where_positions_should_be(apply, pecli_cli, tmp_path, monkeypatch, heads):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG))
    q = random(1, 16, heads, 8)
    np.save("q.npy", q)
    words = ("apply", "rope", "q.npy", "--config", "config.json", "-o", "out.npy")
    refused = pecli_cli(*words)
    assert (refused.code, refused.err.count("\n"), Path("out.npy").exists()) == (2, 1, False)
    assert (
        f"axis 2 would be positions, and {heads} is a number of heads of config.json; give --seq-axis 1" in refused.err
    )
    fixed = pecli_cli(*words, "--seq-axis", "1")
    assert fixed.code == 0
    assert f"positions 0 … 15 along axis 1 of (1, 16, {heads}, 8)" in fixed.out
    found = np.load("out.npy")
    assert pecli_cli(*words, "--seq-axis", "2").code == 0  # who means it can say so
    np.testing.assert_allclose(found.swapaxes(1, 2), hugging_face(q.swapaxes(1, 2), range(16)), rtol=0, atol=1e-5)
    np.save("q.npy", q.swapaxes(1, 2))
    assert f"positions 0 … 15 along axis 2 of (1, {heads}, 16, 8)" in pecli_cli(*words).out
    assert pecli_cli(*words, "--json").json["tensors"]["q"]["seq_axis"] == 2


def test_a_sequence_as_long_as_there_are_heads_is_taken_as_it_stands(pecli_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG))
    np.save("q.npy", random(1, 4, 4, 8))
    done = pecli_cli("apply", "rope", "q.npy", "--config", "config.json", "-o", "out.npy")
    assert (done.code, "along axis 2 of (1, 4, 4, 8)" in done.out) == (0, True)


@pytest.mark.parametrize("scheme", [("rope",), ("sinusoidal",), ("learned", "--table", "table.npy")])
def test_the_axis_of_positions_is_told(pecli_cli, tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random(3, 5, 4))
    np.save("table.npy", random(9, 4))
    words = ("apply", scheme[0], "x.npy", *scheme[1:], "-o", "y.npy")
    assert "along axis 1 of (3, 5, 4)" in pecli_cli(*words).out
    assert pecli_cli(*words, "--json").json["tensors"]["x"]["seq_axis"] == 1


def test_sinusoidal_learned_and_alibi(apply):
    x, w, s = random(2, 5, 6, dtype=np.float64), random(9, 6), random(1, 2, 3, 4, dtype=np.float64)
    angles = np.arange(3, 8)[:, None] * 10000.0 ** (-2 * (np.arange(6) // 2) / 6)
    waves = np.where(np.arange(6) % 2, np.cos(angles), np.sin(angles))
    found = apply("sinusoidal", "x.npy", "--offset", "3", x=x, w=w, s=s)["x"]
    np.testing.assert_allclose(found, x + waves, rtol=0, atol=1e-15)
    found = apply("learned", "x.npy", "--table", "w.npy", "--offset", "2")["x"]
    np.testing.assert_array_equal(found, x + w[2:7].astype(np.float64))
    same = apply("learned-init", "x.npy", "--table", "w.npy", "--offset", "2")["x"]
    np.testing.assert_array_equal(same, found)
    distance = np.arange(1, 4)[:, None] - np.arange(4)
    slopes = np.array([2**-4, 2**-8])[:, None, None]
    found = apply("alibi", "s.npy")["s"]
    np.testing.assert_array_equal(found, s - slopes * np.abs(distance))
    found = apply("alibi", "s.npy", "--causal")["s"]
    np.testing.assert_array_equal(found, np.where(distance < 0, -np.inf, s - slopes * np.abs(distance)))


def test_through_a_pipe(process):
    import io

    stream = io.BytesIO()
    np.save(stream, x := random(3, 4, 8))
    result = process("apply", "rope", "-", "-o", "-", input=stream.getvalue())
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(io.BytesIO(result.stdout)), hugging_face(x, range(4)), rtol=1e-7, atol=1e-9)
    assert result.stderr == b""


def test_the_input_may_be_the_output(apply):
    x = random(3, 4, 8)
    found = apply("rope", "x.npy", output="x.npy", x=x)["array"]
    np.testing.assert_allclose(found, hugging_face(x, range(4)), rtol=1e-7, atol=1e-9)


def test_json_and_quiet(pecli_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", random(2, 4, 8))
    data = pecli_cli("apply", "rope", "q.npy", "-o", "y.npz", "--theta", "500000", "--json").json
    assert (data["scheme"], data["output"]) == ("rope", "y.npz")
    assert data["parameters"]["base"] == 500000
    assert data["parameters"]["layout"] == "halves"
    assert data["tensors"]["q"]["shape"] == [2, 4, 8]
    assert pecli_cli("apply", "rope", "q.npy", "-o", "y.npz", "-q").out == ""
    assert "halves (the default)" in pecli_cli("apply", "rope", "q.npy", "-o", "y.npz").out


@pytest.mark.parametrize("shape", [(0, 4, 8), (2, 0, 8)])
@pytest.mark.parametrize("words", [("rope",), ("sinusoidal",), ("learned", "--table", "w.npy")])
def test_empty_tensors(apply, shape, words):
    scheme, *others = words
    assert apply(scheme, "x.npy", *others, x=np.empty(shape, np.float32), w=random(9, 8))["x"].shape == shape


WRONG = {
    "rank": (["rope", "vector.npy"], "(8,)", "(…, L, D)"),
    "odd dim": (["rope", "odd.npy"], "(2, 4, 7)", "even"),
    "dim beyond D": (["rope", "x.npy", "--dim", "16"], "(2, 4, 8)", "the rotary dimension is 16"),
    "odd --dim": (["rope", "x.npy", "--dim", "3"], "--dim is 3", "even"),
    "integers": (["rope", "ids.npy:array"], "(4,)", "int64"),
    "another D": (["rope", "x.npy", "odd.npy"], "(2, 4, 7)", "share D"),
    "a model's head": (["rope", "x.npy", "--model", "llama-3.1-8b"], "(2, 4, 8)", "128 channels"),
    "no rotary model": (["rope", "x.npy", "--model", "gpt2"], "gpt2", "not rope"),
    "several layer types": (["rope", "x.npy", "--model", "gemma-3-1b"], "--layer-type is missing", "name one"),
    "positions too few": (["rope", "x.npy", "--positions", "few.npy"], "(3,)", "(2, 4, 8)"),
    "positions of a batch": (["rope", "x.npy", "--positions", "batch.npy"], "(3, 4)", "(2, 4, 8)"),
    "positions of floats": (["rope", "x.npy", "--positions", "x.npy"], "(2, 4, 8)", "(L,) or (axes, L)"),
    "positions of two axes": (
        ["rope", "x.npy", "--mrope-section", "1,1,2", "--positions", "two.npy"],
        "(2, 4)",
        "3 axes",
    ),
    "positions of three axes": (["rope", "x.npy", "--positions", "cube.npy"], "(1, 2, 4)", "(batch, L)"),
    "an axis too many": (["rope", "x.npy", "--seq-axis", "3"], "--seq-axis is 3", "(2, 4, 8)", "axes 0 … 1"),
    "the last axis": (["rope", "x.npy", "--seq-axis", "-1"], "--seq-axis is -1", "axes 0 … 1"),
    "an axis and a shift": (["rope", "x.npy", "--seq-axis", "0", "--shift", "1"], "a shift needs no positions"),
    "negative positions": (["rope", "x.npy", "--positions", "-1,-2,-3"], "(2, 4, 8)", "3 rows"),
    "positions and offset": (["rope", "x.npy", "--positions", "ids.npy", "--offset", "1"], "--offset", "--positions"),
    "negative offset": (["rope", "x.npy", "--offset", "-1"], "--offset is -1", "from 0"),
    "offset too far": (["rope", "x.npy", "--offset", str(2**40 - 2)], "(2, 4, 8)", "2^40"),
    "shift and inverse": (["rope", "x.npy", "--shift", "1", "--inverse"], "--inverse is given;", "shift"),
    "shift of no number": (["rope", "x.npy", "--shift", "far"], "--shift is 'far'", "whole number"),
    "layout": (["rope", "x.npy", "--layout", "compact"], "--layout is 'compact'", "deepseek"),
    "tensor": (["rope", "x.npy", "--tensor", "q"], "'q'", "(2, 4, 8)"),
    "FILE:NAME": (["rope", "xs.npz:q"], "the tensor is 'q'", "(2, 4, 8)"),
    "the same name twice": (["rope", "x.npy", "xs.npz"], "x of xs.npz", "name"),
    "scores of rank 2": (["alibi", "flat.npy"], "(4, 8)", "(…, H, Lq, Lk)"),
    "more queries than keys": (["alibi", "tall.npy"], "(2, 8, 4)", "Lq = 8"),
    "other heads": (["alibi", "x.npy", "--heads", "3"], "(2, 4, 8)", "--heads is 3"),
    "causal and another form": (["alibi", "x.npy", "--causal", "--form", "key"], "--causal", "key"),
    "integers to add to": (["sinusoidal", "ids.npy"], "(4,)", "int64"),
    "sinusoidal rank": (["sinusoidal", "vector.npy"], "(8,)", "(…, L, D)"),
    "a short table": (["learned", "x.npy", "--table", "flat.npy", "--offset", "1"], "(2, 4, 8)", "rows up to 5 of 4"),
    "a table of another dim": (["learned", "x.npy", "--table", "odd.npy"], "(2, 4, 7)", "(rows, D)"),
    "a narrow table": (["learned", "x.npy", "--table", "narrow.npy"], "(2, 4, 8)", "(4, 3)"),
    "a table of integers": (["learned", "x.npy", "--table", "ids.npy"], "(4,)", "int64"),
    "several tables": (["learned", "x.npy", "--table", "two.npz"], "a (4, 8)", "FILE:NAME"),
    "before a table": (["learned", "x.npy", "--table", "flat.npy", "--offset", "-1"], "--offset is -1", "from 0"),
    "no table": (["learned", "x.npy"], "--table", "pecli apply learned --help"),
    "a scheme": (["rotary", "x.npy"], "rotary", "it must be one of sinusoidal, learned"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_line(case, pecli_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, ids = random(2, 4, 8), np.arange(4)
    files = {"x": x, "vector": x[0, 0], "odd": x[..., :7], "flat": x[0], "narrow": x[0, :, :3]}
    files |= {"ids": ids, "few": ids[:3], "two": np.stack([ids] * 2), "batch": np.stack([ids] * 3)}
    files |= {"tall": x.swapaxes(1, 2), "cube": np.zeros((1, 2, 4), int)}
    for name, array in files.items():
        np.save(f"{name}.npy", array)
    np.savez("xs.npz", x=x)
    np.savez("two.npz", a=x[0], b=x[0])
    words, *needles = WRONG[case]
    outcome = pecli_cli("apply", *words, "-o", "out.npz")
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    for needle in needles:
        assert needle in outcome.err
    assert not (tmp_path / "out.npz").exists()


def test_what_is_no_matter_of_the_command_line(pecli_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random(2, 4, 8))
    assert pecli_cli("apply", "rope", "none.npy", "-o", "y.npy").code == 3
    assert pecli_cli("apply", "rope", "x.npy", "-o", "no/y.npy").code == 3
    (tmp_path / "torn.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    assert pecli_cli("apply", "rope", "torn.npy", "-o", "y.npy").code == 3
    assert pecli_cli("apply", "rope", "x.npy").code == 2
    np.savez("two.npz", a=random(4, 8), b=random(4, 8))
    assert "holds one array" in pecli_cli("apply", "rope", "two.npz", "-o", "y.npy").err
    assert pecli_cli("apply", "rope", "x.npy", "-o", "y.npy", "--positions", "none.npy").code == 3


def test_the_input_is_not_copied(process, tmp_path):
    """A tensor of 300 MB, with memory for little more than one of that size: the result."""
    import resource

    shape = (1, 8, 73728, 128)
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + math.prod(shape) * 4)  # zeros, which take no room on the disk

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (560 << 20, 560 << 20))

    result = process("apply", "rope", "x.npy", "-o", "y.npy", preexec_fn=limit)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "y.npy").stat().st_size == (tmp_path / "x.npy").stat().st_size


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_positions_of_any_kind(tmp_path, layout):
    """Fractions, negative ones and points of a grid: the formula in float64."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 6, 8))
    np.save(tmp_path / "x.npy", x)
    frequencies = 10000.0 ** (-np.arange(4) / 4)
    axial = np.array([[h * f for f in (1.0, 0.01)] + [w * f for f in (1.0, 0.01)] for h in range(2) for w in range(3)])
    places = {
        ("--positions", "0,0.5,-1,2.25,1000.125,-7"): np.outer([0, 0.5, -1, 2.25, 1000.125, -7], frequencies),
        ("--grid", "2x3", "--style", "eva"): axial,
    }
    for words, angles in places.items():
        command = ["apply", "rope", str(tmp_path / "x.npy"), "--layout", layout, *words, "-q"]
        assert run([*command, "-o", str(tmp_path / "y.npy")]) == 0
        first, second = (x[..., :4], x[..., 4:]) if layout == "halves" else (x[..., 0::2], x[..., 1::2])
        turned = (first + 1j * second) * np.exp(1j * angles)
        wanted = np.empty_like(x)
        a, b = (wanted[..., :4], wanted[..., 4:]) if layout == "halves" else (wanted[..., 0::2], wanted[..., 1::2])
        a[...], b[...] = turned.real, turned.imag
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=0, atol=1e-12)
        back = ["apply", "rope", str(tmp_path / "y.npy"), "--layout", layout, *words, "--inverse", "-q"]
        assert run([*back, "-o", str(tmp_path / "z.npy")]) == 0
        np.testing.assert_allclose(np.load(tmp_path / "z.npy"), x, rtol=0, atol=1e-14)


def test_a_grid_is_added(tmp_path):
    x = np.zeros((6, 16))
    np.save(tmp_path / "x.npy", x)
    words = ["apply", "sinusoidal", str(tmp_path / "x.npy"), "--grid", "2x3", "--style", "mae", "-q"]
    assert run([*words, "-o", str(tmp_path / "y.npy")]) == 0
    wanted = Sinusoidal(grid=(2, 3), dim=16, style="mae", dtype="float64").tables()["pe"]
    assert np.array_equal(np.load(tmp_path / "y.npy"), wanted)
    words[4] = "3x3"
    assert run([*words, "-o", str(tmp_path / "y.npy")]) == 2
