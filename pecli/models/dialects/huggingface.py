"""Hugging Face's config.json: a language model at the top or in `text_config`, towers for images and sound beside."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pecli.errors import quoted
from pecli.models import non_rotary
from pecli.models.data import plain_name, stored
from pecli.models.encoding import Encoding
from pecli.models.families import Family, class_defaults, family_of, model_type_of
from pecli.models.key_names import EVIDENCE, HEADS, SETTINGS, SIZES, TEXTS, THETAS, WIDTHS
from pecli.models.keys import NO_CLASS, Keys
from pecli.models.rope import rope_encodings
from pecli.models.table_rules import ROWS, AlibiRule, ChoiceRule, EncodingRule, LearnedRule

SIDES = ("encoder", "decoder", "text_encoder", "audio_encoder", "vision_tower", "language_model")
NOT_PARTS = (
    "attn_config",
    "ffn_config",
    "quantization_config",
    "per_layer_config",
    "compression_config",
    "moe_config",
)
IMAGES = ("vision", "visual")  #: Words in the names of what reads images
MAX_DEPTH = 4
_SAYS = ("position_embedding_type", "position_embeddings_type", "pos_emb_type")
_ROTARY = ("rope", "rotary", "rotary_position_embedding")
_RELATIVE = ("relative", "relative_key", "relative_key_query")
_OTHERS = (
    "absolute",
    "learned",
    "learned_absolute",
    "alibi",
    "nope",
    "none",
    *_RELATIVE,
    "sine",
    "rotary_2d",
)


@dataclass(frozen=True)
class Part:
    """A part of a configuration that may have encodings of its own."""

    keys: Keys
    label: str
    model_type: str | None
    is_text: bool
    vision: bool

    @classmethod
    def of(cls, keys: Keys, label: str, model_type: str | None, *, is_text: bool) -> "Part":
        """A part whose class, if it is a known one, says what its keys leave out. Whether it reads images is told by
        names; `granite4_vision_text` is the language model of one that does."""
        name = "" if (model_type or "").endswith(("_text", "_text_model")) else model_type or ""
        vision = any(word in f"{label} {name}" for word in IMAGES)
        defaults = class_defaults(model_type, vision=vision)
        is_bare = not any(map(keys.data.get, SETTINGS))  # which replace the class's
        ignores = defaults.ignores | (
            {"rope_theta"} if is_bare and "rope_theta alone" in defaults.ignores else set()
        )
        family = family_of(model_type, vision=vision)
        if family and defaults.name and not family.reads_type:
            ignores |= {name for name in _SAYS if str(keys.data.get(name)).lower() not in _ROTARY}
        return cls(
            replace(keys, defaults=replace(defaults, ignores=ignores)),
            label,
            model_type,
            is_text,
            vision,
        )


def read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """The encodings of a whole configuration, the language model first. Where a model_type is missing, `architectures`
    may lead to it."""
    said = keys.word("model_type")
    name = (
        said.value
        if said
        else next(filter(None, map(model_type_of, keys.words("architectures"))), None)
    )
    top = Part.of(keys, "", name, is_text=True)
    found = _read(top, warnings, MAX_DEPTH)
    _warn_of_nothing(top, found, warnings)
    if found and _text_of_class(top) and (tables := non_rotary.tables_of(name)):
        warnings.extend(tables.notes(keys))
    return found


def _text_of_class(part: Part) -> bool:
    """Whether the file has no text model, but the class of a larger one has."""
    is_bare = not part.keys.any(*TEXTS, *EVIDENCE, *WIDTHS, *HEADS)
    return is_bare and plain_name(part.model_type) in stored("class_parts.json")


def _warn_of_nothing(part: Part, found: list[Encoding], warnings: list[str]) -> None:
    if found:
        return
    kind = _kind_of(part.keys, part.model_type)
    if kind is None and (kind := non_rotary.tables_of(part.model_type)):
        warnings.extend(kind.notes(part.keys))
    if kind and kind.note:  # which says it already
        return
    reason = "no key names one" if kind is None else "the model has none"
    inner = part.keys.part("model")
    if inner and (code := inner.word("_component_", "_target_")):  # as torchtune and Hydra have it
        reason = f"{code.source} is {quoted(code.value)}, whose code says what it has"
    if path := part.keys.word(
        *(name for name in TEXTS if isinstance(part.keys.data.get(name), str))
    ):
        reason = f"{path.source} is {quoted(path.value)}, whose config.json says what it has"
    elif kind is None and part.model_type and not family_of(part.model_type, vision=part.vision):
        reason += f", and model_type {part.model_type[:60]!r} is unknown"
    warnings.append(f"no positional encoding was found: {reason}")


def _read(part: Part, warnings: list[str], depth: int) -> list[Encoding]:
    inner = _parts_of(part) if depth else []
    texts = [each for each in inner if each.is_text]
    found: list[Encoding] = []
    family = family_of(part.model_type) if texts else None
    beside = family.beside_text if family else ""
    if beside:
        found += [replace(encoding, part=beside) for encoding in _own(part, warnings)]
    elif not texts:
        is_class = part.keys.defaults.model_type == plain_name(
            part.model_type
        )  # not that of a text model within
        keys = part.keys if is_class else replace(part.keys, defaults=NO_CLASS)
        has_layers = keys.resolves(*WIDTHS) and keys.resolves(
            *HEADS, *SIZES
        )  # else it only holds its parts
        found += _own(part, warnings) if has_layers or not inner else []
    for each in [*texts[:1], *(each for each in inner if not each.is_text)]:
        notes: list[str] = []
        label = "" if each.is_text and not beside else each.label
        inside = _read(each, notes, depth - 1)
        for encoding in inside:
            name = ".".join(filter(None, (label, encoding.layer_type)))
            where = (
                encoding.part if each.is_text else ".".join(filter(None, (label, encoding.part)))
            )
            found.append(replace(encoding, layer_type=name, part=where))
        if each.keys.any(*HEADS):
            _warn_of_nothing(each, inside, notes)
        warnings.extend(f"{each.label}: {note}" for note in notes)
    return found


def _parts_of(part: Part) -> list[Part]:
    found = []
    bare: Mapping[str, object] = {"text_config": {}} if _text_of_class(part) else {}
    text_type, values, *filled_in = stored("class_parts.json").get(
        plain_name(part.model_type), ("", {})
    )
    for name, value in {**part.keys.data, **bare}.items():
        is_text = name in TEXTS
        is_part = is_text or name.endswith(("_config", "_cfg")) or name in SIDES
        if (
            not isinstance(value, Mapping)
            or not is_part
            or name in NOT_PARTS
            or name.startswith("rope_")
        ):
            continue
        part.keys.mark(name)
        keys = Keys(
            value, part.keys.path, f"{part.keys.full_name(name)}.", account=part.keys.account
        )
        label = name.removesuffix("_config").removesuffix("_cfg")
        said = keys.word("model_type")
        implied = (text_type if is_text else "") or _inherited(part.model_type, label, is_text)
        each = Part.of(keys, label, said.value if said and said.value else implied, is_text=is_text)
        if is_text and (bare or filled_in):
            defaults = each.keys.defaults
            whole = f"{part.model_type} for {defaults.name}"
            defaults = replace(defaults, name=whole, values={**defaults.values, **values})
            each = replace(each, keys=replace(each.keys, defaults=defaults))
        if is_text or keys.any("model_type", *EVIDENCE) or each.keys.resolves(*WIDTHS, "embed_dim"):
            found.append(each)
    return found


def _inherited(parent: str | None, label: str, is_text: bool) -> str | None:
    """What a part without a model_type is: the parent's name with the part's, where that is a name at all."""
    if parent is None:
        return None
    others = (
        ("_vision_model", "_vision") if any(word in label for word in IMAGES) else (f"_{label}",)
    )
    names = [parent + word for word in (("_text_model", "_text", "") if is_text else others)]
    exact = next(
        (name for name in names if class_defaults(name).model_type == plain_name(name)), None
    )
    return exact or next(
        (name for name in names if family_of(name) or name in non_rotary.FAMILIES), names[-1]
    )


def _own(part: Part, warnings: list[str]) -> list[Encoding]:
    keys = part.keys
    family = family_of(part.model_type, vision=part.vision)
    tables = non_rotary.tables_of(part.model_type)
    kind = _kind_of(keys, part.model_type) or (tables if family is None else None)
    said, within = keys.word(*_SAYS), keys.part("attn_config")
    word = said.value.lower() if said else ""
    asks = word in _ROTARY or (
        within and (within.any("rope_theta") or within.data.get("rope") is True)
    )
    rotary = (keys.any(*EVIDENCE) or asks) and not _said(keys).startswith("relative")
    if keys.data.get("qk_rope_head_dim") == 0 and not keys.any(*SETTINGS, *THETAS):
        warnings.append(f"{keys.prefix}qk_rope_head_dim is 0: there is no rope")
        return []
    if said is not None and word not in (*_ROTARY, *_OTHERS):
        warnings.append(
            f"{said.source} is {quoted(said.value)}, which is none of {', '.join((*_ROTARY, *_OTHERS))}"
        )
    is_table = kind is not None and (not rotary or kind.overrides_rope)
    if not is_table and not rotary and family is None:
        return []
    if family is None and not (is_table and plain_name(part.model_type) in non_rotary.FAMILIES):
        name = (
            f"model_type {part.model_type[:60]!r} is unknown"
            if part.model_type
            else "there is no model_type"
        )
        warnings.append(f"{name}: read by the general rules; check layout and defaults")
    if is_table and kind is not None:
        if said is not None and isinstance(kind, AlibiRule) and word != "alibi":
            warnings.append(
                f"{said.source} is {quoted(said.value)}, but the model has ALiBi, which is what is read"
            )
        warnings.extend(kind.notes(keys))
        return kind.encodings(keys)
    if not rotary and part.vision and family is not None and not family.axes:
        return []
    if said is not None and word in _OTHERS:
        warnings.append(
            f"{said.source} is {quoted(said.value)}, but other keys ask for rope, which is what is read"
        )
    beside = non_rotary.beside(part.model_type, vision=part.vision) or tables or EncodingRule()
    warnings.extend(beside.notes(keys))
    found, more = rope_encodings(keys, family or Family(), vision=part.vision)
    warnings.extend(more)
    return [*found, *beside.encodings(keys)]


def _said(keys: Keys) -> str:
    said = keys.word(*_SAYS[:2])
    return said.value.lower() if said else ""


def _kind_of(keys: Keys, model_type: str | None) -> EncodingRule | None:
    """The kind of encoding that a family, or keys that say so outright, ask for; None where neither does. The length
    that MosaicBERT makes its bias for asks for ALiBi, too."""
    kind = non_rotary.FAMILIES.get(plain_name(model_type))
    if isinstance(kind, ChoiceRule):
        kind = kind.chosen(keys)
    word, within = _said(keys), keys.part("attn_config")
    flag = keys.flag("alibi", "use_alibi") or (within.flag("alibi") if within else None)
    if word == "alibi" or (flag and flag.value) or keys.number("alibi_starting_size"):
        return kind if isinstance(kind, AlibiRule) else AlibiRule()
    if isinstance(kind, AlibiRule):
        return kind
    if keys.is_true("mla_use_nope") or word in ("nope", "none"):
        return EncodingRule()
    if kind is None and word in ("absolute", "learned", "learned_absolute") and keys.any(*ROWS):
        return LearnedRule()
    if word == "relative" or (kind is None and word.startswith("relative")):
        return EncodingRule(note=non_rotary.RELATIVE_NOTE)
    return kind
