"""Names of tensors, as dumps and checkpoints spell them."""

import pytest

from pecli.checks.tensor_roles import ANYTHING, layer_named, role_of, roles, schemes_of
from pecli.engine.schemes import SCHEMES, scheme_named

NAMES = {
    "cos": "cos params/rope/cos freqs_cos cos_local model.layers.31.self_attn.rotary_emb.cos_cached",
    "sin": "sin_cached rotary_emb.sin_cache rope_sin rope.sin_full_attention"
    " model.layers.0.self_attn.rotary_emb._sin_cached",
    "both": "model.layers.0.self_attn.rotary_emb.cos_sin_cache freqs_cis",
    "inv_freq": "model.rotary_emb.inv_freq model.rotary_emb.full_attention_original_inv_freq",
    "rows": "transformer.wpe.weight model.decoder.embed_positions.weight model.encoder.embed_positions.weights weight"
    " bert.embeddings.position_embeddings.weight vit.embeddings.position_embeddings pos_embed",
    "slopes": "attn.alibi_slopes",
    "bias": "bias transformer.alibi",
    ANYTHING: "rotary_emb.freqs",
    None: "model.layers.0.self_attn.q_proj.weight model.layers.0.self_attn.q_proj.bias h.0.attn.bias arr_0 array"
    " model.embed_tokens.weight bert.embeddings.position_ids model.layers.0.mlp.cosine_gate_proj.weight",
}


@pytest.mark.parametrize("role", NAMES)
def test_names_and_what_they_mean(role: str | None) -> None:
    assert {name: role_of(name) for name in NAMES[role].split()} == dict.fromkeys(NAMES[role].split(), role)
    assert role_of("") is None


def test_every_role_has_its_schemes_and_no_name_has_two() -> None:
    assert all(schemes_of(role) for role in (*roles().values(), ANYTHING))
    kinds = map(scheme_named, SCHEMES)
    named = {(word, role) for kind in kinds for role, words in kind.checkpoint_names.items() for word in words}
    assert len(named) == len(roles())


LAYERS = {
    "sliding_attention": "rotary_emb_local.inv_freq swa/cos",
    "full_attention": "cos_global rotary_emb.full_attention_inv_freq",
    None: "rotary_emb.inv_freq localised.cos local.and.global.cos",
}


@pytest.mark.parametrize("layers", LAYERS)
def test_layer_types_in_names(layers: str | None) -> None:
    for name in LAYERS[layers].split():
        assert layer_named(name, ["", "attention", "full_attention", "sliding_attention"]) == layers, name
        assert layer_named(name, ["vision", ""]) is None
