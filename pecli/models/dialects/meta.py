"""Meta's and Mistral's own params.json, and Lingua's YAML, which has the same keys in `model`."""

from dataclasses import replace

from pecli.models.dialects import huggingface
from pecli.models.dialects.translation import (
    llama3_scaling,
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
from pecli.models.encoding import Encoding, ParsedEncodings, joined
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting, Settings, origin_at, setting_from_key
from pecli.models.rope_warnings import multiplied_queries

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = (
    "dim",
    "n_heads",
    "head_dim",
    "rope_theta",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "vision_chunk_size",
    "attn_temperature_tuning",
    "attn_scale",
    "floor_scale",
)
#: Objects that hold a vision tower, and its model_type in transformers.
VISION_TOWERS = {"vision_encoder": "pixtral", "vision_args": "llama4_vision_model"}


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of Meta's or Mistral's params.json.

    Those of the language model come first, then those of its encoder for images.
    """
    if "dim" not in keys:
        keys = keys.inner_or_self("model")  # Lingua has the same keys within `model`.
    # Both projects rotate neighbouring channels.
    family = ModelFamily("the code that params.json is for", layout=INTERLEAVED)
    # These two keys get Hugging Face's names. `_scaling_of_params` renames those of the scaling.
    renamed_settings = {
        "no_rope_layer_interval": keys.whole_number("nope_layer_interval"),
        "num_hidden_layers": keys.whole_number("n_layers"),
    }
    scaling = _scaling_of_params(keys)
    ropes = ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
        settings=renamed_settings,
    )
    language_model = _with_beta_of_queries(ropes, keys)
    image_encoders = [
        _encodings_of_tower(keys, name, model_type) for name, model_type in VISION_TOWERS.items()
    ]
    return joined([language_model, *image_encoders])


def _with_beta_of_queries(ropes: ParsedEncodings, keys: Keys) -> ParsedEncodings:
    """Return encodings with the beta by which queries grow with their positions (Ministral 3)."""
    scaling = keys.section("llama_4_scaling")
    beta = scaling.number("beta")
    if beta is None:
        return ropes
    original = scaling.required(scaling.whole_number(ORIGINAL), ORIGINAL)
    encodings = [replace(rope, llama_4_scaling_beta=beta.value) for rope in ropes.encodings]
    warning = multiplied_queries(beta.value, original.value)
    return ParsedEncodings(encodings, [*ropes.warnings, warning])


def _scaling_of_params(keys: Keys) -> Settings:
    """Return the scaling of a params.json: Llama 3.1's, or YaRN in Mistral's spelling.

    Mistral calls YaRN's slow limit `alpha` and its fast limit `beta`.
    """
    llama3 = llama3_scaling(
        keys,
        factor="rope_scale_factor rope_scaling_factor",
        high_freq_factor="rope_high_freq_factor",
    )
    yarn = keys.section("yarn")
    if not yarn:
        return llama3
    scaling = values_by_hugging_face_name(
        yarn,
        factor="factor",
        original_max_position_embeddings=ORIGINAL,
        beta_fast="beta",
        beta_slow="alpha",
    )
    scaling["rope_type"] = setting_from_key("yarn", "yarn")
    if yarn.is_false("apply_scale"):
        scaling["attention_factor"] = Setting(
            1.0, "yarn.apply_scale is false", ("yarn.apply_scale",)
        )
    return scaling


def _encodings_of_tower(keys: Keys, name: str, model_type: str) -> ParsedEncodings:
    """Return the encodings of a vision tower, read as the `vision_config` of Hugging Face.

    Its layout is that of Meta's weights; transformers permutes them into halves.

    Args:
        keys: The keys of params.json.
        name: The key of the tower, such as `vision_encoder`; without it there is no tower.
        model_type: The type of the tower in transformers.
    """
    inner = keys.inner(name)
    if not inner:
        return ParsedEncodings(encodings=[], warnings=[])
    config = {"vision_config": {"model_type": model_type, **inner.data}}
    origins = {"vision_config": origin_at(name)}
    tower = huggingface.read(replace(keys, data=config, origins=origins))
    return ParsedEncodings(list(map(_interleaved, tower.encodings)), tower.warnings)


def _interleaved(encoding: Encoding) -> Encoding:
    """Return an encoding that rotates interleaved pairs, if it rotates at all."""
    return replace(encoding, layout=INTERLEAVED) if encoding.layout else encoding
