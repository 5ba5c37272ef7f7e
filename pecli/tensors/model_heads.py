"""Heads of a model, as its configuration states them.

Families that keep q, k and v in one tensor, or whose number of key heads no key states, are rows of
qkv_layouts.json.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pecli.errors import ParameterError
from pecli.models.data import plain_name, stored
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import class_defaults, variants
from pecli.models.find import Model, describe
from pecli.models.heads import head_size
from pecli.models.key_names import HEAD_COUNT_KEYS, TEXTS
from pecli.models.keys import Keys, value_of

KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "kv_n_heads",
    "attention.head_count_kv",
)
GATED = frozenset(("qwen3_next", "qwen3_5", "qwen3_5_moe"))
"""Families whose q_proj holds the query of each head, followed by an output gate of its size."""


class FamilyLayout(NamedTuple):
    """The division of q, k and v in a family of models.

    Attributes:
        order: the order of rows in a fused projection; None if q, k and v are separate.
        flag: the layout applies only if this key of the configuration is true.
        flag_default: the value of the flag if the configuration lacks it.
        kv_keys: keys that state the number of key heads.
        kv_default: their number if no key states it: a single one, or `heads` for as many as there are
            heads.
    """

    order: str | None = None
    flag: str | None = None
    flag_default: bool = False
    kv_keys: Sequence[str] = KV_HEADS
    kv_default: Literal["heads", 1] | None = None

    def applies(self, keys: Keys) -> bool:
        """Return True if the flag of the layout is true in the configuration, or it has none."""
        if self.flag is None:
            return True
        value = keys.flag(self.flag)
        return self.flag_default if value is None else bool(value.value)

    def key_heads(self, keys: Keys, heads: int | None) -> int | None:
        """Return the number of key heads; None if the configuration does not imply it.

        A key states it, or the family: Falcon has a single one for all queries, and GPT-NeoX as many
        as there are heads.

        Args:
            keys: The keys of the configuration.
            heads: The number of query heads.
        """
        attention = keys.inner("attn_config")  # MPT and DBRX have it there.
        default = heads if self.kv_default == "heads" else self.kv_default
        return _whole(keys, self.kv_keys) or _whole(attention, self.kv_keys) or default


def _family_layouts() -> dict[str, list[FamilyLayout]]:
    """Return the layouts of qkv_layouts.json by model_type; a row is for several of these."""
    layouts: dict[str, list[FamilyLayout]] = {}
    for row in stored("qkv_layouts.json"):
        family = [FamilyLayout(**layout) for layout in row["layouts"]]
        layouts.update(dict.fromkeys(row["names"].split(), family))
    return layouts


FAMILY_LAYOUTS = _family_layouts()
"""Layouts by model_type. The first one whose flag is true applies: Falcon has three."""


@dataclass(frozen=True)
class ModelHeads:
    """The heads of a model's language part; None if its configuration does not state it.

    The fields are those of `HeadDivision`, which explains them.
    """

    model: str
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    trailing: bool = False
    fused: str | None = None
    gated: bool = False
    rotates: bool = True


def attention_of(model: Model | None, layer_type: str | None = None) -> ModelHeads:
    """Return the numbers of query and key heads of a model, and the channels of a head.

    Args:
        model: The model, whose configuration states the heads.
        layer_type: The layers of a model whose heads differ by layer, as Gemma 4's do.

    Raises:
        ParameterError: The heads differ by layer, and no layer type is given.
    """
    description = describe(model)
    encodings = description.encodings()
    keys = Keys(description.values, path=description.label)
    # A multimodal model has other heads for images or sound, which do not count here.
    language_part = _language_part(keys, encodings)
    head_counts = _heads_without_sizes(language_part, model=encodings.file)
    rope = _rope_of_layers(encodings, layer_type)
    if rope is None:
        return _with_size_from_width(head_counts, language_part, encodings)
    return replace(
        head_counts,
        head_dim=rope.head_dim,
        rotary_dim=rope.rotary_dim,
        trailing=rope.trailing,  # True if the last channels of a head rotate, not the first.
    )


class LanguagePart(NamedTuple):
    """The language part of a model, which may have others for images or sound.

    Attributes:
        keys: the keys of its configuration, with the defaults of its family.
        layout: the division of q, k and v in its family.
        is_gated: True if its query projections hold an output gate, as in Qwen3-Next.
    """

    keys: Keys
    layout: FamilyLayout
    is_gated: bool


def _heads_without_sizes(part: LanguagePart, model: str) -> ModelHeads:
    """Return the numbers of heads and the order of q, k and v; the channels of a head are left out."""
    heads = _whole(part.keys, (*HEAD_COUNT_KEYS, "attention.head_count"))
    return ModelHeads(
        model=model,
        heads=heads,
        kv_heads=part.layout.key_heads(part.keys, heads),
        fused=part.layout.order,
        gated=part.is_gated,
    )


def _with_size_from_width(
    head_counts: ModelHeads, part: LanguagePart, encodings: ModelEncodings
) -> ModelHeads:
    """Return the heads of a model without a known rope, with their size by its hidden size.

    Such a model rotates nothing if it has another encoding, such as ALiBi. If it has none that is
    known, it may still have a rope of which its configuration states nothing.
    """
    head_dim = head_size(part.keys).value if head_counts.heads else None
    has_other_encoding = any(map(_is_unrotated_text, encodings))
    return replace(head_counts, head_dim=head_dim, rotates=not has_other_encoding)


def _is_unrotated_text(encoding: Encoding) -> bool:
    """Return True for ALiBi and others of text; an encoding with a part is for images or sound."""
    return not encoding.is_rotary and not encoding.part


def _language_part(keys: Keys, encodings: ModelEncodings) -> LanguagePart:
    """Return the language part of a model.

    The rows of a .gguf are in the order that the names of its tensors state, whatever the family:
    llama.cpp's converter brings them into it. Its architectures have other names than families.
    """
    keys, model_type = _language_keys(keys, encodings)
    is_gated = plain_name(model_type).removesuffix("_text") in GATED
    is_gguf = "general.architecture" in keys
    if is_gguf:
        return LanguagePart(keys, FamilyLayout(), is_gated)
    keys = replace(keys, defaults=class_defaults(model_type))
    return LanguagePart(keys, _layout_of(model_type, keys), is_gated)


def _language_keys(keys: Keys, encodings: ModelEncodings) -> tuple[Keys, str | None]:
    """Return the keys and the model_type of the language part of a multimodal model."""
    part = keys.inner_or_self(*TEXTS)
    return part, value_of(part.word("model_type")) or encodings.model_type


def _layout_of(model_type: str | None, keys: Keys) -> FamilyLayout:
    """Return the first layout of a family that applies, or that of all others."""
    for name in variants(model_type):
        for layout in FAMILY_LAYOUTS.get(name, ()):
            if layout.applies(keys):
                return layout
    return FamilyLayout()


def _rope_of_layers(encodings: ModelEncodings, layer_type: str | None) -> Encoding | None:
    """Return the rotary encoding of a type of layer, or of all layers; None if they have none.

    Without a type, the layers of the language model count, and they must rotate heads alike.

    Raises:
        ParameterError: No type is given, and the layers differ in the size or layout of heads.
    """
    if layer_type is not None:
        return _rotary_or_none(encodings.one(layer_type))
    ropes = [rope for rope in encodings.ropes() if _is_of_text(rope)]
    if not ropes:
        return None
    have_different_heads = len(set(map(_head_settings, ropes))) > 1
    if have_different_heads:
        raise _different_layers(encodings.file, ropes)
    return ropes[0]


def _is_of_text(rope: Encoding) -> bool:
    """Return True unless an encoding is that of a vision tower, or of rows and columns of images."""
    is_of_tower = bool(rope.part)
    return not is_of_tower and not rope.grid.axes


def _head_settings(rope: Encoding) -> tuple[object, ...]:
    """Return the settings that decide how a head's channels move: all layers must share them."""
    return rope.head_dim, rope.rotary_dim, rope.layout, rope.trailing


def _rotary_or_none(encoding: Encoding) -> Encoding | None:
    return encoding if encoding.is_rotary else None


def _different_layers(file: str, ropes: Sequence[Encoding]) -> ParameterError:
    """Return the error for a model whose layers differ in the size or layout of heads."""
    names = ", ".join(f"{rope.layer_type!r} (heads of {rope.head_dim})" for rope in ropes)
    rule = f"{file} has layers that differ: {names}"
    advice = "name one, and its tensors with `include`"
    return ParameterError("layer_type", "missing", rule, advice)


def _whole(keys: Keys, names: Sequence[str]) -> int | None:
    """Return a whole number; a list, with one number per layer, counts as absent."""
    single = tuple(name for name in names if not isinstance(keys.data.get(name), list))
    if len(single) < len(names) and not keys.has_any(*single):
        return None
    return value_of(keys.whole_number(*single))
