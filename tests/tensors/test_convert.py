"""Conversions move what they should, change no score, and leave every other byte alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pecli
from pecli.engine.table import table_of
from pecli.errors import FileError, ParameterError
from pecli.files import open_tensors
from pecli.tensors.convert import Conversion, convert
from pecli.tensors.head_layout import Heads, Layer, in_heads, layers, projection

RNG = np.random.default_rng(7)
HEADS, KV, DIM, INPUTS = 4, 2, 8, 16


def checkpoint(dtype: type = np.float32) -> dict[str, np.ndarray]:
    made = {"model.embed.weight": RNG.standard_normal((10, INPUTS)), "model.norm.weight": np.ones(INPUTS)}
    for layer in range(2):
        at = f"model.layers.{layer}.self_attn"
        for name, rows in (("q_proj", HEADS * DIM), ("k_proj", KV * DIM), ("v_proj", KV * DIM)):
            made[f"{at}.{name}.weight"] = RNG.standard_normal((rows, INPUTS))
            made[f"{at}.{name}.bias"] = RNG.standard_normal(rows)
        made[f"{at}.q_norm.weight"] = RNG.standard_normal(DIM)
    found = {name: array.astype(dtype) for name, array in made.items()}
    found["steps"] = np.arange(3)
    return found


def converted(path: Path, output: Path, conversion: Conversion) -> dict[str, np.ndarray]:
    with open_tensors(str(path)) as file:
        convert(file, conversion).save(str(output))
    return load_file(output)


def by_hand(weight: np.ndarray, heads: int) -> np.ndarray:
    """Interleaved to halves, as the public conversion scripts write it."""
    view = weight.reshape(heads, DIM // 2, 2, *weight.shape[1:])
    return view.swapaxes(1, 2).reshape(weight.shape)


TO_HALVES = Conversion("interleaved", "halves", Heads(HEADS, KV))
BACK = Conversion("halves", "interleaved", Heads(HEADS, KV))


def test_queries_and_keys_move_and_nothing_else(tmp_path: Path) -> None:
    old = checkpoint()
    save_file(old, tmp_path / "a.safetensors", metadata={"format": "pt", "b": "ü"})
    new = converted(
        tmp_path / "a.safetensors",
        tmp_path / "b.safetensors",
        Conversion("interleaved", "halves", Heads(HEADS, KV, DIM)),
    )
    for name, array in old.items():
        heads = 1 if "q_norm" in name else HEADS if "q_proj" in name else KV if "k_proj" in name else 0
        expected = by_hand(array, heads) if heads else array
        assert np.array_equal(new[name], expected), name
    with open_tensors(str(tmp_path / "b.safetensors")) as file:
        assert file.metadata == {"format": "pt", "b": "ü"}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_there_and_back_is_the_same_file(tmp_path: Path, dtype: type) -> None:
    tensors = {name: array for name, array in checkpoint(dtype).items() if "norm" not in name}
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    converted(tmp_path / "a.safetensors", tmp_path / "b.safetensors", TO_HALVES)
    converted(tmp_path / "b.safetensors", tmp_path / "c.safetensors", BACK)
    assert (tmp_path / "a.safetensors").read_bytes() != (tmp_path / "b.safetensors").read_bytes()
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()


def test_dtypes_that_nothing_here_computes_with_are_copied(tmp_path: Path) -> None:
    scales = np.arange(16, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    header = b'{"s":{"dtype":"F8_E8M0","shape":[16],"data_offsets":[0,16]},'
    header += b'"q_proj":{"dtype":"F32","shape":[4,1],"data_offsets":[16,32]}}  '
    data = len(header).to_bytes(8, "little") + header + scales.tobytes() + np.arange(4, dtype="<f4").tobytes()
    (tmp_path / "a.safetensors").write_bytes(data)
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        convert(file, Conversion("interleaved", "halves", Heads(1, 1))).save(str(tmp_path / "b.safetensors"))
    found = (tmp_path / "b.safetensors").read_bytes()
    assert found[:-16] == data[:-16]
    assert np.frombuffer(found[-16:], "<f4").tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("source", ["interleaved", "deepseek"])
def test_scores_stay_and_a_wrong_claim_shows(
    tmp_path: Path, rotary_dim: int | None, trailing: bool, source: str
) -> None:
    save_file({name: each for name, each in checkpoint().items() if "norm" not in name}, tmp_path / "a.safetensors")
    layout = Heads(HEADS, KV, rotary_dim=rotary_dim, trailing=trailing)
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        made = convert(file, Conversion(source, "halves", layout))
        assert made.check().change < 1e-14
        query = "model.layers.1.self_attn.q_proj.weight"
        made.tables[query] = next(table for table in file.tables if table.name == query)  # as if it had been forgotten
        assert made.check().change > 1e-3


@pytest.mark.parametrize(("value", "change"), [(0.0, 0.0), (np.inf, np.inf), (np.nan, np.inf)])
def test_scores_that_are_no_measure(tmp_path: Path, value: float, change: float) -> None:
    weights = {f"{name}_proj.weight": np.full((HEADS * DIM, INPUTS), value) for name in "qk"}
    save_file(weights, tmp_path / "a.safetensors")
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        assert convert(file, Conversion("interleaved", "halves", Heads(HEADS, HEADS))).check().change == change


def test_a_fused_projection_keeps_its_values() -> None:
    rows = (HEADS + 2 * KV) * DIM
    weight = RNG.standard_normal((rows, 3))
    made = in_heads(
        table_of("h.0.self_attn.qkv_proj.weight", weight), Heads(HEADS, KV), "interleaved", "halves"
    ).array()
    turning = (HEADS + KV) * DIM
    assert np.array_equal(made[:turning], by_hand(weight[:turning], HEADS + KV))
    assert np.array_equal(made[turning:], weight[turning:])


@pytest.mark.parametrize("rows", [1, 3, 8, 13])
def test_any_block_of_rows_is_the_same(rows: int) -> None:
    weight = RNG.standard_normal((HEADS * DIM, 5))
    table = in_heads(table_of("q_proj.weight", weight), Heads(HEADS, KV, rotary_dim=6), "interleaved", "halves")
    assert np.array_equal(np.concatenate(list(table.blocks(rows))), table.array())


def test_columns_of_tables_move(tmp_path: Path) -> None:
    pecli.save(tmp_path / "a.safetensors", pecli.Sinusoidal(9, 8))
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        made = convert(file, Conversion("interleaved", "halves"))
        made.save(str(tmp_path / "b.npy"))
        assert made.loses_spec
    assert np.array_equal(np.load(tmp_path / "b.npy"), pecli.Sinusoidal(9, 8, layout="halves").tables()["pe"])


@pytest.mark.parametrize("name", ["cos", "sin"])
def test_doubled_columns_of_rotary_tables_move(tmp_path: Path, name: str) -> None:
    pecli.save(tmp_path / "a.npz", pecli.Rope(9, 8, layout="halves"))
    with open_tensors(str(tmp_path / "a.npz")) as file:
        moved = convert(file, Conversion("halves", "interleaved")).tables[name].array()
    angles = [[position * 10000 ** (-2 * (column // 2) / 8) for column in range(8)] for position in range(9)]
    assert np.allclose(moved, {"cos": np.cos, "sin": np.sin}[name](angles), atol=1e-7)


@pytest.mark.parametrize(("layout", "words"), [("compact", "one column per pair"), ("interleaved", "says interleaved")])
def test_a_spec_that_says_otherwise(tmp_path: Path, layout: str, words: str) -> None:
    pecli.save(tmp_path / "a.npz", pecli.Rope(9, 8, layout=layout))
    with open_tensors(str(tmp_path / "a.npz")) as file, pytest.raises(ParameterError, match=words):
        convert(file, Conversion("halves", "interleaved"))


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_a_format_keeps_the_spec(tmp_path: Path, suffix: str) -> None:
    pecli.save(tmp_path / "a.npz", pecli.Rope(9, 8))
    with open_tensors(str(tmp_path / "a.npz")) as file:
        convert(file, Conversion()).save(str(tmp_path / f"b.{suffix}"))
    assert pecli.verify(tmp_path / f"b.{suffix}").passed
    found = pecli.load(tmp_path / f"b.{suffix}")
    assert all(np.array_equal(found[name], array) for name, array in pecli.Rope(9, 8).tables().items())


@pytest.mark.parametrize("kv_heads", [None, KV])
def test_heads_are_of_one_size(tmp_path: Path, kv_heads: int | None) -> None:
    """Keys that several queries share have fewer heads, not smaller ones."""
    old = checkpoint()
    save_file(old, tmp_path / "a.safetensors")
    new = converted(
        tmp_path / "a.safetensors", tmp_path / "b.safetensors", replace(TO_HALVES, heads=Heads(HEADS, kv_heads))
    )
    name = "model.layers.0.self_attn.k_proj.weight"
    assert np.array_equal(new[name], by_hand(old[name], KV))


def test_keys_that_do_not_fit_the_queries(tmp_path: Path) -> None:
    save_file({"q_proj": np.zeros((32, 3)), "k_proj": np.zeros((12, 3))}, tmp_path / "a.safetensors")
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        for layout in (Heads(4), Heads(4, 2), Heads(4, 4)):
            with pytest.raises(ParameterError, match=r"'k_proj' is \(12, 3\)"):
                convert(file, replace(TO_HALVES, heads=layout))
        with pytest.raises(ParameterError, match="heads is missing"):
            convert(file, Conversion("interleaved", "halves"))


def test_projections_by_name() -> None:
    known = {"q": ["layers.0.attention.wq.weight", "blk.0.attn_q.weight", "a.self_attn.q_norm.weight", "h.query.bias"]}
    known |= {"k": ["layers.0.attention.wk.weight", "blk.3.attn_k.bias", "a.k_proj.lora_B.weight", "k_proj_bias"]}
    known |= {
        "qkv": ["h.0.Wqkv.weight", "gpt_neox.layers.0.attention.query_key_value.bias", "h.0.attn.qkv_proj.weight"]
    }
    known |= {"latent": ["a.kv_a_proj_with_mqa.weight"]}
    known |= {"": ["a.v_proj.weight", "a.o_proj.weight", "mask.weight", "tok.kernel", "quant.scale", "query_states"]}
    known[""] += ["a.q_a_proj.weight", "a.q_a_layernorm.weight", "a.q_proj.lora_A.weight", "attn.k_scale"]
    found = {name: projection(name) for names in known.values() for name in names}
    assert {name: each.kind if each else "" for name, each in found.items()} == {
        name: kind for kind, names in known.items() for name in names
    }
    assert layers(["l.0.q.w", "l.1.q.w", "l.0.k.w"]) == [Layer("l.0.q.w", "l.0.k.w")]


def test_norms_of_several_shapes_move_with_their_channels(tmp_path: Path) -> None:
    """(head_dim,) as Qwen 3 has them, (heads · head_dim,) as OLMo 2, (heads, head_dim) as Cohere."""
    for shape, heads in (((DIM,), 1), ((HEADS * DIM,), HEADS), ((HEADS, DIM), HEADS)):
        weight = RNG.standard_normal(shape)
        layout = Heads(HEADS, KV, DIM)
        made = in_heads(table_of("a.q_norm.weight", weight), layout, "interleaved", "halves").array()
        assert np.array_equal(made, by_hand(weight.reshape(-1), heads).reshape(shape))


@pytest.mark.parametrize("lost", ["k_norm.weight", "q_proj.bias"])
def test_a_check_sees_norms_and_biases(tmp_path: Path, lost: str) -> None:
    save_file(
        checkpoint() | {"model.layers.0.self_attn.k_norm.weight": RNG.standard_normal(DIM)}, tmp_path / "a.safetensors"
    )
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        made = convert(file, Conversion("interleaved", "halves", Heads(HEADS, KV)))
        assert made.check().change < 1e-14
        name = f"model.layers.0.self_attn.{lost}"
        made.tables[name] = next(table for table in file.tables if table.name == name)
        assert made.check().change > 1e-3


@pytest.mark.parametrize(
    ("shape", "layout", "words"),
    [
        ((30, 4), Heads(4, 4), "(30, 4)"),
        ((32, 4), Heads(4, 4, head_dim=16), "4 heads of 16, that is 64 rows"),
        ((12, 4), Heads(4, 4), "rotary_dim is 3"),
        ((32, 4), Heads(4, 4, rotary_dim=10), "at most the 8"),
        ((4, 4, 4), Heads(4, 4), "(4, 4, 4)"),
        ((), Heads(4, 4), "()"),
    ],
)
def test_shapes_that_do_not_fit(shape: tuple[int, ...], layout: Heads, words: str) -> None:
    with pytest.raises(ParameterError) as problem:
        in_heads(table_of("q_proj.weight", np.zeros(shape)), layout, "interleaved", "halves")
    assert words in str(problem.value)


def test_what_cannot_be_meant(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="multiple"):
        Heads(6, 4)
    for wrong in ({"source": "halves"}, {"heads": Heads(1, 1)}, {"include": ("*",)}):
        with pytest.raises(ParameterError, match="missing"):
            Conversion(**wrong)
    save_file({"a": np.zeros((4, 4)), "b": np.zeros(4)}, tmp_path / "a.safetensors")
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        with pytest.raises(ParameterError, match="include is missing"):
            convert(file, TO_HALVES)
        with pytest.raises(ParameterError, match=r"include is 'q\*'"):
            convert(file, Conversion("halves", "interleaved", Heads(1, 1), include=("q*",)))
        with pytest.raises(FileError, match="go together"):
            convert(file, Conversion("halves", "interleaved", Heads(1, 1), include=("a",))).check()


@pytest.mark.parametrize("length", [2**64 - 1, 2**40, 8])
def test_a_header_that_changes_meanwhile_is_told(tmp_path: Path, length: int) -> None:
    save_file(checkpoint(), tmp_path / "a.safetensors")
    with open_tensors(str(tmp_path / "a.safetensors")) as file:
        made = convert(file, Conversion())
        with open(tmp_path / "a.safetensors", "r+b") as stream:
            stream.write(length.to_bytes(8, "little"))
        with pytest.raises(FileError, match="changed while it was read"):
            made.save(str(tmp_path / "b.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
