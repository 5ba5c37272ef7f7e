"""Names of tensors, as dumps and checkpoints spell them."""

from __future__ import annotations

import pytest

from pecli.checks.tensor_roles import ANYTHING, layer_named, role_of, roles, schemes_of
from pecli.engine.schemes import SCHEMES, scheme_named


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("cos", "cos"),
        ("sin_cached", "sin"),
        ("model.layers.31.self_attn.rotary_emb.cos_cached", "cos"),
        ("model.layers.0.self_attn.rotary_emb._sin_cached", "sin"),
        ("rotary_emb.sin_cache", "sin"),
        ("params/rope/cos", "cos"),
        ("freqs_cos", "cos"),
        ("rope_sin", "sin"),
        ("model.layers.0.self_attn.rotary_emb.cos_sin_cache", "both"),
        ("freqs_cis", "both"),
        ("model.rotary_emb.inv_freq", "inv_freq"),
        ("model.rotary_emb.full_attention_original_inv_freq", "inv_freq"),
        ("transformer.wpe.weight", "rows"),
        ("model.decoder.embed_positions.weight", "rows"),
        ("model.encoder.embed_positions.weights", "rows"),
        ("bert.embeddings.position_embeddings.weight", "rows"),
        ("vit.embeddings.position_embeddings", "rows"),
        ("pos_embed", "rows"),
        ("weight", "rows"),
        ("attn.alibi_slopes", "slopes"),
        ("bias", "bias"),
        ("transformer.alibi", "bias"),
        ("cos_local", "cos"),
        ("rope.sin_full_attention", "sin"),
        ("rotary_emb.freqs", ANYTHING),
        ("model.layers.0.self_attn.q_proj.weight", None),
        ("model.layers.0.self_attn.q_proj.bias", None),
        ("h.0.attn.bias", None),
        ("model.embed_tokens.weight", None),
        ("bert.embeddings.position_ids", None),
        ("model.layers.0.mlp.cosine_gate_proj.weight", None),
        ("arr_0", None),
        ("array", None),
        ("", None),
    ],
)
def test_names_and_what_they_mean(name: str, role: str | None) -> None:
    assert role_of(name) == role


def test_every_role_has_its_schemes_and_no_name_has_two() -> None:
    assert all(schemes_of(role) for role in (*roles().values(), ANYTHING))
    kinds = map(scheme_named, SCHEMES)
    named = {(word, role) for kind in kinds for role, words in kind.checkpoint_names.items() for word in words}
    assert len(named) == len(roles())


def test_layer_types_in_names() -> None:
    kinds = ["", "attention", "full_attention", "sliding_attention"]
    assert layer_named("rotary_emb.full_attention_inv_freq", kinds) == "full_attention"
    assert layer_named("rotary_emb.inv_freq", kinds) is None


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("rotary_emb_local.inv_freq", "sliding_attention"),
        ("swa/cos", "sliding_attention"),
        ("cos_global", "full_attention"),
        ("rotary_emb.inv_freq", None),
        ("localised.cos", None),
        ("local.and.global.cos", None),
    ],
)
def test_other_words_for_layers(name: str, layers: str | None) -> None:
    assert layer_named(name, ["full_attention", "sliding_attention"]) == layers
    assert layer_named(name, ["vision", ""]) is None
