"""Heads, key heads and fused rows of models, from configurations as they are published."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.errors import ParameterError
from pecli.tensors.head_layout import ORDERS, QKV_LAYOUTS, Heads, attention_of
from tests.models.facts import gguf, stored

GEMMA_4 = {
    "model_type": "gemma4_text",
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "head_dim": 256,
}
KNOWN = stored("tables.json")["attention"]


@pytest.mark.parametrize(("config", "counts", "order"), KNOWN, ids=lambda value: str(value)[:40])
def test_published_configurations(
    config: dict[str, Any], counts: tuple[int, ...], order: str
) -> None:
    found = Heads(**attention_of(config))
    assert found.rotates == (config["model_type"] not in ("bloom", "mpt"))
    assert ((found.heads, found.kv_heads, found.head_dim, found.rotary_dim), found.fused) == (
        tuple(counts),
        order,
    )


def test_presets_and_orders() -> None:
    assert Heads(**attention_of("pythia-160m")) == Heads(
        12, 12, 64, 16, False, "groups", model="pythia-160m"
    )
    assert Heads(**attention_of("gpt-j-6b")) == Heads(16, 16, 256, 64, model="gpt-j-6b")
    assert attention_of("deepseek-v3")["trailing"]
    assert {row["order"] for rows in QKV_LAYOUTS.values() for row in rows} - {None} == set(ORDERS)


def test_gguf_has_orders_of_its_own(tmp_path: Path) -> None:
    """llama.cpp brings the rows of every family into blocks, and calls them attn_qkv, which tells their order."""
    sizes = {"embedding_length": 8192, "attention.head_count": 128, "attention.head_count_kv": 8}
    path = str(gguf(tmp_path / "a.gguf", "falcon", sizes))
    assert Heads(**attention_of(path)) == Heads(128, 8, 64, 64, model=path)
    fused = table_of("blk.0.attn_qkv.weight", np.zeros((144 * 64, 1)))
    assert Heads(128, 8, 64, fused="groups", model=path).order(fused) == "blocks"


def test_layers_whose_heads_differ_are_asked_for() -> None:
    theta = {
        name: {"rope_type": "default", "rope_theta": 1e4}
        for name in ("full_attention", "sliding_attention")
    }
    config = GEMMA_4 | {"global_head_dim": 512, "rope_parameters": theta}
    with pytest.raises(ParameterError, match=r"layers that differ: .*heads of 512.*heads of 256"):
        attention_of(config)
    assert attention_of(config, "full_attention")["head_dim"] == 512
