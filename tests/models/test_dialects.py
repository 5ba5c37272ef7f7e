"""Configurations in all dialects: what is read of each, from which key, what is warned of, and what
the code defaults to.

A dialect is the way in which a project spells its configurations: Meta's params.json, GPT-NeoX,
Mistral, Moshi, LitGPT, OLMo and others, beside Hugging Face's config.json. Expected values were
read by hand from the projects' code; META_7B_PARAMS are Llama 2 7B's in Meta's spelling (heads of
4096 / 32 = 128 channels).
"""

import sys
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.encoding import Encoding
from pecli.models.find import load_config, load_model
from tests.models.facts import check_encoding, has_facts, only_encoding, stored

ROWS = stored("configurations.jsonl")
META_7B_PARAMS = {"dim": 4096, "n_heads": 32, "n_layers": 32}
NEOX = {
    "hidden_size": 768,
    "num_attention_heads": 12,
    "max_position_embeddings": 2048,
    "pipe_parallel_size": 1,
}
MOSHI = {"dim": 2560, "num_heads": 20, "max_period": 1e5}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_configuration_is_read_as_its_own_project_reads_it(row: list) -> None:
    """Each row of configurations.jsonl has the name of a project, its config, facts of the only
    encoding such as {"base": 500000, "layout": "halves"}, which were read by hand from the
    project's code, and a part of the expected warning ("" for none).
    """
    _, config, facts_by_hand, *warning = row
    check_encoding(config, facts_by_hand, *warning)


def test_llama_3_1_in_meta_s_spelling_is_its_preset() -> None:
    """`use_scaled_rope` in Meta's params.json stands for the llama3 scaling that config.json spells
    out.
    """
    params = {**META_7B_PARAMS, "n_kv_heads": 8, "rope_theta": 500000.0, "use_scaled_rope": True}
    by_params = only_encoding(params).inverse_frequencies()
    by_preset = only_encoding("llama-3.1-8b").inverse_frequencies()

    assert by_params == by_preset


def encodings(config: dict[str, Any]) -> dict[str, Encoding]:
    """Return the encodings of a configuration by layer type."""
    return {encoding.layer_type: encoding for encoding in load_config(config)}


def test_sliding_layers_of_gemma_3_have_a_base_of_their_own() -> None:
    """Mistral-style params.json of Gemma 3: rope_theta is for full layers, local_rope_theta for
    sliding ones.
    """
    model = load_config(
        {**META_7B_PARAMS, "use_hf_rope": True, "rope_theta": 1e6, "local_rope_theta": 1e4}
    )
    bases = {each.layer_type: each.parameters["base"] for each in model}

    assert bases == {"full_attention": 1e6, "sliding_attention": 1e4}


def test_the_depth_transformer_of_moshi_has_a_base_of_its_own() -> None:
    """Moshi has a second transformer, over the codes of one time step («depformer»). Its keys have
    names of their own, and both have heads of WIDTH / HEADS channels.
    """
    depth = {
        "depformer_dim": 1024,
        "depformer_num_heads": 16,
        "depformer_max_period": 8,
        "depformer_pos_emb": "rope",
    }
    found = encodings({**MOSHI, "positional_embedding": "rope", **depth})

    assert [*found] == ["", "depformer"]
    assert has_facts(found[""], {"head_dim": 2560 // 20, "base": 1e5})
    assert found[""].part == ""
    assert has_facts(found["depformer"], {"head_dim": 1024 // 16, "base": 8.0})
    assert found["depformer"].part == "depformer"


def test_compressed_attention_of_deepseek_is_scaled_and_rotates_the_last_channels() -> None:
    """DeepSeek's inference code has two kinds of layers, and scales only those that compress keys.
    The base of the others is 10000, the default of its `rope_theta`; `trailing` means that the last
    64 of 512 channels rotate.
    """
    compressed = {"compress_rope_theta": 1.6e5, "original_seq_len": 65536, "rope_factor": 16}
    found = encodings(
        {"dim": 4096, "n_heads": 64, "head_dim": 512, "rope_head_dim": 64, **compressed}
    )

    assert [*found] == ["main", "compress"]
    assert has_facts(found["main"], {"base": 1e4, "scaling": "none", "trailing": True})
    assert has_facts(found["compress"], {"base": 1.6e5, "scaling": "yarn", "trailing": True})


def test_the_vision_encoder_of_pixtral_rotates_interleaved_pairs() -> None:
    """The tower has 1024 / 16 = 64 channels per head, and Mistral's code pairs neighbours."""
    tower = {
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "rope_theta": 1e4,
        "image_size": 1024,
        "patch_size": 16,
    }
    vision = encodings({**META_7B_PARAMS, "vision_encoder": tower})["vision"]

    assert has_facts(
        vision,
        {"rotary_dim": 1024 // 16, "base": 1e4, "scaling": "none", "layout": "interleaved"},
    )


def test_the_vision_tower_of_llama_4_rotates_and_has_learned_patch_positions() -> None:
    """Meta's params.json: heads of 1408 / 16 channels, and a learned row for each of (336 / 14)²
    patches and the class token; base 10000 is a constant of the code.
    """
    sizes = {"image_size": {"height": 336, "width": 336}, "patch_size": {"height": 14, "width": 14}}
    found = encodings({**META_7B_PARAMS, "vision_args": {"dim": 1408, "n_heads": 16, **sizes}})

    assert has_facts(
        found["vision"],
        {"rotary_dim": 1408 // 16, "base": 1e4, "scaling": "none", "layout": "interleaved"},
    )

    patches = (336 // 14) ** 2
    class_token = 1
    assert has_facts(
        found["vision.patches"],
        {"scheme": "learned", "max_len": patches + class_token, "dim": 1408},
    )


@pytest.mark.parametrize(
    ("config", "key"),
    [(NEOX, "pos_emb"), (MOSHI, "positional_embedding")],
    ids=["gpt-neox", "moshi"],
)
def test_the_word_none_means_no_encoding(config: dict[str, Any], key: str) -> None:
    """GPT-NeoX and Moshi name the encoding by a word, as the value of `key`. «none» is a word of
    both projects' code; it is reported, because such models are rare.
    """
    model = load_config({**config, key: "none"})
    assert not model.encodings
    assert any(
        "is none: the model has no positional encoding" in warning for warning in model.warnings
    )


@pytest.mark.parametrize(
    ("config", "key"),
    [(NEOX, "pos_emb"), (MOSHI, "positional_embedding")],
    ids=["gpt-neox", "moshi"],
)
def test_a_word_that_names_no_encoding_is_refused(config: dict[str, Any], key: str) -> None:
    """GPT-NeoX and Moshi name the encoding by a word, as the value of `key`; the error lists the
    words that the project's code knows.
    """
    with pytest.raises(pecli.FileError, match=f"{key} is 'wibble'; known are "):
        load_config({**config, key: "wibble"})


def test_an_empty_rope_type_is_refused() -> None:
    """An empty text names no scaling, and is not taken for «default»."""
    scaling = {"rope_type": "", "factor": 8.0}
    with pytest.raises(pecli.FileError, match="rope_type is ''; known are "):
        load_config({"model_type": "llama", "head_dim": 64, "rope_scaling": scaling})


def test_yarn_of_litgpt_is_refused_for_it_is_not_yarn() -> None:
    """LitGPT's rope_adjustments with betas swap the two ends of YaRN's ramp, so no scheme of pecli
    is equal to it.
    """
    adjusted = {"factor": 8.0, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 4096}
    with pytest.raises(pecli.FileError, match="blends the other way round"):
        load_config(
            {"n_embd": 4096, "n_head": 32, "rotary_percentage": 1.0, "rope_adjustments": adjusted}
        )


def test_a_configuration_in_yaml_is_read(tmp_path: Path) -> None:
    """OLMo's training configurations are YAML files; 4096 / 32 heads = 128 channels rotate."""
    path = tmp_path / "OLMo-7B.yaml"
    path.write_text(
        "run_name: x\nmodel:\n  d_model: 4096\n  n_heads: 32\n  rope: true\n  alibi: false  # no\n"
    )
    assert load_model(path).one().parameters["dim"] == 4096 // 32


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", " not YAML that can be read: while parsing a flow node"),
        ("- 1\n", " not an object"),
        ("a: !!python/object/apply:os.system [x]\n", " not YAML"),
    ],
    ids=["cut off", "a list", "a tag that would call os.system"],
)
def test_yaml_that_is_broken_or_no_object_or_would_run_code_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    """Tags of PyYAML can call any function while a file is loaded; pecli reads none of them."""
    path = tmp_path / "OLMo-7B.yaml"
    path.write_text(text)
    with pytest.raises(pecli.FileError, match=problem):
        load_model(path)


def test_yaml_is_refused_with_advice_if_pyyaml_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None in sys.modules makes `import yaml` fail, as if PyYAML were not installed."""
    path = tmp_path / "OLMo-7B.yaml"
    path.write_text("model:\n  d_model: 4096\n")
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(
        pecli.FileError, match="is YAML, and no reader of it is installed; pip install pyyaml"
    ):
        load_model(path)
