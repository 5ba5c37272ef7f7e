"""The parts of a Hugging Face configuration: a language model, and towers for images and sound
beside it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from pecli.engine.grouping import grouped
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.models import non_rotary
from pecli.models.data import object_at, plain_name, stored
from pecli.models.families import class_defaults, family_of
from pecli.models.key_names import HEAD_COUNT_KEYS, ROTARY_KEYS, SETTINGS, TEXTS, WIDTHS
from pecli.models.keys import NO_CLASS, ClassDefaults, Keys, value_of

#: Objects that are parts although their names do not end with `_config`.
SIDES = ("encoder", "decoder", "text_encoder", "audio_encoder", "vision_tower", "language_model")
#: Objects that are not parts although their names do.
NOT_PARTS = (
    "attn_config",
    "ffn_config",
    "quantization_config",
    "per_layer_config",
    "compression_config",
    "moe_config",
)
#: Names of most parts; `rope_config` is about a part itself.
PART = re.compile(r"(?!rope_).*(_config|_cfg)")
#: Words in the names of parts that read images.
IMAGES = ("vision", "visual")
#: Keys that name the kind of encoding in a word.
KEYS_NAMING_ENCODING = ("position_embedding_type", "position_embeddings_type", "pos_emb_type")
ROTARY_WORDS = ("rope", "rotary", "rotary_position_embedding")


@dataclass(frozen=True)
class ModelPart:
    """A part of a configuration that may have encodings of its own.

    Attributes:
        keys: Its keys, with the defaults of its configuration class.
        label: Its name without `_config`; empty for the whole file.
        model_type: Its model type, or the one that its place implies.
        is_text: True for a language model.
        vision: True for a part that reads images.
    """

    keys: Keys
    label: str
    model_type: str | None
    is_text: bool
    vision: bool

    @property
    def layer_label(self) -> str:
        """The name to put before its layer types; empty for the language model.

        The language model is what a file is about, so that its `sliding_attention` needs no name in
        front, as `vision.patches` has one.
        """
        return "" if self.is_text else self.label


def make_part(keys: Keys, label: str, model_type: str | None, *, is_text: bool) -> ModelPart:
    """Return a part with the defaults of its class, if the class is known."""
    vision = _reads_images(label, model_type or "")
    defaults = class_defaults(model_type, vision=vision)
    ignores = _ignored_keys(keys, defaults, model_type, vision=vision)
    keys = replace(keys, defaults=replace(defaults, ignores=ignores))
    return ModelPart(keys=keys, label=label, model_type=model_type, is_text=is_text, vision=vision)


def _reads_images(label: str, model_type: str) -> bool:
    """Return True if the names say so; `granite4_vision_text` is the language model of a model that
    reads images.
    """
    if model_type.endswith(("_text", "_text_model")):
        model_type = ""
    return any(word in f"{label} {model_type}" for word in IMAGES)


def _ignored_keys(
    keys: Keys, defaults: ClassDefaults, model_type: str | None, *, vision: bool
) -> frozenset[str]:
    """Return the keys that the model's class in transformers does not read.

    They have no effect. A file of Llama may have a `rotary_emb_base`, which only GPT-NeoX reads.

    Args:
        keys: The keys of the file.
        defaults: The configuration class of transformers; without a name if it is not known.
        model_type: The model type of the file.
        vision: True for a tower that reads images.
    """
    ignored = set(defaults.ignores)
    if defaults.ignores_lone_base and not _has_rotary_settings(keys):
        # This class reads `rope_theta` only beside `rope_scaling` or `rope_parameters`.
        ignored.add("rope_theta")
    is_known_class = defaults.name != ""
    if not is_known_class:
        return frozenset(ignored)  # It may read any key.
    ignored |= _keys_that_only_other_classes_read(defaults.model_type)
    if _always_rotates(model_type, vision=vision):
        ignored |= _keys_naming_other_encodings(keys)
    return frozenset(ignored)


def _always_rotates(model_type: str | None, *, vision: bool) -> bool:
    """Return True if a class rotates even if `position_embedding_type` is "alibi".

    Most rotary classes do not read this word.
    """
    family = family_of(model_type, vision=vision)
    return family.is_known and not family.reads_type


def _keys_naming_other_encodings(keys: Keys) -> set[str]:
    """Return the keys such as `position_embedding_type` whose word is not one for rope."""
    return {name for name in KEYS_NAMING_ENCODING if not _states_rope(keys, name)}


def _has_rotary_settings(keys: Keys) -> bool:
    """Return True if a file has an object of rotary settings, such as `rope_scaling`."""
    return any(keys.data.get(name) for name in SETTINGS)


def _keys_that_only_other_classes_read(model_type: str) -> set[str]:
    """Return names that only other classes of transformers read.

    `rotary_emb_base` is the base of GPT-NeoX. In a file of Llama, transformers ignores it and takes
    10000.
    """
    readers = stored("key_readers.json")
    return {name for name, types in readers.items() if model_type not in types.split()}


def _states_rope(keys: Keys, name: str) -> bool:
    return str(keys.data.get(name)).lower() in ROTARY_WORDS


class ClassPart(NamedTuple):
    """The language model that a class of larger models has by default (a row of class_parts.json).

    Attributes:
        model_type: Its model type.
        values: Values in which it differs from the defaults of its own class.
        fills_in: True if these values also fill in what a `text_config` leaves out.
    """

    model_type: str = ""
    values: NamedValues = MappingProxyType({})
    fills_in: bool = False


def class_part(model_type: str | None) -> ClassPart:
    """Return the default language model of a class; one without a type if it has none, or is not
    known.
    """
    row = stored("class_parts.json").get(plain_name(model_type), ())
    return ClassPart(*row)


def _absent_text(part: ModelPart) -> tuple[str, ...]:
    """Return the key of the language model that the class makes; none if the file has one.

    `{"model_type": "llava"}` has none: the class then makes a Llama of default size.
    """
    has_model = part.keys.has_any(*TEXTS, *ROTARY_KEYS, *WIDTHS, *HEAD_COUNT_KEYS)
    class_has_text = class_part(part.model_type).model_type != ""
    if has_model or not class_has_text or _has_nested_text_model(part):
        return ()
    return ("text_config",)


def _has_nested_text_model(part: ModelPart) -> bool:
    """Return True if an object within a part holds the language model: Qwen3-ASR's `thinker_config`."""
    data = part.keys.data
    return any(not object_at(data, [name]).keys().isdisjoint(TEXTS) for name in data)


class Tower(NamedTuple):
    """A part that a class of larger models has by default (a row of class_towers.json).

    Attributes:
        model_type: Its model type.
        values: Values in which it differs from the defaults of its own class.
    """

    model_type: str
    values: NamedValues = MappingProxyType({})


def _towers(model_type: str | None) -> dict[str, Tower]:
    """Return the default parts of a class, by their keys; none if the class is not known."""
    rows = stored("class_towers.json").get(plain_name(model_type), {})
    return {name: Tower(*row) for name, row in rows.items()}


def parts_of(part: ModelPart) -> list[ModelPart]:
    """Return the parts within a part: the first language model, then all others.

    Of several language models, only the first is read.
    """
    parts = [inner for inner in _inner_parts(part) if _has_encodings(inner)]
    by_is_text = grouped(parts, lambda inner: inner.is_text)
    language_models = by_is_text.get(True, [])
    towers = by_is_text.get(False, [])
    return [*language_models[:1], *towers]


def _inner_parts(part: ModelPart) -> Iterator[ModelPart]:
    """Yield the language model and the towers within a model, such as `text_config`, in file order."""
    class_parts = _class_parts_of(part)
    for name, value in class_parts.completed(part.keys.data).items():
        if isinstance(value, Mapping) and class_parts.is_part(name):
            inner = _inner_part(part, name, value, class_parts.model_type_of(name))
            yield class_parts.filled_in(inner, name)


@dataclass(frozen=True)
class ClassParts:
    """The parts that the class of a larger model makes if a file leaves them out.

    `{"model_type": "llava"}` is a Llama beside a CLIP tower in transformers, and so is the same file
    with `"vision_config": null`. Such parts are read as empty objects, whose values are defaults.

    Attributes:
        model_type: The type of the larger model.
        text: Its default language model.
        towers: Its default towers, by their keys.
        absent: The keys of the default parts that are made, because the file leaves them out.
    """

    model_type: str | None
    text: ClassPart
    towers: Mapping[str, Tower]
    absent: tuple[str, ...]

    def completed(self, objects: NamedValues) -> JsonObject:
        """Return the objects of a file with an empty one for each part that the class makes.

        transformers makes a vision tower for `"vision_config": null`, as for `"vision_config": {}`.
        """
        return {**objects, **{name: {} for name in self.absent}}

    def is_part(self, name: str) -> bool:
        return name in self.towers or _names_part(name)

    def model_type_of(self, name: str) -> str:
        """Return the model type that the class has for a part by default; empty if it has none."""
        if name in self.towers:
            return self.towers[name].model_type
        return self.text.model_type if name in TEXTS else ""

    def filled_in(self, inner: ModelPart, name: str) -> ModelPart:
        """Return a part with the values that the class of the larger model has for it."""
        if name in self.absent and name in self.towers:
            return self._with_defaults(inner, self.towers[name].values)
        if inner.is_text and (name in self.absent or self.text.fills_in):
            return self._with_defaults(inner, self.text.values)
        return inner

    def _with_defaults(self, inner: ModelPart, values: NamedValues) -> ModelPart:
        """Return a part with these defaults, which replace those of its own class."""
        defaults = inner.keys.defaults
        name = f"{self.model_type} for {defaults.name}"
        defaults = replace(defaults, name=name, values={**defaults.values, **values})
        return replace(inner, keys=replace(inner.keys, defaults=defaults))


def _class_parts_of(part: ModelPart) -> ClassParts:
    """Return the parts that the class of a part makes: of `llava`, a Llama and a CLIP tower."""
    towers = _towers(part.model_type)
    return ClassParts(
        model_type=part.model_type,
        text=class_part(part.model_type),
        towers=towers,
        absent=(*_absent_text(part), *_absent_towers(part, towers)),
    )


def only_names_model(part: ModelPart) -> bool:
    """Return True if a file has no part, no size, and nothing about positions."""
    if _has_nested_text_model(part):
        return False
    return not part.keys.has_any(
        *TEXTS, *_towers(part.model_type), *ROTARY_KEYS, *WIDTHS, *HEAD_COUNT_KEYS
    )


def _absent_towers(part: ModelPart, towers: Mapping[str, Tower]) -> list[str]:
    """Return the keys of parts that the class makes by itself.

    transformers makes its default tower for `"vision_config": null`, and all parts for a file that
    only names the model.
    """
    data = part.keys.data
    if only_names_model(part):
        return [*towers]
    return [name for name in towers if data.get(name, {}) is None]


def _names_part(name: str) -> bool:
    """Return True if the key of an object is that of a part, such as `vision_config` or `encoder`."""
    has_ending_of_part = PART.fullmatch(name) is not None and name not in NOT_PARTS
    return has_ending_of_part or name in (*TEXTS, *SIDES)


def _inner_part(
    part: ModelPart, name: str, value: Mapping[str, object], implied_type: str
) -> ModelPart:
    """Return the part of a model that an object of its config.json describes: `vision_config`, …

    The object may state its model type. If not, the class of the larger model may imply one. Else it
    is derived from the larger model's type: `qwen2_vl_vision` from `qwen2_vl`.

    Args:
        part: The larger model.
        name: The key of the object.
        value: The object.
        implied_type: The model type that the larger model's class has for it; empty if none.
    """
    part.keys.mark_as_read(name)
    prefix = f"{part.keys.full_name(name)}."
    # One record of the keys that were read (`usage`) serves the whole file.
    keys = Keys(value, part.keys.path, prefix, usage=part.keys.usage)
    label = name.removesuffix("_config").removesuffix("_cfg")
    is_language_model = name in TEXTS  # `text_config` or a name like it.
    stated_type = value_of(keys.word("model_type"))
    model_type = (
        stated_type or implied_type or _type_from_larger_model(part, label, is_language_model)
    )
    return make_part(keys, label, model_type, is_text=is_language_model)


def _type_from_larger_model(part: ModelPart, label: str, is_text: bool) -> str | None:
    """Return the model type of a part that states none: the larger model's, with an ending.

    The `vision_config` of qwen2_vl is a `qwen2_vl_vision`; a `text_config` may be of the larger
    model's own type. A name that has a class of its own takes precedence over a name of a family;
    if neither is known, the last one counts.
    """
    if part.model_type is None:
        return None
    names = [part.model_type + ending for ending in _endings_of_types(label, is_text)]
    by_precedence = [*filter(_has_class, names), *filter(_has_family, names), names[-1]]
    return by_precedence[0]


def _endings_of_types(label: str, is_text: bool) -> tuple[str, ...]:
    """Return the endings that the model type of a part may have, after the larger model's type."""
    if is_text:
        return ("_text_model", "_text", "")
    if _reads_images(label, ""):
        return ("_vision_model", "_vision")
    return (f"_{label}",)


def _has_class(model_type: str) -> bool:
    return class_defaults(model_type).model_type == plain_name(model_type)


def _has_family(model_type: str) -> bool:
    return family_of(model_type).is_known or model_type in non_rotary.FAMILIES


def _has_encodings(part: ModelPart) -> bool:
    """Return True if an object within a config.json describes a model, such as a vision tower.

    Its name does not suffice: it must have a model type, a base or a width.
    """
    # A key that the class ignores is evidence as well.
    without_class = replace(part.keys, defaults=NO_CLASS)
    if part.is_text or without_class.has_any("model_type", *TEXTS, *ROTARY_KEYS):
        return True
    return part.keys.has_value(*WIDTHS, "embed_dim") or _is_known(part.model_type)


def _is_known(model_type: str | None) -> bool:
    """Return True for a type whose tables or parts are known without a width.

    CLAP's audio tower states its windows, and the tower of SAM 3 is all in its `backbone_config`.
    """
    name = plain_name(model_type)
    return name in non_rotary.FAMILIES or bool(_towers(name))
