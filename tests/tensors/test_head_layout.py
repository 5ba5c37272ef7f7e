"""Heads, key heads and the order of fused rows of models, from configurations as they are
published.

FOUR_AND_TWO has 4 query heads and 2 key heads of 8 channels. Fused rows hold queries, keys and
values in one tensor, in an order that depends on the family: «groups» (by key head), «blocks» (all
queries, all keys, all values), «codegen» (four shards). Sizes and orders were written by hand from
the models' code and configs.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.errors import ParameterError
from pecli.tensors.head_layout import ORDERS, HeadDivision
from pecli.tensors.model_heads import FAMILY_LAYOUTS, attention_of
from pecli.tensors.projections import Projection, projection, weight_of
from tests.models.facts import stored, write_gguf

GEMMA_4 = {
    "model_type": "gemma4_text",
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "head_dim": 256,
}
KNOWN = stored("tables.json")["attention"]


@pytest.mark.parametrize(("config", "counts", "order"), KNOWN, ids=lambda value: str(value)[:40])
def test_counts_of_heads_and_the_order_of_fused_rows_are_those_of_published_models(
    config: dict[str, Any], counts: tuple[int, ...], order: str
) -> None:
    """tables.json has published configs, and what was written by hand from the models' code: the
    counts [heads, key heads, head dimension, rotary dimension] and the order of fused rows, such as
    [128, 8, 64, 64] and «groups» for Falcon 40B. BLOOM and MPT have ALiBi.
    """
    attention = attention_of(config)
    assert attention.rotates == (config["model_type"] not in ("bloom", "mpt"))

    heads, kv_heads, head_dim, rotary_dim = counts
    assert attention.heads == heads
    assert attention.kv_heads == kv_heads
    assert attention.head_dim == head_dim
    assert attention.rotary_dim == rotary_dim
    assert attention.fused == order


def heads_stated_by(model: Any) -> HeadDivision:
    stated = {name: value for name, value in vars(attention_of(model)).items() if value is not None}
    return HeadDivision(**stated)


def test_presets_have_the_heads_and_fused_rows_of_their_models() -> None:
    """By their published configs, Pythia 160M rotates 16 of 64 channels in 12 heads and fuses its
    rows by head; GPT-J rotates 64 of 256 in 16 heads, and has separate projections.
    """
    pythia = HeadDivision(
        heads=12, kv_heads=12, head_dim=64, rotary_dim=16, fused="groups", model="pythia-160m"
    )
    gpt_j = HeadDivision(heads=16, kv_heads=16, head_dim=256, rotary_dim=64, model="gpt-j-6b")
    assert heads_stated_by("pythia-160m") == pythia
    assert heads_stated_by("gpt-j-6b") == gpt_j


def test_the_last_channels_of_deepseek_rotate() -> None:
    """Heads of DeepSeek-V3 have 128 channels without rotation, and 64 rotary ones after them."""
    assert attention_of("deepseek-v3").trailing


def test_the_known_orders_of_fused_rows_are_those_of_the_families() -> None:
    """An order that no family has would never be used; a family with an unknown order would fail
    when it is converted. None is the order of separate projections.
    """
    orders = {layout.order for layouts in FAMILY_LAYOUTS.values() for layout in layouts}
    assert orders - {None} == {*ORDERS}


def test_fused_rows_of_gguf_are_blocks_whatever_the_family(tmp_path: Path) -> None:
    """Falcon fuses rows by key head («groups»), but llama.cpp's converter brings the rows of every
    family into blocks, and calls them attn_qkv, which tells their order. The 128 + 2 · 8 heads have
    8192 / 128 = 64 channels.
    """
    sizes = {"embedding_length": 8192, "attention.head_count": 128, "attention.head_count_kv": 8}
    path = str(write_gguf(tmp_path / "a.gguf", "falcon", sizes))
    counts = {"heads": 128, "kv_heads": 8, "head_dim": 64}

    assert heads_stated_by(path) == HeadDivision(**counts, rotary_dim=64, model=path)

    fused = table_of("blk.0.attn_qkv.weight", np.zeros(((128 + 2 * 8) * 64, 1)))
    division = HeadDivision(**counts, fused="groups", model=path)
    assert division.fused_order_of(fused) == "blocks"


def test_layers_whose_heads_differ_require_a_layer_type() -> None:
    """Gemma 4 has heads of 512 channels in full layers (global_head_dim), and of 256 in sliding
    ones (head_dim in GEMMA_4).
    """
    theta = {
        name: {"rope_type": "default", "rope_theta": 1e4}
        for name in ("full_attention", "sliding_attention")
    }
    config = GEMMA_4 | {"global_head_dim": 512, "rope_parameters": theta}

    with pytest.raises(ParameterError, match=r"layers that differ: .*heads of 512.*heads of 256"):
        attention_of(config)
    assert attention_of(config, "full_attention").head_dim == 512


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("l.0.attn_q.weight", Projection("q", "l.0."), id="queries"),
        pytest.param("l.0.q_norm.weight", Projection("q", "l.0.", norm=True), id="their norm"),
        pytest.param("h.attn_qkv.bias", Projection("qkv", "h.", order="blocks"), id="in blocks"),
        pytest.param("h.c_attn.weight", Projection("qkv", "h."), id="in an order not named"),
        pytest.param("q_proj.lora_A.weight", None, id="LoRA, of a rank"),
        pytest.param("q_proj.lora_B.weight", Projection("q", ""), id="LoRA, of heads"),
        pytest.param("x_q_proj", Projection("q", "x_"), id="no suffix"),
    ],
)
def test_the_projection_of_a_tensor_follows_from_its_name(
    name: str, expected: Projection | None
) -> None:
    """A Projection has a kind (q, k or qkv), the beginning of the name that layers share, and an
    order if the name tells it; lora_B has the rows of its projection, lora_A a rank.
    """
    assert projection(name) == expected


FOUR_AND_TWO = HeadDivision(heads=4, kv_heads=2, head_dim=8)


@pytest.mark.parametrize(
    ("name", "heads", "slots"),
    [
        pytest.param("q_proj", FOUR_AND_TWO, "qqqq", id="queries"),
        pytest.param("q_proj", replace(FOUR_AND_TWO, gated=True), "qgqgqgqg", id="gated queries"),
        pytest.param(
            "q_norm", replace(FOUR_AND_TWO, gated=True), "qqqq", id="norm of gated queries"
        ),
        pytest.param("k_proj", FOUR_AND_TWO, "kk", id="keys"),
        pytest.param(
            "k_proj", replace(FOUR_AND_TWO, kv_heads=None), "kkkk", id="keys, as many as queries"
        ),
        pytest.param("attn_qkv", FOUR_AND_TWO, "qqqqkkvv", id="fused by name"),
        pytest.param(
            "query_key_value",
            replace(FOUR_AND_TWO, fused="groups"),
            "qqkvqqkv",
            id="groups of Falcon",
        ),
        pytest.param(
            "query_key_value",
            replace(FOUR_AND_TWO, fused="blocks"),
            "qqqqkkvv",
            id="blocks of Phi-3",
        ),
        pytest.param(
            "x",
            HeadDivision(heads=8, kv_heads=8, head_dim=8, fused="codegen"),
            "qqvvkk" * 4,
            id="blocks of CodeGen",
        ),
    ],
)
def test_the_heads_of_a_projection_lie_in_the_order_of_its_name_or_family(
    name: str, heads: HeadDivision, slots: str
) -> None:
    """`slots` has a letter per head: q, k, v and g stand for a query, key, value and gate.
    FOUR_AND_TWO has 4 query heads and 2 key heads of 8 channels; the orders groups, blocks and
    codegen are those of Falcon 40B, Phi-3 and CodeGen.
    """
    assert heads.head_letters(weight_of(name, np.zeros(1))) == slots


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        pytest.param(
            replace(FOUR_AND_TWO, kv_heads=4),
            "4 heads of 8, 4 kv heads, rows q or k of each head",
            id="as many keys",
        ),
        pytest.param(
            replace(FOUR_AND_TWO, kv_heads=1, rotary_dim=8),
            "4 heads of 8, 1 kv head, rows q or k of each head",
            id="one key",
        ),
        pytest.param(
            replace(FOUR_AND_TWO, rotary_dim=4),
            "4 heads of 8, the first 4 of 8 channels, 2 kv heads, rows q or k of each head",
            id="half of the channels rotate",
        ),
    ],
)
def test_heads_are_described_in_words(heads: HeadDivision, words: str) -> None:
    """Reports show these words. FOUR_AND_TWO has 4 query heads and 2 key heads of 8 channels, which
    all rotate unless rotary_dim states fewer.
    """
    assert heads.description([weight_of("q_proj", np.zeros(1))]) == words


def test_key_heads_whose_number_is_not_given_are_counted_by_the_rows_of_keys() -> None:
    """16 rows are 2 key heads of 8 channels, so all of them can be moved."""
    keys = weight_of("k_proj", np.zeros((16, 2)))
    division = HeadDivision(heads=4, kv_heads=None, head_dim=8)
    move = division.move(keys, "interleaved", "halves")

    assert len(move.order) == 16


def test_fused_rows_that_leave_none_for_keys_are_refused() -> None:
    """4 query heads of 8 take all 32 rows, and none would be left for keys and values."""
    fused = weight_of("attn_qkv", np.zeros((4 * 8, 2)))
    division = HeadDivision(heads=4, kv_heads=None, head_dim=8)
    with pytest.raises(
        ParameterError, match="32 rows hold no keys of 8 rows that 4 heads can share"
    ):
        division.completed([fused])
