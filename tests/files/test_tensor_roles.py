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
        pytest.param("weight", "rows", id="weight as the full name: a learned table"),
        pytest.param("Weight", None, id="weight with a capital letter"),
        pytest.param("mlp.weight", None, id="weight at the end of a path"),
        pytest.param("bias", "bias", id="bias as the full name: a table of biases"),
        pytest.param("a.bias", None, id="bias at the end of a path"),
        pytest.param("array", None, id="array, the name of every array without one"),
    ],
)
def test_common_words_count_only_as_the_full_name(name: str, role: str | None) -> None:
    """A file with the single tensor «weight» is a learned table; in a path, every layer of a model has
    a weight and a bias.
    """
    assert role_of(name) == role


@pytest.mark.parametrize("name", ["cos", "cos.weight", "cos.weights", "cos.weight.weights"])
def test_weight_at_the_end_of_a_path_leaves_the_role_to_the_name_before_it(name: str) -> None:
    """Modules for tables keep them as their weight: «cos.weight» is the table cos."""
    assert role_of(name) == "cos"


def test_a_tensor_of_a_module_called_rope_is_rotary() -> None:
    """The name «x» states no role, but the module is one of rotary encodings, so that the tensor may
    be any of theirs: ANYTHING. In «europe» the letters rope are no word.
    """
    assert role_of("rope.x") == ANYTHING
    assert role_of("europe.x") is None


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
    layer_types_of_gemma = ["full_attention", "sliding_attention"]
    assert layer_named(name, layer_types_of_gemma) == layer_type


def test_the_longest_layer_type_in_the_name_of_a_table_counts() -> None:
    """«full_attention» contains the other two texts, «attention» and the empty one."""
    layer_types = ["", "attention", "full_attention", "sliding_attention"]
    assert layer_named("rotary_emb.full_attention_inv_freq", layer_types) == "full_attention"


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


def names_of_taken_tensors(*, buffers: list[str], parameters: list[str]) -> list[str]:
    """Return which tensors of a module are read, when it is given in place of a file."""
    module = Module(
        {name: np.ones(1) for name in buffers}, **{name: np.ones(1) for name in parameters}
    )
    _, file = opened(module)
    return [*file.tensors]


def test_buffers_of_a_module_are_taken_if_no_tensor_has_a_positional_name() -> None:
    """«a» and «c» could be tables that the module computes. Its parameters are trained weights, and
    those are never taken without a positional name.
    """
    assert names_of_taken_tensors(buffers=["a", "c"], parameters=["b"]) == ["a", "c"]


def test_only_tensors_with_a_positional_name_are_taken_if_there_is_one() -> None:
    """«cos» is the name of a rotary table, and «wpe.weight» that of GPT-2's learned one; «a» and «b»
    are other tensors.
    """
    assert names_of_taken_tensors(buffers=["a", "cos"], parameters=["b"]) == ["cos"]
    assert names_of_taken_tensors(buffers=["a"], parameters=["b", "wpe.weight"]) == ["wpe.weight"]


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
    """GPT-2 keeps its positions, here 32 rows of 64, as the parameter wpe.weight; wte.weight are the
    embeddings of tokens. Learned rows may have any numbers; a table of 31 rows must fail.
    """
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 32}
    rows = np.arange(32 * 64.0).reshape(32, 64)
    embeddings = np.ones((9, 64))
    right = Module({}, **{"wpe.weight": rows, "wte.weight": embeddings})
    one_row_less = Module({}, **{"wpe.weight": rows[:31], "wte.weight": embeddings})

    result = pecli.verify(right, config)
    assert [tensor.name for tensor in result.tensors] == ["wpe.weight"]
    assert result.passed
    assert not pecli.verify(one_row_less, config).passed


def test_identify_finds_a_buffer_without_a_positional_name() -> None:
    """The only buffer, «buffer_0», holds the slopes of ALiBi for 12 heads."""
    slopes = pecli.Alibi(heads=12).tables()["slopes"]
    assert pecli.identify(Module({"buffer_0": slopes}))
