"""The parts of a configuration: a language model at the top or in `text_config`, towers for images and sound beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pecli.engine.schemes.grid_styles import ROTARY
from pecli.engine.schemes.positions import GridSize
from pecli.errors import quoted
from pecli.models import non_rotary
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import INTERLEAVED, Family, class_defaults, family_of, plain_name
from pecli.models.layer_types import EVIDENCE, HEADS, SIZES, THETAS, WIDTHS
from pecli.models.rope import is_params, params_encoding, rope_encodings
from pecli.models.values import NO_CLASS, ClassDefaults, Keys, Value

TEXTS = ("text_config", "llm_config", "language_config", "language_model_config", "text_model_config", "lm_config")
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


def read_object(config: dict[str, Any], label: str) -> ModelEncodings:
    """The encodings of a configuration that is read already."""
    keys = Keys(config, label)
    warnings: list[str] = []
    if DIFFUSERS_CLASS in keys:
        return _read_diffusers(keys)
    if is_params(keys):
        return ModelEncodings(label, None, (params_encoding(keys),))
    encodings = read_parts(keys, warnings)
    name = keys.word("model_type")
    return ModelEncodings(label, name.value if name else None, tuple(encodings), tuple(dict.fromkeys(warnings)))


def read_parts(keys: Keys, warnings: list[str]) -> list[Encoding]:
    """The encodings of a whole configuration, the language model first."""
    said = keys.word("model_type")
    name = said.value if said else None
    top = _part(keys, "", name, is_text=True, vision=_is_vision("", name))
    found = _read(top, warnings, MAX_DEPTH)
    _warn_of_nothing(top, found, warnings)
    return found


def _part(keys: Keys, label: str, model_type: str | None, *, is_text: bool, vision: bool) -> Part:
    """A part whose class, if it is a known one, says what its keys leave out."""
    return Part(keys.with_defaults(class_defaults(model_type, vision=vision)), label, model_type, is_text, vision)


def _warn_of_nothing(part: Part, found: list[Encoding], warnings: list[str]) -> None:
    kind = _kind_of(part.keys, part.model_type)
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
        if not (is_text or name.endswith("_config") or name in SIDES):
            continue
        keys = Keys(value, part.keys.path, f"{part.keys.prefix}{name}.")
        label = name.removesuffix("_config")
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
    return next((name for name in names if family_of(name) or name in non_rotary.FAMILIES), names[-1])


def _is_vision(label: str, model_type: str | None) -> bool:
    """Whether names say that it reads images; `granite4_vision_text` is the language model of one that does."""
    name = "" if (model_type or "").endswith(("_text", "_text_model")) else model_type or ""
    return any(word in label or word in name for word in ("vision", "visual"))


def _own(part: Part, warnings: list[str]) -> list[Encoding]:
    """The encodings that a part's own keys ask for."""
    keys = part.keys
    kind = _kind_of(keys, part.model_type)
    family = family_of(part.model_type, vision=part.vision)
    rotary = (keys.any(*EVIDENCE) or _says_rotary(keys)) and not _says_relative(keys)
    if keys.data.get("qk_rope_head_dim") == 0 and not keys.any("rope_parameters", "rope_scaling", *THETAS):
        warnings.append(f"{keys.prefix}qk_rope_head_dim is 0: there is no rope")
        return []
    if kind is not None and (not rotary or isinstance(kind, (non_rotary.Biased, non_rotary.Unsupported))):
        _warn_of_unknown(part, family is not None or plain_name(part.model_type) in non_rotary.FAMILIES, warnings)
        return _with_notes(kind, keys, warnings)
    if not rotary and family is None:
        return []
    _warn_of_unknown(part, family is not None, warnings)
    if not rotary and part.vision and family is not None and not family.axes:
        return []
    beside = _with_notes(non_rotary.beside(part.model_type, vision=part.vision), keys, warnings)
    return [*rope_encodings(keys, family or Family(), warnings, vision=part.vision), *beside]


def _kind_of(keys: Keys, model_type: str | None) -> non_rotary.Kind | None:
    """The kind of encoding that a family, or keys that say so outright, ask for; None where neither does."""
    kind = non_rotary.FAMILIES.get(plain_name(model_type))
    if isinstance(kind, non_rotary.Choice):
        kind = kind.chosen(keys)
    word, nope = _said(keys), keys.flag("mla_use_nope")
    if word == "alibi" or _has_alibi(keys):
        return kind if isinstance(kind, non_rotary.Biased) else non_rotary.Biased()
    if isinstance(kind, non_rotary.Biased):
        return kind
    if word in ("nope", "none") or (nope is not None and nope.value):
        return non_rotary.NOTHING
    if kind is None and word in ("absolute", "learned", "learned_absolute") and keys.any(*non_rotary.ROWS):
        return non_rotary.Learned()
    if word == "relative" or (kind is None and _says_relative(keys)):
        return non_rotary.Unsupported(non_rotary.RELATIVE_NOTE.format(plain_name(model_type) or "it"))
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


def _with_notes(kind: non_rotary.Kind, keys: Keys, warnings: list[str]) -> list[Encoding]:
    warnings.extend(kind.notes(keys))
    return kind.encodings(keys)


def _says_rotary(keys: Keys) -> bool:
    said = keys.word("position_embedding_type", "position_embeddings_type", "pos_emb_type")
    within = keys.part("attn_config")
    return bool(
        (said and said.value.lower() in ("rope", "rotary"))
        or (within and (within.any("rope_theta") or within.data.get("rope") is True))
    )


def _warn_of_unknown(part: Part, known: bool, warnings: list[str]) -> None:
    if known:
        return
    name = f"model_type {part.model_type[:60]!r} is unknown" if part.model_type else "there is no model_type"
    warnings.append(f"{name}: read by the general rules; check layout and defaults")


DIFFUSERS_CLASS = "_class_name"


def _read_diffusers(keys: Keys) -> ModelEncodings:
    """The encoding of a transformer of diffusers, whose configuration names its class; that says what is left out."""
    name = keys.word(DIFFUSERS_CLASS)
    if name is None or name.value not in DIFFUSERS:
        note = f"{DIFFUSERS_CLASS} {quoted(name.value if name else '')} is none of {', '.join(DIFFUSERS)}"
        return ModelEncodings(keys.path, None, (), (note,))
    reader, values = DIFFUSERS[name.value]
    encoding = reader(keys.with_defaults(ClassDefaults(name.value, values)))
    return ModelEncodings(keys.path, name.value, (encoding,))


def _size(keys: Keys, name: str) -> Value:
    return keys.needed(keys.whole(name), name)


def _width(keys: Keys) -> Value:
    count, head = _size(keys, "num_attention_heads"), _size(keys, "attention_head_dim")
    return Value(count.value * head.value, f"{count.source} · {head.source}")


def _axial_rope(style: str, axes: str = "") -> Callable[[Keys], Encoding]:
    """Axes of positions, each with the channels that a key gives it; or with a share of the head, as the style has."""

    def read(keys: Keys) -> Encoding:
        split = keys.numbers(axes) if axes else None
        if split is None:
            head = _size(keys, "attention_head_dim")
            split = Value(ROTARY[style].split(head.value), f"{head.source}, shared out by the style {style}")
        else:
            head = Value(sum(map(int, split.value)), f"the sum of {split.source}")
        extra = {
            "axes": Value(3, "family"),
            "style": Value(style, "family"),
            "axis_channels": Value([int(count) for count in split.value], split.source),
        }
        base = keys.number("rope_theta", "theta") or Value(10000.0, "default")
        return Encoding.of(
            "rope",
            {"dim": head, "base": base, "scaling": Value("none", "default")},
            extra,
            layout=INTERLEAVED,
            head_dim=head.value,
            sources={"head_dim": head.source, "layout": "family"},
            no_table="its positions have three axes, time, rows and columns; give a grid",
        )

    return read


def _sd3(keys: Keys) -> Encoding:
    """A table of the largest grid, from which the middle is cut; PixArt has one of its own grid, and stretches it."""
    size, patch = _size(keys, "sample_size"), _size(keys, "patch_size")
    side = Value(size.value // patch.value, f"{size.source} // {patch.source}")
    grid = keys.whole("pos_embed_max_size") or side
    found = {
        "grid": Value(GridSize((grid.value, grid.value)), grid.source),
        "dim": _width(keys),
        "style": Value("sd3", "family"),
        "base": Value(10000.0, "default"),
        "grid_base": Value((float(side.value),), side.source),
    }
    return Encoding.of("sinusoidal", found)


def _pixart(keys: Keys) -> Encoding:
    size, given = _size(keys, "sample_size"), keys.number("interpolation_scale")
    scale = given or Value(float(max(size.value // 64, 1)), f"max({size.source} // 64, 1)")
    encoding = _sd3(keys)
    return replace(
        encoding,
        parameters={**encoding.parameters, "grid_scale": (scale.value,)},
        sources={**encoding.sources, "grid_scale": scale.source},
    )


def _cogvideox(keys: Keys) -> Encoding:
    """Rotary where it says so; else an added table of 3 axes."""
    rotary = keys.flag("use_rotary_positional_embeddings")
    if rotary is not None and rotary.value:
        return _axial_rope("cogvideox")(keys)
    patch, height, width = _size(keys, "patch_size"), _size(keys, "sample_height"), _size(keys, "sample_width")
    frames, ratio = _size(keys, "sample_frames"), _size(keys, "temporal_compression_ratio")
    time = (frames.value - 1) // ratio.value + 1
    space = keys.number("spatial_interpolation_scale") or Value(1.0, "default")
    pace = keys.number("temporal_interpolation_scale") or Value(1.0, "default")
    found = {
        "grid": Value(
            GridSize((time, height.value // patch.value, width.value // patch.value)),
            f"({frames.source} − 1) // {ratio.source} + 1, {height.source}, {width.source} // {patch.source}",
        ),
        "dim": _width(keys),
        "style": Value("cogvideox", "family"),
        "base": Value(10000.0, "default"),
        "grid_scale": Value((pace.value, space.value, space.value), f"{pace.source}, {space.source}"),
    }
    return Encoding.of("sinusoidal", found)


_AXES = (16, 56, 56)
_PATCHES = {"sample_size": 128, "patch_size": 2}
DIFFUSERS: dict[str, tuple[Callable[[Keys], Encoding], dict[str, Any]]] = {
    "FluxTransformer2DModel": (_axial_rope("flux", "axes_dims_rope"), {"axes_dims_rope": _AXES}),
    "QwenImageTransformer2DModel": (_axial_rope("qwen-image", "axes_dims_rope"), {"axes_dims_rope": _AXES}),
    "HunyuanVideoTransformer3DModel": (
        _axial_rope("hunyuan-video", "rope_axes_dim"),
        {"rope_axes_dim": _AXES, "rope_theta": 256.0},
    ),
    "WanTransformer3DModel": (_axial_rope("wan"), {"attention_head_dim": 128}),
    "CogVideoXTransformer3DModel": (
        _cogvideox,
        {
            "num_attention_heads": 30,
            "attention_head_dim": 64,
            "sample_width": 90,
            "sample_height": 60,
            "sample_frames": 49,
            "patch_size": 2,
            "temporal_compression_ratio": 4,
            "spatial_interpolation_scale": 1.875,
            "temporal_interpolation_scale": 1.0,
        },
    ),
    "SD3Transformer2DModel": (
        _sd3,
        {**_PATCHES, "num_attention_heads": 18, "attention_head_dim": 64, "pos_embed_max_size": 96},
    ),
    "PixArtTransformer2DModel": (_pixart, {**_PATCHES, "num_attention_heads": 16, "attention_head_dim": 72}),
}
"""How the configuration of each class is read, and what it means by keys that are left out."""
