"""Names of tensors tell their role: a table of cosines, both tables, frequencies, learned rows,
slopes or a bias.

The names are spelled as in public checkpoints of transformers, vLLM, Llama and others; roles and
names were paired by hand. A role decides which encodings a tensor is compared with; ANYTHING is a
rotary tensor of unknown kind, None a tensor of other matters. Modules are objects with torch's
named_buffers and named_parameters.
"""

import numpy as np
import pytest

import pecli
from pecli.engine.schemes import SCHEMES
from pecli.files.checkpoint_names import checkpoint_names
from pecli.files.load import opened
from pecli.files.tensor_roles import ANYTHING, layer_named, module_of, role_of, roles, schemes_of

NAMES_BY_ROLE = {
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


@pytest.mark.parametrize("role", NAMES_BY_ROLE)
def test_the_role_of_a_tensor_follows_from_its_name(role: str | None) -> None:
    """NAMES_BY_ROLE lists names as they stand in public checkpoints and dumps, by the role that
    `role_of` must return, such as cosines.
    """
    assert {name: role_of(name) for name in NAMES_BY_ROLE[role].split()} == dict.fromkeys(
        NAMES_BY_ROLE[role].split(), role
    )
    assert role_of("") is None


def test_every_role_has_its_schemes_and_no_name_has_two() -> None:
    """Each scheme lists the names of its tensors; one name in two roles would be lost in `roles()`."""
    assert all(schemes_of(role) for role in (*roles().values(), ANYTHING))

    named = {
        (word, role)
        for scheme in SCHEMES
        for role, words in checkpoint_names(scheme).items()
        for word in words
    }

    assert len(named) == len(roles())


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("weight", "rows"),
        ("Weight", None),
        ("array", None),
        ("a.bias", None),
        ("cos.weight.weights", "cos"),
        ("rope.x", ANYTHING),
        ("europe.x", None),
    ],
)
def test_common_words_count_only_as_the_full_name(name: str, role: str | None) -> None:
    """«weight» alone is a learned table, but weight within a path is any layer's; «rope» counts as
    a word, not in «europe».
    """
    assert role_of(name) == role


NAMES_BY_LAYER_TYPE = {
    "sliding_attention": "rotary_emb_local.inv_freq swa/cos a.swa",
    "full_attention": "cos_global global_x rotary_emb.full_attention_inv_freq",
    None: "x rotary_emb.inv_freq localised.cos local.global local.and.global.cos",
}


@pytest.mark.parametrize("layers", NAMES_BY_LAYER_TYPE)
def test_the_layer_type_of_a_table_follows_from_its_name(layers: str | None) -> None:
    """Gemma 3 and others have one table for sliding layers (local, swa) and one for full ones
    (global). A name with both words, or for a model without these layer types, says nothing.
    """
    for name in NAMES_BY_LAYER_TYPE[layers].split():
        assert (
            layer_named(name, ["", "attention", "full_attention", "sliding_attention"]) == layers
        ), name
        assert layer_named(name, ["vision", ""]) is None


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("layers.0.rotary_emb.cos_cached", "layers.0.rotary_emb._cached"),
        ("layers.0.rotary_emb.sin_cached", "layers.0.rotary_emb._cached"),
        ("layers.1.rotary_emb.sin_cached", "layers.1.rotary_emb._cached"),
        ("q_proj.weight", None),
    ],
)
def test_tables_of_one_module_differ_in_the_word_for_their_function(
    name: str, module: str | None
) -> None:
    """Cosines and sines of layer 0 belong together; those of layer 1 are another module's."""
    assert module_of(name) == module


class Module:
    """What torch's modules have: here one with a rotary cache, a learned table, and weights of other matters."""

    def __init__(self, buffers: dict[str, np.ndarray], **parameters: np.ndarray) -> None:
        self.named_buffers = buffers.items
        self.named_parameters = parameters.items


@pytest.mark.parametrize("name", ["a", "cos"])
def test_buffers_of_a_module_are_taken_if_no_name_is_positional(name: str) -> None:
    """A positional name, «cos», is taken for its name; «a» is taken because no other buffer has
    one. Parameters, such as b, are weights.
    """
    module = Module({name: np.ones(1)}, b=np.zeros(1))
    _, loaded = opened(module)

    assert {*loaded.tensors} == {name}


def test_verify_diff_and_identify_find_the_tables_of_a_module() -> None:
    """Frequencies 10000^(−i/8) of a small Llama are right, doubled ones wrong; the running mean and
    the weights of a module are not looked at. A learned table is a parameter.
    """
    inv_freq = 10000.0 ** (-np.arange(8) / 8)
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "rope_theta": 10000.0,
    }
    right = Module(
        {"rotary_emb.inv_freq": inv_freq, "norm.running_mean": np.ones(3)}, wq=np.ones((64, 64))
    )
    wrong = Module({"rotary_emb.inv_freq": inv_freq * 2})

    for check in (
        lambda module: pecli.verify(module, config),
        lambda module: pecli.diff(module, right),
    ):
        assert [tensor.name for tensor in check(right).tensors] == ["rotary_emb.inv_freq"]
        assert check(right).passed
        assert not check(wrong).passed
    assert (
        pecli.identify(right).matches[0].command
        == "pecli rope --seq-len 1 --dim 16 -o again.safetensors"
    )

    learned = Module(
        {}, **{"wpe.weight": np.arange(2048.0).reshape(32, 64), "wte.weight": np.ones((9, 64))}
    )
    assert pecli.verify(
        learned, {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 32}
    )
    assert pecli.identify(Module({"buffer_0": pecli.Alibi(heads=12).tables()["slopes"]}))
