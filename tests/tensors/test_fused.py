"""Tiny random models of each family, converted: their attention scores, by formulas of their own,
stay the same.

The formulas are written here from the published layouts of the families: how q and k are cut out of
the projections (fused rows, in one tensor, or separate ones), which channels rotate and how they
pair. A pair is a complex number, multiplied by exp(i · position · base^(−2i/d)). Models have 4
heads of 8 channels, mostly with 2 key heads (kv heads); `write_model` writes model.safetensors and
config.json. CONVERT_TO_INTERLEAVED is the command line without a model, BY_MODEL the one with
--config config.json.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.exit_codes import SUCCESS, USAGE_ERROR
from tests.oracle import turned

HEADS, DIM, HIDDEN = 4, 8, 32
POSITIONS = np.array([0, 1, 7, 40])
Weights = dict[str, np.ndarray]
QK = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def per_head(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """GPT-NeoX, BLOOM, Persimmon: [head, (q, k, v), channel]."""
    split = rows.reshape(HEADS, 3, DIM, -1)
    return split[:, 0], split[:, 1]


def multi_query(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Falcon 7B: the heads' queries, then one key and one value."""
    split = rows.reshape(HEADS + 2, DIM, -1)
    return split[:-2], split[-2:-1]


def grouped(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Falcon 40B, InternLM2: [key head, (its queries, k, v), channel]."""
    split = rows.reshape(2, HEADS // 2 + 2, DIM, -1)
    return split[:, :-2].reshape(HEADS, DIM, -1), split[:, -2]


def blocks(kv: int) -> QK:
    """Phi-3, ChatGLM: all queries, all keys, all values."""
    keys = slice(HEADS * DIM, (HEADS + kv) * DIM)
    return lambda rows: (
        rows[: HEADS * DIM].reshape(HEADS, DIM, -1),
        rows[keys].reshape(kv, DIM, -1),
    )


def shards(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CodeGen: four shards, each with its queries, values and keys in that order."""
    split = rows.reshape(4, 3, HEADS // 4, DIM, -1)
    return split[:, 0].reshape(HEADS, DIM, -1), split[:, 2].reshape(HEADS, DIM, -1)


@dataclass(frozen=True)
class Family:
    """A family of models: its configuration, its tensors, and where their queries and keys are.

    Attributes:
        config: The content of config.json.
        rotary: The channels of a head that rotate.
        tensors: The rows of each tensor, by name. The first is the fused one, or the first two are
            those of the queries and of the keys.
        split: Returns the queries and the keys in the rows of the fused tensor; None if they are in
            tensors of their own.
        kv: The number of key heads.
        pairing: The layout of the pairs of channels.
        norms: The weights by which normalised queries and keys are multiplied.
    """

    config: dict[str, Any]
    rotary: int
    tensors: dict[str, int]
    split: QK | None = None
    kv: int = HEADS
    pairing: str = "halves"
    norms: tuple[str, ...] = ()


def sizes(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 64,
        **more,
    }


def separate(
    at: str, kv: int, *, bias: bool = False, names: tuple[str, str] = ("q_proj", "k_proj")
) -> dict[str, int]:
    rows = dict(zip(names, (HEADS * DIM, kv * DIM), strict=True))
    made = {f"{at}.{name}.weight": count for name, count in rows.items()}
    if bias:
        made |= {f"{at}.{name}.bias": count for name, count in rows.items()}
    return made


def fused(name: str, heads: int, *, bias: bool = False) -> dict[str, int]:
    return {f"{name}.weight": heads * DIM} | ({f"{name}.bias": heads * DIM} if bias else {})


NEOX = "gpt_neox.layers.0.attention.query_key_value"
FALCON = "transformer.h.0.self_attention.query_key_value"
GLM = "transformer.encoder.layers.0.self_attention.query_key_value"
ATTENTION_OF_LAYER_0 = "model.layers.0.self_attn"
GPTJ = {"n_embd": HIDDEN, "n_head": HEADS, "rotary_dim": 4, "n_positions": 64}
GROUPED = sizes(num_key_value_heads=2)
NORMS = (f"{ATTENTION_OF_LAYER_0}.q_norm.weight", f"{ATTENTION_OF_LAYER_0}.k_norm.weight")
FAMILIES = {
    "gpt_neox": Family(
        sizes(model_type="gpt_neox", rotary_pct=0.5),
        rotary=4,
        tensors=fused(NEOX, 3 * HEADS, bias=True),
        split=per_head,
    ),
    "bloom": Family(
        sizes(model_type="bloom", n_head=HEADS),
        rotary=0,
        tensors=fused("h.0.self_attention.query_key_value", 3 * HEADS, bias=True),
        split=per_head,
    ),
    "falcon-7b": Family(
        sizes(model_type="falcon", alibi=False, multi_query=True, new_decoder_architecture=False),
        rotary=DIM,
        tensors=fused(FALCON, HEADS + 2),
        split=multi_query,
        kv=1,
    ),
    "falcon-40b": Family(
        sizes(
            model_type="falcon",
            alibi=False,
            multi_query=True,
            new_decoder_architecture=True,
            num_kv_heads=2,
        ),
        rotary=DIM,
        tensors=fused(FALCON, HEADS + 4),
        split=grouped,
        kv=2,
    ),
    "phi3": Family(
        {**GROUPED, "model_type": "phi3"},
        rotary=DIM,
        tensors=fused(f"{ATTENTION_OF_LAYER_0}.qkv_proj", HEADS + 4),
        split=blocks(2),
        kv=2,
    ),
    "gptj": Family(
        {**GPTJ, "model_type": "gptj"},
        rotary=4,
        tensors=separate("transformer.h.0.attn", HEADS),
        pairing="interleaved",
    ),
    "codegen": Family(
        {**GPTJ, "model_type": "codegen"},
        rotary=4,
        tensors=fused("transformer.h.0.attn.qkv_proj", 3 * HEADS),
        split=shards,
        pairing="interleaved",
    ),
    "chatglm": Family(
        sizes(
            model_type="chatglm",
            kv_channels=DIM,
            add_qkv_bias=True,
            multi_query_attention=True,
            multi_query_group_num=2,
        ),
        rotary=4,
        tensors=fused(GLM, HEADS + 4, bias=True),
        split=blocks(2),
        kv=2,
        pairing="interleaved",
    ),
    "llama": Family(
        {**GROUPED, "model_type": "llama"},
        rotary=DIM,
        tensors=separate(ATTENTION_OF_LAYER_0, 2),
        kv=2,
    ),
    "params.json": Family(
        {"dim": HIDDEN, "n_heads": HEADS, "n_kv_heads": 2},
        rotary=DIM,
        tensors=separate("layers.0.attention", 2, names=("wq", "wk")),
        kv=2,
        pairing="interleaved",
    ),
    "mistral, silent about keys": Family(
        sizes(model_type="mistral"),
        rotary=DIM,
        tensors=separate(ATTENTION_OF_LAYER_0, 1),
        kv=1,
    ),
    "qwen3": Family(
        {**GROUPED, "head_dim": DIM, "hidden_size": 20, "model_type": "qwen3"},
        rotary=DIM,
        tensors=separate(ATTENTION_OF_LAYER_0, 2) | dict.fromkeys(NORMS, DIM),
        kv=2,
        norms=NORMS,
    ),
}
ASSUMPTIONS_TOLD = {
    "gpt_neox": "4 heads of 8, the first 4 of 8 channels, 4 kv heads, rows q, k, v of each head",
    "bloom": "4 heads of 8, none of which the model rotates, 4 kv heads, rows q, k, v of each head",
    "falcon-7b": "4 heads of 8, 1 kv head, rows 4 q, k, v of each kv head",
    "falcon-40b": "4 heads of 8, 2 kv heads, rows 2 q, k, v of each kv head",
    "phi3": "4 heads of 8, 2 kv heads, rows q of all heads, then k, then v",
    "gptj": "4 heads of 8, the first 4 of 8 channels, 4 kv heads, rows q or k of each head",
}


def random_model(family: Family) -> Weights:
    rng = np.random.default_rng(5)
    width = int(family.config.get("hidden_size", HIDDEN))
    made = {
        name: rng.standard_normal(
            (rows, width) if name.endswith("weight") and "norm" not in name else rows
        )
        for name, rows in family.tensors.items()
    }
    return made | {
        "embed.weight": rng.standard_normal((6, width)),
        f"{ATTENTION_OF_LAYER_0}.v_proj.weight": np.ones((32, 3)),
    }


def rotated(heads: np.ndarray, rotary: int, pairing: str) -> np.ndarray:
    """(heads, channels, positions) with the first channels rotated, as complex numbers."""
    angles = np.outer(POSITIONS, 10000.0 ** (-np.arange(0, rotary, 2) / max(rotary, 1)))
    return turned(heads.swapaxes(1, 2), angles, pairing).swapaxes(1, 2)


def attention_scores(family: Family, weights: Weights, pairing: str) -> np.ndarray:
    """Return q·k of four random inputs at POSITIONS, by the family's formulas: (heads, 4, 4).

    Queries and keys are weights · inputs + biases. They are cut out of the fused tensor, or come from
    two tensors; some families divide them by their root mean square and multiply them by norms. Then
    the first channels rotate, in the pairs of the layout `pairing`.
    """
    width = int(family.config.get("hidden_size", HIDDEN))
    inputs = np.random.default_rng(1).standard_normal((width, len(POSITIONS)))

    def projected(name: str) -> np.ndarray:
        bias = weights.get(name.replace("weight", "bias"))
        return weights[name] @ inputs + (0 if bias is None else bias[:, None])

    def normalised(heads: np.ndarray, norm: str) -> np.ndarray:
        root_mean_square = np.sqrt((heads**2).mean(axis=1, keepdims=True))
        return heads / root_mean_square * weights[norm][:, None]

    weight_names = [name for name in family.tensors if name.endswith("weight")]
    if family.split is not None:
        (fused_name,) = weight_names
        queries, keys = family.split(projected(fused_name))
    else:
        query_name, key_name = weight_names[:2]
        queries = projected(query_name).reshape(HEADS, DIM, len(POSITIONS))
        keys = projected(key_name).reshape(family.kv, DIM, len(POSITIONS))
    if family.norms:
        query_norm, key_norm = family.norms
        queries = normalised(queries, query_norm)
        keys = normalised(keys, key_norm)
    queries = rotated(queries, family.rotary, pairing)
    keys = rotated(keys, family.rotary, pairing)
    keys_of_all_heads = np.repeat(keys, HEADS // family.kv, axis=0)
    return np.einsum("hcq,hck->hqk", queries, keys_of_all_heads)


@pytest.fixture
def write_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Family], Weights]:
    monkeypatch.chdir(tmp_path)

    def write(family: Family) -> Weights:
        weights = random_model(family)
        save_file(weights, "model.safetensors")
        Path("config.json").write_text(json.dumps(family.config))
        return weights

    return write


CONVERT_TO_INTERLEAVED = ("convert", "model.safetensors", "--from", "halves", "--to", "interleaved")
BY_MODEL = (*CONVERT_TO_INTERLEAVED, "--config", "config.json")
BY_CONFIG = ("--config", "config.json", "--check")


def target_of_conversion(family: Family) -> str:
    """Return the layout of channels that the family does not have."""
    return "interleaved" if family.pairing == "halves" else "halves"


def words_of_conversion(family: Family) -> tuple[str, ...]:
    target = target_of_conversion(family)
    return "convert", "model.safetensors", "--from", family.pairing, "--to", target


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conversion_by_config_reports_the_heads_that_it_assumes(
    run_pecli, write_model, name: str
) -> None:
    """Each config.json states 4 heads, by which `--check` proves the conversion. ASSUMPTIONS_TOLD has
    what the command must report of some families, by their configs.
    """
    write_model(FAMILIES[name])
    words = words_of_conversion(FAMILIES[name])
    outcome = run_pecli(*words, *BY_CONFIG, "-o", "out.safetensors")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert ASSUMPTIONS_TOLD.get(name, "") in outcome.out
    assert "with the 4 heads of config.json" in outcome.out


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conversion_to_the_other_layout_leaves_attention_scores_as_they_were(
    run_pecli, write_model, name: str
) -> None:
    """A random model of each family is converted from halves to interleaved or back. `attention_scores`
    computes q·k by the formulas of the family's own code: the old weights in the old layout and the
    new ones in the new layout must give the same scores, and the old weights in the new layout
    others (except in BLOOM, which does not rotate).
    """
    family = FAMILIES[name]
    old_weights = write_model(family)
    words = words_of_conversion(family)
    run_pecli(*words, "--config", "config.json", "-o", "out.safetensors")

    old_layout = family.pairing
    new_layout = target_of_conversion(family)
    scores_before = attention_scores(family, old_weights, old_layout)
    scores_after = attention_scores(family, load_file("out.safetensors"), new_layout)
    rounding = 1e-9 * np.abs(scores_before).max()

    np.testing.assert_allclose(scores_after, scores_before, rtol=0, atol=rounding)
    if family.rotary:
        unconverted = attention_scores(family, old_weights, new_layout)
        assert not np.allclose(unconverted, scores_before, atol=0.1)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conversion_moves_the_query_and_key_tensors_of_a_family_and_no_other(
    run_pecli, write_model, name: str
) -> None:
    """FAMILIES names these tensors, as in the checkpoints of each family; weights are random, so that
    every move is visible. Values and embeddings must stay.
    """
    family = FAMILIES[name]
    old = write_model(family)
    run_pecli(*words_of_conversion(family), *BY_CONFIG, "-o", "out.safetensors")
    new = load_file("out.safetensors")
    moved = {tensor for tensor in old if not np.array_equal(old[tensor], new[tensor])}

    assert moved == set(family.tensors)


@pytest.mark.parametrize("name", FAMILIES)
def test_json_names_the_tensors_that_move_and_the_config(run_pecli, write_model, name: str) -> None:
    """`pecli convert --config config.json --json` lists the tensors whose rows move. The numbers of
    heads are those of config.json, which the answer states as its source.
    """
    family = FAMILIES[name]
    write_model(family)
    answer = run_pecli(*words_of_conversion(family), *BY_CONFIG, "--json").json

    assert set(answer["moved"]) == set(family.tensors)
    assert answer["assumed"]["model"] == "config.json"
    assert answer["assumed"]["text"].endswith("(as config.json has it)")


@pytest.mark.parametrize(
    ("name", "rotary", "first_rows"),
    [
        pytest.param("gpt_neox", 4, [0, 8, 24, 32, 48, 56, 72, 80], id="gpt_neox: q k v, 4 times"),
        pytest.param("bloom", 8, [0, 8, 24, 32, 48, 56, 72, 80], id="bloom: q k v, 4 times"),
        pytest.param("falcon-7b", 8, [0, 8, 16, 24, 32], id="falcon-7b: q q q q k v"),
        pytest.param("falcon-40b", 8, [0, 8, 16, 32, 40, 48], id="falcon-40b: q q k v, twice"),
        pytest.param("phi3", 8, [0, 8, 16, 24, 32, 40], id="phi3: q q q q k k v v"),
        pytest.param("chatglm", 4, [0, 8, 16, 24, 32, 40], id="chatglm: q q q q k k v v"),
        pytest.param("codegen", 4, [0, 16, 24, 40, 48, 64, 72, 88], id="codegen: q v k, 4 times"),
    ],
)
def test_of_a_fused_tensor_only_rotary_rows_of_queries_and_keys_move(
    run_pecli, write_model, name: str, rotary: int, first_rows: list[int]
) -> None:
    """Each head has 8 rows, and `first_rows` are those with which a query or a key begins, counted by
    hand from the order in the id. Of its `rotary` rows, all but the first and the last change their
    place: of four, 0 1 2 3 become 0 2 1 3. BLOOM has ALiBi and no rotation; its rows move as if whole
    heads rotated.
    """
    family = FAMILIES[name]
    old = write_model(family)
    run_pecli(*words_of_conversion(family), *BY_CONFIG, "-o", "out.safetensors")
    new = load_file("out.safetensors")
    expected = [first + row for first in first_rows for row in range(1, rotary - 1)]

    for tensor in family.tensors:
        is_moved = (old[tensor] != new[tensor]).reshape(len(old[tensor]), -1).any(axis=1)
        assert np.flatnonzero(is_moved).tolist() == expected


OPTIONS_THAT_MEAN_THE_SAME = {
    "gpt_neox": "--fused groups --head-dim 8 --rotary-dim 4",
    "falcon-40b": "--fused groups --kv-heads 2",
    "falcon-7b": "--fused blocks --head-dim 8",
    "phi3": "--kv-heads 2",
    "chatglm": "--fused blocks --kv-heads 2 --rotary-dim 4",
    "codegen": "--fused codegen --head-dim 8 --rotary-dim 4",
}


@pytest.mark.parametrize("name", OPTIONS_THAT_MEAN_THE_SAME)
def test_options_that_state_what_the_config_states_write_the_same_bytes(
    run_pecli, write_model, name: str
) -> None:
    """How heads are divided and fused follows from --config config.json, or from options with the
    same meaning, such as «--heads 4 --fused groups --kv-heads 2» for Falcon 40B.
    """
    write_model(FAMILIES[name])
    words = words_of_conversion(FAMILIES[name])
    options = ["--heads", HEADS, *OPTIONS_THAT_MEAN_THE_SAME[name].split()]
    by_options = run_pecli(*words, *options, "-o", "by_options.safetensors")
    by_config = run_pecli(*words, "--config", "config.json", "-o", "by_config.safetensors")

    assert by_options.exit_code == SUCCESS
    assert by_config.exit_code == SUCCESS
    bytes_by_options = Path("by_options.safetensors").read_bytes()
    assert bytes_by_options == Path("by_config.safetensors").read_bytes()


NAMES_THAT_TELL_NO_ORDER = [
    name for name, options in OPTIONS_THAT_MEAN_THE_SAME.items() if "--fused" in options
]


@pytest.mark.parametrize("name", NAMES_THAT_TELL_NO_ORDER)
@pytest.mark.parametrize(
    "others",
    [[], ["--rotary-dim", 4], ["--kv-heads", 4], ["--head-dim", 8]],
    ids=["heads only", "rotary dim", "kv heads", "head dim"],
)
def test_a_fused_order_that_no_name_tells_is_required(
    run_pecli, write_model, name: str, others: list[object]
) -> None:
    """The names of these families' tensors do not tell in which order q, k and v are fused: without
    --fused nothing is written, whatever else is stated.
    """
    write_model(FAMILIES[name])
    words = words_of_conversion(FAMILIES[name])
    done = run_pecli(*words, "--heads", HEADS, *others, "-o", "out.safetensors")

    assert done.exit_code == USAGE_ERROR
    assert "--fused is missing" in done.err
    assert not Path("out.safetensors").exists()


@pytest.mark.parametrize(
    ("family", "option", "values", "assumed"),
    [
        ("phi3", "--rotary-dim", [4], 4),
        ("gpt_neox", "--trailing", [], True),
        ("phi3", "--fused", ["groups"], ["groups"]),
    ],
)
def test_an_option_that_contradicts_the_config_wins_and_is_reported(
    run_pecli, write_model, family: str, option: str, values: list[object], assumed: object
) -> None:
    """By their configs, Phi-3 rotates whole heads of 8 channels and fuses its rows in blocks, and
    GPT-NeoX rotates the first channels. `assumed` in the answer is the value that was used, and its
    text names the origin.
    """
    write_model(FAMILIES[family])
    answer = run_pecli(*BY_MODEL, option, *values, "--check", "--json").json["assumed"]

    assert answer[option.removeprefix("--").replace("-", "_")] == assumed
    assert f"{option} as the command line has it" in answer["text"]


def test_an_option_for_what_the_config_does_not_state_is_reported_beside_the_config(
    run_pecli, write_model
) -> None:
    """This config of Mistral states heads, but no number of key heads."""
    write_model(FAMILIES["mistral, silent about keys"])
    outcome = run_pecli(*BY_MODEL, "--kv-heads", 1, "-o", "out.safetensors")
    origins = "(as config.json has it, --kv-heads as the command line has it)"
    assert f"1 kv head, rows q or k of each head {origins}" in outcome.out


def test_a_check_says_that_no_model_confirms_the_heads_of_the_command_line(
    run_pecli, write_model
) -> None:
    """The model has 4 heads of 8 and 2 key heads, but no config is given. Twice as many of half the
    size fit its rows and pass the check, too, which is therefore no proof for the model.
    """
    write_model(FAMILIES["llama"])
    outcome = run_pecli(*CONVERT_TO_INTERLEAVED, "--check", "--heads", 8)

    assert outcome.exit_code == SUCCESS
    assert "8 heads of 4, 4 kv heads" in outcome.out

    proved = "proved for 1 layer with the 8 heads given on the command line, which no model confirms, if the input"
    assert proved in outcome.out


def test_the_json_of_a_check_has_no_model_if_only_options_state_the_heads(
    run_pecli, write_model
) -> None:
    """The number of heads is from the command line (--heads 8), and config.json is not given."""
    write_model(FAMILIES["llama"])
    answer = run_pecli(*CONVERT_TO_INTERLEAVED, "--check", "--heads", 8, "--json").json

    assert answer["assumed"]["model"] is None


def test_a_number_of_heads_that_contradicts_the_config_is_refused(run_pecli, write_model) -> None:
    """config.json, which is given, states 4 heads: other options override it, but the number of heads
    is no matter of choice.
    """
    write_model(FAMILIES["llama"])
    assert run_pecli(*BY_MODEL, "--check", "--heads", 8).exit_code == USAGE_ERROR


def test_a_config_that_states_no_heads_does_not_confirm_those_of_the_command_line(
    run_pecli, write_model
) -> None:
    """The config.json has the width of a head, but not their number, and Yi is a model_type without
    class defaults. The check succeeds, and reports what it does not prove.
    """
    write_model(FAMILIES["llama"])
    Path("config.json").write_text(json.dumps({"model_type": "yi", "head_dim": DIM}))
    outcome = run_pecli(*BY_MODEL, "--heads", 4, "--check")

    assert outcome.exit_code == SUCCESS
    proved = "proved for 1 layer with the 4 heads given on the command line, which no model confirms, if the input"
    assert proved in outcome.out


IMAGE_TOWER = "visual.blocks.0.attn"
PROJECTIONS_OF_TEXT_AND_IMAGES = {
    f"{IMAGE_TOWER}.q_proj.weight": (32, 32),
    f"{IMAGE_TOWER}.k_proj.weight": (32, 32),
    f"{ATTENTION_OF_LAYER_0}.q_proj.weight": (32, 32),
    f"{ATTENTION_OF_LAYER_0}.k_proj.weight": (32, 32),
}
"""Shapes of the queries and keys of a text model and of a tower for images, 4 heads of 8 each."""


def assert_refused(run_pecli, words: tuple[object, ...], problem: str) -> None:
    """Fail unless a conversion is a usage error of one line, and writes nothing."""
    outcome = run_pecli(*words, "-o", "out.safetensors")

    assert outcome.exit_code == USAGE_ERROR
    assert outcome.err.count("\n") == 1
    assert not Path("out.safetensors").exists()
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("family", "other", "problem"),
    [
        pytest.param(
            "gpt_neox",
            "falcon-7b",
            "(96,); config.json has 6 q, k and v heads of 8, that is 48 rows",
            id="fewer fused heads",
        ),
        pytest.param(
            "falcon-7b",
            "gpt_neox",
            "(48, 32); config.json has 12 q, k and v heads of 8, that is 96 rows",
            id="more fused heads",
        ),
        pytest.param(
            "llama",
            "gptj",
            "(16, 32); config.json has 4 key heads of 8, that is 32 rows",
            id="more key heads",
        ),
    ],
)
def test_tensors_that_have_not_the_heads_of_the_config_are_refused(
    run_pecli, write_model, family: str, other: str, problem: str
) -> None:
    """The tensors are those of `family`, and config.json is that of `other`. GPT-NeoX, for example,
    fuses q, k and v of 4 heads, 12 · 8 = 96 rows, where Falcon 7B has 4 queries, 1 key and 1 value.
    """
    write_model(FAMILIES[family])
    Path("config.json").write_text(json.dumps(FAMILIES[other].config))
    assert_refused(run_pecli, BY_MODEL, problem)


def test_an_option_that_contradicts_the_fused_rows_is_refused(run_pecli, write_model) -> None:
    """Phi-3's tensor has 4 queries, 2 keys and 2 values: 8 heads of 8, that is 64 rows. With one key
    head there would be 4 + 1 + 1 = 6 heads, that is 48 rows. The head size is also that of the config.
    """
    write_model(FAMILIES["phi3"])
    words = (*BY_MODEL, "--head-dim", 8)
    tensor = f"the tensor '{ATTENTION_OF_LAYER_0}.qkv_proj.weight' is of shape (64, 32)"
    rows = "config.json with --kv-heads 1 has 6 q, k and v heads of 8, that is 48 rows"

    assert_refused(run_pecli, (*words, "--kv-heads", 1), tensor)
    assert_refused(run_pecli, (*words, "--kv-heads", 1), rows)
    assert run_pecli(*words, "--kv-heads", 2, "-o", "out.safetensors").exit_code == SUCCESS


def test_every_option_that_contradicts_the_fused_rows_is_named(run_pecli, write_model) -> None:
    """Phi-3's tensor has 64 rows. 2 queries, a key and a value of 4 rows each would have 16."""
    write_model(FAMILIES["phi3"])
    options = ("--heads", 2, "--kv-heads", 1, "--head-dim", 4, "--rotary-dim", 4)
    stated = "--heads 2 and --kv-heads 1 and --head-dim 4 and --rotary-dim 4"
    rows = f"config.json with {stated} has 4 q, k and v heads of 4, that is 16 rows"
    assert_refused(run_pecli, (*BY_MODEL, *options), rows)


def test_a_config_without_an_encoding_that_is_known_needs_the_rotary_dimension(
    run_pecli, write_model
) -> None:
    """The model type of config.json is «unknown»."""
    write_model(FAMILIES["llama"])
    Path("config.json").write_text(json.dumps(sizes(model_type="unknown")))
    problem = "--rotary-dim is missing; config.json has no rotary encoding that is known"
    assert_refused(run_pecli, BY_MODEL, problem)


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        pytest.param(
            {"l.0.attn.qkv_proj.weight": (64, 3)},
            "in an order that neither its name nor config.json tells",
            id="fused rows, which a Llama has not",
        ),
        pytest.param(
            PROJECTIONS_OF_TEXT_AND_IMAGES,
            "--include is missing",
            id="two towers",
        ),
    ],
)
def test_tensors_that_the_config_of_a_llama_does_not_explain_are_refused(
    run_pecli, write_model, tensors: dict[str, tuple[int, ...]], problem: str
) -> None:
    """The file has tensors of these shapes, beside the config.json of a Llama."""
    write_model(FAMILIES["llama"])
    save_file({name: np.zeros(shape) for name, shape in tensors.items()}, "model.safetensors")
    assert_refused(run_pecli, BY_MODEL, problem)


def assert_rows_refused(run_pecli, rows: int, options: tuple[object, ...], problem: str) -> None:
    """Fail unless a fused tensor of so many rows is refused with --heads 4 and without a config."""
    save_file({"self_attn.qkv_proj.weight": np.zeros((rows, 3))}, "model.safetensors")
    assert_refused(run_pecli, (*CONVERT_TO_INTERLEAVED, "--heads", HEADS, *options), problem)


@pytest.mark.usefixtures("write_model")  # for its empty folder
def test_fused_rows_are_refused_without_a_number_of_key_heads(run_pecli) -> None:
    """64 rows may be 4 heads of 8 for q, 2 for k and 2 for v, or other heads of other lengths."""
    problem = "--kv-heads is missing; 'self_attn.qkv_proj.weight' (64, 3) holds keys of 4 heads;"
    assert_rows_refused(run_pecli, 64, (), problem)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (50, "50 rows are not 6 q, k and v heads of 8"),
        (24, "24 rows hold no keys of 8 rows that 4 heads can share"),
        (8, "8 rows hold no keys of 8 rows that 4 heads can share"),
    ],
)
@pytest.mark.usefixtures("write_model")
def test_fused_rows_that_are_no_whole_heads_of_q_k_and_v_are_refused(
    run_pecli, rows: int, problem: str
) -> None:
    """4 heads of 8 are 32 rows of q, and k and v have at least 8 each: 48, 64, … rows are possible."""
    assert_rows_refused(run_pecli, rows, ("--head-dim", 8), problem)


def test_a_rotary_key_at_the_end_of_a_latent_projection_is_refused(run_pecli, write_model) -> None:
    """kv_a_proj_with_mqa is DeepSeek's projection of latent keys and values; only its last rows
    rotate.
    """
    write_model(FAMILIES["llama"])
    save_file({"a.kv_a_proj_with_mqa.weight": np.zeros((16, 3))}, "model.safetensors")
    options = ("--heads", HEADS, "--head-dim", 4, "--kv-heads", 1)
    problem = "keeps its rotary key in its last rows"
    assert_refused(run_pecli, (*CONVERT_TO_INTERLEAVED, *options), problem)


def test_a_pattern_chooses_the_tensors_that_move(run_pecli, write_model) -> None:
    """The file has projections of a text model (model.layers) and of a tower for images (visual);
    --include chooses those of the text.
    """
    write_model(FAMILIES["llama"])
    projections = {name: np.zeros(shape) for name, shape in PROJECTIONS_OF_TEXT_AND_IMAGES.items()}
    save_file(projections, "model.safetensors")
    pattern = ("--include", "model.layers.*.[qk]_proj.*")
    words = (*CONVERT_TO_INTERLEAVED, "--heads", 4, *pattern, "-o", "out.npz", "--json")

    assert run_pecli(*words).json["moved"] == sorted(FAMILIES["llama"].tensors)


@pytest.mark.usefixtures("write_model")  # for its empty folder
def test_the_number_of_key_heads_of_a_fused_tensor_follows_from_its_rows(run_pecli) -> None:
    """64 rows are 8 heads of 8: 4 of queries, as stated, so 2 of keys and 2 of values. The rows hold
    their numbers: each head of rows 0 to 47 gets the order 0 4 1 5 2 6 3 7, and the values stay.
    """
    name = "self_attn.qkv_proj.weight"
    row_numbers = np.arange(64.0)[:, None] * np.ones(3)
    save_file({name: row_numbers}, "model.safetensors")
    words = (*CONVERT_TO_INTERLEAVED, "--heads", 4, "--head-dim", 8)
    outcome = run_pecli(*words, "-o", "out.safetensors")

    assert outcome.exit_code == SUCCESS
    assert "4 heads of 8, 2 kv heads" in outcome.out

    interleaved = [0, 4, 1, 5, 2, 6, 3, 7]
    queries_and_keys = [8 * head + row for head in range(6) for row in interleaved]
    new = load_file("out.safetensors")[name][:, 0]
    assert new.tolist() == [*queries_and_keys, *range(48, 64)]


def test_only_the_rotary_rows_of_latent_attention_move(run_pecli, write_model) -> None:
    """DeepSeek's query heads have 6 rows without rotation and 4 rotary ones (q_b_proj); its compressed
    keys have 12 rows and then 4 rotary ones that all heads share (kv_a_proj_with_mqa). The rows hold
    their numbers here. From interleaved to halves, 0 1 2 3 become 0 2 1 3.
    """
    config = sizes(
        model_type="deepseek_v3",
        q_lora_rank=10,
        kv_lora_rank=12,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=6,
    )
    row_counts = {"q_a_proj": 10, "q_b_proj": 4 * (6 + 4), "kv_a_proj_with_mqa": 12 + 4}
    tensors = {f"{ATTENTION_OF_LAYER_0}.{name}.weight": n for name, n in row_counts.items()}
    write_model(Family(config, rotary=4, tensors=tensors))
    numbered = {name: np.arange(n)[:, None] * np.ones(HIDDEN) for name, n in tensors.items()}
    save_file(numbered, "model.safetensors")
    words = ("convert", "model.safetensors", "--from", "deepseek", "--to", "halves", *BY_CONFIG)
    outcome = run_pecli(*words, "-o", "out.safetensors")

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert "4 heads of 10, the last 4 of 10 channels, 1 key that all heads share" in outcome.out

    new = {name: rows[:, 0].tolist() for name, rows in load_file("out.safetensors").items()}
    query_head = [0, 1, 2, 3, 4, 5, 6, 8, 7, 9]
    q_b_proj = [10 * head + row for head in range(4) for row in query_head]
    assert new[f"{ATTENTION_OF_LAYER_0}.q_b_proj.weight"] == q_b_proj
    kv_a_proj = [*range(12), 12, 14, 13, 15]
    assert new[f"{ATTENTION_OF_LAYER_0}.kv_a_proj_with_mqa.weight"] == kv_a_proj
    assert new[f"{ATTENTION_OF_LAYER_0}.q_a_proj.weight"] == [*range(10)]


def test_the_gate_beside_each_query_of_qwen3_next_stays(run_pecli, write_model) -> None:
    """q_proj of Qwen3-Next has for each head 8 rows of a query and 8 of its gate, and half of the 8
    channels rotate (partial_rotary_factor), the first 4. The rows hold their numbers here: those of
    head 1 are 16 to 31, of which the pairs (16, 18) and (17, 19) become neighbours.
    """
    config = sizes(
        model_type="qwen3_next", num_key_value_heads=2, head_dim=8, partial_rotary_factor=0.5
    )
    tensors = separate(ATTENTION_OF_LAYER_0, kv=2)
    weights = write_model(Family(config, rotary=4, tensors=tensors, kv=2))
    q_proj = f"{ATTENTION_OF_LAYER_0}.q_proj.weight"
    row_numbers = np.arange(4 * (8 + 8.0))
    weights[q_proj] = row_numbers[:, None] * np.ones(HIDDEN)
    save_file(weights, "model.safetensors")

    assert run_pecli(*BY_MODEL, "--check", "-o", "out.safetensors").exit_code == SUCCESS

    moved_numbers = load_file("out.safetensors")[q_proj][:, 0].reshape(HEADS, 8 + 8)
    assert moved_numbers[0].tolist() == [0, 2, 1, 3, *range(4, 16)]
    assert moved_numbers[1].tolist() == [16, 18, 17, 19, *range(20, 32)]
