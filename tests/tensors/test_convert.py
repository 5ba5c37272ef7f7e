"""Conversions of weights from one layout of pairs to another move the rows of queries and keys,
change no attention score, and leave every other byte alone.

In the layout «halves» channel i rotates with channel i + d/2, in «interleaved» channels 2i and 2i +
1. The checkpoint of these tests has two layers with 4 query heads and 2 key heads of 8 channels,
with random weights. Expected rows are moved by `moved_by_hand`, the view and transpose of the
public conversion scripts; the `--check` of a conversion computes scores q·k before and after it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pecli
from pecli.errors import ParameterError
from pecli.tensors.conversion import Converted
from pecli.tensors.convert import convert, converted
from pecli.tensors.head_layout import HeadDivision
from pecli.tensors.projections import projection, weight_of
from tests.exit_codes import SUCCESS, USAGE_ERROR

RNG = np.random.default_rng(7)
HEADS, KV_HEADS, DIM, INPUTS = 4, 2, 8, 16


def checkpoint(dtype: type = np.float32) -> dict[str, np.ndarray]:
    made = {
        "model.embed.weight": RNG.standard_normal((10, INPUTS)),
        "model.norm.weight": np.ones(INPUTS),
    }
    for layer in range(2):
        at = f"model.layers.{layer}.self_attn"
        for name, rows in (
            ("q_proj", HEADS * DIM),
            ("k_proj", KV_HEADS * DIM),
            ("v_proj", KV_HEADS * DIM),
        ):
            made[f"{at}.{name}.weight"] = RNG.standard_normal((rows, INPUTS))
            made[f"{at}.{name}.bias"] = RNG.standard_normal(rows)
        made[f"{at}.q_norm.weight"] = RNG.standard_normal(DIM)
    found = {name: array.astype(dtype) for name, array in made.items()}
    found["steps"] = np.arange(3)
    return found


def moved_by_hand(weight: np.ndarray, heads: int) -> np.ndarray:
    """Interleaved to halves, as the public conversion scripts write it."""
    view = weight.reshape(heads, DIM // 2, 2, *weight.shape[1:])
    return view.swapaxes(1, 2).reshape(weight.shape)


TO_HALVES = ("interleaved", "halves")
HALVES_OF = (
    "--from",
    "interleaved",
    "--to",
    "halves",
    "--heads",
    str(HEADS),
    "--kv-heads",
    str(KV_HEADS),
)


def converted_to_halves(
    arrays: dict[str, np.ndarray], source: str = "interleaved", **heads: Any
) -> Converted:
    return converted(arrays, "a test", source, "halves", **heads)


def heads_of_tensor(name: str) -> int | None:
    """Return the number of heads whose rows move; a norm has one row per channel of a head."""
    if "q_norm" in name:
        return 1
    if "q_proj" in name:
        return HEADS
    if "k_proj" in name:
        return KV_HEADS
    return None


def test_convert_moves_the_rows_of_queries_and_keys_and_changes_nothing_else(
    tmp_path: Path, run_pecli
) -> None:
    """Rows of q_proj, k_proj and q_norm must be moved as by the view and transpose of the public
    conversion scripts (`moved_by_hand`), and other tensors and the metadata of the file stay. The
    command and the Python function do the same.
    """
    old = checkpoint()
    source = tmp_path / "a.safetensors"
    target = tmp_path / "b.safetensors"
    save_file(old, source, metadata={"format": "pt", "b": "ü"})
    outcome = run_pecli("convert", source, *HALVES_OF, "--head-dim", DIM, "-o", target)
    assert outcome.exit_code == SUCCESS

    by_command = load_file(target)
    by_function = convert(old, *TO_HALVES, heads=HEADS, head_dim=DIM)
    for name, array in old.items():
        heads = heads_of_tensor(name)
        expected = array if heads is None else moved_by_hand(array, heads)
        assert np.array_equal(by_command[name], expected), name
        assert np.array_equal(by_function[name], expected), name
    with safe_open(target, "numpy") as file:
        assert file.metadata() == {"format": "pt", "b": "ü"}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_conversion_to_halves_and_back_to_interleaved_gives_the_same_bytes(
    tmp_path: Path, run_pecli, dtype: type
) -> None:
    """Rows are only moved, never computed, so that no bit may be lost; the file between differs."""
    tensors = {name: array for name, array in checkpoint(dtype).items() if "norm" not in name}
    original = tmp_path / "original.safetensors"
    in_halves = tmp_path / "in_halves.safetensors"
    returned = tmp_path / "returned.safetensors"
    save_file(tensors, original, metadata={"format": "pt"})

    to_halves = ("--from", "interleaved", "--to", "halves", "--heads", HEADS)
    to_halves = (*to_halves, "--kv-heads", KV_HEADS)
    to_interleaved = ("--from", "halves", "--to", "interleaved", "--heads", HEADS)
    assert run_pecli("convert", original, *to_halves, "-o", in_halves).exit_code == SUCCESS
    assert run_pecli("convert", in_halves, *to_interleaved, "-o", returned).exit_code == SUCCESS

    assert in_halves.read_bytes() != original.read_bytes()
    assert returned.read_bytes() == original.read_bytes()


def without_move(made: Converted, name: str) -> Converted:
    """Return the conversion as if one tensor had been forgotten: its rows stay where they are."""
    still = {each: move for each, move in made.moves.items() if each != name}
    forgotten = made.moves[name]._replace(order=np.arange(len(made.moves[name].order)))
    return replace(made, moves={**still, name: forgotten})


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("source", ["interleaved", "deepseek"])
def test_a_check_finds_scores_unchanged_unless_a_tensor_was_forgotten(
    rotary_dim: int | None, trailing: bool, source: str
) -> None:
    """`check` rotates q and k in the old and the new layout, and compares the scores q·k. The change is
    relative to their size: weights are a million times as large as usual, and a correct conversion
    still changes scores by roundings of float64 only (some of 1e-16), a forgotten tensor by more than
    a thousandth. Norms would divide the million out of q; they have a test of their own.
    """
    weights = {name: 1e6 * each for name, each in checkpoint().items() if "norm" not in name}
    conversion = converted_to_halves(
        weights, source, heads=HEADS, kv_heads=KV_HEADS, rotary_dim=rotary_dim, trailing=trailing
    )
    faulty = without_move(conversion, "model.layers.1.self_attn.q_proj.weight")

    assert conversion.check().change < 1e-14
    assert faulty.check().change > 1e-3


@pytest.mark.parametrize(
    ("value", "change"),
    [
        pytest.param(0.0, 0.0, id="zeros"),
        pytest.param(np.inf, np.inf, id="infinite"),
        pytest.param(np.nan, np.inf, id="NaN"),
    ],
)
def test_the_change_of_scores_is_0_for_zeros_and_infinite_for_infinite_weights(
    value: float, change: float
) -> None:
    """All weights are `value`. The change of scores is relative to their size: one that cannot be
    computed proves nothing, and counts as infinite, not as zero.
    """
    weights = {f"{name}_proj.weight": np.full((HEADS * DIM, INPUTS), value) for name in "qk"}
    assert converted_to_halves(weights, heads=HEADS, kv_heads=HEADS).check().change == change


def moved_weight(name: str, weight: np.ndarray, layout: HeadDivision) -> np.ndarray:
    move = layout.move(weight_of(name, weight), *TO_HALVES)
    return np.take(weight, move.order, axis=move.axis)


def test_columns_of_a_table_move_and_its_spec_is_dropped(tmp_path: Path, run_pecli) -> None:
    """`pecli save` writes a spec into a file: the parameters of the scheme that its table has.
    `pecli convert --from interleaved --to halves` moves columns, so the spec no longer holds, and
    the new file has none. The expected table is the one that pecli makes in halves.
    """
    pecli.save(tmp_path / "a.safetensors", pecli.Sinusoidal(9, 8))
    words = ("convert", tmp_path / "a.safetensors", "--from", "interleaved", "--to", "halves")
    outcome = run_pecli(*words, "-o", tmp_path / "b.npy")

    assert "the spec of the file no longer holds" in outcome.out
    assert run_pecli(*words, "-q", "-o", tmp_path / "b.safetensors").exit_code == SUCCESS
    assert "carries no pecli spec" in run_pecli("verify", tmp_path / "b.safetensors").err

    halves = pecli.Sinusoidal(9, 8, layout="halves").tables()["pe"]
    assert np.array_equal(np.load(tmp_path / "b.npy"), halves)
    assert np.array_equal(convert(pecli.Sinusoidal(9, 8).tables()["pe"], *TO_HALVES), halves)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        pytest.param("compact", "one column per pair", id="nothing to move"),
        pytest.param("interleaved", "says interleaved", id="another layout"),
    ],
)
def test_a_layout_that_contradicts_the_spec_of_the_file_is_refused(
    tmp_path: Path, run_pecli, layout: str, words: str
) -> None:
    """The command has --from halves, but the file was saved with a spec of another layout."""
    source = tmp_path / "a.npz"
    pecli.save(source, pecli.Rope(9, 8, layout=layout))
    layouts = ("--from", "halves", "--to", "interleaved")
    outcome = run_pecli("convert", source, *layouts, "-o", tmp_path / "b.npz")

    assert outcome.exit_code == USAGE_ERROR
    assert words in outcome.err


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_a_conversion_of_the_format_keeps_the_spec(tmp_path: Path, run_pecli, suffix: str) -> None:
    """`pecli convert a.npz -o b.SUFFIX` without --from and --to moves no columns: the file keeps
    its tables and its spec, the stored parameters of the scheme, by which `pecli.verify` checks it.
    """
    source = tmp_path / "a.npz"
    target = tmp_path / f"b.{suffix}"
    pecli.save(source, pecli.Rope(9, 8))

    assert run_pecli("convert", source, "-o", target).exit_code == SUCCESS
    assert pecli.verify(target).passed

    tables = pecli.load(target)
    for name, array in pecli.Rope(9, 8).tables().items():
        assert np.array_equal(tables[name], array)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("layers.0.attention.wq.weight", "q"),
        ("blk.0.attn_q.weight", "q"),
        ("a.self_attn.q_norm.weight", "q"),
        ("h.query.bias", "q"),
        ("layers.0.attention.wk.weight", "k"),
        ("blk.3.attn_k.bias", "k"),
        ("a.k_proj.lora_B.weight", "k"),
        ("k_proj_bias", "k"),
        ("h.0.Wqkv.weight", "qkv"),
        ("gpt_neox.layers.0.attention.query_key_value.bias", "qkv"),
        ("h.0.attn.qkv_proj.weight", "qkv"),
        ("a.kv_a_proj_with_mqa.weight", "latent"),
    ],
)
def test_the_name_of_a_tensor_tells_the_kind_of_its_projection(name: str, kind: str) -> None:
    """The names are those of public checkpoints: queries, keys, all of q, k and v in one tensor, and
    DeepSeek's latent keys.
    """
    found = projection(name)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    "name",
    [
        "a.v_proj.weight",
        "a.o_proj.weight",
        "mask.weight",
        "tok.kernel",
        "quant.scale",
        "query_states",
        "a.q_a_proj.weight",
        "a.q_a_layernorm.weight",
        "a.q_proj.lora_A.weight",
        "attn.k_scale",
    ],
)
def test_a_tensor_that_holds_no_rows_of_queries_or_keys_is_no_projection(name: str) -> None:
    """The names are those of public checkpoints: values, outputs, masks, scales of quantisation, and
    matrices whose rows are a rank and not heads.
    """
    assert projection(name) is None


@pytest.mark.parametrize(
    ("shape", "heads_in_shape"),
    [((DIM,), 1), ((HEADS * DIM,), HEADS), ((HEADS, DIM), HEADS)],
    ids=["one for all heads, as in Qwen 3", "all heads in a row, as in OLMo 2", "Cohere"],
)
def test_the_norm_of_queries_moves_with_their_channels(
    shape: tuple[int, ...], heads_in_shape: int
) -> None:
    """A norm multiplies each channel by a number, which must move with its channel. `moved_by_hand` is
    the view and transpose of the public conversion scripts.
    """
    weight = RNG.standard_normal(shape)
    layout = HeadDivision(HEADS, KV_HEADS, DIM)
    expected = moved_by_hand(weight.reshape(-1), heads_in_shape).reshape(shape)
    assert np.array_equal(moved_weight("a.q_norm.weight", weight, layout), expected)


def test_the_width_of_heads_follows_from_rows_and_heads() -> None:
    """HeadDivision(4) states no width of a head: 32 rows are 4 heads of 8."""
    weight = RNG.standard_normal((HEADS * DIM, 3))
    moved = moved_weight("a.q_proj.weight", weight, HeadDivision(HEADS))
    assert np.array_equal(moved, moved_by_hand(weight, HEADS))


@pytest.mark.parametrize("forgotten", ["k_norm.weight", "q_proj.bias"])
@pytest.mark.parametrize("shape", [(DIM,), (KV_HEADS * DIM,), (KV_HEADS, DIM)])
def test_a_check_finds_a_norm_or_bias_that_was_forgotten(
    shape: tuple[int, ...], forgotten: str
) -> None:
    """The norm of keys has one of three shapes, as in public models. `check` compares the scores q·k
    before and after: roundings change them by less than 1e-14, a forgotten tensor by more than 1e-3.
    """
    at = "model.layers.0.self_attn"
    weights = checkpoint() | {f"{at}.k_norm.weight": RNG.standard_normal(shape)}
    conversion = converted_to_halves(weights, heads=HEADS, kv_heads=KV_HEADS)

    assert conversion.check().change < 1e-14
    assert without_move(conversion, f"{at}.{forgotten}").check().change > 1e-3


@pytest.mark.parametrize(
    "include", ["*q_proj.weight", "*q_proj*", "*[qk]_proj.weight", "*[qk]_proj*"]
)
def test_a_check_refuses_a_pattern_that_leaves_out_a_part_of_a_layer(include: str) -> None:
    """These patterns choose queries without keys, or weights without their biases or norms, so that
    scores would change.
    """
    with pytest.raises(ParameterError, match=r"_(proj|norm)\.(weight|bias)' did not move"):
        converted_to_halves(
            checkpoint(), heads=HEADS, kv_heads=KV_HEADS, head_dim=DIM, include=[include]
        ).check()


def checkpoint_without_keys_in_layer_1() -> dict[str, np.ndarray]:
    """Return the checkpoint, of whose second layer only the query weight is there."""
    return {
        name: array
        for name, array in checkpoint().items()
        if "layers.1" not in name or "q_proj.weight" in name
    }


def test_a_check_names_a_query_weight_without_keys(tmp_path: Path, run_pecli) -> None:
    """The second layer has a query weight only, which makes no score; the first layer is checked. The
    JSON of the command has the same result.
    """
    weights = checkpoint_without_keys_in_layer_1()
    result = converted_to_halves(weights, heads=HEADS, kv_heads=KV_HEADS).check()

    assert result.layers == 1
    assert result.unpaired == ["model.layers.1.self_attn.q_proj.weight"]

    save_file(weights, tmp_path / "a.safetensors")
    answer = run_pecli("convert", tmp_path / "a.safetensors", *HALVES_OF, "--check", "--json").json
    assert answer["score_change"] == result.change
    assert answer["checked"]["layers"] == 1
    assert answer["checked"]["unpaired"] == result.unpaired
    assert result.unpaired[0] in answer["checked"]["proves"]


def test_a_check_without_any_query_and_key_of_one_layer_is_refused() -> None:
    """A query weight makes no score without keys, so there is nothing to compare."""
    weights = {
        name: array
        for name, array in checkpoint_without_keys_in_layer_1().items()
        if "layers.1" in name
    }
    with pytest.raises(ParameterError, match="no query and key weights that go together"):
        converted_to_halves(weights, heads=HEADS).check()


def test_a_single_pattern_may_be_given_as_a_text() -> None:
    """`include` is a list of patterns or one text: «a.*» must not be taken for the patterns «a», «.»
    and «*», of which the last would move all tensors.
    """
    weights = {
        name: np.arange(64.0).reshape(8, 8) for name in ("a.q_proj.weight", "b.q_proj.weight")
    }
    moved = pecli.convert(weights, "interleaved", "halves", heads=2, include="a.*")

    assert not np.array_equal(moved["a.q_proj.weight"], weights["a.q_proj.weight"])
    assert np.array_equal(moved["b.q_proj.weight"], weights["b.q_proj.weight"])


@pytest.mark.parametrize("option", [{"heads": 2}, {"rotary_dim": 4}, {"include": "*.q_proj.*"}])
def test_options_about_moves_are_refused_for_a_cast(option: dict[str, Any]) -> None:
    """A cast changes the dtype alone, so that heads and channels do not matter; an option without
    effect is an error.
    """
    weights = {"a.q_proj.weight": np.ones((8, 8))}
    with pytest.raises(ParameterError, match="say how pairs move"):
        convert(weights, dtype="float16", **option)


def test_integers_and_booleans_are_not_cast() -> None:
    """Only «b» holds floats; ids and masks would lose their meaning."""
    tensors = {"a": np.arange(3), "b": np.ones(2), "c": np.ones(2, bool)}
    dtypes = {name: str(array.dtype) for name, array in convert(tensors, dtype="float16").items()}

    assert dtypes == {"a": "int64", "b": "float16", "c": "bool"}


def test_a_cast_to_float16_rounds_to_nearest_even_as_numpy_does() -> None:
    """1 + 2^-11 is the tie between two numbers of float16; 2^-20 above it, the upper one is nearer."""
    single = np.array([[1 + 2.0**-11 + 2.0**-20, 0.1]], np.float32)
    assert convert(single, dtype="float16").tobytes() == single.astype(np.float16).tobytes()


def test_a_cast_from_float64_to_bfloat16_rounds_once() -> None:
    """1 + 2^-8 is the tie between 1 and 1 + 2^-7 in bfloat16. 2^-40 above it, the upper one is
    nearer; rounding to float32 first would lose the 2^-40, and then round the tie to even, 1.
    """
    double = np.array([1 + 2.0**-8 + 2.0**-40])
    assert convert(double, dtype="bfloat16").astype(float).tolist() == [1 + 2.0**-7]


def test_rows_of_every_head_move_alike() -> None:
    """From halves to interleaved, the pairs (0, 2) and (1, 3) of each head of four rows become
    neighbours. The rows hold their numbers: 0 to 3 are the first head, 4 to 7 the second.
    """
    name = "layers.0.self_attn.q_proj.weight"
    weight = np.arange(8.0)[:, None] * np.ones(4)
    moved = convert({name: weight}, "halves", "interleaved", heads=2)[name]

    assert moved[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_file_with_a_single_tower_needs_no_pattern() -> None:
    """--include is required only if a file has projections of several towers, whose heads may
    differ.
    """
    tower = {"vision_model.q_proj": np.zeros((8, 2)), "vision_model.k_proj": np.zeros((8, 2))}
    assert [*convert(tower, "interleaved", "halves", heads=2)] == [*tower]


def test_a_model_is_refused_for_a_cast_without_layouts() -> None:
    """A model states how heads are divided; that matters only if pairs move, for which from and to
    are missing, and not for a cast.
    """
    weights = {"model.layers.0.self_attn.q_proj.weight": np.zeros((4, 4), np.float32)}
    with pytest.raises(ParameterError, match="from is missing; `heads`, `rotary_dim` and"):
        pecli.convert(weights, model="llama-2-7b", dtype="float16")


def test_the_only_weight_of_a_file_need_not_be_called_like_a_projection() -> None:
    """«array» is the name of the only tensor, for example of a .npy file. Its rows hold their numbers:
    in each of two heads of four rows, the pairs (0, 2) and (1, 3) become neighbours.
    """
    weight = np.arange(8.0, dtype=np.float32)[:, None] * np.ones(8, np.float32)
    moved = pecli.convert({"array": weight}, "halves", "interleaved", heads=2)

    assert moved["array"][:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_one_of_several_weights_must_be_called_like_a_projection() -> None:
    """Neither «a» nor «b» tells which of them holds queries."""
    weights = {name: np.zeros((8, 8), np.float32) for name in ("a", "b")}
    with pytest.raises(
        ParameterError, match="is called like a query or key projection; it has 'a'"
    ):
        pecli.convert(weights, "halves", "interleaved", heads=2)


def test_inv_freq_beside_a_table_of_cos_stays() -> None:
    """`convert` from interleaved to halves moves columns 0 1 2 3 of cos to 0 2 1 3; inv_freq has
    one number per pair, in an order that no layout changes.
    """
    tables = {"cos": np.array([[0, 1, 2, 3]]), "inv_freq": np.array([0, 1])}
    moved = convert(tables, "interleaved", "halves")
    assert moved["cos"].tolist() == [[0, 2, 1, 3]]
    assert moved["inv_freq"].tolist() == [0, 1]


def test_include_none_means_all_tables() -> None:
    """None is the default, no pattern. From interleaved to halves, the columns of the pairs (0, 1) and
    (2, 3) get the order 0 2 1 3.
    """
    moved = convert(np.array([[0, 1, 2, 3]]), "interleaved", "halves", include=None)
    assert moved.tolist() == [[0, 2, 1, 3]]


def test_only_tensors_of_another_dtype_are_listed_as_cast() -> None:
    """«single» is float32 already, the dtype of the cast."""
    tensors = {"single": np.zeros(3, np.float32), "double": np.zeros(3)}
    plan = converted(tensors, "a file", None, None, dtype="float32")
    assert plan.cast == ["double"]


def test_the_last_rows_of_a_latent_key_move() -> None:
    """DeepSeek's compressed keys have other rows than heads of queries: 12 of the rank, then 4 that
    rotate, from pairs (12, 13) and (14, 15) to halves.
    """
    layout = HeadDivision(HEADS, head_dim=10, rotary_dim=4, trailing=True)
    moved = moved_weight("a.kv_a_proj_with_mqa.weight", np.arange(16.0)[:, None], layout)

    assert moved.ravel().tolist() == [*range(12), 12, 14, 13, 15]
