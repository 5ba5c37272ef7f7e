"""The width of an attention head, and the channels of it that rotate."""

import operator
from dataclasses import dataclass, replace

from pecli.errors import FileError
from pecli.models.families import ModelFamily
from pecli.models.key_names import (
    HEAD_COUNT_KEYS,
    PARTIAL,
    PARTIALS,
    SIZES,
    SIZES_OF_LAYERS,
    SLIDING,
    WIDTHS,
)
from pecli.models.keys import (
    NO_CLASS,
    Keys,
    Setting,
    as_number,
    computed,
    default,
    derived,
    nonzero,
    only_if,
    other_than_one,
)
from pecli.models.layer_types import Layer

#: The width of the memory attention of SAM 2's video models.
MEMORY_WIDTH = "memory_attention_hidden_size"
#: The fraction in the rotary settings, as lists of keys that classes ignore name it.
PARTIAL_IN_SETTINGS = f"rope_parameters.{PARTIAL}"


@dataclass(frozen=True)
class Head:
    """The sizes of a head.

    Attributes:
        size: All channels.
        dim: The parameter `dim` of the rotary scheme: the channels among which the rotating ones
            are counted.
        partial: The fraction of `dim` that rotates, if the configuration states one.
        is_latent: Multi-head latent attention: a part of the head is made for rotation, beside a
            larger part that never rotates. DeepSeek-V3 has 192 channels, of which the last 64
            rotate.
        warnings: Contradictions among the keys.
    """

    size: Setting[int]
    dim: Setting[int]
    partial: Setting[float] | None = None
    is_latent: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def rotary_channels(self) -> float:
        """The channels that rotate: 32 if `dim` is 128 and a quarter of it rotates."""
        share = 1 if self.partial is None else self.partial.value
        return self.dim.value * share


def width_of(keys: Keys) -> Setting[int] | None:
    """Return the width of the model; if `embed_dim` stands beside another width, it is the one of
    the layers.
    """
    return keys.whole_number("embed_dim") or keys.whole_number(*WIDTHS)


def head_size(keys: Keys, layer_type: str = "") -> Setting[int]:
    """Return the number of channels of an attention head.

    It is the `head_dim` of the layer type, or that of all layers. Many files have neither: then it
    is the model's width over its heads, 4096 // 32 = 128 in Llama 2.

    Raises:
        FileError: No key gives the width, or it is smaller than the number of heads.
    """
    size = _size_of_layer(keys, layer_type) or _size_of_all(keys)
    if size is not None:
        return size
    model_width = keys.required(width_of(keys), "head_dim")
    heads = keys.required(keys.whole_number(*HEAD_COUNT_KEYS), "number of attention heads")
    width = _width_of_attention(keys, model_width)
    channels = width.value // heads.value
    size = computed(channels, "{} // {}", width, heads)
    if channels == 0:
        problem = f"{size.source} is {width.value} // {heads.value}"
        raise FileError(keys.path, problem, "a head must have a channel")
    return size


def _size_of_all(keys: Keys) -> Setting[int] | None:
    """Return the width that a key gives for all layers, or the class.

    An explicit null replaces the default of the class: transformers then divides the model's width
    by its heads. InternLM3 of 4096 channels and 16 heads has 256, although its class has 128.
    """
    is_null = keys.data.get("head_dim", ()) is None
    if is_null:
        keys = replace(keys, defaults=NO_CLASS)
    return keys.whole_number(*SIZES)


def _size_of_layer(keys: Keys, layer_type: str) -> Setting[int] | None:
    """Return the width that the configuration has for layers of one type only.

    `per_layer_config` has an object per layer number, of which the first one of the type counts;
    Gemma 4 has `global_head_dim` for its full layers.
    """
    layers = keys.section("per_layer_config")
    for number, name in enumerate(keys.words("layer_types")):
        if name == layer_type and str(number) in layers:
            return layers.inner(str(number)).whole_number("head_dim")
    if layer_type in SIZES_OF_LAYERS:
        return keys.whole_number(SIZES_OF_LAYERS[layer_type])
    return None


def _width_of_attention(keys: Keys, model_width: Setting[int]) -> Setting[int]:
    """Return the channels that all heads of a layer have together: the width of the model.

    The memory attention of SAM 2's video models has fewer, because a rate divides its width: with a
    `memory_attention_downsample_rate` of 2, the heads share 128 of 256 channels.
    """
    is_memory_attention = model_width == keys.whole_number(MEMORY_WIDTH)
    if not is_memory_attention:
        return model_width
    rate = keys.whole_number("memory_attention_downsample_rate")
    divisor = only_if(rate, lambda number: number > 1)
    return derived(operator.floordiv, "{} // {}", model_width, divisor) or model_width


def head_of(layer: Layer, *, axes: int, scaled: bool) -> Head:
    """Return the width of a layer's heads, and the channels of a head that rotate.

    The rotating channels are, in this order: the rotary part of latent attention (DeepSeek), the
    share of one axis of an image, a number in the file (`rotary_dim`), or a fraction of the head.

    Args:
        layer: The layer type, such as sliding attention, with its keys.
        axes: The number of axes of positions, 2 for rows and columns of an image; 0 for text.
        scaled: True if the layer has a scaling; some classes read a partial factor only then.
    """
    latent_rotating = nonzero(layer.keys.whole_number("qk_rope_head_dim", low=0))
    if latent_rotating is not None:
        return _latent_head(layer, latent_rotating, scaled=scaled)
    size = head_size(layer.keys, layer.name)
    if axes:
        return Head(size=size, dim=_dim_of_axis(size, axes, layer.family))
    rotary_dim = nonzero(_rotary_dim(layer))
    if rotary_dim is not None:
        return Head(size=size, dim=rotary_dim)
    head = _partial_head(layer, size, scaled=scaled)
    return replace(head, warnings=_channels_without_head(layer))


def _channels_without_head(layer: Layer) -> tuple[str, ...]:
    """Return a warning if the model's width is divided by its heads, and leaves a remainder.

    4100 // 32 is 128 channels, which leaves 4 to no head. transformers refuses such files; other
    code rounds down, as is done here.
    """
    keys = layer.keys
    stated_size = _size_of_layer(keys, layer.name) or _size_of_all(keys)
    if stated_size is not None:
        return ()
    width = _width_of_attention(keys, keys.required(width_of(keys), "head_dim"))
    heads = keys.required(keys.whole_number(*HEAD_COUNT_KEYS), "number of attention heads")
    if width.value % heads.value == 0:
        return ()
    return (
        f"{width.source} {width.value} is no multiple of {heads.source} {heads.value}, and head_dim"
        f" is missing: {width.value // heads.value} channels are assumed; transformers refuses it",
    )


def _partial_head(layer: Layer, size: Setting[int], *, scaled: bool) -> Head:
    """Return the head of a layer, all of which rotates unless a fraction is stated.

    A fraction above 1 spreads the frequencies of one axis over several heads: 4 in EfficientLoFTR.

    Args:
        layer: The layer type, with its keys.
        size: The channels of a head.
        scaled: True if the layer has a scaling; some classes read a partial factor only then.
    """
    family = layer.family
    stated = _rotating_fraction(layer, scaled=scaled) or default(family.partial, family.source)
    fraction = other_than_one(stated)
    if fraction is None:
        return Head(size=size, dim=size)
    if family.spreads_heads and fraction.value > 1:
        return Head(size=size, dim=_share_of_head(size, fraction))
    return Head(size=size, dim=size, partial=fraction)


def _dim_of_axis(size: Setting[int], axes: int, family: ModelFamily) -> Setting[int]:
    """Return the channels that one axis rotates, an even number.

    A head of 64 channels has 32 for each of 2 axes, and 20 for each of 3, so that the last 4 do not
    rotate (V-JEPA 2). In Pixtral, the axes take turns among the frequencies of the whole head.
    """
    if axes == 3:
        pairs = size.value // 3 // 2
        return computed(2 * pairs, "2 · (({}) // 3 // 2), one of 3 axes", size)
    if family.axes_alternate:
        return size
    return computed(size.value // 2, "({}) // 2, one of 2 axes", size)


def _rotary_dim(layer: Layer) -> Setting[int] | None:
    """Return the number of rotating channels that a key states; None if there is none.

    `swa_rotary_dim` is the number of sliding layers only. A fraction in the layer's own rotary
    settings takes precedence over both keys.
    """
    if layer.family.ignores_rotary_dim or PARTIAL in layer.settings:
        return None
    if layer.name == SLIDING and "swa_rotary_dim" in layer.keys:
        return layer.keys.whole_number("swa_rotary_dim", low=0)
    return layer.keys.whole_number("rotary_dim", low=0)


def _share_of_head(size: Setting[int], fraction: Setting[float]) -> Setting[int]:
    """Return the channels of a fraction of the head: 64 for 0.5 of 128."""
    return computed(int(size.value * fraction.value), "{} · {}", size, fraction)


def _rotating_fraction(layer: Layer, *, scaled: bool) -> Setting[float] | None:
    """Return the fraction of a head that rotates (`partial_rotary_factor`), if the model reads one.

    GPT-NeoX has 0.25: of the 96 channels of a head, 24 rotate. The fraction stands in the rotary
    settings (`rope_parameters`), or at the top of config.json under one of several names.

    Many classes of transformers ignore one of these places, or both. With a scaling such as YaRN
    they ignore none: frequencies are then computed by a function that all classes share.

    Args:
        layer: The layer type, with its keys and its rotary settings.
        scaled: True if it has a scaling.
    """
    ignored_keys = frozenset() if scaled else layer.keys.defaults.ignores
    fraction_in_settings = _fraction_in_settings(layer, ignored_keys)
    if fraction_in_settings is not None:
        return fraction_in_settings
    if ignored_keys.issuperset((PARTIAL_IN_SETTINGS, PARTIAL)):
        return _default_fraction(layer.keys, ignored_keys)
    return _fraction_at_top(layer.keys, ignored_keys)


def _fraction_in_settings(layer: Layer, ignored_keys: frozenset[str]) -> Setting[float] | None:
    """Return the fraction in the rotary settings; None if there is none, or the class ignores it.

    An ignored one is recorded, for a warning about it.
    """
    settings = layer.settings
    if PARTIAL_IN_SETTINGS in ignored_keys:
        settings.usage.ignored[settings.full_name(PARTIAL)] = layer.keys.defaults.name
        return None
    return settings.number(PARTIAL)


def _default_fraction(keys: Keys, ignored_keys: frozenset[str]) -> Setting[float] | None:
    """Return the default of a class that reads the fraction nowhere; None if it has no default.

    The class does not read other names of the fraction either, such as `rotary_pct`. Those in the
    file are reported as ignored.
    """
    _mark_fractions_of_one_as_read(keys)
    return _fraction_at_top(keys, ignored_keys.union(PARTIALS))


def _fraction_at_top(keys: Keys, ignored: frozenset[str]) -> Setting[float] | None:
    """Return the fraction at the top of config.json, under a name that is not ignored.

    If there is none, it is the default of the class, which may be None.
    """
    defaults = replace(keys.defaults, ignores=ignored)
    return replace(keys, defaults=defaults).number(*PARTIALS)


def _mark_fractions_of_one_as_read(keys: Keys) -> None:
    """Record ignored fractions of 1 as read, so that no warning reports them.

    All channels rotate with them, as they do without the key.
    """
    for name in PARTIALS:
        if as_number(keys.data.get(name)) == 1:
            keys.mark_as_read(name)


def _latent_head(layer: Layer, qk_rope_head_dim: Setting[int], *, scaled: bool) -> Head:
    """Return the sizes of a head of latent attention (MLA), of which only some channels rotate.

    A head of DeepSeek-V3 has 192 channels: 128 that never rotate (`qk_nope_head_dim`) and 64 that do
    (`qk_rope_head_dim`).

    Args:
        layer: The layer type, with its keys.
        qk_rope_head_dim: The number of channels that can rotate.
        scaled: True if the layer has a scaling; some classes read a partial factor only then.
    """
    head_dim = layer.keys.whole_number("head_dim")
    all_channels = _latent_size(layer.keys, qk_rope_head_dim, head_dim)
    # For a few classes of transformers, `head_dim` in the file is what rotates.
    rotary_channels = _head_dim_that_rotates(layer, head_dim) or qk_rope_head_dim
    warnings = _contradicting_dims(rotary_channels, qk_rope_head_dim)
    partial_factor = _rotating_fraction(layer, scaled=scaled)
    if partial_factor is not None and layer.family.partial_of_head:
        # The factor of Mistral 4 and DeepSeek-V4 is a share of all channels: 1/8 of 512 are 64. In
        # other families it is one of the rotary channels: 0.5 would rotate 32 of 64.
        rotary_channels = _share_of_head(all_channels, partial_factor)
        partial_factor = None
    return Head(
        size=all_channels,
        dim=rotary_channels,
        partial=other_than_one(partial_factor),
        is_latent=True,
        warnings=warnings,
    )


def _head_dim_that_rotates(layer: Layer, head_dim: Setting[int] | None) -> Setting[int] | None:
    """Return the `head_dim` of a latent head if the family takes it for the channels that rotate.

    DeepSeek-V3's class in transformers does so if the file has the key. None if it has only the
    class's default, or if `head_dim` is the size of the whole head, as in most families.
    """
    is_in_file = "head_dim" in layer.keys
    return head_dim if layer.family.head_dim_rotates and is_in_file else None


def _latent_size(keys: Keys, rotating: Setting[int], head_dim: Setting[int] | None) -> Setting[int]:
    """Return all channels of a latent head: as stated, or rotating and other channels together.

    DeepSeek-V3 has 128 other channels (`qk_nope_head_dim`) and 64 that rotate, which are 192. A
    `head_dim` is the whole head if it is larger than the channels that rotate.

    Args:
        keys: The keys of the model.
        rotating: The channels that rotate.
        head_dim: `head_dim`, which in some files is the whole head and in others what rotates.
    """
    unrotated = keys.whole_number("qk_nope_head_dim", low=0)
    stated_size = keys.whole_number("qk_head_dim")
    if stated_size is not None:
        return stated_size
    if unrotated is not None:
        return computed(rotating.value + unrotated.value, "{} + {}", unrotated, rotating)
    return only_if(head_dim, lambda size: size > rotating.value) or rotating


def _contradicting_dims(dim: Setting[int], rotating: Setting[int]) -> tuple[str, ...]:
    """Return a warning that transformers and other runtimes differ; none if the numbers agree.

    DeepSeek-V3's class in transformers computes frequencies for `head_dim` if a file has it,
    although its attention rotates `qk_rope_head_dim` channels.

    Args:
        dim: The channels for which transformers computes frequencies.
        rotating: The channels that rotate, `qk_rope_head_dim`.
    """
    if dim.value == rotating.value:
        return ()
    frequencies = f"{dim.source} is {dim.value}, for which transformers computes frequencies"
    channels = f"the {rotating.value} channels of {rotating.source}, which other runtimes go by"
    return (f"{frequencies}: they do not fit {channels}",)
