"""Configurations against what transformers, diffusers and the code of other projects compute from
them, and against what papers and cards of models say.

The expected numbers were computed by those projects and are stored in tests/models/data, whose
README.md states versions and scripts. Frequencies (inv_freq) are compared to 2e-5 or better,
because the projects compute them in float32. KNOWN_QUIRKS, UNLIKE and OTHER_PARTS list the classes
that differ on purpose, each with its reason.
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


@pytest.mark.parametrize(
    "case", [*CASES_OF_TRANSFORMERS, *MORE_CASES_OF_TRANSFORMERS], ids=lambda case: case["case"]
)
@pytest.mark.sample(60)
def test_frequencies_and_attention_factors_are_those_of_the_class_in_transformers(
    case: dict[str, Any],
) -> None:
    """Each case has a config, and by layer type the inv_freq and attention_scaling that transformers'
    own module computed from it in float32 (data/README.md has the script). Encodings that have no
    such module belong to other parts of the config, and no known class is called unknown.
    """
    config = case["config"]
    model = load_config(config)
    ropes = {encoding.layer_type: encoding for encoding in model if encoding.is_rotary}
    length = case.get("seq_len")

    for layer_type, computed in case["tables"].items():
        encoding = ropes.pop(layer_type)
        # The blend of llama3 subtracts numbers of like size, which costs float32 some digits.
        tolerance = 5e-6 if encoding.parameters["scaling"] == "llama3" else 1e-6
        frequencies = encoding.inverse_frequencies(length)
        assert frequencies == pytest.approx(computed["inv_freq"], rel=tolerance, abs=0)
        factor = encoding.attention_factor(length)
        assert factor == pytest.approx(computed["attention_scaling"], abs=1e-6)
        assert encoding.axis_dim == 2 * len(frequencies)
        if not encoding.no_table and encoding.order is None:
            rope = encoding.rope(8, length=length or 1)
            assert rope.tables()["inv_freq"].tolist() == frequencies

    for layer_type in ropes:
        part = layer_type.split(".")[0]
        assert {part, f"{part}_config"} & config.keys()
    if "model_type" in config:
        assert not any(warning.startswith("model_type ") for warning in model.warnings)


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
    ropes = {
        encoding.layer_type: encoding
        for encoding in load_config(case["config"])
        if encoding.is_rotary
    }

    for expected in case["expected"]["encodings"]:
        encoding = ropes.pop(expected["layer"].partition("@")[0])
        np.testing.assert_allclose(encoding.inverse_frequencies(), expected["inv_freq"], rtol=2e-5)
        assert encoding.attention_factor() == pytest.approx(expected["attention_factor"], rel=1e-6)
        assert expected["layout"] in (None, encoding.layout)
    assert not ropes


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


def test_well_known_models_with_alibi_have_the_largest_bias_8_of_its_paper() -> None:
    """Only MPT counts distances from the last key (form key-last); the others use biases by the
    index of the key, which the softmax makes equal.
    """
    forms = {}
    for name, rows in CLASSES_WITH_TABLES.items():
        if "alibi" in rows.get("", ()):
            parameters = only_encoding(MODELS_OF_TRANSFORMERS[name]["config"]).parameters
            assert parameters["max_bias"] == 8
            forms[name] = parameters["form"]

    assert [name for name, form in forms.items() if form != "key"] == ["mosaicml/mpt-7b"]


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
ROTATED = ("roformer", "codegen", "gptj", "ctrl")  # whose tables are those of the rotation


def class_of(case: str) -> str:
    """Return the class of a case, such as `afmoe` of `afmoe/linear`."""
    return case.partition("/")[0]


def rotary_by_layer(config: dict[str, Any]) -> dict[str, Encoding]:
    return {each.layer_type: each for each in load_config(config) if each.is_rotary}


def ends_of_frequencies(encoding: Encoding | None) -> list[float]:
    """Return the number of frequencies, the second, and the last."""
    values = (encoding and encoding.inverse_frequencies()) or [0.0]
    return [len(values), values[min(1, len(values) - 1)], values[-1]]


def near(ends: list[float]) -> Any:
    return pytest.approx(ends, rel=2e-5, abs=1e-30)


@pytest.mark.parametrize("name", sorted({*map(class_of, DEFAULTS_MADE_BY_TRANSFORMERS["rope"])}))
@pytest.mark.sample(48)
def test_a_class_at_its_defaults_has_the_frequencies_that_transformers_makes(name: str) -> None:
    """class_defaults_made.json has what transformers 5.22.2 makes of each configuration class with
    few or no keys: count, second and last of the frequencies, and the attention factor. KNOWN_QUIRKS
    lists the cases that differ on purpose, with reasons.
    """
    wrong = []
    for case, made in DEFAULTS_MADE_BY_TRANSFORMERS["rope"].items():
        if class_of(case) != name:
            continue
        ropes = rotary_by_layer(made["config"])
        for layer, (*ends, factor) in made["tables"].items():
            encoding = ropes.get(layer) or next(iter(ropes.values()))
            are_ends_right = ends_of_frequencies(encoding) == near(ends)
            is_factor_right = encoding.attention_factor() == pytest.approx(factor, rel=1e-5)
            if not are_ends_right or (factor is not None and not is_factor_right):
                wrong.append(case)

    assert [case for case in wrong if case not in KNOWN_QUIRKS] == []


UNLIKE = {
    "mistral4": KNOWN_QUIRKS["mistral4/linear"],
    "neomme": "the class has another partial factor for each layer type",
    "mimo_v2_flash": "a partial factor of the family counts only where nothing is scaled",
}


SETTINGS: dict[str, list[Any]] = {}
for class_name, *settings_and_tables in stored("class_settings_made.jsonl"):
    SETTINGS.setdefault(class_name, []).append(settings_and_tables)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.sample(48)
def test_a_class_with_linear_or_yarn_settings_has_the_frequencies_that_transformers_makes(
    name: str,
) -> None:
    """class_settings_made.jsonl has configs with such settings for each class of transformers, and
    count, second and last of the frequencies that it made. UNLIKE lists classes with quirks that
    pecli does not follow; they must still differ, or the list is outdated.
    """
    wrong = []
    for config, tables in SETTINGS[name]:
        ropes = rotary_by_layer({"model_type": name, **config})
        for layer, ends in tables.items():
            encoding = ropes.get(layer) or next(iter(ropes.values()))
            if ends_of_frequencies(encoding) != near(ends):
                wrong.append(config)

    if name in UNLIKE:
        assert wrong != []
    else:
        assert wrong == []


PARTS = stored("class_parts_made.json")
OTHER_PARTS = {
    "musicflamingo": "a rotation of its own comes first",
    "mistral_large4": "the class makes zeros",
}


@pytest.mark.parametrize("name", PARTS)
def test_a_file_that_only_names_a_larger_model_has_the_text_model_of_its_class(
    name: str,
) -> None:
    """class_parts_made.json has count, second and last of the frequencies that transformers 5.23.0
    makes of the text_config of this model_type, without any other key. OTHER_PARTS lists two classes
    that differ, with reasons.
    """
    try:
        model = load_config({"model_type": name})
        ropes = {each.layer_type: each for each in model if each.is_rotary and not each.part}
    except pecli.PecliError:
        ropes = {}
    wrong = []
    for layer, ends in PARTS[name].items():
        encoding = ropes.get(layer) or next(iter(ropes.values()), None)
        if ends_of_frequencies(encoding) != near(ends):
            wrong.append(layer)

    assert name in OTHER_PARTS or wrong == []


def test_a_class_with_a_table_that_is_not_rotary_has_an_encoding_or_a_warning_about_it() -> None:
    """class_defaults_made.json lists the classes whose models have a tensor about positions in
    transformers 5.22.2. ROTATED are classes whose table holds sines and cosines of the rotation.
    """
    silent = []
    for name in DEFAULTS_MADE_BY_TRANSFORMERS["tables"]:
        try:
            model = load_config({"model_type": name})
        except pecli.PecliError:  # a shell around parts, which says what it misses
            continue
        warnings = " ".join(model.warnings)
        has_encoding = any(not encoding.is_rotary for encoding in model)
        has_warning = "table" in warnings or "relative" in warnings
        if not has_encoding and not has_warning and name not in ROTATED:
            silent.append(name)

    assert silent == []


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
