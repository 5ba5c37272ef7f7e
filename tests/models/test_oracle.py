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
def test_transformers_computes_the_same(case: dict[str, Any]) -> None:
    """Each case has a config and the inv_freq and attention_scaling of transformers' own float32
    module (see data/README.md).
    """
    model = load_config(case["config"])
    found = {encoding.layer_type: encoding for encoding in model if encoding.is_rotary}
    length = case.get("seq_len")

    for layer_type, table in case["tables"].items():
        encoding = found.pop(layer_type)
        blended = encoding.parameters["scaling"] == "llama3"  # where float32 cancels
        values = encoding.inverse_frequencies(length)
        assert values == pytest.approx(table["inv_freq"], rel=5e-6 if blended else 1e-6, abs=0)
        assert encoding.attention_factor(length) == pytest.approx(
            table["attention_scaling"], abs=1e-6
        )
        assert encoding.axis_dim == 2 * len(values)
        if not encoding.no_table and encoding.order is None:
            assert encoding.rope(8, length=length or 1).tables()["inv_freq"].tolist() == values
    for part in (
        name.split(".")[0] for name in found
    ):  # parts of the model with modules of their own
        assert {part, f"{part}_config"} & case["config"].keys()
    assert (
        not any(said.startswith("model_type ") for said in model.warnings)
        or "model_type" not in case["config"]
    )


def test_the_spelling_of_transformers_4_is_read_as_that_of_transformers_5() -> None:
    """`rope_parameters` (transformers 5) and `rope_theta` beside `rope_scaling` (transformers 4)
    mean the same.
    """
    for new in (
        case["config"]
        for case in CASES_OF_TRANSFORMERS
        if case["case"].endswith("/rope_parameters")
    ):
        settings = dict(new["rope_parameters"])
        old = {name: value for name, value in new.items() if name != "rope_parameters"}
        old |= {
            name: settings.pop(name)
            for name in ("rope_theta", "partial_rotary_factor")
            if name in settings
        }
        for word in ("type", "rope_type"):
            spelled = {
                word if name == "rope_type" else name: value for name, value in settings.items()
            }
            first = only_encoding(new)
            other = only_encoding({**old, "rope_scaling": spelled})
            assert first.parameters == other.parameters
            assert first.layout == other.layout


@pytest.mark.parametrize("case", DIALECTS, ids=[case["name"] for case in DIALECTS])
def test_a_dialect_means_what_its_own_code_computes(case: dict[str, Any]) -> None:
    """The frequencies of each project's own code are in dialects.json, made outside this project."""
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
def test_axes_of_diffusers_have_frequencies_of_their_own(name: str, expected: list[float]) -> None:
    """The expected angles at position 1 of each axis are of the modules of diffusers 0.42.1 (see
    data/README.md).
    """
    encoding = only_encoding(diffusers_config(name))
    np.testing.assert_allclose(encoding.inverse_frequencies(), expected, rtol=2e-5)
    assert encoding.layout == ("halves" if name.startswith("ErnieImage") else "interleaved")


@pytest.mark.parametrize("name", FREQUENCIES_OF_DIFFUSERS)
def test_a_given_base_replaces_that_of_a_diffusers_class(name: str) -> None:
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
    """The rotary dimensions and bases are those of the modules of diffusers 0.42.1."""
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
    """The shapes are those of the tensors of diffusers 0.42.1 at class defaults."""
    parameters = only_encoding({"_class_name": name}).parameters
    found = parameters["max_len"] if "max_len" in parameters else math.prod(parameters["grid"])

    assert found == rows
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


def test_well_known_models_are_what_their_papers_and_cards_say() -> None:
    """The layers of each model were written by hand from its paper or card; 8 is ALiBi's max_bias,
    0.02 GPT-2's initialisation.
    """
    found = {
        name: facts_by_layer_type(model["config"]) for name, model in MODELS_OF_TRANSFORMERS.items()
    }
    assert {
        name: {layer: [*row] for layer, row in rows.items()} for name, rows in found.items()
    } == CLASSES_WITH_TABLES

    alibi = [name for name, rows in CLASSES_WITH_TABLES.items() if "alibi" in rows.get("", ())]
    biased = {
        name: only_encoding(MODELS_OF_TRANSFORMERS[name]["config"]).parameters for name in alibi
    }
    assert {given["max_bias"] for given in biased.values()} == {8}
    assert [name for name, given in biased.items() if given["form"] != "key"] == ["mosaicml/mpt-7b"]
    assert (
        only_encoding(MODELS_OF_TRANSFORMERS["openai-community/gpt2"]["config"]).parameters["std"]
        == 0.02
    )


def test_presets_have_the_confirmed_settings_and_a_source() -> None:
    """Settings that were written «from memory» in models.json must not become presets."""
    confirmed = {
        name: model["config"]
        for name, model in MODELS_OF_TRANSFORMERS.items()
        if "memory" not in model["source"]
    }
    found = {preset.repository: preset for preset in presets().values()}
    named = {
        name: {key: found[name].config[key] for key in config} for name, config in confirmed.items()
    }

    assert named == confirmed  # presets may have more: towers
    for preset in found.values():
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
def test_rotary_tables_of_class_defaults(name: str) -> None:
    """Of each class of transformers 5.22.2: count, second and last of its frequencies, and its
    attention factor. QUIRKS are known differences.
    """
    wrong = []
    for case, made in DEFAULTS_MADE_BY_TRANSFORMERS["rope"].items():
        if class_of(case) != name:
            continue
        found = rotary_by_layer(made["config"])
        for layer, (*ends, factor) in made["tables"].items():
            encoding = found.get(layer) or next(iter(found.values()))
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
def test_settings_that_are_given_to_a_class(name: str) -> None:
    """Linear and YaRN settings were given to each class of transformers, which made the expected
    frequencies. UNLIKE lists classes with quirks that pecli does not follow.
    """
    wrong = []
    for config, tables in SETTINGS[name]:
        found = rotary_by_layer({"model_type": name, **config})
        for layer, expected in tables.items():
            encoding = found.get(layer) or next(iter(found.values()))
            if ends_of_frequencies(encoding) != near(expected):
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
def test_a_larger_model_has_the_text_model_of_its_class(name: str) -> None:
    """A model_type alone: count, second and last of the frequencies that transformers 5.23.0 makes
    of text_config.
    """
    try:
        model = load_config({"model_type": name})
        found = {each.layer_type: each for each in model if each.is_rotary and not each.part}
    except pecli.PecliError:
        found = {}
    wrong = []
    for layer, ends in PARTS[name].items():
        encoding = found.get(layer) or next(iter(found.values()), None)
        if ends_of_frequencies(encoding) != near(ends):
            wrong.append(layer)

    assert name in OTHER_PARTS or wrong == []


def test_other_tables_of_class_defaults_are_reported_or_named() -> None:
    """The classes are those whose models have a tensor about positions in transformers 5.22.2."""
    silent = []
    for name in DEFAULTS_MADE_BY_TRANSFORMERS["tables"]:
        try:
            model = load_config({"model_type": name})
        except pecli.PecliError:  # a shell around parts, which says what it misses
            continue
        said = " ".join(model.warnings)
        reported = any(not each.is_rotary for each in model)
        if not reported and not ("table" in said or "relative" in said) and name not in ROTATED:
            silent.append(name)

    assert silent == []


def test_every_class_belongs_to_a_family() -> None:
    """Of every configuration class of transformers, pecli knows whether it rotates and which
    defaults it has.
    """
    classes = json.loads(Path(families.__file__).with_name("class_defaults.json").read_text())
    for name, (config, values, *_) in classes.items():
        family = families.family_of(name, vision="vision" in name)
        assert family.is_known or name in non_rotary.FAMILIES or non_rotary.tables_of(name)
        assert config
        assert values


SHAPES = {
    "lxmert dpr nystromformer": {(512, 768)},
    "dpt": {(577, 768)},
    "yoso": {(4098, 768)},
    "led": {(16384, 1024), (1024, 1024)},
    "parakeet_encoder": {(5000, 1024)},
    "wav2vec2-conformer": {(5000, 768)},
}


def test_tables_of_class_defaults_have_the_shapes_of_transformers() -> None:
    """The shapes are those of the models that transformers makes of class defaults."""
    for name, shapes in (
        (name, shapes) for names, shapes in SHAPES.items() for name in names.split()
    ):
        found = facts_by_layer_type({"model_type": name}).values()
        assert {sizes[1:] for sizes in found if sizes[0] in ("learned", "sinusoidal")} == shapes
        assert not any(
            "no key that is read here names one" in warning
            for warning in load_config({"model_type": name}).warnings
        )
