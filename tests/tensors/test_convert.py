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


def test_queries_and_keys_move_and_nothing_else(tmp_path: Path, run_pecli) -> None:
    """`moved_by_hand` is the view and transpose of the public conversion scripts; the command and
    the Python function move the same rows, and the metadata of the file stay.
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
def test_a_conversion_there_and_back_gives_the_same_file(
    tmp_path: Path, run_pecli, dtype: type
) -> None:
    """Interleaved to halves changes the file, and back to interleaved gives the same bytes, in
    three dtypes.
    """
    tensors = {name: array for name, array in checkpoint(dtype).items() if "norm" not in name}
    paths = [tmp_path / f"{name}.safetensors" for name in "abc"]
    save_file(tensors, paths[0], metadata={"format": "pt"})

    assert run_pecli("convert", paths[0], *HALVES_OF, "-o", paths[1]).exit_code == SUCCESS

    back = ("--from", "halves", "--to", "interleaved", "--heads", HEADS)
    assert run_pecli("convert", paths[1], *back, "-o", paths[2]).exit_code == SUCCESS
    assert paths[0].read_bytes() != paths[1].read_bytes()
    assert paths[0].read_bytes() == paths[2].read_bytes()


def without_move(made: Converted, name: str) -> Converted:
    """As if one tensor had been forgotten."""
    still = {each: move for each, move in made.moves.items() if each != name}
    forgotten = made.moves[name]._replace(order=np.arange(len(made.moves[name].order)))
    return replace(made, moves={**still, name: forgotten})


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("source", ["interleaved", "deepseek"])
def test_a_check_finds_scores_unchanged_unless_a_tensor_was_forgotten(
    rotary_dim: int | None, trailing: bool, source: str
) -> None:
    """The check computes q·k before and after; forgetting one tensor changes scores by more than a
    thousandth.
    """
    weights = {name: 1e6 * each for name, each in checkpoint().items() if "norm" not in name}
    made = converted_to_halves(
        weights, source, heads=HEADS, kv_heads=KV_HEADS, rotary_dim=rotary_dim, trailing=trailing
    )

    assert made.check().change < 1e-14
    assert without_move(made, "model.layers.1.self_attn.q_proj.weight").check().change > 1e-3


@pytest.mark.parametrize(("value", "change"), [(0.0, 0.0), (np.inf, np.inf), (np.nan, np.inf)])
def test_scores_of_zeros_do_not_change_and_infinite_ones_prove_nothing(
    value: float, change: float
) -> None:
    """The change is relative; one that cannot be computed counts as infinite, not as zero."""
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

    assert "the spec of the file no longer holds" in run_pecli(*words, "-o", tmp_path / "b.npy").out
    assert run_pecli(*words, "-q", "-o", tmp_path / "b.safetensors").exit_code == SUCCESS
    assert "carries no pecli spec" in run_pecli("verify", tmp_path / "b.safetensors").err

    halves = pecli.Sinusoidal(9, 8, layout="halves").tables()["pe"]
    assert np.array_equal(np.load(tmp_path / "b.npy"), halves)
    assert np.array_equal(convert(pecli.Sinusoidal(9, 8).tables()["pe"], *TO_HALVES), halves)


@pytest.mark.parametrize(
    ("layout", "words"), [("compact", "one column per pair"), ("interleaved", "says interleaved")]
)
def test_a_layout_that_contradicts_the_spec_of_the_file_is_refused(
    tmp_path: Path, run_pecli, layout: str, words: str
) -> None:
    """The user states --from halves, but the spec in the file states the layout of the row."""
    pecli.save(tmp_path / "a.npz", pecli.Rope(9, 8, layout=layout))
    done = run_pecli(
        "convert",
        tmp_path / "a.npz",
        "--from",
        "halves",
        "--to",
        "interleaved",
        "-o",
        tmp_path / "b.npz",
    )

    assert done.exit_code == USAGE_ERROR
    assert words in done.err


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_a_conversion_of_the_format_keeps_the_spec(tmp_path: Path, run_pecli, suffix: str) -> None:
    """`pecli convert a.npz -o b.SUFFIX` without --from and --to moves no columns: the file keeps
    its tables and its spec, the stored parameters of the scheme, by which `pecli.verify` checks it.
    """
    pecli.save(tmp_path / "a.npz", pecli.Rope(9, 8))
    assert (
        run_pecli("convert", tmp_path / "a.npz", "-o", tmp_path / f"b.{suffix}").exit_code
        == SUCCESS
    )
    assert pecli.verify(tmp_path / f"b.{suffix}").passed

    found = pecli.load(tmp_path / f"b.{suffix}")
    assert all(
        np.array_equal(found[name], array) for name, array in pecli.Rope(9, 8).tables().items()
    )


def test_projections_are_recognised_by_their_names() -> None:
    """Names as they stand in public checkpoints."""
    known = {
        "q": "layers.0.attention.wq.weight blk.0.attn_q.weight a.self_attn.q_norm.weight h.query.bias",
        "k": "layers.0.attention.wk.weight blk.3.attn_k.bias a.k_proj.lora_B.weight k_proj_bias",
        "qkv": "h.0.Wqkv.weight gpt_neox.layers.0.attention.query_key_value.bias h.0.attn.qkv_proj.weight",
        "latent": "a.kv_a_proj_with_mqa.weight",
        "": "a.v_proj.weight a.o_proj.weight mask.weight tok.kernel quant.scale query_states a.q_a_proj.weight "
        "a.q_a_layernorm.weight a.q_proj.lora_A.weight attn.k_scale",
    }
    for kind, names in known.items():
        for name in names.split():
            found = projection(name)
            assert (found.kind if found else "") == kind, name


def test_norms_of_several_shapes_move_with_their_channels(tmp_path: Path) -> None:
    """(head_dim,) as Qwen 3 has them, (heads · head_dim,) as OLMo 2, (heads, head_dim) as Cohere."""
    for shape, heads in (((DIM,), 1), ((HEADS * DIM,), HEADS), ((HEADS, DIM), HEADS)):
        weight = RNG.standard_normal(shape)
        layout = HeadDivision(HEADS, KV_HEADS, DIM)
        expected = moved_by_hand(weight.reshape(-1), heads).reshape(shape)
        assert np.array_equal(moved_weight("a.q_norm.weight", weight, layout), expected)

    weight = RNG.standard_normal((HEADS * DIM, 3))
    assert np.array_equal(
        moved_weight("a.q_proj.weight", weight, HeadDivision(HEADS)), moved_by_hand(weight, HEADS)
    )


@pytest.mark.parametrize("shape", [(DIM,), (KV_HEADS * DIM,), (KV_HEADS, DIM)])
def test_a_check_sees_norms_and_biases(shape: tuple[int, ...]) -> None:
    """Forgetting to move the norm of keys, in one of its three shapes, or a bias must change
    scores.
    """
    at = "model.layers.0.self_attn"
    made = converted_to_halves(
        checkpoint() | {f"{at}.k_norm.weight": RNG.standard_normal(shape)},
        heads=HEADS,
        kv_heads=KV_HEADS,
    )

    assert made.check().change < 1e-14
    for lost in ("k_norm.weight", "q_proj.bias"):
        assert without_move(made, f"{at}.{lost}").check().change > 1e-3


@pytest.mark.parametrize(
    "include", ["*q_proj.weight", "*q_proj*", "*[qk]_proj.weight", "*[qk]_proj*"]
)
def test_a_check_refuses_layers_of_which_a_part_stays(include: str) -> None:
    """The patterns of --include choose weights without their biases, or queries without keys:
    scores would change.
    """
    with pytest.raises(ParameterError, match=r"_(proj|norm)\.(weight|bias)' did not move"):
        converted_to_halves(
            checkpoint(), heads=HEADS, kv_heads=KV_HEADS, head_dim=DIM, include=[include]
        ).check()


def test_a_check_names_weights_without_a_partner(tmp_path: Path, run_pecli) -> None:
    """The second layer has a query weight alone, which makes no score; the first is checked."""
    whole = checkpoint()
    lone = {
        name: whole[name] for name in whole if "layers.1" not in name or "q_proj.weight" in name
    }
    made = converted_to_halves(lone, heads=HEADS, kv_heads=KV_HEADS).check()

    assert made.layers == 1
    assert made.unpaired == ["model.layers.1.self_attn.q_proj.weight"]

    save_file(lone, tmp_path / "a.safetensors")
    told = run_pecli("convert", tmp_path / "a.safetensors", *HALVES_OF, "--check", "--json").json
    assert told["score_change"] == made.change
    assert told["checked"]["layers"] == 1
    assert told["checked"]["unpaired"] == made.unpaired
    assert made.unpaired[0] in told["checked"]["proves"]
    with pytest.raises(ParameterError, match="no query and key weights that go together"):
        converted_to_halves(
            {name: array for name, array in lone.items() if "layers.1" in name}, heads=HEADS
        ).check()


def test_a_single_pattern_may_be_given_as_a_text() -> None:
    """«a.*» must not be taken for the patterns a, . and *."""
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


def test_a_cast_rounds_once_to_nearest_even() -> None:
    """1 + 2^-11 + 2^-20 is above the tie between two float16; 1 + 2^-8 + 2^-40, between bfloat16."""
    single = np.array([[1 + 2.0**-11 + 2.0**-20, 0.1]], np.float32)
    assert convert(single, dtype="float16").tobytes() == single.astype(np.float16).tobytes()

    double = np.array([1 + 2.0**-8 + 2.0**-40])
    assert convert(double, dtype="bfloat16").astype(float).tolist() == [1 + 2.0**-7]


def test_rows_of_every_head_move_alike() -> None:
    """Of two heads of four rows, the pairs (0, 2) and (1, 3) become neighbours."""
    name = "layers.0.self_attn.q_proj.weight"
    weight = np.arange(8.0)[:, None] * np.ones(4)
    moved = convert({name: weight}, "halves", "interleaved", heads=2)[name]

    assert moved[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_projections_of_one_tower_alone_need_no_pattern() -> None:
    """--include is needed only if towers of different heads are in one file."""
    tower = {"vision_model.q_proj": np.zeros((8, 2)), "vision_model.k_proj": np.zeros((8, 2))}
    assert [*convert(tower, "interleaved", "halves", heads=2)] == [*tower]


def test_a_model_is_refused_for_a_cast_without_layouts() -> None:
    """A model states how heads are divided; that matters only if pairs move, for which from and to
    are missing, and not for a cast.
    """
    weights = {"model.layers.0.self_attn.q_proj.weight": np.zeros((4, 4), np.float32)}
    with pytest.raises(ParameterError, match="from is missing; `heads`, `rotary_dim` and"):
        pecli.convert(weights, model="llama-2-7b", dtype="float16")


def test_the_only_weight_of_a_file_needs_no_name() -> None:
    """Of two heads of four rows, the pairs (0, 2) and (1, 3) become neighbours."""
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


def test_vectors_beside_tables_stay() -> None:
    """`convert` from interleaved to halves moves columns 0 1 2 3 of cos to 0 2 1 3; inv_freq has
    one number per pair, in an order that no layout changes.
    """
    tables = {"cos": np.array([[0, 1, 2, 3]]), "inv_freq": np.array([0, 1])}
    moved = convert(tables, "interleaved", "halves")
    assert moved["cos"].tolist() == [[0, 2, 1, 3]]
    assert moved["inv_freq"].tolist() == [0, 1]


def test_no_pattern_means_all_tables() -> None:
    """None stands for no pattern; the pairs (0, 1) and (2, 3) become 0 2 1 3."""
    moved = convert(np.array([[0, 1, 2, 3]]), "interleaved", "halves", include=None)
    assert moved.tolist() == [[0, 2, 1, 3]]


def test_only_tensors_of_another_dtype_are_cast() -> None:
    """«single» is float32 already."""
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
