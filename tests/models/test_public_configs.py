"""Configurations of public projects: their encodings are those that the projects' own code
computes.

A row of public_configs.jsonl has the file of a project (`source`), as text or as an object, and
what the code named in `notes` makes of it. The tests after those of the rows are single projects
(Step, Megatron, MaxText, BERT, GPT-2, KerasHub, Levanter, LLM Foundry) and rules about keys; their
docstrings name the code. SIZES are heads of 256 / 4 = 64 channels.
"""

import json
from typing import Any

import numpy as np
import pytest

from pecli.errors import FileError
from pecli.models.config_files import parse_config
from pecli.models.dialects import read_object
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import load_config
from tests.models.facts import stored

Row = dict[str, Any]
ROWS: list[Row] = stored("public_configs.jsonl")
ROWS_WITH_ROPE = [row for row in ROWS if row["expected"]["encodings"]]
ROWS_WITH_TABLES = [row for row in ROWS if row["expected"]["schemes"]]


def model_of(row: Row) -> ModelEncodings:
    text = row["text"] if "text" in row else json.dumps(row["config"])
    return read_object(parse_config(row["file"], text.encode()), row["file"])


def row_name(row: Row) -> str:
    return str(row["source"])


def has_frequencies(encoding: Encoding, frequencies: list[float]) -> bool:
    values = encoding.inverse_frequencies() or []
    return len(values) == len(frequencies) and np.allclose(values, frequencies, rtol=2e-5, atol=0)


@pytest.mark.parametrize("row", ROWS_WITH_ROPE, ids=row_name)
def test_the_rotary_encodings_of_a_public_config_are_those_of_its_projects_code(row: Row) -> None:
    """Each row has a public config, and the frequencies, the attention factor and the layout that
    its project's own code computed from it (data/README.md has the scripts); a layout of None is one
    that the code leaves open. Each of them must be found, and no rope with other frequencies.
    """
    encodings_by_project = row["expected"]["encodings"]
    ropes = [encoding for encoding in model_of(row) if encoding.is_rotary]

    for rope in ropes:
        assert any(has_frequencies(rope, each["inv_freq"]) for each in encodings_by_project)
    for expected in encodings_by_project:
        matches = [rope for rope in ropes if has_frequencies(rope, expected["inv_freq"])]
        assert matches
        assert expected["layout"] in (None, matches[0].layout)
        assert matches[0].attention_factor() == pytest.approx(expected["attention_factor"])


@pytest.mark.parametrize("row", ROWS_WITH_TABLES, ids=row_name)
def test_the_tables_of_a_public_config_have_the_sizes_of_its_projects_code(row: Row) -> None:
    """Each row has a public config, and the schemes and sizes of the tables that its project's own
    code made from it, such as {"scheme": "learned", "max_len": 1024, "dim": 768} (data/README.md has
    the scripts). An encoding of this scheme and these sizes must be among those that are read.
    """
    model = model_of(row)
    for expected in row["expected"]["schemes"]:
        expected_sizes = {name: value for name, value in expected.items() if name != "scheme"}
        sizes_of_encodings = []
        for encoding in model:
            if encoding.scheme == expected["scheme"]:
                sizes = {name: encoding.parameters.get(name) for name in expected_sizes}
                sizes_of_encodings.append(sizes)
        assert expected_sizes in sizes_of_encodings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("${.length}", 512, id="in the same section"),
        pytest.param("${model.length}", 512, id="from the top"),
        pytest.param("${..top}", 7, id="one section up"),
        pytest.param("${...top}", "${...top}", id="too many sections up"),
        pytest.param("${other}", 512, id="a reference to a reference"),
        pytest.param("${absent}", "${absent}", id="a missing key"),
        pytest.param("${model}", "${model}", id="the section itself"),
        pytest.param("${loop}", "${loop}", id="a loop"),
        pytest.param("${multiply:2,3}", "${multiply:2,3}", id="a function"),
        pytest.param(f"0x{'f' * 9000}", 16**9000 - 1, id="an integer of thousands of digits"),
        pytest.param("5e5", 500000.0, id="an exponent"),
        pytest.param("1.e-8", 1e-8, id="a point without decimals"),
        pytest.param("'5e5'", "5e5", id="in quotes"),
    ],
)
def test_references_and_numbers_of_yaml_are_read_as_omegaconf_reads_them(
    text: str, value: object
) -> None:
    """The value stands for `x` in the section «model», beside length 512; outside, `top` is 7, and
    `other` refers to the length. As in OmegaConf, references are absolute, or relative with leading
    dots; those that cannot be resolved, or lead to themselves, stay text. Numbers such as 5e5 are
    text only if they are quoted.
    """
    lines = [
        "top: 7",
        "other: ${model.length}",
        "loop: ${loop}",
        "model:",
        "  length: 512",
        f"  x: {text}",
    ]
    config = parse_config("a.yaml", "\n".join(lines).encode())
    model = config["model"]

    assert isinstance(model, dict)
    assert model["x"] == value


SIZES = {"hidden_size": 256, "num_attention_heads": 4}
STEP = {
    "model_type": "step3p5",
    **SIZES,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "rope_theta": [5e6, 1e4, 5e6],
    "partial_rotary_factors": [0.5, 1.0, 0.5],
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 2.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 32.0,
        "original_max_position_embeddings": 131072,
    },
    "yarn_only_types": ["full_attention"],
}


@pytest.mark.parametrize(
    ("layer_type", "base", "scaling"),
    [("full_attention", 5e6, "llama3"), ("sliding_attention", 1e4, "none")],
)
def test_a_list_with_a_base_per_layer_gives_each_layer_type_the_base_of_its_layers(
    layer_type: str, base: float, scaling: str
) -> None:
    """Step-3.5 has lists by layer: the layers of STEP are full, sliding and full, with bases 5e6, 1e4
    and 5e6. Its yarn_only_types limits the scaling to full layers.
    """
    encoding = load_config(STEP).one(layer_type)
    assert encoding.parameters["base"] == base
    assert encoding.parameters["scaling"] == scaling
    assert encoding.sources["base"] == "rope_theta"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        pytest.param(
            {"rope_theta": [1e4, 1e4, 5e6]}, "rope_theta has 2 values", id="two bases of one type"
        ),
        pytest.param(
            {"rope_theta": [1e4, None, 5e6]}, "a list of finite numbers", id="None in the list"
        ),
        pytest.param(
            {"rope_theta": [1e4]}, "0 values for layers of 'sliding_attention'", id="too short"
        ),
        pytest.param({"layer_types": None}, "a list needs layer_types", id="no layer types"),
    ],
)
def test_a_list_of_bases_that_does_not_fit_the_layer_types_is_refused(
    keys: dict[str, Any], problem: str
) -> None:
    """The layers of STEP are full, sliding and full. A list must have one finite number for each, and
    the same number for layers of one type.
    """
    with pytest.raises(FileError, match=problem):
        load_config({**STEP, **keys})


MEGATRON = {**SIZES, "rotary_base": 10000}


def test_the_position_type_mrope_of_megatron_has_its_sections() -> None:
    """«mrope» is a position_embedding_type of Megatron-LM; 8 + 12 + 12 are the 32 pairs of a head of
    256 / 4 = 64 channels.
    """
    config = {**MEGATRON, "position_embedding_type": "mrope", "mrope_section": [8, 12, 12]}
    assert load_config(config).one().sections.mrope_section == (8, 12, 12)


def test_the_position_type_yarn_of_megatron_has_its_scaling() -> None:
    """Megatron states YaRN by position_embedding_type and keys of its own. YaRN divides the factor
    of mscale by that of mscale_all_dim; both are 1.0, so the attention factor is 1.
    """
    config = {
        **MEGATRON,
        "position_embedding_type": "yarn",
        "yarn_rotary_scaling_factor": 4.0,
        "yarn_original_max_position_embeddings": 4096,
        "yarn_beta_fast": 32.0,
        "yarn_beta_slow": 1.0,
        "yarn_mscale": 1.0,
        "yarn_mscale_all_dim": 1.0,
    }
    encoding = load_config(config).one()

    assert encoding.parameters["scaling"] == "yarn"
    assert encoding.attention_factor() == 1.0


@pytest.mark.parametrize("block", ["gemma4", "gemma4_small"])
@pytest.mark.parametrize("layer_type", ["full_attention", "sliding_attention"])
def test_gemma_4_in_maxtexts_keys_has_the_frequencies_of_its_class_in_transformers(
    layer_type: str, block: str
) -> None:
    """The keys are those of MaxText's gemma4-26b.yml and gemma4-e2b.yml, which its gemma4.py and
    gemma4_small.py read. Its numbers are the class defaults of transformers.
    """
    maxtext = {
        "decoder_block": block,
        "base_emb_dim": 2048,
        "base_num_query_heads": 8,
        "head_dim": 256,
        "global_head_dim": 512,
        "global_rope_proportion": 0.25,
        "local_rope_proportion": 1.0,
        "global_rope_max_timescale": 1000000,
        "rope_max_timescale": 10000,
        "local_rope_max_timescale": 10000,
    }

    assert load_config(maxtext).warnings == ()

    expected = load_config({"model_type": "gemma4_text"}).one(layer_type)
    encoding = load_config(maxtext).one(layer_type)
    assert encoding.inverse_frequencies() == expected.inverse_frequencies()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("European", 3),
        ("composition", 3),
        ("label2id", {"rope": 1}),
        ("positional_dropout_rate", 3),
        ("loss_scaling_factor", 3),
    ],
)
def test_a_key_that_only_contains_a_word_about_positions_has_no_warning(
    key: str, value: object
) -> None:
    """«rope» is in «European», «pos» in «composition», and a label of a classifier may be «rope»;
    the others are about training.
    """
    assert load_config({"model_type": "llama", **SIZES, key: value}).warnings == ()


def test_use_rope_is_not_taken_for_a_misspelled_nope() -> None:
    """BERT's class reads neither use_rope nor use_nope. The words differ by one letter, but «did you
    mean use_nope» would mislead: it means the opposite.
    """
    model = load_config({"model_type": "bert", **SIZES, "use_rope": True})
    assert not any("nope" in warning for warning in model.warnings)


@pytest.mark.parametrize(
    ("model_type", "key", "size"),
    [
        ("gpt2", "block_size", "n_positions"),
        ("bert", "max_len", "max_position_embeddings"),
        ("vit", "img_size", "image_size"),
        ("t5", "num_buckets", "relative_attention_num_buckets"),
    ],
)
def test_a_size_that_keeps_its_default_beside_another_projects_key_for_it_is_reported(
    model_type: str, key: str, size: str
) -> None:
    """`key` is another project's name for what the class reads from `size`: nanoGPT's block_size in
    a config of GPT-2, for example, looks like its length, but n_positions is.
    """
    warnings = load_config({"model_type": model_type, key: 96}).warnings
    assert f"{key} is 96, and nothing here reads it: {size} has its default" in warnings


def test_gemma_4_without_a_rope_type_rotates_all_channels() -> None:
    """Without rope_type «proportional», transformers 5.23.0 ignores the partial factor: it makes the
    256 frequencies of heads of 512 channels. The last one is 1e6**(-510 / 512) = 1.0554e-06.
    """
    full = {"rope_theta": 1e6, "partial_rotary_factor": 0.25}
    layers = {"full_attention": full, "sliding_attention": {"rope_theta": 1e4}}
    encoding = load_config({"model_type": "gemma4_text", "rope_parameters": layers}).encodings[0]
    frequencies = encoding.inverse_frequencies() or []

    assert len(frequencies) == 256
    assert frequencies[-1] == pytest.approx(1e6 ** (-510 / 512), rel=1e-4)


def test_divisors_may_be_1e30_rounded_to_float32() -> None:
    """1e30 is the largest number that a config may have, and rounds up in float32, in which some
    writers store divisors. The last 16 frequencies, at most 1, are divided by it.
    """
    divisors = [1.0] * 16 + [float(np.float32(1e30))] * 16
    scaling = {"rope_type": "longrope", "short_factor": divisors, "long_factor": divisors}
    config = {**SIZES, "model_type": "llama", "rope_scaling": scaling}
    config |= {"max_position_embeddings": 4096, "original_max_position_embeddings": 4096}
    frequencies = load_config(config).one().inverse_frequencies() or []

    assert frequencies[-1] < 1e-30


def test_googles_bert_config_has_a_learned_table() -> None:
    """BERT-Base's bert_config.json; modeling.py makes `position_embeddings` of 512 x 768."""
    config = {
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_size": 768,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "type_vocab_size": 2,
        "vocab_size": 30522,
    }
    encoding = load_config(config).one()

    assert encoding.scheme == "learned"
    assert encoding.parameters["max_len"] == 512
    assert encoding.parameters["dim"] == 768


def test_openais_hparams_have_a_learned_table() -> None:
    """GPT-2's hparams.json of 124M; model.py makes `wpe` of 1024 x 768."""
    config = {"n_vocab": 50257, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12}
    encoding = load_config(config).one()

    assert encoding.scheme == "learned"
    assert encoding.parameters["max_len"] == 1024
    assert encoding.parameters["dim"] == 768


def test_a_config_of_flagscale_without_a_base_has_megatrons_default() -> None:
    """FlagScale trains with Megatron, whose --rotary-base is 10000 by default."""
    config = {"model": {**SIZES, "use_rotary_position_embeddings": True}}
    assert load_config(config).one().parameters["base"] == 10000.0


SCALED_BY_8 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA_3_1 = {
    "model_type": "llama",
    **SIZES,
    "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", **SCALED_BY_8},
}
KERAS_LLAMA = {
    "module": "keras_hub.src.models.llama3.llama3_backbone",
    "class_name": "Llama3Backbone",
    "registered_name": "keras_hub>Llama3Backbone",
    "config": {
        "hidden_dim": 256,
        "num_query_heads": 4,
        "rope_max_wavelength": 500000,
        "rope_position_scaling_factor": 1.0,
        "rope_frequency_adjustment_factor": 8.0,
        "rope_low_freq_factor": 1.0,
        "rope_high_freq_factor": 4.0,
        "rope_pretraining_sequence_length": 8192,
    },
}
LEVANTER_LLAMA = {
    "model": {"type": "llama", "hidden_dim": 256, "num_heads": 4, "rope": {"type": "llama3"}}
}
FOUNDRY_LLAMA = {
    "model": {
        "name": "mpt_causal_lm",
        "d_model": 256,
        "n_heads": 4,
        "max_seq_len": 8192,
        "attn_config": {
            "rope": True,
            "rope_theta": 500000,
            "rope_impl": "hf",
            "rope_hf_config": {**SCALED_BY_8, "type": "llama3"},
        },
    }
}


@pytest.mark.parametrize(
    "config",
    [KERAS_LLAMA, LEVANTER_LLAMA, FOUNDRY_LLAMA],
    ids=["keras-hub", "levanter", "llm-foundry"],
)
def test_llama_3_1_has_the_same_frequencies_in_the_keys_of_other_projects(
    config: dict[str, Any],
) -> None:
    """KerasHub, Levanter and LLM Foundry use Meta's formula under keys of their own: base 500000,
    factor 8, low and high factors 1 and 4, 8192 positions. Levanter has them as class defaults.
    """
    in_keys_of_hugging_face = load_config(LLAMA_3_1).one()
    in_keys_of_the_project = load_config(config).one()
    frequencies = in_keys_of_the_project.inverse_frequencies()
    assert frequencies == in_keys_of_hugging_face.inverse_frequencies()
