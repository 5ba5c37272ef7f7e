"""Transformers of diffusers, whose configuration names its class.

diffusers.json has the defaults of the classes: in `axial` those that rotate by several axes, in
`tables` those that add a table, notes on some of them, and in `without` the classes that have no
positions at all, such as autoencoders. Classes with one axis of positions are rows of projects.json.
"""

from dataclasses import dataclass, replace

from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.axis_divisions import MIXED
from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.grid_styles import ROTARY
from pecli.errors import quoted
from pecli.models.data import nonempty, stored
from pecli.models.dialects import renamed_keys
from pecli.models.encoding import Encoding, Grid, ParsedEncodings
from pecli.models.families import INTERLEAVED
from pecli.models.heads import head_size
from pecli.models.keys import (
    ClassDefaults,
    Keys,
    Setting,
    Settings,
    computed,
    derived,
    origins_of,
    values_of,
)
from pecli.models.table_rules import encoding_of, implied_by_family

DEFAULT_BASE = 10000.0
#: PixArt stretches positions by its size over that of 512 pixels, which are 64 latent cells.
PIXART_SIZE = 64


def read(keys: Keys) -> ParsedEncodings:
    """Return the encoding of a config.json of diffusers, which depends on the class that it names.

    Flux rotates by the rows and columns of an image, Stable Diffusion 3 adds a table for patches,
    and some classes rotate by one axis. All others have no encoding, and a warning with the reason.
    """
    class_name = keys.required(keys.word("_class_name"), "_class_name").value
    classes = stored("dialects/diffusers.json")
    if class_name in classes["axial"]:
        return _rope_of_class(keys, class_name)
    if class_name in classes["tables"]:
        return _table_of_class(keys, class_name)
    if renamed_keys.describes("diffusers", keys.data):
        return renamed_keys.read(keys, "diffusers")
    return ParsedEncodings(encodings=[], warnings=[_reason_for_no_encoding(keys, class_name)])


def _rope_of_class(keys: Keys, class_name: str) -> ParsedEncodings:
    """Return the rotary encoding of a class that rotates by several axes, with a note if it has one.

    Its row in the data file names the style of its axes, and the values of keys that a file leaves
    out: Flux has `{"style": "flux", "values": {"axes_dims_rope": [16, 56, 56], …}, …}`.
    """
    classes = stored("dialects/diffusers.json")
    row = classes["axial"][class_name]
    note = classes["notes"].get(class_name, "")
    keys = replace(keys, defaults=ClassDefaults(class_name, row["values"]))
    return ParsedEncodings([_axial_rope(keys, row)], nonempty(note))


def _table_of_class(keys: Keys, class_name: str) -> ParsedEncodings:
    """Return the table of a class that adds one, such as Stable Diffusion 3's table of patches.

    Its row in the data file has the values of keys that a file leaves out.
    """
    default_values = stored("dialects/diffusers.json")["tables"][class_name]
    keys = replace(keys, defaults=ClassDefaults(class_name, default_values))
    read_table = TABLES[class_name]
    return ParsedEncodings([read_table(keys)], [])


def _reason_for_no_encoding(keys: Keys, class_name: str) -> str:
    """Return why no encoding is read for a class of diffusers.

    Either a note describes its positions, or it has none (an autoencoder), or it is not known.
    """
    label = f"_class_name {quoted(class_name)}"
    notes = stored("dialects/diffusers.json")["notes"]
    if class_name in notes:
        return f"{label}: {notes[class_name]}"
    if class_name in _classes_without_positions():
        # Their `scaling_factor` and `freq_shift` are about latents and timesteps.
        keys.mark_as_read(*keys.data)
        return f"no positional encoding was found: {label} has none"
    return f"{label} is not known here: its code decides which encoding it has"


def _classes_without_positions() -> set[str]:
    """Return the names of diffusers.json's list `without`, each line of which has several."""
    lines = stored("dialects/diffusers.json")["without"]
    return set(" ".join(lines).split())


def _size(keys: Keys, name: str) -> Setting[int]:
    return keys.required(keys.whole_number(name), name)


@dataclass(frozen=True)
class AxisChannels:
    """The channels that rotate together, and the share of each axis.

    Flux has a total of 128, and by axis (16, 56, 56). The total is the size of a head, except in LTX,
    which rotates all heads as one vector.
    """

    total: Setting[int]
    by_axis: Setting[tuple[int, ...]]


def _axial_rope(keys: Keys, row: NamedValues) -> Encoding:
    """Return the rotary encoding of a row of `axial`.

    The row has a style, the key of the channels of each axis (`axes`), and perhaps keys for
    `grid_base` and `axis_factors`, and a layout.
    """
    options = _style_options(keys, row)
    channels = _channels_of_axes(keys, row["style"], row["axes"])
    count = len(channels.by_axis.value)
    style = _style_by_axes(row["style"], count)
    grid: dict[str, Setting[object] | None] = {
        "axes": implied_by_family(count),
        "axis_channels": channels.by_axis,
    }
    advice = "which --axes and --positions give channels and numbers"
    axes = f"{count} axes, {advice}"
    if style:
        axes = f"{count} axes: {', '.join(ROTARY[style].axes)}; give a grid"
        grid |= {"style": implied_by_family(style), **options}
    parameters: dict[str, Setting[object]] = {
        "dim": channels.total,
        "base": keys.number_or(DEFAULT_BASE, "rope_theta", "theta"),
        "scaling": Setting("none", "default"),
    }
    layout = implied_by_family(row.get("layout", INTERLEAVED))
    settings = {**parameters, **grid, "head_dim": channels.total, "layout": layout}
    return Encoding(
        layer_type="",
        scheme="rope",
        parameters=values_of(parameters),
        origins=origins_of(settings),
        layout=layout.value,
        head_dim=channels.total.value,
        no_table=f"its positions have {axes}",
        grid=Grid(**values_of(grid)),
    )


def _style_by_axes(style: str, count: int) -> str:
    """Return a style; HunyuanImage with three axes takes its image for a video of one frame."""
    if style == "hunyuan-image" and count == 3:
        return "hunyuan-video"
    return style


def _style_options(keys: Keys, row: NamedValues) -> Settings:
    """Return the numbers of a style that the configuration gives: its `grid_base` and
    `axis_factors`.
    """
    return {
        option: derived(tuple, "{}", keys.numbers(row[option]))
        for option in ("grid_base", "axis_factors")
        if option in row
    }


def _channels_of_axes(keys: Keys, style: str, axes_key: str) -> AxisChannels:
    """Return how many of the rotating channels each axis of an image or video has.

    Flux's files list them: `axes_dims_rope` is [16, 56, 56]. Other files only have the size of a
    head, which each project's style divides in its own way.

    Args:
        keys: The keys of the file.
        style: The style of the positions, such as `flux`.
        axes_key: The key of the list; empty if the class has no such key.
    """
    listed = keys.numbers(axes_key) if axes_key else None
    if listed is not None:
        return _listed_channels(listed)
    return _channels_by_style(keys, style)


def _channels_by_style(keys: Keys, style: str) -> AxisChannels:
    """Return the channels of each axis as a style divides them.

    CogVideoX's style gives 16 of the 64 channels of a head to time, 24 to rows and 24 to columns.
    """
    total = _channels_to_divide(keys, style)
    shares = tuple(int(share) for share in ROTARY[style].split(total.value))
    by_axis = total.implying(shares, f"{total.source}, shared out by the style {style}")
    return AxisChannels(total=total, by_axis=by_axis)


def _channels_to_divide(keys: Keys, style: str) -> Setting[int]:
    """Return the size of a head; in LTX, that of all heads, which it rotates as one vector."""
    head = head_size(keys)
    if ROTARY[style].division is not MIXED:
        return head
    heads = _size(keys, "num_attention_heads")
    return computed(heads.value * head.value, "{} · {}", heads, head)


def _listed_channels(listed: Setting[list[float]]) -> AxisChannels:
    """Return the channels per axis of a list: [16, 56, 56] are a head of 128 channels."""
    counts = tuple(int(count) for count in listed.value)
    total = computed(sum(counts), "the sum of {}", listed)
    return AxisChannels(total=total, by_axis=listed.with_value(counts))


def _all_heads(keys: Keys) -> Setting[int]:
    """Return the channels of all heads together."""
    heads = _size(keys, "num_attention_heads")
    head = _size(keys, "attention_head_dim")
    return computed(heads.value * head.value, "{} · {}", heads, head)


def _table(keys: Keys, style: str, grid: Setting[GridSize], **options: Setting[object]) -> Encoding:
    """Return a table of sines and cosines that is as wide as all heads together."""
    parameters: dict[str, Setting[object]] = {
        "grid": grid,
        "dim": _all_heads(keys),
        "style": implied_by_family(style),
        "base": Setting(DEFAULT_BASE, "default"),
        **options,
    }
    return encoding_of("sinusoidal", parameters)


def _sd3(keys: Keys) -> Encoding:
    """Return Stable Diffusion 3's table of its largest grid, from whose middle the model cuts.

    DiT has no largest grid: its table is the one of its sample.
    """
    return _cut_table(keys)


def _cut_table(keys: Keys, **options: Setting[object]) -> Encoding:
    """Return a square table over patches: as large as `pos_embed_max_size`, or as the sample.

    Its numbers are scaled to the side of the sample, `grid_base`: in a table of 192 × 192 for a
    sample of 64 × 64 patches, positions are in steps of 1/3.
    """
    size = _size(keys, "sample_size")
    patch = _size(keys, "patch_size")
    side = computed(size.value // patch.value, "{} // {}", size, patch)
    largest = keys.whole_number("pos_embed_max_size") or side
    grid = largest.with_value(GridSize((largest.value, largest.value)))
    grid_base = side.with_value((float(side.value),))
    return _table(keys, "sd3", grid, grid_base=grid_base, **options)


def _cogview3(keys: Keys) -> Encoding:
    """Return CogView 3's table of its largest grid, at whole positions."""
    side = _size(keys, "pos_embed_max_size")
    grid = side.with_value(GridSize((side.value, side.value)))
    grid_base = side.with_value((float(side.value),))
    return _table(keys, "sd3", grid, grid_base=grid_base)


def _auraflow(keys: Keys) -> Encoding:
    """Return AuraFlow's learned table of patches."""
    rows = _size(keys, "pos_embed_max_size")
    return encoding_of("learned", {"max_len": rows, "dim": _all_heads(keys)})


def _pixart(keys: Keys) -> Encoding:
    """Return PixArt's table of its own grid, which it stretches: by 2 for a sample_size of 128."""
    size = _size(keys, "sample_size")
    scale = keys.number("interpolation_scale")
    if scale is None:
        stretch = max(size.value // PIXART_SIZE, 1)
        scale = size.implying(float(stretch), f"max({size.source} // {PIXART_SIZE}, 1)")
    return _cut_table(keys, grid_scale=scale.with_value((scale.value,)))


def _cogvideox_encoding(keys: Keys) -> Encoding:
    """Return CogVideoX's encoding: the model of 5B rotates, the one of 2B adds a table."""
    if keys.is_true("use_rotary_positional_embeddings"):
        return _axial_rope(keys, {"style": "cogvideox", "axes": ""})
    grid = _grid_of_video(keys)
    space = keys.number_or(1.0, "spatial_interpolation_scale")
    time = keys.number_or(1.0, "temporal_interpolation_scale")
    scale = computed((time.value, space.value, space.value), "{}, {}", time, space)
    return _table(keys, "cogvideox", grid, grid_scale=scale)


def _grid_of_video(keys: Keys) -> Setting[GridSize]:
    """Return the frames, rows and columns of the tokens of a video.

    CogVideoX has 49 frames of 60 × 90 cells. The first frame is compressed by itself and the others 4
    at a time, and a patch has 2 × 2 cells, so that tokens have 13 frames of 30 rows and 45 columns.
    """
    patch = _size(keys, "patch_size")
    height = _size(keys, "sample_height")
    width = _size(keys, "sample_width")
    frames = _size(keys, "sample_frames")
    ratio = _size(keys, "temporal_compression_ratio")
    token_frames = (frames.value - 1) // ratio.value + 1
    token_rows = height.value // patch.value
    token_columns = width.value // patch.value
    grid = GridSize((token_frames, token_rows, token_columns))
    # The end reads «sample_height, sample_width // patch_size»: both are divided by the patch.
    formula = "({} − 1) // {} + 1, {}, {} // {}"
    return computed(grid, formula, frames, ratio, height, width, patch)


TABLES = {
    "AuraFlowTransformer2DModel": _auraflow,
    "CogView3PlusTransformer2DModel": _cogview3,
    "CogVideoXTransformer3DModel": _cogvideox_encoding,
    "ConsisIDTransformer3DModel": _cogvideox_encoding,
    "DiTTransformer2DModel": _sd3,
    "SD3ControlNetModel": _sd3,
    "SD3Transformer2DModel": _sd3,
    "PixArtTransformer2DModel": _pixart,
}
