"""Configurations against what transformers, diffusers and the code of other projects compute from
them, and against what papers and cards of models say.

The expected numbers were computed by those projects and are stored in tests/models/data, whose
README.md states versions and scripts. Frequencies (inv_freq) are compared to 2e-5 or better,
because the projects compute them in float32. KNOWN_QUIRKS and UNLIKE list the classes that differ on
purpose, each with its reason.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.models import families, non_rotary
from pecli.models.encoding import Encoding
from pecli.models.find import load_config
from pecli.models.presets import presets
from tests.models.facts import facts_by_layer_type, only_encoding, stored

CASES_OF_TRANSFORMERS = stored("rope_families.jsonl", "rope_random.jsonl")
MORE_CASES_OF_TRANSFORMERS = stored("rope_families_more.jsonl", "rope_random_more.jsonl")
DIALECTS = stored("dialects.json")


ALL_CASES_OF_TRANSFORMERS = pytest.mark.parametrize(
    "case", [*CASES_OF_TRANSFORMERS, *MORE_CASES_OF_TRANSFORMERS], ids=lambda case: case["case"]
)
"""Each case has a config, and by layer type the `inv_freq` and `attention_scaling` that a module of
transformers 5.22.2 computed from it in float32 (data/README.md): {"config": {"model_type": "llama",
…}, "seq_len": null, "tables": {"": {"inv_freq": [1.0, …], "attention_scaling": 1.0}}}.
"""


def ropes_by_layer_type(config: dict[str, Any]) -> dict[str, Encoding]:
    return {encoding.layer_type: encoding for encoding in load_config(config) if encoding.is_rotary}


@ALL_CASES_OF_TRANSFORMERS
@pytest.mark.sample(60)
def test_frequencies_and_attention_factors_are_those_of_the_class_in_transformers(
    case: dict[str, Any],
) -> None:
    """A case has a config, and by layer type what transformers' own module computed from it in float32.
    `seq_len` is the length of the prompt that the module had seen, None before any.
    """
    ropes = ropes_by_layer_type(case["config"])

    for layer_type, computed in case["tables"].items():
        encoding = ropes[layer_type]
        # The blend of llama3 subtracts numbers of like size, which costs float32 some digits.
        tolerance = 5e-6 if encoding.parameters["scaling"] == "llama3" else 1e-6
        frequencies = encoding.inverse_frequencies(case.get("seq_len"))
        assert frequencies == pytest.approx(computed["inv_freq"], rel=tolerance, abs=0)
        factor = encoding.attention_factor(case.get("seq_len"))
        assert factor == pytest.approx(computed["attention_scaling"], abs=1e-6)


@ALL_CASES_OF_TRANSFORMERS
@pytest.mark.sample(60)
def test_the_scheme_of_a_public_config_has_the_frequencies_of_its_encoding(
    case: dict[str, Any],
) -> None:
    """`Encoding.rope` makes the scheme, whose tables have the frequencies that `inverse_frequencies`
    returns, one per two rotary channels. Exempt are encodings for patches of images, from which no
    table over positions follows (`no_table`), and models that store frequencies in another order
    than the table's (`order`).
    """
    length = case.get("seq_len")
    ropes = ropes_by_layer_type(case["config"])

    for layer_type in case["tables"]:
        encoding = ropes[layer_type]
        frequencies = encoding.inverse_frequencies(length)
        assert frequencies is not None
        assert encoding.axis_dim == 2 * len(frequencies)
        if not encoding.no_table and encoding.order is None:
            rope = encoding.rope(seq_len=8, length=length or 1)
            assert rope.tables()["inv_freq"].tolist() == frequencies


@ALL_CASES_OF_TRANSFORMERS
@pytest.mark.sample(60)
def test_a_class_of_transformers_is_known_and_other_ropes_are_those_of_parts_of_its_config(
    case: dict[str, Any],
) -> None:
    """A rope that is not in the case's module is that of a part with a section of its own: Music
    Flamingo's «text» is its `text_config`. A class of transformers must not be called unknown.
    """
    config = case["config"]
    for layer_type in ropes_by_layer_type(config).keys() - case["tables"].keys():
        part = layer_type.partition(".")[0]
        assert part in config or f"{part}_config" in config

    if "model_type" in config:
        warnings = load_config(config).warnings
        # «model_type 'foo' is unknown: …»
        assert not any(warning.startswith("model_type ") for warning in warnings)


def in_keys_of_transformers_4(config: dict[str, Any], key_of_type: str) -> dict[str, Any]:
    """Return a config with rope_theta and rope_scaling in place of rope_parameters."""
    settings = dict(config["rope_parameters"])
    old = {name: value for name, value in config.items() if name != "rope_parameters"}
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in settings:
            old[name] = settings.pop(name)
    if "rope_type" in settings:
        settings[key_of_type] = settings.pop("rope_type")
    return {**old, "rope_scaling": settings}


@pytest.mark.parametrize("key_of_type", ["type", "rope_type"])
def test_the_spelling_of_transformers_4_is_read_as_that_of_transformers_5(
    key_of_type: str,
) -> None:
    """`rope_parameters` (transformers 5) and `rope_theta` beside `rope_scaling` (transformers 4)
    mean the same, whether the latter calls its kind «type», as early versions did, or «rope_type».
    """
    for case in CASES_OF_TRANSFORMERS:
        if not case["case"].endswith("/rope_parameters"):
            continue
        in_new_keys = only_encoding(case["config"])
        in_old_keys = only_encoding(in_keys_of_transformers_4(case["config"], key_of_type))
        assert in_old_keys.parameters == in_new_keys.parameters
        assert in_old_keys.layout == in_new_keys.layout


@pytest.mark.parametrize("case", DIALECTS, ids=[case["name"] for case in DIALECTS])
def test_a_dialect_means_what_its_own_code_computes(case: dict[str, Any]) -> None:
    """A dialect is the way in which a project spells its configs. dialects.json has configs of
    projects other than Hugging Face's, with the frequencies (in float32), attention factors and
    layouts that their own code made of them; a layout of None is one that the code leaves open.
    """
    ropes = ropes_by_layer_type(case["config"])

    for expected in case["expected"]["encodings"]:
        # Some names have the module of the project as well: «full_attention@model.rotary_emb».
        layer_type = expected["layer"].partition("@")[0]
        encoding = ropes.pop(layer_type)
        np.testing.assert_allclose(encoding.inverse_frequencies(), expected["inv_freq"], rtol=2e-5)
        assert encoding.attention_factor() == pytest.approx(expected["attention_factor"], rel=1e-6)
        assert expected["layout"] in (None, encoding.layout)
    ropes_that_the_code_lacks = ropes
    assert not ropes_that_the_code_lacks


FREQUENCIES_OF_DIFFUSERS: dict[str, list[float]] = stored("diffusers_frequencies.json")


def diffusers_config(name: str) -> dict[str, Any]:
    # The class of HiDream has axes of its own for a default that no published model has.
    axes = {"axes_dims_rope": [64, 32, 32]} if name.startswith("HiDream") else {}
    return {"_class_name": name, **axes}


@pytest.mark.parametrize(("name", "expected"), FREQUENCIES_OF_DIFFUSERS.items())
def test_the_frequencies_of_a_diffusers_class_are_those_of_its_axes_one_after_the_other(
    name: str, expected: list[float]
) -> None:
    """Models of images rotate by several axes. A frequency is an angle at position 1; the expected
    ones were made by the modules of diffusers 0.42.1 in float32 (data/README.md has the script).
    """
    encoding = only_encoding(diffusers_config(name))
    np.testing.assert_allclose(encoding.inverse_frequencies(), expected, rtol=2e-5)
    assert encoding.layout == ("halves" if name.startswith("ErnieImage") else "interleaved")


@pytest.mark.parametrize("name", FREQUENCIES_OF_DIFFUSERS)
def test_rope_theta_in_a_config_replaces_the_base_of_a_diffusers_class(name: str) -> None:
    """3 is the default of no class, so that the frequencies must change."""
    config = diffusers_config(name)
    changed = only_encoding({**config, "rope_theta": 3.0}).inverse_frequencies()

    assert changed != only_encoding(config).inverse_frequencies()


@pytest.mark.parametrize(
    ("config", "dim", "base"),
    [
        ({"_class_name": "AceStepTransformer1DModel"}, 128, 1e6),
        ({"_class_name": "StableAudioDiTModel"}, 32, 1e4),
        ({"_class_name": "StableAudio3DiTModel"}, 32, 1e4),
        ({"_class_name": "LongCatAudioDiTTransformer"}, 64, 1e5),
        ({"_class_name": "MiniMaxMusic3Transformer1DModel"}, 32, 1e4),
        ({"_class_name": "AnimaTextConditioner"}, 64, 1e4),
        ({"_class_name": "Ideogram4Transformer2DModel"}, 256, 5e6),
        ({"_class_name": "Cosmos3OmniTransformer"}, 128, 5e6),
    ],
)
def test_classes_of_diffusers_with_one_axis_have_its_dimension_and_base(
    config: dict[str, Any], dim: int, base: float
) -> None:
    """The rotary dimensions and bases are class defaults of diffusers 0.42.1, read from the modules
    that it makes.
    """
    encoding = only_encoding(config)
    assert encoding.rotary_dim == dim
    assert encoding.parameters["base"] == base


@pytest.mark.parametrize(
    ("name", "rows", "dim"),
    [
        ("AuraFlowTransformer2DModel", 1024, 3072),
        ("CogView3PlusTransformer2DModel", 128 * 128, 2560),
        ("DiTTransformer2DModel", 256, 1152),
        ("SD3ControlNetModel", 96 * 96, 1152),
        ("MiniMaxMusic3RVQDepthDecoder", 16, 4096),
    ],
)
def test_tables_of_diffusers_classes_have_the_shapes_of_their_tensors(
    name: str, rows: int, dim: int
) -> None:
    """The shapes are those of the tensors of diffusers 0.42.1 at class defaults. A table over a grid
    has a row for each of its points.
    """
    parameters = only_encoding({"_class_name": name}).parameters
    if "max_len" in parameters:
        assert parameters["max_len"] == rows
    else:
        assert math.prod(parameters["grid"]) == rows
    assert parameters["dim"] == dim


@pytest.mark.parametrize("name", ["AutoencoderKL", "UNet2DConditionModel"])
def test_classes_of_diffusers_without_positions_are_reported(name: str) -> None:
    """A VAE and a U-Net have none; scaling_factor and freq_shift are keys of other matters,
    although their names sound like it.
    """
    model = load_config({"_class_name": name, "scaling_factor": 0.18, "freq_shift": 0})
    (warning,) = model.warnings

    assert warning == f"no positional encoding was found: _class_name '{name}' has none"


MODELS_OF_TRANSFORMERS: dict[str, dict[str, Any]] = stored("models.json")
CLASSES_WITH_TABLES = stored("tables.json")["known"]


def test_well_known_models_have_the_layers_that_their_papers_and_cards_state() -> None:
    """tables.json has by repository and layer type what was written by hand from the model's paper or
    card, such as {"meta-llama/Llama-2-7b-hf": {"": [128, 10000.0, "none", "halves"]}}: rotary dim,
    base, scaling and layout, or the scheme and its sizes. models.json has the configs.
    """
    layers_of_models = {}
    for name, model in MODELS_OF_TRANSFORMERS.items():
        rows = facts_by_layer_type(model["config"])
        layers_of_models[name] = {layer: [*facts] for layer, facts in rows.items()}

    assert layers_of_models == CLASSES_WITH_TABLES


ALIBI_MODELS = [
    "bigscience/bloom",
    "bigscience/bloom-560m",
    "mosaicml/mpt-7b",
    "tiiuae/falcon-rw-1b",
]


@pytest.mark.parametrize("name", ALIBI_MODELS)
def test_a_well_known_model_with_alibi_has_the_largest_bias_8_of_its_paper(name: str) -> None:
    """By the paper, head h of n has the slope 2^(−8h/n), so that the exponent is 8 at most. The
    published configs state 8 or nothing.
    """
    encoding = only_encoding(MODELS_OF_TRANSFORMERS[name]["config"])
    assert encoding.scheme == "alibi"
    assert encoding.parameters["max_bias"] == 8


@pytest.mark.parametrize("name", ALIBI_MODELS)
def test_alibi_of_mpt_counts_back_from_the_last_key_and_others_count_keys(name: str) -> None:
    """By their code in transformers, biases of key j are slope · j (form «key») in BLOOM and Falcon,
    and slope · (j − last) in MPT (form «key-last»). The softmax makes both equal.
    """
    parameters = only_encoding(MODELS_OF_TRANSFORMERS[name]["config"]).parameters
    assert parameters["form"] == ("key-last" if name == "mosaicml/mpt-7b" else "key")


def test_the_table_of_gpt_2_has_the_spread_of_its_initialisation() -> None:
    """initializer_range of GPT-2's published config is 0.02."""
    config = MODELS_OF_TRANSFORMERS["openai-community/gpt2"]["config"]
    assert only_encoding(config).parameters["std"] == 0.02


def test_presets_have_the_keys_of_published_configs() -> None:
    """models.json has configs with their source; settings that were written «from memory» there
    must not become presets. A preset may have more keys, such as those of a tower.
    """
    published = {
        name: model["config"]
        for name, model in MODELS_OF_TRANSFORMERS.items()
        if "memory" not in model["source"]
    }
    by_repository = {preset.repository: preset for preset in presets().values()}
    same_keys_of_presets = {
        name: {key: by_repository[name].config[key] for key in config}
        for name, config in published.items()
    }
    assert same_keys_of_presets == published


def test_every_preset_has_a_source_and_an_encoding() -> None:
    """The source is where the config was read; «memory» is none."""
    for preset in presets().values():
        assert preset.source
        assert "memory" not in preset.source
        assert load_config(preset.name).encodings


DEFAULTS_MADE_BY_TRANSFORMERS = stored("class_defaults_made.json")
KNOWN_QUIRKS = {
    "mistral4/linear": "the class forgets its partial factor when other settings come",
    "mistral4/new-partial": "as above",
    "mistral4/head_dim": "a head_dim beside the sizes of its parts",
}


def ends_of_frequencies(encoding: Encoding) -> list[float]:
    """Return the number of frequencies, the second, and the last."""
    frequencies = encoding.inverse_frequencies()
    assert frequencies is not None
    second = frequencies[min(1, len(frequencies) - 1)]  # A single frequency is the second, too.
    return [len(frequencies), second, frequencies[-1]]


def near(ends: list[float]) -> Any:
    """Return what equals these numbers up to float32's rounding, with which the class makes them."""
    return pytest.approx(ends, rel=2e-5, abs=1e-30)


CASES_OF_CLASS: dict[str, list[str]] = {}
for case_name in DEFAULTS_MADE_BY_TRANSFORMERS["rope"]:
    CASES_OF_CLASS.setdefault(case_name.partition("/")[0], []).append(case_name)
"""The cases of a class: {"afmoe": ["afmoe/default", "afmoe/theta", "afmoe/linear", …], …}."""


@pytest.mark.parametrize("name", sorted(CASES_OF_CLASS))
@pytest.mark.sample(48)
def test_a_class_at_its_defaults_has_the_frequencies_that_transformers_makes(name: str) -> None:
    """Of a config with few or no keys, class_defaults_made.json has what transformers 5.22.2 makes by
    layer type: number of frequencies, the second, the last, and the attention factor. KNOWN_QUIRKS
    lists the cases that may differ, with reasons.
    """
    for case in CASES_OF_CLASS[name]:
        if case in KNOWN_QUIRKS:
            continue
        made = DEFAULTS_MADE_BY_TRANSFORMERS["rope"][case]
        ropes = ropes_by_layer_type(made["config"])
        for layer_type, (*ends, attention_factor) in made["tables"].items():
            encoding = ropes[layer_type]
            assert ends_of_frequencies(encoding) == near(ends), case
            assert encoding.attention_factor() == pytest.approx(attention_factor, rel=1e-5), case


@pytest.mark.parametrize("case", KNOWN_QUIRKS)
def test_a_known_quirk_of_a_class_is_still_a_difference(case: str) -> None:
    """If pecli's frequencies were those that transformers made, the row of KNOWN_QUIRKS would be
    outdated. «mistral4/linear» is Mistral 4 with linear scaling.
    """
    made = DEFAULTS_MADE_BY_TRANSFORMERS["rope"][case]
    ropes = ropes_by_layer_type(made["config"])
    assert not all(
        ends_of_frequencies(ropes[layer_type]) == near(ends)
        for layer_type, (*ends, _) in made["tables"].items()
    )


UNLIKE = {
    "mistral4": KNOWN_QUIRKS["mistral4/linear"],
    "neomme": "the class has another partial factor for each layer type",
    "mimo_v2_flash": "a partial factor of the family counts only where nothing is scaled",
}
"""Classes with a quirk that pecli does not follow, with the reason."""


SETTINGS: dict[str, list[Any]] = {}
for class_name, *settings_and_tables in stored("class_settings_made.jsonl"):
    SETTINGS.setdefault(class_name, []).append(settings_and_tables)
"""Of each class of transformers, configs with linear or YaRN settings, and by layer type what the
class made of each: number of frequencies, the second and the last. They are read from
class_settings_made.jsonl by the loop above.
"""


def rope_of_layer(ropes: dict[str, Encoding], layer_type: str) -> Encoding:
    """Return the rope of a layer type.

    The class of dots3_note has a third type, indexed_attention, with the rope of full attention,
    which comes first; and a text model beside other parts has «text», not «», for its layer type.
    """
    if layer_type in ropes:
        return ropes[layer_type]
    assert layer_type in ("indexed_attention", "")
    return next(iter(ropes.values()))


def has_frequencies_of_its_class(name: str, config: dict[str, Any], tables: Any) -> bool:
    """Return True if a config has the stored ends of frequencies in each layer type."""
    ropes = ropes_by_layer_type({"model_type": name, **config})
    return all(
        ends_of_frequencies(rope_of_layer(ropes, layer_type)) == near(ends)
        for layer_type, ends in tables.items()
    )


for class_name, *settings_and_tables in stored("class_settings_made.jsonl"):
    SETTINGS.setdefault(class_name, []).append(settings_and_tables)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name not in UNLIKE])
@pytest.mark.sample(48)
def test_a_class_with_linear_or_yarn_settings_has_the_frequencies_that_transformers_makes(
    name: str,
) -> None:
    """SETTINGS has configs of the class, such as {"rope_parameters": {"rope_type": "linear", "factor":
    4.0}}, and of the frequencies that transformers made of each, by layer type, their number, the
    second and the last.
    """
    wrong = [
        config
        for config, tables in SETTINGS[name]
        if not has_frequencies_of_its_class(name, config, tables)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", UNLIKE)
def test_a_class_with_a_quirk_that_pecli_does_not_follow_still_has_it(name: str) -> None:
    """UNLIKE lists these classes with the reason. If all frequencies of a class were those that
    transformers made (SETTINGS), its row would be outdated.
    """
    assert not all(
        has_frequencies_of_its_class(name, config, tables) for config, tables in SETTINGS[name]
    )


PARTS = stored("class_parts_made.json")
"""By the model_type of a larger model, and by layer type of its text model, what transformers 5.23.0
makes of its `text_config` at class defaults: number of frequencies, the second and the last. The
layer type is «» if there is one: {"llava": {"": [64, 0.866, 1.15e-4]}}.
"""


def text_ropes(name: str) -> dict[str, Encoding]:
    """Return the ropes of a model that only names its class, without those of parts for sound etc."""
    model = load_config({"model_type": name})
    return {rope.layer_type: rope for rope in model if rope.is_rotary and not rope.part}


@pytest.mark.parametrize("name", [name for name in PARTS if name != "mistral_large4"])
def test_a_file_that_only_names_a_larger_model_has_the_text_model_of_its_class(
    name: str,
) -> None:
    """{"model_type": "llava"} has no text_config, so that transformers takes the class's default one.
    PARTS has the number of frequencies that it makes for each layer type, the second and the last.
    """
    ropes = text_ropes(name)
    for layer_type, ends in PARTS[name].items():
        assert ends_of_frequencies(rope_of_layer(ropes, layer_type)) == near(ends)


def test_frequencies_of_mistral_large_4_are_those_of_yarn_and_not_zeros() -> None:
    """The class makes zeros of its own defaults (PARTS), which are base 10000, 64 rotary channels and
    YaRN by 2048. By YaRN's formula, the second frequency is kept and the last divided.
    """
    assert PARTS["mistral_large4"] == {"": [32, 0.0, 0.0]}

    rope = text_ropes("mistral_large4")[""]
    kept = 1e4 ** (-2 / 64)
    divided = 1e4 ** (-62 / 64) / 2048
    assert ends_of_frequencies(rope) == near([32, kept, divided])


CLASSES_WITH_TENSORS_OF_POSITIONS = DEFAULTS_MADE_BY_TRANSFORMERS["tables"]
"""By model_type, names and shapes of the tensors about positions that a model of the class has in
transformers 5.22.2: {"albert": {"embeddings.position_embeddings.weight": [512, 128]}, …}.
"""


def has_encoding_or_warning_of_a_table(name: str) -> bool:
    """Return True if a class has an encoding that is not a rope, or a warning about a table."""
    model = load_config({"model_type": name})
    if any(not encoding.is_rotary for encoding in model):
        return True
    # «it has tables of positions that are none of pecli's schemes», «it has relative positions …»
    return any("table" in warning or "relative" in warning for warning in model.warnings)


def test_a_class_with_a_table_that_is_not_rotary_has_an_encoding_or_a_warning_about_it() -> None:
    """The configs have only a model_type. RoFormer's table holds the sines and cosines of its rotation;
    qwen3_omni_moe_thinker is refused, as the test below states.
    """
    rotary_or_refused = {"roformer", "qwen3_omni_moe_thinker"}
    ignored_in_silence = [
        name
        for name in CLASSES_WITH_TENSORS_OF_POSITIONS.keys() - rotary_or_refused
        if not has_encoding_or_warning_of_a_table(name)
    ]
    assert ignored_in_silence == []


def test_the_table_of_roformer_is_that_of_its_rope() -> None:
    """RoFormer (Su et al. 2021) introduced RoPE; its class stores sines and cosines as a table."""
    assert "roformer" in CLASSES_WITH_TENSORS_OF_POSITIONS
    assert only_encoding({"model_type": "roformer"}).scheme == "rope"


def test_a_class_whose_defaults_make_heads_of_73_channels_is_refused() -> None:
    """Sizes of its text model that are class defaults of two classes do not go together, and pairs of
    channels cannot be made of an odd number.
    """
    with pytest.raises(pecli.PecliError, match="is 73; it must be an even whole number"):
        load_config({"model_type": "qwen3_omni_moe_thinker"})


def test_every_configuration_class_of_transformers_has_a_family_or_tables() -> None:
    """class_defaults.json of the package lists all classes by model_type, with the name of the class
    and its defaults. Each must be known as rotary, as not rotary, or by its tables.
    """
    classes = json.loads(Path(families.__file__).with_name("class_defaults.json").read_text())
    for name, (class_name, defaults, *_) in classes.items():
        family = families.family_of(name, vision="vision" in name)
        assert (
            family.is_known or name in non_rotary.FAMILIES or non_rotary.rule_of_class_tables(name)
        )
        assert class_name
        assert defaults


@pytest.mark.parametrize(
    ("model_type", "shapes"),
    [
        ("lxmert", {(512, 768)}),
        ("dpr", {(512, 768)}),
        ("nystromformer", {(512, 768)}),
        ("dpt", {(577, 768)}),
        ("yoso", {(4098, 768)}),
        ("led", {(16384, 1024), (1024, 1024)}),
        ("parakeet_encoder", {(5000, 1024)}),
        ("wav2vec2-conformer", {(5000, 768)}),
    ],
)
def test_tables_of_a_class_at_its_defaults_have_the_shapes_that_transformers_makes(
    model_type: str, shapes: set[tuple[int, int]]
) -> None:
    """The config has only the model_type; the shapes (positions, channels) are those of the tensors
    of the model that transformers makes of it.
    """
    config = {"model_type": model_type}
    rows = facts_by_layer_type(config).values()
    tables = {tuple(sizes) for scheme, *sizes in rows if scheme in ("learned", "sinusoidal")}
    warnings = load_config(config).warnings

    assert tables == shapes
    assert not any("no key that is read here names one" in warning for warning in warnings)
