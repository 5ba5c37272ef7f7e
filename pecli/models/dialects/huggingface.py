"""Hugging Face's config.json, and its parts: a language model at the top or in `text_config`, and
towers for images and sound beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pecli.errors import quoted
from pecli.models import non_rotary, table_kinds
from pecli.models.class_tables import tables_of
from pecli.models.dialects.dialect import Dialect
from pecli.models.encoding import Encoding
from pecli.models.families import Family, class_defaults, family_of, model_type_of, plain_name
from pecli.models.layer_types import EVIDENCE, HEADS, SIZES, THETAS, WIDTHS
from pecli.models.rope import rope_encodings
from pecli.models.values import NO_CLASS, Keys

TEXTS = (
    "text_config",
    "llm_config",
    "llm_cfg",
    "language_config",
    "language_model_config",
    "text_model_config",
    "lm_config",
)
SIDES = ("encoder", "decoder", "text_encoder", "audio_encoder", "vision_tower", "language_model")
NOT_PARTS = frozenset(("attn_config", "ffn_config", "quantization_config", "per_layer_config", "compression_config"))
MAX_DEPTH = 4


@dataclass(frozen=True)
class Part:
    """A part of a configuration that may have encodings of its own."""

    keys: Keys
    label: str
    model_type: str | None
    is_text: bool = False
    vision: bool = False


def read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """The encodings of a whole configuration, the language model first."""
    name = _model_type(keys)
    top = _part(keys, "", name, is_text=True, vision=_is_vision("", name))
    found = _read(top, warnings, MAX_DEPTH)
    _warn_of_nothing(top, found, warnings)
    return found


def _model_type(keys: Keys) -> str | None:
    """The model_type; where it is missing, what `architectures` lead to."""
    if said := keys.word("model_type"):
        return str(said.value)
    return next(filter(None, map(model_type_of, keys.words("architectures"))), None)


def _part(keys: Keys, label: str, model_type: str | None, *, is_text: bool, vision: bool) -> Part:
    """A part whose class, if it is a known one, says what its keys leave out."""
    return Part(keys.with_defaults(class_defaults(model_type, vision=vision)), label, model_type, is_text, vision)


def _warn_of_nothing(part: Part, found: list[Encoding], warnings: list[str]) -> None:
    kind = None if found else _kind_of(part.keys, part.model_type) or tables_of(part.model_type)
    if kind is not None and not _kind_of(part.keys, part.model_type):
        warnings.extend(kind.notes(part.keys))
    if not found and not (kind and kind.note):  # which says it already
        warnings.append("no positional encoding was found: no key names one")


def _read(part: Part, warnings: list[str], depth: int) -> list[Encoding]:
    inner = _parts_of(part) if depth else []
    texts = [each for each in inner if each.is_text]
    read = [*texts[:1], *(each for each in inner if not each.is_text)]
    found: list[Encoding] = []
    beside = _beside_text(part) if texts else ""
    if beside:
        found += [replace(encoding, part=beside) for encoding in _own(part, warnings)]
    elif not texts and not _only_holds(part, inner):
        found += _own(part, warnings)
    for each in read:
        notes: list[str] = []
        label = "" if each.is_text and not beside else each.label
        inside = _read(each, notes, depth - 1)
        for encoding in inside:
            name = ".".join(word for word in (label, encoding.layer_type) if word)
            inner_part = encoding.part if each.is_text else ".".join(word for word in (label, encoding.part) if word)
            found.append(replace(encoding, layer_type=name, part=inner_part))
        if each.keys.any(*HEADS):
            _warn_of_nothing(each, inside, notes)
        warnings.extend(f"{each.label}: {note}" for note in notes)
    return found


def _beside_text(part: Part) -> str:
    """What rotates by the keys at the top of a model whose language model is a part; empty for most."""
    family = family_of(part.model_type)
    return family.beside_text if family else ""


def _only_holds(part: Part, inner: list[Part]) -> bool:
    """Whether it is a mere shell around its parts."""
    own = part.keys.defaults.model_type == plain_name(part.model_type)  # not those of a text model within
    keys = part.keys if own else part.keys.with_defaults(NO_CLASS)
    return bool(inner) and not (keys.resolves(*WIDTHS) and keys.resolves(*HEADS, *SIZES))


def _parts_of(part: Part) -> list[Part]:
    found = []
    for name, value in part.keys.data.items():
        if not isinstance(value, Mapping) or name in NOT_PARTS or name.startswith("rope_"):
            continue
        is_text = name in TEXTS
        if not (is_text or name.endswith(("_config", "_cfg")) or name in SIDES):
            continue
        part.keys.mark(name)
        keys = Keys(value, part.keys.path, f"{part.keys.full_name(name)}.", account=part.keys.account)
        label = name.removesuffix("_config").removesuffix("_cfg")
        vision = _is_vision(label, None)
        said = keys.word("model_type")
        model_type = said.value if said and said.value else _inherited(part.model_type, label, is_text, vision)
        each = _part(keys, label, model_type, is_text=is_text, vision=vision or _is_vision("", model_type))
        if is_text or keys.any("model_type", *EVIDENCE) or each.keys.resolves(*WIDTHS, "embed_dim"):
            found.append(each)
    return found


def _inherited(parent: str | None, label: str, is_text: bool, vision: bool) -> str | None:
    """What a part without a model_type is: the parent's name with the part's, where that is a name at all."""
    if parent is None:
        return None
    words = ("_text_model", "_text", "") if is_text else ("_vision_model", "_vision") if vision else (f"_{label}",)
    names = [parent + word for word in words]
    exact = next((name for name in names if class_defaults(name).model_type == plain_name(name)), None)
    return exact or next((name for name in names if family_of(name) or name in non_rotary.FAMILIES), names[-1])


def _is_vision(label: str, model_type: str | None) -> bool:
    """Whether names say that it reads images; `granite4_vision_text` is the language model of one that does."""
    name = "" if (model_type or "").endswith(("_text", "_text_model")) else model_type or ""
    return any(word in label or word in name for word in ("vision", "visual"))


def _own(part: Part, warnings: list[str]) -> list[Encoding]:
    """The encodings that a part's own keys ask for."""
    keys = part.keys
    family = family_of(part.model_type, vision=part.vision)
    kind = _kind_of(keys, part.model_type) or (tables_of(part.model_type) if family is None else None)
    rotary = (keys.any(*EVIDENCE) or _says_rotary(keys)) and not _says_relative(keys)
    if keys.data.get("qk_rope_head_dim") == 0 and not keys.any("rope_parameters", "rope_scaling", *THETAS):
        warnings.append(f"{keys.prefix}qk_rope_head_dim is 0: there is no rope")
        return []
    said = keys.word(*_SAYS)
    if said is not None and said.value.lower() not in _KNOWN_WORDS:
        warnings.append(f"{said.source} is {quoted(said.value)}, which is none of {', '.join(_KNOWN_WORDS)}")
    if kind is not None and (not rotary or isinstance(kind, (table_kinds.Biased, table_kinds.Unsupported))):
        _warn_of_unknown(part, family is not None or plain_name(part.model_type) in non_rotary.FAMILIES, warnings)
        return _with_notes(kind, keys, warnings)
    if not rotary and family is None:
        return []
    _warn_of_unknown(part, family is not None, warnings)
    if not rotary and part.vision and family is not None and not family.axes:
        return []
    if said is not None and said.value.lower() in _KNOWN_WORDS[len(_ROTARY) :]:
        warnings.append(f"{said.source} is {quoted(said.value)}, but other keys ask for rope, which is what is read")
    known = non_rotary.beside(part.model_type, vision=part.vision)
    beside = _with_notes(known or tables_of(part.model_type) or table_kinds.NOTHING, keys, warnings)
    return [*rope_encodings(keys, family or Family(), warnings, vision=part.vision), *beside]


def _kind_of(keys: Keys, model_type: str | None) -> table_kinds.Kind | None:
    """The kind of encoding that a family, or keys that say so outright, ask for; None where neither does."""
    kind = non_rotary.FAMILIES.get(plain_name(model_type))
    if isinstance(kind, table_kinds.Choice):
        kind = kind.chosen(keys)
    word, nope = _said(keys), keys.flag("mla_use_nope")
    if word == "alibi" or _has_alibi(keys):
        return kind if isinstance(kind, table_kinds.Biased) else table_kinds.Biased()
    if isinstance(kind, table_kinds.Biased):
        return kind
    if word in ("nope", "none") or (nope is not None and nope.value):
        return table_kinds.NOTHING
    if kind is None and word in ("absolute", "learned", "learned_absolute") and keys.any(*table_kinds.ROWS):
        return table_kinds.Learned()
    if word == "relative" or (kind is None and _says_relative(keys)):
        return table_kinds.Unsupported(non_rotary.RELATIVE_NOTE.format(plain_name(model_type) or "it"))
    return kind


def _said(keys: Keys) -> str:
    said = keys.word("position_embedding_type", "position_embeddings_type")
    return said.value.lower() if said else ""


def _has_alibi(keys: Keys) -> bool:
    """Whether keys ask for ALiBi, whatever the family: flags, or the length that MosaicBERT makes its bias for."""
    within = keys.part("attn_config")
    flag = keys.flag("alibi", "use_alibi") or (within.flag("alibi") if within else None)
    return bool(flag and flag.value) or "alibi_starting_size" in keys


def _says_relative(keys: Keys) -> bool:
    """Whether it asks for relative positions outright, whatever bases stand beside."""
    return _said(keys).startswith("relative")


def _with_notes(kind: table_kinds.Kind, keys: Keys, warnings: list[str]) -> list[Encoding]:
    warnings.extend(kind.notes(keys))
    return kind.encodings(keys)


_SAYS = ("position_embedding_type", "position_embeddings_type", "pos_emb_type")
_ROTARY = ("rope", "rotary", "rotary_position_embedding")
_KNOWN_WORDS = (
    *_ROTARY,
    "absolute",
    "learned",
    "learned_absolute",
    "alibi",
    "nope",
    "none",
    "relative",
    "relative_key",
    "relative_key_query",
    "sine",
    "rotary_2d",
)


def _says_rotary(keys: Keys) -> bool:
    said = keys.word(*_SAYS)
    within = keys.part("attn_config")
    return bool(
        (said and said.value.lower() in _ROTARY)
        or (within and (within.any("rope_theta") or within.data.get("rope") is True))
    )


def _warn_of_unknown(part: Part, known: bool, warnings: list[str]) -> None:
    if known:
        return
    name = f"model_type {part.model_type[:60]!r} is unknown" if part.model_type else "there is no model_type"
    warnings.append(f"{name}: read by the general rules; check layout and defaults")


DIALECT = Dialect("Hugging Face's config.json", lambda keys: True, read, is_general=True, names_model=True)
