"""Rotary encodings of a configuration.

Three spellings have the same meaning: `rope_theta` and `rope_scaling` at the top (old),
`rope_parameters` (new), and `rope_parameters` by layer type (nested). A value is looked for in the
layer's own settings, then at the top under all of its names, then among the defaults of the family.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pecli.errors import FileError
from pecli.models.data import nonempty, stored
from pecli.models.encoding import (
    Encoding,
    Grid,
    Indexer,
    Mscales,
    ParsedEncodings,
    Sections,
    UnrotatedLayers,
)
from pecli.models.families import DEEPSEEK, HALVES, INTERLEAVED, ModelFamily
from pecli.models.heads import Head, head_of
from pecli.models.key_names import (
    LENGTH,
    LONG_MSCALE,
    MROPE,
    PARTIAL,
    SHARED,
    SHORT_MSCALE,
    THETAS,
)
from pecli.models.keys import (
    Keys,
    Setting,
    Settings,
    default,
    derived,
    first_stated,
    nonzero,
    origins_of,
    value_of,
    values_of,
)
from pecli.models.layer_lists import by_layer_type
from pecli.models.layer_types import Layer, layers_of, unrotated_layers, unrotated_type
from pecli.models.rope_scaling import RopeType, ScalingSettings, rope_type_of, scaling_of
from pecli.models.rope_warnings import layer_warnings

DEFAULT_BASE = 10000.0
#: Frequencies that follow time in Ernie 4.5 VL, whose sections are (22, 22, 20), if the file has no
#: sections.
ERNIE_TIME = 20
#: Runtimes read `alpha` as the factor of NTK scaling, which cannot be larger.
MAX_ALPHA = 2**64


def rope_encodings(keys: Keys, family: ModelFamily, *, vision: bool = False) -> ParsedEncodings:
    """Return the rotary encodings of a model, one per layer type, and warnings about them.

    Gemma 3 has two: its sliding layers rotate with a base of 10,000, its full layers with
    1,000,000.

    Every key that is looked at is recorded in `keys.usage`, so that the caller can warn of keys
    that nothing has read. Warnings are about the model first, then about each layer type, then
    about the indexer, whose channels follow from the encodings of the layers.

    Args:
        keys: The keys of the model, or of a part of it, in Hugging Face's spelling.
        family: The family whose defaults apply.
        vision: True for a part that reads images: it rotates by two axes unless the family differs.
    """
    keys = by_layer_type(keys)
    _mark_keys_without_effect_as_read(keys)
    layers, warnings = layers_of(keys, family)
    unrotated = unrotated_layers(keys, family)
    warnings += unrotated.warnings
    warnings += _model_warnings(keys, family)
    encodings = []
    for layer in layers:
        result = _layer_encoding(layer, unrotated.settings, vision=vision)
        encodings.append(result.encoding)
        warnings += result.warnings
    warnings += _indexer_warnings(encodings)
    return ParsedEncodings(encodings, warnings)


def _mark_keys_without_effect_as_read(keys: Keys) -> None:
    """Record keys that are right although no encoding reads them, so that nothing warns of them.

    `rope_theta` and the other SHARED names may stand beside the settings of each layer type, which
    replace them. A part of a larger model, such as its vision tower, may have a LENGTH, which sets
    no context.
    """
    keys.mark_as_known(*SHARED)
    if keys.prefix:
        keys.mark_as_read(LENGTH)


def _model_warnings(keys: Keys, family: ModelFamily) -> list[str]:
    """Return warnings about keys that change positions or scores in ways that no encoding
    describes.
    """
    warnings = []
    for name, consequence in stored("warned_keys.json").items():
        if keys.data.get(name):
            keys.mark_as_read(name)
            warnings.append(f"{keys.prefix}{name} is given: {consequence}")
    warnings += nonempty(family.note)
    if family.no_table:
        warnings.append(f"there is no table over positions 0, 1, 2, …: {family.no_table}")
    return warnings


class LayerEncoding(NamedTuple):
    """The encoding of a layer type, and warnings about it."""

    encoding: Encoding
    warnings: list[str]


def _layer_encoding(
    layer: Layer, unrotated: dict[str, Setting[object]], *, vision: bool
) -> LayerEncoding:
    """Return the rotary encoding of a layer type, and warnings about it.

    The steps read the type of scaling, the axes of positions, the sizes of a head, the base and the
    parameters of the scaling from config.json.

    Args:
        layer: The layer type, such as sliding attention, with its keys and its model's family.
        unrotated: Settings of the model's layers without rope (NoPE).
        vision: True for a part of the model that reads images.
    """
    rope_type = rope_type_of(layer)
    is_scaled = rope_type.scaling != "none"
    axes = _axes(layer.family, rope_type, vision=vision)
    axis_count = value_of(axes) or 0  # 0 stands for a text.
    head = head_of(layer, axes=axis_count, scaled=is_scaled)
    base = _base_setting(layer)
    scaling = scaling_of(layer, rope_type)
    settings = LayerSettings(
        layer=layer, head=head, axes=axes, base=base, scaling=scaling, unrotated=unrotated
    )
    encoding = _encoding_of_settings(settings)
    # A wrong value is reported here, with the file and the key that it comes from.
    encoding = encoding.checked(layer.settings.path)
    _mark_repeated_keys_as_read(layer.keys, encoding)
    warnings = [
        *rope_type.warnings,
        *head.warnings,
        *scaling.warnings,
        *layer_warnings(layer, encoding, is_latent=head.is_latent),
    ]
    return LayerEncoding(encoding, warnings)


def _mark_repeated_keys_as_read(keys: Keys, encoding: Encoding) -> None:
    """Record keys as read that only repeat what other keys state.

    Qwen3.6 has its partial factor in `rope_parameters` and beside it; MiniMax-M3 has a `rotary_dim`
    of 64 beside a factor of 0.5 of 128 channels.
    """
    partial = encoding.parameters.get(PARTIAL)
    values_of_encoding = {PARTIAL: partial, "rotary_dim": encoding.rotary_dim}
    for name, value in values_of_encoding.items():
        if value is not None and keys.data.get(name) == value:
            keys.mark_as_read(name)


@dataclass(frozen=True)
class LayerSettings:
    """The rotary settings of a layer type, as its keys state them, each with its source.

    Attributes:
        layer: The layer type.
        head: The sizes of its heads.
        axes: The number of axes of positions; None for text.
        base: The base of the frequencies.
        scaling: The scaling.
        unrotated: Settings of the model's layers without rope (NoPE).
    """

    layer: Layer
    head: Head
    axes: Setting[int] | None
    base: Setting[float]
    scaling: ScalingSettings
    unrotated: dict[str, Setting[object]]

    @property
    def parameters(self) -> Settings:
        """The parameters of the rotary scheme, `pecli.Rope`."""
        head = {"dim": self.head.dim, "base": self.base, PARTIAL: self.head.partial}
        return {**head, **self.scaling.settings}

    @property
    def is_trailing(self) -> bool:
        """True if the last channels of a head rotate, as with latent attention."""
        head = self.head
        has_unrotated_channels = head.size.value > head.dim.value
        return self.layer.family.trailing or (head.is_latent and has_unrotated_channels)


def _encoding_of_settings(layer_settings: LayerSettings) -> Encoding:
    """Return the encoding of a layer type from its settings, with the source of every value.

    `described` has all settings by the names that `pecli config` prints. Those that are left out,
    such as sections of M-RoPE in a model of text, have neither a value nor a source.
    """
    layer = layer_settings.layer
    settings = layer.settings
    family = layer.family
    stated_sections = _stated_sections(settings)
    sections = _mrope_sections(settings, layer_settings.head, family, stated_sections)
    grid = _grid_settings(layer_settings.axes, family)
    beta = _query_scaling(settings)
    mscales = _mscales(settings, layer_settings.scaling.kind)
    layout = _pair_layout(layer.keys, family)
    indexer = _indexer(layer.keys, family)
    described = {
        **layer_settings.parameters,
        **sections,
        **grid,
        "llama_4_scaling_beta": beta,
        "mscales": mscales,
        **layer_settings.unrotated,
        **indexer,
        "head_dim": layer_settings.head.size,
        "layout": layout,
    }
    return Encoding(
        layer_type=layer.name,
        scheme="rope",
        parameters=values_of(layer_settings.parameters),
        origins=origins_of(described),
        layout=layout.value,
        head_dim=layer_settings.head.size.value,
        trailing=layer_settings.is_trailing,
        tables_in_halves=family.tables_in_halves,
        family=family.name,
        prefix=layer.keys.prefix,
        alpha=_usable_alpha(layer_settings.scaling.ignored_alpha),
        use_fope=settings.data.get("use_fope") is True,
        rope_traditional=layer.keys.data.get("rope_traditional") is True,
        lacks_original_length=layer_settings.scaling.lacks_original_length,
        stated_lengths=layer_settings.scaling.stated_lengths,
        no_table=family.no_table,
        grid=Grid(**values_of(grid)),
        sections=Sections(**values_of(sections)),
        unrotated=UnrotatedLayers(**values_of(layer_settings.unrotated)),
        unrotated_type=unrotated_type(layer.keys, family),
        indexer=Indexer(**values_of(indexer)),
        order=_frequency_order(layer_settings.head, family, stated_sections),
        mscales=value_of(mscales),
        llama_4_scaling_beta=value_of(beta),
    )


def _indexer(keys: Keys, family: ModelFamily) -> dict[str, Setting[object]]:
    """Return the size and the layout of an indexer's heads; nothing if the model has no indexer.

    An indexer chooses the keys that a query attends to (DeepSeek-V3.2). vLLM and SGLang rotate its
    halves unless `indexer_rope_interleave` is true, as in GLM-5.
    """
    if not family.has_indexer or "index_head_dim" not in keys:
        return {}
    size = keys.required(keys.whole_number("index_head_dim"), "index_head_dim")
    interleave = keys.flag_or(False, "indexer_rope_interleave")
    layout = INTERLEAVED if interleave.value else HALVES
    return {"index_head_dim": size, "index_layout": Setting(layout, interleave.source)}


def _indexer_warnings(encodings: Sequence[Encoding]) -> list[str]:
    """Return a warning about each way in which an indexer rotates; none for models without one.

    The indexer of DeepSeek-V3.2 chooses the keys that a query attends to. Its heads have 128
    channels, of which the first 64 rotate in halves. The heads of its attention have 192 channels,
    of which the last 64 rotate, read as interleaved pairs.
    """
    warnings = []
    for encoding in encodings:
        indexer = encoding.of_indexer()
        if indexer is not None:
            rotated = f"the first {indexer.rotary_dim} of {indexer.head_dim} channels"
            warnings.append(f"the indexer rotates {rotated}, as {indexer.layout}")
    return list(dict.fromkeys(warnings))


def _axes(family: ModelFamily, rope_type: RopeType, *, vision: bool) -> Setting[int] | None:
    """Return the number of axes of positions, 2 for the rows and columns of an image; None for text.

    The family states it, or the type of the scaling (`axial`). Other parts that read images have 2.
    """
    if family.axes:
        return Setting(family.axes, family.source)
    if rope_type.name == "axial":
        return rope_type.given.with_value(2)
    if vision:
        return Setting(2, "default: it reads images")
    return None


def _base_setting(layer: Layer) -> Setting[float]:
    """Return the base of the frequencies, by the first of many places that states one.

    These are the layer type's own base (Gemma 3's sliding layers), the rotary settings, the keys at
    the top, and the defaults of the model's family; 10000 if there is none.

    Raises:
        FileError: The base is not above 0.
    """
    base = first_stated(_stated_bases(layer)) or Setting(DEFAULT_BASE, "default")
    if base.value <= 0:
        raise FileError(
            layer.keys.path, f"{base.source} is {base.value:g}", "a base must be above 0"
        )
    return base


def _stated_bases(layer: Layer) -> Iterator[Setting[float] | None]:
    """Yield the bases that the places for one state; a key is only read if no place before has one."""
    yield layer.theta
    yield layer.settings.number("rope_theta")
    yield layer.keys.number(*THETAS)
    # MPT and DBRX keep the base with their other settings of attention.
    yield layer.keys.inner("attn_config").number("rope_theta")
    yield _theta_by_ratio(layer.keys)
    yield default(layer.family.theta, layer.family.source)


def _theta_by_ratio(keys: Keys) -> Setting[float] | None:
    """Return a base that ChatGLM gives as a multiple of 10000: `rope_ratio` 50 in chatglm3-6b-32k."""
    ratio = keys.number("rope_ratio")
    return derived(lambda multiple: DEFAULT_BASE * multiple, "10000 · {}", ratio)


def _usable_alpha(alpha: object) -> float | None:
    """Return an `alpha` that the model's own code ignores, if a runtime that reads it could use it."""
    if isinstance(alpha, (int, float)) and 1 <= alpha < MAX_ALPHA:
        return alpha
    return None


def _stated_sections(settings: Keys) -> Setting[list[float]] | None:
    """Return the sections of M-RoPE that the settings state, such as [16, 24, 24]."""
    return settings.numbers(*MROPE)


def _frequency_order(
    head: Head, family: ModelFamily, sections: Setting[list[float]] | None
) -> tuple[int, ...] | None:
    """Return the order in which a family stores its frequencies; None for the usual one, 0, 1, 2, …

    Pixtral stores the even ones first, which follow rows, then the odd ones, which follow columns: 0,
    2, 1, 3. Ernie 4.5 VL has those of time after them: with the sections (3, 3, 2), they are 0, 2,
    4, then 1, 3, 5, then 6, 7.
    """
    if not family.order:
        return None
    frequency_count = int(head.rotary_channels) // 2
    time_count = 0
    if family.order == "ernie":
        time_count = _count_of_time(sections, frequency_count)
    first_of_time = frequency_count - time_count
    rows = range(0, first_of_time, 2)
    columns = range(1, first_of_time, 2)
    times = range(first_of_time, frequency_count)
    return (*rows, *columns, *times)


def _count_of_time(sections: Setting[list[float]] | None, frequency_count: int) -> int:
    """Return the number of frequencies that follow time in Ernie 4.5 VL: the last section.

    It is 0 for a section that does not fit the head, which is reported elsewhere.

    Args:
        sections: The sections that the file states, such as (22, 22, 20).
        frequency_count: The frequencies of a head.
    """
    *_, time = value_of(sections) or [ERNIE_TIME]
    if not 0 <= time <= frequency_count:
        return 0
    return int(time)


def _mrope_sections(
    settings: Keys, head: Head, family: ModelFamily, stated_sections: Setting[list[float]] | None
) -> dict[str, Setting[object]]:
    """Return the sections of M-RoPE by the names of `Sections`; none for models with one axis.

    Qwen2-VL has 16, 24 and 24 of 64 frequencies for time, rows and columns, one after the other.

    Args:
        settings: The rotary settings.
        head: The head, whose frequencies the sections count.
        family: The family, which may have sections that no key states.
        stated_sections: The sections that a key states.
    """
    sections = stated_sections or _family_sections(head, family)
    if sections is None:
        return {}
    return {
        "mrope_section": sections.with_value(tuple(sections.value)),
        "mrope_interleaved": _are_interleaved(settings, family),
    }


def _are_interleaved(settings: Keys, family: ModelFamily) -> Setting[bool]:
    """Return whether time, rows and columns take turns among the frequencies, as in Qwen3-VL."""
    interleaved = settings.flag_or(False, "mrope_interleaved", "interleaved")
    if settings.data.get("interleaved") is interleaved.value:
        # Both names are given, and agree.
        settings.mark_as_read("interleaved")
    if family.mixed_sections and not interleaved.value:
        return Setting(True, family.source)
    return interleaved


def _family_sections(head: Head, family: ModelFamily) -> Setting[list[float]] | None:
    """Return the sections of the family, if they fit the head: (16, 24, 24) fit 128 channels, in
    Qwen2-VL.
    """
    frequencies = head.rotary_channels / 2
    if not family.sections or sum(family.sections) != frequencies:
        return None
    return Setting([*family.sections], family.source)


def _grid_settings(axes: Setting[int] | None, family: ModelFamily) -> Settings:
    """Return the settings of an encoding of images by rows and columns; empty for text.

    Their names are those of the class `Grid`. The vision tower of Qwen2-VL has two axes, and the
    style `qwen2-vl`.

    Args:
        axes: The number of axes; None for text.
        family: The family of the model.
    """
    if axes is None:
        return {}
    settings: dict[str, Setting[object]] = {"axes": axes}
    if family.style:
        settings["style"] = Setting(family.style, family.source)
    if family.axes_alternate:
        # Even frequencies follow rows, and odd ones columns, as in Pixtral.
        settings["axis_frequencies"] = Setting("alternating", family.source)
    return settings


def _query_scaling(settings: Keys) -> Setting[float] | None:
    """Return the beta by which queries grow with their positions (Ministral 3); 0 stands for none."""
    return nonzero(settings.number("llama_4_scaling_beta"))


def _mscales(settings: Keys, scaling: str) -> Setting[Mscales] | None:
    """Return the attention factors of Phi-3.5-MoE, for short and for long contexts.

    Both must be given, and a single `attention_factor` takes precedence.
    """
    if scaling != "longrope" or "attention_factor" in settings:
        return None
    has_both = SHORT_MSCALE in settings and LONG_MSCALE in settings
    if not has_both:
        return None  # A single one is not read, and is therefore reported.
    short = settings.number(SHORT_MSCALE)
    long = settings.number(LONG_MSCALE)
    return derived(Mscales, "{}, {}", short, long)


def _pair_layout(keys: Keys, family: ModelFamily) -> Setting[str]:
    """Return which two channels of a head make a pair that rotates, and the key that states it.

    INTERLEAVED pairs neighbours (0, 1), HALVES pairs (0, d/2). DEEPSEEK reads neighbours, and writes
    them in halves.
    """
    flag = keys.flag("rope_interleave", "rotary_emb_interleaved", "rope_interleaved")
    has_latent_attention = "qk_rope_head_dim" in keys
    if flag is not None:
        layout_if_true = DEEPSEEK if has_latent_attention else INTERLEAVED
        layout = layout_if_true if flag.value else HALVES
        return flag.with_value(layout)
    if family.name:
        return Setting(family.layout, family.source)
    # Of an unknown family, only the keys are known. These two together are DeepSeek's.
    if has_latent_attention and "kv_lora_rank" in keys:
        return Setting(DEEPSEEK, "as models with qk_rope_head_dim and kv_lora_rank do")
    return Setting(HALVES, "default")
