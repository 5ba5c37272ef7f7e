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


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (
            "cos",
            [
                "cos",
                "params/rope/cos",
                "freqs_cos",
                "cos_local",
                "model.layers.31.self_attn.rotary_emb.cos_cached",
            ],
        ),
        (
            "sin",
            [
                "sin_cached",
                "rotary_emb.sin_cache",
                "rope_sin",
                "rope.sin_full_attention",
                "model.layers.0.self_attn.rotary_emb._sin_cached",
            ],
        ),
        ("both", ["model.layers.0.self_attn.rotary_emb.cos_sin_cache", "freqs_cis"]),
        (
            "inv_freq",
            ["model.rotary_emb.inv_freq", "model.rotary_emb.full_attention_original_inv_freq"],
        ),
        (
            "rows",
            [
                "transformer.wpe.weight",
                "model.decoder.embed_positions.weight",
                "model.encoder.embed_positions.weights",
                "weight",
                "bert.embeddings.position_embeddings.weight",
                "vit.embeddings.position_embeddings",
                "pos_embed",
            ],
        ),
        ("slopes", ["attn.alibi_slopes"]),
        ("bias", ["bias", "transformer.alibi"]),
        (ANYTHING, ["rotary_emb.freqs"]),
        (
            None,
            [
                "",
                "arr_0",
                "array",
                "model.layers.0.self_attn.q_proj.weight",
                "model.layers.0.self_attn.q_proj.bias",
                "model.layers.0.mlp.cosine_gate_proj.weight",
                "model.embed_tokens.weight",
                "bert.embeddings.position_ids",
                "h.0.attn.bias",
            ],
        ),
    ],
)
def test_the_role_of_a_tensor_follows_from_its_name(role: str | None, names: list[str]) -> None:
    """The names stand in public checkpoints and dumps (transformers, vLLM, Llama); their roles were
    written by hand: cosines, sines, both in one table, frequencies, learned rows, ALiBi's slopes or
    bias, ANYTHING for a rotary tensor of unknown kind, None for weights of other matters.
    """
    assert {name: role_of(name) for name in names} == dict.fromkeys(names, role)


@pytest.mark.parametrize("role", [*roles().values(), ANYTHING])
def test_every_role_has_a_scheme(role: str) -> None:
    """A tensor of a role without schemes could be compared with nothing."""
    assert schemes_of(role)


def test_no_name_of_a_tensor_has_two_roles() -> None:
    """Each scheme lists the names of its tensors by their roles. `roles()` maps names to roles, so
    that it would lose the second role of a name.
    """
    names_and_roles = set()
    for scheme in SCHEMES:
        for role, names in checkpoint_names(scheme).items():
            names_and_roles.update((name, role) for name in names)

    assert len(names_and_roles) == len(roles())


@pytest.mark.parametrize(
    ("name", "role"),
    [
        pytest.param("weight", "rows", id="weight as the full name"),
        pytest.param("Weight", None, id="weight with a capital letter"),
        pytest.param("array", None, id="array, which is NumPy's default"),
        pytest.param("a.bias", None, id="bias at the end of a path"),
        pytest.param("cos.weight.weights", "cos", id="cos as a word before weight"),
        pytest.param("rope.x", ANYTHING, id="rope as a word"),
        pytest.param("europe.x", None, id="rope within a word"),
    ],
)
def test_common_words_count_only_as_the_full_name(name: str, role: str | None) -> None:
    """«weight» alone is a learned table, but weight within a path is any layer's; «rope» counts as
    a word, not in «europe».
    """
    assert role_of(name) == role


@pytest.mark.parametrize(
    ("name", "layer_type"),
    [
        ("rotary_emb_local.inv_freq", "sliding_attention"),
        ("swa/cos", "sliding_attention"),
        ("a.swa", "sliding_attention"),
        ("cos_global", "full_attention"),
        ("global_x", "full_attention"),
        ("rotary_emb.full_attention_inv_freq", "full_attention"),
        ("x", None),
        ("rotary_emb.inv_freq", None),
        ("localised.cos", None),
        ("local.global", None),
        ("local.and.global.cos", None),
    ],
)
def test_the_layer_type_of_a_table_follows_from_its_name(name: str, layer_type: str | None) -> None:
    """Gemma 3 and others have one table for sliding layers (local, or swa for sliding-window
    attention) and one for full ones (global). Neither word, or both, state no layer type.
    """
    layer_types_of_gemma = ["", "attention", "full_attention", "sliding_attention"]
    assert layer_named(name, layer_types_of_gemma) == layer_type


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("swa/cos", id="swa, for sliding layers"),
        pytest.param("cos_global", id="global, for full layers"),
    ],
)
def test_words_for_sliding_and_full_layers_mean_nothing_in_a_model_without_such_layers(
    name: str,
) -> None:
    """The model has the layer types «vision», of its image encoder, and «», of its language model,
    whose layers are all alike. Neither is sliding or full, so that no layer type is found.
    """
    assert layer_named(name, layer_types=["vision", ""]) is None


def test_a_layer_type_without_a_name_is_found_in_no_tensor() -> None:
    """«» is the type of a language model whose layers are all alike. As a text it is part of every
    tensor's name, which must not count.
    """
    assert layer_named("rotary_emb.inv_freq", layer_types=["vision", ""]) is None


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
    """A module with buffers and parameters, which has the two methods of torch's that are used."""

    def __init__(self, buffers: dict[str, np.ndarray], **parameters: np.ndarray) -> None:
        self.named_buffers = buffers.items
        self.named_parameters = parameters.items


@pytest.mark.parametrize("buffer", ["cos", "a"])
def test_the_only_buffer_of_a_module_is_taken_even_if_its_name_is_not_positional(
    buffer: str,
) -> None:
    """«cos» is the name of a table. «a» is not, but it is taken because no tensor of the module has
    such a name. The parameter b is a weight.
    """
    module = Module({buffer: np.ones(1)}, b=np.zeros(1))
    _, loaded = opened(module)

    assert {*loaded.tensors} == {buffer}


LLAMA_FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)
LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,  # heads of 64 / 4 = 16 channels, 8 frequencies
    "rope_theta": 10000.0,
}


def module_of_llama(frequencies: np.ndarray) -> Module:
    """A module with frequencies, and with a buffer and a parameter of other matters."""
    buffers = {"rotary_emb.inv_freq": frequencies, "norm.running_mean": np.ones(3)}
    return Module(buffers, wq=np.ones((64, 64)))


def test_verify_finds_the_frequencies_of_a_module() -> None:
    """A Llama with heads of 16 channels has the frequencies 10000^(−i/8); doubled ones fail."""
    result = pecli.verify(module_of_llama(LLAMA_FREQUENCIES), LLAMA_CONFIG)
    assert [tensor.name for tensor in result.tensors] == ["rotary_emb.inv_freq"]
    assert result.passed
    assert not pecli.verify(module_of_llama(LLAMA_FREQUENCIES * 2), LLAMA_CONFIG).passed


def test_diff_finds_the_frequencies_of_a_module() -> None:
    """Two modules with the same frequencies are equal, and doubled frequencies differ from them."""
    reference = module_of_llama(LLAMA_FREQUENCIES)
    result = pecli.diff(module_of_llama(LLAMA_FREQUENCIES), reference)
    assert [tensor.name for tensor in result.tensors] == ["rotary_emb.inv_freq"]
    assert result.passed
    assert not pecli.diff(module_of_llama(LLAMA_FREQUENCIES * 2), reference).passed


def test_identify_finds_the_frequencies_of_a_module() -> None:
    """10000^(−i/8) are the frequencies of a rope of 16 channels with the default base; a vector of
    frequencies states no length, so that one position is proposed.
    """
    match = pecli.identify(module_of_llama(LLAMA_FREQUENCIES)).matches[0]
    assert match.command == "pecli rope --seq-len 1 --dim 16 -o again.safetensors"


def test_verify_finds_a_learned_table_among_the_parameters_of_a_module() -> None:
    """GPT-2 keeps its positions, here 32 rows of 64, as the parameter wpe.weight."""
    parameters = {
        "wpe.weight": np.arange(2048.0).reshape(32, 64),
        "wte.weight": np.ones((9, 64)),  # the tokens' embeddings
    }
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 32}
    assert pecli.verify(Module({}, **parameters), config)


def test_identify_finds_a_buffer_without_a_positional_name() -> None:
    """The only buffer, «buffer_0», holds the slopes of ALiBi for 12 heads."""
    slopes = pecli.Alibi(heads=12).tables()["slopes"]
    assert pecli.identify(Module({"buffer_0": slopes}))
